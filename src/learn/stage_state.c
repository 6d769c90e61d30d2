/* Images and tensors. The image is one state tensor after another, in the order of files: so it can be read
 * without the stage. */
#include "learn/stage_state.h"

#include "base/memory.h"
#include <string.h>

/* ---- the table ---- */

static rt_status stage_state_count_span(void *user, const char *name, const struct rt_shape *shape,
                                        size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)shape, (void)offset, (void)is_buffer, (void)err;
    ++*(size_t *)user;
    return RT_OK;
}

static rt_status stage_state_note_span(void *user, const char *name, const struct rt_shape *shape,
                                       size_t offset, bool is_buffer, struct rt_error *err) {
    (void)name, (void)err;
    struct rt_stage *stage = user;
    const size_t i = stage->span_count++;
    const struct rt_state_span *before = i > 0 ? &stage->spans[i - 1] : NULL;
    stage->spans[i] = (struct rt_state_span){.at = before ? before->at + before->count : 0,
                                             .count = rt_shape_size(shape),
                                             .offset = offset,
                                             .is_buffer = is_buffer};
    return RT_OK;
}

rt_status rt_state_spans_create(struct rt_stage *stage, struct rt_error *err) {
    size_t count = 0;
    rt_status status = rt_model_visit(stage->model, stage_state_count_span, &count, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *stage->spans, "the list of tensors", &stage->spans, err);
    if (status == RT_OK)
        status = rt_model_visit(stage->model, stage_state_note_span, stage, err);
    return status;
}

/* ---- the image ---- */

static size_t stage_state_floats(const struct rt_stage *stage) {
    return stage->state ? stage->model->param_count * stage->job->optim->type->state_tensors : 0;
}

rt_status rt_stage_snapshot(struct rt_stage *stage, struct rt_error *err) {
    const struct rt_model *model = stage->model;
    if (!stage->image)
        return rt_fail(err, RT_FAILED, "a stage that only evaluates keeps no image of its parameters");
    const char *what = NULL;
    if (!rt_block_is_finite(stage->blocks.params, model->param_count))
        what = "a parameter";
    else if (!rt_block_is_finite(stage->blocks.buffers, model->buffer_count))
        what = "a buffer";
    else if (!rt_block_is_finite(stage->state, stage_state_floats(stage)))
        what = "the optimizer's state";
    if (what)
        return rt_fail(err, RT_DIVERGED, "%s of layers %zu to %zu is not finite after update %llu", what,
                       model->first, model->first + model->count - 1, (unsigned long long)stage->update);
    float *to = stage->image;
    stage->image_taken = false;
    for (size_t tensor = 0; tensor < rt_stage_state_count(stage); tensor++) {
        rt_stage_state_read(stage, tensor, 0, rt_stage_state_floats(stage, tensor), to);
        to += rt_stage_state_floats(stage, tensor);
    }
    stage->image_taken = true;
    stage->image_update = stage->update;
    return RT_OK;
}

/* ---- tensors ---- */

size_t rt_stage_state_count(const struct rt_stage *stage) {
    return 1 + (stage->state ? stage->job->optim->type->state_tensors : 0);
}

size_t rt_stage_state_floats(const struct rt_stage *stage, size_t tensor) {
    return stage->model->param_count + (tensor == 0 ? stage->model->buffer_count : 0);
}

/* The span that holds float number `at` of tensor 0. */
static size_t stage_state_find_span(const struct rt_stage *stage, size_t at) {
    size_t low = 0, high = stage->span_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (stage->spans[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Copies floats first..first+count of tensor 0 between the blocks and flat memory. */
static void stage_state_copy_spans(const struct rt_stage *stage, size_t first, size_t count, float *params,
                                   float *buffers, float *out, const float *in) {
    for (size_t i = count ? stage_state_find_span(stage, first) : 0; count > 0; i++) {
        const struct rt_state_span *span = &stage->spans[i];
        const size_t skipped = first - span->at;
        size_t part = span->count - skipped;
        part = part < count ? part : count;
        float *here = (span->is_buffer ? buffers : params) + span->offset + skipped;
        if (out) {
            memcpy(out, here, part * sizeof *out);
            out += part;
        } else {
            memcpy(here, in, part * sizeof *in);
            in += part;
        }
        first += part;
        count -= part;
    }
}

void rt_stage_state_read(const struct rt_stage *stage, size_t tensor, size_t first, size_t count,
                         float *out) {
    const size_t params = stage->model->param_count, buffers = stage->model->buffer_count;
    if (stage->image_taken)
        memcpy(out, stage->image + (tensor ? buffers + tensor * params : 0) + first, count * sizeof *out);
    else if (tensor == 0)
        stage_state_copy_spans(stage, first, count, stage->blocks.params, stage->blocks.buffers, out, NULL);
    else
        memcpy(out, stage->state + (tensor - 1) * params + first, count * sizeof *out);
}

void rt_stage_state_write(struct rt_stage *stage, size_t tensor, size_t first, size_t count,
                          const float *in) {
    stage->blocks.prepared_valid = false;
    if (tensor == 0)
        stage_state_copy_spans(stage, first, count, stage->blocks.params, stage->blocks.buffers, NULL, in);
    else
        memcpy(stage->state + (tensor - 1) * stage->model->param_count + first, in, count * sizeof *in);
}
