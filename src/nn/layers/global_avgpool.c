/* The mean of each channel: [channels, height, width] becomes [channels]. */
#include "nn/layers/layers.h"

static rt_status global_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    rt_status status = rt_layer_want_image(layer, spec, err);
    if (status != RT_OK)
        return status;
    layer->out = (struct rt_shape){.rank = 1, .dim = {layer->in.dim[0]}};
    layer->flops_forward = (double)rt_shape_size(&layer->in);
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    return RT_OK;
}

struct global_job {
    const struct rt_kernels *kernels;
    size_t plane;
    const float *from;
    float *to;
};

static void global_average_planes(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct global_job *job = argument;
    for (size_t i = begin; i < end; i++)
        job->to[i] = job->kernels->sum16(job->plane, job->from + i * job->plane) / (float)job->plane;
}

static void global_spread_planes(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct global_job *job = argument;
    for (size_t i = begin; i < end; i++) {
        float share = job->from[i] / (float)job->plane;
        for (size_t j = 0; j < job->plane; j++)
            job->to[i * job->plane + j] = share;
    }
}

static void global_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                           const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    size_t plane = layer->in.dim[1] * layer->in.dim[2];
    struct global_job job = {layer->kernels, plane, x, y};
    rt_device_split(pass->device, pass->rows * layer->in.dim[0], rt_layer_row_grain(plane),
                    global_average_planes, &job);
}

static void global_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                  const struct rt_layer_memory *memory, const float *x, const float *y,
                                  const float *dy, float *dx) {
    (void)memory, (void)x, (void)y;
    size_t plane = layer->in.dim[1] * layer->in.dim[2];
    struct global_job job = {layer->kernels, plane, dy, dx};
    rt_device_split(pass->device, pass->rows * layer->in.dim[0], rt_layer_row_grain(plane),
                    global_spread_planes, &job);
}

const struct rt_layer_type rt_layer_global_avgpool = {
    .name = "global_avgpool",
    .help = "the mean of each channel",
    .setup = global_setup,
    .forward = global_forward,
    .backward_input = global_backward_input,
};
