/*
 * Convolution in the reference. x is [images][channels][height][width], y and dy are
 * [images][filters][out_height][out_width], w is [filters][channels / groups][kernel_h][kernel_w]. An output
 * at (r, c) sees the input at (r * stride + kr - pad, c * stride + kc - pad); outside the image that is 0.
 */
#include "tensor/reference/reference.h"

size_t rt_reference_conv_scratch(const struct rt_conv *conv) {
    (void)conv;
    return 0;
}

size_t rt_reference_conv_prepared(const struct rt_conv *conv, bool input_gradient) {
    (void)conv;
    (void)input_gradient;
    return 0;
}

void rt_reference_conv_prepare(const struct rt_conv *conv, const float *w, bool input_gradient,
                               float *prepared) {
    (void)conv, (void)w, (void)input_gradient, (void)prepared;
}

/* The input that output position (r, c) sees through the kernel's (kr, kc), in the plane x of one channel. */
static float seen(const struct rt_conv *conv, const float *x, size_t r, size_t c, size_t kr, size_t kc) {
    size_t row = r * conv->stride + kr, column = c * conv->stride + kc;
    bool inside = row >= conv->pad && row - conv->pad < conv->height && column >= conv->pad &&
                  column - conv->pad < conv->width;
    return inside ? x[(row - conv->pad) * conv->width + (column - conv->pad)] : 0.0f;
}

/* The output that input position (row, column) reaches through the kernel's (kr, kc), in the plane dy of one
 * filter; 0 where there is none. */
static float reached(const struct rt_conv *conv, const float *dy, size_t row, size_t column, size_t kr,
                     size_t kc) {
    if (row + conv->pad < kr || column + conv->pad < kc)
        return 0.0f;
    size_t r = row + conv->pad - kr, c = column + conv->pad - kc;
    if (r % conv->stride != 0 || c % conv->stride != 0)
        return 0.0f;
    r /= conv->stride;
    c /= conv->stride;
    return r < conv->out_height && c < conv->out_width ? dy[r * conv->out_width + c] : 0.0f;
}

void rt_reference_conv_forward(const struct rt_conv *conv, size_t images, const float *x, const float *w,
                               const float *prepared, const float *bias, enum rt_activation act,
                               float act_arg, float *y, void *scratch) {
    (void)prepared, (void)scratch;
    size_t group_channels = conv->channels / conv->groups, group_filters = conv->filters / conv->groups;
    size_t kernel = conv->kernel_h * conv->kernel_w, plane = conv->height * conv->width;
    for (size_t image = 0; image < images; image++)
        for (size_t f = 0; f < conv->filters; f++)
            for (size_t r = 0; r < conv->out_height; r++)
                for (size_t c = 0; c < conv->out_width; c++) {
                    float acc = bias ? bias[f] : 0.0f;
                    for (size_t gc = 0; gc < group_channels; gc++) {
                        size_t channel = f / group_filters * group_channels + gc;
                        const float *from = x + (image * conv->channels + channel) * plane;
                        for (size_t kr = 0; kr < conv->kernel_h; kr++)
                            for (size_t kc = 0; kc < conv->kernel_w; kc++)
                                acc = __builtin_fmaf(
                                    seen(conv, from, r, c, kr, kc),
                                    w[(f * group_channels + gc) * kernel + kr * conv->kernel_w + kc], acc);
                    }
                    *y++ = rt_reference_act(act, act_arg, acc);
                }
}

void rt_reference_conv_input(const struct rt_conv *conv, size_t images, const float *dy, const float *w,
                             const float *prepared, float *dx, void *scratch) {
    (void)prepared, (void)scratch;
    size_t group_channels = conv->channels / conv->groups, group_filters = conv->filters / conv->groups;
    size_t kernel = conv->kernel_h * conv->kernel_w, plane = conv->out_height * conv->out_width;
    for (size_t image = 0; image < images; image++)
        for (size_t channel = 0; channel < conv->channels; channel++)
            for (size_t row = 0; row < conv->height; row++)
                for (size_t column = 0; column < conv->width; column++) {
                    float acc = 0.0f;
                    size_t gc = channel % group_channels;
                    for (size_t gf = 0; gf < group_filters; gf++) {
                        size_t f = channel / group_channels * group_filters + gf;
                        const float *from = dy + (image * conv->filters + f) * plane;
                        for (size_t kr = 0; kr < conv->kernel_h; kr++)
                            for (size_t kc = 0; kc < conv->kernel_w; kc++)
                                acc = __builtin_fmaf(
                                    reached(conv, from, row, column, kr, kc),
                                    w[(f * group_channels + gc) * kernel + kr * conv->kernel_w + kc], acc);
                    }
                    *dx++ = acc;
                }
}

void rt_reference_conv_weights(const struct rt_conv *conv, size_t images, size_t first, size_t count,
                               const float *x, const float *dy, bool accumulate, float *dw, float *db,
                               void *scratch) {
    (void)scratch;
    size_t group_channels = conv->channels / conv->groups, group_filters = conv->filters / conv->groups;
    size_t kernel = conv->kernel_h * conv->kernel_w;
    size_t in = conv->height * conv->width, out = conv->out_height * conv->out_width;
    for (size_t f = first; f < first + count; f++) {
        for (size_t gc = 0; gc < group_channels; gc++) {
            size_t channel = f / group_filters * group_channels + gc;
            for (size_t kr = 0; kr < conv->kernel_h; kr++)
                for (size_t kc = 0; kc < conv->kernel_w; kc++) {
                    float *sum = &dw[(f * group_channels + gc) * kernel + kr * conv->kernel_w + kc];
                    float acc = accumulate ? *sum : 0.0f;
                    for (size_t image = 0; image < images; image++)
                        for (size_t r = 0; r < conv->out_height; r++)
                            for (size_t c = 0; c < conv->out_width; c++)
                                acc = __builtin_fmaf(
                                    dy[(image * conv->filters + f) * out + r * conv->out_width + c],
                                    seen(conv, x + (image * conv->channels + channel) * in, r, c, kr, kc),
                                    acc);
                    *sum = acc;
                }
        }
        if (db) {
            float acc = accumulate ? db[f] : 0.0f;
            for (size_t image = 0; image < images; image++)
                acc += rt_reference_sum16(out, dy + (image * conv->filters + f) * out);
            db[f] = acc;
        }
    }
}
