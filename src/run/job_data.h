/* The training data that a job names, opened by a node from a copy of its own. */
#ifndef RT_RUN_JOB_DATA_H
#define RT_RUN_JOB_DATA_H

#include "job/job.h"
#include "learn/datasets.h"

/* They must be the master's. directory: in which the node looks; NULL: that of the run file, and anywhere.
 * cache: where the node keeps converted data; NULL: the default place. What was opened is the caller's to
 * close, also on failure. */
rt_status rt_job_data_open(const struct rt_job *job, const struct rt_network *network, const char *directory,
                           const char *cache, const atomic_int *stop, struct rt_datasets *datasets,
                           struct rt_scaling *scaling, struct rt_error *err);

#endif
