/*
 * The weight gradient of a convolution: dW[filter][column] = sum over pixels of dy[filter][pixel] *
 * patch[pixel][column], pixels in order, image after image. A tile's rows are filters, read in place; its
 * vectors need the patches pixel by pixel, with the columns side by side. Two ways to lay those out:
 *
 *   many channels: a block of columns is one tap with all channels. The canvas is turned once so that the
 *                  channels of a pixel lie together; the tiles then read the patches of every tap in place.
 *   few channels:  one block of columns (channel, tap), copied patch by patch.
 *
 * Sums live in scratch in the blocks' order while the images pass, and go to dW at the end.
 */
#include "tensor/exact/conv.h"

#include <string.h>

struct plan {
    const struct rt_conv *conv;
    struct canvas canvas;
    size_t taps, pixels;
    size_t blocks, columns, pitch; /* blocks of `columns` columns, `pitch` floats apart */
    size_t chunk;                  /* output rows whose patches are passed, or held, at a time */
    size_t dy_pitch;               /* floats between planes of dy: not a multiple of the caches' stride */
    bool many_channels;
};

enum { PATCH_FLOATS = 16384 };

static struct plan conv_weights_plan(const struct rt_conv *conv) {
    struct plan plan = {.conv = conv, .canvas = canvas_input(conv)};
    const size_t channels = plan.canvas.channels;
    plan.taps = conv->kernel_h * conv->kernel_w;
    plan.pixels = conv->out_height * conv->out_width;
    plan.many_channels = channels >= VL;
    plan.blocks = plan.many_channels ? plan.taps : 1;
    plan.columns = plan.many_channels ? channels : channels * plan.taps;
    plan.pitch = (plan.columns + VL - 1) / VL * VL;
    size_t row = conv->out_width * plan.pitch;
    plan.chunk = row >= PATCH_FLOATS ? 1 : PATCH_FLOATS / row;
    if (plan.chunk > conv->out_height)
        plan.chunk = conv->out_height;
    plan.dy_pitch = plan.pixels + (plan.pixels % 256 == 0 ? 16 : 0);
    return plan;
}

static size_t conv_weights_turned_floats(const struct plan *plan) {
    return plan->many_channels ? plan->canvas.height * plan->canvas.width * plan->pitch + SLACK : 0;
}

/* The places, one per pixel of a chunk, take whole cache lines, so that the next data start on one. */
static size_t conv_weights_places_floats(const struct plan *plan) {
    size_t bytes = plan->many_channels ? plan->chunk * plan->conv->out_width * sizeof(size_t) : 0;
    return (bytes + 63) / 64 * 16;
}

static size_t conv_weights_patch_floats(const struct plan *plan) {
    return plan->many_channels ? 0 : plan->chunk * plan->conv->out_width * plan->pitch + SLACK;
}

size_t ISA(conv_weights_floats)(const struct rt_conv *conv) {
    struct plan plan = conv_weights_plan(conv);
    size_t filters = conv->filters / conv->groups;
    return conv_weights_places_floats(&plan) + canvas_floats(&plan.canvas) +
           conv_weights_turned_floats(&plan) + conv_weights_patch_floats(&plan) +
           plan.blocks * filters * plan.pitch + filters * plan.dy_pitch;
}

/* Where on the turned canvas the pixels of a chunk lie, counted from its first: the same for every tap, every
 * chunk and every image. */
static void conv_weights_find_places(const struct plan *plan, size_t *places) {
    const struct rt_conv *conv = plan->conv;
    const size_t step = conv->stride * plan->pitch;
    for (size_t y = 0; y < plan->chunk; y++)
        for (size_t x = 0; x < conv->out_width; x++)
            *places++ = (y * plan->canvas.width + x) * step;
}

/* Where on the turned canvas a tap meets the first pixel of output row y. */
static size_t conv_weights_tap_place(const struct plan *plan, size_t tap, size_t y) {
    const struct rt_conv *conv = plan->conv;
    size_t row = y * conv->stride + tap / conv->kernel_w, column = tap % conv->kernel_w;
    return (row * plan->canvas.width + column) * plan->pitch;
}

/* Patches with columns (channel, tap). Quads are copied; what one writes too much, the next overwrites. */
static void conv_weights_copy_patches(const struct plan *plan, const float *canvas, size_t y0, size_t rows,
                                      float *patches) {
    const struct rt_conv *conv = plan->conv;
    const size_t plane = plan->canvas.height * plan->canvas.width;
    for (size_t y = y0; y < y0 + rows; y++)
        for (size_t x = 0; x < conv->out_width; x++, patches += plan->pitch) {
            const float *corner = canvas + y * conv->stride * plan->canvas.width + x * conv->stride;
            float *to = patches;
            for (size_t c = 0; c < plan->canvas.channels; c++)
                for (size_t r = 0; r < conv->kernel_h; r++, to += conv->kernel_w) {
                    const float *from = corner + c * plane + r * plan->canvas.width;
                    for (size_t i = 0; i < conv->kernel_w; i += 4)
                        *(quad *)(to + i) = *(const quad *)(from + i);
                }
        }
}

/* Adds the patches of one block to its sums [filters][pitch]. places: NULL where they lie side by side. */
static void conv_weights_add_block(const struct plan *plan, size_t filters, size_t pixels, const float *dy,
                                   const float *patches, const size_t *places, enum tile_start start,
                                   float *sums) {
    struct tile tile = {
        .k = pixels,
        .a_row = plan->dy_pitch,
        .a_step = 1,
        .b_step = plan->pitch,
        .places = places,
        .c_row = plan->pitch,
        .start = start,
    };
    const struct cover cover = cover_rows(filters);
    for (size_t j = 0; j < plan->pitch; j += PANEL) {
        tile.columns = plan->pitch - j < PANEL ? VL : PANEL;
        tile.b = patches + j;
        for (size_t i = 0, h; i < filters; i += h * tile.count) {
            h = tile_height(&cover, i);
            tile.count = tiles_alike(&cover, i);
            tile.a_next = h * plan->dy_pitch;
            tile.a = dy + i * plan->dy_pitch;
            tile.c = sums + i * plan->pitch + j;
            ISA(tile_run)(h, &tile);
        }
    }
}

static void conv_weights_add_image(const struct plan *plan, size_t filters, const float *x, const float *dy,
                                   const size_t *places, enum tile_start start, float *room, float *sums) {
    const struct rt_conv *conv = plan->conv;
    float *canvas = room, *turned = canvas + canvas_floats(&plan->canvas);
    float *patches = turned + conv_weights_turned_floats(plan);
    ISA(canvas_fill)(&plan->canvas, x, conv->height, conv->width, canvas);
    if (plan->many_channels) {
        size_t plane = plan->canvas.height * plan->canvas.width;
        ISA(interleave)(plan->columns, plan->pitch, plane, canvas, plane, 1, turned);
    }
    for (size_t y = 0; y < conv->out_height; y += plan->chunk) {
        size_t rows = conv->out_height - y < plan->chunk ? conv->out_height - y : plan->chunk;
        if (!plan->many_channels)
            conv_weights_copy_patches(plan, canvas, y, rows, patches);
        for (size_t b = 0; b < plan->blocks; b++)
            conv_weights_add_block(plan, filters, rows * conv->out_width, dy + y * conv->out_width,
                                   plan->many_channels ? turned + conv_weights_tap_place(plan, b, y)
                                                       : patches,
                                   plan->many_channels ? places : NULL, y > 0 ? START_C : start,
                                   sums + b * filters * plan->pitch);
    }
}

/* Between dw [filters][channel, tap] and sums [block][filters][pitch]. */
static void conv_weights_move_sums(const struct plan *plan, size_t filters, bool to_dw, float *dw,
                                   float *sums) {
    /* a column of a block is a channel (and the block a tap), or channel and tap together */
    const size_t column_step = plan->many_channels ? plan->taps : 1;
    for (size_t f = 0; f < filters; f++, dw += plan->canvas.channels * plan->taps)
        for (size_t block = 0; block < plan->blocks; block++) {
            float *row = sums + (block * filters + f) * plan->pitch;
            for (size_t column = 0; column < plan->columns; column++) {
                float *weight = dw + column * column_step + block;
                *(to_dw ? weight : row + column) = *(to_dw ? row + column : weight);
            }
        }
}

/* Filters first..first+count of group g. */
static void conv_weights_run_group(const struct plan *plan, size_t images, size_t g, size_t first,
                                   size_t count, const float *x, const float *dy, bool accumulate, float *dw,
                                   void *scratch) {
    const struct rt_conv *conv = plan->conv;
    const size_t k = plan->canvas.channels * plan->taps, source = conv->height * conv->width;
    size_t *places = scratch; /* first, where scratch is aligned for them */
    float *room = (float *)scratch + conv_weights_places_floats(plan);
    float *sums = room + canvas_floats(&plan->canvas) + conv_weights_turned_floats(plan) +
                  conv_weights_patch_floats(plan);
    float *dy_copy = sums + plan->blocks * count * plan->pitch;
    dw += first * k;
    if (plan->many_channels)
        conv_weights_find_places(plan, places);
    if (accumulate)
        conv_weights_move_sums(plan, count, false, dw, sums);
    else if (images == 0)
        memset(sums, 0, plan->blocks * count * plan->pitch * sizeof(float));
    for (size_t image = 0; image < images; image++) {
        const float *planes = dy + (image * conv->filters + first) * plan->pixels;
        if (plan->dy_pitch != plan->pixels) {
            for (size_t f = 0; f < count; f++)
                memcpy(dy_copy + f * plan->dy_pitch, planes + f * plan->pixels, plan->pixels * sizeof(float));
            planes = dy_copy;
        }
        conv_weights_add_image(plan, count, x + (image * conv->groups + g) * plan->canvas.channels * source,
                               planes, places, image > 0 || accumulate ? START_C : START_ZERO, room, sums);
    }
    conv_weights_move_sums(plan, count, true, dw, sums);
}

void ISA(conv_weights)(const struct rt_conv *conv, size_t images, size_t first, size_t count, const float *x,
                       const float *dy, bool accumulate, float *dw, float *db, void *scratch) {
    struct plan plan = conv_weights_plan(conv);
    const size_t per_group = conv->filters / conv->groups, end = first + count;
    for (size_t f = first; f < end;) {
        size_t g = f / per_group, group_end = (g + 1) * per_group;
        size_t here = (group_end < end ? group_end : end) - f;
        conv_weights_run_group(&plan, images, g, f, here, x, dy, accumulate, dw, scratch);
        f += here;
    }
    for (size_t f = first; db && f < end; f++) {
        float sum = accumulate ? db[f] : 0;
        for (size_t image = 0; image < images; image++)
            sum += ISA(sum16)(plan.pixels, dy + (image * conv->filters + f) * plan.pixels);
        db[f] = sum;
    }
}
