/* The register tiles: where the time of a training step goes. */
#include "tensor/exact/gemm.h"

#if HAS_SANITIZER
#define EACH_ROW for (size_t r = 0; r < rows; r++)
#define EACH_VEC for (size_t v = 0; v < vecs; v++)
#else
#define EACH_ROW _Pragma("GCC unroll 16") for (size_t r = 0; r < rows; r++)
#define EACH_VEC _Pragma("GCC unroll 8") for (size_t v = 0; v < vecs; v++)
#endif

/* The last vector of a row may be cut by the edge of C. */
INLINE vec load_cut(const float *p, size_t lanes) {
    return lanes == VL ? vec_load(p) : vec_load_first(p, lanes);
}

INLINE void store_cut(float *p, vec v, size_t lanes) {
    if (lanes == VL)
        vec_store(p, v);
    else
        vec_store_first(p, v, lanes);
}

/* The tile with the rows of A, the biases and the rows of C from a, bias and c on. */
INLINE void run_one(const size_t rows, const size_t vecs, const size_t a_row, const bool placed,
                    const bool looks_ahead, const struct tile *t, const float *a, const float *bias,
                    float *c) {
    vec acc[TILE_ROWS][8];
    const float *b = t->b;
    const size_t a_step = t->a_step, b_step = t->b_step, b_panel = t->b_panel, c_row = t->c_row;
    const size_t cut = t->columns - (vecs - 1) * VL; /* lanes of the last vector */

    const enum tile_start start = t->start;
    EACH_ROW EACH_VEC {
        size_t lanes = v + 1 == vecs ? cut : VL;
        if (start == START_C)
            acc[r][v] = load_cut(c + r * c_row + v * VL, lanes);
        else if (start == START_COLUMN_BIAS)
            acc[r][v] = load_cut(bias + v * VL, lanes);
        else
            acc[r][v] = vec_all(start == START_ROW_BIAS ? bias[r] : 0);
    }

    const struct rt_gemm_piece *more = t->more;
    size_t left = t->more_count;
    const size_t *place = t->places;
    const float *ahead = t->ahead;
    const size_t ahead_step = t->ahead_step;
    for (size_t k = t->k;; more++) {
        for (size_t p = k; p > 0; p--) {
            const float *from = placed ? b + *place++ : b;
            vec bv[8];
            EACH_VEC bv[v] = vec_load(from + (v / 2) * b_panel + (v % 2) * VL);
            if (looks_ahead) {
                __builtin_prefetch(ahead, 0, 2);
                ahead += ahead_step;
            }
            EACH_ROW {
                vec av = vec_all(a[r * a_row]);
                EACH_VEC acc[r][v] = vec_fma(av, bv[v], acc[r][v]);
            }
            a += a_step;
            if (!placed)
                b += b_step;
        }
        if (left-- == 0)
            break;
        k = more->k;
        b = more->b_packed + t->column * k;
    }

    if (t->act == RT_ACT_RELU)
        EACH_ROW EACH_VEC acc[r][v] = vec_relu(acc[r][v]);
    EACH_ROW EACH_VEC store_cut(c + r * c_row + v * VL, acc[r][v], v + 1 == vecs ? cut : VL);
    if (t->act != RT_ACT_NONE && t->act != RT_ACT_RELU)
        for (size_t r = 0; r < rows; r++)
            ISA(activate)(t->act, t->act_arg, t->columns, c + r * c_row, c + r * c_row);
}

/* All but t are constants at every call (a_row: where it is 1), so the loops over rows and vecs vanish, acc
 * lives in registers, and no tile pays for what another one does. */
INLINE void tile_body(const size_t rows, const size_t vecs, const size_t a_row, const bool placed,
                      const bool looks_ahead, const struct tile *t) {
    for (size_t n = 0; n < t->count; n++) {
        const float *bias = t->start == START_ROW_BIAS ? t->bias + n * rows : t->bias;
        run_one(rows, vecs, a_row, placed, looks_ahead, t, t->a + n * t->a_next, bias,
                t->c + n * rows * t->c_row);
    }
}

#define TILE(rows, vecs)                                                                                     \
    static void tile_##rows##x##vecs(const struct tile *t) {                                                 \
        tile_body(rows, vecs, 1, false, false, t);                                                           \
    }                                                                                                        \
    static void strided_##rows##x##vecs(const struct tile *t) {                                              \
        tile_body(rows, vecs, t->a_row, false, false, t);                                                    \
    }                                                                                                        \
    static void placed_##rows##x##vecs(const struct tile *t) {                                               \
        tile_body(rows, vecs, 1, true, false, t);                                                            \
    }                                                                                                        \
    static void strided_placed_##rows##x##vecs(const struct tile *t) {                                       \
        tile_body(rows, vecs, t->a_row, true, false, t);                                                     \
    }
#define TILE_HEIGHTS(X, vecs) X(1, vecs) X(2, vecs) X(3, vecs) X(4, vecs)
#if TILE_ROWS > 4
#define TILE_HEIGHTS_6(X, vecs) X(5, vecs) X(6, vecs)
#else
#define TILE_HEIGHTS_6(X, vecs)
#endif
#if TILE_ROWS > 6
#define TILE_HEIGHTS_8(X, vecs) X(7, vecs) X(8, vecs)
#else
#define TILE_HEIGHTS_8(X, vecs)
#endif
#if TILE_ROWS > 8
#define TILE_HEIGHTS_14(X, vecs) X(9, vecs) X(10, vecs) X(11, vecs) X(12, vecs) X(13, vecs) X(14, vecs)
#else
#define TILE_HEIGHTS_14(X, vecs)
#endif
#define ALL_HEIGHTS(X, vecs)                                                                                 \
    TILE_HEIGHTS(X, vecs) TILE_HEIGHTS_6(X, vecs) TILE_HEIGHTS_8(X, vecs) TILE_HEIGHTS_14(X, vecs)

ALL_HEIGHTS(TILE, 1)
ALL_HEIGHTS(TILE, 2)

#define AHEAD_TILE(rows, vecs)                                                                               \
    static void ahead_##rows##x##vecs(const struct tile *t) {                                                \
        tile_body(rows, vecs, 1, false, true, t);                                                            \
    }
ALL_HEIGHTS(AHEAD_TILE, 2)

typedef void (*tile_function)(const struct tile *);
#define PACKED(rows, vecs)         tile_##rows##x##vecs,
#define STRIDED(rows, vecs)        strided_##rows##x##vecs,
#define PLACED(rows, vecs)         placed_##rows##x##vecs,
#define STRIDED_PLACED(rows, vecs) strided_placed_##rows##x##vecs,
/* by: B in steps or in places, A packed or strided, one vector or two, rows */
static const tile_function tiles[2][2][2][TILE_ROWS] = {
    {
        {{ALL_HEIGHTS(PACKED, 1)}, {ALL_HEIGHTS(PACKED, 2)}},
        {{ALL_HEIGHTS(STRIDED, 1)}, {ALL_HEIGHTS(STRIDED, 2)}},
    },
    {
        {{ALL_HEIGHTS(PLACED, 1)}, {ALL_HEIGHTS(PLACED, 2)}},
        {{ALL_HEIGHTS(STRIDED_PLACED, 1)}, {ALL_HEIGHTS(STRIDED_PLACED, 2)}},
    },
};

#define AHEAD(rows, vecs) ahead_##rows##x##vecs,
static const tile_function ahead_tiles[TILE_ROWS] = {ALL_HEIGHTS(AHEAD, 2)};

void ISA(tile_run)(size_t rows, const struct tile *tile) {
    if (tile->ahead && tile->a_row == 1 && tile->columns > VL)
        ahead_tiles[rows - 1](tile);
    else
        tiles[tile->places != NULL][tile->a_row != 1][tile->columns > VL][rows - 1](tile);
}

/* Few rows leave most registers empty and the adders waiting for one another: take more panels at a time. */
static void tile_1x8(const struct tile *t) {
    tile_body(1, 8, t->a_row, false, false, t);
}
static void tile_2x8(const struct tile *t) {
    tile_body(2, VL == 8 ? 4 : 8, t->a_row, false, false, t);
}

size_t ISA(tile_run_flat)(size_t rows, size_t panels, struct tile *tile) {
    size_t at_once = rows == 1 || VL != 8 ? 4 : 2;
    if (rows > 2 || panels < at_once)
        return 0;
    tile->columns = at_once * PANEL;
    (rows == 1 ? tile_1x8 : tile_2x8)(tile);
    return at_once;
}
