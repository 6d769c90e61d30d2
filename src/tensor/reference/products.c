/* The matrix product of the reference: for every output, one sum over p in order. */
#include "tensor/reference/reference.h"

size_t rt_reference_packed_floats(size_t k, size_t n) {
    (void)k;
    (void)n;
    return 0;
}

void rt_reference_pack(size_t k, size_t n0, size_t n1, size_t n, const float *b, size_t b_row, size_t b_col,
                       float *packed) {
    (void)k, (void)n0, (void)n1, (void)n, (void)b, (void)b_row, (void)b_col, (void)packed;
}

static float add_products(size_t k, const float *a, size_t a_step, const float *b, size_t b_step, float acc) {
    for (size_t p = 0; p < k; p++)
        acc = __builtin_fmaf(a[p * a_step], b[p * b_step], acc);
    return acc;
}

void rt_reference_gemm(const struct rt_gemm *g, void *scratch) {
    (void)scratch;
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->c_row + j];
            float acc = g->accumulate ? *c : g->bias ? g->bias[j] : 0.0f;
            acc = add_products(g->k, g->a + i * g->a_row, g->a_col, g->b + j * g->b_col, g->b_row, acc);
            for (size_t q = 0; q < g->more_count; q++)
                acc = add_products(g->more[q].k, g->more[q].a + i * g->a_row, g->a_col,
                                   g->more[q].b + j * g->b_col, g->b_row, acc);
            *c = rt_reference_act(g->act, g->act_arg, acc);
        }
}
