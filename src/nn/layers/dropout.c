/*
 * Dropout: in training each number is dropped with the given chance and the others are scaled up, so that
 * their mean stays; otherwise it does nothing. The mask is a function of (seed, layer, epoch, example,
 * element), so it is drawn again for the backward instead of kept, and any cut of the batch draws the same.
 */
#include "nn/layers/layers.h"
#include <string.h>

struct dropout_settings {
    double rate;
};

static const struct rt_option dropout_options[] = {
    {.name = "rate",
     .kind = RT_OPTION_REAL,
     .offset = offsetof(struct dropout_settings, rate),
     .fallback = "0.5",
     .min = 0,
     .max = 0.999,
     .help = "chance of a number to be dropped"},
};

static rt_status dropout_setup(struct rt_layer *layer, const struct rt_tree *spec, struct rt_error *err) {
    (void)spec, (void)err;
    layer->in_place = layer->dx_in_place = true;
    layer->flops_forward = 12.0 * (double)rt_shape_size(&layer->in); /* mostly for the random words */
    layer->flops_input = layer->input_gradient ? layer->flops_forward : 0;
    return RT_OK;
}

struct dropout_job {
    const struct rt_layer *layer;
    const struct rt_pass *pass;
    const float *x;
    float *y;
};

static void dropout_mask_rows(void *argument, size_t begin, size_t end, void *scratch) {
    (void)scratch;
    const struct dropout_job *job = argument;
    const struct rt_pass *pass = job->pass;
    const struct dropout_settings *settings = job->layer->settings;
    size_t n = rt_shape_size(&job->layer->in);
    double keep = 1.0 - settings->rate;
    uint32_t threshold = (uint32_t)(keep * 4294967296.0);
    for (size_t i = begin; i < end; i++)
        job->layer->kernels->dropout(n, pass->seed, job->layer->index, pass->epoch, pass->examples[i],
                                     threshold, (float)(1.0 / keep), job->x + i * n, job->y + i * n);
}

static void dropout_mask(const struct rt_layer *layer, const struct rt_pass *pass, const float *x, float *y) {
    const struct dropout_settings *settings = layer->settings;
    size_t n = rt_shape_size(&layer->in);
    /* A rate so small that 1 less the rate is 1 drops nothing; its threshold would not fit 32 bits either. */
    if (pass->training && 1.0 - settings->rate < 1.0) {
        struct dropout_job job = {layer, pass, x, y};
        rt_device_split(pass->device, pass->rows, rt_layer_row_grain(n), dropout_mask_rows, &job);
    } else if (x != y) {
        memcpy(y, x, pass->rows * n * sizeof *y);
    }
}

static void dropout_forward(const struct rt_layer *layer, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const float *x, float *y) {
    (void)memory;
    dropout_mask(layer, pass, x, y);
}

static void dropout_backward_input(const struct rt_layer *layer, const struct rt_pass *pass,
                                   const struct rt_layer_memory *memory, const float *x, const float *y,
                                   const float *dy, float *dx) {
    (void)memory, (void)x, (void)y;
    dropout_mask(layer, pass, dy, dx);
}

const struct rt_layer_type rt_layer_dropout = {
    .name = "dropout",
    .help = "drops numbers at random in training, against over-fitting; does nothing otherwise",
    .options = dropout_options,
    .option_count = sizeof dropout_options / sizeof *dropout_options,
    .main_option = "rate",
    .settings_bytes = sizeof(struct dropout_settings),
    .needs_examples = true,
    .setup = dropout_setup,
    .forward = dropout_forward,
    .backward_input = dropout_backward_input,
};
