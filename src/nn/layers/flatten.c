/* Flatten: the same numbers with a flat shape. Costs nothing where the model can share the memory. */
#include "nn/layers/layers.h"
#include <string.h>

static rt_status flatten_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    (void)spec, (void)err;
    layer->out = (struct rt_shape){.rank = 1, .dim = {rt_shape_size(&layer->in)}};
    layer->view = layer->dx_in_place = true;
    return RT_OK;
}

static void flatten_copy(const struct rt_layer *layer, const struct rt_pass *pass, const float *from,
                         float *to) {
    if (from != to)
        memcpy(to, from, pass->rows * rt_shape_size(&layer->in) * sizeof *to);
}

static void flatten_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    flatten_copy(layer, pass, x, y);
}

static void flatten_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                   const struct rt_layer_memory *memory, const float *x, const float *y,
                                   const float *dy, float *dx) {
    (void)memory, (void)x, (void)y;
    flatten_copy(layer, pass, dy, dx);
}

const struct rt_layer_type rt_layer_flatten = {
    .name = "flatten",
    .help = "makes [channels, height, width] one row of numbers, as dense wants it",
    .setup = flatten_setup,
    .forward = flatten_forward,
    .backward_input = flatten_backward_input,
};
