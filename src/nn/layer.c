/* Making one layer from its description, and what layers have in common. */
#include "nn/layer.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/sentence.h"
#include "nn/layers/layers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The limit for the floats in one tensor, and in one example: 2^31, as for the shape of the input. */
#define TENSOR_LIMIT ((uint64_t)1 << 31)

const char *const rt_weight_init_names[] = {"he", "glorot", "zeros", NULL};

size_t rt_layer_stash_floats(const struct rt_layer *layer, size_t rows, bool training) {
    return layer->stash_floats ? layer->stash_floats(layer, rows, training) : 0;
}

size_t rt_layer_work_floats(const struct rt_layer *layer, size_t rows) {
    return layer->work_floats ? layer->work_floats(layer, rows) : 0;
}

static size_t layer_kept_floats(const struct rt_layer *layer, size_t rows) {
    return rows * layer->own_floats + rt_round_up(rt_layer_stash_floats(layer, rows, true), RT_ALIGN_FLOATS);
}

size_t rt_layer_activation_bytes(const struct rt_layer *layer, size_t rows) {
    /* Everything grows at most in proportion to the rows. */
    size_t one = layer_kept_floats(layer, 1);
    if (rows > SIZE_MAX / 64 / (one ? one : 1))
        return SIZE_MAX;
    return layer_kept_floats(layer, rows) * sizeof(float);
}

/* The product of the dimensions, or TENSOR_LIMIT + 1 when it is more than that. */
static uint64_t layer_checked_size(const struct rt_shape *shape) {
    uint64_t size = 1;
    for (size_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] > TENSOR_LIMIT || size > TENSOR_LIMIT / (shape->dim[i] ? shape->dim[i] : 1))
            return TENSOR_LIMIT + 1;
        size *= shape->dim[i];
    }
    return size;
}

rt_status rt_layer_check_size(const struct rt_layer *layer, const struct rt_tree *spec, const char *what,
                              const struct rt_shape *shape, struct rt_error *err) {
    char text[96];
    if (layer_checked_size(shape) <= TENSOR_LIMIT)
        return RT_OK;
    return rt_tree_fail(spec, err, "%s: its %s would have the shape %s, which is more than 2^31 values",
                        layer->type->name, what, rt_shape_text(shape, text));
}

static rt_status layer_add_tensor(const struct rt_layer *layer, const struct rt_tree *spec, const char *name,
                                  const struct rt_shape *shape, struct rt_named *list, size_t *tensors,
                                  size_t *count, struct rt_error *err) {
    if (*tensors == RT_MAX_TENSORS)
        return rt_fail(err, RT_FAILED, "%s has more than %d tensors", layer->type->name, RT_MAX_TENSORS);
    rt_status status = rt_layer_check_size(layer, spec, name, shape, err);
    if (status != RT_OK)
        return status;
    list[(*tensors)++] = (struct rt_named){.name = name, .shape = *shape, .offset = *count};
    *count += rt_shape_size(shape);
    return RT_OK;
}

rt_status rt_layer_add_param(struct rt_layer *layer, const struct rt_tree *spec, const char *name,
                             const struct rt_shape *shape, struct rt_error *err) {
    return layer_add_tensor(layer, spec, name, shape, layer->params, &layer->param_tensors,
                            &layer->param_count, err);
}

rt_status rt_layer_add_buffer(struct rt_layer *layer, const struct rt_tree *spec, const char *name,
                              const struct rt_shape *shape, struct rt_error *err) {
    return layer_add_tensor(layer, spec, name, shape, layer->buffers, &layer->buffer_tensors,
                            &layer->buffer_count, err);
}

rt_status rt_layer_want_image(const struct rt_layer *layer, const struct rt_tree *spec,
                              struct rt_error *err) {
    char text[96];
    if (layer->in.rank == 3)
        return RT_OK;
    return rt_tree_fail(spec, err, "%s wants an input of the shape [channels, height, width] but gets %s",
                        layer->type->name, rt_shape_text(&layer->in, text));
}

rt_status rt_layer_window_positions(const struct rt_layer *layer, const struct rt_tree *spec, size_t size,
                                    size_t kernel, size_t stride, size_t pad, size_t *positions,
                                    struct rt_error *err) {
    if (size + 2 * pad < kernel)
        return rt_tree_fail(spec, err, "%s: a window of %zu does not fit into %zu with padding %zu",
                            layer->type->name, kernel, size, pad);
    *positions = (size + 2 * pad - kernel) / stride + 1;
    return RT_OK;
}

void rt_layer_init_weights(const struct rt_layer *layer, enum rt_weight_init init, uint64_t seed,
                           uint32_t tensor, size_t fan_in, size_t fan_out, size_t count, float *weights) {
    float limit = 0;
    if (init == RT_WEIGHTS_HE)
        limit = sqrtf(6.0f / (float)fan_in);
    if (init == RT_WEIGHTS_GLOROT)
        limit = sqrtf(6.0f / (float)(fan_in + fan_out));
    for (size_t e = 0; e < count; e += 4) {
        uint32_t words[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, layer->index, e / 4, tensor, words);
        for (size_t i = 0; i < 4 && e + i < count; i++)
            weights[e + i] = (2.0f * rt_rng_unit(words[i]) - 1.0f) * limit;
    }
}

/* Finds the type and the tree of its options, which is NULL when only the name is given. */
static rt_status layer_read_type(const struct rt_tree *spec, const struct rt_layer_type **type,
                                 const struct rt_tree **options, struct rt_error *err) {
    const char *name = spec->text;
    *options = NULL;
    if (spec->kind == RT_TREE_MAP && spec->count == 1) {
        name = spec->items[0]->key;
        *options = spec->items[0];
    } else if (spec->kind == RT_TREE_MAP && spec->count > 1) {
        return rt_tree_fail(spec, err, "a layer is one name with its options, not %s ('%s', '%s'...)",
                            RT_COUNTED(spec->count, "key"), spec->items[0]->key, spec->items[1]->key);
    } else if (spec->kind != RT_TREE_SCALAR) {
        return rt_tree_fail(spec, err, "a layer is a name (relu) or a name with options (dense: 10)");
    }
    *type = rt_layer_type_find(name);
    if (*type)
        return RT_OK;
    const char *names[64];
    size_t count = 0;
    for (; rt_layer_types()[count] && count < 63; count++)
        names[count] = rt_layer_types()[count]->name;
    names[count] = NULL;
    const char *near = rt_nearest(name, names), *blank = strchr(name, ' ');
    for (size_t i = 0; blank && i < count; i++)
        if (strlen(names[i]) == (size_t)(blank - name) && strncmp(names[i], name, strlen(names[i])) == 0)
            return rt_tree_fail(spec, err, "unknown layer '%.100s'; did you mean '%s: %.80s'?", name,
                                names[i], blank + 1);
    if (near)
        return rt_tree_fail(spec, err, "unknown layer '%s'; did you mean '%s'?", name, near);
    return rt_tree_fail(spec, err, "unknown layer '%.100s'; there are %s", name, RT_LISTED(names));
}

/* For options of a layer that are layers themselves: dense: {units: 10, activation: relu}, as in other
 * programs. */
static rt_status layer_point_to_layer(const struct rt_tree *options, rt_status status, struct rt_error *err) {
    for (size_t i = 0; options && options->kind == RT_TREE_MAP && i < options->count; i++) {
        const struct rt_tree *value = options->items[i];
        if (value->kind == RT_TREE_SCALAR && rt_layer_type_find(value->text))
            return rt_fail_more(err, status, "; %s is a layer of its own in the list", value->text);
    }
    return status;
}

/* A list stands for the main option of a type that takes a tree there (residual: [...]). */
static rt_status layer_read_settings(const struct rt_layer_type *type, const struct rt_tree *spec,
                                     const struct rt_tree *options, void *settings, struct rt_error *err) {
    if (options && options->kind == RT_TREE_LIST)
        for (size_t i = 0; i < type->option_count && type->main_option; i++)
            if (type->options[i].kind == RT_OPTION_TREE &&
                strcmp(type->options[i].name, type->main_option) == 0) {
                memcpy((char *)settings + type->options[i].offset, &options, sizeof options);
                return RT_OK;
            }
    rt_status status = rt_options_read(type->options, type->option_count, type->main_option, options,
                                       type->name, settings, err);
    if (status == RT_OK)
        return RT_OK;
    return options ? layer_point_to_layer(options, status, err) : rt_tree_place(spec, err);
}

rt_status rt_layer_create(const struct rt_tree *spec, const struct rt_shape *in, bool input_gradient,
                          const struct rt_kernels *kernels, uint32_t *index, struct rt_layer **layer,
                          struct rt_error *err) {
    const struct rt_layer_type *type;
    const struct rt_tree *options;
    rt_status status = layer_read_type(spec, &type, &options, err);
    if (status != RT_OK)
        return status;
    if (*index >= RT_MODEL_LAYERS)
        return rt_tree_fail(spec, err, "a model has at most %d layers, those inside others counted",
                            RT_MODEL_LAYERS);
    struct rt_layer *made = NULL;
    status = rt_alloc(1, sizeof *made, "a layer", &made, err);
    if (status != RT_OK)
        return status;
    made->type = type;
    made->kernels = kernels;
    made->in = made->out = *in;
    made->input_gradient = input_gradient;
    made->index = *index;
    made->next_index = *index + 1;
    status = rt_alloc(1, type->settings_bytes + 1, "a layer's settings", &made->settings, err);
    if (status == RT_OK)
        status = layer_read_settings(type, spec, options, made->settings, err);
    if (status == RT_OK)
        status = type->setup(made, options ? options : spec, err);
    if (status == RT_OK)
        status = rt_layer_check_size(made, spec, "output", &made->out, err);
    if (status != RT_OK) {
        rt_layer_destroy(made);
        return status;
    }
    *index = made->next_index;
    *layer = made;
    return RT_OK;
}

void rt_layer_destroy(struct rt_layer *layer) {
    if (!layer)
        return;
    if (layer->type->destroy)
        layer->type->destroy(layer);
    free(layer->settings);
    free(layer);
}
