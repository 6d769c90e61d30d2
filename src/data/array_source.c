/* IDX and NPY as sources: a file with the inputs, and a file with the labels. */
#include "base/sentence.h"
#include "data/array.h"
#include "data/labels.h"
#include "data/source.h"
#include <stdlib.h>
#include <string.h>

struct array_settings {
    const char *inputs, *labels;
    const struct rt_tree *names;
};

static const struct rt_option array_options[] = {
    {"inputs", RT_OPTION_TEXT, offsetof(struct array_settings, inputs), .help = "the file with the examples"},
    {"labels", RT_OPTION_TEXT, offsetof(struct array_settings, labels),
     .help = "the file with their labels or target values"},
    {"names", RT_OPTION_TREE, offsetof(struct array_settings, names),
     .help = "the names of the classes, in their order"},
};

/* The options as a map, or in short form as a list: [inputs] or [inputs, labels]. */
static rt_status array_source_settings(const struct rt_tree *tree, const char *format,
                                       struct array_settings *settings, struct rt_error *err) {
    *settings = (struct array_settings){0};
    if (tree->kind != RT_TREE_LIST) {
        rt_status status = rt_options_read(array_options, sizeof array_options / sizeof *array_options,
                                           "inputs", tree, format, settings, err);
        if (status == RT_OK && !settings->inputs)
            status = rt_tree_fail(tree, err, "%s: the file with the inputs must be given", format);
        return status;
    }
    for (size_t i = 0; i < tree->count; i++)
        if (tree->items[i]->kind != RT_TREE_SCALAR)
            return rt_tree_fail(tree->items[i], err, "%s: a file name belongs here", format);
    if (tree->count < 1 || tree->count > 2)
        return rt_tree_fail(tree, err,
                            "%s: takes the file with the inputs and the file with the labels, not %s", format,
                            RT_COUNTED(tree->count, "file"));
    settings->inputs = tree->items[0]->text;
    settings->labels = tree->count == 2 ? tree->items[1]->text : NULL;
    return RT_OK;
}

static rt_status array_source_read_file(const char *path, rt_head_read read_head,
                                        const struct rt_data_wish *wish, bool is_inputs,
                                        struct rt_data_store *store, struct rt_array *array,
                                        struct rt_error *err) {
    struct rt_input input;
    rt_status status = rt_input_open(path, &input, err);
    if (status != RT_OK)
        return status;
    status = rt_array_read(&input, read_head, wish, is_inputs, store, array, err);
    rt_input_close(&input);
    return status;
}

static rt_status array_source_open(const struct rt_source *source, const char *format, rt_head_read read_head,
                                   struct rt_dataset *set, struct rt_error *err) {
    const struct rt_data_wish *wish = source->wish;
    struct array_settings settings = {.inputs = source->path};
    char *path = NULL;
    struct rt_array array;
    rt_status status = source->tree ? array_source_settings(source->tree, format, &settings, err) : RT_OK;
    if (status == RT_OK)
        status = rt_names_read(settings.names, wish, set, err);
    if (status == RT_OK)
        status = rt_source_path(source, source->tree, settings.inputs, &path, err);
    if (status == RT_OK)
        status = rt_dataset_name(set, path, err);
    if (status == RT_OK)
        status = array_source_read_file(path, read_head, wish, true, set->store, &array, err);
    free(path);
    if (status != RT_OK)
        return status;
    set->type = array.type;
    set->count = array.count;
    set->shape = array.shape;
    set->inputs = array.data;
    set->mapped = array.mapped;
    if (!source->tree || wish->target == RT_TARGET_INPUT)
        return RT_OK;
    if (!settings.labels)
        return wish->labels_optional
                   ? RT_OK
                   : rt_tree_fail(source->tree, err, "%s: a file with labels is needed: [inputs, labels]",
                                  format);
    status = rt_source_path(source, source->tree, settings.labels, &path, err);
    if (status != RT_OK)
        return status;
    status = array_source_read_file(path, read_head, wish, false, set->store, &array, err);
    if (status == RT_OK)
        status = rt_labels_read(&array, path, wish, set, err);
    free(path);
    return status;
}

static bool idx_matches(const uint8_t *head, size_t bytes) {
    return bytes >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 0x08 && head[2] <= 0x0e;
}

static rt_status idx_open(const struct rt_source *source, struct rt_dataset *set, struct rt_error *err) {
    return array_source_open(source, "idx", rt_idx_head, set, err);
}

static bool npy_matches(const uint8_t *head, size_t bytes) {
    return bytes >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static rt_status npy_open(const struct rt_source *source, struct rt_dataset *set, struct rt_error *err) {
    return array_source_open(source, "npy", rt_npy_head, set, err);
}

const struct rt_data_format rt_format_idx = {"idx", idx_matches, idx_open};
const struct rt_data_format rt_format_npy = {"npy", npy_matches, npy_open};
