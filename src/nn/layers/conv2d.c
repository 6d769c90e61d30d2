/*
 * Convolution over [channels, height, width]. Images are spread over the threads for the forward and the
 * input gradient; for the weight gradient the filters are, because its sum must run over the images in order.
 */
#include "base/memory.h"
#include "nn/layers/layers.h"

struct conv_settings {
    int64_t filters, kernel, kernel_h, kernel_w, stride, pad, groups;
    bool bias;
    int init;            /* enum rt_weight_init */
    struct rt_conv conv; /* made by setup */
};

#define CONV_INT(name_, fallback_, min_, help_)                                                              \
    {                                                                                                        \
        .name = #name_, .kind = RT_OPTION_INT, .offset = offsetof(struct conv_settings, name_),              \
        .fallback = fallback_, .min = min_, .max = 1 << 20, .help = help_                                    \
    }

static const struct rt_option conv_options[] = {
    CONV_INT(filters, NULL, 1, "output channels"),
    CONV_INT(kernel, "3", 1, "height and width of the window"),
    CONV_INT(kernel_h, "0", 0, "height of the window; 0: kernel"),
    CONV_INT(kernel_w, "0", 0, "width of the window; 0: kernel"),
    CONV_INT(stride, "1", 1, "step of the window"),
    {.name = "pad",
     .kind = RT_OPTION_INT,
     .offset = offsetof(struct conv_settings, pad),
     .fallback = "0",
     .min = 0,
     .max = 1 << 20,
     .auto_word = "same",
     .help = "zeros around the image, or `same`: as many as keep its size at stride 1"},
    CONV_INT(groups, "1", 1, "cuts the channels into groups that do not mix; as many as channels: depthwise"),
    {.name = "bias",
     .kind = RT_OPTION_BOOL,
     .offset = offsetof(struct conv_settings, bias),
     .fallback = "true",
     .help = "whether each filter has a bias"},
    {.name = "init",
     .kind = RT_OPTION_CHOICE,
     .offset = offsetof(struct conv_settings, init),
     .fallback = "he",
     .choices = rt_weight_init_names,
     .help = "initial weights"},
};

static const struct rt_conv *conv_of(const struct rt_layer *layer) {
    return &((const struct conv_settings *)layer->settings)->conv;
}

static size_t conv_prepared(const struct rt_layer *layer, bool input_gradient) {
    return rt_round_up(layer->kernels->conv_prepared(conv_of(layer), input_gradient), RT_ALIGN_FLOATS);
}

enum { MOST_SCRATCH = 1 << 30 };

/* What the kernels lay out in a thread's scratch memory: the image with its border, the gradient at the
 * output with the border that the input gradient needs, and the patches of one row of outputs. Their other
 * sizes are not far from these, so 2^31 numbers each keep every sum and product of them in range. */
static rt_status conv_check_scratch(const struct rt_layer *layer, const struct rt_tree *spec,
                                    struct rt_error *err) {
    const struct rt_conv *conv = conv_of(layer);
    const size_t channels = conv->channels / conv->groups, filters = conv->filters / conv->groups;
    const struct {
        const char *name;
        struct rt_shape shape;
    } laid_out[] = {
        {"padded input",
         {.rank = 3, .dim = {channels, conv->height + 2 * conv->pad, conv->width + 2 * conv->pad}}},
        {"padded gradient",
         {.rank = 3, .dim = {filters, conv->height + conv->kernel_h - 1, conv->width + conv->kernel_w - 1}}},
        {"row of windows", {.rank = 4, .dim = {conv->out_width, channels, conv->kernel_h, conv->kernel_w}}},
        {"row of gradient windows",
         {.rank = 4, .dim = {conv->width, filters, conv->kernel_h, conv->kernel_w}}},
    };
    rt_status status = RT_OK;
    for (size_t i = 0; i < sizeof laid_out / sizeof *laid_out && status == RT_OK; i++)
        status = rt_layer_check_size(layer, spec, laid_out[i].name, &laid_out[i].shape, err);
    if (status != RT_OK)
        return status;
    /* A few bytes of description must not allocate the memory of the machine: a window of one and a wide
     * border would. */
    size_t bytes = layer->kernels->conv_scratch(conv);
    if (bytes > MOST_SCRATCH)
        return rt_tree_fail(spec, err,
                            "conv2d: an image would need %zu MiB of scratch memory per thread, more than %d",
                            bytes >> 20, MOST_SCRATCH >> 20);
    return RT_OK;
}

static rt_status conv_geometry(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    struct conv_settings *settings = layer->settings;
    struct rt_conv *conv = &settings->conv;
    *conv = (struct rt_conv){
        .channels = layer->in.dim[0],
        .height = layer->in.dim[1],
        .width = layer->in.dim[2],
        .filters = (size_t)settings->filters,
        .kernel_h = (size_t)(settings->kernel_h ? settings->kernel_h : settings->kernel),
        .kernel_w = (size_t)(settings->kernel_w ? settings->kernel_w : settings->kernel),
        .stride = (size_t)settings->stride,
        .groups = (size_t)settings->groups,
    };
    if (settings->pad >= 0) {
        conv->pad = (size_t)settings->pad;
    } else {
        if (conv->kernel_h != conv->kernel_w || conv->kernel_h % 2 == 0)
            return rt_tree_fail(spec, err,
                                "conv2d: `pad: same` needs a square window of odd size, not %zu x %zu",
                                conv->kernel_h, conv->kernel_w);
        conv->pad = conv->kernel_h / 2;
    }
    if (conv->channels % conv->groups || conv->filters % conv->groups)
        return rt_tree_fail(spec, err,
                            "conv2d: groups (%zu) must divide the input's channels (%zu) and filters (%zu)",
                            conv->groups, conv->channels, conv->filters);
    rt_status status = rt_layer_window_positions(layer, spec, conv->height, conv->kernel_h, conv->stride,
                                                 conv->pad, &conv->out_height, err);
    if (status == RT_OK)
        status = rt_layer_window_positions(layer, spec, conv->width, conv->kernel_w, conv->stride, conv->pad,
                                           &conv->out_width, err);
    return status == RT_OK ? conv_check_scratch(layer, spec, err) : status;
}

static rt_status conv_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    const struct conv_settings *settings = layer->settings;
    const struct rt_conv *conv = conv_of(layer);
    rt_status status = rt_layer_want_image(layer, spec, err);
    if (status == RT_OK)
        status = conv_geometry(layer, spec, err);
    if (status != RT_OK)
        return status;
    layer->out = (struct rt_shape){.rank = 3, .dim = {conv->filters, conv->out_height, conv->out_width}};
    struct rt_shape weight = {
        .rank = 4, .dim = {conv->filters, conv->channels / conv->groups, conv->kernel_h, conv->kernel_w}};
    status = rt_layer_add_param(layer, spec, "weight", &weight, err);
    if (status == RT_OK && settings->bias)
        status = rt_layer_add_param(layer, spec, "bias",
                                    &(struct rt_shape){.rank = 1, .dim = {conv->filters}}, err);
    if (status != RT_OK)
        return status;
    layer->prepared_floats = conv_prepared(layer, false);
    if (layer->input_gradient)
        layer->prepared_floats += conv_prepared(layer, true);
    layer->scratch_bytes = layer->kernels->conv_scratch(conv);
    layer->flops_forward = layer->flops_weights =
        2.0 * (double)rt_shape_size(&weight) * (double)conv->out_height * (double)conv->out_width;
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    layer->absorbs = true;
    return RT_OK;
}

static void conv_init(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers) {
    (void)buffers;
    const struct conv_settings *settings = layer->settings;
    const struct rt_conv *conv = conv_of(layer);
    size_t count = rt_shape_size(&layer->params[0].shape);
    size_t window = conv->kernel_h * conv->kernel_w;
    rt_layer_init_weights(layer, (enum rt_weight_init)settings->init, seed, 0,
                          conv->channels / conv->groups * window, conv->filters / conv->groups * window,
                          count, params);
    for (size_t i = count; i < layer->param_count; i++)
        params[i] = 0;
}

static void conv_prepare(const struct rt_layer *layer, const struct rt_device *device, const float *params,
                         float *prepared) {
    (void)device;
    layer->kernels->conv_prepare(conv_of(layer), params, false, prepared);
    if (layer->input_gradient)
        layer->kernels->conv_prepare(conv_of(layer), params, true, prepared + conv_prepared(layer, false));
}

struct conv_job {
    const struct rt_layer *layer;
    const struct rt_conv *conv;
    const struct rt_grad_sink *sink;
    size_t rows;
    const float *x, *dy, *weights, *prepared, *bias;
    float *out; /* y or dx */
    float *dw, *db;
    bool accumulate;
};

static void conv_forward_images(void *argument, size_t begin, size_t end, void *scratch) {
    const struct conv_job *job = argument;
    const struct rt_layer *layer = job->layer;
    size_t in = rt_shape_size(&layer->in), out = rt_shape_size(&layer->out);
    layer->kernels->conv_forward(job->conv, end - begin, job->x + begin * in, job->weights, job->prepared,
                                 job->bias, layer->act, layer->act_arg, job->out + begin * out, scratch);
}

static void conv_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                         const struct rt_layer_memory *memory, const float *x, float *y) {
    const struct conv_settings *settings = layer->settings;
    const struct rt_conv *conv = conv_of(layer);
    struct conv_job job = {
        .layer = layer,
        .conv = conv,
        .x = x,
        .weights = memory->params,
        .prepared = conv_prepared(layer, false) ? memory->prepared : NULL,
        .bias = settings->bias ? memory->params + layer->params[1].offset : NULL,
        .out = y,
    };
    rt_device_split(pass->device, pass->rows, 1, conv_forward_images, &job);
}

static void conv_input_images(void *argument, size_t begin, size_t end, void *scratch) {
    const struct conv_job *job = argument;
    const struct rt_layer *layer = job->layer;
    size_t in = rt_shape_size(&layer->in), out = rt_shape_size(&layer->out);
    layer->kernels->conv_input(job->conv, end - begin, job->dy + begin * out, job->weights, job->prepared,
                               job->out + begin * in, scratch);
}

static void conv_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                const struct rt_layer_memory *memory, const float *x, const float *y,
                                const float *dy, float *dx) {
    (void)x, (void)y;
    bool prepared = memory->prepared && conv_prepared(layer, true);
    struct conv_job job = {
        .layer = layer,
        .conv = conv_of(layer),
        .dy = dy,
        .weights = memory->params,
        .prepared = prepared ? memory->prepared + conv_prepared(layer, false) : NULL,
        .out = dx,
    };
    rt_device_split(pass->device, pass->rows, 1, conv_input_images, &job);
}

static void conv_weight_filters(void *argument, size_t begin, size_t end, void *scratch) {
    const struct conv_job *job = argument;
    const struct rt_grad_sink *sink = job->sink;
    size_t filter = rt_shape_size(&job->layer->params[0].shape) / job->conv->filters;
    job->layer->kernels->conv_weights(job->conv, job->rows, begin, end - begin, job->x, job->dy,
                                      job->accumulate, job->dw, job->db, scratch);
    if (!sink)
        return;
    sink->take(sink->self, begin * filter, (end - begin) * filter, job->dw + begin * filter);
    if (job->db)
        sink->take(sink->self, job->layer->params[1].offset + begin, end - begin, job->db + begin);
}

/* Filters are divided in eights: with fewer the product inside is too small. */
enum { FILTERS_FOR_A_THREAD = 8 };

static void conv_backward_weights(const struct rt_layer *layer, const struct rt_pass *pass,
                                  const struct rt_layer_memory *memory, const float *x, const float *y,
                                  const float *dy, float *grads, bool accumulate,
                                  const struct rt_grad_sink *sink) {
    (void)memory, (void)y;
    const struct conv_settings *settings = layer->settings;
    struct conv_job job = {
        .layer = layer,
        .conv = conv_of(layer),
        .sink = sink,
        .rows = pass->rows,
        .x = x,
        .dy = dy,
        .dw = grads,
        .db = settings->bias ? grads + layer->params[1].offset : NULL,
        .accumulate = accumulate,
    };
    rt_device_split(pass->device, settings->conv.filters, FILTERS_FOR_A_THREAD, conv_weight_filters, &job);
}

const struct rt_layer_type rt_layer_conv2d = {
    .name = "conv2d",
    .help = "slides a window over the image; each filter makes one output channel",
    .options = conv_options,
    .option_count = sizeof conv_options / sizeof *conv_options,
    .main_option = "filters",
    .settings_bytes = sizeof(struct conv_settings),
    .setup = conv_setup,
    .init = conv_init,
    .prepare = conv_prepare,
    .forward = conv_forward,
    .backward_input = conv_backward_input,
    .backward_weights = conv_backward_weights,
};
