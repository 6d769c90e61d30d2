/*
 * Pooling. Loops run over a row of outputs at a time, one element of the window after the other, so that
 * they vectorise; each output still sees its window in order. Windows of two by two that tile the image
 * are the usual case and have loops of their own.
 */
#include "base/exactmath.h"
#include "tensor/exact/loops.h"

#include <string.h>

/* The outputs o (from begin to end) for which the element at `offset` of the window lies inside the image. */
struct range {
    size_t begin, end;
};

static struct range outputs_inside(const struct rt_window *w, size_t offset, size_t size, size_t outputs) {
    struct range r = {0, outputs};
    if (offset < w->pad)
        r.begin = (w->pad - offset + w->stride - 1) / w->stride;
    if (size + w->pad <= offset)
        r.end = 0;
    else if ((outputs - 1) * w->stride + offset >= size + w->pad) /* most often not: saves the division */
        r.end = (size + w->pad - offset - 1) / w->stride + 1;
    if (r.begin > r.end)
        r.begin = r.end;
    return r;
}

/* How many elements of the window of output o lie inside the image, along one axis. */
static inline size_t window_count(const struct rt_window *w, size_t o, size_t size) {
    size_t begin = o * w->stride, end = begin + w->kernel;
    begin = begin < w->pad ? 0 : begin - w->pad;
    end = end < w->pad ? 0 : end - w->pad;
    end = end > size ? size : end;
    return end > begin ? end - begin : 0;
}

/* Every element of the image is in just one window; a single window has no use for its stride. */
static bool window_tiles(const struct rt_window *w) {
    bool single = w->out_height == 1 && w->out_width == 1;
    return w->pad == 0 && (single || w->stride == w->kernel) && w->out_height * w->kernel == w->height &&
           w->out_width * w->kernel == w->width;
}

/* An element in the race for the maximum, and its index in the plane. */
struct winner {
    float value;
    int32_t at;
};

/* The first of equals wins, and a NaN wins. Chosen by masks: of two selects with one condition the compiler
 * makes a branch, and then the loop does not vectorise. */
static inline struct winner winner_of(struct winner first, struct winner second) {
    uint32_t take = -(uint32_t)(!(second.value <= first.value) & (first.value == first.value));
    uint32_t value = (rt_float_bits(second.value) & take) | (rt_float_bits(first.value) & ~take);
    uint32_t at = ((uint32_t)second.at & take) | ((uint32_t)first.at & ~take);
    return (struct winner){rt_float_from_bits(value), (int32_t)at};
}

/* ---- maximum, two by two ------------------------------------------------------------------------------ */

/* count outputs (a constant at every call, so that this becomes a few vector operations) of one row; top and
 * bottom are the two rows of the image, and place is the index of top[0] in its plane. */
static inline __attribute__((always_inline)) void max2_run(size_t count, const float *restrict top,
                                                           const float *restrict bottom, int32_t place,
                                                           int32_t width, float *restrict y,
                                                           int32_t *restrict where) {
#pragma GCC unroll 1
    for (size_t j = 0; j < count; j++) {
        struct winner a = {top[2 * j], place + 2 * (int32_t)j}, b = {top[2 * j + 1], a.at + 1};
        struct winner c = {bottom[2 * j], a.at + width}, d = {bottom[2 * j + 1], a.at + width + 1};
        struct winner best = winner_of(winner_of(a, b), winner_of(c, d));
        y[j] = best.value;
        where[j] = best.at;
    }
}

/* A row of outputs in runs of one length; the last run overlaps the one before it and writes the same again.
 */
#define MAX2_RUNS(length)                                                                                    \
    for (size_t j = 0; j < n; j += (length)) {                                                               \
        size_t s = j + (length) > n ? n - (length) : j;                                                      \
        max2_run((length), top + 2 * s, bottom + 2 * s, place + 2 * (int32_t)s, width, y + s, where + s);    \
    }

static void max2_plane(const struct rt_window *w, const float *x, float *y, int32_t *where) {
    size_t n = w->out_width;
    int32_t width = (int32_t)w->width;
    for (size_t r = 0; r < w->out_height; r++, y += n, where += n) {
        const float *top = x + 2 * r * w->width, *bottom = top + w->width;
        int32_t place = (int32_t)(2 * r * w->width);
        if (n >= 16)
            MAX2_RUNS(16)
        else if (n >= 8)
            MAX2_RUNS(8)
        else if (n >= 4)
            MAX2_RUNS(4)
        else
            max2_run(n, top, bottom, place, width, y, where);
    }
}

/* How far up in a 64-bit word the float lies that comes first in memory. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
enum { FIRST_OF_PAIR = 32 };
#else
enum { FIRST_OF_PAIR = 0 };
#endif

/* The pairs of dx that one row of the image holds: of each pair at most one element won, and only if the
 * winner lies in this row. Pairs are written as one 64-bit word, so that the loop vectorises. */
static inline __attribute__((always_inline)) void max2_back_run(size_t n, const float *restrict dy,
                                                                const int32_t *restrict where, int32_t place,
                                                                float *restrict dx) {
#pragma GCC unroll 1
    for (size_t j = 0; j < n; j++) {
        uint32_t at = (uint32_t)(where[j] - place) - 2 * (uint32_t)j;
        uint64_t value =
            rt_float_bits(0.0f + dy[j]); /* a sum that starts from 0, as everywhere: -0 becomes 0 */
        uint64_t pair =
            (at == 0 ? value << FIRST_OF_PAIR : 0) | (at == 1 ? value << (32 - FIRST_OF_PAIR) : 0);
        memcpy(dx + 2 * j, &pair, sizeof pair);
    }
}

#define MAX2_BACK_RUNS(length)                                                                               \
    for (size_t j = 0; j < n; j += (length)) {                                                               \
        size_t s = j + (length) > n ? n - (length) : j;                                                      \
        max2_back_run((length), dy + s, where + s, place + 2 * (int32_t)s, dx + 2 * s);                      \
    }

static void max2_back_row(size_t n, const float *dy, const int32_t *where, int32_t place, float *dx) {
    if (n >= 8)
        MAX2_BACK_RUNS(8)
    else if (n >= 4)
        MAX2_BACK_RUNS(4)
    else
        max2_back_run(n, dy, where, place, dx);
}

static void max2_back_plane(const struct rt_window *w, const float *dy, const int32_t *where, float *dx) {
    size_t n = w->out_width;
    for (size_t r = 0; r < w->out_height; r++, dy += n, where += n)
        for (size_t row = 2 * r; row < 2 * r + 2; row++)
            max2_back_row(n, dy, where, (int32_t)(row * w->width), dx + row * w->width);
}

/* ---- maximum, any window ------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void max_run(size_t count, size_t stride,
                                                          const float *restrict x, int32_t place,
                                                          float *restrict y, int32_t *restrict where) {
    for (size_t j = 0; j < count; j++) {
        struct winner first = {y[j], where[j]}, second = {x[j * stride], place + (int32_t)(j * stride)};
        struct winner best = winner_of(first, second);
        y[j] = first.at < 0 ? second.value : best.value;
        where[j] = first.at < 0 ? second.at : best.at;
    }
}

/* Strides of one and two as constants: so they vectorise. */
static void max_row(size_t count, size_t stride, const float *x, int32_t place, float *y, int32_t *where) {
    if (stride == 1)
        max_run(count, 1, x, place, y, where);
    else if (stride == 2)
        max_run(count, 2, x, place, y, where);
    else
        max_run(count, stride, x, place, y, where);
}

static void max_plane(const struct rt_window *w, const float *x, float *y, int32_t *where) {
    size_t n = w->out_width;
    for (size_t r = 0; r < w->out_height; r++, y += n, where += n) {
        memset(y, 0, n * sizeof *y);
        for (size_t j = 0; j < n; j++)
            where[j] = -1;
        for (size_t kr = 0; kr < w->kernel; kr++) {
            size_t row = r * w->stride + kr - w->pad; /* above the image: wraps around, so too large */
            for (size_t kc = 0; row < w->height && kc < w->kernel; kc++) {
                struct range in = outputs_inside(w, kc, w->width, n);
                size_t first = row * w->width + in.begin * w->stride + kc - w->pad;
                if (in.begin < in.end)
                    max_row(in.end - in.begin, w->stride, x + first, (int32_t)first, y + in.begin,
                            where + in.begin);
            }
        }
    }
}

void ISA(maxpool)(const struct rt_window *w, size_t images, const float *x, float *y, int32_t *where) {
    size_t in = w->height * w->width, out = w->out_height * w->out_width;
    bool two = w->kernel == 2 && w->stride == 2 && w->pad == 0 && 2 * w->out_height <= w->height &&
               2 * w->out_width <= w->width;
    for (size_t p = 0; p < images * w->channels; p++, x += in, y += out, where += out)
        if (two)
            max2_plane(w, x, y, where);
        else
            max_plane(w, x, y, where);
}

void ISA(maxpool_back)(const struct rt_window *w, size_t images, const float *dy, const int32_t *where,
                       float *dx) {
    size_t in = w->height * w->width, out = w->out_height * w->out_width;
    bool two = w->kernel == 2 && window_tiles(w);
    for (size_t p = 0; p < images * w->channels; p++, dx += in, dy += out, where += out) {
        if (two) {
            max2_back_plane(w, dy, where, dx);
            continue;
        }
        memset(dx, 0, in * sizeof *dx);
        for (size_t o = 0; o < out; o++)
            if (where[o] >= 0)
                dx[where[o]] += dy[o];
    }
}

/* ---- average ------------------------------------------------------------------------------------------ */

static void avg_row(size_t count, size_t stride, const float *restrict x, float *restrict y) {
    if (stride == 1)
        for (size_t j = 0; j < count; j++)
            y[j] += x[j];
    else if (stride == 2)
        for (size_t j = 0; j < count; j++)
            y[j] += x[2 * j];
    else
        for (size_t j = 0; j < count; j++)
            y[j] += x[j * stride];
}

/* Windows wholly inside the image have the same number of elements, and need no look at each. */
static bool windows_inside(const struct rt_window *w) {
    return w->pad == 0 && (w->out_height - 1) * w->stride + w->kernel <= w->height &&
           (w->out_width - 1) * w->stride + w->kernel <= w->width;
}

/* A row of sums to averages; rows: how many rows of the image each window has. */
static void avg_divide(const struct rt_window *w, bool inside, size_t rows, float *y) {
    if (inside) {
        float count = (float)(rows * w->kernel);
        for (size_t j = 0; j < w->out_width; j++)
            y[j] /= count;
        return;
    }
    for (size_t j = 0; j < w->out_width; j++) {
        size_t count = rows * window_count(w, j, w->width);
        y[j] = count ? y[j] / (float)count : 0.0f;
    }
}

/* The average of one window over the whole image, its elements summed in order as for any window: not the
 * bits of global_avgpool, which sums with sixteen lanes. */
static float avg_whole(size_t size, const float *x) {
    float sum = 0.0f;
    for (size_t i = 0; i < size; i++)
        sum += x[i];
    return sum / (float)size;
}

void ISA(avgpool)(const struct rt_window *w, size_t images, const float *x, float *y) {
    size_t n = w->out_width;
    bool inside = windows_inside(w),
         whole = window_tiles(w) && w->kernel == w->height && w->kernel == w->width;
    for (size_t p = 0; p < images * w->channels; p++, x += w->height * w->width) {
        if (whole) {
            *y++ = avg_whole(w->height * w->width, x);
            continue;
        }
        for (size_t r = 0; r < w->out_height; r++, y += n) {
            memset(y, 0, n * sizeof *y);
            for (size_t kr = 0; kr < w->kernel; kr++) {
                size_t row = r * w->stride + kr - w->pad; /* above the image: wraps around, so too large */
                for (size_t kc = 0; row < w->height && kc < w->kernel; kc++) {
                    struct range in = outputs_inside(w, kc, w->width, n);
                    if (in.begin < in.end)
                        avg_row(in.end - in.begin, w->stride,
                                x + (row * w->width + in.begin * w->stride + kc - w->pad), y + in.begin);
                }
            }
            avg_divide(w, inside, window_count(w, r, w->height), y);
        }
    }
}

/* One row of the image gets the shares of one row of outputs. An element's shares must come in the order of
 * the outputs: from the last element of the window to the first. */
static void avg_back_row(const struct rt_window *w, size_t rows, const float *dy, float *dx) {
    for (size_t kc = w->kernel; kc-- > 0;) {
        struct range in = outputs_inside(w, kc, w->width, w->out_width);
        for (size_t j = in.begin; j < in.end; j++)
            dx[j * w->stride + kc - w->pad] += dy[j] / (float)(rows * window_count(w, j, w->width));
    }
}

/* The same where each element is in one window. */
static inline __attribute__((always_inline)) void avg_back_tiles(size_t n, size_t k, const float *restrict dy,
                                                                 float *restrict dx) {
    for (size_t j = 0; j < n; j++) {
        float share = 0.0f + dy[j] / (float)(k * k); /* a sum that starts from 0: -0 becomes 0 */
        for (size_t kc = 0; kc < k; kc++)
            dx[j * k + kc] = share;
    }
}

void ISA(avgpool_back)(const struct rt_window *w, size_t images, const float *dy, float *dx) {
    size_t n = w->out_width, k = w->kernel;
    bool tiles = window_tiles(w);
    for (size_t p = 0; p < images * w->channels; p++, dx += w->height * w->width) {
        if (!tiles)
            memset(dx, 0, w->height * w->width * sizeof *dx);
        for (size_t r = 0; r < w->out_height; r++, dy += n) {
            size_t rows = window_count(w, r, w->height);
            for (size_t kr = 0; kr < k; kr++) {
                size_t row = r * w->stride + kr - w->pad; /* above the image: wraps around, so too large */
                if (row >= w->height)
                    continue;
                float *to = dx + row * w->width;
                if (!tiles)
                    avg_back_row(w, rows, dy, to);
                else if (k == 2)
                    avg_back_tiles(n, 2, dy, to);
                else
                    avg_back_tiles(n, k, dy, to);
            }
        }
    }
}
