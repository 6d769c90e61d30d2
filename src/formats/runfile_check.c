/* Checks of the run file beyond the range of a single key. */
#include "formats/runfile_inside.h"

const struct rt_tree *rt_spec_place(const struct rt_tree *root, const char *section, const char *key) {
    const struct rt_tree *map = rt_tree_get(root, section);
    const struct rt_tree *value = rt_tree_get(map, key);
    return value ? value : map ? map : root;
}

rt_status rt_spec_data_check(const struct rt_tree *section, const struct rt_spec_data *data,
                             struct rt_error *err) {
    if (data->scale == 0)
        return rt_tree_fail(rt_tree_get(section, "scale"), err, "data: scale must not be 0");
    if (data->split >= 1)
        return rt_tree_fail(rt_tree_get(section, "split"), err, "data: split must be below 1");
    if (data->hold_out >= 1)
        return rt_tree_fail(rt_tree_get(section, "hold_out"), err, "data: hold_out must be below 1");
    return RT_OK;
}

rt_status rt_spec_check_values(const struct rt_spec *spec, struct rt_error *err) {
    const struct rt_tree *root = spec->tree;
    const struct rt_spec_train *train = &spec->train;
    RT_TRY(rt_spec_data_check(rt_tree_get(root, "data"), &spec->data, err));
    if (train->shards & (train->shards - 1))
        return rt_tree_fail(rt_spec_place(root, "train", "shards"), err,
                            "train: shards must be a power of two, not %lld", (long long)train->shards);
    if (train->shards > train->batch)
        return rt_tree_fail(rt_spec_place(root, "train", "shards"), err,
                            "train: shards must not exceed batch, but %lld is more than %lld",
                            (long long)train->shards, (long long)train->batch);
    return RT_OK;
}

bool rt_spec_is_absent(const struct rt_tree *tree) {
    return !tree || (tree->kind == RT_TREE_SCALAR && !*tree->text);
}

static rt_status runfile_check_required(const struct rt_spec *spec, struct rt_error *err) {
    static const char *const required[][2] = {
        {"model", "input"}, {"model", "layers"}, {"model", "loss"}, {"data", "train"}};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        const char *section = required[i][0], *key = required[i][1];
        const struct rt_tree *map = rt_tree_get(spec->tree, section);
        if (rt_spec_is_absent(rt_tree_get(map, key)))
            return rt_tree_fail(map ? map : spec->tree, err, "%s.%s is missing and must be given", section,
                                key);
    }
    return RT_OK;
}

rt_status rt_spec_check(const struct rt_spec *spec, struct rt_error *err) {
    RT_TRY(rt_spec_check_values(spec, err));
    return runfile_check_required(spec, err);
}
