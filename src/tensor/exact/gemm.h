/*
 * The parts of the matrix product that convolution shares: the register tile and the packing.
 *
 * A tile is `rows` x (`vecs` * VL) outputs held in registers while k runs. For each p it reads rows floats of
 * A (broadcast one by one) and vecs vectors of B. So the sum of every output runs over k in order, whatever
 * the tile.
 */
#ifndef RT_TENSOR_EXACT_GEMM_H
#define RT_TENSOR_EXACT_GEMM_H

#include "tensor/exact/isa.h"

enum tile_start { START_ZERO, START_C, START_COLUMN_BIAS, START_ROW_BIAS };

struct tile {
    size_t k;
    size_t columns; /* 1..PANEL */
    const float *a;
    size_t a_row, a_step; /* floats from one row, from one p, to the next; a_row is 1 in packed tiles */
    const float *b;
    size_t b_step, b_panel; /* floats from one p, from one panel of two vectors, to the next */
    /* Where the vectors of each p lie, in floats from b, if not b_step apart; else NULL. A convolution reads
     * its pixels in place by these, instead of copying them side by side first. Not with `more`. */
    const size_t *places;
    float *c;
    size_t c_row;
    /* Tiles of the same height, one below another, floats of A from one to the next: what is the same for all
     * of them is done once. */
    size_t count, a_next;
    enum tile_start start;
    const float *bias; /* per column or per row, as start says */
    enum rt_activation act;
    float act_arg;
    /* k goes on in packed pieces of B, from column `column`; A, packed, goes on where it is. */
    const struct rt_gemm_piece *more;
    size_t more_count, column;
    /* Memory to prefetch to the second-level cache meanwhile, floats per p; NULL: none. For one tile. */
    const float *ahead;
    size_t ahead_step;
};

/* Runs tiles of rows (1..TILE_ROWS). B must be readable for all of the vectors that its columns touch. */
void ISA(tile_run)(size_t rows, const struct tile *tile);

/* One or two rows by several whole panels (b_panel apart) at once: returns how many panels it has done, 0
 * when there are too many rows or too few panels for it. */
size_t ISA(tile_run_flat)(size_t rows, size_t panels, struct tile *tile);

/* A product with one row whose B lies the other way round (b_row is 1), not packed: squares of B are turned
 * around in registers, since a packed copy of it would be read only once. */
void ISA(turned_row)(const struct rt_gemm *g);

/* Four floats at any float's address: for copying and turning. */
typedef float quad __attribute__((vector_size(16), aligned(4)));

/* out[p * width + r] = in[r * row + p * col] for r < rows, 0 for rows <= r < width; p < k. */
void ISA(interleave)(size_t rows, size_t width, size_t k, const float *in, size_t row, size_t col,
                     float *out);

/* How the fewest tiles cover `rows` rows: high ones, then, from row low_from on, lower ones. A tile of four
 * rows has enough sums for the adders; one of fewer waits for each addition, so that what is left over at the
 * end is shared with the tiles before it, if it were that low. */
struct cover {
    size_t rows, tiles, high, low, low_from;
};
static inline struct cover cover_rows(size_t rows) {
    enum { ENOUGH = 4 };
    const size_t tiles = rows ? (rows + TILE_ROWS - 1) / TILE_ROWS : 1, high = (rows + tiles - 1) / tiles;
    const size_t rest = rows - high * (tiles - 1);
    if (rest >= ENOUGH || rest == high)
        return (struct cover){rows, tiles, high, rest, rows - rest};
    return (struct cover){rows, tiles, high, high - 1, rows % tiles * high};
}

/* The height of the tile from row i on, and how many of that height there are from it on. */
static inline size_t tile_height(const struct cover *cover, size_t i) {
    return i < cover->low_from ? cover->high : cover->low;
}
static inline size_t tiles_alike(const struct cover *cover, size_t i) {
    return i < cover->low_from ? (cover->low_from - i) / cover->high : (cover->rows - i) / cover->low;
}

/* Blocks of the product: A is packed BLOCK_ROWS x BLOCK_DEPTH at a time, B one panel at a time. */
enum { BLOCK_ROWS = 168, BLOCK_DEPTH = 512 };
#define GEMM_SCRATCH (((size_t)BLOCK_ROWS + PANEL) * BLOCK_DEPTH * sizeof(float))

/* Depth of the blocks that cover k as evenly as possible. */
static inline size_t block_depth(size_t k) {
    size_t blocks = (k + BLOCK_DEPTH - 1) / BLOCK_DEPTH;
    return blocks ? (k + blocks - 1) / blocks : 0;
}

#endif
