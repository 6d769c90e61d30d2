/*
 * The known answer: one training step of a small network, kernel by kernel, whose results have one known
 * hash. The other tests compare tables on one machine; this one compares machines, compilers and versions.
 * If it fails, every model trained so far would come out differently: change the hash only on purpose.
 */
#include "base/exactmath.h"
#include "support/kernel_check.h"

enum { ROWS = 5, SIDE = 9, FILTERS = 6, POOLED = 4, HIDDEN = 35, CLASSES = 10 };

static const uint32_t known = 0x6b2700ddu;

/* FNV-1a over the bits of some floats */
static uint32_t hash_floats(uint32_t hash, size_t n, const float *x) {
    for (size_t i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (rt_float_bits(x[i]) >> shift & 0xff)) * 16777619u;
    return hash;
}

static float *room(size_t n) {
    return kc_scratch(n * sizeof(float));
}

/* element (i, j) is at[i * row + j * column] */
struct matrix {
    const float *at;
    size_t row, column;
};

/* c[m][n] = act(bias + a[m][depth] b[depth][n]) */
static void product(const struct rt_kernels *k, size_t m, size_t n, size_t depth, struct matrix a,
                    struct matrix b, const float *bias, enum rt_activation act, float *c, void *scratch) {
    struct rt_gemm g = {.m = m,
                        .n = n,
                        .k = depth,
                        .a = a.at,
                        .a_row = a.row,
                        .a_col = a.column,
                        .b = b.at,
                        .b_row = b.row,
                        .b_col = b.column,
                        .c = c,
                        .c_row = n,
                        .bias = bias,
                        .act = act};
    k->gemm(&g, scratch);
}

static uint32_t answer(const struct rt_kernels *k) {
    const struct rt_conv conv = {1, SIDE, SIDE, FILTERS, 3, 3, 1, 1, 1, SIDE, SIDE};
    const struct rt_window pool = {FILTERS, SIDE, SIDE, 2, 2, 0, POOLED, POOLED};
    const size_t plane = SIDE * SIDE, flat = FILTERS * POOLED * POOLED;
    void *scratch = kc_scratch(k->conv_scratch(&conv) + k->gemm_scratch);
    uint32_t hash = 2166136261u;

    /* forward: convolution with gelu, maximum, normalisation, dropout, dense with tanh, dense, loss */
    const float *x = kc_numbers(ROWS * plane, 1), *filters = kc_numbers(FILTERS * 9, 2);
    float *y1 = room(ROWS * FILTERS * plane), *y2 = room(ROWS * flat), *y3 = room(ROWS * flat);
    float *moments = room(2 * ROWS);
    int32_t *where = kc_take(ROWS * flat * sizeof *where);
    k->conv_forward(&conv, ROWS, x, filters, NULL, kc_numbers(FILTERS, 3), RT_ACT_GELU, 0, y1, scratch);
    k->maxpool(&pool, ROWS, y1, y2, where);
    k->norm_rows(ROWS, flat, y2, kc_numbers(flat, 4), kc_numbers(flat, 5), 1e-5f, y3, moments);
    for (uint32_t r = 0; r < ROWS; r++)
        k->dropout(flat, 42, 3, 1, r, 0xc0000000u, 4.0f / 3, y3 + r * flat, y3 + r * flat);
    float *y4 = room(ROWS * HIDDEN), *y5 = room(ROWS * CLASSES);
    const float *w1 = kc_numbers(flat * HIDDEN, 6), *w2 = kc_numbers(HIDDEN * CLASSES, 7);
    product(k, ROWS, HIDDEN, flat, (struct matrix){y3, flat, 1}, (struct matrix){w1, HIDDEN, 1},
            kc_numbers(HIDDEN, 8), RT_ACT_TANH, y4, scratch);
    product(k, ROWS, CLASSES, HIDDEN, (struct matrix){y4, HIDDEN, 1}, (struct matrix){w2, CLASSES, 1}, NULL,
            RT_ACT_NONE, y5, scratch);
    const int32_t labels[ROWS] = {3, 1, 4, 1, 5};
    float *loss = room(ROWS), *d5 = room(ROWS * CLASSES);
    k->softmax_loss(ROWS, CLASSES, y5, labels, 1.0f / ROWS, loss, d5);
    hash = hash_floats(hash, ROWS * CLASSES, y5);
    hash = hash_floats(hash, ROWS, loss);

    /* backward: input and weight gradient of the last layer, then down to the filters */
    float *dw2 = room(HIDDEN * CLASSES), *d4 = room(ROWS * HIDDEN), *d3 = room(ROWS * flat);
    product(k, HIDDEN, CLASSES, ROWS, (struct matrix){y4, 1, HIDDEN}, (struct matrix){d5, CLASSES, 1}, NULL,
            RT_ACT_NONE, dw2, scratch);
    product(k, ROWS, HIDDEN, CLASSES, (struct matrix){d5, CLASSES, 1}, (struct matrix){w2, 1, CLASSES}, NULL,
            RT_ACT_NONE, d4, scratch);
    k->activate_back(RT_ACT_TANH, 0, ROWS * HIDDEN, NULL, y4, d4, d4);
    product(k, ROWS, flat, HIDDEN, (struct matrix){d4, HIDDEN, 1}, (struct matrix){w1, 1, HIDDEN}, NULL,
            RT_ACT_NONE, d3, scratch);
    float *d2 = room(ROWS * flat), *d1 = room(ROWS * FILTERS * plane), *df = room(FILTERS * 9),
          *db = room(FILTERS);
    k->norm_rows_back(ROWS, flat, y2, kc_numbers(flat, 4), moments, d3, d2);
    k->maxpool_back(&pool, ROWS, d2, where, d1);
    k->conv_weights(&conv, ROWS, 0, FILTERS, x, d1, false, df, db, scratch);
    hash = hash_floats(hash, HIDDEN * CLASSES, dw2);
    hash = hash_floats(hash, ROWS * FILTERS * plane, d1);
    hash = hash_floats(hash, FILTERS * 9, df);
    hash = hash_floats(hash, FILTERS, db);
    kc_release();
    return hash;
}

TEST(every_table_gives_the_known_answer) {
    const struct rt_kernels *tables[8] = {&rt_kernels_reference};
    size_t count = 1 + rt_kernels_exact_all(tables + 1, 7);
    for (size_t t = 0; t < count; t++) {
        uint32_t hash = answer(tables[t]);
        CHECK_MSG(hash == known, "%s: %08x, known is %08x", tables[t]->name, (unsigned)hash, (unsigned)known);
    }
}

TEST_MAIN()
