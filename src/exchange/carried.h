/*
 * The exchange by collectives: everybody takes part in every update, span by span, in the same order. Where
 * an optimizer lives is in the moves (RT_MOVE_APPLY); where every worker has one, a span's update is made by
 * the thread that computes, when it next needs the span.
 */
#ifndef RT_EXCHANGE_CARRIED_H
#define RT_EXCHANGE_CARRIED_H

#include "exchange/carrier.h"
#include "exchange/engine.h"
#include "exchange/way.h"
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
     * thread. Both are called by the thread that computes where the way is replicated, otherwise by the one
     * that takes the events. */
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

struct rt_carried_settings {
    const struct rt_way *way;
    const struct rt_way_options *options;
    const struct rt_roles *roles;
    const struct rt_party *party;
    /* params and gradient: of a dedicated server too, whose compute is never called. */
    const struct rt_replica *replica;
    struct rt_learning learning;
    struct rt_link_cost cost;
    size_t segment_floats; /* 0: a good size */
};

struct rt_carried;

rt_status rt_carried_create(const struct rt_carried_settings *settings, struct rt_carried **carried,
                            struct rt_error *err);
/* Only when the links are closed. NULL is fine. */
void rt_carried_destroy(struct rt_carried *carried);

/* To be given to an engine, which is then told to the exchange: need() and settle() wait by it. */
struct rt_engine_part rt_carried_part(struct rt_carried *carried);
void rt_carried_attach(struct rt_carried *carried, struct rt_engine *engine);
struct rt_exchange rt_carried_exchange(struct rt_carried *carried);

/* Updates that this party has ended; after settle() they are done. On the thread that computes. */
uint64_t rt_carried_update(const struct rt_carried *carried);
/* Parameters (and state) were loaded as those after so many updates; nothing is under way. */
void rt_carried_set_update(struct rt_carried *carried, uint64_t update);

#endif
