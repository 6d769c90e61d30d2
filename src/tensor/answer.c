/* The known-answer run. Sizes are odd on purpose: they leave remainders in every tiling and vector width. */
#include "tensor/answer.h"

#include "base/exactmath.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/sha256.h"
#include <stdlib.h>

enum { ROWS = 5, DEPTH = 71, COLUMNS = 35, SIDE = 9, CHANNELS = 4, FILTERS = 6, POOLED = 4, LENGTH = 203 };
enum { ACTIVATIONS = RT_ACT_GELU + 1 };
enum { ROOM = 1 << 14 }; /* floats that one part of the run takes at most: its sizes are the ones above */

struct answer {
    const struct rt_kernels *k;
    struct rt_sha256 hash;
    float *memory; /* [ROOM], used anew by each part */
    size_t used;
    float *prepared; /* for packed and prepared weights: each table has its own layout, so it is not hashed */
    float *scratch;
};

static const struct rt_conv conv = {CHANNELS, SIDE, SIDE, FILTERS, 3, 3, 1, 1, 2, SIDE, SIDE};
static const struct rt_window window = {CHANNELS, SIDE, SIDE, 2, 2, 0, POOLED, POOLED};
enum {
    IMAGE = CHANNELS * SIDE * SIDE,
    FILTERED = FILTERS * SIDE * SIDE,
    WEIGHTS = FILTERS * CHANNELS / 2 * 9,
    POOL = CHANNELS * POOLED * POOLED,
};

static float *answer_take(struct answer *a, size_t n) {
    float *floats = a->memory + a->used;
    a->used += rt_round_up(n, RT_ALIGN_FLOATS);
    return floats;
}

/* Numbers of many magnitudes, most near 1. */
static float *answer_numbers(struct answer *a, size_t n, uint32_t seed) {
    float *x = answer_take(a, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t word[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, 0, i, 0, word);
        x[i] = 2 * rt_rng_unit(word[0]) - 1;
        if (word[1] % 8 == 0)
            x[i] *= (float)(1u << (word[1] >> 8) % 12);
    }
    return x;
}

static void answer_add(struct answer *a, size_t n, const float *x) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = rt_float_bits(x[i]);
        uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                            (uint8_t)(bits >> 24)};
        rt_sha256_add(&a->hash, bytes, sizeof bytes);
    }
}

static void answer_run_products(struct answer *a) {
    const struct rt_kernels *k = a->k;
    const float *x = answer_numbers(a, ROWS * DEPTH, 1), *w = answer_numbers(a, DEPTH * COLUMNS, 2);
    float *y = answer_take(a, ROWS * COLUMNS), *dw = answer_take(a, DEPTH * COLUMNS),
          *dx = answer_take(a, ROWS * DEPTH);
    struct rt_gemm forward = {.m = ROWS,
                              .n = COLUMNS,
                              .k = DEPTH,
                              .a = x,
                              .a_row = DEPTH,
                              .a_col = 1,
                              .b = w,
                              .b_row = COLUMNS,
                              .b_col = 1,
                              .c = y,
                              .c_row = COLUMNS,
                              .bias = answer_numbers(a, COLUMNS, 3),
                              .act_arg = 0.25f};
    for (int act = 0; act < ACTIVATIONS; act++) {
        forward.act = (enum rt_activation)act;
        k->gemm(&forward, a->scratch);
        answer_add(a, ROWS * COLUMNS, y);
    }
    if (k->packed_floats(DEPTH, COLUMNS) > 0) {
        k->pack(DEPTH, 0, COLUMNS, COLUMNS, w, COLUMNS, 1, a->prepared);
        forward.b = NULL;
        forward.b_packed = a->prepared;
    }
    k->gemm(&forward, a->scratch);
    answer_add(a, ROWS * COLUMNS, y);

    struct rt_gemm weights = {.m = DEPTH,
                              .n = COLUMNS,
                              .k = ROWS,
                              .a = x,
                              .a_row = 1,
                              .a_col = DEPTH,
                              .b = y,
                              .b_row = COLUMNS,
                              .b_col = 1,
                              .c = dw,
                              .c_row = COLUMNS};
    k->gemm(&weights, a->scratch);
    weights.accumulate = true;
    k->gemm(&weights, a->scratch);
    struct rt_gemm input = {.m = ROWS,
                            .n = DEPTH,
                            .k = COLUMNS,
                            .a = y,
                            .a_row = COLUMNS,
                            .a_col = 1,
                            .b = w,
                            .b_row = 1,
                            .b_col = COLUMNS,
                            .c = dx,
                            .c_row = DEPTH};
    k->gemm(&input, a->scratch);
    answer_add(a, DEPTH * COLUMNS, dw);
    answer_add(a, ROWS * DEPTH, dx);
}

static void answer_run_descent(struct answer *a) {
    for (int way = 0; way < 8; way++) {
        const float *left = answer_numbers(a, DEPTH, 20), *right = answer_numbers(a, COLUMNS, 21);
        float *w = answer_numbers(a, DEPTH * COLUMNS, 22), *v = answer_numbers(a, DEPTH * COLUMNS, 23);
        float *sums = answer_numbers(a, COLUMNS, 24);
        const struct rt_descent descent = {
            0.01f, 0.9f, way & 1 ? 0.7f : 1, way & 1 ? 0.02f : 0, w, way & 2 ? v : NULL};
        a->k->descend(&descent, DEPTH, COLUMNS, left, right, way & 4 ? answer_numbers(a, DEPTH, 25) : NULL,
                      sums);
        answer_add(a, DEPTH * COLUMNS, w);
        answer_add(a, DEPTH * COLUMNS, v);
        answer_add(a, COLUMNS, sums);
        a->used = 0;
    }
}

static void answer_run_convolution(struct answer *a) {
    const struct rt_kernels *k = a->k;
    const float *x = answer_numbers(a, ROWS * IMAGE, 4), *w = answer_numbers(a, WEIGHTS, 5);
    float *y = answer_take(a, ROWS * FILTERED), *dx = answer_take(a, ROWS * IMAGE);
    float *dw = answer_take(a, WEIGHTS), *db = answer_take(a, FILTERS);
    const float *bias = answer_numbers(a, FILTERS, 6);
    k->conv_forward(&conv, ROWS, x, w, NULL, bias, RT_ACT_GELU, 0, y, a->scratch);
    answer_add(a, ROWS * FILTERED, y);
    k->conv_prepare(&conv, w, false, a->prepared);
    k->conv_forward(&conv, ROWS, x, w, a->prepared, bias, RT_ACT_NONE, 0, y, a->scratch);
    k->conv_input(&conv, ROWS, y, w, NULL, dx, a->scratch);
    answer_add(a, ROWS * IMAGE, dx);
    k->conv_prepare(&conv, w, true, a->prepared);
    k->conv_input(&conv, ROWS, y, w, a->prepared, dx, a->scratch);
    k->conv_weights(&conv, ROWS, 0, FILTERS, x, y, false, dw, db, a->scratch);
    k->conv_weights(&conv, ROWS, 2, 3, x, y, true, dw, db, a->scratch);
    answer_add(a, ROWS * FILTERED, y);
    answer_add(a, ROWS * IMAGE, dx);
    answer_add(a, WEIGHTS, dw);
    answer_add(a, FILTERS, db);
}

static void answer_run_elements(struct answer *a) {
    const struct rt_kernels *k = a->k;
    const float *x = answer_numbers(a, LENGTH, 7), *dy = answer_numbers(a, LENGTH, 8);
    float *y = answer_take(a, LENGTH), *dx = answer_take(a, LENGTH);
    uint8_t bytes[LENGTH];
    for (size_t i = 0; i < LENGTH; i++)
        bytes[i] = (uint8_t)(i * 37);
    for (int act = 0; act < ACTIVATIONS; act++) {
        k->activate((enum rt_activation)act, 0.25f, LENGTH, x, y);
        k->activate_back((enum rt_activation)act, 0.25f, LENGTH, x, y, dy, dx);
        answer_add(a, LENGTH, y);
        answer_add(a, LENGTH, dx);
    }
    k->add(LENGTH, x, y);
    answer_add(a, LENGTH, y);
    k->dropout(LENGTH, 42, 3, 1, 7, 0xc0000000u, 4.0f / 3, x, y);
    answer_add(a, LENGTH, y);
    k->from_bytes(LENGTH, bytes, 1.0f / 255, -0.5f, y);
    answer_add(a, LENGTH, y);
}

static void answer_run_rows(struct answer *a) {
    const struct rt_kernels *k = a->k;
    const float *x = answer_numbers(a, ROWS * LENGTH, 9), *dy = answer_numbers(a, ROWS * LENGTH, 10);
    const float *gamma = answer_numbers(a, LENGTH, 11), *beta = answer_numbers(a, LENGTH, 12);
    float *y = answer_take(a, ROWS * LENGTH), *dx = answer_take(a, ROWS * LENGTH),
          *sums = answer_take(a, LENGTH);
    float *moments = answer_take(a, 2 * ROWS), *loss = answer_take(a, ROWS);
    const int32_t labels[ROWS] = {3, 1, 4, 1, 5};
    const double squares = k->square_sum(ROWS * LENGTH, x);
    const float single[] = {k->sum16(ROWS * LENGTH, x), k->dot16(ROWS * LENGTH, x, dy), (float)squares,
                            (float)(squares - (double)(float)squares)};
    answer_add(a, sizeof single / sizeof *single, single);
    for (int more = 0; more < 2; more++) {
        k->column_sum(ROWS, LENGTH, x, more, sums);
        answer_add(a, LENGTH, sums);
        k->column_dot(ROWS, LENGTH, x, dy, more, sums);
        answer_add(a, LENGTH, sums);
    }
    k->softmax(ROWS, LENGTH, x, y);
    k->softmax_back(ROWS, LENGTH, y, dy, dx);
    answer_add(a, ROWS * LENGTH, y);
    answer_add(a, ROWS * LENGTH, dx);
    k->softmax_loss(ROWS, LENGTH, dy, labels, 1.0f / ROWS, loss, dx);
    answer_add(a, ROWS, loss);
    answer_add(a, ROWS * LENGTH, dx);
    k->norm_rows(ROWS, LENGTH, x, gamma, beta, 1e-5f, y, moments);
    answer_add(a, ROWS * LENGTH, y);
    answer_add(a, 2 * ROWS, moments);
    k->norm_rows_back(ROWS, LENGTH, x, gamma, moments, dy, dx);
    answer_add(a, ROWS * LENGTH, dx);
    k->norm_rows_xhat(ROWS, LENGTH, x, moments, y);
    answer_add(a, ROWS * LENGTH, y);
}

static void answer_run_pooling(struct answer *a) {
    const struct rt_kernels *k = a->k;
    const float *x = answer_numbers(a, ROWS * IMAGE, 13);
    float *y = answer_take(a, ROWS * POOL), *dx = answer_take(a, ROWS * IMAGE);
    int32_t where[ROWS * POOL];
    k->maxpool(&window, ROWS, x, y, where);
    k->maxpool_back(&window, ROWS, y, where, dx);
    answer_add(a, ROWS * POOL, y);
    answer_add(a, ROWS * IMAGE, dx);
    k->avgpool(&window, ROWS, x, y);
    k->avgpool_back(&window, ROWS, y, dx);
    answer_add(a, ROWS * POOL, y);
    answer_add(a, ROWS * IMAGE, dx);
}

static size_t answer_max(size_t a, size_t b) {
    return a > b ? a : b;
}

rt_status rt_kernels_answer(const struct rt_kernels *kernels, uint8_t digest[32], struct rt_error *err) {
    static void (*const parts[])(struct answer *) = {answer_run_products,    answer_run_descent,
                                                     answer_run_convolution, answer_run_elements,
                                                     answer_run_rows,        answer_run_pooling};
    static const char what[] = "the known-answer test of the kernels";
    size_t prepared =
        answer_max(kernels->packed_floats(DEPTH, COLUMNS),
                   answer_max(kernels->conv_prepared(&conv, false), kernels->conv_prepared(&conv, true)));
    size_t scratch = answer_max(kernels->gemm_scratch, kernels->conv_scratch(&conv));
    struct answer a = {.k = kernels};
    rt_status status = rt_floats_create(ROOM, what, &a.memory, err);
    if (status == RT_OK)
        status = rt_floats_create(prepared, what, &a.prepared, err);
    if (status == RT_OK)
        status = rt_floats_create((scratch + sizeof(float) - 1) / sizeof(float), what, &a.scratch, err);
    if (status == RT_OK) {
        rt_sha256_init(&a.hash);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            a.used = 0;
            parts[i](&a);
        }
        rt_sha256_finish(&a.hash, digest);
    }
    free(a.memory);
    free(a.prepared);
    free(a.scratch);
    return status;
}
