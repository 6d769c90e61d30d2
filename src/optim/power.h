/* Whole powers by repeated squaring, because pow() of different C libraries gives different last bits. */
#ifndef RT_OPTIM_POWER_H
#define RT_OPTIM_POWER_H

#include <stdint.h>

static inline double rt_power(double base, uint64_t exponent) {
    double result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

#endif
