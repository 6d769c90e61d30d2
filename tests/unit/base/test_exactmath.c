/*
 * The functions of base/exactmath.h against libm in double: the stated accuracy over all floats (every 1261st
 * bit pattern, so that every sign and exponent is met), the ends of the range, and known bits, so that
 * no machine or compiler may quietly differ.
 */
#include "base/exactmath.h"
#include "support/test.h"

#include <math.h>

/* Error in units of the last place of the float nearest to want. */
static double error_ulp(float got, double want) {
    float nearest = (float)want;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(got))
        return nearest == got ? 0 : INFINITY;
    int exponent;
    frexp(want, &exponent);
    exponent = exponent < -125 ? -125 : exponent; /* denormals have the spacing of the smallest normals */
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static void check_all(const char *name, float (*ours)(float), double (*libm)(double), double limit) {
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 1261) {
        float x = rt_float_from_bits((uint32_t)bits);
        double error = error_ulp(ours(x), libm((double)x));
        if (error > worst) {
            worst = error;
            at = x;
        }
    }
    CHECK_MSG(worst <= limit, "%s(%.9g): %g ulp, stated are %g", name, (double)at, worst, limit);
}

/* The same between two numbers, in equal steps: where the functions bend. */
static void check_range(const char *name, float (*ours)(float), double (*libm)(double), double from,
                        double to, double limit) {
    double worst = 0;
    float at = 0;
    for (int i = 0; i <= 1000000; i++) {
        float x = (float)(from + (to - from) * i / 1e6);
        double error = error_ulp(ours(x), libm((double)x));
        if (error > worst) {
            worst = error;
            at = x;
        }
    }
    CHECK_MSG(worst <= limit, "%s(%.9g): %g ulp, stated are %g", name, (double)at, worst, limit);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

TEST(exp_accuracy) {
    check_all("exp", rt_exp, exp, 1.1);
    check_range("exp", rt_exp, exp, -104, 89, 1.1);
    check_range("exp", rt_exp, exp, -0.7, 0.7, 1.1);
}

TEST(expm1_accuracy) {
    check_all("expm1", rt_expm1, expm1, 2);
    check_range("expm1", rt_expm1, expm1, -20, 2, 2);
    check_range("expm1", rt_expm1, expm1, 87, 90, 2);
}

TEST(log_accuracy) {
    check_all("log", rt_log, log, 1);
    check_range("log", rt_log, log, 0.5, 2, 1);
    check_range("log", rt_log, log, 0.999, 1.001, 1);
}

TEST(tanh_accuracy) {
    check_all("tanh", rt_tanh, tanh, 2.5);
    check_range("tanh", rt_tanh, tanh, -10, 10, 2.5);
    check_range("tanh", rt_tanh, tanh, 0, 0.7, 2.5);
}

TEST(sigmoid_accuracy) {
    check_all("sigmoid", rt_sigmoid, sigmoid, 2.5);
    check_range("sigmoid", rt_sigmoid, sigmoid, -104, 20, 2.5);
}

TEST(erf_accuracy) {
    check_all("erf", rt_erf, erf, 1.5);
    check_range("erf", rt_erf, erf, -4.5, 4.5, 1.5);
    check_range("erf", rt_erf, erf, 0.98, 1.02, 1.5);
}

TEST(cos_accuracy) {
    const double pi = 0x1.921fb54442d18p1;
    double worst = 0;
    for (int i = 0; i <= 1000000; i++) {
        double x = pi * i / 1e6, error = fabs(rt_cos(x) - cos(x));
        worst = error > worst ? error : worst;
    }
    CHECK_MSG(worst < 6e-16, "cos: %g", worst);
    CHECK(rt_cos(0) == 1 && rt_cos(pi) == -1);
}

TEST(ends_of_the_range) {
    const float inf = INFINITY;
    CHECK(rt_exp(-inf) == 0 && !signbit(rt_exp(-inf)));
    CHECK(rt_exp(inf) == inf && rt_exp(88.73f) == inf && isfinite(rt_exp(88.72f)));
    CHECK(rt_exp(-104.0f) == 0 && rt_exp(-103.5f) == 0x1p-149f && rt_exp(-1e30f) == 0);
    CHECK(rt_exp(0.0f) == 1 && rt_exp(-0.0f) == 1);
    CHECK(rt_expm1(-inf) == -1 && rt_expm1(inf) == inf && rt_expm1(88.73f) == inf);
    CHECK(rt_log(0.0f) == -inf && rt_log(-0.0f) == -inf && rt_log(inf) == inf && rt_log(1.0f) == 0);
    CHECK(isnan(rt_log(-1.0f)) && isnan(rt_log(-inf)) && isnan(rt_log(-0x1p-149f)));
    CHECK(rt_tanh(inf) == 1 && rt_tanh(-inf) == -1 && rt_tanh(20.0f) == 1 && rt_tanh(-9.5f) == -1);
    CHECK(rt_sigmoid(inf) == 1 && rt_sigmoid(-inf) == 0 && rt_sigmoid(0.0f) == 0.5f &&
          rt_sigmoid(-100.0f) > 0);
    CHECK(rt_erf(inf) == 1 && rt_erf(-inf) == -1 && rt_erf(5.0f) == 1);
    CHECK(isnan(rt_exp(NAN)) && isnan(rt_expm1(NAN)) && isnan(rt_log(NAN)) && isnan(rt_tanh(NAN)));
    CHECK(isnan(rt_sigmoid(NAN)) && isnan(rt_erf(NAN)));
}

TEST(odd_functions_keep_the_sign_of_zero_and_denormals) {
    float (*odd[])(float) = {rt_tanh, rt_erf, rt_expm1};
    for (size_t i = 0; i < 3; i++) {
        CHECK(odd[i](0.0f) == 0 && !signbit(odd[i](0.0f)));
        CHECK(odd[i](-0.0f) == 0 && signbit(odd[i](-0.0f)));
        CHECK(odd[i](0x1p-149f) == 0x1p-149f && odd[i](-0x1p-149f) == -0x1p-149f);
    }
}

/* Where a formula is cut off or changed for another, nothing falls by more than its error. */
TEST(no_steps_down_at_the_seams) {
    struct {
        const char *name;
        float (*ours)(float);
        float from, to;
    } cases[] = {
        {"exp", rt_exp, 88.6f, 88.8f},         {"exp", rt_exp, -104.5f, -103.0f},
        {"expm1", rt_expm1, -20.5f, -16.0f},   {"tanh", rt_tanh, 8.5f, 10.5f},
        {"erf", rt_erf, 3.7f, 4.2f},           {"erf", rt_erf, 0.9999f, 1.0001f},
        {"sigmoid", rt_sigmoid, 16.0f, 18.0f}, {"sigmoid", rt_sigmoid, -105.0f, -103.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float before = cases[i].ours(cases[i].from);
        size_t falls = 0;
        for (float x = cases[i].from; x < cases[i].to; x = nextafterf(x, INFINITY)) {
            float now = cases[i].ours(x);
            falls += now < before && rt_abs(now - before) > 3e-7f * rt_abs(before);
            before = now;
        }
        CHECK_MSG(falls == 0, "%s falls %zu times above %g", cases[i].name, falls, (double)cases[i].from);
        CHECK(before > cases[i].ours(cases[i].from));
    }
}

/* A hash of many results: a known answer, the same on every machine. */
TEST(known_bits) {
    float (*functions[])(float) = {rt_exp, rt_expm1, rt_log, rt_tanh, rt_sigmoid, rt_erf};
    static const uint32_t known[] = {0x45807605u, 0xf5ccbfdfu, 0xf302dd04u,
                                     0x3c1c7bcau, 0x0451763fu, 0x9a7fd506u};
    for (size_t f = 0; f < 6; f++) {
        uint32_t hash = 2166136261u;
        for (uint32_t bits = 0; bits < 0xff000000u; bits += 99991) {
            float result = functions[f](rt_float_from_bits(bits));
            hash = (hash ^ (isnan(result) ? 0x7fc00000u : rt_float_bits(result))) * 16777619u;
        }
        CHECK_MSG(hash == known[f], "function %zu: hash %#x, known is %#x", f, (unsigned)hash,
                  (unsigned)known[f]);
    }
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i <= 1000; i++) {
        double result = rt_cos(0x1.921fb54442d18p1 * i / 1000);
        uint64_t bits;
        memcpy(&bits, &result, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    CHECK_MSG(hash == 0x12c30bce359ba1bu, "cos: hash %#llx", (unsigned long long)hash);
}

TEST_MAIN()
