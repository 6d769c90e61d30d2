/* The work of a stage on a micro-batch: forward, the two parts of the backward, the update. Allocates
 * nothing. */
#include "learn/versions.h"

#include <string.h>

static struct rt_pass stage_pass(const struct rt_stage *stage, const struct rt_slot *slot, bool training) {
    const float *behind = slot->x + slot->rows * rt_shape_size(&stage->model->in);
    return (struct rt_pass){
        .device = stage->device,
        .rows = slot->rows,
        .training = training,
        .seed = (uint64_t)stage->job->seed,
        .epoch = slot->epoch,
        .examples = (const uint32_t *)(const void *)behind,
    };
}

/* The blocks that the slot's forward used. */
static struct rt_blocks stage_blocks(const struct rt_stage *stage, const struct rt_slot *slot) {
    struct rt_blocks blocks = stage->blocks;
    if (stage->job->ring.mode == RT_RING_FLOW)
        blocks.params = rt_versions_params(stage, slot->update);
    return blocks;
}

struct rt_slot *rt_stage_slot(struct rt_stage *stage, uint64_t micro) {
    return &stage->slots[micro % stage->slot_count];
}

void rt_stage_forward(struct rt_stage *stage, struct rt_slot *slot, bool training) {
    const struct rt_pass pass = stage_pass(stage, slot, training);
    slot->update = stage->update;
    slot->held = training;
    slot->y = slot->dy = slot->numbers;
    if (slot->rows == 0)
        return;
    if (stage->blocks.prepared && !stage->blocks.prepared_valid)
        rt_model_prepare(stage->model, stage->device, &stage->blocks);
    slot->y = rt_model_forward(stage->model, &pass, &stage->blocks, slot->numbers, slot->x);
    slot->dy = training ? rt_model_output_gradient(stage->model, &pass, slot->numbers) : NULL;
}

void rt_stage_backward_input(struct rt_stage *stage, struct rt_slot *slot, float *dx) {
    const struct rt_pass pass = stage_pass(stage, slot, true);
    struct rt_blocks blocks = stage_blocks(stage, slot);
    if (slot->rows == 0)
        return;
    rt_model_backward(stage->model, &pass, &blocks, slot->numbers, slot->x, RT_BACKWARD_INPUT, dx, NULL,
                      false, NULL);
}

/* ---- the update ---- */

/* The factor on the learning rate for a gradient whose parameters have changed `stale` times since its
 * forward: 1 / (1 + stale) ^ damp. */
static double stage_damping(const struct rt_job *job, uint64_t stale) {
    double factor = 1;
    for (int64_t i = 0; job->ring.mode == RT_RING_FLOW && i < job->ring.damp; i++)
        factor /= 1 + (double)stale;
    return factor;
}

static void stage_begin_update(struct rt_stage *stage, const struct rt_slot *done, float clip) {
    const struct rt_job *job = stage->job;
    const uint64_t update = stage->update + 1;
    if (job->ring.mode == RT_RING_FLOW)
        rt_versions_keep(stage, done);
    rt_optim_begin(
        job->optim, update,
        rt_schedule_factor(&job->lr_schedule, update, (uint64_t)job->updates, (uint64_t)job->per_epoch) *
            stage_damping(job, stage->stale),
        clip, &stage->optim_step);
}

/* The sink of a fused update. */
static void stage_apply_span(void *self, size_t offset, size_t count, const float *grad) {
    struct rt_stage *stage = self;
    rt_optim_apply(stage->job->optim, &stage->optim_step, offset, count, stage->model->param_count,
                   stage->blocks.params, grad, stage->state);
}

static void stage_record_staleness(struct rt_stage *stage, const struct rt_slot *slot) {
    const uint64_t between = stage->update - slot->update;
    stage->stale = between;
    stage->staleness_sum += between;
    stage->staleness_count++;
    if (between > stage->staleness_max)
        stage->staleness_max = between;
}

/* Layer by layer: ends the last slice, and with it the gradient of the layer. */
struct ending {
    struct rt_stage *stage;
    const struct rt_layer_watch *watch;
};

static void stage_end_layer(void *self, size_t layer) {
    const struct ending *ending = self;
    const struct rt_model *model = ending->stage->model;
    rt_slices_end_span(&ending->stage->slices, model->param_at[layer], model->layers[layer]->param_count);
    ending->watch->after(ending->watch->self, layer);
}

void rt_stage_backward_weights(struct rt_stage *stage, struct rt_slot *const *slots, size_t count, bool last,
                               const struct rt_layer_watch *watch) {
    const bool fused = last && stage->fused;
    const struct rt_micro first = slots[0]->part, end = slots[count - 1]->part;
    const bool none = slots[0]->rows == 0; /* of a batch that has fewer than there are rings */
    const bool early = watch && last && !fused && !none && end.slice + 1 == rt_job_slices(stage->job);
    struct ending ending = {stage, watch};
    const struct rt_layer_watch ends = {.self = &ending, .after = stage_end_layer};
    struct rt_pass passes[RT_MAX_WAITING];
    struct rt_waiting waiting[RT_MAX_WAITING];
    for (size_t i = 0; i < count; i++)
        stage_record_staleness(stage, slots[i]);
    if (fused)
        stage_begin_update(stage, slots[count - 1], 1);
    for (size_t i = 0; i < count; i++) {
        const struct rt_blocks blocks = stage_blocks(stage, slots[i]);
        passes[i] = stage_pass(stage, slots[i], true);
        waiting[i] = rt_model_waiting(&passes[i], &blocks, slots[i]->numbers, slots[i]->x);
    }
    struct rt_descent descent;
    const bool descends = rt_gradient_descent(stage->job->optim, &stage->optim_step, stage->blocks.params,
                                              stage->state, &descent);
    const struct rt_grad_sink sink = {
        .take = stage_apply_span, .self = stage, .descent = descends ? &descent : NULL};
    float *gradient = rt_slices_block(&stage->slices, first.slice);
    if (none)
        memset(gradient, 0, stage->model->param_count * sizeof *gradient);
    else
        rt_model_backward_weights(stage->model, count, waiting, gradient, !first.first_of_slice,
                                  fused ? &sink : NULL, early ? &ends : NULL);
    for (size_t i = 0; i < count; i++)
        slots[i]->held = false;
    if (early)
        rt_slices_end_spans(&stage->slices);
    else if (end.last_of_slice)
        rt_slices_end(&stage->slices);
    if (!last)
        return;
    /* In a part of a batch the last slices may be empty. */
    (void)rt_slices_block(&stage->slices, rt_job_slices(stage->job));
    rt_slices_reset(&stage->slices);
}

double rt_stage_squares(struct rt_stage *stage, double sum) {
    return rt_norm_squares(&stage->norm, stage->device, stage->slices.blocks[0], sum);
}

void rt_stage_apply(struct rt_stage *stage, float clip) {
    if (!stage->fused) {
        stage_begin_update(stage, NULL, clip);
        rt_gradient_apply(stage->device, stage->job->optim, &stage->optim_step, stage->model->param_count,
                          stage->slices.blocks[0], stage->blocks.params, stage->state);
    }
    stage->blocks.prepared_valid = false;
    stage->update++;
}

void rt_stage_leave_to_server(struct rt_stage *stage) {
    stage->update++;
}

void rt_stage_renewed(struct rt_stage *stage, uint64_t update) {
    stage->blocks.prepared_valid = false;
    stage->update = update;
}
