/* Softmax over all numbers of an example. */
#include "nn/layers/layers.h"

static rt_status softmax_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    (void)spec, (void)err;
    layer->reads_y = true;
    layer->flops_forward = 20.0 * (double)rt_shape_size(&layer->in);
    layer->flops_input = layer->input_gradient ? 4.0 * (double)rt_shape_size(&layer->in) : 0;
    return RT_OK;
}

struct softmax_job {
    const struct rt_kernels *kernels;
    size_t n;
    const float *x, *y, *dy;
    float *out; /* y or dx */
};

static void softmax_forward_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct softmax_job *job = argument;
    job->kernels->softmax(end - begin, job->n, job->x + begin * job->n, job->out + begin * job->n);
}

static void softmax_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    size_t n = rt_shape_size(&layer->in);
    struct softmax_job job = {.kernels = layer->kernels, .n = n, .x = x, .out = y};
    rt_device_split(pass->device, pass->rows, rt_layer_row_grain(n), softmax_forward_rows, &job);
}

static void softmax_backward_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct softmax_job *job = argument;
    size_t at = begin * job->n;
    job->kernels->softmax_back(end - begin, job->n, job->y + at, job->dy + at, job->out + at);
}

static void softmax_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                   const struct rt_layer_memory *memory, const float *x, const float *y,
                                   const float *dy, float *dx) {
    (void)memory, (void)x;
    size_t n = rt_shape_size(&layer->in);
    struct softmax_job job = {.kernels = layer->kernels, .n = n, .y = y, .dy = dy, .out = dx};
    rt_device_split(pass->device, pass->rows, rt_layer_row_grain(n), softmax_backward_rows, &job);
}

const struct rt_layer_type rt_layer_softmax = {
    .name = "softmax",
    .help =
        "turns the numbers of an example into positive ones that sum to 1; not needed before cross_entropy",
    .setup = softmax_setup,
    .forward = softmax_forward,
    .backward_input = softmax_backward_input,
};
