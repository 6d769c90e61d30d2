/*
 * Correlation of one canvas with a set of kernels, as a matrix product whose B is never stored whole: the
 * columns are output pixels, and each panel of them is copied straight from the canvas, in runs of
 * consecutive pixels, when the tiles need it.
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

/* A piece of a panel: consecutive output pixels of one output row, at most a vector of them. Where it starts
 * in a plane of the canvas, and in the panel. */
struct piece {
    size_t from, to, length;
};

static size_t find_pieces(const struct correlation *c, size_t pixel, size_t columns, struct piece *pieces) {
    size_t count = 0;
    for (size_t done = 0; done < columns;) {
        size_t y = (pixel + done) / c->out_width, x = (pixel + done) % c->out_width;
        size_t length = c->out_width - x < columns - done ? c->out_width - x : columns - done;
        length = length < VL ? length : VL;
        pieces[count++] = (struct piece){(y * c->canvas.width + x) * c->stride, done, length};
        done += length;
    }
    return count;
}

/* Copies whole vectors: what a piece writes too much is overwritten by the next piece or the next row. */
static inline void copy_pieces(const float *plane, const struct piece *pieces, size_t count, float *out) {
    for (size_t i = 0; i < count; i++)
        vec_store(out + pieces[i].to, vec_load(plane + pieces[i].from));
}

static inline void pick_pieces(const float *plane, const struct piece *pieces, size_t count, size_t stride,
                               float *out) {
    for (size_t i = 0; i < count; i++)
        for (size_t x = 0; x < pieces[i].length; x++)
            out[pieces[i].to + x] = plane[pieces[i].from + x * stride];
}

/* Rows p0..p0+depth of the panel: p counts (channel, kernel row, kernel column). */
static void build_panel(const struct correlation *c, const float *floats, const struct piece *pieces,
                        size_t count, size_t p0, size_t depth, float *panel) {
    const size_t taps = c->kernel_h * c->kernel_w, plane = c->canvas.height * c->canvas.width;
    size_t channel = p0 / taps, row = p0 % taps / c->kernel_w, column = p0 % c->kernel_w;
    for (size_t p = 0; p < depth; p++) {
        size_t tap = c->flipped ? (c->kernel_h - 1 - row) * c->canvas.width + c->kernel_w - 1 - column
                                : row * c->canvas.width + column;
        const float *from = floats + channel * plane + tap;
        if (c->stride == 1)
            copy_pieces(from, pieces, count, panel + p * PANEL);
        else
            pick_pieces(from, pieces, count, c->stride, panel + p * PANEL);
        if (++column == c->kernel_w) {
            column = 0;
            if (++row == c->kernel_h) {
                row = 0;
                channel++;
            }
        }
    }
}

size_t ISA(correlation_floats)(const struct correlation *c) {
    size_t k = c->canvas.channels * c->kernel_h * c->kernel_w;
    return block_depth(k) * PANEL + SLACK;
}

void ISA(correlate)(const struct correlation *c, const float *floats, float *out, float *room) {
    const size_t k = c->canvas.channels * c->kernel_h * c->kernel_w, pixels = c->out_height * c->out_width;
    const size_t height = tile_height(c->rows), block = block_depth(k);
    for (size_t pixel = 0; pixel < pixels; pixel += PANEL) {
        size_t columns = pixels - pixel < PANEL ? pixels - pixel : PANEL;
        struct piece pieces[PANEL];
        size_t count = find_pieces(c, pixel, columns, pieces);
        for (size_t p0 = 0; p0 < k; p0 += block) {
            size_t depth = k - p0 < block ? k - p0 : block;
            build_panel(c, floats, pieces, count, p0, depth, room);
            struct tile tile = {
                .k = depth,
                .columns = columns,
                .a_row = 1,
                .b = room,
                .b_step = PANEL,
                .c_row = pixels,
                .start = p0 > 0    ? START_C
                         : c->bias ? START_ROW_BIAS
                                   : START_ZERO,
                .act = p0 + depth == k ? c->act : RT_ACT_NONE,
                .act_arg = c->act_arg,
            };
            for (size_t i = 0; i < c->rows; i += height) {
                size_t h = c->rows - i < height ? c->rows - i : height;
                tile.a = c->a + i * k + p0 * h;
                tile.a_step = h;
                tile.c = out + i * pixels + pixel;
                tile.bias = c->bias ? c->bias + i : NULL;
                ISA(tile_run)(h, &tile);
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
