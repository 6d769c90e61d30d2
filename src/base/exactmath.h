/*
 * exp, log, tanh, erf and cos of our own: only +, -, *, / and fma on floats (doubles for cos), so every
 * machine, compiler and vector width gives the same bits. Written without branches so that loops over them
 * vectorise. Accuracy is stated at each function and checked by tests/unit/base/test_exactmath.c.
 *
 * The polynomials are minimax fits: the leading terms that are exact in float are kept, the rest minimises
 * the relative error over the reduced interval. An ulp is the distance of neighbouring floats at the result.
 */
#ifndef RT_BASE_EXACTMATH_H
#define RT_BASE_EXACTMATH_H

#include <stdint.h>

#if defined(__FAST_MATH__) || (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0)
#error "the bits need every operation rounded to its own type: no -ffast-math, no wider registers"
#endif

static inline uint32_t rt_float_bits(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float rt_float_from_bits(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float rt_abs(float x) {
    return rt_float_from_bits(rt_float_bits(x) & 0x7fffffffu);
}

/* magnitude with the sign of sign. magnitude must not be negative. */
static inline float rt_with_sign(float magnitude, float sign) {
    return rt_float_from_bits(rt_float_bits(magnitude) | (rt_float_bits(sign) & 0x80000000u));
}

/* 2^n for -126 <= n <= 127; anything for other n, as unsigned arithmetic wraps. */
static inline float rt_power_of_two(int32_t n) {
    return rt_float_from_bits((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 and sets n. For |x| < 200; a NaN gives a NaN and
 * some n between -2^22 and 2^22. */
static inline float rt_exp_reduced(float x, int32_t *n) {
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, found in the low bits */
    float shifted = __builtin_fmaf(x, 0x1.715476p0f, magic);
    float whole = shifted - magic;
    *n = (int32_t)(rt_float_bits(shifted) & 0x7fffffu) - 0x400000;
    float r = __builtin_fmaf(whole, -0x1.62e43p-1f, x);
    r = __builtin_fmaf(whole, 0x1.05c61p-29f, r);
    float p = 0x1.6d71e8p-10f;
    p = __builtin_fmaf(p, r, 0x1.122736p-7f);
    p = __builtin_fmaf(p, r, 0x1.5554c8p-5f);
    p = __builtin_fmaf(p, r, 0x1.5554bp-3f);
    p = __builtin_fmaf(p, r, 0.5f);
    return __builtin_fmaf(r * r, p, r);
}

/* e^x within 1.1 ulp; +inf above 88.722839, 0 below -103.97208, in between down to the smallest denormal. */
static inline float rt_exp(float x) {
    int32_t n;
    x = x > 90.0f ? 90.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float q = rt_exp_reduced(x, &n);
    /* In two steps, because 2^n alone may be too large or too small for a float where the result is not. */
    int32_t half = n >> 1;
    return (1.0f + q) * rt_power_of_two(half) * rt_power_of_two(n - half);
}

/* e^x - 1 within 2 ulp, also near 0. */
static inline float rt_expm1(float x) {
    int32_t n;
    float y = x > 89.0f ? 89.0f : x; /* e^89 is too large already, and its n is 128 */
    y = y < -20.0f ? -20.0f : y;
    float q = rt_exp_reduced(y, &n);
    /* Half of the result first: 2^n may overflow where the result does not. */
    float scale = rt_power_of_two(n - 1);
    float result = 2.0f * __builtin_fmaf(scale, q, scale - 0.5f);
    return rt_abs(x) < 0x1p-60f ? x : result; /* keeps -0 and denormals */
}

/* The natural logarithm within 1 ulp; -inf for 0, NaN for x < 0. */
static inline float rt_log(float x) {
    /* x = 2^e m with sqrt(1/2) <= m < sqrt(2); a denormal is made normal first. */
    float y = x < 0x1p-126f ? x * 0x1p23f : x;
    uint32_t bits = rt_float_bits(y);
    int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float f = rt_float_from_bits(bits - ((uint32_t)e << 23)) - 1.0f;
    float exponent = (float)(x < 0x1p-126f ? e - 23 : e);
    /* log(1 + f) = f - f^2 / 2 + f^3 P(f) */
    float p = -0x1.41ecep-4f;
    p = __builtin_fmaf(p, f, 0x1.07d0ap-3f);
    p = __builtin_fmaf(p, f, -0x1.0ce096p-3f);
    p = __builtin_fmaf(p, f, 0x1.226e5ap-3f);
    p = __builtin_fmaf(p, f, -0x1.54788ap-3f);
    p = __builtin_fmaf(p, f, 0x1.99a596p-3f);
    p = __builtin_fmaf(p, f, -0x1.00022p-2f);
    p = __builtin_fmaf(p, f, 0x1.55554ap-2f);
    p = __builtin_fmaf(p, f, -0.5f);
    float small = __builtin_fmaf(f * f, p, exponent * -0x1.05c61p-29f);
    float result = __builtin_fmaf(exponent, 0x1.62e43p-1f, f + small);
    float outside = x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    result = x < __builtin_inff() ? result : x;
    return x > 0.0f ? result : outside;
}

/* The hyperbolic tangent within 2.5 ulp; exactly 1 or -1 far out. */
static inline float rt_tanh(float x) {
    int32_t n;
    float y = rt_abs(x);
    y = y > 10.0f ? 10.0f : y;
    float q = rt_exp_reduced(y + y, &n);
    float scale = rt_power_of_two(n);
    float t = __builtin_fmaf(scale, q, scale - 1.0f); /* e^(2y) - 1 */
    return rt_with_sign(t / (t + 2.0f), x);
}

/* 1 / (1 + e^-x) within 2.5 ulp, also where it is tiny. */
static inline float rt_sigmoid(float x) {
    float e = rt_exp(-rt_abs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* The error function within 1.5 ulp; exactly 1 or -1 far out. */
static inline float rt_erf(float x) {
    float y = rt_abs(x);
    y = y > 4.0f ? 4.0f : y;
    /* Up to 1: x + x P(x^2). */
    float s = y * y;
    float p = 0x1.4ae4bap-14f;
    p = __builtin_fmaf(p, s, -0x1.a485e6p-11f);
    p = __builtin_fmaf(p, s, 0x1.5419f4p-8f);
    p = __builtin_fmaf(p, s, -0x1.b7fbb4p-6f);
    p = __builtin_fmaf(p, s, 0x1.ce2d2p-4f);
    p = __builtin_fmaf(p, s, -0x1.81273ep-2f);
    p = __builtin_fmaf(p, s, 0x1.06eba8p-3f);
    float near = __builtin_fmaf(y, p, y);
    /* Above 1: 1 - exp(Q(x)), where Q is log(1 - erf). */
    float q = 0x1.86db4ap-13f;
    q = __builtin_fmaf(q, y, -0x1.8259ap-9f);
    q = __builtin_fmaf(q, y, 0x1.65cacep-6f);
    q = __builtin_fmaf(q, y, -0x1.a652ecp-4f);
    q = __builtin_fmaf(q, y, -0x1.46baf8p-1f);
    q = __builtin_fmaf(q, y, -0x1.2088e8p0f);
    q = __builtin_fmaf(q, y, -0x1.662b2ap-12f);
    int32_t n;
    float e = 1.0f + rt_exp_reduced(q, &n);
    float far = 1.0f - e * rt_power_of_two(n);
    return rt_with_sign(y > 1.0f ? far : near, x);
}

/* The cosine for 0 <= x <= pi, absolute error below 6e-16, exact at both ends. In doubles, without fma. */
static inline double rt_cos(double x) {
    /* 1 - 2 sin(y/2)^2, for y = x or pi - x below pi/2; sin by its Taylor series, whose next term is below
     * 2e-17. */
    const double half_pi = 0x1.921fb54442d18p0, pi_high = 0x1.921fb54442d18p1, pi_low = 0x1.1a62633145c07p-53;
    double y = 0.5 * (x < half_pi ? x : (pi_high - x) + pi_low);
    double s = y * y;
    double p = 1.0 - s / 210.0;
    p = 1.0 - s / 156.0 * p;
    p = 1.0 - s / 110.0 * p;
    p = 1.0 - s / 72.0 * p;
    p = 1.0 - s / 42.0 * p;
    p = 1.0 - s / 20.0 * p;
    p = 1.0 - s / 6.0 * p;
    p = y * p;
    double c = 1.0 - 2.0 * (p * p);
    return x < half_pi ? c : -c;
}

#endif
