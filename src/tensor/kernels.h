/*
 * The table of kernels: everything that touches numbers in bulk, single-threaded, on plain memory.
 *
 * There are several tables with the same entries. `reference` is written to be read: it is the oracle.
 * `exact` exists once per instruction set (avx512, avx2, neon, portable), the same source compiled several
 * times; every one of them gives the reference's bits. `fast` hands matrix products to a BLAS.
 *
 * What makes the bits equal (the contract of every entry):
 *   - a matrix product is, for each output, acc = start; for p in 0..k-1: acc = fma(a[p], b[p], acc);
 *   - a sum over the elements of one row uses sixteen lanes: lane l adds the elements l, l+16, l+32 ... in
 *     order starting from 0, then lanes are folded by halves (l += l+8, then 4, 2, 1); see rt_sum16;
 *   - a sum over examples (rows) goes in the order of the rows, continuing from what the output holds;
 *   - maximum and relu are compare-and-select; the functions exp, log, tanh, erf are those of
 * base/exactmath.h;
 *   - nothing is contracted or re-associated by the compiler (-ffp-contract=off, no -ffast-math).
 */
#ifndef RT_TENSOR_KERNELS_H
#define RT_TENSOR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rt_activation {
    RT_ACT_NONE,
    RT_ACT_RELU,  /* x < 0 ? 0 : x   (a NaN stays a NaN) */
    RT_ACT_LEAKY, /* x < 0 ? arg * x : x */
    RT_ACT_ELU,   /* x < 0 ? arg * expm1(x) : x */
    RT_ACT_SIGMOID,
    RT_ACT_TANH,
    RT_ACT_GELU, /* x/2 (1 + erf(x / sqrt 2)) */
};

/* Gradient descent on some parameters. For a gradient g, in this order:
 *   unless scale is 1 and decay 0: g = g * scale + decay * w;
 *   if there is a velocity: g = v = momentum * v + g;
 *   w = w - lr * g. */
struct rt_descent {
    float lr, momentum;
    float scale, decay; /* what clips a gradient, and the pull of weight decay */
    float *w, *v;       /* v NULL: no velocity */
};

/* A piece of the k axis that lies elsewhere than the one before it. */
struct rt_gemm_piece {
    size_t k;
    const float *a, *b, *b_packed; /* as in struct rt_gemm, with the same steps */
};

/* C = act(start + A B), where start is C itself (accumulate), else bias (one per column), else 0. */
struct rt_gemm {
    size_t m, n, k;
    const float *a;
    size_t a_row, a_col; /* A[i][p] = a[i * a_row + p * a_col] */
    const float *b;
    size_t b_row, b_col;   /* B[p][j] = b[p * b_row + j * b_col] */
    const float *b_packed; /* B as written by pack, or NULL; then b is not read */
    float *c;
    size_t c_row; /* C[i][j] = c[i * c_row + j] */
    bool accumulate;
    const float *bias;
    enum rt_activation act;
    float act_arg;
    /* k goes on in these, in order: the product is that of all pieces one behind the other. */
    const struct rt_gemm_piece *more;
    size_t more_count;
};

/* The product over one piece alone (0: the first): all of them, one after another, are the whole product. */
static inline struct rt_gemm rt_gemm_piece(const struct rt_gemm *g, size_t index) {
    struct rt_gemm one = *g;
    one.more = NULL;
    one.more_count = 0;
    if (index < g->more_count)
        one.act = RT_ACT_NONE;
    if (index > 0) {
        const struct rt_gemm_piece *piece = &g->more[index - 1];
        one.k = piece->k;
        one.a = piece->a;
        one.b = piece->b;
        one.b_packed = piece->b_packed;
        one.accumulate = true;
    }
    return one;
}

/* A convolution: x [images][channels][height][width] -> y [images][filters][out_height][out_width];
 * weights [filters][channels / groups][kernel_h][kernel_w]. */
struct rt_conv {
    size_t channels, height, width;
    size_t filters, kernel_h, kernel_w;
    size_t stride, pad, groups;
    size_t out_height, out_width;
};

/* A pooling window over [channels][height][width]. Padding never wins a maximum; avgpool divides by the
 * number of elements inside the image. */
struct rt_window {
    size_t channels, height, width;
    size_t kernel, stride, pad;
    size_t out_height, out_width;
};

struct rt_kernels {
    const char *name; /* "reference", "exact/avx512", ... */

    /* --- products ------------------------------------------------------------------------------- */
    size_t panel; /* columns per packed panel; ranges of n split at multiples */
    size_t (*packed_floats)(size_t k, size_t n); /* 0: this table does not pack */
    /* Packs columns n0..n1 (n0 a multiple of panel) of B[k][n]; panel q starts at packed + q * panel * k. */
    void (*pack)(size_t k, size_t n0, size_t n1, size_t n, const float *b, size_t b_row, size_t b_col,
                 float *packed);
    size_t gemm_scratch; /* bytes of scratch that gemm needs */
    void (*gemm)(const struct rt_gemm *g, void *scratch);

    /* The descent of w [rows][n] whose gradient is the product of two factors, g = fma(left[i], right[j], 0),
     * and is never stored: a dense layer's weights after a single example. Then the product of the example
     * that follows with the weights as they are now: sums[j] = fma(next[i], w, sums[j]) over the rows in
     * order; next NULL: none. */
    void (*descend)(const struct rt_descent *descent, size_t rows, size_t n, const float *left,
                    const float *right, const float *next, float *sums);

    /* --- convolution ---------------------------------------------------------------------------- */
    /* The sum for one output runs over (channel, kernel row, kernel column); for an input gradient over
     * (filter, kernel row, kernel column); for a weight gradient over (image, output row, output column);
     * padding takes part as zeros in all three. A bias gradient is, per image, rt_sum16 of the filter's
     * plane, added in the order of the images. Weights may be prepared once for many calls;
     * prepared may be NULL. */
    size_t (*conv_scratch)(const struct rt_conv *conv); /* bytes, for any of the three */
    size_t (*conv_prepared)(const struct rt_conv *conv, bool input_gradient); /* floats; may be 0 */
    void (*conv_prepare)(const struct rt_conv *conv, const float *w, bool input_gradient, float *prepared);
    void (*conv_forward)(const struct rt_conv *conv, size_t images, const float *x, const float *w,
                         const float *prepared, const float *bias, enum rt_activation act, float act_arg,
                         float *y, void *scratch);
    void (*conv_input)(const struct rt_conv *conv, size_t images, const float *dy, const float *w,
                       const float *prepared, float *dx, void *scratch);
    /* Filters first..first+count-1 only; dw and db point at the whole blocks; db may be NULL. */
    void (*conv_weights)(const struct rt_conv *conv, size_t images, size_t first, size_t count,
                         const float *x, const float *dy, bool accumulate, float *dw, float *db,
                         void *scratch);

    /* --- element by element --------------------------------------------------------------------- */
    void (*activate)(enum rt_activation act, float arg, size_t n, const float *x, float *y); /* y may be x */
    /* dx = dy * act'(x). y is the output; x is read for GELU only (else it may be NULL). dx may be dy. Where
     * y is 0 the derivative from the left is taken. */
    void (*activate_back)(enum rt_activation act, float arg, size_t n, const float *x, const float *y,
                          const float *dy, float *dx);
    void (*add)(size_t n, const float *x, float *y); /* y += x */
    /* y[i] = word i < threshold ? x[i] * factor : 0, where word i is element i % 4 of rt_rng_block(seed,
     * RT_PURPOSE_DROPOUT, layer, (uint64_t)epoch << 32 | example, i / 4). y may be x. */
    void (*dropout)(size_t n, uint64_t seed, uint32_t layer, uint32_t epoch, uint32_t example,
                    uint32_t threshold, float factor, const float *x, float *y);
    /* bytes to floats: y = offset + factor * x, as fma(x, factor, offset) */
    void (*from_bytes)(size_t n, const uint8_t *x, float factor, float offset, float *y);

    /* --- rows ----------------------------------------------------------------------------------- */
    float (*sum16)(size_t n, const float *x);
    float (*dot16)(size_t n, const float *x, const float *y); /* sum16 of fma steps: lane = fma(x, y, lane) */
    double (*square_sum)(size_t n, const float *x); /* eight double lanes, squares exact, folded by halves */
    /* acc[j] += x[i][j] over rows i in order; starts from 0 unless accumulate. */
    void (*column_sum)(size_t rows, size_t n, const float *x, bool accumulate, float *acc);
    /* acc[j] = fma(a[i][j], b[i][j], acc[j]) over rows i in order; starts from 0 unless accumulate. */
    void (*column_dot)(size_t rows, size_t n, const float *a, const float *b, bool accumulate, float *acc);
    /* top = the largest; e = exp(x - top); y = e * (1 / sum16(e)). y may be x. */
    void (*softmax)(size_t rows, size_t n, const float *x, float *y);
    /* dx = y * (dy - dot16(y, dy)) */
    void (*softmax_back)(size_t rows, size_t n, const float *y, const float *dy, float *dx);
    /* loss[i] = log(sum16(e)) + (top - x[i][label]); if dx: dx = (softmax(x) - onehot(label)) * scale. */
    void (*softmax_loss)(size_t rows, size_t n, const float *x, const int32_t *labels, float scale,
                         float *loss, float *dx);
    /* Normalises rows: mean = sum16 / n; var = sum16 of squared differences / n (dot16 of the difference with
     * itself); rstd = 1 / sqrt(var + eps); xhat = (x - mean) * rstd; y = fma(xhat, gamma, beta). moments[2i]
     * = mean, moments[2i+1] = rstd. */
    void (*norm_rows)(size_t rows, size_t n, const float *x, const float *gamma, const float *beta, float eps,
                      float *y, float *moments);
    /* dx of the above; g = dy * gamma; dx = (g - mean(g) - xhat * mean(g xhat)) * rstd with sum16 and dot16.
     * The gradients of gamma and beta are column_dot with xhat and column_sum of dy. */
    void (*norm_rows_back)(size_t rows, size_t n, const float *x, const float *gamma, const float *moments,
                           const float *dy, float *dx);
    /* xhat = (x - moments mean) * rstd, for the parameter gradients */
    void (*norm_rows_xhat)(size_t rows, size_t n, const float *x, const float *moments, float *xhat);

    /* --- pooling -------------------------------------------------------------------------------- */
    /* where[o]: index of the winner inside its plane; the first of equals wins; a NaN wins. */
    void (*maxpool)(const struct rt_window *w, size_t images, const float *x, float *y, int32_t *where);
    void (*maxpool_back)(const struct rt_window *w, size_t images, const float *dy, const int32_t *where,
                         float *dx);
    void (*avgpool)(const struct rt_window *w, size_t images, const float *x, float *y);
    void (*avgpool_back)(const struct rt_window *w, size_t images, const float *dy, float *dx);
};

extern const struct rt_kernels rt_kernels_reference;

/* The exact table for this machine, or the one asked for by name ("avx512", "avx2", "neon", "portable");
 * NULL when the name is unknown or the CPU cannot run it. name NULL or "auto": the best. */
const struct rt_kernels *rt_kernels_exact(const char *name);

/* All exact tables this CPU can run, best first; for tests. Returns how many. */
size_t rt_kernels_exact_all(const struct rt_kernels **tables, size_t max);

#endif
