/* The part of the run file's data section that is sent to nodes, written and read. */
#include "job/job.h"

#include "data/stream.h"
#include <string.h>

/* Each node decides these itself: a master does not send them and a node refuses them. */
static bool job_data_is_local(const char *key) {
    static const char *const own[] = {"cache_dir", "cache_above", "test", "validation"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], key) == 0)
            return true;
    return false;
}

/* The training data are what remains when the other sets are split off; if those have sources of their own,
 * the option has no effect. */
static bool job_data_has_no_effect(const struct rt_spec_data *data, const char *key) {
    return (data->test && strcmp(key, "split") == 0) || (data->validation && strcmp(key, "hold_out") == 0);
}

static rt_status job_data_copy_options(const struct rt_spec *spec, struct rt_tree *options,
                                       struct rt_error *err) {
    const struct rt_tree *section = rt_tree_get(spec->tree, "data");
    for (size_t i = 0; section && i < section->count; i++) {
        const struct rt_tree *item = section->items[i];
        struct rt_tree *copy;
        if (job_data_is_local(item->key) || job_data_has_no_effect(&spec->data, item->key))
            continue;
        RT_TRY(rt_tree_copy(item, &copy, err));
        const rt_status status = rt_tree_add(options, item->key, copy, err);
        if (status != RT_OK) {
            rt_tree_destroy(copy);
            return status;
        }
    }
    return RT_OK;
}

rt_status rt_job_data_options(const struct rt_spec *spec, struct rt_tree **options, struct rt_error *err) {
    struct rt_tree *made;
    RT_TRY(rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err));
    RT_FINISH_CREATE(job_data_copy_options(spec, made, err), made, rt_tree_destroy, options);
}

rt_status rt_job_data_read(const struct rt_tree *options, struct rt_spec_data *set, struct rt_error *err) {
    for (size_t i = 0; options->kind == RT_TREE_MAP && i < options->count; i++)
        if (job_data_is_local(options->items[i]->key))
            return rt_fail(err, RT_BAD_INPUT, "the job sets data.%s, which a node decides for itself",
                           options->items[i]->key);
    RT_TRY(rt_spec_data_read(options, set, err));
    if (rt_stream_named(set->train))
        return rt_fail(err, RT_BAD_INPUT, "an exchange does not learn from a stream");
    return RT_OK;
}
