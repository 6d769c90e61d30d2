/* The checks of matrix products and convolutions against the reference, for tests/contract/test_kernels.c. */
#include "support/kernel_check.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct rt_kernels *const ref = &rt_kernels_reference;

/* ---- products -------------------------------------------------------------------------------------------
 */

struct product {
    size_t m, n, k;
    bool a_turned, b_turned, packed, accumulate, bias, specials;
    enum rt_activation act;
    uint32_t seed;
    size_t piece; /* k in pieces of so many, each in memory of its own; 0: in one */
};

/* Packs B in two calls, cut at a panel. */
static const float *packed_b(const struct rt_kernels *k, const struct rt_gemm *g) {
    float *packed = kc_take(k->packed_floats(g->k, g->n) * sizeof *packed);
    size_t cut = g->n / 2 / k->panel * k->panel;
    k->pack(g->k, 0, cut, g->n, g->b, g->b_row, g->b_col, packed);
    k->pack(g->k, cut, g->n, g->n, g->b, g->b_row, g->b_col, packed);
    return packed;
}

/* A matrix of rows x cols (element i, j at i * row + j * col) of which only the given ones are there; NaN
 * where the others would be. */
static const float *alone(const float *in, size_t row, size_t col, size_t rows, size_t cols, size_t row0,
                          size_t row1, size_t col0, size_t col1) {
    float *out = kc_take(rows * cols * sizeof *out);
    for (size_t i = 0; i < rows * cols; i++)
        out[i] = NAN;
    for (size_t i = row0; i < row1; i++)
        for (size_t j = col0; j < col1; j++)
            out[i * row + j * col] = in[i * row + j * col];
    return out + row0 * row + col0 * col;
}

/* The same product with k in pieces; every seventh stays unpacked. k is not 0. */
static struct rt_gemm in_pieces(const struct rt_kernels *k, const struct rt_gemm *g, size_t piece,
                                bool packed) {
    struct rt_gemm cut = *g;
    cut.more_count = (g->k + piece - 1) / piece - 1;
    struct rt_gemm_piece *pieces = kc_take((cut.more_count + 1) * sizeof *pieces);
    for (size_t q = 0; q <= cut.more_count; q++) {
        const size_t p0 = q * piece, p1 = g->k - p0 < piece ? g->k : p0 + piece;
        pieces[q].k = p1 - p0;
        pieces[q].a = alone(g->a, g->a_row, g->a_col, g->m, g->k, 0, g->m, p0, p1);
        pieces[q].b = alone(g->b, g->b_row, g->b_col, g->k, g->n, p0, p1, 0, g->n);
        pieces[q].b_packed = NULL;
        if (packed && q % 7 != 6) {
            const struct rt_gemm one = {
                .n = g->n, .k = p1 - p0, .b = pieces[q].b, .b_row = g->b_row, .b_col = g->b_col};
            pieces[q].b_packed = packed_b(k, &one);
            pieces[q].b = NULL;
        }
    }
    cut.k = pieces[0].k;
    cut.a = pieces[0].a;
    cut.b = pieces[0].b;
    cut.b_packed = pieces[0].b_packed;
    cut.more = pieces + 1;
    return cut;
}

static void check_product(const struct rt_kernels *k, const struct product *p) {
    size_t c_row = p->n + 3;
    float *(*numbers)(size_t, uint32_t) = p->specials ? kc_specials : kc_numbers;
    struct kc_pair c = kc_pair_create(p->m * c_row, numbers(p->m * c_row, p->seed));
    struct rt_gemm g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = numbers(p->m * p->k, p->seed + 1),
        .a_row = p->a_turned ? 1 : p->k,
        .a_col = p->a_turned ? p->m : 1,
        .b = numbers(p->k * p->n, p->seed + 2),
        .b_row = p->b_turned ? 1 : p->n,
        .b_col = p->b_turned ? p->k : 1,
        .c = c.want,
        .c_row = c_row,
        .accumulate = p->accumulate,
        .bias = p->bias ? numbers(p->n, p->seed + 3) : NULL,
        .act = p->act,
        .act_arg = 0.3f,
    };
    ref->gemm(&g, NULL);
    g.c = c.got;
    const bool packed = p->packed && k->packed_floats(p->k, p->n) > 0;
    if (p->piece > 0) {
        g = in_pieces(k, &g, p->piece, packed);
    } else if (packed) {
        g.b_packed = packed_b(k, &g);
        g.b = NULL;
    }
    k->gemm(&g, kc_scratch(k->gemm_scratch));
    kc_pair_compare(&c, "%s gemm %zux%zux%zu in pieces of %zu%s%s%s%s%s act %d", k->name, p->m, p->n, p->k,
                    p->piece, p->a_turned ? ", A turned" : "", p->b_turned ? ", B turned" : "",
                    p->packed ? ", packed" : "", p->accumulate ? ", accumulate" : "", p->bias ? ", bias" : "",
                    (int)p->act);
    kc_release();
}

void kc_check_gemm(const struct rt_kernels *k) {
    static const size_t shapes[][3] = {
        {1, 1, 1},    {1, 10, 64},   {1, 17, 3},    {1, 130, 9},   {2, 65, 5},  {2, 200, 33},
        {3, 5, 7},    {4, 4, 4},     {5, 33, 31},   {6, 16, 16},   {7, 15, 17}, {8, 8, 40},
        {12, 9, 2},   {13, 31, 33},  {14, 32, 8},   {15, 47, 65},  {16, 64, 1}, {17, 1, 40},
        {28, 16, 13}, {29, 65, 530}, {3, 5, 0},     {0, 5, 3},     {5, 0, 3},   {170, 33, 20},
        {64, 10, 9},  {1, 3, 1100},  {2, 40, 1030}, {31, 100, 11}, {343, 7, 5},
    };
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (uint32_t bits = 0; bits < 128; bits++) {
            struct product p = {.m = shapes[s][0],
                                .n = shapes[s][1],
                                .k = shapes[s][2],
                                .a_turned = bits & 1,
                                .b_turned = bits & 2,
                                .packed = bits & 4,
                                .accumulate = bits & 8,
                                .bias = bits & 16,
                                .act = bits & 32 ? RT_ACT_RELU : RT_ACT_NONE,
                                .specials = bits & 64,
                                .seed = bits};
            bool large = p.m * p.n * p.k > (p.specials ? 4000 : 30000);
            if (!large || bits % 7 == 0)
                check_product(k, &p);
        }
    for (size_t a = 0; a < KC_ACTS; a++)
        for (uint32_t bits = 0; bits < 4; bits++) {
            struct product p = {.m = 5 + 12 * (bits & 1),
                                .n = 33,
                                .k = 31,
                                .packed = bits & 2,
                                .bias = true,
                                .act = (enum rt_activation)a,
                                .seed = bits};
            check_product(k, &p);
        }
}

/* k in pieces: the sum goes on from one to the next. The reference takes part, against itself in one piece.
 */
void kc_check_gemm_pieces(const struct rt_kernels *k) {
    static const size_t shapes[][3] = {{1, 40, 7},    {2, 140, 16},  {3, 5, 9},     {14, 33, 64},
                                       {28, 65, 50},  {29, 31, 17},  {16, 9, 530},  {5, 33, 1100},
                                       {170, 40, 33}, {30, 300, 20}, {17, 1040, 4}, {1, 1, 2}};
    static const size_t pieces[] = {1, 3, 16, 200, 600, 2000};
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t q = 0; q < COUNT(pieces); q++)
            for (uint32_t bits = 0; bits < 64; bits++) {
                struct product p = {.m = shapes[s][0],
                                    .n = shapes[s][1],
                                    .k = shapes[s][2],
                                    .a_turned = bits & 1,
                                    .b_turned = bits & 2,
                                    .packed = bits & 4,
                                    .accumulate = bits & 8,
                                    .bias = bits & 16,
                                    .act = bits & 32 ? RT_ACT_GELU : RT_ACT_NONE,
                                    .seed = bits,
                                    .piece = pieces[q]};
                /* every piece is a matrix of its own here, so many of them take memory */
                const size_t work = p.m * p.n * p.k + p.k * p.k / p.piece * (p.m + p.n);
                const bool small = work < 20000, fits = work < 4000000 && p.k / p.piece < 70;
                if (p.piece < 2 * p.k && (small || (fits && (bits + s) % 13 == 5)))
                    check_product(k, &p);
            }
}

/* ---- convolution ----------------------------------------------------------------------------------------
 */

static size_t outputs(size_t size, size_t kernel, size_t stride, size_t pad) {
    return (size + 2 * pad - kernel) / stride + 1;
}

/* channels, height, width, filters, kernel_h, kernel_w, stride, pad, groups */
static const size_t convolutions[][9] = {
    {1, 8, 8, 4, 3, 3, 1, 1, 1},
    {1, 28, 28, 9, 3, 3, 1, 1, 1},
    {16, 14, 14, 20, 3, 3, 1, 1, 1},
    {3, 9, 7, 5, 3, 3, 2, 1, 1},
    {4, 10, 11, 6, 5, 3, 3, 2, 2},
    {2, 5, 5, 3, 1, 1, 1, 0, 1},
    {33, 5, 5, 15, 1, 1, 1, 0, 1},
    {4, 17, 17, 4, 1, 1, 2, 0, 1},
    {5, 1, 1, 7, 1, 1, 1, 0, 1},
    {8, 6, 6, 8, 3, 3, 1, 1, 8},
    {8, 9, 9, 8, 5, 5, 2, 2, 8},
    {7, 20, 19, 7, 3, 3, 1, 0, 7},
    {8, 6, 6, 16, 3, 3, 1, 1, 8},
    {6, 7, 9, 6, 3, 3, 2, 0, 3},
    {6, 7, 9, 4, 3, 3, 3, 2, 2},
    {2, 3, 3, 3, 5, 5, 1, 1, 1},
    {2, 2, 2, 2, 5, 5, 2, 2, 1},
    {3, 4, 40, 17, 3, 2, 1, 0, 1},
    {1, 32, 32, 6, 5, 5, 1, 0, 1},
    {2, 4, 4, 3, 1, 1, 1, 2, 1},
    {3, 12, 12, 8, 7, 7, 2, 2, 1},
    {2, 11, 33, 16, 3, 3, 2, 1, 1},
    {1, 1, 50, 3, 1, 9, 1, 0, 1},
    {1, 50, 1, 3, 9, 1, 1, 0, 1},
    {4, 13, 13, 1, 3, 3, 1, 1, 1},
    {2, 10, 10, 40, 2, 2, 2, 0, 1},
    {2, 6, 6, 3, 2, 2, 3, 0, 1},
    {40, 7, 7, 33, 3, 3, 1, 1, 1},
    {1, 3, 3, 1, 3, 3, 1, 0, 1},
    /* a long sum, in several blocks; a wide image, in several bands */
    {61, 5, 6, 3, 3, 3, 1, 1, 1},
    {3, 12, 400, 2, 3, 9, 2, 0, 1},
};

const size_t kc_conv_count = COUNT(convolutions);

struct rt_conv kc_conv(size_t index) {
    const size_t *c = convolutions[index];
    struct rt_conv conv = {.channels = c[0],
                           .height = c[1],
                           .width = c[2],
                           .filters = c[3],
                           .kernel_h = c[4],
                           .kernel_w = c[5],
                           .stride = c[6],
                           .pad = c[7],
                           .groups = c[8],
                           .out_height = outputs(c[1], c[4], c[6], c[7]),
                           .out_width = outputs(c[2], c[5], c[6], c[7])};
    return conv;
}

size_t kc_conv_in(const struct rt_conv *c) {
    return c->channels * c->height * c->width;
}

size_t kc_conv_out(const struct rt_conv *c) {
    return c->filters * c->out_height * c->out_width;
}

size_t kc_conv_weight_count(const struct rt_conv *c) {
    return c->filters * (c->channels / c->groups) * c->kernel_h * c->kernel_w;
}

static const char *conv_text(const struct rt_conv *c) {
    static char text[128];
    snprintf(text, sizeof text, "%zux%zux%zu filters %zu kernel %zux%zu stride %zu pad %zu groups %zu",
             c->channels, c->height, c->width, c->filters, c->kernel_h, c->kernel_w, c->stride, c->pad,
             c->groups);
    return text;
}

static const float *prepared_weights(const struct rt_kernels *k, const struct rt_conv *conv, const float *w,
                                     bool input_gradient) {
    size_t floats = k->conv_prepared(conv, input_gradient);
    float *prepared = kc_scratch(floats * sizeof *prepared);
    if (floats)
        k->conv_prepare(conv, w, input_gradient, prepared);
    return floats ? prepared : NULL;
}

void kc_check_conv_forward(const struct rt_kernels *k) {
    static const enum rt_activation acts[] = {RT_ACT_NONE, RT_ACT_RELU, RT_ACT_GELU};
    for (size_t i = 0; i < COUNT(convolutions); i++)
        for (size_t variant = 0; variant < 4; variant++) {
            struct rt_conv conv = kc_conv(i);
            size_t images = 1 + variant % 2 * 2;
            enum rt_activation act = acts[(i + variant) % COUNT(acts)];
            float *(*numbers)(size_t, uint32_t) = variant == 1 ? kc_specials : kc_numbers;
            const float *x = numbers(images * kc_conv_in(&conv), 1),
                        *w = numbers(kc_conv_weight_count(&conv), 2);
            const float *bias = variant < 2 ? numbers(conv.filters, 3) : NULL;
            struct kc_pair y = kc_pair_create(images * kc_conv_out(&conv), NULL);
            ref->conv_forward(&conv, images, x, w, NULL, bias, act, 0.1f, y.want, NULL);
            k->conv_forward(&conv, images, x, w, variant % 2 ? prepared_weights(k, &conv, w, false) : NULL,
                            bias, act, 0.1f, y.got, kc_scratch(k->conv_scratch(&conv)));
            kc_pair_compare(&y, "%s conv_forward, %zu images, %s", k->name, images, conv_text(&conv));
            kc_release();
        }
}

void kc_check_conv_input(const struct rt_kernels *k) {
    for (size_t i = 0; i < COUNT(convolutions); i++)
        for (size_t variant = 0; variant < 4; variant++) {
            size_t images = 1 + variant % 2 * 2;
            struct rt_conv conv = kc_conv(i);
            float *(*numbers)(size_t, uint32_t) = images > 1 ? kc_specials : kc_numbers;
            const float *dy = numbers(images * kc_conv_out(&conv), 1);
            const float *w = numbers(kc_conv_weight_count(&conv), 2);
            struct kc_pair dx = kc_pair_create(images * kc_conv_in(&conv), NULL);
            ref->conv_input(&conv, images, dy, w, NULL, dx.want, NULL);
            k->conv_input(&conv, images, dy, w, variant < 2 ? prepared_weights(k, &conv, w, true) : NULL,
                          dx.got, kc_scratch(k->conv_scratch(&conv)));
            kc_pair_compare(&dx, "%s conv_input, %zu images, %s", k->name, images, conv_text(&conv));
            kc_release();
        }
}

void kc_check_conv_weights(const struct rt_kernels *k) {
    for (size_t i = 0; i < COUNT(convolutions); i++)
        for (size_t variant = 0; variant < 4; variant++) {
            struct rt_conv conv = kc_conv(i);
            size_t images = 1 + variant % 2 * 2;
            bool accumulate = variant >= 2, bias = (i + variant) % 3 != 0;
            float *(*numbers)(size_t, uint32_t) = variant == 3 ? kc_specials : kc_numbers;
            const float *x = numbers(images * kc_conv_in(&conv), 1),
                        *dy = numbers(images * kc_conv_out(&conv), 2);
            struct kc_pair dw = kc_pair_create(kc_conv_weight_count(&conv), NULL);
            struct kc_pair db = kc_pair_create(conv.filters, NULL);
            ref->conv_weights(&conv, images, 0, conv.filters, x, dy, accumulate, dw.want,
                              bias ? db.want : NULL, NULL);
            /* in three parts, as threads would */
            size_t cut[] = {0, conv.filters / 3, conv.filters / 2, conv.filters};
            for (size_t part = 0; part < 3; part++)
                k->conv_weights(&conv, images, cut[part], cut[part + 1] - cut[part], x, dy, accumulate,
                                dw.got, bias ? db.got : NULL, kc_scratch(k->conv_scratch(&conv)));
            kc_pair_compare(&dw, "%s conv_weights dw, %zu images, %s", k->name, images, conv_text(&conv));
            kc_pair_compare(&db, "%s conv_weights db, %zu images, %s", k->name, images, conv_text(&conv));
            kc_release();
        }
}
