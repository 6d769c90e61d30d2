/*
 * The updater of a training: the rule with its schedule, clipping and state. What owns parameters, a server
 * or each of the workers, gives it the gradient of an update, and it changes them.
 */
#ifndef RT_OPTIM_UPDATER_H
#define RT_OPTIM_UPDATER_H

#include "optim/optim.h"
#include "optim/schedule.h"

struct rt_updater {
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    uint64_t updates, per_epoch; /* planned */
    double clip_norm;            /* 0: off */
    float *state;                /* the optimizer's, state_tensors blocks of param_count; NULL: has none */
    /* The norm's squares of a gradient, tensor by tensor in order; NULL unless clipping. */
    double (*squares)(void *user, const float *gradient);
    /* Applies a step to parameters first..first+count from their gradient, perhaps on several threads; NULL:
     * rt_optim_apply, on the thread that calls. */
    void (*apply)(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient);
    void *user;
};

struct rt_update {
    uint64_t number; /* from 1 */
    uint64_t batch;  /* that the schedule is at: on one device the number */
    double damping;  /* of the rate, which is divided by it */
    double scale;    /* of the gradient, before it is clipped */
};

/* The step of an update. gradient: the whole one, for its norm; NULL: it is not clipped. */
void rt_updater_begin(const struct rt_updater *updater, const struct rt_update *update, const float *gradient,
                      struct rt_optim_step *step);
/* params: the whole block of `total`; gradient: that of the parameters first..first+count. */
void rt_updater_apply(const struct rt_updater *updater, const struct rt_optim_step *step, size_t first,
                      size_t count, size_t total, float *params, const float *gradient);

#endif
