/* Maximum and average over windows of [channels, height, width]. */
#include "nn/layers/layers.h"

struct pool_settings {
    int64_t kernel, stride, pad;
    struct rt_window window; /* made by setup */
};

static const struct rt_option pool_options[] = {
    {.name = "kernel",
     .kind = RT_OPTION_INT,
     .offset = offsetof(struct pool_settings, kernel),
     .fallback = "2",
     .min = 1,
     .max = 1 << 20,
     .help = "height and width of the window"},
    {.name = "stride",
     .kind = RT_OPTION_INT,
     .offset = offsetof(struct pool_settings, stride),
     .fallback = "0",
     .min = 0,
     .max = 1 << 20,
     .help = "step of the window; 0: as wide as the window"},
    {.name = "pad",
     .kind = RT_OPTION_INT,
     .offset = offsetof(struct pool_settings, pad),
     .fallback = "0",
     .min = 0,
     .max = 1 << 20,
     .help = "border around the image; it never counts"},
};

/* The winners of maxpool, one index per output. */
static size_t pool_stash(const struct rt_layer *layer, size_t rows, bool training) {
    (void)training;
    return rows * rt_shape_size(&layer->out);
}

static rt_status pool_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    struct pool_settings *settings = layer->settings;
    rt_status status = rt_layer_want_image(layer, spec, err);
    if (status != RT_OK)
        return status;
    struct rt_window *window = &settings->window;
    *window = (struct rt_window){
        .channels = layer->in.dim[0],
        .height = layer->in.dim[1],
        .width = layer->in.dim[2],
        .kernel = (size_t)settings->kernel,
        .stride = (size_t)(settings->stride ? settings->stride : settings->kernel),
        .pad = (size_t)settings->pad,
    };
    if (2 * window->pad > window->kernel)
        return rt_tree_fail(spec, err, "%s: pad (%zu) may be at most half of the window (%zu)",
                            layer->type->name, window->pad, window->kernel);
    status = rt_layer_window_positions(layer, spec, window->height, window->kernel, window->stride,
                                       window->pad, &window->out_height, err);
    if (status == RT_OK)
        status = rt_layer_window_positions(layer, spec, window->width, window->kernel, window->stride,
                                           window->pad, &window->out_width, err);
    if (status != RT_OK)
        return status;
    layer->out =
        (struct rt_shape){.rank = 3, .dim = {window->channels, window->out_height, window->out_width}};
    layer->flops_forward = (double)window->channels * (double)window->out_height * (double)window->out_width *
                           (double)window->kernel * (double)window->kernel;
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    return RT_OK;
}

static rt_status maxpool_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    layer->stash_floats = pool_stash;
    return pool_setup(layer, spec, err);
}

struct pool_job {
    const struct rt_layer *layer;
    const struct rt_window *window;
    const float *from;
    int32_t *where;
    float *to;
};

static void maxpool_images(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct pool_job *job = argument;
    size_t in = rt_shape_size(&job->layer->in), out = rt_shape_size(&job->layer->out);
    job->layer->kernels->maxpool(job->window, end - begin, job->from + begin * in, job->to + begin * out,
                                 job->where + begin * out);
}

static void maxpool_back_images(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct pool_job *job = argument;
    size_t in = rt_shape_size(&job->layer->in), out = rt_shape_size(&job->layer->out);
    job->layer->kernels->maxpool_back(job->window, end - begin, job->from + begin * out,
                                      job->where + begin * out, job->to + begin * in);
}

static void avgpool_images(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct pool_job *job = argument;
    size_t in = rt_shape_size(&job->layer->in), out = rt_shape_size(&job->layer->out);
    job->layer->kernels->avgpool(job->window, end - begin, job->from + begin * in, job->to + begin * out);
}

static void avgpool_back_images(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct pool_job *job = argument;
    size_t in = rt_shape_size(&job->layer->in), out = rt_shape_size(&job->layer->out);
    job->layer->kernels->avgpool_back(job->window, end - begin, job->from + begin * out,
                                      job->to + begin * in);
}

static void pool_split_images(const struct rt_layer *layer, const struct rt_pass *pass, const float *from,
                              float *stash, rt_range_work body, float *to) {
    const struct pool_settings *settings = layer->settings;
    struct pool_job job = {layer, &settings->window, from, (int32_t *)(void *)stash, to};
    rt_device_split(pass->device, pass->rows, rt_layer_row_grain(rt_shape_size(&layer->in)), body, &job);
}

static void maxpool_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const float *x, float *y) {
    pool_split_images(layer, pass, x, memory->stash, maxpool_images, y);
}

static void maxpool_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                   const struct rt_layer_memory *memory, const float *x, const float *y,
                                   const float *dy, float *dx) {
    (void)x, (void)y;
    pool_split_images(layer, pass, dy, memory->stash, maxpool_back_images, dx);
}

static void avgpool_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    pool_split_images(layer, pass, x, NULL, avgpool_images, y);
}

static void avgpool_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                   const struct rt_layer_memory *memory, const float *x, const float *y,
                                   const float *dy, float *dx) {
    (void)memory, (void)x, (void)y;
    pool_split_images(layer, pass, dy, NULL, avgpool_back_images, dx);
}

const struct rt_layer_type rt_layer_maxpool = {
    .name = "maxpool",
    .help = "the largest number of each window",
    .options = pool_options,
    .option_count = sizeof pool_options / sizeof *pool_options,
    .main_option = "kernel",
    .settings_bytes = sizeof(struct pool_settings),
    .setup = maxpool_setup,
    .forward = maxpool_forward,
    .backward_input = maxpool_backward_input,
};

const struct rt_layer_type rt_layer_avgpool = {
    .name = "avgpool",
    .help = "the mean of each window",
    .options = pool_options,
    .option_count = sizeof pool_options / sizeof *pool_options,
    .main_option = "kernel",
    .settings_bytes = sizeof(struct pool_settings),
    .setup = pool_setup,
    .forward = avgpool_forward,
    .backward_input = avgpool_backward_input,
};
