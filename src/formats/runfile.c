/* Reading the run file: from text, or a tree, and settings to a spec. */
#include "formats/runfile_inside.h"

#include "base/utf8.h"
#include "formats/yaml.h"
#include "optim/optim.h"
#include <stdlib.h>
#include <string.h>

rt_status rt_spec_data_read(const struct rt_tree *tree, struct rt_spec_data *data, struct rt_error *err) {
    const struct rt_spec_table *table = &rt_spec_tables[RT_SPEC_DATA];
    RT_TRY(rt_options_read(table->options, table->count, NULL, tree, table->name, data, err));
    RT_TRY(rt_spec_data_check(tree, data, err));
    return rt_spec_is_absent(data->train) ? rt_tree_fail(tree, err, "data.train is missing and must be given")
                                          : RT_OK;
}

/* Sizes as `ringtmp node --memory` takes them. */
static rt_status runfile_read_memory(const struct rt_tree *root, struct rt_spec_cluster *cluster,
                                     struct rt_error *err) {
    const uint64_t mib = UINT64_C(1) << 20, most = UINT64_C(1) << 50;
    uint64_t bytes = 0;
    const char *wish = !rt_parse_size(cluster->memory_text, mib, &bytes)
                           ? "a size such as 512M or 2G, where a number alone is MiB"
                       : bytes > most ? "at most 1024T; a number alone is MiB"
                       : bytes % mib  ? "whole MiB, as 512M"
                                      : NULL;
    if (wish)
        return rt_tree_fail(rt_spec_place(root, "cluster", "memory"), err,
                            "cluster: memory must be %s, not '%s'", wish, cluster->memory_text);
    cluster->memory = (int64_t)(bytes / mib);
    return RT_OK;
}

/* For an unknown key of train that is an option of an optimizer, as in other programs: {lr: 0.1}. */
static rt_status runfile_point_to_optimizer(const struct rt_tree *train, rt_status status,
                                            struct rt_error *err) {
    const struct rt_spec_table *table = &rt_spec_tables[RT_SPEC_TRAIN];
    for (size_t i = 0; train && train->kind == RT_TREE_MAP && i < train->count; i++) {
        const char *key = train->items[i]->key;
        bool known = false;
        for (size_t j = 0; j < table->count; j++)
            known |= strcmp(table->options[j].name, key) == 0;
        const char *option = strcmp(key, "learning_rate") == 0 ? "lr" : key;
        const struct rt_optim_type *type = known ? NULL : rt_optim_type_with(option);
        if (type)
            return rt_fail_more(err, status, "; %s is an option of the optimizer: optimizer: {%s: {%s: ...}}",
                                option, type->name, option);
    }
    return status;
}

static rt_status runfile_read_sections(struct rt_spec *spec, const char **name, struct rt_error *err) {
    struct rt_spec_top top;
    void *const into[RT_SPEC_SECTIONS] = {[RT_SPEC_MODEL] = &spec->model,
                                          [RT_SPEC_DATA] = &spec->data,
                                          [RT_SPEC_TRAIN] = &spec->train,
                                          [RT_SPEC_CLUSTER] = &spec->cluster};
    RT_TRY(rt_options_read(rt_spec_top_table.options, rt_spec_top_table.count, NULL, spec->tree,
                           rt_spec_top_table.name, &top, err));
    for (size_t i = 0; i < RT_SPEC_SECTIONS; i++) {
        const struct rt_spec_table *table = &rt_spec_tables[i];
        const rt_status status =
            rt_options_read(table->options, table->count, NULL, top.section[i], table->name, into[i], err);
        if (status != RT_OK)
            return i == RT_SPEC_TRAIN ? runfile_point_to_optimizer(top.section[i], status, err) : status;
    }
    RT_TRY(runfile_read_memory(spec->tree, &spec->cluster, err));
    *name = top.name;
    if (top.out && *top.out)
        spec->out = top.out;
    return RT_OK;
}

/* The directory of a path, and its base name without the extension, or the name given in the file. */
static rt_status runfile_name(struct rt_spec *spec, const char *given, struct rt_error *err) {
    const char *slash = strrchr(spec->file, '/');
    const char *base = slash ? slash + 1 : spec->file;
    const char *dot = strrchr(base, '.');
    if (given && (!*given || strchr(given, '/')))
        return rt_tree_fail(rt_tree_get(spec->tree, "name"), err, "name must be a word without '/', not '%s'",
                            given);
    if (given && !rt_utf8_plain(given))
        return rt_tree_fail(rt_tree_get(spec->tree, "name"), err,
                            "name must be plain text, without control characters, not '%s'", given);
    spec->base_dir =
        slash ? strndup(spec->file, slash == spec->file ? 1 : (size_t)(slash - spec->file)) : strdup(".");
    spec->name = given                ? strdup(given)
                 : dot && dot != base ? strndup(base, (size_t)(dot - base))
                                      : strdup(base);
    if (!spec->name || !spec->base_dir)
        return rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", spec->file);
    /* Control characters of the file's name are replaced in the run's. */
    for (size_t at = 0, length; !given && spec->name[at]; at += length) {
        uint32_t code = 0;
        length = rt_utf8_decode(spec->name + at, &code);
        length += !length;
        if (rt_utf8_is_control(code))
            memset(spec->name + at, '_', length);
    }
    return RT_OK;
}

/* An empty spec with its file name; NULL when there is no memory. */
static struct rt_spec *runfile_begin(const char *file, struct rt_error *err) {
    struct rt_spec *spec = calloc(1, sizeof *spec);
    char *copy = strdup(file);
    if (!spec || !copy) {
        free(spec);
        free(copy);
        rt_fail(err, RT_NO_MEMORY, "%s: not enough memory to read it", file);
        return NULL;
    }
    spec->file = copy;
    return spec;
}

/* Renames keys that have old names. */
static rt_status runfile_rename_keys(struct rt_spec *spec, bool replace, struct rt_error *err) {
    for (size_t i = 0; i < RT_SPEC_SECTIONS; i++) {
        const struct rt_spec_table *table = &rt_spec_tables[i];
        const struct rt_option *renamed = NULL;
        RT_TRY(rt_options_rename(table->options, table->count, rt_tree_get(spec->tree, table->name), replace,
                                 &renamed, err));
        if (renamed)
            snprintf(spec->notice, sizeof spec->notice,
                     "%s.%s is now called %s.%s; the old name will be removed in the next version",
                     table->name, renamed->alias, table->name, renamed->name);
    }
    return RT_OK;
}

/* Fills in a spec whose tree has been read. Checks every key by itself. */
static rt_status runfile_complete(struct rt_spec *spec, const char *const *settings, size_t setting_count,
                                  struct rt_error *err) {
    const char *name = NULL;
    if (spec->tree->kind != RT_TREE_MAP)
        return rt_tree_fail(spec->tree, err, "a run file is a map with the keys model, data and train");
    RT_TRY(runfile_rename_keys(spec, false, err));
    for (size_t i = 0; i < setting_count; i++) {
        RT_TRY(rt_spec_apply_setting(spec->tree, settings[i], err));
        RT_TRY(runfile_rename_keys(spec, true, err));
    }
    RT_TRY(rt_spec_choose_devices(spec->tree, settings, setting_count, err));
    RT_TRY(runfile_read_sections(spec, &name, err));
    return runfile_name(spec, name, err);
}

rt_status rt_spec_draft(const struct rt_tree *tree, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = runfile_begin(name, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_tree_copy(tree, &made->tree, err);
    if (status == RT_OK)
        status = runfile_complete(made, settings, setting_count, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

rt_status rt_spec_parse(const char *text, size_t bytes, const char *name, const char *const *settings,
                        size_t setting_count, struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = runfile_begin(name, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_yaml_parse(text, bytes, made->file, &made->tree, err);
    if (status == RT_OK)
        status = runfile_complete(made, settings, setting_count, err);
    if (status == RT_OK)
        status = rt_spec_check_values(made, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

rt_status rt_spec_load(const char *path, const char *const *settings, size_t setting_count,
                       struct rt_spec **spec, struct rt_error *err) {
    struct rt_spec *made = runfile_begin(path, err);
    if (!made)
        return RT_NO_MEMORY;
    rt_status status = rt_yaml_load(made->file, &made->tree, err);
    if (status == RT_OK)
        status = runfile_complete(made, settings, setting_count, err);
    if (status == RT_OK)
        status = rt_spec_check(made, err);
    if (status != RT_OK)
        rt_spec_destroy(made);
    else
        *spec = made;
    return status;
}

void rt_spec_destroy(struct rt_spec *spec) {
    if (!spec)
        return;
    rt_tree_destroy(spec->tree);
    free(spec->file);
    free(spec->name);
    free(spec->base_dir);
    free(spec);
}

size_t rt_spec_addresses(const struct rt_spec *spec) {
    const struct rt_tree *node = spec->cluster.node;
    return !node ? 0 : node->kind == RT_TREE_LIST ? node->count : 1;
}

size_t rt_spec_wait_nodes(const struct rt_spec *spec) {
    const struct rt_spec_cluster *cluster = &spec->cluster;
    if (!cluster->listen)
        return 0;
    if (cluster->wait_nodes >= 0)
        return (size_t)cluster->wait_nodes;
    return cluster->nodes == 1 && rt_spec_addresses(spec) == 0; /* a run of several devices needs another */
}

size_t rt_spec_devices(const struct rt_spec *spec) {
    return (size_t)spec->cluster.nodes + rt_spec_addresses(spec) + rt_spec_wait_nodes(spec);
}
