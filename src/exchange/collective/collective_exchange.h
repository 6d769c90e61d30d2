/*
 * The exchange by collectives: all workers take part in every update, span by span, in the same order. Where
 * an optimizer lives is in the operations (RT_OP_APPLY); where every worker has one, a span's update is made
 * by the thread that computes, when it next needs the span (take).
 */
#ifndef RT_EXCHANGE_COLLECTIVE_COLLECTIVE_EXCHANGE_H
#define RT_EXCHANGE_COLLECTIVE_COLLECTIVE_EXCHANGE_H

#include "exchange/collective/executor.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "optim/updater.h"

struct rt_collective_exchange_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    const struct rt_roles *roles;
    const struct rt_communicator *comm;
    /* params and gradient: of a dedicated server too, whose compute is never called. */
    const struct rt_replica *replica;
    struct rt_updater updater;
    struct rt_states *clock; /* of the thread that computes; NULL: none is kept */
    struct rt_link_cost cost;
    size_t segment_floats; /* 0: a good size */
    /* The sum of the gradients is returned in place instead of parameters, and the worker applies it. Each
     * span is exchanged as if it were all, so the order of additions does not depend on how the parameters
     * are cut. The updater is not used. */
    bool sums;
};

struct rt_collective_exchange;

rt_status rt_collective_exchange_create(const struct rt_collective_exchange_settings *settings,
                                        struct rt_collective_exchange **collective, struct rt_error *err);
/* Only when the links are closed. NULL is fine. */
void rt_collective_exchange_destroy(struct rt_collective_exchange *collective);

struct rt_exchange rt_collective_exchange(struct rt_collective_exchange *collective);

/* Updates that this worker has ended; at rest they are done. On the thread that computes. */
uint64_t rt_collective_exchange_update(const struct rt_collective_exchange *collective);
/* Inside the engine: parameters (and state) were loaded as those after so many updates; nothing is under way.
 */
void rt_collective_exchange_set_update(struct rt_collective_exchange *collective, uint64_t update);

#endif
