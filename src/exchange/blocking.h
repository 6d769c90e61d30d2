/*
 * An exchange for a worker whose thread computes a whole batch: a thin wrapper that waits by the engine where
 * exchange.h only says whether one could go on. The thread that computes calls these; the time that it waits
 * counts as such on its clock.
 */
#ifndef RT_EXCHANGE_BLOCKING_H
#define RT_EXCHANGE_BLOCKING_H

#include "exchange/exchange.h"

struct rt_blocking_exchange {
    struct rt_exchange exchange; /* its part is one of the engine's */
    size_t span_count;
    struct rt_engine *engine;
    struct rt_states *states; /* the clock of the thread that computes; NULL: none is kept */
    size_t awaited;           /* the span, in a wait */
    bool failed;
};

/* Returns when the span's parameters may be used and its gradient be written. After a failure at once: the
 * next end() says so, and what is computed from this ticket is worth nothing. */
void rt_blocking_need(struct rt_blocking_exchange *blocking, size_t span);
/* The span's gradient is final, and the worker is done with the span's parameters. */
void rt_blocking_ready(struct rt_blocking_exchange *blocking, size_t span);

/* What a worker does with a ticket: begins, computes the gradient, ends. replica->compute NULL: a server
 * without a worker, which takes part in updates by collectives all the same. The exchange may still be under
 * way when this returns. */
rt_status rt_blocking_learn(struct rt_blocking_exchange *blocking, const struct rt_replica *replica,
                            const struct rt_ticket *ticket, struct rt_done *done, struct rt_error *err);
/* Waits until nothing is under way any more: parameters are those after all updates. */
rt_status rt_blocking_settle(struct rt_blocking_exchange *blocking, struct rt_error *err);

#endif
