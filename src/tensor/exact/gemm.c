/*
 * The exact matrix product: blocks of A packed once and kept in the second-level cache, panels of B one after
 * another through the first, tiles of C in registers. Cutting k into blocks stores and reloads the running
 * sums, which changes nothing: they are floats already.
 */
#include "tensor/exact/gemm.h"

/* Whether the tiles of a block should read a panel of B where it lies: a packed copy repays itself only when
 * many of them read it, sooner so when the rows of B lie far apart. */
static bool gemm_reads_b_in_place(const struct rt_gemm *g, size_t tiles) {
    enum { FEW_ROWS = 64, NEAR_ROWS = 256 /* floats */ };
    return g->b_col == 1 && (tiles == 1 || (g->m <= FEW_ROWS && g->b_row <= NEAR_ROWS));
}

/* The panel of B from column j, rows p0..p0+depth: in place where it lies right, else packed into room. */
static const float *gemm_find_panel(const struct rt_gemm *g, size_t j, size_t p0, size_t depth, size_t tiles,
                                    float *room, size_t *step) {
    *step = PANEL;
    if (g->b_packed)
        return g->b_packed + j * g->k + p0 * PANEL;
    size_t columns = g->n - j < PANEL ? g->n - j : PANEL;
    const float *b = g->b + p0 * g->b_row + j * g->b_col;
    if (columns == PANEL && gemm_reads_b_in_place(g, tiles)) {
        *step = g->b_row;
        return b;
    }
    *step = columns > VL ? PANEL : VL;
    ISA(interleave)(columns, *step, depth, b, g->b_col, g->b_row, room);
    return room;
}

/* Whether panels are packed here, from lines that can be asked for. */
static bool gemm_packs_panels(const struct rt_gemm *g, size_t tiles) {
    return !g->b_packed && !gemm_reads_b_in_place(g, tiles) && (g->b_col == 1 || g->b_row == 1);
}

/* Prefetches a part of the lines of the panel from column j to the second-level cache, while the tiles work
 * on the panel before it: packing then need not wait for them. Tiles that read B in place wait for less. */
static void gemm_prefetch_panel(const struct rt_gemm *g, size_t j, size_t p0, size_t depth, size_t tile,
                                size_t tiles) {
    enum { LINE = 16 /* floats */ };
    if (j >= g->n)
        return;
    const size_t columns = g->n - j < PANEL ? g->n - j : PANEL;
    const bool across = g->b_col == 1;
    const size_t runs = across ? depth : columns, length = across ? columns : depth;
    const size_t step = across ? g->b_row : g->b_col;
    const float *b = g->b + p0 * g->b_row + j * g->b_col;
    for (size_t r = runs * tile / tiles; r < runs * (tile + 1) / tiles; r++)
        for (size_t x = 0; x < length; x += LINE)
            __builtin_prefetch(b + r * step + x, 0, 2);
}

/* The same for packed panels: each tile prefetches its share of the next one, line by line. With few rows the
 * weights come from distant memory, and the first tile on a panel would wait for it while the others have it
 * near. Returns the floats that a tile prefetches with each p; 0: none. */
static size_t gemm_share_ahead(const struct rt_gemm *g, size_t tiles) {
    enum { MOST_ROWS = 64 };
    return g->b_packed && g->more_count == 0 && tiles > 1 && g->m <= MOST_ROWS ? PANEL / tiles : 0;
}

/* The packed panel that comes after the one from column j, k-rows p0..p0+depth; NULL: none. */
static const float *gemm_next_panel(const struct rt_gemm *g, size_t j, size_t p0, size_t depth) {
    if (j + PANEL < g->n)
        return g->b_packed + (j + PANEL) * g->k + p0 * PANEL;
    return p0 + depth < g->k ? g->b_packed + (p0 + depth) * PANEL : NULL;
}

/* Running sums come from C, for a weight gradient from distant memory and a row at a time: when few products
 * (SHORT) are added to each, their panel is prefetched one ahead. */
enum { SHORT = 512 };
static void gemm_prefetch_sums(const struct rt_gemm *g, size_t i, size_t rows, size_t j) {
    enum { LINE = 16 /* floats */ };
    if (j >= g->n)
        return;
    const size_t columns = g->n - j < PANEL ? g->n - j : PANEL;
    for (size_t r = 0; r < rows; r++)
        for (size_t x = 0; x < columns; x += LINE)
            __builtin_prefetch(g->c + (i + r) * g->c_row + j + x, 1, 2);
}

/* Whether tiles should read A where it lies instead of a packed copy: worth it when few panels would share
 * the cost of packing, and possible when the rows do not fall on one another's place in the cache. */
static bool gemm_reads_a_in_place(const struct rt_gemm *g) {
    enum { FEW_PANELS = 8, CACHE_STRIDE = 1024 /* floats */ };
    size_t step = g->a_col == 1 ? g->a_row : g->a_col;
    return (g->a_col == 1 || g->a_row == 1) && g->n <= FEW_PANELS * PANEL && step % CACHE_STRIDE != 0;
}

static void gemm_pack_rows(const struct rt_gemm *g, size_t i0, const struct cover *cover, size_t p0,
                           size_t depth, float *room) {
    for (size_t i = 0, h; i < cover->rows; i += h) {
        h = tile_height(cover, i);
        const size_t at = (i0 + i) * g->a_row;
        ISA(interleave)(h, h, depth, g->a + at + p0 * g->a_col, g->a_row, g->a_col, room);
        room += h * depth;
        for (size_t q = 0; q < g->more_count; q++) {
            ISA(interleave)(h, h, g->more[q].k, g->more[q].a + at, g->a_row, g->a_col, room);
            room += h * g->more[q].k;
        }
    }
}

/* Points a tile at its rows i0+i.. of A. */
static inline void gemm_place_rows(const struct rt_gemm *g, bool in_place, size_t i0, size_t i, size_t h,
                                   size_t p0, size_t depth, const float *a_room, struct tile *tile) {
    tile->a_next = h * (in_place ? g->a_row : depth);
    tile->a = in_place ? g->a + (i0 + i) * g->a_row + p0 * g->a_col : a_room + i * depth;
    tile->a_row = in_place ? g->a_row : 1;
    tile->a_step = in_place ? g->a_col : h;
}

/* All of C for rows i0..i0+rows from k-rows p0..p0+depth, and from all of the pieces that follow. */
static void gemm_run_block(const struct rt_gemm *g, size_t i0, size_t rows, size_t p0, size_t depth,
                           float *a_room, float *b_room) {
    const struct cover cover = cover_rows(rows);
    const size_t tiles = cover.tiles;
    const bool in_place = g->more_count == 0 && gemm_reads_a_in_place(g);
    size_t whole = depth;
    for (size_t q = 0; q < g->more_count; q++)
        whole += g->more[q].k;
    if (!in_place)
        gemm_pack_rows(g, i0, &cover, p0, depth, a_room);
    bool last = p0 + depth == g->k;
    struct tile tile = {
        .k = depth,
        .c_row = g->c_row,
        .count = 1,
        .start = p0 > 0 || g->accumulate ? START_C
                 : g->bias               ? START_COLUMN_BIAS
                                         : START_ZERO,
        .act = last ? g->act : RT_ACT_NONE,
        .act_arg = g->act_arg,
        .more = g->more,
        .more_count = g->more_count,
        .ahead_step = gemm_share_ahead(g, tiles),
    };
    const bool packs = gemm_packs_panels(g, tiles), sums_come = tile.start == START_C && whole <= SHORT;
    const bool asks = packs || sums_come || tile.ahead_step; /* a tile at a time */
    for (size_t j = 0; j < g->n;) {
        size_t step, columns = g->n - j < PANEL ? g->n - j : PANEL;
        tile.b = gemm_find_panel(g, j, p0, depth, tiles, b_room, &step);
        tile.b_step = step;
        tile.b_panel = g->b_packed ? g->k * PANEL : PANEL;
        tile.bias = g->bias ? g->bias + j : NULL;
        if (tile.b != b_room && rows <= 2 && g->more_count == 0) {
            gemm_place_rows(g, in_place, i0, 0, rows, p0, whole, a_room, &tile);
            tile.c = g->c + i0 * g->c_row + j;
            size_t done = ISA(tile_run_flat)(rows, (g->n - j) / PANEL, &tile);
            if (done) {
                j += done * PANEL;
                continue;
            }
        }
        tile.columns = columns;
        tile.column = j;
        tile.ahead = tile.ahead_step ? gemm_next_panel(g, j, p0, depth) : NULL;
        for (size_t i = 0, h, t = 0; i < rows; i += h * tile.count, t++) {
            h = tile_height(&cover, i);
            tile.count = asks ? 1 : tiles_alike(&cover, i);
            if (packs)
                gemm_prefetch_panel(g, j + PANEL, p0, depth, t, tiles);
            gemm_place_rows(g, in_place, i0, i, h, p0, whole, a_room, &tile);
            if (i > 0 && tile.ahead)
                tile.ahead += depth * tile.ahead_step;
            if (sums_come)
                gemm_prefetch_sums(g, i0 + i, h, j + PANEL);
            tile.c = g->c + (i0 + i) * g->c_row + j;
            ISA(tile_run)(h, &tile);
        }
        j += PANEL;
    }
}

/* k = 1, as in the weight gradient of a single example: one multiplication per output, so tiles have nothing
 * to gain. A packed B of one row is that row. */
static void gemm_outer_product(const struct rt_gemm *g) {
    const float *b = g->b_packed ? g->b_packed : g->b;
    for (size_t i = 0; i < g->m; i++) {
        const float a = g->a[i * g->a_row];
        float *restrict c = g->c + i * g->c_row;
        for (size_t j = 0; j < g->n; j++)
            c[j] = __builtin_fmaf(a, b[j], 0.0f);
    }
}

/* With pieces: all of k fits into one block. */
static void gemm_run_product(const struct rt_gemm *g, void *scratch) {
    float *a_room = scratch, *b_room = a_room + (size_t)BLOCK_ROWS * BLOCK_DEPTH;
    size_t blocks = (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    size_t block = blocks > 1 ? BLOCK_ROWS : g->m, block_k = block_depth(g->k);
    for (size_t i = 0; i < g->m; i += block) {
        size_t rows = g->m - i < block ? g->m - i : block;
        size_t p = 0;
        do { /* once also for k = 0: C still gets its start and activation */
            size_t depth = g->k - p < block_k ? g->k - p : block_k;
            gemm_run_block(g, i, rows, p, depth, a_room, b_room);
            p += depth;
        } while (p < g->k);
    }
}

/* One after another the runs of pieces that can be done together: packed ones, for whose A there is room. */
static void gemm_run_pieces(const struct rt_gemm *g, void *scratch) {
    for (size_t at = 0, end; at <= g->more_count; at = end) {
        struct rt_gemm run = rt_gemm_piece(g, at);
        size_t depth = run.k;
        for (end = at + 1; end <= g->more_count; end++) {
            const struct rt_gemm_piece *next = &g->more[end - 1];
            if (!run.b_packed || !next->b_packed || depth + next->k > BLOCK_DEPTH)
                break;
            depth += next->k;
        }
        run.more = g->more + at;
        run.more_count = end - at - 1;
        run.act = end > g->more_count ? g->act : RT_ACT_NONE;
        gemm_run_product(&run, scratch);
    }
}

void ISA(gemm)(const struct rt_gemm *g, void *scratch) {
    if (g->more_count > 0) {
        gemm_run_pieces(g, scratch);
        return;
    }
    if (g->k == 1 && !g->accumulate && !g->bias && g->act == RT_ACT_NONE && (g->b_packed || g->b_col == 1)) {
        gemm_outer_product(g);
        return;
    }
    if (g->m == 1 && g->b_row == 1 && g->b_col > 1 && !g->b_packed) {
        ISA(turned_row)(g);
        return;
    }
    gemm_run_product(g, scratch);
}
