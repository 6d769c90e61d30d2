/* Making a stage: its layers, and all the memory it will ever use. */
#include "learn/stage.h"

#include "base/memory.h"
#include "learn/stage_state.h"
#include "learn/versions.h"
#include <stdlib.h>

/* ---- how much ---- */

/* Floats of each piece of memory. Both the prediction and the allocation use these. */
struct sizes {
    size_t params, buffers, prepared, state, image;
    size_t gradient_blocks, versions; /* of params floats each */
    size_t slot_x, slot_numbers;      /* of one slot */
    bool prepares;                    /* prepared weights are worth it */
    bool rarely_touched;              /* the gradients: the optimizer takes nearly all from the caches */
    double bytes;                     /* all of it */
};

static double stage_bytes_of(size_t floats) {
    const size_t bytes = rt_floats_bytes(floats);
    return bytes == SIZE_MAX ? 1e30 : (double)bytes;
}

/* a * b, or SIZE_MAX on overflow */
static size_t stage_product(size_t a, size_t b) {
    return b && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

/* Rounded up to where another block of floats may begin. */
static size_t stage_padded(size_t floats) {
    return floats > SIZE_MAX - RT_ALIGN_FLOATS ? SIZE_MAX : rt_round_up(floats, RT_ALIGN_FLOATS);
}

/* An update of a single micro-batch is faster without prepared weights: see rt_model_prepare. */
static bool stage_prepares(const struct rt_job *job) {
    return job->evaluate_only || rt_job_micros(job, (size_t)job->batch) > 1;
}

/* The optimizer can work inside the last weight gradient when that makes the whole gradient final. */
static bool stage_is_fused(const struct rt_job *job) {
    return job->all_slices == 1 && job->clip_norm == 0 &&
           !job->ring.with_servers; /* nor do rings share a batch */
}

/* A ring's share of the batch is a whole subtree: which one changes no addition in it. */
static struct rt_slice_run stage_slices(const struct rt_job *job) {
    return (struct rt_slice_run){0, (uint32_t)rt_job_slices(job)};
}

static struct sizes stage_sizes(const struct rt_job *job, const struct rt_model *model, size_t slots) {
    const size_t rows = rt_job_micro_rows(job);
    struct sizes sizes = {.params = model->param_count, .buffers = model->buffer_count};
    sizes.slot_x = stage_padded(stage_product(rows, rt_shape_size(&model->in) + 1));
    sizes.slot_numbers = rt_model_slot_floats(model, rows, false);
    sizes.prepares = stage_prepares(job);
    if (sizes.prepares)
        sizes.prepared = model->prepared_floats;
    sizes.bytes = stage_bytes_of(sizes.params) + stage_bytes_of(sizes.buffers) +
                  stage_bytes_of(sizes.prepared) + stage_bytes_of(model->scratch_bytes / sizeof(float));
    if (!job->evaluate_only) {
        const size_t tensors = job->optim->type->state_tensors;
        const size_t training = rt_model_slot_floats(model, rows, true);
        sizes.slot_numbers = training > sizes.slot_numbers ? training : sizes.slot_numbers;
        /* A model's counts are below SIZE_MAX / 64, and no rule has so many tensors. */
        sizes.state = tensors * sizes.params;
        sizes.image = sizes.params + sizes.buffers + sizes.state;
        sizes.gradient_blocks = rt_slices_height(stage_slices(job));
        sizes.versions = job->ring.mode == RT_RING_FLOW ? rt_versions_needed(slots) : 0;
        sizes.rarely_touched = stage_is_fused(job) && !sizes.prepares;
        const double gradient =
            sizes.rarely_touched ? (double)sizes.params * sizeof(float) : stage_bytes_of(sizes.params);
        sizes.bytes += stage_bytes_of(sizes.state) + (double)sizes.image * sizeof(float) +
                       (double)sizes.gradient_blocks * gradient +
                       (double)sizes.versions * stage_bytes_of(sizes.params);
    }
    sizes.slot_numbers = stage_padded(sizes.slot_numbers);
    const size_t slot =
        sizes.slot_x > SIZE_MAX - sizes.slot_numbers ? SIZE_MAX : sizes.slot_x + sizes.slot_numbers;
    sizes.bytes += stage_bytes_of(stage_product(slots, slot));
    return sizes;
}

size_t rt_stage_bytes(const struct rt_job *job, const struct rt_model *model, size_t slots) {
    const double bytes = stage_sizes(job, model, slots).bytes;
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX;
}

/* ---- taking it ---- */

static rt_status stage_take_slots(struct rt_stage *stage, const struct sizes *sizes, size_t slots,
                                  struct rt_error *err) {
    const size_t each = sizes->slot_x + sizes->slot_numbers;
    rt_status status = rt_alloc(slots, sizeof *stage->slots, "the slots", &stage->slots, err);
    if (status == RT_OK)
        status = rt_floats_create(slots * each, "the micro-batches in flight", &stage->slot_memory, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < slots; i++) {
        stage->slots[i].x = stage->slot_memory + i * each;
        stage->slots[i].numbers = stage->slots[i].x + sizes->slot_x;
    }
    stage->slot_count = slots;
    return RT_OK;
}

static rt_status stage_take_versions(struct rt_stage *stage, const struct sizes *sizes,
                                     struct rt_error *err) {
    rt_status status =
        rt_alloc(sizes->versions, sizeof *stage->versions, "the versions", &stage->versions, err);
    if (status == RT_OK)
        status = rt_alloc(sizes->versions, sizeof *stage->version_update, "the versions",
                          &stage->version_update, err);
    for (size_t i = 0; i < sizes->versions && status == RT_OK; i++) {
        status = rt_floats_create(sizes->params, "a version of the parameters", &stage->versions[i], err);
        stage->version_count = i + 1;
        stage->version_update[i] = UINT64_MAX;
    }
    return status;
}

/* The memory that only training needs. */
static rt_status stage_take_training(struct rt_stage *stage, const struct sizes *sizes,
                                     struct rt_error *err) {
    const struct rt_job *job = stage->job;
    rt_status status = rt_floats_create(sizes->state, "the optimizer's state", &stage->state, err);
    for (size_t i = 0; status == RT_OK && i < sizes->state; i++)
        stage->state[i] = job->optim->type->state_start;
    if (status == RT_OK)
        status = rt_slices_create(stage->device, sizes->params, stage_slices(job), sizes->rarely_touched,
                                  &stage->slices, err);
    if (status == RT_OK && job->clip_norm > 0)
        status = rt_norm_create(stage->model, &stage->norm, err);
    if (status == RT_OK)
        status = stage_take_versions(stage, sizes, err);
    /* Not touched before the first snapshot. */
    if (status == RT_OK)
        status = rt_floats_reserve(sizes->image, "the image for checkpoints", &stage->image, err);
    return status;
}

static rt_status stage_take_memory(struct rt_stage *stage, size_t slots, struct rt_error *err) {
    const struct rt_model *model = stage->model;
    const struct sizes sizes = stage_sizes(stage->job, model, slots);
    if (rt_stage_bytes(stage->job, model, slots) == SIZE_MAX)
        return rt_fail(err, RT_NO_MEMORY, "this part of the model needs more memory than can be addressed");
    rt_status status = rt_memory_check(sizes.bytes, "this part of the model", err);
    if (status == RT_OK)
        status = rt_pool_reserve(stage->device->pool, model->scratch_bytes, err);
    if (status == RT_OK)
        status = rt_floats_create(sizes.params, "the parameters", &stage->blocks.params, err);
    if (status == RT_OK)
        status = rt_floats_create(sizes.buffers, "the buffers", &stage->blocks.buffers, err);
    if (status == RT_OK && sizes.prepares)
        status = rt_floats_create(sizes.prepared, "the prepared weights", &stage->blocks.prepared, err);
    if (status == RT_OK)
        status = stage_take_slots(stage, &sizes, slots, err);
    if (status == RT_OK && !stage->job->evaluate_only)
        status = stage_take_training(stage, &sizes, err);
    return status;
}

/* ---- create and destroy ---- */

static rt_status stage_create_model(struct rt_stage *stage, size_t first, size_t count,
                                    struct rt_error *err) {
    const struct rt_job *job = stage->job;
    const struct rt_kernels *kernels = stage->device->kernels;
    const bool trains = !job->evaluate_only;
    uint32_t index = 0;
    rt_status status = rt_model_create(job->layers, &job->in, first, count, trains && first > 0, kernels,
                                       &index, &stage->model, err);
    if (status != RT_OK || !trains)
        return status;
    const size_t next = first + stage->model->count;
    if (next < job->layers->count) {
        struct rt_model *later;
        index = 0;
        status = rt_model_create(job->layers, &job->in, next, SIZE_MAX, false, kernels, &index, &later, err);
        if (status != RT_OK)
            return status;
        stage->sends_examples = rt_model_needs_examples(later);
        rt_model_destroy(later);
    }
    stage->needs_examples = stage->sends_examples || rt_model_needs_examples(stage->model);
    return RT_OK;
}

rt_status rt_stage_create(const struct rt_job *job, struct rt_device *device, size_t first, size_t count,
                          size_t slots, struct rt_stage **stage, struct rt_error *err) {
    if (slots == 0)
        return rt_fail(err, RT_BAD_INPUT, "a stage needs at least one slot for micro-batches");
    struct rt_stage *made;
    rt_status status = rt_alloc(1, sizeof *made, "a stage", &made, err);
    if (status != RT_OK)
        return status;
    made->job = job;
    made->device = device;
    made->fused = stage_is_fused(job);
    status = stage_create_model(made, first, count, err);
    if (status == RT_OK)
        status = stage_take_memory(made, slots, err);
    if (status == RT_OK)
        status = rt_state_spans_create(made, err);
    if (status != RT_OK) {
        rt_stage_destroy(made);
        return status;
    }
    rt_model_init(made->model, (uint64_t)job->seed, made->blocks.params, made->blocks.buffers);
    *stage = made;
    return RT_OK;
}

void rt_stage_destroy(struct rt_stage *stage) {
    if (!stage)
        return;
    rt_model_destroy(stage->model);
    free(stage->blocks.params);
    free(stage->blocks.buffers);
    free(stage->blocks.prepared);
    free(stage->state);
    rt_slices_destroy(&stage->slices);
    rt_norm_destroy(&stage->norm);
    free(stage->slots);
    free(stage->slot_memory);
    for (size_t i = 0; i < stage->version_count; i++)
        free(stage->versions[i]);
    free(stage->versions);
    free(stage->version_update);
    free(stage->image);
    free(stage->spans);
    free(stage);
}
