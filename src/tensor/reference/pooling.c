/*
 * Pooling in the reference. Output (r, c) of a plane sees the elements (r * stride + kr - pad,
 * c * stride + kc - pad) that lie inside the image, in the order of (kr, kc). A window that lies in the
 * padding altogether gives 0 and passes no gradient on.
 */
#include "tensor/reference/reference.h"

/* What one output sees: rows top..bottom-1 and columns left..right-1 of its plane. */
struct view {
    size_t top, bottom, left, right;
};

static size_t clip(size_t position, size_t pad, size_t size) {
    size_t inside = position < pad ? 0 : position - pad;
    return inside > size ? size : inside;
}

static struct view view_of(const struct rt_window *w, size_t r, size_t c) {
    return (struct view){
        .top = clip(r * w->stride, w->pad, w->height),
        .bottom = clip(r * w->stride + w->kernel, w->pad, w->height),
        .left = clip(c * w->stride, w->pad, w->width),
        .right = clip(c * w->stride + w->kernel, w->pad, w->width),
    };
}

void rt_reference_maxpool(const struct rt_window *w, size_t images, const float *x, float *y,
                          int32_t *where) {
    for (size_t p = 0; p < images * w->channels; p++, x += w->height * w->width)
        for (size_t r = 0; r < w->out_height; r++)
            for (size_t c = 0; c < w->out_width; c++) {
                struct view v = view_of(w, r, c);
                float best = 0.0f;
                int32_t at = -1;
                for (size_t row = v.top; row < v.bottom; row++)
                    for (size_t column = v.left; column < v.right; column++) {
                        float value = x[row * w->width + column];
                        bool greater = value > best, first_nan = value != value && best == best;
                        if (at < 0 || greater || first_nan) {
                            best = value;
                            at = (int32_t)(row * w->width + column);
                        }
                    }
                *y++ = best;
                *where++ = at;
            }
}

void rt_reference_maxpool_back(const struct rt_window *w, size_t images, const float *dy,
                               const int32_t *where, float *dx) {
    size_t in = w->height * w->width, out = w->out_height * w->out_width;
    for (size_t p = 0; p < images * w->channels; p++, dx += in, dy += out, where += out) {
        for (size_t i = 0; i < in; i++)
            dx[i] = 0.0f;
        for (size_t o = 0; o < out; o++)
            if (where[o] >= 0)
                dx[where[o]] += dy[o];
    }
}

void rt_reference_avgpool(const struct rt_window *w, size_t images, const float *x, float *y) {
    for (size_t p = 0; p < images * w->channels; p++, x += w->height * w->width)
        for (size_t r = 0; r < w->out_height; r++)
            for (size_t c = 0; c < w->out_width; c++) {
                struct view v = view_of(w, r, c);
                size_t count = (v.bottom - v.top) * (v.right - v.left);
                float sum = 0.0f;
                for (size_t row = v.top; row < v.bottom; row++)
                    for (size_t column = v.left; column < v.right; column++)
                        sum += x[row * w->width + column];
                *y++ = count ? sum / (float)count : 0.0f;
            }
}

void rt_reference_avgpool_back(const struct rt_window *w, size_t images, const float *dy, float *dx) {
    for (size_t p = 0; p < images * w->channels; p++, dx += w->height * w->width) {
        for (size_t i = 0; i < w->height * w->width; i++)
            dx[i] = 0.0f;
        for (size_t r = 0; r < w->out_height; r++)
            for (size_t c = 0; c < w->out_width; c++, dy++) {
                struct view v = view_of(w, r, c);
                float count = (float)((v.bottom - v.top) * (v.right - v.left));
                for (size_t row = v.top; row < v.bottom; row++)
                    for (size_t column = v.left; column < v.right; column++)
                        dx[row * w->width + column] += *dy / count;
            }
    }
}
