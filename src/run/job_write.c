/* From a training configuration to a job. Which keys it has, and how they are written, job/job.c knows. */
#include "run/job_write.h"

#include "formats/yaml.h"
#include "run/strategy.h"
#include <stdio.h>
#include <string.h>

/* What is made for a job, and needed only until it has been written. */
struct made {
    struct rt_tree *optimizer, *exchange, *shares, *data;
};

static void job_write_made_deinit(struct made *made) {
    rt_tree_destroy(made->optimizer);
    rt_tree_destroy(made->exchange);
    rt_tree_destroy(made->shares);
    rt_tree_destroy(made->data);
}

static rt_status job_write_job_set_training(const struct rt_training_config *config, struct made *made,
                                            struct rt_job *job, struct rt_error *err) {
    const struct rt_spec *spec = config->spec;
    const struct rt_trainer_settings *settings = &config->settings;
    job->input = spec->model.input;
    job->layers = spec->model.layers;
    job->loss = config->network->loss->name;
    job->seed = (int64_t)settings->seed;
    job->batch = (int64_t)settings->batch;
    job->micro_batch = settings->micro_batch ? (int64_t)settings->micro_batch : -1;
    job->shards = (int64_t)settings->shards;
    job->updates = (int64_t)settings->updates;
    job->per_epoch = (int64_t)config->per_epoch;
    job->clip_norm = settings->clip_norm;
    job->weight_decay = spec->train.weight_decay;
    job->schedule = spec->train.schedule;
    job->math = spec->train.math;
    job->silence = spec->cluster.silence;
    job->timeout = spec->cluster.timeout;
    /* The run file's optimizer, else the one that the strategy wants. */
    const char *wanted = config->exchange ? config->exchange->optimizer : NULL;
    if (!spec->train.optimizer && wanted)
        RT_TRY(rt_yaml_value(wanted, "the strategy", &made->optimizer, err));
    job->optimizer = made->optimizer ? made->optimizer : spec->train.optimizer;
    return RT_OK;
}

static void job_write_job_set_ring(const struct rt_training_config *config, struct rt_job *job) {
    const struct rt_ring_options *options = config->options;
    job->ring.mode = strcmp(config->strategy, "ring-flow") == 0 ? RT_RING_FLOW : RT_RING_EXACT;
    job->ring.order = options->schedule ? RT_RING_1F1B : RT_RING_SPLIT;
    job->ring.damp = options->damp;
    job->ring.replica = job->keep > 0 ? config->spec->cluster.replica : RT_REPLICA_OFF;
}

static rt_status job_write_add_share(struct rt_tree *shares, uint32_t count, struct rt_error *err) {
    struct rt_tree *item;
    char text[12];
    snprintf(text, sizeof text, "%u", count);
    RT_TRY(rt_tree_create(RT_TREE_SCALAR, text, NULL, 0, &item, err));
    const rt_status status = rt_tree_add(shares, NULL, item, err);
    if (status != RT_OK)
        rt_tree_destroy(item);
    return status;
}

static rt_status job_write_shares(const struct rt_job_facts *facts, struct rt_tree **shares,
                                  struct rt_error *err) {
    if (!facts->runs)
        return RT_OK;
    RT_TRY(rt_tree_create(RT_TREE_LIST, NULL, NULL, 0, shares, err));
    for (size_t i = 0; i < facts->workers; i++)
        RT_TRY(job_write_add_share(*shares, facts->runs[i].count, err));
    return RT_OK;
}

static rt_status job_write_job_set_exchange(const struct rt_job_facts *facts, struct made *made,
                                            struct rt_job *job, struct rt_error *err) {
    RT_TRY(rt_exchange_options_write(facts->strategy, facts->options, &made->exchange, err));
    RT_TRY(job_write_shares(facts, &made->shares, err));
    job->exchange = (struct rt_job_exchange){.strategy = facts->strategy->name,
                                             .options = made->exchange,
                                             .latency = facts->cost.latency,
                                             .bandwidth = facts->cost.bandwidth,
                                             .adding = facts->cost.adding,
                                             .shares = made->shares};
    return RT_OK;
}

static rt_status job_write_job_set_data(const struct rt_training_config *config,
                                        const struct rt_job_facts *facts, struct made *made,
                                        struct rt_job *job, struct rt_error *err) {
    RT_TRY(rt_job_data_options(config->spec, &made->data, err));
    job->data = (struct rt_job_data){.directory = config->spec->base_dir,
                                     .fingerprint = facts->fingerprint,
                                     .examples = (int64_t)config->set->count,
                                     .drop_last = config->settings.drop_last,
                                     .options = made->data};
    return RT_OK;
}

static rt_status job_write_job_set_all(const struct rt_training_config *config, const struct rt_job *planned,
                                       const struct rt_job_facts *facts, struct made *made,
                                       struct rt_job *job, struct rt_error *err) {
    rt_job_defaults(job);
    if (planned)
        *job = *planned;
    else
        RT_TRY(job_write_job_set_training(config, made, job, err));
    job->wait_master = config->token ? config->spec->cluster.wait_master : 0;
    job->learner = !facts ? RT_JOB_RING : facts->rings ? RT_JOB_HYBRID : RT_JOB_EXCHANGE;
    job->keep = config->spec->cluster.recover ? RT_JOB_KEEP : 0;
    if (!facts) {
        job_write_job_set_ring(config, job);
        return RT_OK;
    }
    job->ring.replica = RT_REPLICA_OFF;
    if (facts->rings)
        job->rings = facts->rings;
    RT_TRY(job_write_job_set_exchange(facts, made, job, err));
    return job_write_job_set_data(config, facts, made, job, err);
}

rt_status rt_job_write_training(const struct rt_training_config *config, const struct rt_job *planned,
                                const struct rt_job_facts *facts, struct rt_job **job, struct rt_error *err) {
    struct made made = {0};
    struct rt_job values;
    rt_status status = job_write_job_set_all(config, planned, facts, &made, &values, err);
    if (status == RT_OK)
        status = rt_job_write(&values, job, err);
    job_write_made_deinit(&made);
    return status;
}

rt_status rt_job_write_measuring(const struct rt_training_config *config, struct rt_job **job,
                                 struct rt_error *err) {
    struct made made = {0};
    struct rt_job values;
    rt_job_defaults(&values);
    rt_status status = job_write_job_set_training(config, &made, &values, err);
    values.learner = RT_JOB_RING;
    values.ring.replica = RT_REPLICA_OFF;
    if (status == RT_OK)
        status = rt_job_write(&values, job, err);
    job_write_made_deinit(&made);
    return status;
}

rt_status rt_job_write_evaluating(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                                  size_t rows, struct rt_job **job, struct rt_error *err) {
    struct rt_job values;
    rt_job_defaults(&values);
    values.learner = RT_JOB_RING;
    values.input = input;
    values.layers = layers;
    values.loss = loss;
    values.batch = (int64_t)rows;
    values.evaluate_only = true;
    return rt_job_write(&values, job, err);
}
