/* Writing and reading of model files. */
#include "run/modelfile.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "formats/safetensors.h"
#include "formats/yaml.h"
#include "learn/gradient.h"
#include "learn/scaling.h"
#include "nn/layers/layers.h"
#include "run/checkpoint.h"
#include "run/description.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

struct writing {
    struct rt_tensors_out *out;
    struct rt_params_hash hash;
    struct rt_error unwritten; /* why the file cannot be written; status RT_OK: it can */
};

static rt_status modelfile_declare_tensor(void *user, const char *name, const struct rt_shape *shape,
                                          size_t offset, bool is_buffer, struct rt_error *err) {
    (void)offset, (void)is_buffer;
    return rt_tensors_out_declare(user, name, shape, err);
}

/* A file that cannot be written is not the learner's fault: it hands out its state as if nothing were wrong.
 */
static rt_status modelfile_write_floats(void *user, size_t tensor, size_t count, const float *floats,
                                        struct rt_error *err) {
    (void)tensor, (void)err;
    struct writing *writing = user;
    rt_params_hash_add(&writing->hash, count, floats);
    if (writing->unwritten.status == RT_OK)
        (void)rt_tensors_out_write(writing->out, floats, count, &writing->unwritten);
    return RT_OK;
}

static rt_status modelfile_write_names(struct rt_tensors_out *out, const char *key,
                                       const struct rt_names *names, struct rt_error *err) {
    if (names->count == 0)
        return RT_OK;
    char *text = rt_names_json(names);
    if (!text)
        return rt_fail(err, RT_BAD_INPUT, "one of the %s has a name that is not UTF-8, or memory is short",
                       key);
    rt_status status = rt_tensors_out_meta(out, key, text, err);
    free(text);
    return status;
}

static rt_status modelfile_write_meta(struct rt_tensors_out *out, const struct rt_trained *trained,
                                      struct rt_error *err) {
    char update[24];
    char *scaling = NULL;
    snprintf(update, sizeof update, "%" PRIu64, trained->update);
    rt_status status = rt_scaling_json(&trained->scaling, &scaling, err);
    const bool buffers = trained->network.model->buffer_count > 0;
    const struct {
        const char *key, *value;
    } meta[] = {{RT_KEY_VERSION, RT_VERSION},
                {RT_KEY_MODEL, trained->description},
                {RT_KEY_LOSS, trained->network.loss->name},
                {RT_KEY_SCALING, scaling},
                {RT_KEY_PARAMS_HASH, RT_HASH_TO_COME},
                {RT_KEY_UPDATE, update},
                {RT_KEY_HASH, RT_HASH_TO_COME},
                {buffers ? RT_KEY_BUFFERS_HASH : NULL, RT_HASH_TO_COME}};
    for (size_t i = 0; status == RT_OK && i < sizeof meta / sizeof *meta; i++)
        if (meta[i].key)
            status = rt_tensors_out_meta(out, meta[i].key, meta[i].value, err);
    free(scaling);
    if (status == RT_OK)
        status = modelfile_write_names(out, RT_KEY_CLASSES, &trained->names, err);
    return status == RT_OK ? modelfile_write_names(out, RT_KEY_COLUMNS, &trained->columns, err) : status;
}

/* The hashes, once all of the state has passed by. */
static rt_status modelfile_write_hashes(struct writing *writing, const struct rt_model *model, char hex[65],
                                        struct rt_error *err) {
    char buffers[65];
    rt_params_hash_finish(&writing->hash, hex, buffers);
    rt_status status = rt_tensors_out_amend(writing->out, RT_KEY_PARAMS_HASH, hex, err);
    if (status == RT_OK && model->buffer_count)
        status = rt_tensors_out_amend(writing->out, RT_KEY_BUFFERS_HASH, buffers, err);
    return status == RT_OK ? rt_description_seal(writing->out, err) : status;
}

rt_status rt_modelfile_write(const char *path, const struct rt_trained *trained,
                             const struct rt_model_state *model_state, char hex[65], struct rt_error *err) {
    struct writing writing = {.unwritten.status = RT_OK};
    char own[65];
    rt_status status = rt_tensors_out_create(path, &writing.out, err);
    if (status != RT_OK)
        return status;
    status = rt_params_hash_open(model_state->model, &writing.hash, err);
    if (status == RT_OK)
        status = modelfile_write_meta(writing.out, trained, err);
    if (status == RT_OK)
        status = rt_model_visit(model_state->model, modelfile_declare_tensor, writing.out, err);
    if (status == RT_OK)
        status = rt_model_state_write(model_state, 1, modelfile_write_floats, &writing, err);
    if (status == RT_OK && writing.unwritten.status != RT_OK)
        status = rt_fail(err, writing.unwritten.status, "%s", writing.unwritten.text);
    if (status == RT_OK)
        status = modelfile_write_hashes(&writing, model_state->model, own, err);
    rt_params_hash_close(&writing.hash);
    if (status != RT_OK) {
        rt_tensors_out_abandon(writing.out);
        return status;
    }
    status = rt_tensors_out_commit(writing.out, err);
    if (status == RT_OK && hex)
        memcpy(hex, own, sizeof own);
    return status;
}

/* ---- reading ---- */

/* The tensors of a file in the order of a model's, read one float after another. */
struct reading {
    const struct rt_tensors *tensors;
    size_t *order; /* entry of each of the model's tensors; NULL while they are only checked */
    size_t count;
    size_t next;     /* entry at which the next one is looked for first: mostly they are in order */
    size_t at, done; /* tensor, and floats of it that have been read */
};

/* A checkpoint has the state of the optimizer beside the parameters, under names that no layer gives. */
static bool modelfile_is_parameter(const struct rt_tensor_entry *entry) {
    return strncmp(entry->name, "optimizer.", strlen("optimizer.")) != 0;
}

static rt_status modelfile_check_tensor(void *user, const char *name, const struct rt_shape *shape,
                                        size_t offset, bool is_buffer, struct rt_error *err) {
    (void)offset, (void)is_buffer;
    struct reading *reading = user;
    const struct rt_tensors *tensors = reading->tensors;
    size_t tried = 0, i = reading->next;
    for (; tried < tensors->count && strcmp(tensors->entries[i % tensors->count].name, name) != 0; tried++)
        i++;
    if (tried == tensors->count)
        return rt_fail(err, RT_BAD_INPUT, "it has no tensor '%s'", name);
    i %= tensors->count;
    reading->next = i + 1;
    char has[96], wants[96];
    const struct rt_shape *there = &tensors->entries[i].shape;
    const bool turned = shape->rank == 2 && there->rank == 2 && there->dim[0] == shape->dim[1] &&
                        there->dim[1] == shape->dim[0];
    if (!rt_shape_equal(there, shape))
        return rt_fail(err, RT_BAD_INPUT, "tensor '%s' has the shape %s, but the model needs %s%s", name,
                       rt_shape_text(there, has), rt_shape_text(shape, wants),
                       turned ? "; PyTorch keeps a Linear's weight so, and docs/outputs.md has the conversion"
                              : "");
    if (reading->order)
        reading->order[reading->count] = i;
    reading->count++;
    return RT_OK;
}

/* Whether the file holds the tensors of the model, and no others. Takes no memory. */
static rt_status modelfile_check_tensors(const char *path, const struct rt_tensors *tensors,
                                         const struct rt_model *model, struct rt_error *err) {
    struct reading reading = {.tensors = tensors};
    rt_status status = rt_model_visit(model, modelfile_check_tensor, &reading, err);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s does not fit the model", path);
    size_t count = 0;
    uint64_t floats = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        if (modelfile_is_parameter(&tensors->entries[i])) {
            count++;
            floats += tensors->entries[i].bytes / sizeof(float);
        }
    }
    if (reading.count != count)
        return rt_fail(err, RT_BAD_INPUT, "%s does not fit the model: it has %s, the model %zu", path,
                       RT_COUNTED(count, "tensor"), reading.count);
    if (floats != (uint64_t)model->param_count + model->buffer_count)
        return rt_fail(err, RT_BAD_INPUT, "%s does not fit the model: it has %s", path,
                       RT_COUNTED(floats, "number"));
    return RT_OK;
}

static rt_status modelfile_read_floats(void *user, size_t tensor, size_t count, float *out,
                                       struct rt_error *err) {
    (void)tensor;
    struct reading *reading = user;
    while (count > 0) {
        if (reading->at == reading->count)
            return rt_fail(err, RT_FAILED, "%s: it has fewer values than the model", reading->tensors->name);
        const struct rt_tensor_entry *entry = &reading->tensors->entries[reading->order[reading->at]];
        const size_t left = (size_t)(entry->bytes / sizeof(float)) - reading->done,
                     part = count < left ? count : left;
        const uint8_t *bytes = reading->tensors->data + entry->offset + reading->done * sizeof(float);
        for (size_t i = 0; i < part; i++) {
            uint32_t bits = rt_get_le32(bytes + 4 * i);
            memcpy(&out[i], &bits, sizeof bits);
        }
        if (!rt_block_is_finite(out, part))
            return rt_fail(err, RT_BAD_INPUT, "%s: tensor '%s' holds a number that is not finite",
                           reading->tensors->name, entry->name);
        out += part;
        count -= part;
        reading->done += part;
        if (part == left) {
            reading->at++;
            reading->done = 0;
        }
    }
    return RT_OK;
}

/* The hashes that a file carries, against the values that are in it. */
static rt_status modelfile_check_hash(const char *path, struct reading *reading, const struct rt_model *model,
                                      struct rt_error *err) {
    const char *said = rt_tensors_meta(reading->tensors, RT_KEY_PARAMS_HASH),
               *said_buffers = rt_tensors_meta(reading->tensors, RT_KEY_BUFFERS_HASH);
    struct rt_params_hash hash;
    const bool any = said || said_buffers;
    rt_status status = any ? rt_params_hash_open(model, &hash, err) : RT_OK;
    if (status != RT_OK || !any)
        return status;
    float floats[1024];
    char hex[65], buffers[65];
    for (size_t left = model->param_count + model->buffer_count; status == RT_OK && left > 0;) {
        size_t part = left < 1024 ? left : 1024;
        status = modelfile_read_floats(reading, 0, part, floats, err);
        if (status == RT_OK)
            rt_params_hash_add(&hash, part, floats);
        left -= part;
    }
    rt_params_hash_finish(&hash, hex, buffers);
    rt_params_hash_close(&hash);
    reading->at = reading->done = 0;
    const bool params_differ = said && strcmp(said, hex) != 0;
    if (status == RT_OK && (params_differ || (said_buffers && strcmp(said_buffers, buffers) != 0)))
        return rt_fail(err, RT_BAD_INPUT, "%s: the %s do not match the hash in the file: it has been altered",
                       path, params_differ ? "parameters" : "buffers");
    return status;
}

/* After check_tensors. */
static rt_status modelfile_load_params(const char *path, const struct rt_tensors *tensors,
                                       const struct rt_model_state *model_state, uint64_t version,
                                       struct rt_error *err) {
    struct reading reading = {.tensors = tensors};
    rt_status status =
        rt_alloc(tensors->count, sizeof *reading.order, "the tensors of a file", &reading.order, err);
    if (status == RT_OK)
        status = rt_model_visit(model_state->model, modelfile_check_tensor, &reading, err);
    if (status == RT_OK)
        status = modelfile_check_hash(path, &reading, model_state->model, err);
    if (status == RT_OK)
        status = model_state->load(model_state->self, 1, version, modelfile_read_floats, &reading, err);
    free(reading.order);
    return status;
}

static uint64_t modelfile_read_update(const struct rt_tensors *tensors) {
    const char *text = rt_tensors_meta(tensors, RT_KEY_UPDATE);
    int64_t update;
    return text && rt_parse_int(text, &update) && update > 0 ? (uint64_t)update : 0;
}

rt_status rt_modelfile_load(const char *path, const struct rt_model_state *model_state, uint64_t version,
                            uint64_t *update, struct rt_error *err) {
    struct rt_tensors tensors;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    bool sealed;
    status = rt_description_check(&tensors, path, &sealed, err);
    if (status == RT_OK)
        status = modelfile_check_tensors(path, &tensors, model_state->model, err);
    if (status == RT_OK)
        status = rt_checkpoint_verify(path, &tensors, err);
    if (status == RT_OK)
        status = modelfile_load_params(path, &tensors, model_state, version, err);
    if (status == RT_OK && update)
        *update = modelfile_read_update(&tensors);
    rt_tensors_close(&tensors);
    return status;
}

/* The name of the first dense layer's weight that is square; false: there is none. */
static bool modelfile_find_square(const struct rt_model *model, const char *before, char name[64]) {
    for (size_t i = 0; i < model->count; i++) {
        const struct rt_layer *layer = model->layers[i];
        char own[64];
        snprintf(own, sizeof own, "%.30s%zu.", before, i);
        if (layer->body && modelfile_find_square(layer->body, own, name))
            return true;
        if (layer->type == &rt_layer_dense && rt_shape_equal(&layer->in, &layer->out)) {
            snprintf(name, 64, "%.50sweight", own);
            return true;
        }
    }
    return false;
}

rt_status rt_modelfile_doubt(const char *path, const struct rt_model *model, char name[64],
                             struct rt_error *err) {
    struct rt_tensors tensors;
    name[0] = 0;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    if (!rt_tensors_meta(&tensors, RT_KEY_PARAMS_HASH) && !rt_tensors_meta(&tensors, "state"))
        modelfile_find_square(model, "", name);
    rt_tensors_close(&tensors);
    return RT_OK;
}

rt_status rt_modelfile_params(const char *path, struct rt_network *network, uint64_t *update,
                              struct rt_error *err) {
    struct rt_local_state local = {.network = network};
    const struct rt_model_state model_state = rt_model_state_local(&local);
    return rt_modelfile_load(path, &model_state, 0, update, err);
}

static rt_status modelfile_read_names(const char *path, const struct rt_tensors *tensors, const char *key,
                                      struct rt_names *names, struct rt_error *err) {
    const char *text = rt_tensors_meta(tensors, key);
    return text ? rt_names_parse(text, path, key, names, err) : RT_OK;
}

/* The network, from the description in the metadata; its trees are needed only while it is built. */
static rt_status modelfile_read_network(const char *path, const struct rt_tensors *tensors,
                                        const struct rt_computing *computing, struct rt_trained *trained,
                                        struct rt_error *err) {
    const char *description = rt_tensors_meta(tensors, RT_KEY_MODEL),
               *loss = rt_tensors_meta(tensors, RT_KEY_LOSS);
    if (!description || !loss)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: its metadata has no `%s`; it is not a model that ringtmp train has saved", path,
                       description ? RT_KEY_LOSS : RT_KEY_MODEL);
    if (!rt_loss_find(loss))
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: its metadata names the loss '%.60s', which is none that is known", path, loss);
    trained->description = strdup(description);
    if (!trained->description)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", path);
    struct rt_tree *tree;
    rt_status status = rt_yaml_parse(description, strlen(description), path, &tree, err);
    if (status != RT_OK)
        return status;
    status = rt_network_describe(rt_tree_get(tree, "input"), rt_tree_get(tree, "layers"), loss, computing,
                                 &trained->network, err);
    rt_tree_destroy(tree);
    return status;
}

static rt_status modelfile_read_here(const char *path, const struct rt_tensors *tensors,
                                     struct rt_network *network, struct rt_error *err) {
    struct rt_local_state local = {.network = network};
    const struct rt_model_state model_state = rt_model_state_local(&local);
    return modelfile_load_params(path, tensors, &model_state, 0, err);
}

/* All but the state. */
static rt_status describe(const struct rt_tensors *tensors, const char *path,
                          const struct rt_computing *computing, struct rt_trained *trained,
                          struct rt_error *err) {
    bool sealed;
    rt_status status = rt_description_check(tensors, path, &sealed, err);
    if (status == RT_OK)
        status = modelfile_read_network(path, tensors, computing, trained, err);
    const struct rt_network *network = &trained->network;
    if (status == RT_OK)
        status = modelfile_check_tensors(path, tensors, network->model, err);
    if (status == RT_OK)
        status = modelfile_read_names(path, tensors, RT_KEY_CLASSES, &trained->names, err);
    if (status == RT_OK)
        status = modelfile_read_names(path, tensors, RT_KEY_COLUMNS, &trained->columns, err);
    const char *scaling = rt_tensors_meta(tensors, RT_KEY_SCALING);
    if (status == RT_OK && scaling)
        status = rt_scaling_read(scaling, path, network->inputs, &trained->scaling, err);
    if (status == RT_OK && network->loss->classes && trained->names.count > rt_network_classes(network))
        status = rt_fail(err, RT_BAD_INPUT, "%s: has names for %s, but the model tells %zu apart", path,
                         RT_COUNTED(trained->names.count, "class"), rt_network_classes(network));
    if (status == RT_OK && trained->columns.count && trained->columns.count != network->inputs)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has names for %s, but the model has %s", path,
                         RT_COUNTED(trained->columns.count, "column"), RT_COUNTED(network->inputs, "input"));
    trained->update = modelfile_read_update(tensors);
    trained->unsealed = status == RT_OK && !sealed;
    return status;
}

rt_status rt_modelfile_build(const struct rt_tensors *tensors, const char *path,
                             const struct rt_computing *computing, struct rt_trained *trained,
                             struct rt_error *err) {
    struct rt_trained made = {.scaling = {.scale = 1}};
    rt_status status = describe(tensors, path, computing, &made, err);
    if (status == RT_OK)
        status = rt_network_allocate(&made.network, err);
    if (status == RT_OK)
        status = modelfile_read_here(path, tensors, &made.network, err);
    if (status != RT_OK) {
        rt_trained_deinit(&made);
        return status;
    }
    *trained = made;
    return RT_OK;
}

rt_status rt_modelfile_describe(const char *path, const struct rt_computing *computing,
                                struct rt_trained *trained, struct rt_error *err) {
    struct rt_tensors tensors;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    struct rt_trained made = {.scaling = {.scale = 1}};
    status = describe(&tensors, path, computing, &made, err);
    rt_tensors_close(&tensors);
    if (status != RT_OK)
        rt_trained_deinit(&made);
    else
        *trained = made;
    return status;
}

rt_status rt_modelfile_read(const char *path, const struct rt_computing *computing,
                            struct rt_trained *trained, struct rt_error *err) {
    struct rt_tensors tensors;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    status = rt_modelfile_build(&tensors, path, computing, trained, err);
    rt_tensors_close(&tensors);
    return status;
}
