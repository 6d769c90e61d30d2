/*
 * One update: the hot path. If possible, the optimizer is applied inside the backward pass, to each span of a
 * gradient as soon as it is final: then the gradients of the last micro-batch never go through memory.
 */
#include "learn/step.h"

#include "base/clock.h"
#include "base/memory.h"
#include "learn/gradient.h"
#include "learn/gradient_work.h"
#include <stdlib.h>

/* Large blocks start on a page. An update passes over parameters and state at the same time: if both started
 * at the same offset in a page, they would conflict in the caches. Measured with single examples: 5 to 9
 * %. */
enum { STATE_SHIFT = 528 /* floats */ };

struct rt_trainer {
    struct rt_network *network;
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    struct rt_trainer_settings settings;
    uint64_t update; /* done */

    struct rt_batches batches;
    struct rt_gradient_work work;
    float *state, *state_room; /* room: the memory that state lies in, see STATE_SHIFT */
    struct rt_slices slices;   /* the gradients */
    struct rt_norm norm;
    bool fused;
    struct rt_optim_step optim_step;
    double seconds[RT_STATES], mark; /* mark: what came before has been booked */
};

/* The blocks for gradients. A fused update of a single micro-batch hands nearly every gradient to the
 * optimizer from the caches. */
static rt_status trainer_take_gradients(struct rt_trainer *trainer, struct rt_error *err) {
    const bool rarely = trainer->fused && trainer->settings.micro_batch >= trainer->batches.batch;
    const struct rt_slice_run all = {0, (uint32_t)trainer->settings.shards};
    return rt_slices_create(&trainer->network->device, trainer->network->model->param_count, all, rarely,
                            &trainer->slices, err);
}

/* Books the time since the mark to a state. Only the wall clock is read: a thread's CPU clock costs a system
 * call, which would slow down a batch of one example. */
static void trainer_book(struct rt_trainer *trainer, enum rt_state state) {
    struct rt_states *clock = trainer->settings.clock;
    if (clock) {
        clock->now = state; /* it turns out what the time was spent on */
        rt_states_enter(clock, RT_STATE_BACKWARD);
        trainer->mark = rt_clock_wall();
        return;
    }
    double now = rt_clock_wall();
    trainer->seconds[state] += now - trainer->mark;
    trainer->mark = now;
}

static void trainer_end_state(void *self, enum rt_state state) {
    trainer_book(self, state);
}

static rt_status trainer_take_memory(struct rt_trainer *trainer, struct rt_error *err) {
    const struct rt_model *model = trainer->network->model;
    const size_t micro = trainer->settings.micro_batch, params = model->param_count;
    rt_status status = RT_OK;
    /* Prepared weights pay off when several micro-batches use them. */
    if (micro < trainer->batches.batch && !trainer->network->blocks.prepared)
        status = rt_floats_create(model->prepared_floats, "the prepared weights",
                                  &trainer->network->blocks.prepared, err);
    if (status == RT_OK)
        status = trainer_take_gradients(trainer, err);
    if (status != RT_OK)
        return status;
    const size_t tensors = trainer->optim->type->state_tensors;
    if (tensors && params > (SIZE_MAX / sizeof(float) - STATE_SHIFT) / tensors)
        return rt_fail(err, RT_NO_MEMORY, "the optimizer's state is too large for this machine");
    status =
        rt_floats_create(params * tensors + STATE_SHIFT, "the optimizer's state", &trainer->state_room, err);
    if (status == RT_OK)
        trainer->state = trainer->state_room + STATE_SHIFT;
    for (size_t i = 0; status == RT_OK && i < params * tensors; i++)
        trainer->state[i] = trainer->optim->type->state_start;
    if (status == RT_OK && trainer->settings.clip_norm > 0)
        status = rt_norm_create(model, &trainer->norm, err);
    return status;
}

rt_status rt_trainer_create(struct rt_network *network, const struct rt_dataset *set,
                            const struct rt_scaling *scaling, enum rt_target target,
                            const struct rt_optim *optim, const struct rt_schedule *schedule,
                            const struct rt_trainer_settings *settings, struct rt_trainer **trainer,
                            struct rt_error *err) {
    const size_t shards = settings->shards;
    if (shards == 0 || (shards & (shards - 1)) != 0 || shards > RT_MAX_SLICES)
        return rt_fail(err, RT_BAD_INPUT, "train.shards: %zu is not a power of two up to %d", shards,
                       RT_MAX_SLICES);
    struct rt_trainer *made;
    rt_status status = rt_alloc(1, sizeof *made, "the trainer", &made, err);
    if (status != RT_OK)
        return status;
    made->network = network;
    made->optim = optim;
    made->schedule = schedule;
    made->settings = *settings;
    made->fused = shards == 1 && settings->clip_norm == 0 && !settings->unfused;
    status = rt_batches_create(settings->seed, set->count, settings->batch, settings->shuffle,
                               settings->drop_last, &made->batches, err);
    if (status == RT_OK) {
        const size_t batch = made->batches.batch;
        size_t *micro = &made->settings.micro_batch;
        if (*micro == 0)
            *micro = rt_train_micro_batch(network->model, batch);
        *micro = *micro < batch ? *micro : batch;
        status = trainer_take_memory(made, err);
    }
    const struct rt_gradient_work_settings work = {.network = network,
                                                   .set = set,
                                                   .scaling = scaling,
                                                   .target = target,
                                                   .seed = settings->seed,
                                                   .micro_batch = made->settings.micro_batch};
    if (status == RT_OK)
        status = rt_gradient_work_create(&work, &made->work, err);
    if (status != RT_OK) {
        rt_trainer_destroy(made);
        return status;
    }
    made->work.ended = trainer_end_state;
    made->work.self = made;
    *trainer = made;
    return RT_OK;
}

void rt_trainer_destroy(struct rt_trainer *trainer) {
    if (!trainer)
        return;
    rt_batches_destroy(&trainer->batches);
    rt_gradient_work_destroy(&trainer->work);
    rt_norm_destroy(&trainer->norm);
    rt_slices_destroy(&trainer->slices);
    free(trainer->state_room);
    free(trainer);
}

/* The sink of a fused update. */
static void trainer_apply_span(void *self, size_t offset, size_t count, const float *grad) {
    struct rt_trainer *trainer = self;
    rt_optim_apply(trainer->optim, &trainer->optim_step, offset, count, trainer->network->model->param_count,
                   trainer->network->blocks.params, grad, trainer->state);
}

/* Computes the gradient of the batch in the first block (which a fused update may never touch). */
static rt_status trainer_batch_gradient(struct rt_trainer *trainer, const struct rt_batch *batch,
                                        struct rt_step *step, struct rt_error *err) {
    const uint32_t shards = (uint32_t)trainer->settings.shards;
    struct rt_descent descent;
    const bool descends = rt_gradient_descent(trainer->optim, &trainer->optim_step,
                                              trainer->network->blocks.params, trainer->state, &descent);
    const struct rt_grad_sink sink = {
        .take = trainer_apply_span, .self = trainer, .descent = descends ? &descent : NULL};
    struct rt_gradient_order order = {.update = step->update,
                                      .batch = batch,
                                      .scale = 1.0f / (float)batch->rows,
                                      .sink = trainer->fused ? &sink : NULL};
    struct rt_gradient_sums sums = {0};
    rt_status status = RT_OK;
    rt_slices_reset(&trainer->slices);
    for (uint32_t v = 0; status == RT_OK && v < shards; v++) {
        order.first = rt_slices_row(batch->rows, shards, v);
        order.end = rt_slices_row(batch->rows, shards, v + 1);
        if (order.first == order.end)
            continue;
        order.gradient = rt_slices_block(&trainer->slices, v);
        status = rt_gradient_work_run(&trainer->work, &order, &sums, err);
        if (status != RT_OK)
            break;
        rt_slices_end(&trainer->slices);
        if (shards > 1)
            trainer_book(trainer, RT_STATE_REDUCE);
    }
    step->loss = sums.loss;
    step->correct = sums.correct;
    return status;
}

/* The factor on gradients that limits their norm to clip_norm. */
static float trainer_clip_factor(struct rt_trainer *trainer) {
    if (trainer->settings.clip_norm == 0)
        return 1;
    return rt_norm_clip(
        trainer->settings.clip_norm,
        rt_norm_squares(&trainer->norm, &trainer->network->device, trainer->slices.blocks[0], 0));
}

rt_status rt_trainer_step(struct rt_trainer *trainer, struct rt_step *step, struct rt_error *err) {
    struct rt_network *network = trainer->network;
    struct rt_batch batch;
    trainer->mark = rt_clock_wall();
    *step = (struct rt_step){.update = trainer->update + 1, .start = trainer->mark};
    if (trainer->settings.clock)
        rt_states_at_update(trainer->settings.clock, step->update);
    rt_batches_at(&trainer->batches, step->update, &batch);
    step->rows = batch.rows;
    const double factor = rt_schedule_factor(trainer->schedule, step->update, trainer->settings.updates,
                                             trainer->batches.per_epoch);
    if (trainer->fused)
        rt_optim_begin(trainer->optim, step->update, factor, 1, &trainer->optim_step);
    if (network->blocks.prepared)
        rt_model_prepare(network->model, &network->device, &network->blocks);
    rt_status status = trainer_batch_gradient(trainer, &batch, step, err);
    if (status != RT_OK)
        return status;
    if (!trainer->fused) {
        rt_optim_begin(trainer->optim, step->update, factor, trainer_clip_factor(trainer),
                       &trainer->optim_step);
        rt_gradient_apply(&network->device, trainer->optim, &trainer->optim_step, network->model->param_count,
                          trainer->slices.blocks[0], network->blocks.params, trainer->state);
        trainer_book(trainer, RT_STATE_UPDATE);
    }
    network->blocks.prepared_valid = false;
    trainer->update = step->update;
    step->end = trainer->mark;
    return RT_OK;
}

rt_status rt_trainer_check(const struct rt_trainer *trainer, struct rt_error *err) {
    const struct rt_model *model = trainer->network->model;
    const struct rt_blocks *blocks = &trainer->network->blocks;
    const char *what = NULL;
    if (!rt_block_is_finite(blocks->params, model->param_count))
        what = "a parameter";
    else if (!rt_block_is_finite(blocks->buffers, model->buffer_count))
        what = "a buffer of the model";
    else if (!rt_block_is_finite(trainer->state, model->param_count * trainer->optim->type->state_tensors))
        what = "the optimizer's state";
    if (!what)
        return RT_OK;
    return rt_fail(err, RT_DIVERGED, "%s is not finite after update %llu", what,
                   (unsigned long long)trainer->update);
}

uint64_t rt_trainer_update(const struct rt_trainer *trainer) {
    return trainer->update;
}

void rt_trainer_set_update(struct rt_trainer *trainer, uint64_t update) {
    trainer->update = update;
    rt_gradient_work_forget(&trainer->work);
}

uint64_t rt_trainer_per_epoch(const struct rt_trainer *trainer) {
    return trainer->batches.per_epoch;
}

size_t rt_trainer_micro_batch(const struct rt_trainer *trainer) {
    return trainer->settings.micro_batch;
}

float *rt_trainer_state(struct rt_trainer *trainer) {
    return trainer->state;
}

const double *rt_trainer_seconds(const struct rt_trainer *trainer) {
    return trainer->seconds;
}
