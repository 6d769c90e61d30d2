/* Which slices of a batch each worker computes: by the speed of the devices, as it was measured at the start.
 */
#include "run/exchange/inside.h"

#include "base/memory.h"
#include "plan/plan.h"
#include "plan/shares.h"
#include "run/job_write.h"
#include <stdlib.h>

/* Of a link, where nothing is known of it: between machines, and within one. */
static const double latency = 1e-4, bandwidth = 1.25e8, local_bandwidth = 2e9;

static bool shares_follow_speed(const struct rt_exchange_learner *learner) {
    const struct rt_exchange_options *options = learner->config.options;
    const size_t shards = learner->config.settings.shards;
    return shards > 1 && options->shares == RT_SHARES_AUTO &&
           rt_exchange_takes_slices(learner->config.exchange, options);
}

/* Local processes that are not emulated are all as fast as this machine. */
static bool shares_devices_differ(const struct rt_exchange_learner *learner) {
    const struct rt_membership *who = &learner->who;
    const double own = rt_pace_factor(&who->pace, 1);
    for (size_t i = 1; i < who->devices; i++) {
        const struct rt_member *member = rt_cluster_member(who->cluster, i - 1);
        if (!member->local || rt_pace_factor(&member->pace, 1) != own)
            return true;
    }
    return false;
}

static rt_status shares_measure(struct rt_exchange_learner *learner, const struct rt_job *job,
                                struct rt_layer_times **times, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const size_t layers = config->network->model->count, devices = learner->who.devices;
    const size_t rows = (config->settings.batch + config->settings.shards - 1) / config->settings.shards;
    const struct rt_measured measured = {.job = job,
                                         .layers = layers,
                                         .device = &config->network->device,
                                         .memory = (uint64_t)config->spec->cluster.memory << 20};
    for (size_t i = 0; i < devices; i++)
        RT_TRY(rt_alloc(layers, sizeof **times, "the times of the layers", &times[i], err));
    RT_TRY(rt_membership_measure(&learner->who, &measured, rows, times, err));
    RT_TRY(rt_alloc(2 * devices, sizeof *learner->slice_seconds, "the times of the devices",
                    &learner->slice_seconds, err));
    for (size_t i = 0; i < devices; i++) {
        double *slice = &learner->slice_seconds[i], *update = &learner->slice_seconds[devices + i];
        for (size_t k = 0; k < layers; k++) {
            *slice += times[i][k].forward + times[i][k].input + times[i][k].weights;
            *update += times[i][k].update;
        }
        /* Nearly every slice is followed by an addition of two sums, which has less to read and write than an
         * update: two values for each parameter, and one for each of the optimizer's, are read and written.
         */
        *slice += *update * 3 / (3 + 2 * (double)config->optim->type->state_tensors) + 1e-9;
    }
    return RT_OK;
}

rt_status rt_exchange_measure(struct rt_exchange_learner *learner, struct rt_error *err) {
    const size_t devices = learner->who.devices;
    struct rt_layer_times **times;
    struct rt_job *job;
    if (!shares_follow_speed(learner) || !shares_devices_differ(learner))
        return RT_OK;
    RT_TRY(rt_job_write_measuring(&learner->config, &job, err));
    rt_status status = rt_alloc(devices, sizeof *times, "the times of the layers", &times, err);
    if (status == RT_OK) {
        status = shares_measure(learner, job, times, err);
        for (size_t i = 0; i < devices; i++)
            free(times[i]);
        free(times);
    }
    rt_job_destroy(job);
    if (status == RT_OK || status == RT_INTERRUPTED)
        return status;
    free(learner->slice_seconds); /* a device is lost: whoever forms the view finds it */
    learner->slice_seconds = NULL;
    return RT_OK;
}

static double shares_bandwidth(const struct rt_exchange_learner *learner) {
    bool local = !learner->config.spec->cluster.bandwidth;
    for (size_t i = 1; i < learner->who.devices; i++)
        local &= rt_cluster_member(learner->who.cluster, i - 1)->local;
    return local ? local_bandwidth : bandwidth;
}

/* Seconds that a partial sum more takes: it travels over a link of the server's, or of any worker's. */
static double shares_piece_seconds(const struct rt_exchange_learner *learner, const struct rt_roles *roles) {
    const double params = (double)learner->config.network->model->param_count;
    const double busy = params * (sizeof(float) / shares_bandwidth(learner) + learner->cost.adding);
    return latency + busy / (double)(roles->servers > 0 ? roles->servers : roles->workers);
}

rt_status rt_exchange_share_slices(struct rt_exchange_learner *learner, const struct rt_roles *roles,
                                   struct rt_error *err) {
    const size_t shards = learner->config.settings.shards, workers = roles->workers;
    double *slice;
    free(learner->runs);
    learner->runs = NULL;
    learner->workers = workers;
    if (shards == 1 || shards < workers ||
        !rt_exchange_takes_slices(learner->config.exchange, learner->options))
        return RT_OK;
    RT_TRY(rt_alloc(workers, sizeof *learner->runs, "the workers' slices", &learner->runs, err));
    RT_TRY(rt_alloc(2 * workers, sizeof *slice, "the workers' slices", &slice, err));
    for (size_t i = 0; i < workers && learner->slice_seconds; i++) {
        const size_t device = learner->device[roles->worker[i]];
        slice[i] = learner->slice_seconds[device];
        slice[workers + i] = learner->slice_seconds[learner->who.devices + device];
    }
    const struct rt_shares_question question = {.slices = (uint32_t)shards,
                                                .workers = workers,
                                                .slice = slice,
                                                .fixed = roles->servers ? NULL : slice + workers,
                                                .equal = !learner->slice_seconds,
                                                .piece = shares_piece_seconds(learner, roles)};
    const rt_status status = rt_shares_choose(&question, learner->runs, err);
    free(slice);
    return status;
}

void rt_exchange_print_shares(const struct rt_exchange_learner *learner, FILE *out) {
    if (!learner->runs)
        return;
    fprintf(out, "Of the %zu slices of a batch the workers have", learner->config.settings.shards);
    for (size_t i = 0; i < learner->workers; i++)
        fprintf(out, "%s %u", i ? "," : "", learner->runs[i].count);
    fprintf(out, "%s.\n", learner->slice_seconds ? ", by their speed" : "");
}
