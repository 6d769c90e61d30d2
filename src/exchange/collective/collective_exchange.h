/*
 * The exchange by collectives: everybody takes part in every update, span by span, in the same order. Where
 * an optimizer lives is in the operations (RT_OP_APPLY); where every worker has one, a span's update is made
 * by the thread that computes, when it next needs the span.
 */
#ifndef RT_EXCHANGE_COLLECTIVE_COLLECTIVE_EXCHANGE_H
#define RT_EXCHANGE_COLLECTIVE_COLLECTIVE_EXCHANGE_H

#include "control/engine.h"
#include "exchange/collective/executor.h"
#include "exchange/strategy.h"
#include "optim/optim.h"
#include "optim/schedule.h"

/* What an exchange needs to know of the training, by collectives or by servers. */
struct rt_learning {
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    uint64_t updates, per_epoch; /* planned */
    double clip_norm;            /* 0: off */
    float *state;                /* the optimizer's, state_words blocks of param_count; NULL: has none */
    /* The norm's squares of a gradient, tensor by tensor in order; NULL unless clipping. */
    double (*squares)(void *user, const float *gradient);
    /* Applies a step to parameters first..first+count from their gradient; NULL: rt_optim_apply, on one
     * thread. Both are called by the thread that computes where the strategy is replicated, otherwise by the
     * one that takes the events. */
    void (*apply)(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient);
    void *user;
    struct rt_states *states; /* of the thread that computes: what it waits for; NULL: not kept */
};

/* The step of an update, counted from 1. gradient: the whole one, for its norm; NULL: it is not clipped. */
void rt_learning_begin(const struct rt_learning *learning, uint64_t update, const float *gradient,
                       struct rt_optim_step *step);
/* params: the whole block of `total`; gradient: that of the parameters first..first+count. */
void rt_learning_apply(const struct rt_learning *learning, const struct rt_optim_step *step, size_t first,
                       size_t count, size_t total, float *params, const float *gradient);

struct rt_collective_exchange_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    const struct rt_roles *roles;
    const struct rt_communicator *comm;
    /* params and gradient: of a dedicated server too, whose compute is never called. */
    const struct rt_replica *replica;
    struct rt_learning learning;
    struct rt_link_cost cost;
    size_t segment_floats; /* 0: a good size */
};

struct rt_collective_exchange;

rt_status rt_collective_exchange_create(const struct rt_collective_exchange_settings *settings,
                                        struct rt_collective_exchange **collective, struct rt_error *err);
/* Only when the links are closed. NULL is fine. */
void rt_collective_exchange_destroy(struct rt_collective_exchange *collective);

/* To be given to an engine, which is then told to the exchange: need() and settle() wait by it. */
struct rt_engine_part rt_collective_exchange_part(struct rt_collective_exchange *collective);
void rt_collective_exchange_attach(struct rt_collective_exchange *collective, struct rt_engine *engine);
struct rt_exchange rt_collective_exchange_face(struct rt_collective_exchange *collective);

/* Updates that this communicator has ended; after settle() they are done. On the thread that computes. */
uint64_t rt_collective_exchange_update(const struct rt_collective_exchange *collective);
/* Parameters (and state) were loaded as those after so many updates; nothing is under way. */
void rt_collective_exchange_set_update(struct rt_collective_exchange *collective, uint64_t update);

#endif
