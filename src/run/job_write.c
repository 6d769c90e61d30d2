/* From a training configuration to a job. Which keys it has, and how they are written, job/job.c knows. */
#include "run/job_write.h"

#include "formats/yaml.h"
#include "run/strategy.h"
#include <string.h>

/* What is made for a job, and needed only until it has been written. */
struct made {
    struct rt_tree *optimizer, *exchange, *data;
};

static void job_write_made_deinit(struct made *made) {
    rt_tree_destroy(made->optimizer);
    rt_tree_destroy(made->exchange);
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
    job->keep = config->spec->cluster.recover && config->set && config->set->count ? RT_JOB_KEEP : 0;
}

static rt_status job_write_job_set_exchange(const struct rt_job_facts *facts, struct made *made,
                                            struct rt_job *job, struct rt_error *err) {
    RT_TRY(rt_exchange_options_write(facts->strategy, facts->options, &made->exchange, err));
    job->exchange = (struct rt_job_exchange){.strategy = facts->strategy->name,
                                             .options = made->exchange,
                                             .latency = facts->cost.latency,
                                             .bandwidth = facts->cost.bandwidth,
                                             .adding = facts->cost.adding};
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
    job->learner = !facts ? RT_JOB_RING : facts->rings ? RT_JOB_HYBRID : RT_JOB_EXCHANGE;
    if (!facts) {
        job_write_job_set_ring(config, job);
        return RT_OK;
    }
    job->keep = 0; /* only one ring goes on without a node */
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
