/*
 * Layer normalisation over all numbers of an example, with a factor and an offset for each of them. The
 * gradients of those are sums over the examples in order; threads share them by columns.
 */
#include "nn/layers/layers.h"

struct norm_settings {
    double eps;
};

static const struct rt_option norm_options[] = {
    {.name = "eps",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct norm_settings, eps),
     .fallback = "1e-5",
     .min = 1e-12,
     .max = 1,
     .help = "added to the variance"},
};

/* Mean and 1 / deviation of each example. */
static size_t norm_stash(const struct rt_layer *layer, size_t rows, bool training) {
    (void)layer, (void)training;
    return 2 * rows;
}

/* Columns that a thread does at a time in the parameter gradients; also its scratch memory. */
enum { COLUMNS = 1024 };

static rt_status norm_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    rt_status status = rt_layer_add_param(layer, spec, "weight", &layer->in, err);
    if (status == RT_OK)
        status = rt_layer_add_param(layer, spec, "bias", &layer->in, err);
    if (status != RT_OK)
        return status;
    layer->stash_floats = norm_stash;
    layer->scratch_bytes = COLUMNS * sizeof(float);
    layer->flops_forward = 8.0 * (double)rt_shape_size(&layer->in);
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    layer->flops_weights = 5.0 * (double)rt_shape_size(&layer->in);
    return RT_OK;
}

static void norm_init(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers) {
    (void)seed, (void)buffers;
    size_t n = rt_shape_size(&layer->in);
    for (size_t i = 0; i < n; i++) {
        params[i] = 1;
        params[n + i] = 0;
    }
}

struct norm_job {
    const struct rt_layer *layer;
    const struct rt_grad_sink *sink;
    size_t rows, n;
    const float *x, *dy, *params;
    float *moments;
    float *out; /* y or dx */
    float *grads;
    bool accumulate;
};

static void norm_forward_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct norm_job *job = argument;
    const struct norm_settings *settings = job->layer->settings;
    size_t n = job->n;
    job->layer->kernels->norm_rows(end - begin, n, job->x + begin * n, job->params, job->params + n,
                                   (float)settings->eps, job->out + begin * n, job->moments + 2 * begin);
}

static void norm_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                         const struct rt_layer_memory *memory, const float *x, float *y) {
    size_t n = rt_shape_size(&layer->in);
    struct norm_job job = {
        .layer = layer, .n = n, .x = x, .params = memory->params, .moments = memory->stash, .out = y};
    rt_device_split(pass->device, pass->rows, rt_layer_row_grain(n), norm_forward_rows, &job);
}

static void norm_backward_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct norm_job *job = argument;
    size_t n = job->n;
    job->layer->kernels->norm_rows_back(end - begin, n, job->x + begin * n, job->params,
                                        job->moments + 2 * begin, job->dy + begin * n, job->out + begin * n);
}

static void norm_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                const struct rt_layer_memory *memory, const float *x, const float *y,
                                const float *dy, float *dx) {
    (void)y;
    size_t n = rt_shape_size(&layer->in);
    struct norm_job job = {.layer = layer,
                           .n = n,
                           .x = x,
                           .dy = dy,
                           .params = memory->params,
                           .moments = memory->stash,
                           .out = dx};
    rt_device_split(pass->device, pass->rows, rt_layer_row_grain(n), norm_backward_rows, &job);
}

static void norm_gradient_columns(void *argument, size_t begin, size_t end, void *scratch) {
    const struct norm_job *job = argument;
    const struct rt_kernels *kernels = job->layer->kernels;
    float *xhat = scratch;
    for (size_t c = begin; c < end; c += COLUMNS) {
        size_t count = end - c < COLUMNS ? end - c : COLUMNS;
        float *dweight = job->grads + c, *dbias = job->grads + job->n + c;
        for (size_t r = 0; r < job->rows; r++) {
            const float *dy = job->dy + r * job->n + c;
            bool accumulate = job->accumulate || r > 0;
            kernels->norm_rows_xhat(1, count, job->x + r * job->n + c, job->moments + 2 * r, xhat);
            kernels->column_dot(1, count, dy, xhat, accumulate, dweight);
            kernels->column_sum(1, count, dy, accumulate, dbias);
        }
        if (job->sink) {
            job->sink->take(job->sink->self, c, count, dweight);
            job->sink->take(job->sink->self, job->n + c, count, dbias);
        }
    }
}

static void norm_backward_weights(const struct rt_layer *layer, const struct rt_pass *pass,
                                  const struct rt_layer_memory *memory, const float *x, const float *y,
                                  const float *dy, float *grads, bool accumulate,
                                  const struct rt_grad_sink *sink) {
    (void)y;
    size_t n = rt_shape_size(&layer->in);
    struct norm_job job = {
        .layer = layer,
        .sink = sink,
        .rows = pass->rows,
        .n = n,
        .x = x,
        .dy = dy,
        .moments = memory->stash,
        .grads = grads,
        .accumulate = accumulate,
    };
    rt_device_split(pass->device, n, rt_layer_row_grain(pass->rows), norm_gradient_columns, &job);
}

const struct rt_layer_type rt_layer_layernorm = {
    .name = "layernorm",
    .help = "shifts and scales each example to mean 0 and variance 1, then by trained factors and offsets",
    .options = norm_options,
    .option_count = sizeof norm_options / sizeof *norm_options,
    .settings_bytes = sizeof(struct norm_settings),
    .setup = norm_setup,
    .init = norm_init,
    .forward = norm_forward,
    .backward_input = norm_backward_input,
    .backward_weights = norm_backward_weights,
};
