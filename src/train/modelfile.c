/* Writing and reading of model files. */
#include "train/modelfile.h"

#include "base/memory.h"
#include "formats/safetensors.h"
#include "formats/yaml.h"
#include "train/scaling.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_names_copy(const char *const *items, size_t count, struct rt_names *names,
                        struct rt_error *err) {
    struct rt_names made = {0};
    rt_status status = rt_alloc(count, sizeof *made.items, "the names of the classes", &made.items, err);
    for (size_t i = 0; status == RT_OK && i < count; i++, made.count++) {
        made.items[i] = strdup(items[i]);
        if (!made.items[i])
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory for the names of the classes");
    }
    if (status != RT_OK) {
        rt_names_deinit(&made);
        return status;
    }
    *names = made;
    return RT_OK;
}

void rt_names_deinit(struct rt_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct rt_names){0};
}

void rt_trained_deinit(struct rt_trained *trained) {
    rt_network_destroy(&trained->network);
    rt_scaling_deinit(&trained->scaling);
    rt_names_deinit(&trained->names);
    free(trained->description);
    *trained = (struct rt_trained){0};
}

/* ---- writing ---- */

struct write_walk {
    struct rt_tensors_out *out;
    const struct rt_blocks *blocks;
};

static rt_status declare_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                                bool is_buffer, struct rt_error *err) {
    (void)offset, (void)is_buffer;
    const struct write_walk *walk = user;
    return rt_tensors_out_declare(walk->out, name, shape, err);
}

static rt_status write_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                              bool is_buffer, struct rt_error *err) {
    (void)name;
    const struct write_walk *walk = user;
    const float *block = is_buffer ? walk->blocks->buffers : walk->blocks->params;
    return rt_tensors_out_write(walk->out, block + offset, rt_shape_size(shape), err);
}

static rt_status write_names(struct rt_tensors_out *out, const struct rt_names *names, struct rt_error *err) {
    if (names->count == 0)
        return RT_OK;
    json_t *list = json_array();
    bool ok = list;
    for (size_t i = 0; ok && i < names->count; i++)
        ok = json_array_append_new(list, json_string(names->items[i])) == 0;
    char *text = ok ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!text)
        return rt_fail(err, RT_BAD_INPUT, "a class has a name that is not UTF-8, or memory is short");
    rt_status status = rt_tensors_out_meta(out, "classes", text, err);
    free(text);
    return status;
}

static rt_status write_meta(struct rt_tensors_out *out, const struct rt_trained *trained,
                            struct rt_error *err) {
    char hash[65], update[24];
    char *scaling = NULL;
    snprintf(update, sizeof update, "%" PRIu64, trained->update);
    rt_status status = rt_network_hash(&trained->network, hash, err);
    if (status == RT_OK)
        status = rt_scaling_json(&trained->scaling, &scaling, err);
    const struct {
        const char *key, *value;
    } meta[] = {
        {"version", RT_VERSION}, {"model", trained->description}, {"loss", trained->network.loss->name},
        {"scaling", scaling},    {"params_sha256", hash},         {"update", update}};
    for (size_t i = 0; status == RT_OK && i < sizeof meta / sizeof *meta; i++)
        status = rt_tensors_out_meta(out, meta[i].key, meta[i].value, err);
    free(scaling);
    return status == RT_OK ? write_names(out, &trained->names, err) : status;
}

rt_status rt_modelfile_write(const char *path, const struct rt_trained *trained, struct rt_error *err) {
    struct write_walk walk = {.blocks = &trained->network.blocks};
    rt_status status = rt_tensors_out_create(path, &walk.out, err);
    if (status != RT_OK)
        return status;
    status = write_meta(walk.out, trained, err);
    if (status == RT_OK)
        status = rt_model_visit(trained->network.model, declare_tensor, &walk, err);
    if (status == RT_OK)
        status = rt_model_visit(trained->network.model, write_tensor, &walk, err);
    if (status != RT_OK) {
        rt_tensors_out_abandon(walk.out);
        return status;
    }
    return rt_tensors_out_commit(walk.out, err);
}

/* ---- reading ---- */

struct read_walk {
    const struct rt_tensors *tensors;
    struct rt_blocks *blocks;
    size_t count;
};

/* A checkpoint has the state of the optimizer beside the parameters, under names that no layer gives. */
static bool is_parameter(const struct rt_tensor_entry *entry) {
    return strncmp(entry->name, "optimizer.", strlen("optimizer.")) != 0;
}

static rt_status check_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                              bool is_buffer, struct rt_error *err) {
    (void)offset, (void)is_buffer;
    struct read_walk *walk = user;
    const struct rt_tensors *tensors = walk->tensors;
    walk->count++;
    size_t i = 0;
    while (i < tensors->count && strcmp(tensors->entries[i].name, name) != 0)
        i++;
    if (i == tensors->count)
        return rt_fail(err, RT_BAD_INPUT, "it has no tensor '%s'", name);
    char has[96], wants[96];
    if (!rt_shape_equal(&tensors->entries[i].shape, shape))
        return rt_fail(err, RT_BAD_INPUT, "tensor '%s' has the shape %s, but the model needs %s", name,
                       rt_shape_text(&tensors->entries[i].shape, has), rt_shape_text(shape, wants));
    return RT_OK;
}

/* Whether the file holds the tensors of the model, and no others. Takes no memory. */
static rt_status check_tensors(const char *path, const struct rt_tensors *tensors,
                               const struct rt_model *model, struct rt_error *err) {
    struct read_walk walk = {.tensors = tensors};
    rt_status status = rt_model_visit(model, check_tensor, &walk, err);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%s does not fit the model", path);
    size_t count = 0;
    uint64_t floats = 0;
    for (size_t i = 0; i < tensors->count; i++) {
        if (is_parameter(&tensors->entries[i])) {
            count++;
            floats += tensors->entries[i].bytes / sizeof(float);
        }
    }
    if (walk.count != count)
        return rt_fail(err, RT_BAD_INPUT, "%s does not fit the model: it has %zu tensors, the model %zu",
                       path, count, walk.count);
    if (floats != (uint64_t)model->param_count + model->buffer_count)
        return rt_fail(err, RT_BAD_INPUT, "%s does not fit the model: it has %" PRIu64 " numbers", path,
                       floats);
    return RT_OK;
}

static rt_status read_tensor(void *user, const char *name, const struct rt_shape *shape, size_t offset,
                             bool is_buffer, struct rt_error *err) {
    struct read_walk *walk = user;
    return rt_tensors_read(walk->tensors, name, shape,
                           (is_buffer ? walk->blocks->buffers : walk->blocks->params) + offset, err);
}

/* After check_tensors. */
static rt_status read_params(const char *path, const struct rt_tensors *tensors, struct rt_network *network,
                             struct rt_error *err) {
    struct read_walk walk = {.tensors = tensors, .blocks = &network->blocks};
    rt_status status = rt_model_visit(network->model, read_tensor, &walk, err);
    network->blocks.prepared_valid = false;
    if (status != RT_OK)
        return status;
    const char *said = rt_tensors_meta(tensors, "params_sha256");
    char hash[65];
    status = said ? rt_network_hash(network, hash, err) : RT_OK;
    if (status == RT_OK && said && strcmp(said, hash) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: the parameters do not match the hash in the file: it has been altered", path);
    return status;
}

static uint64_t read_update(const struct rt_tensors *tensors) {
    const char *text = rt_tensors_meta(tensors, "update");
    int64_t update;
    return text && rt_parse_int(text, &update) && update > 0 ? (uint64_t)update : 0;
}

rt_status rt_modelfile_params(const char *path, struct rt_network *network, uint64_t *update,
                              struct rt_error *err) {
    struct rt_tensors tensors;
    rt_status status = rt_tensors_open(path, &tensors, err);
    if (status != RT_OK)
        return status;
    status = check_tensors(path, &tensors, network->model, err);
    if (status == RT_OK)
        status = read_params(path, &tensors, network, err);
    if (status == RT_OK && update)
        *update = read_update(&tensors);
    rt_tensors_close(&tensors);
    return status;
}

static rt_status read_names(const char *path, const struct rt_tensors *tensors, struct rt_names *names,
                            struct rt_error *err) {
    const char *text = rt_tensors_meta(tensors, "classes");
    if (!text)
        return RT_OK;
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    const char **items = NULL;
    rt_status status = rt_alloc(count, sizeof *items, "the names of the classes", &items, err);
    for (size_t i = 0; status == RT_OK && i < count; i++) {
        items[i] = json_string_value(json_array_get(list, i));
        if (!items[i])
            count = 0;
    }
    if (status == RT_OK && count == 0)
        status = rt_fail(err, RT_BAD_INPUT, "%s: `classes` in its metadata is not a list of names", path);
    if (status == RT_OK)
        status = rt_names_copy(items, count, names, err);
    free(items);
    json_decref(list);
    return status;
}

/* The network, from the description in the metadata; its trees are needed only while it is built. */
static rt_status read_network(const char *path, const struct rt_tensors *tensors,
                              const struct rt_computing *computing, struct rt_trained *trained,
                              struct rt_error *err) {
    const char *description = rt_tensors_meta(tensors, "model"), *loss = rt_tensors_meta(tensors, "loss");
    if (!description || !loss)
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: its metadata has no `%s`; it is not a model that ringtmp train has saved", path,
                       description ? "loss" : "model");
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

rt_status rt_modelfile_build(const struct rt_tensors *tensors, const char *path,
                             const struct rt_computing *computing, struct rt_trained *trained,
                             struct rt_error *err) {
    struct rt_trained made = {.scaling = {.scale = 1}};
    rt_status status = read_network(path, tensors, computing, &made, err);
    if (status == RT_OK)
        status = check_tensors(path, tensors, made.network.model, err);
    if (status == RT_OK)
        status = rt_network_allocate(&made.network, err);
    if (status == RT_OK)
        status = read_params(path, tensors, &made.network, err);
    if (status == RT_OK)
        status = read_names(path, tensors, &made.names, err);
    const char *scaling = rt_tensors_meta(tensors, "scaling");
    if (status == RT_OK && scaling)
        status = rt_scaling_read(scaling, path, made.network.inputs, &made.scaling, err);
    if (status == RT_OK && made.names.count && made.names.count > rt_network_classes(&made.network))
        status = rt_fail(err, RT_BAD_INPUT, "%s: has names for %zu classes, but the model tells %zu apart",
                         path, made.names.count, rt_network_classes(&made.network));
    made.update = read_update(tensors);
    if (status != RT_OK) {
        rt_trained_deinit(&made);
        return status;
    }
    *trained = made;
    return RT_OK;
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
