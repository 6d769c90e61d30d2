/*
 * Correlation of one canvas with a set of kernels, as a matrix product whose B is never stored: its columns
 * are output pixels, its rows the taps of the kernel, and the tiles read the pixels that a tap meets in
 * place.
 */
#include "tensor/exact/conv.h"

#include <string.h>

void ISA(canvas_fill)(const struct canvas *canvas, const float *source, size_t source_height,
                      size_t source_width, float *out) {
    const long height = (long)canvas->height, width = (long)canvas->width, spread = (long)canvas->spread;
    memset(out, 0, canvas_floats(canvas) * sizeof(float));
    /* the source columns that land inside */
    long first = canvas->left >= 0 ? 0 : (-canvas->left + spread - 1) / spread;
    long last = width - 1 - canvas->left < 0 ? 0 : (width - 1 - canvas->left) / spread + 1;
    if (last > (long)source_width)
        last = (long)source_width;
    if (first >= last)
        return;
    for (size_t c = 0; c < canvas->channels; c++)
        for (size_t y = 0; y < source_height; y++) {
            long row = (long)y * spread + canvas->top;
            if (row < 0 || row >= height)
                continue;
            float *to = out + ((long)c * height + row) * width + canvas->left;
            const float *from = source + (c * source_height + y) * source_width;
            if (spread == 1)
                memcpy(to + first, from + first, (size_t)(last - first) * sizeof(float));
            else
                for (long x = first; x < last; x++)
                    to[x * spread] = from[x];
        }
}

/*
 * Strips: for each column of the kernel and each channel, the pixels of the canvas that this column meets,
 * row after row without the border between them. The pixels that one tap meets then follow one another
 * without a gap, so that a tile reads whole vectors of them however narrow the image is: where they begin is
 * all that differs between taps (correlate_find_places). A stride is taken out as well: rows that one tap
 * meets lie together, in `phases` groups of `group` rows.
 *
 * They are cut for a block of k and a band of output rows at a time, which bounds their size.
 */
struct strips {
    size_t channels;      /* at most, of one block */
    size_t phases, group; /* group: for a full band */
    size_t band;          /* output rows */
};

enum { STRIP_FLOATS = 1 << 16 };

static struct strips correlate_plan_strips(const struct correlation *c) {
    const size_t taps = c->kernel_h * c->kernel_w, block = block_depth(c->canvas.channels * taps);
    struct strips plan = {.channels = (block + taps - 1) / taps + 1};
    if (plan.channels > c->canvas.channels)
        plan.channels = c->canvas.channels;
    plan.phases = c->stride < c->kernel_h ? c->stride : c->kernel_h;
    const size_t below = (c->kernel_h - 1) / c->stride; /* rows of a group that the last output row adds */
    const size_t group = STRIP_FLOATS / (c->kernel_w * plan.channels * plan.phases * c->out_width);
    plan.band = group > below ? group - below : 1;
    if (plan.band > c->out_height)
        plan.band = c->out_height;
    plan.group = plan.band + below;
    return plan;
}

static size_t correlate_strip_floats(const struct correlation *c, const struct strips *plan) {
    return c->kernel_w * plan->channels * plan->phases * plan->group * c->out_width + SLACK;
}

/* Where the strip of a channel (of the block) and kernel column begins. */
static size_t correlate_strip_at(const struct correlation *c, const struct strips *plan, size_t channel,
                                 size_t column) {
    return (column * plan->channels + channel) * plan->phases * plan->group * c->out_width;
}

/* Where in its strip a row of the canvas lies, counted from the band's first. The usual stride of one needs
 * no divisions. */
static size_t correlate_strip_row(const struct correlation *c, const struct strips *plan, size_t row) {
    size_t place = c->stride == 1 ? row : row % c->stride * plan->group + row / c->stride;
    return place * c->out_width;
}

/* Copies whole vectors: what is written too much lies in the next row, which is yet to come. */
static inline void correlate_copy_run(const float *from, size_t count, float *to) {
    for (size_t x = 0; x < count; x += VL)
        vec_store(to + x, vec_load(from + x));
}

/* The strips of channels first..last for output rows y0..y0+rows. */
static void correlate_cut_strips(const struct correlation *c, const struct strips *plan, const float *floats,
                                 size_t first, size_t last, size_t y0, size_t rows, float *strips) {
    const size_t width = c->canvas.width, plane = c->canvas.height * width, stride = c->stride;
    for (size_t column = 0; column < c->kernel_w; column++)
        for (size_t channel = first; channel <= last; channel++) {
            float *strip = strips + correlate_strip_at(c, plan, channel - first, column);
            const float *corner = floats + channel * plane + y0 * stride * width + column;
            for (size_t phase = 0; phase < plan->phases; phase++)
                for (size_t row = phase; row < (rows - 1) * stride + c->kernel_h; row += stride) {
                    float *to = strip + correlate_strip_row(c, plan, row);
                    if (stride == 1)
                        correlate_copy_run(corner + row * width, c->out_width, to);
                    else
                        for (size_t x = 0; x < c->out_width; x++)
                            to[x] = corner[row * width + x * stride];
                }
        }
}

/* Where the pixels that each of p0..p0+depth meets lie in the strips, counted from the band's first pixel: p
 * counts (channel, kernel row, kernel column). The same for every band and every panel. */
static void correlate_find_places(const struct correlation *c, const struct strips *plan, size_t p0,
                                  size_t depth, size_t *places) {
    const size_t taps = c->kernel_h * c->kernel_w, next_column = correlate_strip_at(c, plan, 0, 1);
    const size_t *const end = places + depth;
    size_t channel = 0, row = p0 % taps / c->kernel_w, column = p0 % c->kernel_w;
    while (places < end) {
        const size_t at_row = c->flipped ? c->kernel_h - 1 - row : row;
        const size_t first = correlate_strip_at(c, plan, channel, 0) + correlate_strip_row(c, plan, at_row);
        for (; column < c->kernel_w && places < end; column++)
            *places++ = first + (c->flipped ? c->kernel_w - 1 - column : column) * next_column;
        column = 0;
        if (++row == c->kernel_h) {
            row = 0;
            channel++;
        }
    }
}

size_t ISA(correlation_floats)(const struct correlation *c) {
    const struct strips plan = correlate_plan_strips(c);
    return correlate_strip_floats(c, &plan);
}

/* All rows of the output for `columns` pixels and one block of k. */
static void correlate_run_tiles(const struct correlation *c, size_t p0, size_t depth, size_t columns,
                                const float *pixel, const size_t *places, float *out) {
    const size_t k = c->canvas.channels * c->kernel_h * c->kernel_w, pixels = c->out_height * c->out_width;
    struct tile tile = {
        .k = depth,
        .columns = columns,
        .a_row = 1,
        .b = pixel,
        .places = places,
        .c_row = pixels,
        .start = p0 > 0    ? START_C
                 : c->bias ? START_ROW_BIAS
                           : START_ZERO,
        .act = p0 + depth == k ? c->act : RT_ACT_NONE,
        .act_arg = c->act_arg,
    };
    const struct cover cover = cover_rows(c->rows);
    for (size_t i = 0, h; i < c->rows; i += h * tile.count) {
        h = tile_height(&cover, i);
        tile.count = tiles_alike(&cover, i);
        tile.a_next = h * k;
        tile.a = c->a + i * k + p0 * h;
        tile.a_step = h;
        tile.c = out + i * pixels;
        tile.bias = c->bias ? c->bias + i : NULL;
        ISA(tile_run)(h, &tile);
    }
}

void ISA(correlate)(const struct correlation *c, const float *floats, float *out, float *room) {
    const size_t taps = c->kernel_h * c->kernel_w, k = c->canvas.channels * taps, block = block_depth(k);
    const struct strips plan = correlate_plan_strips(c);
    size_t places[BLOCK_DEPTH];
    for (size_t p0 = 0; p0 < k; p0 += block) {
        size_t depth = k - p0 < block ? k - p0 : block;
        correlate_find_places(c, &plan, p0, depth, places);
        for (size_t y = 0; y < c->out_height; y += plan.band) {
            size_t rows = c->out_height - y < plan.band ? c->out_height - y : plan.band;
            size_t pixels = rows * c->out_width;
            correlate_cut_strips(c, &plan, floats, p0 / taps, (p0 + depth - 1) / taps, y, rows, room);
            for (size_t pixel = 0; pixel < pixels; pixel += PANEL) {
                size_t columns = pixels - pixel < PANEL ? pixels - pixel : PANEL;
                correlate_run_tiles(c, p0, depth, columns, room + pixel, places,
                                    out + y * c->out_width + pixel);
            }
        }
    }
}

/* One channel, one kernel: too little work per pixel for panels; vectors run along the output rows. */
void ISA(correlate_depthwise)(const struct correlation *c, const float *floats, float *out) {
    const size_t width = c->canvas.width, stride = c->stride;
    for (size_t y = 0; y < c->out_height; y++) {
        float *to = out + y * c->out_width;
        const float start = c->bias ? c->bias[0] : 0;
        for (size_t x = 0; x < c->out_width; x++)
            to[x] = start;
        for (size_t row = 0; row < c->kernel_h; row++)
            for (size_t column = 0; column < c->kernel_w; column++) {
                const float weight = c->kernel[row * c->kernel_w + column];
                size_t at_row = c->flipped ? c->kernel_h - 1 - row : row;
                size_t at_column = c->flipped ? c->kernel_w - 1 - column : column;
                const float *from = floats + (y * stride + at_row) * width + at_column;
                for (size_t x = 0; x < c->out_width; x++)
                    to[x] = __builtin_fmaf(weight, from[x * stride], to[x]);
            }
        if (c->act != RT_ACT_NONE)
            ISA(activate)(c->act, c->act_arg, c->out_width, to, to);
    }
}
