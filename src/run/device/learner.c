/* The learner on one device. */
#include "run/learner.h"

#include "base/clock.h"
#include "base/memory.h"
#include "run/emulate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct local {
    struct rt_network *network;
    struct rt_trainer *trainer;
    struct rt_local_state model_state;
    struct rt_model_state blocks; /* of numbers: without the check */
    double cpu_start;
    struct rt_pace pace;
    struct rt_states states; /* between two operations in RT_STATE_BACKWARD */
    bool timed;              /* training has begun */
    double apart_before;     /* seconds that had been counted apart by then */
    const atomic_int *stop;
};

/* An emulated device that is to stop does not finish its operation. */
static void device_emulated_sleep(void *self, double until) {
    static const double glance = 0.1;
    const struct local *local = self;
    for (double now; (now = rt_clock_wall()) < until && !(local->stop && atomic_load(local->stop));) {
        const double end = fmin(until, now + glance);
        const struct timespec time = {(time_t)end, (long)((end - (double)(time_t)end) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
}

static void device_start_clock(struct local *local) {
    rt_states_start(&local->states, RT_STATE_BACKWARD);
    rt_states_emulate(
        &local->states,
        &(struct rt_emulation){.pace = &local->pace, .self = local, .sleep = device_emulated_sleep});
    rt_states_set_apart(&local->states, true, false);
}

static rt_status device_set_apart(void *self, bool is_apart, struct rt_error *err) {
    struct local *local = self;
    (void)err;
    rt_states_set_apart(&local->states, is_apart, true);
    if (!is_apart && !local->timed) {
        local->timed = true;
        local->apart_before = local->states.apart;
    }
    return RT_OK;
}

static rt_status device_step(void *self, struct rt_step *result, struct rt_error *err) {
    return rt_trainer_step(((struct local *)self)->trainer, result, err);
}

static bool device_at_rest(void *self) {
    (void)self;
    return true;
}

static rt_status device_begin(void *self, size_t tensors, rt_state_write write, void *user,
                              struct rt_error *err) {
    struct local *local = self;
    rt_status status = rt_trainer_check(local->trainer, err);
    return status == RT_OK ? local->blocks.begin(&local->model_state, tensors, write, user, err) : status;
}

static rt_status device_load(void *self, size_t tensors, uint64_t update, rt_state_read read, void *user,
                             struct rt_error *err) {
    struct local *local = self;
    rt_status status = local->blocks.load(&local->model_state, tensors, update, read, user, err);
    if (status == RT_OK)
        rt_trainer_set_update(local->trainer, update);
    return status;
}

/* Where the device is not emulated the updates were clocked as one state, because a thread's CPU clock is too
 * dear to read several times per update; here their time is shared out as the trainer's own wall clock saw
 * it. */
static void device_share_out(const double *parts, double *seconds) {
    const double all = seconds[RT_STATE_BACKWARD];
    double sum = 0;
    for (int i = 0; i < RT_STATES; i++)
        sum += parts[i];
    for (int i = 0; i < RT_STATES && sum > 0; i++) {
        const double share = all * parts[i] / sum;
        seconds[i] = i == RT_STATE_BACKWARD ? share : seconds[i] + share;
    }
}

static rt_status device_report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                               struct rt_error *err) {
    (void)recent, (void)err;
    struct local *local = self;
    reports[0] = (struct rt_node_report){.role = "single",
                                         .name = "",
                                         .count = local->model_state.network->model->count,
                                         .predicted_idle = (double)NAN};
    struct rt_metrics_row *row = &reports[0].row;
    rt_states_read(&local->states, row->state);
    device_share_out(rt_trainer_seconds(local->trainer), row->state);
    row->seconds = rt_states_elapsed(&local->states);
    row->validation = local->states.apart - local->apart_before;
    row->updates = rt_trainer_update(local->trainer);
    row->cpu_seconds = rt_clock_process() - local->cpu_start;
    row->peak_memory = rt_memory_peak();
    *fresh = true;
    return RT_OK;
}

static rt_status device_stop(void *self, struct rt_error *err) {
    (void)self, (void)err;
    return RT_OK;
}

static void device_destroy(void *self) {
    struct local *local = self;
    local->network->clock = NULL;
    rt_trainer_destroy(local->trainer);
    free(local);
}

rt_status rt_learner_local(const struct rt_training_config *config, struct rt_learner *learner,
                           struct rt_error *err) {
    struct local *local;
    struct rt_network *network = config->network;
    rt_status status = rt_alloc(1, sizeof *local, "the trainer", &local, err);
    if (status != RT_OK)
        return status;
    local->cpu_start = rt_clock_process();
    local->stop = config->stop;
    local->network = network;
    network->clock = &local->states;
    status = rt_emulate_master(config->spec, &local->pace, err);
    if (status == RT_OK)
        status = rt_network_allocate(network, err);
    device_start_clock(local);
    struct rt_trainer_settings settings = config->settings;
    settings.clock = local->states.emulated ? &local->states : NULL;
    if (status == RT_OK)
        status = rt_trainer_create(network, config->set, config->scaling, config->target, config->optim,
                                   config->schedule, &settings, &local->trainer, err);
    if (status != RT_OK) {
        device_destroy(local);
        return status;
    }
    rt_model_init(network->model, config->settings.seed, network->blocks.params, network->blocks.buffers);
    local->model_state = (struct rt_local_state){.network = network,
                                                 .state = rt_trainer_state(local->trainer),
                                                 .optim_tensors = config->optim->type->state_tensors};
    local->blocks = rt_model_state_local(&local->model_state);
    *learner = (struct rt_learner){
        .self = local,
        .model_state = {.model = network->model,
                        .tensors = local->blocks.tensors,
                        .self = local,
                        .begin = device_begin,
                        .done = local->blocks.done,
                        .finish = local->blocks.finish,
                        .load = device_load},
        .forward = rt_forward_local(network),
        .micro_batch = rt_trainer_micro_batch(local->trainer),
        .nodes = 1,
        .predicted_samples_per_s = (double)NAN,
        .step = device_step,
        .clock = &local->states,
        .at_rest = device_at_rest,
        .set_apart = device_set_apart,
        .report = device_report,
        .stop = device_stop,
        .destroy = device_destroy,
    };
    return RT_OK;
}
