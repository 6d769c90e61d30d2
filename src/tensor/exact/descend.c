/*
 * Gradient descent on the weights of a dense layer after a single example. Such an update is bound by the
 * second-level cache, through which all weights and velocities pass: so the gradient is never stored, and the
 * product of the example that follows is taken from the weights while they are in registers.
 */
#include "tensor/exact/isa.h"

/* The sums of a strip, and its part of `right`, live in registers: so many vectors of them as leave room for
 * the rest. Where a strip is narrow, a band of rows is done strip by strip before the next one, so that
 * memory is passed nearly in its order, and the lines of the strip that follows are asked for: the caches'
 * own foresight is for whole rows. HALF: of what is left of a row; vectors one by one pass it too often. */
#if defined(RT_ISA_avx512)
enum { WIDE = 8, HALF = 4, BAND = 1 << 30, ASKS = 0 };
#else
enum { WIDE = 4, HALF = WIDE, BAND = 8, ASKS = 1 };
#endif

/* a * b, where velocities take part: those of inputs that are nearly always 0 decay to denormals and stay so.
 * Zen 4 gives a denormal product a cycle late, and every change between late and timely ones costs it some 18
 * cycles: a third of the time here, as narrow strips go from row to row. A fused product is always in time,
 * and adding -0 to it changes no bit. With wide strips changes are few; and where a fused product is a
 * function, it costs more. */
static inline vec descend_times(vec a, vec b) {
#if defined(RT_ISA_avx2)
    return vec_fma(a, b, vec_all(-0.0f));
#else
    return vec_mul(a, b);
#endif
}

struct strip {
    const struct rt_descent *descent;
    size_t rows, n; /* rows of the strip; columns of the whole matrix */
    const float *left, *right, *next;
    float *w, *v, *sums; /* from the strip's first row and column on */
    size_t ahead;        /* floats from w to the strip that follows */
};

/* Lets the lines of `floats` floats, so many ahead of p, travel to the first-level cache. They may lie beyond
 * the matrix, where nothing is read, and where a pointer must not point. */
INLINE void ask_for(const float *p, const size_t ahead, const size_t floats) {
    enum { LINE = 16 /* floats */ };
    const uintptr_t from = (uintptr_t)p + ahead * sizeof *p;
    _Pragma("GCC unroll 8") for (size_t x = 0; x < floats; x += LINE)
        __builtin_prefetch((const void *)(from + x * sizeof *p), 1, 3);
}

/* `vecs` vectors of columns, all rows of the strip. vecs, raw, moves and follows are constants at every call.
 */
INLINE void run_strip(const size_t vecs, const bool raw, const bool moves, const bool follows,
                      const struct strip *strip) {
    const struct rt_descent *descent = strip->descent;
    const vec lr = vec_all(descent->lr), momentum = vec_all(descent->momentum);
    const vec scale = vec_all(descent->scale), decay = vec_all(descent->decay), zero = vec_all(0);
    const size_t n = strip->n, rows = strip->rows;
    const float *left = strip->left, *next = strip->next, *right = strip->right;
    float *w = strip->w, *v = strip->v;
    vec sums[8], r[8];
    _Pragma("GCC unroll 8") for (size_t q = 0; q < vecs; q++) {
        sums[q] = follows ? vec_load(strip->sums + q * VL) : zero;
        r[q] = vec_load(right + q * VL);
    }
    for (size_t i = 0; i < rows; i++, w += n) {
        const vec l = vec_all(left[i]), x = follows ? vec_all(next[i]) : zero;
        if (ASKS && vecs > 1) {
            ask_for(w, strip->ahead, vecs * VL);
            if (moves)
                ask_for(v, strip->ahead, vecs * VL);
        }
        _Pragma("GCC unroll 8") for (size_t q = 0; q < vecs; q++) {
            vec weight = vec_load(w + q * VL), g = vec_fma(l, r[q], zero);
            if (!raw)
                g = vec_add(vec_mul(g, scale), vec_mul(decay, weight));
            if (moves) {
                g = vec_add(descend_times(momentum, vec_load(v + q * VL)), g);
                vec_store(v + q * VL, g);
            }
            weight = vec_sub(weight, descend_times(lr, g));
            vec_store(w + q * VL, weight);
            if (follows)
                sums[q] = vec_fma(x, weight, sums[q]);
        }
        if (moves)
            v += n;
    }
    if (follows)
        _Pragma("GCC unroll 8") for (size_t q = 0; q < vecs; q++) vec_store(strip->sums + q * VL, sums[q]);
}

/* The columns that fill no vector. */
static void descend_column(const bool raw, const struct strip *strip) {
    const struct rt_descent descent = *strip->descent;
    float *w = strip->w, *v = strip->v;
    for (size_t i = 0; i < strip->rows; i++, w += strip->n) {
        float g = __builtin_fmaf(strip->left[i], *strip->right, 0.0f);
        if (!raw)
            g = g * descent.scale + descent.decay * *w;
        if (v) {
            *v = g = descent.momentum * *v + g;
            v += strip->n;
        }
        *w -= descent.lr * g;
        if (strip->next)
            *strip->sums = __builtin_fmaf(strip->next[i], *w, *strip->sums);
    }
}

/* `rows` rows from row i, column j on. */
static inline struct strip descend_strip_at(const struct strip *whole, size_t i, size_t rows, size_t j) {
    struct strip strip = *whole;
    const size_t at = i * whole->n + j;
    strip.rows = rows;
    strip.left += i;
    strip.right += j;
    strip.w += at;
    strip.v = strip.v ? strip.v + at : NULL;
    strip.next = strip.next ? strip.next + i : NULL;
    strip.sums = strip.next ? strip.sums + j : NULL;
    return strip;
}

INLINE void run_strips(const bool raw, const bool moves, const bool follows, const struct strip *whole) {
    const size_t rows = whole->rows, n = whole->n;
    for (size_t i = 0; i < rows; i += BAND) {
        const size_t count = rows - i < BAND ? rows - i : BAND;
        size_t j = 0;
        for (; j + WIDE * VL <= n; j += WIDE * VL) {
            struct strip strip = descend_strip_at(whole, i, count, j);
            strip.ahead = j + 2 * WIDE * VL <= n ? WIDE * VL : BAND * n - j;
            run_strip(WIDE, raw, moves, follows, &strip);
        }
        for (; HALF < WIDE && j + HALF * VL <= n; j += HALF * VL) {
            const struct strip strip = descend_strip_at(whole, i, count, j);
            run_strip(HALF, raw, moves, follows, &strip);
        }
        for (; j + VL <= n; j += VL) {
            const struct strip strip = descend_strip_at(whole, i, count, j);
            run_strip(1, raw, moves, follows, &strip);
        }
    }
}

void ISA(descend)(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                  const float *right, const float *next, float *sums) {
    const bool raw = descent->scale == 1 && descent->decay == 0;
    const struct strip whole = {descent, rows, n, left, right, next, descent->w, descent->v, sums, 0};
    if (raw && descent->v)
        next ? run_strips(true, true, true, &whole) : run_strips(true, true, false, &whole);
    else if (raw)
        next ? run_strips(true, false, true, &whole) : run_strips(true, false, false, &whole);
    else if (descent->v)
        next ? run_strips(false, true, true, &whole) : run_strips(false, true, false, &whole);
    else
        next ? run_strips(false, false, true, &whole) : run_strips(false, false, false, &whole);
    for (size_t j = n / VL * VL; j < n; j++) {
        const struct strip strip = descend_strip_at(&whole, 0, rows, j);
        descend_column(raw, &strip);
    }
}
