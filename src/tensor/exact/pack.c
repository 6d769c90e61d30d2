/* Bringing operands into the k-major order that the tiles read. */
#include "tensor/exact/gemm.h"

#include <string.h>

/* Four rows by four columns, turned around. in: four rows `row` apart; out: four rows `width` apart. */
static inline void pack_turn_quad(const float *in, size_t row, float *out, size_t width) {
    quad a = *(const quad *)in, b = *(const quad *)(in + row);
    quad c = *(const quad *)(in + 2 * row), d = *(const quad *)(in + 3 * row);
    quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
         ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
         cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)out = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(quad *)(out + width) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(quad *)(out + 2 * width) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(quad *)(out + 3 * width) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* Rows of consecutive floats: turned in quads; the last quad of rows may overlap the one before. Rows often
 * lie a power of two apart, so that few of their cache lines fit into the first level side by side: a line is
 * used up before those of other rows are read. */
static void pack_interleave_rows(size_t rows, size_t width, size_t k, const float *in, size_t row,
                                 float *out) {
    enum { LINE = 16 };
    size_t whole = rows < 4 ? 0 : k / 4 * 4;
    for (size_t line = 0; line < whole; line += LINE) {
        size_t end = whole - line < LINE ? whole : line + LINE;
        for (size_t r = 0; r < rows; r += 4) {
            size_t first = rows - r < 4 ? rows - 4 : r;
            for (size_t p = line; p < end; p += 4)
                pack_turn_quad(in + first * row + p, row, out + p * width + first, width);
        }
    }
    for (size_t p = whole; p < k; p++)
        for (size_t r = 0; r < rows; r++)
            out[p * width + r] = in[r * row + p];
}

static inline void pack_copy_rows(size_t rows, size_t width, size_t k, const float *in, size_t col,
                                  float *out) {
    for (size_t p = 0; p < k; p++)
        for (size_t r = 0; r < rows; r++)
            out[p * width + r] = in[p * col + r];
}

void ISA(interleave)(size_t rows, size_t width, size_t k, const float *in, size_t row, size_t col,
                     float *out) {
    if (row == 1 && rows == PANEL && width == PANEL)
        pack_copy_rows(PANEL, PANEL, k, in, col, out);
    else if (row == 1 && rows == TILE_ROWS && width == TILE_ROWS)
        pack_copy_rows(TILE_ROWS, TILE_ROWS, k, in, col, out);
    else if (row == 1)
        pack_copy_rows(rows, width, k, in, col, out);
    else if (col == 1)
        pack_interleave_rows(rows, width, k, in, row, out);
    else
        for (size_t p = 0; p < k; p++)
            for (size_t r = 0; r < rows; r++)
                out[p * width + r] = in[r * row + p * col];
    if (rows < width)
        for (size_t p = 0; p < k; p++)
            memset(out + p * width + rows, 0, (width - rows) * sizeof(float));
}

size_t ISA(packed_floats)(size_t k, size_t n) {
    return (n + PANEL - 1) / PANEL * PANEL * k;
}

void ISA(pack)(size_t k, size_t n0, size_t n1, size_t n, const float *b, size_t b_row, size_t b_col,
               float *packed) {
    (void)n;
    for (size_t j = n0; j < n1; j += PANEL) {
        size_t columns = n1 - j < PANEL ? n1 - j : PANEL;
        ISA(interleave)(columns, PANEL, k, b + j * b_col, b_col, b_row, packed + j * k);
    }
}
