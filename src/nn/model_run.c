/*
 * Running a model: forward, and the two parts of the backward. Nothing here allocates; where things lie in
 * the slot was planned in model.c. A slot is [outputs and gradients][work][stash of layer 0][stash of layer
 * 1]...
 */
#include "nn/model.h"

#include "base/memory.h"

static size_t model_padded_stash(const struct rt_layer *layer, size_t rows, bool training) {
    return rt_round_up(rt_layer_stash_floats(layer, rows, training), RT_ALIGN_FLOATS);
}

/* Floats before the stashes. */
static size_t model_stash_start(const struct rt_model *model, size_t rows, bool training, size_t *work_at) {
    *work_at = rows * (training ? model->row_floats : model->row_floats_inference);
    size_t work = 0;
    for (size_t i = 0; i < model->count && training; i++) {
        size_t floats = rt_layer_work_floats(model->layers[i], rows);
        work = floats > work ? floats : work;
    }
    return *work_at + rt_round_up(work, RT_ALIGN_FLOATS);
}

size_t rt_model_nested_floats(const struct rt_model *model, size_t rows, bool training) {
    size_t work_at, floats = model_stash_start(model, rows, training, &work_at);
    for (size_t i = 0; i < model->count; i++)
        floats += model_padded_stash(model->layers[i], rows, training);
    return floats;
}

size_t rt_model_slot_floats(const struct rt_model *model, size_t rows, bool training) {
    /* Everything in a slot grows at most in proportion to the rows, so this bounds every product inside. */
    size_t one = rt_model_nested_floats(model, 1, training);
    if (rows > SIZE_MAX / 64 / (one ? one : 1))
        return SIZE_MAX;
    return rt_model_nested_floats(model, rows, training);
}

size_t rt_model_activation_bytes(const struct rt_model *model, size_t rows) {
    size_t floats = rt_model_slot_floats(model, rows, true);
    return floats > SIZE_MAX / sizeof(float) ? SIZE_MAX : floats * sizeof(float);
}

static float *model_output(const struct rt_model *model, const struct rt_pass *pass, float *slot,
                           const float *x, size_t i) {
    size_t offset = pass->training ? model->offsets[i].y : model->offsets[i].y_inference;
    /* Only layers that change nothing have their output there. */
    return offset == RT_OFFSET_INPUT ? (float *)(uintptr_t)x : slot + pass->rows * offset;
}

static float *model_gradient(const struct rt_model *model, const struct rt_pass *pass, float *slot,
                             size_t i) {
    return slot + pass->rows * model->offsets[i].dy;
}

static struct rt_layer_memory model_layer_memory(const struct rt_model *model,
                                                 const struct rt_layer_memory *memory, size_t i) {
    return (struct rt_layer_memory){
        .params = memory->params + model->param_at[i],
        .buffers = memory->buffers + model->buffer_at[i],
        .prepared = memory->prepared ? memory->prepared + model->prepared_at[i] : NULL,
    };
}

/* ---- forward ----------------------------------------------------------------------------------------------
 */

static float *model_forward(const struct rt_model *model, const struct rt_pass *pass,
                            const struct rt_layer_memory *memory, const struct rt_layer_watch *watch,
                            bool begun, const float *x) {
    size_t work_at, stash_at = model_stash_start(model, pass->rows, pass->training, &work_at);
    const float *in = x;
    float *y = NULL;
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        y = model_output(model, pass, memory->stash, x, i);
        struct rt_layer_memory own = model_layer_memory(model, memory, i);
        own.stash = memory->stash + stash_at;
        own.work = memory->stash + work_at;
        if (watch && watch->before && layer->param_count > 0)
            watch->before(watch->self, i);
        if (!layer->absorbed && !(layer->view && y == in) && !(begun && in == x))
            layer->type->forward(layer, pass, &own, in, y);
        stash_at += model_padded_stash(layer, pass->rows, pass->training);
        in = y;
    }
    return y;
}

float *rt_model_nested_forward(const struct rt_model *model, const struct rt_pass *pass,
                               const struct rt_layer_memory *memory, const float *x) {
    return model_forward(model, pass, memory, NULL, false, x);
}

static void model_prepare_layer(const struct rt_model *model, const struct rt_device *device,
                                const float *params, float *prepared, size_t i) {
    const struct rt_layer *layer = model->layers[i];
    if (layer->type->prepare && layer->prepared_floats > 0)
        layer->type->prepare(layer, device, params + model->param_at[i], prepared + model->prepared_at[i]);
}

void rt_model_nested_prepare(const struct rt_model *model, const struct rt_device *device,
                             const float *params, float *prepared) {
    for (size_t i = 0; i < model->count; i++)
        model_prepare_layer(model, device, params, prepared, i);
}

void rt_model_prepare_layer(const struct rt_model *model, const struct rt_device *device,
                            struct rt_blocks *blocks, size_t layer) {
    model_prepare_layer(model, device, blocks->params, blocks->prepared, layer);
}

void rt_model_prepare(const struct rt_model *model, const struct rt_device *device,
                      struct rt_blocks *blocks) {
    rt_model_nested_prepare(model, device, blocks->params, blocks->prepared);
    blocks->prepared_valid = true;
}

static struct rt_layer_memory model_blocks_memory(const struct rt_blocks *blocks, float *slot) {
    return (struct rt_layer_memory){
        .params = blocks->params,
        .buffers = blocks->buffers,
        .prepared = blocks->prepared_valid ? blocks->prepared : NULL,
        .stash = slot,
    };
}

float *rt_model_forward(const struct rt_model *model, const struct rt_pass *pass, struct rt_blocks *blocks,
                        float *slot, const float *x) {
    struct rt_layer_memory memory = model_blocks_memory(blocks, slot);
    return model_forward(model, pass, &memory, blocks->watch, pass->begun, x);
}

/* ---- backward ---------------------------------------------------------------------------------------------
 */

float *rt_model_output_gradient(const struct rt_model *model, const struct rt_pass *pass, float *slot) {
    return model_gradient(model, pass, slot, model->count - 1);
}

/* A sink for one layer: passes spans on with the layer's offset. */
struct shifted_sink {
    const struct rt_grad_sink *outer;
    size_t offset;
};

static void model_take_shifted(void *self, size_t offset, size_t count, const float *grad) {
    const struct shifted_sink *sink = self;
    sink->outer->take(sink->outer->self, sink->offset + offset, count, grad);
}

/* The weights' part of one layer. */
static void model_layer_weights(const struct rt_model *model, size_t i, size_t count,
                                const struct rt_waiting *waiting, float *grads, bool accumulate,
                                const struct rt_grad_sink *sink, struct rt_successor *successor) {
    const struct rt_layer *layer = model->layers[i];
    struct shifted_sink shifted = {sink, model->param_at[i]};
    struct rt_descent descent;
    struct rt_grad_sink own = {.take = model_take_shifted, .self = &shifted, .successor = successor};
    if (sink && sink->descent) {
        descent = *sink->descent;
        descent.w += model->param_at[i];
        descent.v = descent.v ? descent.v + model->param_at[i] : NULL;
        own.descent = &descent;
    }
    grads += model->param_at[i];
    if (layer->type->merge_weights) {
        layer->type->merge_weights(layer, count, waiting, grads, accumulate, sink ? &own : NULL);
        return;
    }
    for (size_t w = 0; w < count; w++)
        layer->type->backward_weights(layer, waiting[w].pass, &waiting[w].memory, waiting[w].x, waiting[w].y,
                                      waiting[w].dy, grads, accumulate || w > 0,
                                      sink && w + 1 == count ? &own : NULL);
}

/* A walk over the layers of one micro-batch: from the last down to the lowest, or the other way round. */
struct walk {
    const struct rt_pass *pass;
    const struct rt_layer_memory *memory; /* of the model */
    const float *x, *dy;                  /* dy: at the model's output */
    size_t work_at, stash_at;
    bool rising;
};

static struct walk model_begin_walk(const struct rt_model *model, const struct rt_pass *pass,
                                    const struct rt_layer_memory *memory, const float *x, const float *dy,
                                    bool rising) {
    struct walk walk = {.pass = pass, .memory = memory, .x = x, .dy = dy, .rising = rising};
    walk.stash_at = model_stash_start(model, pass->rows, pass->training, &walk.work_at);
    for (size_t i = 0; i < (rising ? model->lowest : model->count); i++)
        walk.stash_at += model_padded_stash(model->layers[i], pass->rows, pass->training);
    if (!dy)
        walk.dy = rt_model_output_gradient(model, pass, memory->stash);
    return walk;
}

/* The inputs and gradients of layer i, the next one of the walk. */
static struct rt_waiting model_walk_to(const struct rt_model *model, struct walk *walk, size_t i) {
    const struct rt_pass *pass = walk->pass;
    const size_t stash = model_padded_stash(model->layers[i], pass->rows, pass->training);
    float *slot = walk->memory->stash;
    struct rt_waiting at = {.pass = pass, .memory = model_layer_memory(model, walk->memory, i)};
    if (!walk->rising)
        walk->stash_at -= stash;
    at.memory.stash = slot + walk->stash_at;
    at.memory.work = slot + walk->work_at;
    at.x = i > 0 ? model_output(model, pass, slot, walk->x, i - 1) : walk->x;
    at.y = model_output(model, pass, slot, walk->x, i);
    at.dy = i + 1 < model->count ? model_gradient(model, pass, slot, i) : walk->dy;
    if (walk->rising)
        walk->stash_at += stash;
    return at;
}

/* For layer i, which takes the model's input. Its output is free: the last one there is not read any more. */
static struct rt_successor *model_successor(const struct rt_model *model, const struct walk *walk,
                                            const struct rt_grad_sink *sink, size_t i) {
    if (sink->successor)
        sink->successor->y = model_output(model, walk->pass, walk->memory->stash, walk->x, i);
    return sink->successor;
}

static void model_backward(const struct rt_model *model, const struct rt_pass *pass,
                           const struct rt_layer_memory *memory, const struct rt_layer_watch *watch,
                           const float *x, const float *dy, enum rt_backward parts, float *dx, float *grads,
                           bool accumulate, const struct rt_grad_sink *sink) {
    struct walk walk = model_begin_walk(model, pass, memory, x, dy, false);
    for (size_t i = model->count; i-- > model->lowest;) {
        const struct rt_layer *layer = model->layers[i];
        const struct rt_waiting at = model_walk_to(model, &walk, i);
        /* The memory for the gradient at its input; the model's own is the caller's. */
        float *below = i > model->lowest ? model_gradient(model, pass, memory->stash, i - 1) : dx;
        /* A layer with a body computes the gradients inside it even if the one below it is not needed. */
        bool wanted = layer->input_gradient || layer->body;
        if ((parts & RT_BACKWARD_INPUT) && wanted && !(layer->view && below == at.dy))
            layer->type->backward_input(layer, pass, &at.memory, at.x, at.y, at.dy,
                                        layer->input_gradient ? below : NULL);
        if ((parts & RT_BACKWARD_WEIGHTS) && layer->param_count > 0)
            model_layer_weights(model, i, 1, &at, grads, accumulate, sink,
                                sink && at.x == x && !layer->body ? model_successor(model, &walk, sink, i)
                                                                  : NULL);
        if (watch && watch->after && parts == RT_BACKWARD_BOTH && layer->param_count > 0)
            watch->after(watch->self, i);
    }
}

void rt_model_nested_backward(const struct rt_model *model, const struct rt_pass *pass,
                              const struct rt_layer_memory *memory, const float *x, const float *dy,
                              enum rt_backward parts, float *dx, float *grads, bool accumulate,
                              const struct rt_grad_sink *sink) {
    model_backward(model, pass, memory, NULL, x, dy, parts, dx, grads, accumulate, sink);
}

void rt_model_backward_weights(const struct rt_model *model, size_t count, const struct rt_waiting *waiting,
                               float *grads, bool accumulate, const struct rt_grad_sink *sink,
                               const struct rt_layer_watch *watch) {
    const bool rising = watch && watch->rising;
    struct walk walks[RT_MAX_WAITING];
    struct rt_waiting at[RT_MAX_WAITING];
    for (size_t w = 0; w < count; w++)
        walks[w] =
            model_begin_walk(model, waiting[w].pass, &waiting[w].memory, waiting[w].x, waiting[w].dy, rising);
    for (size_t k = model->lowest; k < model->count; k++) {
        const size_t i = rising ? k : model->count - 1 - (k - model->lowest);
        for (size_t w = 0; w < count; w++)
            at[w] = model_walk_to(model, &walks[w], i);
        if (model->layers[i]->param_count == 0)
            continue;
        model_layer_weights(model, i, count, at, grads, accumulate, sink, NULL);
        if (watch)
            watch->after(watch->self, i);
    }
}

struct rt_waiting rt_model_waiting(const struct rt_pass *pass, const struct rt_blocks *blocks, float *slot,
                                   const float *x) {
    return (struct rt_waiting){.pass = pass, .memory = model_blocks_memory(blocks, slot), .x = x};
}

void rt_model_backward(const struct rt_model *model, const struct rt_pass *pass, struct rt_blocks *blocks,
                       float *slot, const float *x, enum rt_backward parts, float *dx, float *grads,
                       bool accumulate, const struct rt_grad_sink *sink) {
    struct rt_layer_memory memory = model_blocks_memory(blocks, slot);
    const struct rt_layer_watch *watch = blocks->watch;
    if (parts == RT_BACKWARD_BOTH && watch && watch->after && watch->rising) {
        const struct rt_waiting waiting = rt_model_waiting(pass, blocks, slot, x);
        model_backward(model, pass, &memory, NULL, x, NULL, RT_BACKWARD_INPUT, dx, NULL, false, NULL);
        rt_model_backward_weights(model, 1, &waiting, grads, accumulate, sink, watch);
    } else {
        model_backward(model, pass, &memory, watch, x, NULL, parts, dx, grads, accumulate, sink);
    }
}
