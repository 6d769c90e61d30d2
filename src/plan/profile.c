/*
 * How long each layer takes on this device. Layers are measured one at a time, so that the memory of one is
 * enough, a few times with made-up numbers; the lower quartile counts. Layers that do the same work are
 * measured once. A layer for which this device lacks memory, or whose turn comes after
 * RT_PROFILE_MOST_SECONDS, gets the time of its arithmetic at the speed of the others: so a master that asks
 * for a profile cannot occupy the device for longer.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "learn/gradient.h"
#include "nn/model.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, OPERATIONS = 4, LOOK_BACK = 64 };
#define LONG_SECONDS 0.4 /* what takes longer is done once */
/* A layer of which one round would exceed the time of the whole profile, on a fast device. */
#define MOST_FLOPS (RT_PROFILE_MOST_SECONDS * 1e11)

struct bench {
    const struct rt_job *job;
    struct rt_device *device;
    size_t rows;
    double share;  /* seconds that the rounds over one layer may take */
    bool single;   /* the device has one thread */
    double memory; /* bytes it may take; 0: no limit */
    struct rt_pass pass;
    uint32_t *examples;

    /* one layer, or one with the activation fused into it */
    struct rt_model *model;
    struct rt_blocks blocks;
    float *x, *dx, *slot, *gradients, *state;
};

/* Numbers around zero, none so small that arithmetic slows down (denormals). */
static void profile_make_up(float *numbers, size_t count) {
    uint32_t word = 1;
    for (size_t i = 0; i < count; i++) {
        word = word * 1664525u + 1013904223u;
        numbers[i] = (float)(word >> 9) * 0x1p-23f - 0.4999f;
    }
}

static void profile_drop_layer(struct bench *bench) {
    rt_model_destroy(bench->model);
    free(bench->blocks.params);
    free(bench->blocks.buffers);
    free(bench->blocks.prepared);
    free(bench->x);
    free(bench->dx);
    free(bench->slot);
    free(bench->gradients);
    free(bench->state);
    bench->model = NULL;
    bench->blocks = (struct rt_blocks){0};
    bench->x = bench->dx = bench->slot = bench->gradients = bench->state = NULL;
}

/* The optimizer's state is needed for the layer itself only, not for a fused activation. */
static double profile_layer_bytes(const struct rt_job *job, const struct rt_model *model, size_t rows,
                                  bool backward) {
    const double words = backward ? 2 + (double)job->optim->type->state_tensors : 1;
    const double floats = (double)model->param_count * words +
                          (double)rt_model_slot_floats(model, rows, true) + (double)model->prepared_floats +
                          2 * (double)rows * (double)rt_shape_size(&model->in);
    return floats * sizeof(float);
}

static rt_status profile_take_memory(struct bench *bench, bool backward, struct rt_error *err) {
    const struct rt_model *model = bench->model;
    const size_t params = model->param_count, words = bench->job->optim->type->state_tensors;
    const size_t x = bench->rows * rt_shape_size(&model->in);
    const size_t slot = rt_model_slot_floats(model, bench->rows, true);
    const double bytes = profile_layer_bytes(bench->job, model, bench->rows, backward);
    rt_status status = rt_memory_check(bytes, "a layer's profile", err);
    if (status == RT_OK && bench->memory > 0 && bytes > bench->memory)
        status = rt_fail(err, RT_NO_MEMORY, "to measure a layer takes more memory than the device offers");
    if (status == RT_OK)
        status = rt_pool_reserve(bench->device->pool, model->scratch_bytes, err);
    if (status == RT_OK)
        status = rt_floats_create(params, "a profile", &bench->blocks.params, err);
    if (status == RT_OK)
        status = rt_floats_create(model->buffer_count, "a profile", &bench->blocks.buffers, err);
    if (status == RT_OK)
        status = rt_floats_create(model->prepared_floats, "a profile", &bench->blocks.prepared, err);
    if (status == RT_OK)
        status = rt_floats_create(x, "a profile", &bench->x, err);
    if (status == RT_OK)
        status = rt_floats_create(x, "a profile", &bench->dx, err);
    if (status == RT_OK)
        status = rt_floats_create(slot, "a profile", &bench->slot, err);
    if (status == RT_OK && backward)
        status = rt_floats_create(params, "a profile", &bench->gradients, err);
    if (status == RT_OK && backward)
        status = rt_floats_create(params * words, "a profile", &bench->state, err);
    if (status != RT_OK)
        return status;
    profile_make_up(bench->blocks.params, params);
    profile_make_up(bench->x, x);
    for (size_t i = 0; i < model->buffer_count; i++)
        bench->blocks.buffers[i] = 1;
    return RT_OK;
}

/* Layers first..first+count as a model. in: the shape of its input. */
static rt_status profile_take_layers(struct bench *bench, const struct rt_model *whole, size_t first,
                                     size_t count, bool gradient, bool backward, struct rt_error *err) {
    struct rt_tree list = *bench->job->layers;
    list.items += first;
    list.count = count;
    uint32_t index = 0;
    rt_status status = rt_model_create(&list, &whole->layers[first]->in, 0, SIZE_MAX, gradient,
                                       bench->device->kernels, &index, &bench->model, err);
    return status == RT_OK ? profile_take_memory(bench, backward, err) : status;
}

/* ---- operations ---- */

static void profile_forward(struct bench *bench) {
    rt_model_forward(bench->model, &bench->pass, &bench->blocks, bench->slot, bench->x);
}

static void profile_backward_input(struct bench *bench) {
    float *dx = bench->model->layers[0]->input_gradient ? bench->dx : NULL;
    rt_model_backward(bench->model, &bench->pass, &bench->blocks, bench->slot, bench->x, RT_BACKWARD_INPUT,
                      dx, NULL, false, NULL);
}

static void profile_backward_weights(struct bench *bench) {
    rt_model_backward(bench->model, &bench->pass, &bench->blocks, bench->slot, bench->x, RT_BACKWARD_WEIGHTS,
                      NULL, bench->gradients, true, NULL);
}

static void profile_update(struct bench *bench) {
    struct rt_optim_step step;
    rt_optim_begin(bench->job->optim, 1, 1, 1, &step);
    rt_gradient_apply(bench->device, bench->job->optim, &step, bench->model->param_count, bench->gradients,
                      bench->blocks.params, bench->state);
    rt_model_prepare(bench->model, bench->device, &bench->blocks);
}

static int profile_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A single thread is timed by its own CPU clock, so that other programs on the machine disturb less. */
static double profile_now(const struct bench *bench) {
    return bench->single ? rt_clock_thread() : rt_clock_wall();
}

/* All operations in turn, as in training, where each finds the caches as the others left them. NULL: skipped.
 * Returns the seconds of all. */
static double profile_run_round(struct bench *bench,
                                void (*const operations[OPERATIONS])(struct bench *bench),
                                double seconds[OPERATIONS]) {
    float *dy = rt_model_output_gradient(bench->model, &bench->pass, bench->slot);
    double sum = 0;
    for (size_t k = 0; k < OPERATIONS; k++) {
        seconds[k] = 0;
        if (!operations[k])
            continue;
        if (operations[k] == profile_backward_input)
            profile_make_up(dy, bench->rows * rt_shape_size(&bench->model->out));
        const double before = profile_now(bench);
        operations[k](bench);
        seconds[k] = profile_now(bench) - before;
        sum += seconds[k];
    }
    return sum;
}

/* The first round counts only if a second would take too long: memory is cold then. */
static void profile_measure(struct bench *bench, void (*const operations[OPERATIONS])(struct bench *bench),
                            double seconds[OPERATIONS]) {
    double times[OPERATIONS][ROUNDS], spent = profile_run_round(bench, operations, seconds);
    if (spent > LONG_SECONDS)
        return;
    size_t rounds = 0;
    do {
        spent += profile_run_round(bench, operations, seconds);
        for (size_t k = 0; k < OPERATIONS; k++)
            times[k][rounds] = seconds[k];
    } while (++rounds < ROUNDS && spent < bench->share);
    for (size_t k = 0; k < OPERATIONS; k++) {
        qsort(times[k], rounds, sizeof **times, profile_compare);
        seconds[k] = times[k][(rounds - 1) / 4]; /* what disturbs only makes longer */
    }
}

/* ---- layers ---- */

/* Whether the gradient at this layer's input is needed: a layer before it has parameters. */
static bool profile_wants_gradient(const struct rt_model *whole, size_t layer) {
    return layer > whole->lowest;
}

/* Layers first..first+count, beginning with the measured one. */
static rt_status profile_measure_layers(struct bench *bench, const struct rt_model *whole, size_t first,
                                        size_t count, double seconds[OPERATIONS], struct rt_error *err) {
    const bool trains = !bench->job->evaluate_only, gradient = trains && profile_wants_gradient(whole, first);
    const bool params = trains && whole->layers[first]->param_count > 0;
    rt_status status = profile_take_layers(bench, whole, first, count, gradient, params, err);
    if (status == RT_OK) {
        rt_model_prepare(bench->model, bench->device, &bench->blocks);
        bench->pass.training = trains;
        /* The weights' part runs after the input's, even if that has little to do. */
        profile_measure(bench,
                        (void (*const[OPERATIONS])(struct bench *)){
                            profile_forward, gradient || params ? profile_backward_input : NULL,
                            params ? profile_backward_weights : NULL, params ? profile_update : NULL},
                        seconds);
        if (!gradient)
            seconds[1] = 0;
    }
    profile_drop_layer(bench);
    return status;
}

static rt_status profile_measure_layer(struct bench *bench, const struct rt_model *whole, size_t i,
                                       struct rt_layer_times *times, struct rt_error *err) {
    double seconds[OPERATIONS], both[OPERATIONS];
    rt_status status = profile_measure_layers(bench, whole, i, 1, seconds, err);
    if (status != RT_OK)
        return status;
    *times = (struct rt_layer_times){seconds[0], seconds[1], seconds[2], seconds[3]};
    if (whole->layers[i]->absorbed) {
        times->forward = 0; /* the layer before does it */
    } else if (i + 1 < whole->count && whole->layers[i + 1]->absorbed) {
        status = profile_measure_layers(bench, whole, i, 2, both, err);
        if (status == RT_OK)
            times->forward = both[0];
    }
    return status;
}

/* Seconds per operation of the layers that were measured; a slow device's if none was. */
static double profile_seconds_per_flop(const struct rt_model *whole, const struct rt_layer_times *times,
                                       size_t rows) {
    double seconds = 0, flops = 0;
    for (size_t i = 0; i < whole->count; i++)
        if (times[i].forward >= 0) {
            seconds += times[i].forward + times[i].input + times[i].weights;
            flops += whole->layers[i]->flops_forward + whole->layers[i]->flops_input +
                     whole->layers[i]->flops_weights;
        }
    return flops > 0 && seconds > 0 ? seconds / flops / (double)rows : 1e-9;
}

static void profile_estimate_rest(const struct rt_job *job, const struct rt_model *whole, size_t rows,
                                  struct rt_layer_times *times) {
    const double speed = profile_seconds_per_flop(whole, times, rows);
    const double part = speed * (double)rows;
    for (size_t i = 0; i < whole->count; i++) {
        const struct rt_layer *layer = whole->layers[i];
        if (times[i].forward >= 0)
            continue;
        times[i] = (struct rt_layer_times){.forward = part * layer->flops_forward};
        if (job->evaluate_only)
            continue;
        times[i].input = part * layer->flops_input;
        times[i].weights = part * layer->flops_weights;
        times[i].update = speed * 4 * (double)layer->param_count;
    }
}

/* Whether two layers do the same work, including that of the next layers where it is fused. */
static bool profile_same_work(const struct bench *bench, const struct rt_model *whole, size_t a, size_t b) {
    const struct rt_layer *x = whole->layers[a], *y = whole->layers[b];
    const struct rt_tree *specs = bench->job->layers;
    if (x->type != y->type || !rt_shape_equal(&x->in, &y->in) || x->absorbed != y->absorbed ||
        x->act != y->act || profile_wants_gradient(whole, a) != profile_wants_gradient(whole, b) ||
        !rt_tree_equal(specs->items[a], specs->items[b]))
        return false;
    const bool more = a + 1 < whole->count && whole->layers[a + 1]->absorbed;
    const bool too = b + 1 < whole->count && whole->layers[b + 1]->absorbed;
    return more == too && (!more || rt_tree_equal(specs->items[a + 1], specs->items[b + 1]));
}

/* The first layer, not far before, that does the same work; itself if there is none. So the many equal layers
 * of a deep model get equal times, and the time budget goes to the different ones. */
static size_t profile_first_like(const struct bench *bench, const struct rt_model *whole, size_t layer) {
    size_t first = layer > LOOK_BACK ? layer - LOOK_BACK : 0;
    while (first < layer && !profile_same_work(bench, whole, first, layer))
        first++;
    return first;
}

static rt_status profile_measure_all(struct bench *bench, const struct rt_model *whole,
                                     struct rt_layer_times *layers, struct rt_error *err) {
    size_t different = 0;
    for (size_t i = 0; i < whole->count; i++)
        different += profile_first_like(bench, whole, i) == i;
    bench->share = RT_PROFILE_SECONDS / (double)different;
    const double end = rt_clock_wall() + RT_PROFILE_MOST_SECONDS;
    for (size_t i = 0; i < whole->count; i++) {
        const size_t like = profile_first_like(bench, whole, i);
        if (like < i) {
            layers[i] = layers[like];
            continue;
        }
        struct rt_error trouble = {0};
        const struct rt_layer *layer = whole->layers[i];
        const double flops =
            (double)bench->rows * (layer->flops_forward + layer->flops_input + layer->flops_weights);
        rt_status status = RT_NO_MEMORY;
        if (flops < MOST_FLOPS && rt_clock_wall() < end)
            status = profile_measure_layer(bench, whole, i, &layers[i], &trouble);
        if (status == RT_NO_MEMORY) {
            layers[i].forward = -1;
        } else if (status != RT_OK) {
            if (err)
                *err = trouble;
            return status;
        }
    }
    profile_estimate_rest(bench->job, whole, bench->rows, layers);
    return RT_OK;
}

rt_status rt_profile_measure(const struct rt_job *job, struct rt_device *device, size_t rows, double slowdown,
                             uint64_t memory, struct rt_layer_times *layers, size_t count,
                             struct rt_error *err) {
    struct rt_model *whole;
    uint32_t index = 0;
    rt_status status =
        rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, device->kernels, &index, &whole, err);
    if (status != RT_OK)
        return status;
    struct bench bench = {.job = job,
                          .device = device,
                          .rows = rows,
                          .single = rt_pool_threads(device->pool) == 1,
                          .memory = (double)memory};
    if (whole->count != count || rows == 0 || rows > (size_t)job->batch)
        status = rt_fail(err, RT_BAD_INPUT,
                         "a profile of %zu layers for %zu rows was asked for, but the model has %zu layers "
                         "and a batch %lld rows",
                         count, rows, whole->count, (long long)job->batch);
    if (status == RT_OK)
        status = rt_alloc(rows, sizeof *bench.examples, "a profile", &bench.examples, err);
    if (status == RT_OK) {
        for (size_t i = 0; i < rows; i++)
            bench.examples[i] = (uint32_t)i;
        bench.pass = (struct rt_pass){
            .device = device, .rows = rows, .seed = (uint64_t)job->seed, .examples = bench.examples};
        status = profile_measure_all(&bench, whole, layers, err);
    }
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        layers[i].forward *= slowdown;
        layers[i].input *= slowdown;
        layers[i].weights *= slowdown;
        layers[i].update *= slowdown;
    }
    free(bench.examples);
    rt_model_destroy(whole);
    /* Freed pieces of a layer's size are useless for the next allocations, which are larger: without this
     * they would stay with the process, and count as its memory. */
    rt_memory_trim();
    return status;
}

rt_status rt_profile_bytes(const struct rt_job *job, const struct rt_model *whole, size_t rows, double *bytes,
                           struct rt_error *err) {
    double most = 0;
    for (size_t i = 0; i < whole->count; i++) {
        struct rt_tree list = *job->layers;
        list.items += i;
        list.count = 1;
        struct rt_model *model;
        uint32_t index = 0;
        rt_status status = rt_model_create(&list, &whole->layers[i]->in, 0, SIZE_MAX, false,
                                           whole->layers[i]->kernels, &index, &model, err);
        if (status != RT_OK)
            return status;
        const double one =
            profile_layer_bytes(job, model, rows, !job->evaluate_only && model->param_count > 0) +
            (double)model->scratch_bytes;
        most = one > most ? one : most;
        rt_model_destroy(model);
    }
    *bytes = most;
    return RT_OK;
}
