/* The learner on one device. */
#include "train/learner.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct local {
    struct rt_trainer *trainer;
    struct rt_local_numbers numbers;
    struct rt_numbers blocks; /* of numbers: without the check */
    double cpu_start;
};

static rt_status step(void *self, struct rt_step *result, struct rt_error *err) {
    return rt_trainer_step(((struct local *)self)->trainer, result, err);
}

static bool at_rest(void *self) {
    (void)self;
    return true;
}

static rt_status begin(void *self, size_t words, rt_words_write write, void *user, struct rt_error *err) {
    struct local *local = self;
    rt_status status = rt_trainer_check(local->trainer, err);
    return status == RT_OK ? local->blocks.begin(&local->numbers, words, write, user, err) : status;
}

static rt_status load(void *self, size_t words, uint64_t update, rt_words_read read, void *user,
                      struct rt_error *err) {
    struct local *local = self;
    rt_status status = local->blocks.load(&local->numbers, words, update, read, user, err);
    if (status == RT_OK)
        rt_trainer_set_update(local->trainer, update);
    return status;
}

static rt_status report(void *self, bool recent, struct rt_node_report *reports, bool *fresh,
                        struct rt_error *err) {
    (void)recent, (void)err;
    const struct local *local = self;
    const double *seconds = rt_trainer_seconds(local->trainer);
    reports[0] = (struct rt_node_report){.role = "single",
                                         .name = "",
                                         .count = local->numbers.network->model->count,
                                         .predicted_idle = (double)NAN};
    struct rt_metrics_row *row = &reports[0].row;
    for (int i = 0; i < RT_STATES; i++) {
        row->state[i] = seconds[i];
        row->seconds += seconds[i];
    }
    row->updates = rt_trainer_update(local->trainer);
    row->cpu_seconds = rt_clock_process() - local->cpu_start;
    row->peak_memory = rt_memory_peak();
    *fresh = true;
    return RT_OK;
}

static rt_status stop(void *self, struct rt_error *err) {
    (void)self, (void)err;
    return RT_OK;
}

static void destroy(void *self) {
    struct local *local = self;
    rt_trainer_destroy(local->trainer);
    free(local);
}

rt_status rt_learner_local(const struct rt_lesson *lesson, struct rt_learner *learner, struct rt_error *err) {
    struct local *local;
    struct rt_network *network = lesson->network;
    rt_status status = rt_alloc(1, sizeof *local, "the trainer", &local, err);
    if (status != RT_OK)
        return status;
    local->cpu_start = rt_clock_process();
    status = rt_network_allocate(network, err);
    if (status == RT_OK)
        status = rt_trainer_create(network, lesson->set, lesson->scaling, lesson->target, lesson->optim,
                                   lesson->schedule, &lesson->settings, &local->trainer, err);
    if (status != RT_OK) {
        destroy(local);
        return status;
    }
    rt_model_init(network->model, lesson->settings.seed, network->blocks.params, network->blocks.buffers);
    local->numbers = (struct rt_local_numbers){.network = network,
                                               .state = rt_trainer_state(local->trainer),
                                               .optim_words = lesson->optim->type->state_words};
    local->blocks = rt_numbers_local(&local->numbers);
    *learner = (struct rt_learner){
        .self = local,
        .numbers = {.model = network->model,
                    .words = local->blocks.words,
                    .self = local,
                    .begin = begin,
                    .done = local->blocks.done,
                    .finish = local->blocks.finish,
                    .load = load},
        .forward = rt_forward_local(network),
        .micro_batch = rt_trainer_micro_batch(local->trainer),
        .nodes = 1,
        .predicted_samples_per_s = (double)NAN,
        .step = step,
        .at_rest = at_rest,
        .report = report,
        .stop = stop,
        .destroy = destroy,
    };
    return RT_OK;
}
