#include "support/chain.h"

#include "base/memory.h"
#include "formats/yaml.h"
#include <stdlib.h>
#include <string.h>

rt_status chain_job(const char *model, const char *keys, struct rt_job **job, struct rt_error *err) {
    char text[4000];
    const size_t length = strlen(model);
    snprintf(text, sizeof text, "%.*s, learner: ring, %s}", (int)length - 1, model, keys);
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(text, strlen(text), "job", &tree, err);
    return status == RT_OK ? rt_job_create(tree, job, err) : status;
}

static rt_status open_stages(struct chain *chain, const size_t *cuts, struct rt_error *err) {
    const size_t layers = chain->job->layers->count;
    size_t first = 0, widest = 0;
    rt_status status = RT_OK;
    while (first < layers && status == RT_OK) {
        const size_t end = cuts && *cuts ? *cuts++ : layers;
        struct rt_stage **stage = &chain->stages[chain->count];
        status = rt_stage_create(chain->job, &chain->device, first, end - first, chain->slots, stage, err);
        if (status != RT_OK)
            break;
        chain->count++;
        const size_t width = rt_shape_size(&(*stage)->model->in);
        widest = width > widest ? width : widest;
        first = end;
    }
    const size_t rows = rt_job_micro_rows(chain->job);
    if (status == RT_OK)
        status = rt_floats_create(widest * rows, "gradients", &chain->dx, err);
    if (status == RT_OK)
        status = rt_floats_create(rows, "losses", &chain->losses, err);
    return status;
}

rt_status chain_open(const struct tiny *tiny, const char *model, const char *keys, const size_t *cuts,
                     size_t slots, size_t threads, uint32_t random, struct chain *chain,
                     struct rt_error *err) {
    *chain = (struct chain){.tiny = tiny, .slots = slots, .random = random};
    rt_status status = chain_job(model, keys, &chain->job, err);
    if (status == RT_OK)
        status = rt_device_open(RT_MATH_EXACT, "auto", threads, &chain->device, err);
    if (status == RT_OK)
        status = open_stages(chain, cuts, err);
    if (status == RT_OK)
        status = rt_batches_create((uint64_t)chain->job->seed, tiny->set.count, (size_t)chain->job->batch,
                                   true, false, &chain->batches, err);
    if (status != RT_OK)
        chain_close(chain);
    return status;
}

void chain_close(struct chain *chain) {
    for (size_t i = 0; i < chain->count; i++)
        rt_stage_destroy(chain->stages[i]);
    if (chain->device.pool)
        rt_device_close(&chain->device);
    rt_batches_destroy(&chain->batches);
    rt_job_destroy(chain->job);
    free(chain->dx);
    free(chain->losses);
}

/* ---- one update ---- */

static uint32_t draw(struct chain *chain) {
    chain->random = chain->random * 1664525u + 1013904223u;
    return chain->random >> 16;
}

/* Forward of micro-batch m through all stages, and the loss. */
static void forward(struct chain *chain, const struct rt_batch *batch, uint64_t m) {
    const struct rt_micro part = chain->parts[m];
    const struct tiny *tiny = chain->tiny;
    const size_t inputs = tiny->network.inputs, outputs = tiny->network.outputs;
    const uint32_t *examples = batch->examples + part.first;
    for (size_t k = 0; k < chain->count; k++) {
        struct rt_stage *stage = chain->stages[k];
        struct rt_slot *slot = rt_stage_slot(stage, m);
        slot->micro = m;
        slot->epoch = batch->epoch;
        slot->rows = part.rows;
        slot->batch_rows = batch->rows;
        slot->part = part;
        const size_t width = rt_shape_size(&stage->model->in);
        if (k > 0)
            memcpy(slot->x, rt_stage_slot(chain->stages[k - 1], m)->y, part.rows * width * sizeof(float));
        for (size_t i = 0; k == 0 && i < part.rows; i++)
            memcpy(slot->x + i * width, tiny->inputs + examples[i] * inputs, inputs * sizeof(float));
        if (stage->needs_examples)
            memcpy(slot->x + part.rows * width, examples, part.rows * sizeof *examples);
        else
            memset(slot->x + part.rows * width, 255, part.rows * sizeof *examples);
        rt_stage_forward(stage, slot, true);
    }
    struct rt_slot *last = rt_stage_slot(chain->stages[chain->count - 1], m);
    int32_t classes[64];
    float values[64 * 16];
    for (size_t i = 0; i < part.rows; i++) {
        classes[i] = tiny->classes[examples[i]];
        memcpy(values + i * outputs, tiny->values + examples[i] * outputs, outputs * sizeof *values);
    }
    const struct rt_targets targets = {.classes = classes, .values = values};
    tiny->network.loss->evaluate(&chain->device, part.rows, outputs, last->y, &targets,
                                 1.0f / (float)batch->rows, chain->losses, last->dy);
}

static void backward_input(struct chain *chain, uint64_t m) {
    for (size_t k = chain->count; k-- > 0;) {
        struct rt_stage *stage = chain->stages[k];
        struct rt_slot *slot = rt_stage_slot(stage, m);
        rt_stage_backward_input(stage, slot, k > 0 ? chain->dx : NULL);
        if (k > 0) {
            struct rt_slot *below = rt_stage_slot(chain->stages[k - 1], m);
            memcpy(below->dy, chain->dx, slot->rows * rt_shape_size(&stage->model->in) * sizeof(float));
        }
    }
}

/* The weight gradients of some of the micro-batches first..end, as many as chance will have it; returns how
 * many. */
static size_t backward_weights(struct chain *chain, size_t k, size_t first, size_t end) {
    struct rt_slot *slots[RT_MAX_WAITING];
    size_t count = 0;
    do {
        slots[count] = rt_stage_slot(chain->stages[k], first + count);
        count++;
    } while (count < RT_MAX_WAITING && first + count < end && !slots[count - 1]->part.last_of_slice &&
             draw(chain) % 4 > 0);
    rt_stage_backward_weights(chain->stages[k], slots, count, first + count == chain->micros, NULL);
    return count;
}

static void apply(struct chain *chain) {
    double squares = 0;
    for (size_t k = 0; k < chain->count && chain->job->clip_norm > 0; k++)
        squares = rt_stage_squares(chain->stages[k], squares);
    for (size_t k = 0; k < chain->count; k++)
        rt_stage_apply(chain->stages[k], rt_norm_clip(chain->job->clip_norm, squares));
}

void chain_update(struct chain *chain) {
    struct rt_batch batch;
    rt_batches_at(&chain->batches, chain->stages[0]->update + 1, &batch);
    chain->micros = rt_job_micros(chain->job, batch.rows);
    for (size_t i = 0; i < chain->micros; i++)
        chain->parts[i] = rt_job_micro(chain->job, batch.rows, i);
    size_t forwards = 0, inputs = 0, weights[CHAIN_MOST] = {0};
    while (inputs < chain->micros) {
        /* Every stage makes room for another micro-batch, or does more than it has to. */
        for (size_t k = 0; k < chain->count; k++)
            while (weights[k] < inputs && (forwards - weights[k] == chain->slots || draw(chain) % 3 == 0))
                weights[k] += backward_weights(chain, k, weights[k], inputs);
        size_t oldest = weights[0];
        for (size_t k = 0; k < chain->count; k++)
            oldest = weights[k] < oldest ? weights[k] : oldest;
        const bool room = forwards - oldest < chain->slots && forwards < chain->micros;
        if (room && (forwards == inputs || draw(chain) % 2 == 0))
            forward(chain, &batch, forwards++);
        else if (inputs < forwards)
            backward_input(chain, inputs++);
    }
    for (size_t k = 0; k < chain->count; k++)
        while (weights[k] < chain->micros)
            weights[k] += backward_weights(chain, k, weights[k], inputs);
    apply(chain);
}

static size_t count_differences(const float *a, const float *b, size_t count) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += memcmp(a + i, b + i, sizeof *a) != 0;
    return wrong;
}

size_t chain_differs(const struct chain *chain, const struct tiny *tiny) {
    const struct rt_blocks *blocks = &tiny->network.blocks;
    const float *state = rt_trainer_state(tiny->trainer);
    size_t params = 0, buffers = 0, wrong = 0;
    for (size_t k = 0; k < chain->count; k++) {
        const struct rt_stage *stage = chain->stages[k];
        const size_t own = stage->model->param_count;
        wrong += count_differences(stage->blocks.params, blocks->params + params, own);
        wrong +=
            count_differences(stage->blocks.buffers, blocks->buffers + buffers, stage->model->buffer_count);
        for (size_t word = 0; word < tiny->optim->type->state_tensors; word++)
            wrong += count_differences(stage->state + word * own,
                                       state + word * tiny->network.model->param_count + params, own);
        params += own;
        buffers += stage->model->buffer_count;
    }
    return wrong + (params != tiny->network.model->param_count);
}
