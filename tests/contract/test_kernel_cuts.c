/*
 * How work is cut never changes a bit: a product over k in several calls, rows or columns of it apart, a
 * convolution's gradients image by image, sums over rows in parts. This is what makes micro-batches, threads
 * and devices invisible in the result. Every table is tried, the reference too.
 */
#include "support/kernel_check.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static size_t all_tables(const struct rt_kernels **tables, size_t max) {
    tables[0] = &rt_kernels_reference;
    return 1 + rt_kernels_exact_all(tables + 1, max - 1);
}

/* The product as a whole, and C split by k (accumulating), by rows, or by columns at some points. */
static struct rt_gemm product(size_t m, size_t n, size_t k, bool turned, float *c) {
    struct rt_gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .a = kc_numbers(m * k, 1),
                        .a_row = turned ? 1 : k,
                        .a_col = turned ? m : 1,
                        .b = kc_numbers(k * n, 2),
                        .b_row = n,
                        .b_col = 1,
                        .c = c,
                        .c_row = n};
    return g;
}

TEST(product_over_k) {
    static const size_t cuts[][3] = {{1, 2, 3}, {0, 7, 8}, {16, 17, 600}, {100, 512, 513}, {700, 700, 701}};
    const struct rt_kernels *tables[8];
    size_t count = all_tables(tables, COUNT(tables));
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < COUNT(cuts); i++)
            for (size_t m = 1; m < 32; m += 15) {
                size_t n = 37, k = 701;
                void *scratch = kc_scratch(tables[t]->gemm_scratch);
                struct kc_pair c = kc_pair_create(m * n, NULL);
                struct rt_gemm whole = product(m, n, k, i % 2, c.want), part = whole;
                tables[t]->gemm(&whole, scratch);
                size_t from = 0;
                for (size_t p = 0; p < 4; p++) {
                    size_t to = p < 3 ? cuts[i][p] : k;
                    part.c = c.got;
                    part.a = whole.a + from * whole.a_col;
                    part.b = whole.b + from * whole.b_row;
                    part.k = to - from;
                    part.accumulate = p > 0;
                    tables[t]->gemm(&part, scratch);
                    from = to;
                }
                kc_pair_compare(&c, "%s m %zu, k cut at %zu, %zu, %zu", tables[t]->name, m, cuts[i][0],
                                cuts[i][1], cuts[i][2]);
                kc_release();
            }
}

/* The pieces of k lie in different memory. */
TEST(product_over_pieces_of_k) {
    const struct rt_kernels *tables[8];
    size_t count = all_tables(tables, COUNT(tables));
    for (size_t t = 0; t < count; t++)
        kc_check_gemm_pieces(tables[t]);
}

TEST(product_by_rows_and_columns) {
    const struct rt_kernels *tables[8];
    size_t count = all_tables(tables, COUNT(tables));
    for (size_t t = 0; t < count; t++)
        for (size_t step = 1; step < 40; step += 6) {
            size_t m = 41, n = 70, k = 33;
            void *scratch = kc_scratch(tables[t]->gemm_scratch);
            struct kc_pair c = kc_pair_create(m * n, NULL);
            struct rt_gemm whole = product(m, n, k, false, c.want), part = whole;
            tables[t]->gemm(&whole, scratch);
            for (size_t i = 0; i < m; i += step)
                for (size_t j = 0; j < n; j += step) {
                    part.a = whole.a + i * whole.a_row;
                    part.b = whole.b + j * whole.b_col;
                    part.c = c.got + i * n + j;
                    part.m = m - i < step ? m - i : step;
                    part.n = n - j < step ? n - j : step;
                    tables[t]->gemm(&part, scratch);
                }
            kc_pair_compare(&c, "%s in squares of %zu", tables[t]->name, step);
            kc_release();
        }
}

TEST(convolution_image_by_image) {
    const struct rt_kernels *tables[8];
    size_t count = all_tables(tables, COUNT(tables));
    enum { IMAGES = 5 };
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < kc_conv_count; i += 2)
            for (size_t cut = 1; cut < IMAGES; cut++) {
                const struct rt_kernels *k = tables[t];
                struct rt_conv conv = kc_conv(i);
                size_t in = kc_conv_in(&conv), out = kc_conv_out(&conv);
                const float *x = kc_numbers(IMAGES * in, 1), *dy = kc_numbers(IMAGES * out, 2);
                struct kc_pair dw = kc_pair_create(kc_conv_weight_count(&conv), NULL);
                struct kc_pair db = kc_pair_create(conv.filters, NULL);
                void *scratch = kc_scratch(k->conv_scratch(&conv));
                k->conv_weights(&conv, IMAGES, 0, conv.filters, x, dy, false, dw.want, db.want, scratch);
                k->conv_weights(&conv, cut, 0, conv.filters, x, dy, false, dw.got, db.got, scratch);
                k->conv_weights(&conv, IMAGES - cut, 0, conv.filters, x + cut * in, dy + cut * out, true,
                                dw.got, db.got, scratch);
                kc_pair_compare(&dw, "%s dw, convolution %zu, cut after %zu images", k->name, i, cut);
                kc_pair_compare(&db, "%s db, convolution %zu, cut after %zu images", k->name, i, cut);
                kc_release();
            }
}

TEST(sums_over_rows) {
    const struct rt_kernels *tables[8];
    size_t count = all_tables(tables, COUNT(tables));
    for (size_t t = 0; t < count; t++)
        for (size_t cut = 0; cut <= 11; cut++) {
            size_t rows = 11, n = 45;
            const float *a = kc_numbers(rows * n, 1), *b = kc_numbers(rows * n, 2);
            struct kc_pair sum = kc_pair_create(n, NULL), dot = kc_pair_create(n, NULL);
            tables[t]->column_sum(rows, n, a, false, sum.want);
            tables[t]->column_sum(cut, n, a, false, sum.got);
            tables[t]->column_sum(rows - cut, n, a + cut * n, true, sum.got);
            kc_pair_compare(&sum, "%s column_sum cut after %zu rows", tables[t]->name, cut);
            tables[t]->column_dot(rows, n, a, b, false, dot.want);
            tables[t]->column_dot(cut, n, a, b, false, dot.got);
            tables[t]->column_dot(rows - cut, n, a + cut * n, b + cut * n, true, dot.got);
            kc_pair_compare(&dot, "%s column_dot cut after %zu rows", tables[t]->name, cut);
            kc_release();
        }
}

TEST_MAIN()
