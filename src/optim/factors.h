/* A gradient that is the product of two factors, rounded as the matrix product would have done it. */
#ifndef RT_OPTIM_FACTORS_H
#define RT_OPTIM_FACTORS_H

/* Not left * right: a product of zero starts from 0, so -0 becomes 0, while one too small for a float keeps
 * its sign. For loops under RT_CLONES_FMA. */
static inline float rt_factors_product(float left, float right) {
    return __builtin_fmaf(left, right, 0.0f);
}

#endif
