/*
 * The job of a node in an exchange: the parts of the run file that concern it, and what the master has made
 * of them. It travels as a tree and is read through option tables, so that a node checks it as strictly as a
 * person's file is checked. A tree with the key `exchange` is one of these; others are a ring's (job/job.h).
 */
#ifndef RT_RUN_EXCHANGE_JOB_H
#define RT_RUN_EXCHANGE_JOB_H

#include "exchange/strategy.h"
#include "run/learner.h"

/* The keys of the tree: exchange (the strategy), options (of it), run (model, data and train of the run file,
 * as far as they matter to a worker), directory (where the run file is), examples, fingerprint (of the
 * training data), updates, per_epoch, timeout, latency, bandwidth, adding (of the links, for the choice of a
 * collective). */
struct rt_exchange_job {
    struct rt_tree *tree; /* owned: the rest borrows from it or is made from it */
    const struct rt_exchange_strategy *strategy;
    struct rt_exchange_options options;
    struct rt_spec *spec; /* of run */
    const char *directory;
    uint64_t examples;
    const char *fingerprint;
    uint64_t updates, per_epoch;
    double timeout;
    struct rt_link_cost cost;
};

/* Of the training configuration: spec, network, strategy, options, settings, per_epoch and set. */
rt_status rt_exchange_job_tree(const struct rt_training_config *config, const char *fingerprint,
                               const struct rt_link_cost *cost, struct rt_tree **tree, struct rt_error *err);

/* tree is copied. */
rt_status rt_exchange_job_create(const struct rt_tree *tree, struct rt_exchange_job **job,
                                 struct rt_error *err);
void rt_exchange_job_destroy(struct rt_exchange_job *job); /* NULL is fine */

/* A node's own copy of the data, which must be the master's. data: the directory in which it looks; NULL:
 * that of the run file, and anywhere. cache: where the node keeps converted data; NULL: the default place.
 * What was opened is the caller's to close, also on failure. */
rt_status rt_exchange_job_open_data(struct rt_exchange_job *job, const struct rt_network *network,
                                    const char *data, const char *cache, const atomic_int *stop,
                                    struct rt_datasets *datasets, struct rt_scaling *scaling,
                                    struct rt_error *err);

/* Whether a job is one of an exchange. */
bool rt_exchange_job_is(const struct rt_tree *tree);

#endif
