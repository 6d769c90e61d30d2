/* What travels to the nodes of an exchange, written and read. */
#include "run/exchange/job.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "data/stream.h"
#include "run/ring/job_tree.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What travels of the run file: these sections, without the keys that each machine decides for itself, which
 * a master does not send and a node does not take. */
static const struct section {
    const char *name, *own[10];
} sections[] = {
    {"model", {"init"}},
    {"data", {"cache_dir", "cache_above", "test", "validation"}},
    {"train",
     {"threads", "kernels", "validate_epochs", "keep_best", "validate_updates", "early_stop",
      "report_seconds", "checkpoint_seconds"}},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static bool is_own(const struct section *section, const char *key) {
    size_t i = 0;
    while (section->own[i] && strcmp(section->own[i], key) != 0)
        i++;
    return section->own[i] != NULL;
}

/* ---- writing ---- */

/* The training data are what is left when the others have been taken out of them: where those have a source
 * of their own, nothing is. */
static bool is_idle(const struct rt_spec *spec, const struct section *section, const char *key) {
    return strcmp(section->name, "data") == 0 && ((spec->data.test && strcmp(key, "split") == 0) ||
                                                  (spec->data.validation && strcmp(key, "hold_out") == 0));
}

static rt_status put_section(struct rt_tree *run, const struct rt_spec *spec, const struct section *section,
                             struct rt_error *err) {
    const struct rt_tree *all = rt_tree_get(spec->tree, section->name);
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; status == RT_OK && all && i < all->count; i++) {
        const char *key = all->items[i]->key;
        if (!is_own(section, key) && !is_idle(spec, section, key))
            status = rt_job_put_tree(made, key, all->items[i], err);
    }
    if (status == RT_OK)
        status = rt_tree_add(run, section->name, made, err);
    if (status != RT_OK)
        rt_tree_destroy(made);
    return status;
}

static rt_status put_run(struct rt_tree *job, const struct rt_spec *spec, struct rt_error *err) {
    struct rt_tree *run;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &run, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; status == RT_OK && i < SECTIONS; i++)
        status = put_section(run, spec, &sections[i], err);
    if (status == RT_OK)
        status = rt_tree_add(job, "run", run, err);
    if (status != RT_OK)
        rt_tree_destroy(run);
    return status;
}

static rt_status put_options(struct rt_tree *job, const struct rt_training_config *config,
                             struct rt_error *err) {
    struct rt_tree *options;
    rt_status status = rt_exchange_options_write(config->exchange, config->options, &options, err);
    if (status != RT_OK)
        return status;
    status = rt_tree_add(job, "options", options, err);
    if (status != RT_OK)
        rt_tree_destroy(options);
    return status;
}

static rt_status fill(const struct rt_training_config *config, const char *fingerprint,
                      const struct rt_link_cost *cost, struct rt_tree *job, struct rt_error *err) {
    const struct rt_spec *spec = config->spec;
    rt_status status = rt_job_put(job, "exchange", err, "%s", config->exchange->name);
    if (status == RT_OK)
        status = put_options(job, config, err);
    if (status == RT_OK)
        status = put_run(job, spec, err);
    if (status == RT_OK)
        status = rt_job_put(job, "directory", err, "%s", spec->base_dir);
    if (status == RT_OK)
        status = rt_job_put(job, "examples", err, "%zu", config->set->count);
    if (status == RT_OK)
        status = rt_job_put(job, "fingerprint", err, "%s", fingerprint);
    if (status == RT_OK)
        status = rt_job_put(job, "updates", err, "%" PRIu64, config->settings.updates);
    if (status == RT_OK)
        status = rt_job_put(job, "per_epoch", err, "%" PRIu64, config->per_epoch);
    if (status == RT_OK)
        status = rt_job_put_real(job, "patience", spec->cluster.timeout, err);
    if (status == RT_OK)
        status = rt_job_put_real(job, "latency", cost->latency, err);
    if (status == RT_OK)
        status = rt_job_put_real(job, "bandwidth", cost->bandwidth, err);
    if (status == RT_OK)
        status = rt_job_put_real(job, "adding", cost->adding, err);
    return status;
}

rt_status rt_exchange_job_tree(const struct rt_training_config *config, const char *fingerprint,
                               const struct rt_link_cost *cost, struct rt_tree **tree, struct rt_error *err) {
    struct rt_tree *made;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the run", 0, &made, err);
    if (status != RT_OK)
        return status;
    status = fill(config, fingerprint, cost, made, err);
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
    double timeout, latency, bandwidth, adding;
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
    {"patience", RT_OPTION_REAL, AT(timeout), "60", 0.1, 86400, .help = "seconds"},
    {"latency", RT_OPTION_REAL, AT(latency), "0", 0, 1e6, .help = "of a link"},
    {"bandwidth", RT_OPTION_REAL, AT(bandwidth), "0", 0, 1e30, .help = "of a link"},
    {"adding", RT_OPTION_REAL, AT(adding), "0", 0, 1e6, .help = "seconds per float"},
};
#undef AT

bool rt_exchange_job_is(const struct rt_tree *tree) {
    return rt_tree_get(tree, "exchange") != NULL;
}

/* Which files a node writes, which ones besides the training data it reads, and with how many threads it
 * computes are not for a master to say. */
static rt_status check_run(const struct rt_tree *run, struct rt_error *err) {
    for (size_t i = 0; i < run->count; i++) {
        const struct rt_tree *given = run->items[i];
        const struct section *section = sections;
        while (section < sections + SECTIONS && strcmp(section->name, given->key) != 0)
            section++;
        if (section == sections + SECTIONS)
            return rt_fail(err, RT_BAD_INPUT, "the job has '%.60s', which is no business of a node",
                           given->key);
        for (size_t k = 0; given->kind == RT_TREE_MAP && k < given->count; k++)
            if (is_own(section, given->items[k]->key))
                return rt_fail(err, RT_BAD_INPUT, "the job sets %s.%s, which a node decides for itself",
                               section->name, given->items[k]->key);
    }
    return RT_OK;
}

static rt_status read_job(struct rt_exchange_job *job, struct rt_error *err) {
    struct fields fields;
    rt_status status =
        rt_options_read(options, sizeof options / sizeof *options, NULL, job->tree, "the job", &fields, err);
    if (status != RT_OK)
        return status;
    if (!fields.exchange || !fields.run || fields.run->kind != RT_TREE_MAP)
        return rt_fail(err, RT_BAD_INPUT, "the job has no %s", fields.exchange ? "run" : "strategy");
    job->strategy = rt_exchange_strategy_find(fields.exchange);
    if (!job->strategy)
        return rt_fail(err, RT_BAD_INPUT, "this node knows no strategy '%.60s'", fields.exchange);
    status = rt_exchange_options_read(job->strategy, fields.options, &job->options, err);
    if (status == RT_OK)
        status = check_run(fields.run, err);
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
    job->timeout = fields.timeout;
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
                                    const char *data, const char *cache, const atomic_int *stop,
                                    struct rt_datasets *datasets, struct rt_scaling *scaling,
                                    struct rt_error *err) {
    char fingerprint[65], *directory = strdup(data ? data : job->directory);
    if (!directory)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for the data");
    free(job->spec->base_dir);
    job->spec->base_dir = directory;
    job->spec->data.cache_dir = cache;
    rt_status status = rt_datasets_open_within(job->spec, network, data, stop, datasets, scaling, err);
    if (status != RT_OK)
        return status;
    if (datasets->train.count != job->examples)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: %s, where the master has %llu",
                       RT_COUNTED(datasets->train.count, "example"), (unsigned long long)job->examples);
    rt_datasets_fingerprint(datasets, scaling, fingerprint);
    if (strcmp(fingerprint, job->fingerprint) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: the hash of %.200s is %.12s..., that of "
                       "the master's data %.12s...",
                       datasets->train.name, fingerprint, job->fingerprint);
    return RT_OK;
}
