/* Kernels that go over memory element by element. Plain loops: the compiler vectorises every one of them. */
#include "base/exactmath.h"
#include "base/rng.h"
#include "tensor/exact/loops.h"

#include <string.h>

static inline float gelu(float x) {
    return 0.5f * x * (1.0f + rt_erf(x * 0x1.6a09e6p-1f));
}

/* d/dx of the above: the normal distribution's function, and x times its density. */
static inline float gelu_slope(float x) {
    float below = 0.5f * (1.0f + rt_erf(x * 0x1.6a09e6p-1f));
    float density = 0x1.988454p-2f * rt_exp(-0.5f * x * x);
    return __builtin_fmaf(x, density, below);
}

void ISA(activate)(enum rt_activation act, float arg, size_t n, const float *x, float *y) {
    switch (act) {
    case RT_ACT_NONE:
        if (x != y)
            memmove(y, x, n * sizeof *y);
        break;
    case RT_ACT_RELU:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
        break;
    case RT_ACT_LEAKY:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? arg * x[i] : x[i];
        break;
    case RT_ACT_ELU:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? arg * rt_expm1(x[i]) : x[i];
        break;
    case RT_ACT_SIGMOID:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = rt_sigmoid(x[i]);
        break;
    case RT_ACT_TANH:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = rt_tanh(x[i]);
        break;
    case RT_ACT_GELU:
        IN_PLACE for (size_t i = 0; i < n; i++) y[i] = gelu(x[i]);
        break;
    }
}

void ISA(activate_back)(enum rt_activation act, float arg, size_t n, const float *x, const float *y,
                        const float *dy, float *dx) {
    switch (act) {
    case RT_ACT_NONE:
        if (dx != dy)
            memmove(dx, dy, n * sizeof *dx);
        break;
    case RT_ACT_RELU:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
        break;
    case RT_ACT_LEAKY:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = y[i] <= 0.0f ? arg * dy[i] : dy[i];
        break;
    case RT_ACT_ELU:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = y[i] <= 0.0f ? dy[i] * (y[i] + arg) : dy[i];
        break;
    case RT_ACT_SIGMOID:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
        break;
    case RT_ACT_TANH:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = dy[i] * __builtin_fmaf(-y[i], y[i], 1.0f);
        break;
    case RT_ACT_GELU:
        IN_PLACE for (size_t i = 0; i < n; i++) dx[i] = dy[i] * gelu_slope(x[i]);
        break;
    }
}

void ISA(add)(size_t n, const float *x, float *y) {
    IN_PLACE for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static inline uint32_t random_high_word(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* rt_rng_block for the sixteen blocks b, b + 1, ... at once, block after block. */
static void random_blocks(uint64_t seed, uint32_t stream, uint64_t a, uint32_t b, uint32_t out[4 * LANES]) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32) ^ ((uint32_t)RT_PURPOSE_DROPOUT << 24);
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t w0 = (uint32_t)a, w1 = (uint32_t)(a >> 32), w2 = b + l, w3 = stream;
        for (uint32_t round = 0; round < 10; round++) {
            uint32_t high0 = random_high_word(0xD2511F53u, w0), low0 = 0xD2511F53u * w0;
            uint32_t high2 = random_high_word(0xCD9E8D57u, w2), low2 = 0xCD9E8D57u * w2;
            w0 = high2 ^ w1 ^ (key0 + round * 0x9E3779B9u);
            w1 = low2;
            w2 = high0 ^ w3 ^ (key1 + round * 0xBB67AE85u);
            w3 = low0;
        }
        out[4 * l] = w0;
        out[4 * l + 1] = w1;
        out[4 * l + 2] = w2;
        out[4 * l + 3] = w3;
    }
}

void ISA(dropout)(size_t n, uint64_t seed, uint32_t layer, uint32_t epoch, uint32_t example,
                  uint32_t threshold, float factor, const float *x, float *y) {
    uint64_t where = (uint64_t)epoch << 32 | example;
    for (size_t i = 0; i < n; i += 4 * LANES) {
        uint32_t word[4 * LANES];
        random_blocks(seed, layer, where, (uint32_t)(i / 4), word);
        size_t count = n - i < 4 * LANES ? n - i : 4 * LANES;
        const float *from = x + i;
        float *to = y + i;
        IN_PLACE for (size_t l = 0; l < count; l++) to[l] = word[l] < threshold ? from[l] * factor : 0.0f;
    }
}

void ISA(from_bytes)(size_t n, const uint8_t *x, float factor, float offset, float *y) {
    IN_PLACE for (size_t i = 0; i < n; i++) y[i] = __builtin_fmaf((float)x[i], factor, offset);
}
