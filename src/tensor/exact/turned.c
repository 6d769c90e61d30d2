/*
 * One row times a B that lies the other way round, as in the input gradient of a single example: the columns
 * of B are rows in memory. VL of them are worked on at a time, in squares of VL x VL that are turned around
 * in registers, so that a vector holds one p of VL outputs and their sums run over k in order as everywhere.
 */
#include "tensor/exact/gemm.h"

#define EACH _Pragma("GCC unroll 16") for (size_t i = 0; i < VL; i++)

/* Row i becomes column i: log2(VL) rounds, each of which zips the first half of the rows with the second. */
static inline void turned_square(vec row[VL]) {
    vec next[VL];
    _Pragma("GCC unroll 4") for (size_t round = 1; round < VL; round *= 2) {
        _Pragma("GCC unroll 8") for (size_t i = 0; i < VL / 2; i++)
            vec_zip(row[i], row[i + VL / 2], &next[2 * i], &next[2 * i + 1]);
        EACH row[i] = next[i];
    }
}

/* The sums of columns j..j+columns, columns <= VL. */
static inline vec turned_add_columns(const struct rt_gemm *g, size_t j, size_t columns, vec sum) {
    const float *a = g->a, *b[VL];
    /* Lanes beyond the last column repeat it and are ignored. */
    EACH b[i] = g->b + (j + (i < columns ? i : columns - 1)) * g->b_col;
    for (size_t p = 0; p < g->k; p += VL) {
        /* The last square reaches back over what was done already, unless there is nothing before it. */
        const size_t end = p + VL < g->k ? p + VL : g->k, first = end < VL ? 0 : end - VL;
        vec square[VL];
        EACH square[i] = end < VL ? vec_load_first(b[i], end) : vec_load(b[i] + first);
        turned_square(square);
        EACH if (first + i >= p && first + i < end) sum =
            vec_fma(vec_all(a[(first + i) * g->a_col]), square[i], sum);
    }
    return sum;
}

void ISA(turned_row)(const struct rt_gemm *g) {
    for (size_t j = 0; j < g->n; j += VL) {
        const size_t columns = g->n - j < VL ? g->n - j : VL;
        const float *start = g->accumulate ? g->c + j : g->bias ? g->bias + j : NULL;
        vec sum = vec_all(0);
        if (start)
            sum = columns == VL ? vec_load(start) : vec_load_first(start, columns);
        sum = turned_add_columns(g, j, columns, sum);
        if (columns == VL)
            vec_store(g->c + j, sum);
        else
            vec_store_first(g->c + j, sum, columns);
    }
    if (g->act != RT_ACT_NONE)
        ISA(activate)(g->act, g->act_arg, g->n, g->c, g->c);
}
