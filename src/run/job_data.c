/* A node's own copy of the training data. */
#include "run/job_data.h"

#include "base/sentence.h"
#include <string.h>

rt_status rt_job_data_open(const struct rt_job *job, const struct rt_network *network, const char *directory,
                           const char *cache, const atomic_int *stop, struct rt_datasets *datasets,
                           struct rt_scaling *scaling, struct rt_error *err) {
    const struct rt_job_data *wanted = &job->data;
    struct rt_spec_data set = wanted->set;
    char fingerprint[65];
    set.cache_dir = cache;
    RT_TRY(rt_datasets_open_within(&set, directory ? directory : wanted->directory, network, directory, stop,
                                   datasets, scaling, err));
    if (datasets->train.count != (uint64_t)wanted->examples)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: %s, where the master has %lld",
                       RT_COUNTED(datasets->train.count, "example"), (long long)wanted->examples);
    rt_datasets_fingerprint(datasets, scaling, fingerprint);
    if (strcmp(fingerprint, wanted->fingerprint) != 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "its training data differ from the master's: the hash of %.200s is %.12s..., that of "
                       "the master's data %.12s...",
                       datasets->train.name, fingerprint, wanted->fingerprint);
    return RT_OK;
}
