/*
 * Making a model: its layers, the position of each layer's numbers in the blocks, and the plan of the
 * slot.
 *
 * The plan is made once, in floats per row, so that a pass finds everything by one multiplication:
 *  - an activation that the product before it can apply itself is absorbed by it;
 *  - a layer that may work in place shares its output with the layer before, unless that one reads its own
 *    output in the backward, or the memory is the model's input;
 *  - the gradient at the output of a layer with parameters has memory of its own, because the weights' part
 *    may come much later; all others alternate between two pieces.
 */
#include "nn/model.h"

#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t model_padded_size(const struct rt_shape *shape) {
    return rt_round_up(rt_shape_size(shape), RT_ALIGN_FLOATS);
}

/* ---- the plan of the slot ---------------------------------------------------------------------------------
 */

static void model_absorb_activations(struct rt_model *model) {
    for (size_t i = 1; i < model->count; i++) {
        struct rt_layer *before = model->layers[i - 1], *layer = model->layers[i];
        if (!before->absorbs || before->act != RT_ACT_NONE || layer->act == RT_ACT_NONE || !layer->in_place)
            continue;
        before->act = layer->act;
        before->act_arg = layer->act_arg;
        layer->absorbed = true;
    }
}

static void model_place_outputs(struct rt_model *model) {
    bool on_input = true, locked = false;
    size_t offset = RT_OFFSET_INPUT;
    for (size_t i = 0; i < model->count; i++) {
        struct rt_layer *layer = model->layers[i];
        bool last = i + 1 == model->count;
        bool shares = layer->absorbed || (layer->view && !(on_input && last)) ||
                      (layer->in_place && !on_input && !locked);
        if (!shares) {
            offset = model->row_floats;
            model->row_floats += model_padded_size(&layer->out);
            layer->own_floats += model_padded_size(&layer->out);
            on_input = locked = false;
        }
        locked |= layer->reads_y;
        model->offsets[i].y = offset;
    }
}

/* Outside of training nothing is kept: outputs alternate between two pieces of memory. */
static void model_place_inference(struct rt_model *model) {
    size_t widest = 0;
    for (size_t i = 0; i < model->count; i++)
        widest = model_padded_size(&model->layers[i]->out) > widest
                     ? model_padded_size(&model->layers[i]->out)
                     : widest;
    bool on_input = true, second = true;
    size_t offset = RT_OFFSET_INPUT;
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        bool last = i + 1 == model->count;
        bool shares =
            layer->absorbed || (layer->view && !(on_input && last)) || (layer->in_place && !on_input);
        if (!shares) {
            second = !second;
            offset = second ? widest : 0;
            on_input = false;
        }
        model->offsets[i].y_inference = offset;
    }
    model->row_floats_inference = 2 * widest;
}

/* The kind of memory for the gradient at a layer's output; start is the lowest layer that has a gradient. */
enum gradient { WITH_THE_ONE_BELOW, KEPT, TAKES_TURN };

static enum gradient model_gradient_kind(const struct rt_model *model, size_t i, size_t start) {
    const struct rt_layer *layer = model->layers[i];
    if (layer->param_count > 0)
        return KEPT;
    return i > start && layer->dx_in_place ? WITH_THE_ONE_BELOW : TAKES_TURN;
}

static void model_place_gradients(struct rt_model *model, bool input_gradient) {
    model->lowest = 0;
    while (!input_gradient && model->lowest < model->count && model->layers[model->lowest]->param_count == 0)
        model->lowest++;
    size_t start = model->lowest < model->count ? model->lowest : model->count - 1;
    size_t widest = 0, turns = 0;
    for (size_t i = start; i < model->count; i++)
        if (model_gradient_kind(model, i, start) == TAKES_TURN) {
            size_t size = model_padded_size(&model->layers[i]->out);
            widest = size > widest ? size : widest;
            turns++;
        }
    size_t first_turn = model->row_floats, turn = 0;
    model->row_floats += (turns < 2 ? turns : 2) * widest;
    for (size_t i = start; i < model->count; i++)
        switch (model_gradient_kind(model, i, start)) {
        case WITH_THE_ONE_BELOW:
            model->offsets[i].dy = model->offsets[i - 1].dy;
            break;
        case KEPT:
            model->offsets[i].dy = model->row_floats;
            model->row_floats += model_padded_size(&model->layers[i]->out);
            model->layers[i]->own_floats += model_padded_size(&model->layers[i]->out);
            break;
        case TAKES_TURN:
            model->offsets[i].dy = first_turn + turn * widest;
            turn = !turn;
            break;
        }
}

/* ---- create and destroy -----------------------------------------------------------------------------------
 */

/* Layers first..first+count-1 of the list are kept; earlier ones only give their output's shape and their
 * number of indices. */
static rt_status model_create_layers(struct rt_model *model, const struct rt_tree *layers, size_t count,
                                     bool input_gradient, const struct rt_kernels *kernels, uint32_t *index,
                                     struct rt_error *err) {
    struct rt_shape shape = model->in;
    bool wanted = input_gradient;
    for (size_t i = 0; i < model->first + count; i++) {
        struct rt_layer *layer;
        bool keep = i >= model->first;
        if (i == model->first) {
            model->in = shape;
            model->first_index = *index;
        }
        rt_status status =
            rt_layer_create(layers->items[i], &shape, keep && wanted, kernels, index, &layer, err);
        if (status != RT_OK)
            return status;
        shape = layer->out;
        if (!keep) {
            rt_layer_destroy(layer);
            continue;
        }
        model->layers[model->count++] = layer;
        wanted = wanted || layer->param_count > 0;
    }
    model->out = shape;
    return RT_OK;
}

/* Adds up what the layers need; false when it is more than can be addressed. */
static bool model_sum_up(struct rt_model *model) {
    const size_t limit = SIZE_MAX / 64;
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        model->param_at[i] = model->param_count;
        model->buffer_at[i] = model->buffer_count;
        model->prepared_at[i] = model->prepared_floats;
        if (layer->param_count > limit - model->param_count ||
            layer->prepared_floats > limit - model->prepared_floats)
            return false;
        model->param_count += layer->param_count;
        model->buffer_count += layer->buffer_count;
        model->prepared_floats += rt_round_up(layer->prepared_floats, RT_ALIGN_FLOATS);
        if (layer->scratch_bytes > model->scratch_bytes)
            model->scratch_bytes = layer->scratch_bytes;
        model->flops_forward += layer->flops_forward;
        model->flops_input += layer->flops_input;
        model->flops_weights += layer->flops_weights;
    }
    return true;
}

rt_status rt_model_create(const struct rt_tree *layers, const struct rt_shape *input, size_t first,
                          size_t count, bool input_gradient, const struct rt_kernels *kernels,
                          uint32_t *index, struct rt_model **model, struct rt_error *err) {
    if (layers->kind != RT_TREE_LIST || layers->count == 0)
        return rt_tree_fail(layers, err, "the layers of a model are a list with at least one layer in it");
    if (first >= layers->count || (count != SIZE_MAX && (count == 0 || count > layers->count - first)))
        return rt_fail(err, RT_BAD_INPUT,
                       "layers %zu and up to %zu more are not all among the %zu of the model", first, count,
                       layers->count);
    if (count == SIZE_MAX)
        count = layers->count - first;
    struct rt_model *made = NULL;
    rt_status status = rt_alloc(1, sizeof *made, "a model", &made, err);
    if (status != RT_OK)
        return status;
    made->in = *input;
    made->first = first;
    status = rt_alloc(count, sizeof *made->layers, "a model's layers", &made->layers, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->param_at, "a model's offsets", &made->param_at, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->buffer_at, "a model's offsets", &made->buffer_at, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->prepared_at, "a model's offsets", &made->prepared_at, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *made->offsets, "a model's offsets", &made->offsets, err);
    uint32_t next = *index;
    if (status == RT_OK)
        status = model_create_layers(made, layers, count, input_gradient, kernels, &next, err);
    if (status == RT_OK && !model_sum_up(made))
        status = rt_tree_fail(layers, err, "these layers need more memory than can be addressed");
    if (status != RT_OK) {
        rt_model_destroy(made);
        return status;
    }
    model_absorb_activations(made);
    model_place_outputs(made);
    model_place_gradients(made, input_gradient);
    model_place_inference(made);
    *index = next;
    *model = made;
    return RT_OK;
}

void rt_model_destroy(struct rt_model *model) {
    if (!model)
        return;
    for (size_t i = 0; i < model->count; i++)
        rt_layer_destroy(model->layers[i]);
    free(model->layers);
    free(model->param_at);
    free(model->buffer_at);
    free(model->prepared_at);
    free(model->offsets);
    free(model);
}

void rt_model_init(const struct rt_model *model, uint64_t seed, float *params, float *buffers) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        if (layer->type->init && layer->param_count + layer->buffer_count > 0)
            layer->type->init(layer, seed, params + model->param_at[i], buffers + model->buffer_at[i]);
    }
}

bool rt_model_needs_examples(const struct rt_model *model) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        if (layer->type->needs_examples || (layer->body && rt_model_needs_examples(layer->body)))
            return true;
    }
    return false;
}

bool rt_model_measures_batch(const struct rt_model *model) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        if (layer->type->measures_batch || (layer->body && rt_model_measures_batch(layer->body)))
            return true;
    }
    return false;
}

bool rt_model_needs_several_rows(const struct rt_model *model) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        if (layer->needs_several_rows || (layer->body && rt_model_needs_several_rows(layer->body)))
            return true;
    }
    return false;
}

/* ---- names ------------------------------------------------------------------------------------------------
 */

struct visit {
    rt_tensor_visit visit;
    void *user;
};

static rt_status model_visit_tensors(const struct visit *visit, const struct rt_named *tensors, size_t count,
                                     const char *prefix, size_t at, bool is_buffer, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t t = 0; t < count && status == RT_OK; t++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, tensors[t].name);
        status = visit->visit(visit->user, name, &tensors[t].shape, at + tensors[t].offset, is_buffer, err);
    }
    return status;
}

static rt_status model_visit(const struct visit *visit, const struct rt_model *model, const char *prefix,
                             size_t param_at, size_t buffer_at, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < model->count && status == RT_OK; i++) {
        const struct rt_layer *layer = model->layers[i];
        size_t params = param_at + model->param_at[i], buffers = buffer_at + model->buffer_at[i];
        char name[200];
        if ((size_t)snprintf(name, sizeof name, "%s%zu.", prefix, model->first + i) >= sizeof name)
            return rt_fail(err, RT_BAD_INPUT, "layers are nested too deeply for their tensors to have names");
        if (layer->body)
            status = model_visit(visit, layer->body, name, params, buffers, err);
        else
            status =
                model_visit_tensors(visit, layer->params, layer->param_tensors, name, params, false, err);
        if (status == RT_OK && !layer->body)
            status =
                model_visit_tensors(visit, layer->buffers, layer->buffer_tensors, name, buffers, true, err);
    }
    return status;
}

rt_status rt_model_visit(const struct rt_model *model, rt_tensor_visit visit, void *user,
                         struct rt_error *err) {
    struct visit walk = {visit, user};
    return model_visit(&walk, model, "", 0, 0, err);
}
