/* Opening data: the registry of formats, and what is common to all of them. */
#include "data/source.h"

#include "base/memory.h"
#include "data/input.h"
#include "data/store.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last one takes what the others do not match. */
static const struct rt_data_format *const formats[] = {&rt_format_idx, &rt_format_npy, &rt_format_csv, NULL};

/* Whether an error of access() means that the file does not exist, and not that it cannot be reached. */
static bool source_is_absent(int error) {
    return error == ENOENT || error == ENOTDIR;
}

/* Whether a part of the path is "..". */
static bool source_leads_upwards(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == 0))
            return true;
    }
    return false;
}

/* The reader of this message may not know in which directory the node was started. */
static rt_status source_fail_absent(const struct rt_tree *where, const char *directory, const char *name,
                                    struct rt_error *err) {
    return rt_tree_fail(where, err,
                        "the file '%.200s' is not in %.200s, the directory for data, which `ringtmp node "
                        "--data DIR` sets; with data.send: true the master sends the examples instead",
                        name, directory);
}

/* Opens names only below `directory`: for names that came from another machine. */
static rt_status source_path_within(const char *directory, const struct rt_tree *where, const char *name,
                                    char **path, struct rt_error *err) {
    const size_t length = strlen(directory), room = length + strlen(name) + 2;
    const bool absolute = name[0] == '/', inside = strncmp(name, directory, length) == 0 &&
                                                   (name[length] == '/' || directory[length - 1] == '/');
    if (source_leads_upwards(name) || (absolute && !inside))
        return source_fail_absent(where, directory, name, err);
    char *found;
    rt_status status = rt_alloc(room, 1, "a file name", &found, err);
    if (status != RT_OK)
        return status;
    snprintf(found, room, "%s%s%s", absolute ? "" : directory, absolute ? "" : "/", name);
    if (access(found, F_OK) != 0) {
        status = source_is_absent(errno) ? source_fail_absent(where, directory, name, err)
                                         : rt_tree_fail(where, err, "%.300s: %s", found, strerror(errno));
        free(found);
        return status;
    }
    *path = found;
    return RT_OK;
}

rt_status rt_source_path(const struct rt_source *source, const struct rt_tree *where, const char *name,
                         char **path, struct rt_error *err) {
    if (!*name)
        return rt_tree_fail(where, err, "a file name is missing");
    if (source->wish && source->wish->within)
        return source_path_within(source->wish->within, where, name, path, err);
    size_t room = strlen(name) + (source->base_dir ? strlen(source->base_dir) : 0) + 2;
    char *found;
    rt_status status = rt_alloc(room, 1, "a file name", &found, err);
    if (status != RT_OK)
        return status;
    snprintf(found, room, "%s", name);
    bool beside =
        source->base_dir && *source->base_dir && strcmp(source->base_dir, ".") != 0 && name[0] != '/';
    bool there = access(found, F_OK) == 0;
    if (!there && beside && source_is_absent(errno)) {
        snprintf(found, room, "%s/%s", source->base_dir, name);
        there = access(found, F_OK) == 0;
    }
    if (!there) {
        status = !source_is_absent(errno) ? rt_tree_fail(where, err, "%s: %s", found, strerror(errno))
                 : beside ? rt_tree_fail(where, err, "there is no file '%s', neither here nor in %s", name,
                                         source->base_dir)
                          : rt_tree_fail(where, err, "there is no file '%s'", name);
        free(found);
        return status;
    }
    *path = found;
    return RT_OK;
}

rt_status rt_dataset_name(struct rt_dataset *set, const char *name, struct rt_error *err) {
    set->name = strdup(name);
    return set->name ? RT_OK : rt_fail(err, RT_NO_MEMORY, "not enough memory for a data set");
}

static rt_status source_open_format(const struct rt_data_format *format, const struct rt_source *source,
                                    struct rt_dataset *set, struct rt_error *err) {
    struct rt_dataset made = {0};
    rt_status status = rt_store_create(&made.store, err);
    if (status == RT_OK)
        status = format->open(source, &made, err);
    if (status == RT_OK && made.count > UINT32_MAX)
        status = rt_fail(err, RT_BAD_INPUT, "%s: has more examples than can be counted", made.name);
    if (status == RT_OK)
        *set = made;
    else
        rt_dataset_close(&made);
    return status;
}

rt_status rt_dataset_open(const struct rt_tree *source, const char *base_dir, const struct rt_data_wish *wish,
                          struct rt_dataset *set, struct rt_error *err) {
    const char *names[sizeof formats / sizeof *formats] = {0};
    for (size_t i = 0; formats[i]; i++)
        names[i] = formats[i]->name;
    if (!source || source->kind != RT_TREE_MAP || source->count != 1)
        return rt_tree_fail(source, err,
                            "a data source is one of idx, npy, csv, stream, like {csv: table.csv}");
    const struct rt_tree *value = source->items[0];
    for (size_t i = 0; formats[i]; i++)
        if (strcmp(value->key, formats[i]->name) == 0)
            return source_open_format(
                formats[i], &(struct rt_source){.tree = value, .base_dir = base_dir, .wish = wish}, set, err);
    const char *near = rt_nearest(value->key, names);
    return near ? rt_tree_fail(value, err, "unknown data format '%s'; did you mean '%s'?", value->key, near)
                : rt_tree_fail(value, err, "unknown data format '%s'; there are idx, npy, csv", value->key);
}

rt_status rt_dataset_open_file(const char *path, const struct rt_data_wish *wish, struct rt_dataset *set,
                               struct rt_error *err) {
    struct rt_input input;
    rt_status status = rt_input_open(path, &input, err);
    if (status != RT_OK)
        return status;
    uint8_t head[16];
    size_t got;
    status = rt_input_read(&input, head, sizeof head, &got, err);
    rt_input_close(&input);
    if (status != RT_OK)
        return status;
    const struct rt_source source = {.path = path, .wish = wish};
    for (size_t i = 0; formats[i]; i++)
        if (formats[i]->recognise(head, got))
            return source_open_format(formats[i], &source, set, err);
    return rt_fail(err, RT_BAD_INPUT, "%s: is neither IDX, NPY nor CSV", path);
}
