/*
 * The FMA peak of one core, per instruction set: independent multiply-adds on registers and nothing else.
 * Fourteen chains are enough to hide the latency of every unit we know (4 to 5 cycles, two units).
 */
#include "peak.h"
#include "base/clock.h"
#include <stddef.h>

enum { CHAINS = 14, TURNS = 2000 };

typedef void (*burst_fn)(void); /* CHAINS * TURNS multiply-adds on one register each */

struct burst {
    const char *name; /* as train.kernels has it */
    burst_fn run;
    double lanes;
};

/* The chains are named one by one so that they surely stay in registers. The empty asm statements keep the
 * compiler from seeing that they all start alike and that the results are not used. */
#define EACH(what)                                                                                           \
    what(r0) what(r1) what(r2) what(r3) what(r4) what(r5) what(r6) what(r7) what(r8) what(r9) what(r10)      \
        what(r11) what(r12) what(r13)
#define DECLARE(vector) vector r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13;
#define START(r)        r = x;

#if defined(__x86_64__)
#include <immintrin.h>

#define OPAQUE_X(r) __asm__ volatile("" : "+x"(r));
#define OPAQUE_V(r) __asm__ volatile("" : "+v"(r));

__attribute__((target("avx2,fma"))) static void burst_avx2(void) {
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    DECLARE(__m256)
    EACH(START)
    EACH(OPAQUE_X)
    for (int i = 0; i < TURNS; i++) {
#define FMA(r) r = _mm256_fmadd_ps(r, x, y);
        EACH(FMA)
#undef FMA
    }
    EACH(OPAQUE_X)
}

__attribute__((target("avx512f"))) static void burst_avx512(void) {
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
    DECLARE(__m512)
    EACH(START)
    EACH(OPAQUE_V)
    for (int i = 0; i < TURNS; i++) {
#define FMA(r) r = _mm512_fmadd_ps(r, x, y);
        EACH(FMA)
#undef FMA
    }
    EACH(OPAQUE_V)
}

static const struct burst bursts[] = {{"avx2", burst_avx2, 8}, {"avx512", burst_avx512, 16}};

int peak_count(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 0;
    return __builtin_cpu_supports("avx512f") ? 2 : 1;
}

#elif defined(__aarch64__)
#include <arm_neon.h>

#define OPAQUE_W(r) __asm__ volatile("" : "+w"(r));

static void burst_neon(void) {
    float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
    DECLARE(float32x4_t)
    EACH(START)
    EACH(OPAQUE_W)
    for (int i = 0; i < TURNS; i++) {
#define FMA(r)      r = vfmaq_f32(y, r, x);
        EACH(FMA)
#undef FMA
    }
    EACH(OPAQUE_W)
}

static const struct burst bursts[] = {{"neon", burst_neon, 4}};

int peak_count(void) {
    return 1;
}

#else
static const struct burst bursts[] = {{"", NULL, 0}};

int peak_count(void) {
    return 0;
}
#endif

const char *peak_name(int i) {
    return bursts[i].name;
}

double peak_gflops(int i, double seconds) {
    double start = rt_clock_thread(), now = start;
    double count = 0;
    while (now - start < seconds) {
        for (int j = 0; j < 20; j++)
            bursts[i].run();
        count += 20.0 * CHAINS * TURNS * 2 * bursts[i].lanes;
        now = rt_clock_thread();
    }
    return count / (now - start) / 1e9;
}
