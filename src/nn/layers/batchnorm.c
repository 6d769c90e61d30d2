/*
 * Batch normalisation: each channel (or, for flat inputs, each feature) is normalised to mean 0 and
 * variance 1 over the micro-batch, then to a trained scale and offset. Outside of training, running
 * statistics are used instead.
 *
 * One thread computes the statistics of a channel, in one order: per image with sixteen lanes, images in
 * order. So they do not depend on threads; on the micro-batch they do, by definition.
 */
#include "base/clones.h"
#include "nn/layers/layers.h"
#include <math.h>

struct batchnorm_settings {
    double momentum, eps;
};

static const struct rt_option batchnorm_options[] = {
    {.name = "momentum",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct batchnorm_settings, momentum),
     .fallback = "0.1",
     .min = 0,
     .max = 1,
     .help = "weight of the newest micro-batch in the running statistics"},
    {.name = "eps",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct batchnorm_settings, eps),
     .fallback = "1e-5",
     .min = 1e-12,
     .max = 1,
     .help = "added to the variance"},
};

/* Per channel, each as one array: mean, 1 / deviation, and two sums that the backward leaves for the weights.
 */
enum { MEAN, RSTD, SUM_DY, SUM_DY_XHAT, STASHED };

static size_t batchnorm_stash(const struct rt_layer *layer, size_t rows, bool training) {
    (void)rows, (void)training;
    return STASHED * layer->in.dim[0];
}

static size_t batchnorm_plane(const struct rt_layer *layer) {
    return layer->in.rank == 3 ? layer->in.dim[1] * layer->in.dim[2] : 1;
}

static rt_status batchnorm_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    char text[96];
    if (layer->in.rank != 1 && layer->in.rank != 3)
        return rt_tree_fail(
            spec, err,
            "batchnorm wants a flat input or one of the shape [channels, height, width] but gets %s",
            rt_shape_text(&layer->in, text));
    struct rt_shape channels = {.rank = 1, .dim = {layer->in.dim[0]}};
    rt_status status = rt_layer_add_param(layer, spec, "weight", &channels, err);
    if (status == RT_OK)
        status = rt_layer_add_param(layer, spec, "bias", &channels, err);
    if (status == RT_OK)
        status = rt_layer_add_buffer(layer, spec, "running_mean", &channels, err);
    if (status == RT_OK)
        status = rt_layer_add_buffer(layer, spec, "running_var", &channels, err);
    if (status != RT_OK)
        return status;
    layer->needs_several_rows = batchnorm_plane(layer) == 1;
    layer->stash_floats = batchnorm_stash;
    layer->scratch_bytes = batchnorm_plane(layer) * sizeof(float);
    layer->flops_forward = 8.0 * (double)rt_shape_size(&layer->in);
    layer->flops_input = layer->input_gradient ? 9.0 * (double)rt_shape_size(&layer->in) : 0;
    layer->flops_weights = layer->input_gradient ? 0 : 5.0 * (double)rt_shape_size(&layer->in);
    return RT_OK;
}

static void batchnorm_init(const struct rt_layer *layer, uint64_t seed, float *params, float *buffers) {
    (void)seed;
    size_t channels = layer->in.dim[0];
    for (size_t c = 0; c < channels; c++) {
        params[c] = 1;
        params[channels + c] = 0;
        buffers[c] = 0;
        buffers[channels + c] = 1;
    }
}

struct batchnorm_job {
    const struct rt_layer *layer;
    size_t rows, channels, plane;
    const float *x, *dy, *params;
    float *stash, *buffers;
    float *out; /* y or dx */
};

static struct batchnorm_job batchnorm_make_job(const struct rt_layer *layer, const struct rt_pass *pass,
                                               const struct rt_layer_memory *memory, const float *x) {
    return (struct batchnorm_job){
        .layer = layer,
        .rows = pass->rows,
        .channels = layer->in.dim[0],
        .plane = batchnorm_plane(layer),
        .x = x,
        .params = memory->params,
        .stash = memory->stash,
        .buffers = memory->buffers,
    };
}

/* Leaves mean and 1 / deviation of channel c in the stash and moves the running statistics on. */
static void batchnorm_finish_statistics(const struct batchnorm_job *job, size_t c, float mean, float var) {
    const struct batchnorm_settings *settings = job->layer->settings;
    float count = (float)(job->rows * job->plane);
    float momentum = (float)settings->momentum, rest = 1.0f - momentum;
    float *running_mean = job->buffers + c, *running_var = job->buffers + job->channels + c;
    *running_mean = rest * *running_mean + momentum * mean;
    /* The variance of a single number is unknown: were it taken for 0, many of them would let the running
     * variance decay to nothing, and outside of training everything would be divided by it. */
    if (count > 1)
        *running_var = rest * *running_var + momentum * (var * (count / (count - 1)));
    job->stash[MEAN * job->channels + c] = mean;
    job->stash[RSTD * job->channels + c] = 1.0f / sqrtf(var + (float)settings->eps);
}

/* Statistics of channels begin..end-1 of images. out serves as memory for the differences. */
static void batchnorm_measure_planes(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    const struct rt_kernels *kernels = job->layer->kernels;
    size_t plane = job->plane;
    double count = (double)job->rows * (double)plane;
    for (size_t c = begin; c < end; c++) {
        double sum = 0, squares = 0;
        for (size_t r = 0; r < job->rows; r++)
            sum += (double)kernels->sum16(plane, job->x + (r * job->channels + c) * plane);
        float mean = (float)(sum / count);
        for (size_t r = 0; r < job->rows; r++) {
            const float *x = job->x + (r * job->channels + c) * plane;
            float *difference = job->out + (r * job->channels + c) * plane;
            for (size_t i = 0; i < plane; i++)
                difference[i] = x[i] - mean;
            squares += (double)kernels->dot16(plane, difference, difference);
        }
        batchnorm_finish_statistics(job, c, mean, (float)(squares / count));
    }
}

/* Statistics of features begin..end-1 of flat inputs: sums over the rows in order, row by row in memory. */
RT_CLONES static void measure_columns(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels;
    float *mean = job->stash + MEAN * n, *var = job->stash + RSTD * n;
    for (size_t c = begin; c < end; c++)
        mean[c] = var[c] = 0;
    for (size_t r = 0; r < job->rows; r++)
        for (size_t c = begin; c < end; c++)
            mean[c] += job->x[r * n + c];
    for (size_t c = begin; c < end; c++)
        mean[c] /= (float)job->rows;
    for (size_t r = 0; r < job->rows; r++)
        for (size_t c = begin; c < end; c++) {
            float difference = job->x[r * n + c] - mean[c];
            var[c] += difference * difference;
        }
    for (size_t c = begin; c < end; c++)
        batchnorm_finish_statistics(job, c, mean[c], var[c] / (float)job->rows);
}

/* Outside of training: the running statistics. */
static void batchnorm_recall_statistics(const struct batchnorm_job *job) {
    const struct batchnorm_settings *settings = job->layer->settings;
    for (size_t c = 0; c < job->channels; c++) {
        job->stash[MEAN * job->channels + c] = job->buffers[c];
        job->stash[RSTD * job->channels + c] =
            1.0f / sqrtf(job->buffers[job->channels + c] + (float)settings->eps);
    }
}

/* y of rows begin..end-1 of images. */
RT_CLONES static void normalise_planes(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels, plane = job->plane;
    for (size_t r = begin; r < end; r++)
        for (size_t c = 0; c < n; c++) {
            const float *x = job->x + (r * n + c) * plane;
            float *y = job->out + (r * n + c) * plane;
            float mean = job->stash[MEAN * n + c], rstd = job->stash[RSTD * n + c];
            float weight = job->params[c], bias = job->params[n + c];
            for (size_t i = 0; i < plane; i++)
                y[i] = (x[i] - mean) * rstd * weight + bias;
        }
}

/* y of rows begin..end-1 of flat inputs. */
RT_CLONES static void normalise_columns(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels;
    const float *mean = job->stash + MEAN * n, *rstd = job->stash + RSTD * n;
    const float *weight = job->params, *bias = job->params + n;
    for (size_t r = begin; r < end; r++) {
        const float *x = job->x + r * n;
        float *y = job->out + r * n;
        for (size_t c = 0; c < n; c++)
            y[c] = (x[c] - mean[c]) * rstd[c] * weight[c] + bias[c];
    }
}

static void batchnorm_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                              const struct rt_layer_memory *memory, const float *x, float *y) {
    struct batchnorm_job job = batchnorm_make_job(layer, pass, memory, x);
    job.out = y;
    size_t grain = rt_layer_row_grain(job.rows * job.plane);
    if (pass->training)
        rt_device_split(pass->device, job.channels, grain,
                        layer->in.rank == 3 ? batchnorm_measure_planes : measure_columns, &job);
    else
        batchnorm_recall_statistics(&job);
    rt_device_split(pass->device, job.rows, rt_layer_row_grain(job.channels * job.plane),
                    layer->in.rank == 3 ? normalise_planes : normalise_columns, &job);
}

/* The sums of dy and of dy times the normalised input, of channels begin..end-1 of images. */
static void batchnorm_sum_planes(void *argument, size_t begin, size_t end, void *scratch) {
    const struct batchnorm_job *job = argument;
    const struct rt_kernels *kernels = job->layer->kernels;
    size_t n = job->channels, plane = job->plane;
    float *xhat = scratch;
    for (size_t c = begin; c < end; c++) {
        float mean = job->stash[MEAN * n + c], rstd = job->stash[RSTD * n + c];
        double sum = 0, product = 0;
        for (size_t r = 0; r < job->rows; r++) {
            const float *x = job->x + (r * n + c) * plane, *dy = job->dy + (r * n + c) * plane;
            for (size_t i = 0; i < plane; i++)
                xhat[i] = (x[i] - mean) * rstd;
            sum += (double)kernels->sum16(plane, dy);
            product += (double)kernels->dot16(plane, dy, xhat);
        }
        job->stash[SUM_DY * n + c] = (float)sum;
        job->stash[SUM_DY_XHAT * n + c] = (float)product;
    }
}

RT_CLONES static void sum_columns(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels;
    const float *mean = job->stash + MEAN * n, *rstd = job->stash + RSTD * n;
    float *sum = job->stash + SUM_DY * n, *product = job->stash + SUM_DY_XHAT * n;
    for (size_t c = begin; c < end; c++)
        sum[c] = product[c] = 0;
    for (size_t r = 0; r < job->rows; r++)
        for (size_t c = begin; c < end; c++) {
            float dy = job->dy[r * n + c];
            sum[c] += dy;
            product[c] += dy * ((job->x[r * n + c] - mean[c]) * rstd[c]);
        }
}

static void batchnorm_make_sums(const struct rt_layer *layer, const struct rt_pass *pass,
                                struct batchnorm_job *job) {
    rt_device_split(pass->device, job->channels, rt_layer_row_grain(job->rows * job->plane),
                    layer->in.rank == 3 ? batchnorm_sum_planes : sum_columns, job);
}

/* dx = weight * rstd * (dy - mean(dy) - xhat * mean(dy xhat)) of rows begin..end-1 of images. */
RT_CLONES static void backward_planes(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels, plane = job->plane;
    float count = (float)(job->rows * plane);
    for (size_t r = begin; r < end; r++)
        for (size_t c = 0; c < n; c++) {
            const float *x = job->x + (r * n + c) * plane, *dy = job->dy + (r * n + c) * plane;
            float *dx = job->out + (r * n + c) * plane;
            float mean = job->stash[MEAN * n + c], rstd = job->stash[RSTD * n + c];
            float mean_dy = job->stash[SUM_DY * n + c] / count;
            float mean_product = job->stash[SUM_DY_XHAT * n + c] / count;
            float factor = job->params[c] * rstd;
            for (size_t i = 0; i < plane; i++)
                dx[i] = (dy[i] - mean_dy - (x[i] - mean) * rstd * mean_product) * factor;
        }
}

/* The same of flat inputs. */
RT_CLONES static void backward_columns(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct batchnorm_job *job = argument;
    size_t n = job->channels;
    const float *mean = job->stash + MEAN * n, *rstd = job->stash + RSTD * n;
    const float *sum = job->stash + SUM_DY * n, *product = job->stash + SUM_DY_XHAT * n;
    float count = (float)job->rows;
    for (size_t r = begin; r < end; r++) {
        const float *x = job->x + r * n, *dy = job->dy + r * n;
        float *dx = job->out + r * n;
        for (size_t c = 0; c < n; c++)
            dx[c] = (dy[c] - sum[c] / count - (x[c] - mean[c]) * rstd[c] * (product[c] / count)) *
                    (job->params[c] * rstd[c]);
    }
}

static void batchnorm_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                     const struct rt_layer_memory *memory, const float *x, const float *y,
                                     const float *dy, float *dx) {
    (void)y;
    struct batchnorm_job job = batchnorm_make_job(layer, pass, memory, x);
    job.dy = dy;
    job.out = dx;
    batchnorm_make_sums(layer, pass, &job);
    rt_device_split(pass->device, job.rows, rt_layer_row_grain(job.channels * job.plane),
                    layer->in.rank == 3 ? backward_planes : backward_columns, &job);
}

static void batchnorm_backward_weights(const struct rt_layer *layer, const struct rt_pass *pass,
                                       const struct rt_layer_memory *memory, const float *x, const float *y,
                                       const float *dy, float *grads, bool accumulate,
                                       const struct rt_grad_sink *sink) {
    (void)y;
    struct batchnorm_job job = batchnorm_make_job(layer, pass, memory, x);
    job.dy = dy;
    if (!layer->input_gradient) /* otherwise the backward of the input has made them */
        batchnorm_make_sums(layer, pass, &job);
    size_t n = job.channels;
    for (size_t c = 0; c < n; c++) {
        grads[c] = (accumulate ? grads[c] : 0) + job.stash[SUM_DY_XHAT * n + c];
        grads[n + c] = (accumulate ? grads[n + c] : 0) + job.stash[SUM_DY * n + c];
    }
    if (sink)
        sink->take(sink->self, 0, 2 * n, grads);
}

const struct rt_layer_type rt_layer_batchnorm = {
    .name = "batchnorm",
    .help = "shifts and scales each channel to mean 0 and variance 1 over the micro-batch, then by trained "
            "factors "
            "and offsets. The only layer whose result depends on train.micro_batch",
    .options = batchnorm_options,
    .option_count = sizeof batchnorm_options / sizeof *batchnorm_options,
    .settings_bytes = sizeof(struct batchnorm_settings),
    .measures_batch = true,
    .setup = batchnorm_setup,
    .init = batchnorm_init,
    .forward = batchnorm_forward,
    .backward_input = batchnorm_backward_input,
    .backward_weights = batchnorm_backward_weights,
};
