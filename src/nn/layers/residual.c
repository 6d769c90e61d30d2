/*
 * Residual: y = x + body(x), where the body is a list of layers. The body is a model of its own; its slot
 * lies in this layer's stash, and its parameters, buffers and prepared weights are this layer's.
 */
#include "base/clones.h"
#include "nn/layers/layers.h"
#include "nn/model.h"

struct residual_settings {
    const struct rt_tree *layers; /* read by setup only */
};

static const struct rt_option residual_options[] = {
    {.name = "layers",
     .kind = RT_OPTION_TREE,
     .offset = offsetof(struct residual_settings, layers),
     .help = "the layers whose output is added to the input"},
};

static size_t residual_stash(const struct rt_layer *layer, size_t rows, bool training) {
    return rt_model_nested_floats(layer->body, rows, training);
}

static rt_status residual_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    struct residual_settings *settings = layer->settings;
    const struct rt_tree *layers = settings->layers;
    settings->layers = NULL;
    if (!layers || layers->kind != RT_TREE_LIST || layers->count == 0)
        return rt_tree_fail(spec, err, "residual needs a list of layers, like `residual: [dense: 64, relu]`");
    rt_status status = rt_model_create(layers, &layer->in, 0, SIZE_MAX, layer->input_gradient, layer->kernels,
                                       &layer->next_index, &layer->body, err);
    if (status != RT_OK)
        return status;
    const struct rt_model *body = layer->body;
    char in[96], out[96];
    if (!rt_shape_equal(&body->in, &body->out))
        return rt_tree_fail(
            spec, err,
            "residual adds its input %s to the output of its layers, so that must have the same "
            "shape, but it has %s",
            rt_shape_text(&body->in, in), rt_shape_text(&body->out, out));
    layer->param_count = body->param_count;
    layer->buffer_count = body->buffer_count;
    layer->prepared_floats = body->prepared_floats;
    layer->scratch_bytes = body->scratch_bytes;
    layer->flops_forward = body->flops_forward + (double)rt_shape_size(&layer->in);
    layer->flops_input = body->flops_input + (layer->input_gradient ? (double)rt_shape_size(&layer->in) : 0);
    layer->flops_weights = body->flops_weights;
    layer->stash_floats = residual_stash;
    return RT_OK;
}

static void residual_destroy(struct rt_layer *layer) {
    rt_model_destroy(layer->body);
}

static void residual_init(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers) {
    rt_model_init(layer->body, seed, params, buffers);
}

static void residual_prepare(const struct rt_layer *layer, const struct rt_device *device,
                             const float *params, float *prepared) {
    rt_model_nested_prepare(layer->body, device, params, prepared);
}

struct add_job {
    const float *a, *b;
    float *y;
};

RT_CLONES static void add_range(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct add_job *job = argument;
    for (size_t i = begin; i < end; i++)
        job->y[i] = job->a[i] + job->b[i];
}

static void residual_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                             const struct rt_layer_memory *memory, const float *x, float *y) {
    struct add_job job = {rt_model_nested_forward(layer->body, pass, memory, x), x, y};
    rt_device_split(pass->device, pass->rows * rt_shape_size(&layer->in), RT_LAYER_GRAIN, add_range, &job);
}

static void residual_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                    const struct rt_layer_memory *memory, const float *x, const float *y,
                                    const float *dy, float *dx) {
    (void)y;
    rt_model_nested_backward(layer->body, pass, memory, x, dy, RT_BACKWARD_INPUT, dx, NULL, false, NULL);
    if (!layer->input_gradient)
        return;
    struct add_job job = {dx, dy, dx};
    rt_device_split(pass->device, pass->rows * rt_shape_size(&layer->in), RT_LAYER_GRAIN, add_range, &job);
}

static void residual_merge_weights(const struct rt_layer *layer, size_t count,
                                   const struct rt_waiting *waiting, float *grads, bool accumulate,
                                   const struct rt_grad_sink *sink) {
    rt_model_backward_weights(layer->body, count, waiting, grads, accumulate, sink, NULL);
}

const struct rt_layer_type rt_layer_residual = {
    .name = "residual",
    .help = "adds the input to the output of a list of layers: `residual: [dense: 64, relu]`",
    .options = residual_options,
    .option_count = sizeof residual_options / sizeof *residual_options,
    .main_option = "layers",
    .settings_bytes = sizeof(struct residual_settings),
    .setup = residual_setup,
    .destroy = residual_destroy,
    .init = residual_init,
    .prepare = residual_prepare,
    .forward = residual_forward,
    .backward_input = residual_backward_input,
    .merge_weights = residual_merge_weights,
};
