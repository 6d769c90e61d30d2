/* A job (job/job.h), made from the training configuration: what the run file says, and what the master has
 * found out. */
#ifndef RT_RUN_JOB_WRITE_H
#define RT_RUN_JOB_WRITE_H

#include "exchange/strategy.h"
#include "job/job.h"
#include "run/learner.h"

/* What the training configuration does not say of an exchange. */
struct rt_job_facts {
    const char *fingerprint; /* of the training data */
    struct rt_link_cost cost;
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options; /* of the strategy */
    uint16_t rings;                            /* that exchange; 0: workers do */
    const struct rt_slice_run *runs;           /* [workers] their slices; NULL: equal parts */
    size_t workers;
};

/* The job of a ring (facts NULL), of an exchange, or of several rings. Of the training configuration: spec,
 * network, strategy, options (where there is a ring: struct rt_ring_options), exchange, settings, per_epoch;
 * with facts also set.
 * planned: of several rings, the job of one as its plan left it; else NULL. */
rt_status rt_job_write_training(const struct rt_training_config *config, const struct rt_job *planned,
                                const struct rt_job_facts *facts, struct rt_job **job, struct rt_error *err);

/* A job that describes the model and how it is trained, to measure its layers with (PROFILE). */
rt_status rt_job_write_measuring(const struct rt_training_config *config, struct rt_job **job,
                                 struct rt_error *err);

/* The job of a ring that only evaluates, so many rows at a time at most. */
rt_status rt_job_write_evaluating(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                                  size_t rows, struct rt_job **job, struct rt_error *err);

#endif
