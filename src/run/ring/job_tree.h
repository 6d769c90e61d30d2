/* The job of a ring, made from a run file: see job/job.h. */
#ifndef RT_RUN_RING_JOB_TREE_H
#define RT_RUN_RING_JOB_TREE_H

#include "run/learner.h"

/* Of the training configuration: spec, network, strategy, options, settings and per_epoch. */
rt_status rt_job_tree(const struct rt_training_config *config, struct rt_tree **job, struct rt_error *err);

/* The job of a ring that only evaluates, so many rows at a time at most. */
rt_status rt_job_tree_evaluating(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                                 size_t rows, struct rt_tree **job, struct rt_error *err);

/* Adds a scalar, or a copy of a tree (NULL: nothing), to a job that is being made. */
RT_PRINTF(4, 5)
rt_status rt_job_put(struct rt_tree *job, const char *key, struct rt_error *err, const char *format, ...);
/* A number with a decimal point, whatever the locale of an embedding program. */
rt_status rt_job_put_real(struct rt_tree *job, const char *key, double value, struct rt_error *err);
rt_status rt_job_put_tree(struct rt_tree *job, const char *key, const struct rt_tree *tree,
                          struct rt_error *err);

#endif
