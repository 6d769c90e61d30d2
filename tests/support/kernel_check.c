#include "support/kernel_check.h"

#include "base/exactmath.h"
#include "base/rng.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>

enum { MAX_TAKEN = 256, SPARE = 32, MAX_REPORTS = 10 };

static void *taken[MAX_TAKEN];
static size_t taken_count;

static void *keep(void *memory) {
    if (!memory || taken_count == MAX_TAKEN) {
        fprintf(stderr, "no memory left for a kernel check\n");
        exit(1);
    }
    taken[taken_count++] = memory;
    return memory;
}

void *kc_take(size_t bytes) {
    return keep(malloc(bytes ? bytes : 1));
}

void kc_release(void) {
    while (taken_count > 0)
        free(taken[--taken_count]);
}

void *kc_scratch(size_t bytes) {
    size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = keep(aligned_alloc(64, rounded ? rounded : 64));
    memset(memory, 0xff, rounded);
    return memory;
}

float *kc_numbers(size_t n, uint32_t seed) {
    float *x = kc_take(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, 0, i, 0, word);
        x[i] = 2 * rt_rng_unit(word[0]) - 1;
        if (word[1] % 8 == 0)
            x[i] *= ldexpf(1, (int)(word[1] >> 8) % 12);
    }
    return x;
}

float *kc_specials(size_t n, uint32_t seed) {
    static const float special[] = {0,    -0.0f,     1,         -1,         1,       0,     -0.0f,
                                    -2,   2,         0x1p-149f, -0x1p-130f, FLT_MAX, 88.7f, -90,
                                    0.5f, -INFINITY, INFINITY,  -NAN,       NAN};
    float *x = kc_numbers(n, seed);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, 1, i, 0, word);
        if (word[0] % 2 == 0)
            x[i] = special[word[1] % (sizeof special / sizeof special[0])];
    }
    return x;
}

struct kc_pair kc_pair_create(size_t n, const float *source) {
    struct kc_pair pair = {n, kc_numbers(n + SPARE, 99), kc_numbers(n + SPARE, 99)};
    if (source && n) {
        memcpy(pair.want, source, n * sizeof *source);
        memcpy(pair.got, source, n * sizeof *source);
    }
    return pair;
}

void kc_pair_compare(const struct kc_pair *pair, const char *where, ...) {
    for (size_t i = 0; i < pair->n + SPARE; i++) {
        float want = pair->want[i], got = pair->got[i];
        if (rt_float_bits(want) == rt_float_bits(got) || (want != want && got != got))
            continue;
        if (rt_test_failures >= MAX_REPORTS) {
            rt_test_failures++;
            return;
        }
        char text[256];
        va_list args;
        va_start(args, where);
        vsnprintf(text, sizeof text, where, args);
        va_end(args);
        rt_test_fail(__FILE__, __LINE__, "%s: element %zu of %zu is %a, not %a", text, i, pair->n,
                     (double)got, (double)want);
        return;
    }
}
