/*
 * What the plain loops of this directory share: a hint that lets them vectorise in place, and sums in
 * sixteen lanes.
 */
#ifndef RT_TENSOR_EXACT_LOOPS_H
#define RT_TENSOR_EXACT_LOOPS_H

#include "tensor/exact/isa.h"

/* Before a loop whose iteration i reads and writes index i only: then the output may be one of the inputs.
 * Without it the compiler adds a test for overlap and takes the scalar loop where they are the same. */
#if defined(__GNUC__) && !defined(__clang__)
#define IN_PLACE _Pragma("GCC ivdep")
#else
#define IN_PLACE
#endif

enum { LANES = 16 };

/* v = x[0..count), filled up. A lane of a sum starts from +0 and so never is -0: a filled-up +0 adds nothing.
 */
static inline void load_part(const float *restrict x, size_t count, float fill, float *restrict v) {
    for (int32_t l = 0; l < LANES; l++)
        v[l] = l < (int32_t)count ? x[l] : fill;
}

/* x[0..count) = v */
static inline void store_part(const float *restrict v, size_t count, float *restrict x) {
    for (int32_t l = 0; l < LANES; l++)
        if (l < (int32_t)count)
            x[l] = v[l];
}

static inline float fold(const float lane[LANES]) {
    float v[LANES];
    for (size_t l = 0; l < 8; l++)
        v[l] = lane[l] + lane[l + 8];
    for (size_t l = 0; l < 4; l++)
        v[l] += v[l + 4];
    for (size_t l = 0; l < 2; l++)
        v[l] += v[l + 2];
    return v[0] + v[1];
}

#endif
