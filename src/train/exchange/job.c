/* What travels to the nodes of an exchange, written and read. */
#include "train/exchange/job.h"

#include "base/memory.h"
#include "data/stream.h"
#include "train/ring/job_tree.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

/* A section of the run file without the keys that are the master's own business. */
static rt_status put_section(struct rt_tree *run, const char *name, const struct rt_tree *section,
                             const char *const *without, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; status == RT_OK && section && i < section->count; i++) {
        size_t k = 0;
        while (without[k] && strcmp(without[k], section->items[i]->key) != 0)
            k++;
        if (!without[k])
            status = rt_job_put_tree(made, section->items[i]->key, section->items[i], err);
    }
    if (status == RT_OK)
        status = rt_tree_add(run, name, made, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    return status;
}

/* The training data are what is left when the others have been taken out of them: where those have a source
 * of their own, nothing is. */
static rt_status put_data(struct rt_tree *run, const struct rt_spec *spec, struct rt_error *err) {
    const char *without[8] = {"cache_dir", "cache_above", "test", "validation"};
    size_t count = 4;
    if (spec->data.test)
        without[count++] = "split";
    if (spec->data.validation)
        without[count++] = "hold_out";
    return put_section(run, "data", rt_tree_get(spec->tree, "data"), without, err);
}

static rt_status put_run(struct rt_tree *job, const struct rt_spec *spec, struct rt_error *err) {
    static const char *const of_model[] = {"init", NULL};
    static const char *const of_train[] = {
        "threads",    "kernels",        "validate_epochs",    "keep_best", "validate_updates",
        "early_stop", "report_seconds", "checkpoint_seconds", NULL};
    struct rt_tree *run;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &run, err);
    if (status != RT_OK)
        return status;
    status = put_section(run, "model", rt_tree_get(spec->tree, "model"), of_model, err);
    if (status == RT_OK)
        status = put_data(run, spec, err);
    if (status == RT_OK)
        status = put_section(run, "train", rt_tree_get(spec->tree, "train"), of_train, err);
    if (status == RT_OK)
        status = rt_tree_add(job, "run", run, err);
    if (status != RT_OK)
        rt_tree_destroy(run);
    return status;
}

static rt_status put_options(struct rt_tree *job, const struct rt_lesson *lesson, struct rt_error *err) {
    struct rt_tree *options;
    rt_status status = rt_way_options_write(lesson->way, lesson->options, &options, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_add(job, "options", options, err);
    if (status != RT_OK)
        rt_tree_destroy(options);
    return status;
}

static rt_status fill(const struct rt_lesson *lesson, const char *fingerprint,
                      const struct rt_link_cost *cost, struct rt_tree *job, struct rt_error *err) {
    const struct rt_spec *spec = lesson->spec;
    rt_status status = rt_job_put(job, "exchange", err, "%s", lesson->way->name);
    if (status == RT_OK)
        status = put_options(job, lesson, err);
    if (status == RT_OK)
        status = put_run(job, spec, err);
    if (status == RT_OK)
        status = rt_job_put(job, "directory", err, "%s", spec->base_dir);
    if (status == RT_OK)
        status = rt_job_put(job, "examples", err, "%zu", lesson->set->count);
    if (status == RT_OK)
        status = rt_job_put(job, "fingerprint", err, "%s", fingerprint);
    if (status == RT_OK)
        status = rt_job_put(job, "updates", err, "%" PRIu64, lesson->settings.updates);
    if (status == RT_OK)
        status = rt_job_put(job, "per_epoch", err, "%" PRIu64, lesson->per_epoch);
    if (status == RT_OK)
        status = rt_job_put(job, "patience", err, "%.17g", spec->cluster.patience);
    if (status == RT_OK)
        status = rt_job_put(job, "latency", err, "%.17g", cost->latency);
    if (status == RT_OK)
        status = rt_job_put(job, "bandwidth", err, "%.17g", cost->bandwidth);
    if (status == RT_OK)
        status = rt_job_put(job, "adding", err, "%.17g", cost->adding);
    return status;
}

rt_status rt_exchange_job_tree(const struct rt_lesson *lesson, const char *fingerprint,
                               const struct rt_link_cost *cost, struct rt_tree **tree, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    status = fill(lesson, fingerprint, cost, made, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    else
        *tree = made;
    return status;
}

/* ---- reading ---- */

struct fields {
    const char *exchange, *directory, *fingerprint;
    const struct rt_tree *options, *run;
    int64_t examples, updates, per_epoch;
    double patience, latency, bandwidth, adding;
};

#define AT(field) offsetof(struct fields, field)
static const struct rt_option options[] = {
    {"exchange", RT_OPTION_TEXT, AT(exchange), .help = "the strategy"},
    {"options", RT_OPTION_TREE, AT(options), .help = "its options"},
    {"run", RT_OPTION_TREE, AT(run), .help = "model, data and train of the run file"},
    {"directory", RT_OPTION_TEXT, AT(directory), ".", .help = "where the run file is"},
    {"fingerprint", RT_OPTION_TEXT, AT(fingerprint), "", .help = "of the training data"},
    {"examples", RT_OPTION_INT, AT(examples), NULL, 1, 4294967295.0, .help = "in the training data"},
    {"updates", RT_OPTION_INT, AT(updates), NULL, 1, 9.2e18, .help = "that are planned"},
    {"per_epoch", RT_OPTION_INT, AT(per_epoch), NULL, 1, 4294967295.0, .help = "of them"},
    {"patience", RT_OPTION_REAL, AT(patience), "60", 0.1, 86400, .help = "seconds"},
    {"latency", RT_OPTION_REAL, AT(latency), "0", 0, 1e6, .help = "of a link"},
    {"bandwidth", RT_OPTION_REAL, AT(bandwidth), "0", 0, 1e30, .help = "of a link"},
    {"adding", RT_OPTION_REAL, AT(adding), "0", 0, 1e6, .help = "seconds per float"},
};
#undef AT

bool rt_exchange_job_is(const struct rt_tree *tree) {
    return rt_tree_get(tree, "exchange") != NULL;
}

static rt_status read_job(struct rt_exchange_job *job, struct rt_error *err) {
    struct fields fields;
    rt_status status =
        rt_options_read(options, sizeof options / sizeof *options, NULL, job->tree, "the job", &fields, err);
    if (status != RT_OK)
        return status;
    if (!fields.exchange || !fields.run || fields.run->kind != RT_TREE_MAP)
        return rt_fail(err, RT_BAD_INPUT, "the job has no %s", fields.exchange ? "run" : "strategy");
    job->way = rt_way_find(fields.exchange);
    if (!job->way)
        return rt_fail(err, RT_BAD_INPUT, "this node knows no strategy '%.60s'", fields.exchange);
    status = rt_way_options_read(job->way, fields.options, &job->options, err);
    if (status == RT_OK)
        status = rt_spec_draft(fields.run, "the run", NULL, 0, &job->spec, err);
    if (status == RT_OK)
        status = rt_spec_check(job->spec, err);
    if (status == RT_OK && rt_stream_named(job->spec->data.train))
        status = rt_fail(err, RT_BAD_INPUT, "an exchange does not learn from a stream");
    job->directory = fields.directory;
    job->fingerprint = fields.fingerprint;
    job->examples = (uint64_t)fields.examples;
    job->updates = (uint64_t)fields.updates;
    job->per_epoch = (uint64_t)fields.per_epoch;
    job->patience = fields.patience;
    job->cost = (struct rt_link_cost){fields.latency, fields.bandwidth, fields.adding};
    return status;
}

rt_status rt_exchange_job_create(const struct rt_tree *tree, struct rt_exchange_job **job,
                                 struct rt_error *err) {
    struct rt_exchange_job *made;
    rt_status status = rt_alloc(1, sizeof *made, "the job", &made, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_copy(tree, &made->tree, err);
    if (status == RT_OK)
        status = read_job(made, err);
    if (status != RT_OK)
        rt_exchange_job_destroy(made);
    else
        *job = made;
    return status;
}

void rt_exchange_job_destroy(struct rt_exchange_job *job) {
    if (!job)
        return;
    rt_spec_destroy(job->spec);
    rt_tree_destroy(job->tree);
    free(job);
}

/* ---- data ---- */

rt_status rt_exchange_job_open_data(struct rt_exchange_job *job, const struct rt_network *network,
                                    const char *data, const atomic_int *stop, struct rt_materials *materials,
                                    struct rt_scaling *scaling, struct rt_error *err) {
    char fingerprint[65], *directory = strdup(data ? data : job->directory);
    if (!directory)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the data");
    free(job->spec->base_dir);
    job->spec->base_dir = directory;
    rt_status status = rt_materials_open_within(job->spec, network, data, stop, materials, scaling, err);
    if (status != RT_OK)
        return status;
    if (materials->train.count != job->examples)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: %zu examples, where the master has %llu",
                       materials->train.count, (unsigned long long)job->examples);
    rt_materials_fingerprint(materials, scaling, fingerprint);
    if (strcmp(fingerprint, job->fingerprint) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: the hash of %.200s is %.12s..., that of "
                       "the master's data %.12s...",
                       materials->train.name, fingerprint, job->fingerprint);
    return RT_OK;
}
