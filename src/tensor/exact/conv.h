/* What the three parts of a convolution share: an image laid out with its border, so that every tap of the
 * kernel is a constant distance away. */
#ifndef RT_TENSOR_EXACT_CONV_H
#define RT_TENSOR_EXACT_CONV_H

#include "tensor/exact/gemm.h"

/* Floats behind every buffer that vectors may read or write past its end. */
enum { SLACK = 2 * PANEL };

/* channels planes of height x width, zero except where the source lands: its row y at y * spread + top, its
 * column x at x * spread + left; what falls outside is dropped. */
struct canvas {
    size_t channels, height, width;
    long top, left;
    size_t spread;
};

static inline size_t canvas_floats(const struct canvas *canvas) {
    size_t floats = canvas->channels * canvas->height * canvas->width + SLACK;
    return (floats + 15) / 16 * 16; /* what follows starts on a cache line */
}

void ISA(canvas_fill)(const struct canvas *canvas, const float *source, size_t source_height,
                      size_t source_width, float *out);

/* The canvas on which a group's input lies for forward and weight gradients, and its output gradient for the
 * input gradient (there, each tap (r, c) of the kernel is found at (kernel_h-1-r, kernel_w-1-c)). */
static inline struct canvas canvas_input(const struct rt_conv *conv) {
    return (struct canvas){
        .channels = conv->channels / conv->groups,
        .height = (conv->out_height - 1) * conv->stride + conv->kernel_h,
        .width = (conv->out_width - 1) * conv->stride + conv->kernel_w,
        .top = (long)conv->pad,
        .left = (long)conv->pad,
        .spread = 1,
    };
}

static inline struct canvas canvas_gradient(const struct rt_conv *conv) {
    return (struct canvas){
        .channels = conv->filters / conv->groups,
        .height = conv->height + conv->kernel_h - 1,
        .width = conv->width + conv->kernel_w - 1,
        .top = (long)conv->kernel_h - 1 - (long)conv->pad,
        .left = (long)conv->kernel_w - 1 - (long)conv->pad,
        .spread = conv->stride,
    };
}

static inline bool is_depthwise(const struct rt_conv *conv) {
    return conv->groups > 1 && conv->groups == conv->channels && conv->filters == conv->channels;
}

/* Correlates a canvas with kernels: out[row][y][x] = act(bias[row] + sum over (channel, tap) of
 * a[row][channel, tap] * canvas[channel][y * stride + tap row][x * stride + tap column]). */
struct correlation {
    struct canvas canvas;
    size_t kernel_h, kernel_w;
    bool flipped; /* taps counted from the far corner */
    size_t stride, out_height, out_width;
    size_t rows;
    const float *a;      /* in tiles, as made by conv_prepare */
    const float *kernel; /* depthwise: the channel's own kernel instead */
    const float *bias;
    enum rt_activation act;
    float act_arg;
};

/* floats: filled canvas; room: correlation_floats. out: [rows][out_height * out_width]. */
size_t ISA(correlation_floats)(const struct correlation *correlation);
void ISA(correlate)(const struct correlation *correlation, const float *floats, float *out, float *room);
void ISA(correlate_depthwise)(const struct correlation *correlation, const float *floats, float *out);

/* Scratch floats that the weight gradient needs. */
size_t ISA(conv_weights_floats)(const struct rt_conv *conv);

#endif
