/* What an exchange needs to know of the training, by collectives or by servers. */
#ifndef RT_EXCHANGE_LEARNING_H
#define RT_EXCHANGE_LEARNING_H

#include "metrics/states.h"
#include "optim/optim.h"
#include "optim/schedule.h"

struct rt_learning {
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    uint64_t updates, per_epoch; /* planned */
    double clip_norm;            /* 0: off */
    float *state;                /* the optimizer's, state_tensors blocks of param_count; NULL: has none */
    /* The norm's squares of a gradient, tensor by tensor in order; NULL unless clipping. */
    double (*squares)(void *user, const float *gradient);
    /* Applies a step to parameters first..first+count from their gradient; NULL: rt_optim_apply, on one
     * thread. Both are called by the thread that computes where the strategy is replicated, otherwise by the
     * one that takes the events. */
    void (*apply)(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient);
    void *user;
    struct rt_states *states; /* the clock of the thread that computes; NULL: none is kept */
};

/* The step of an update, counted from 1. gradient: the whole one, for its norm; NULL: it is not clipped. */
void rt_learning_begin(const struct rt_learning *learning, uint64_t update, const float *gradient,
                       struct rt_optim_step *step);
/* params: the whole block of `total`; gradient: that of the parameters first..first+count. */
void rt_learning_apply(const struct rt_learning *learning, const struct rt_optim_step *step, size_t first,
                       size_t count, size_t total, float *params, const float *gradient);
/* Begins a kind of work on the clock of the thread that computes; returns what it did before. */
enum rt_state rt_learning_enter(const struct rt_learning *learning, enum rt_state state);

#endif
