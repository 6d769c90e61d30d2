/* What a run file says of a ring's work, as the tree that travels to the nodes; see job/job.h. */
#include "run/ring/job_tree.h"

#include "formats/yaml.h"
#include "run/strategy.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rt_status rt_job_put(struct rt_tree *job, const char *key, struct rt_error *err, const char *format, ...) {
    char text[4096];
    struct rt_tree *value;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        return rt_fail(err, RT_BAD_INPUT, "%s is too long to be sent to a node", key);
    rt_status status = rt_tree_create(RT_TREE_SCALAR, text, "the run", 0, &value, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_add(job, key, value, err);
    if (status != RT_OK)
        rt_tree_destroy(value);
    return status;
}

rt_status rt_job_put_real(struct rt_tree *job, const char *key, double value, struct rt_error *err) {
    char text[RT_REAL_ROOM];
    return rt_job_put(job, key, err, "%s", rt_real_text(value, text));
}

rt_status rt_job_put_tree(struct rt_tree *job, const char *key, const struct rt_tree *tree,
                          struct rt_error *err) {
    struct rt_tree *copy;
    if (!tree)
        return RT_OK;
    rt_status status = rt_tree_copy(tree, &copy, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_add(job, key, copy, err);
    if (status != RT_OK)
        rt_tree_destroy(copy);
    return status;
}

/* The run file's optimizer, else the one that the way between rings wants. */
static rt_status put_optimizer(struct rt_tree *job, const struct rt_training_config *config,
                               struct rt_error *err) {
    const struct rt_tree *given = config->spec->train.optimizer;
    const char *wanted = !given && config->exchange ? config->exchange->optimizer : NULL;
    struct rt_tree *tree = NULL;
    if (!wanted)
        return rt_job_put_tree(job, "optimizer", given, err);
    rt_status status = rt_yaml_value(wanted, "the strategy", &tree, err);
    if (status == RT_OK)
        status = rt_tree_add(job, "optimizer", tree, err);
    if (status != RT_OK)
        rt_tree_destroy(tree);
    return status;
}

static rt_status fill_job(const struct rt_training_config *config, struct rt_tree *job,
                          struct rt_error *err) {
    static const char *const math[] = {"exact", "fast", "reference"};
    const struct rt_spec *spec = config->spec;
    const struct rt_trainer_settings *settings = &config->settings;
    const struct rt_ring_options *options = config->options;
    rt_status status = rt_job_put_tree(job, "input", spec->model.input, err);
    if (status == RT_OK)
        status = rt_job_put_tree(job, "layers", spec->model.layers, err);
    if (status == RT_OK)
        status = put_optimizer(job, config, err);
    if (status == RT_OK)
        status = rt_job_put_tree(job, "lr_schedule", spec->train.schedule, err);
    if (status == RT_OK)
        status = rt_job_put(job, "loss", err, "%s", config->network->loss->name);
    if (status == RT_OK)
        status =
            rt_job_put(job, "mode", err, "%s", strcmp(config->strategy, "ring-flow") ? "ring" : "ring-flow");
    if (status == RT_OK)
        status = rt_job_put(job, "damp", err, "%" PRId64, options->damp);
    if (status == RT_OK)
        status = rt_job_put(job, "order", err, "%s", options->schedule ? "1f1b" : "split");
    if (status == RT_OK)
        status = rt_job_put(job, "seed", err, "%" PRIu64, settings->seed);
    if (status == RT_OK)
        status = rt_job_put(job, "batch", err, "%zu", settings->batch);
    if (status == RT_OK && settings->micro_batch)
        status = rt_job_put(job, "micro_batch", err, "%zu", settings->micro_batch);
    if (status == RT_OK)
        status = rt_job_put(job, "shards", err, "%zu", settings->shards);
    if (status == RT_OK)
        status = rt_job_put(job, "updates", err, "%" PRIu64, settings->updates);
    if (status == RT_OK)
        status = rt_job_put(job, "per_epoch", err, "%" PRIu64, config->per_epoch);
    if (status == RT_OK)
        status = rt_job_put_real(job, "clip_norm", settings->clip_norm, err);
    if (status == RT_OK && spec->train.weight_decay >= 0)
        status = rt_job_put_real(job, "weight_decay", spec->train.weight_decay, err);
    if (status == RT_OK)
        status = rt_job_put(job, "math", err, "%s", math[spec->train.math]);
    if (status == RT_OK)
        status = rt_job_put_real(job, "patience", spec->cluster.timeout, err);
    return status;
}

rt_status rt_job_tree(const struct rt_training_config *config, struct rt_tree **job, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    status = fill_job(config, made, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *job = made;
    return status;
}

rt_status rt_job_tree_evaluating(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                                 size_t rows, struct rt_tree **job, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the model", 0, &made, err);
    if (status != RT_OK)
        return status;
    status = rt_job_put_tree(made, "input", input, err);
    if (status == RT_OK)
        status = rt_job_put_tree(made, "layers", layers, err);
    if (status == RT_OK)
        status = rt_job_put(made, "loss", err, "%s", loss);
    if (status == RT_OK)
        status = rt_job_put(made, "batch", err, "%zu", rows);
    if (status == RT_OK)
        status = rt_job_put(made, "evaluate_only", err, "true");
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *job = made;
    return status;
}
