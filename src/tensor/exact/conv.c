/* Convolution, forward and input gradient: both are correlations, image by image and group by group. */
#include "tensor/exact/conv.h"

static size_t conv_max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

static struct correlation conv_forward_correlation(const struct rt_conv *conv) {
    return (struct correlation){
        .canvas = canvas_input(conv),
        .kernel_h = conv->kernel_h,
        .kernel_w = conv->kernel_w,
        .stride = conv->stride,
        .out_height = conv->out_height,
        .out_width = conv->out_width,
        .rows = conv->filters / conv->groups,
    };
}

static struct correlation conv_input_correlation(const struct rt_conv *conv) {
    return (struct correlation){
        .canvas = canvas_gradient(conv),
        .kernel_h = conv->kernel_h,
        .kernel_w = conv->kernel_w,
        .flipped = true,
        .stride = 1,
        .out_height = conv->height,
        .out_width = conv->width,
        .rows = conv->channels / conv->groups,
    };
}

size_t ISA(conv_scratch)(const struct rt_conv *conv) {
    struct correlation forward = conv_forward_correlation(conv), input = conv_input_correlation(conv);
    size_t floats = conv_max_size(canvas_floats(&forward.canvas) + ISA(correlation_floats)(&forward),
                                  canvas_floats(&input.canvas) + ISA(correlation_floats)(&input));
    floats += ISA(conv_prepared)(conv, false); /* for callers that have not prepared the weights */
    return conv_max_size(floats, ISA(conv_weights_floats)(conv)) * sizeof(float);
}

size_t ISA(conv_prepared)(const struct rt_conv *conv, bool input_gradient) {
    (void)input_gradient;
    if (is_depthwise(conv))
        return 0;
    return conv->filters * (conv->channels / conv->groups) * conv->kernel_h * conv->kernel_w;
}

/* The kernels of each group in tiles: rows are filters (forward) or channels (input gradient), k runs over
 * (channel or filter, kernel row, kernel column). */
void ISA(conv_prepare)(const struct rt_conv *conv, const float *w, bool input_gradient, float *prepared) {
    const size_t filters = conv->filters / conv->groups, channels = conv->channels / conv->groups;
    const size_t taps = conv->kernel_h * conv->kernel_w, group = filters * channels * taps;
    if (is_depthwise(conv))
        return;
    for (size_t g = 0; g < conv->groups; g++, w += group, prepared += group) {
        const size_t rows = input_gradient ? channels : filters, k = group / rows;
        const struct cover cover = cover_rows(rows);
        for (size_t i = 0, h; i < rows; i += h) {
            h = tile_height(&cover, i);
            float *tile = prepared + i * k;
            if (!input_gradient)
                ISA(interleave)(h, h, k, w + i * k, k, 1, tile);
            else
                for (size_t f = 0; f < filters; f++)
                    ISA(interleave)(h, h, taps, w + (f * channels + i) * taps, taps, 1, tile + f * taps * h);
        }
    }
}

static const float *conv_prepare_here(const struct rt_conv *conv, const float *w, bool input_gradient,
                                      float *room) {
    ISA(conv_prepare)(conv, w, input_gradient, room);
    return room;
}

void ISA(conv_forward)(const struct rt_conv *conv, size_t images, const float *x, const float *w,
                       const float *prepared, const float *bias, enum rt_activation act, float act_arg,
                       float *y, void *scratch) {
    struct correlation correlation = conv_forward_correlation(conv);
    correlation.act = act;
    correlation.act_arg = act_arg;
    const size_t pixels = conv->out_height * conv->out_width, taps = conv->kernel_h * conv->kernel_w;
    const size_t source = correlation.canvas.channels * conv->height * conv->width;
    float *floats = scratch, *room = floats + canvas_floats(&correlation.canvas);
    if (!prepared)
        prepared = conv_prepare_here(conv, w, false, room + ISA(correlation_floats)(&correlation));
    for (size_t image = 0; image < images; image++)
        for (size_t g = 0; g < conv->groups; g++, x += source, y += correlation.rows * pixels) {
            ISA(canvas_fill)(&correlation.canvas, x, conv->height, conv->width, floats);
            correlation.bias = bias ? bias + g * correlation.rows : NULL;
            if (is_depthwise(conv)) {
                correlation.kernel = w + g * taps;
                ISA(correlate_depthwise)(&correlation, floats, y);
            } else {
                correlation.a = prepared + g * correlation.rows * correlation.canvas.channels * taps;
                ISA(correlate)(&correlation, floats, y, room);
            }
        }
}

void ISA(conv_input)(const struct rt_conv *conv, size_t images, const float *dy, const float *w,
                     const float *prepared, float *dx, void *scratch) {
    struct correlation correlation = conv_input_correlation(conv);
    const size_t pixels = conv->height * conv->width, taps = conv->kernel_h * conv->kernel_w;
    const size_t source = correlation.canvas.channels * conv->out_height * conv->out_width;
    float *floats = scratch, *room = floats + canvas_floats(&correlation.canvas);
    if (!prepared)
        prepared = conv_prepare_here(conv, w, true, room + ISA(correlation_floats)(&correlation));
    for (size_t image = 0; image < images; image++)
        for (size_t g = 0; g < conv->groups; g++, dy += source, dx += correlation.rows * pixels) {
            ISA(canvas_fill)(&correlation.canvas, dy, conv->out_height, conv->out_width, floats);
            if (is_depthwise(conv)) {
                correlation.kernel = w + g * taps;
                ISA(correlate_depthwise)(&correlation, floats, dx);
            } else {
                correlation.a = prepared + g * correlation.rows * correlation.canvas.channels * taps;
                ISA(correlate)(&correlation, floats, dx, room);
            }
        }
}
