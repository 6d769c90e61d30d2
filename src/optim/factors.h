/* A gradient that is the product of two factors, as the matrix product would have made it: fma(left, right,
 * 0) by * and + alone, which every instruction set has. */
#ifndef RT_OPTIM_FACTORS_H
#define RT_OPTIM_FACTORS_H

/* A product that is zero because a factor is starts from 0, so -0 becomes 0; one too small for a float keeps
 * its sign. */
static inline float rt_factors_product(float left, float right) {
    float product = left * right;
    return (left == 0.0f) | (right == 0.0f) ? product + 0.0f : product;
}

#endif
