/*
 * Gradient descent on the weights of a dense layer after a single example. Such an update is bound by the
 * second-level cache, through which all weights and velocities pass: so the gradient is never stored, and the
 * product of the example that follows is taken from the weights while they are in registers.
 */
#include "tensor/exact/isa.h"

struct strip {
    const struct rt_descent *descent;
    size_t rows, n; /* of the whole matrix */
    const float *left, *right, *next;
    float *w, *v, *sums; /* from the strip's first column on, as right */
};

/* `vecs` vectors of columns, all rows. vecs, raw, moves and follows are constants at every call. */
INLINE void run_strip(const size_t vecs, const bool raw, const bool moves, const bool follows,
                      const struct strip *strip) {
    const struct rt_descent *descent = strip->descent;
    const vec lr = vec_all(descent->lr), momentum = vec_all(descent->momentum);
    const vec scale = vec_all(descent->scale), decay = vec_all(descent->decay), zero = vec_all(0);
    const size_t n = strip->n, rows = strip->rows;
    const float *left = strip->left, *next = strip->next, *right = strip->right;
    float *w = strip->w, *v = strip->v;
    vec sums[8];
    _Pragma("GCC unroll 8") for (size_t q = 0; q < vecs; q++) sums[q] =
        follows ? vec_load(strip->sums + q * VL) : zero;
    for (size_t i = 0; i < rows; i++, w += n) {
        const vec l = vec_all(left[i]), x = follows ? vec_all(next[i]) : zero;
        _Pragma("GCC unroll 8") for (size_t q = 0; q < vecs; q++) {
            vec weight = vec_load(w + q * VL), g = vec_fma(l, vec_load(right + q * VL), zero);
            if (!raw)
                g = vec_add(vec_mul(g, scale), vec_mul(decay, weight));
            if (moves) {
                g = vec_add(vec_mul(momentum, vec_load(v + q * VL)), g);
                vec_store(v + q * VL, g);
            }
            weight = vec_sub(weight, vec_mul(lr, g));
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
static void run_column(const bool raw, const struct strip *strip) {
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

/* The sums of a strip live in registers: so many vectors of them as leave room for the rest. */
#if defined(RT_ISA_avx512)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif

/* From column j on. */
static struct strip strip_at(const struct strip *whole, size_t j) {
    struct strip strip = *whole;
    strip.right += j;
    strip.w += j;
    strip.v = strip.v ? strip.v + j : NULL;
    strip.sums = strip.next ? strip.sums + j : NULL;
    return strip;
}

INLINE size_t run_strips(const bool raw, const bool moves, const bool follows, const struct strip *whole) {
    size_t j = 0;
    for (size_t width; j + VL <= whole->n; j += width) {
        const struct strip strip = strip_at(whole, j);
        width = j + WIDE * VL <= whole->n ? WIDE * VL : VL;
        if (width == VL)
            run_strip(1, raw, moves, follows, &strip);
        else
            run_strip(WIDE, raw, moves, follows, &strip);
    }
    return j;
}

void ISA(descend)(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                  const float *right, const float *next, float *sums) {
    const bool raw = descent->scale == 1 && descent->decay == 0;
    const struct strip whole = {descent, rows, n, left, right, next, descent->w, descent->v, sums};
    size_t j;
    if (raw && descent->v)
        j = next ? run_strips(true, true, true, &whole) : run_strips(true, true, false, &whole);
    else if (raw)
        j = next ? run_strips(true, false, true, &whole) : run_strips(true, false, false, &whole);
    else if (descent->v)
        j = next ? run_strips(false, true, true, &whole) : run_strips(false, true, false, &whole);
    else
        j = next ? run_strips(false, false, true, &whole) : run_strips(false, false, false, &whole);
    for (; j < n; j++) {
        const struct strip strip = strip_at(&whole, j);
        run_column(raw, &strip);
    }
}
