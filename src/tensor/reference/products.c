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

void rt_reference_gemm(const struct rt_gemm *g, void *scratch) {
    (void)scratch;
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->c_row + j];
            float acc = g->accumulate ? *c : g->bias ? g->bias[j] : 0.0f;
            for (size_t p = 0; p < g->k; p++)
                acc =
                    __builtin_fmaf(g->a[i * g->a_row + p * g->a_col], g->b[p * g->b_row + j * g->b_col], acc);
            *c = rt_reference_act(g->act, g->act_arg, acc);
        }
}
