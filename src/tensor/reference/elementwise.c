/* Element by element, in the reference. */
#include "base/exactmath.h"
#include "base/rng.h"
#include "tensor/reference/reference.h"

static const float root_half = 0x1.6a09e6p-1f;       /* 1 / sqrt(2) */
static const float density_at_zero = 0x1.988454p-2f; /* 1 / sqrt(2 pi) */

float rt_reference_act(enum rt_activation act, float arg, float x) {
    switch (act) {
    case RT_ACT_NONE:
        return x;
    case RT_ACT_RELU:
        return x < 0.0f ? 0.0f : x;
    case RT_ACT_LEAKY:
        return x < 0.0f ? arg * x : x;
    case RT_ACT_ELU:
        return x < 0.0f ? arg * rt_expm1(x) : x;
    case RT_ACT_SIGMOID:
        return rt_sigmoid(x);
    case RT_ACT_TANH:
        return rt_tanh(x);
    case RT_ACT_GELU:
        return 0.5f * x * (1.0f + rt_erf(x * root_half));
    }
    return x;
}

/* The derivative is told from the output y alone, but for GELU. Where y is 0 the left one is taken; so an
 * argument of 0, whose outputs are 0 all over the left, is right too. */
static float act_back(enum rt_activation act, float arg, float x, float y, float dy) {
    switch (act) {
    case RT_ACT_NONE:
        return dy;
    case RT_ACT_RELU:
        return y <= 0.0f ? 0.0f : dy;
    case RT_ACT_LEAKY:
        return y <= 0.0f ? arg * dy : dy;
    case RT_ACT_ELU:
        return y <= 0.0f ? dy * (y + arg) : dy;
    case RT_ACT_SIGMOID:
        return dy * (y * (1.0f - y));
    case RT_ACT_TANH:
        return dy * __builtin_fmaf(-y, y, 1.0f);
    case RT_ACT_GELU: {
        float below = 0.5f * (1.0f + rt_erf(x * root_half));
        float density = density_at_zero * rt_exp(-0.5f * x * x);
        return dy * __builtin_fmaf(x, density, below);
    }
    }
    return dy;
}

void rt_reference_activate(enum rt_activation act, float arg, size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = rt_reference_act(act, arg, x[i]);
}

void rt_reference_activate_back(enum rt_activation act, float arg, size_t n, const float *x, const float *y,
                                const float *dy, float *dx) {
    for (size_t i = 0; i < n; i++)
        dx[i] = act_back(act, arg, act == RT_ACT_GELU ? x[i] : 0.0f, y[i], dy[i]);
}

void rt_reference_add(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void rt_reference_dropout(size_t n, uint64_t seed, uint32_t layer, uint32_t epoch, uint32_t example,
                          uint32_t threshold, float factor, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        rt_rng_block(seed, RT_PURPOSE_DROPOUT, layer, (uint64_t)epoch << 32 | example, (uint32_t)(i / 4),
                     word);
        y[i] = word[i % 4] < threshold ? x[i] * factor : 0.0f;
    }
}

void rt_reference_from_bytes(size_t n, const uint8_t *x, float factor, float offset, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = __builtin_fmaf((float)x[i], factor, offset);
}
