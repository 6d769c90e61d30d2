/*
 * How a worker's gradients become everybody's next parameters. The worker computes; what lies between its
 * gradient and the parameters of its next forward is behind this: collectives in which all take part at the
 * same time (exchange/collective/collective_exchange.h), or servers that each worker talks to at its own pace
 * (exchange/server/client.h).
 *
 * Parameters and gradients are cut into spans, in the order of the parameter block: a span is what becomes
 * ready at one time in a backward pass, and what a forward pass needs at one time. With `wfbp` the exchange
 * of a span starts as soon as its gradient exists, and a forward waits for one span, not for all.
 *
 * A backward pass goes down, so the first span's gradient is ready last; but the next forward needs that span
 * first, and nothing is left to do while it travels. A worker may also make all input gradients first and
 * then those of the weights from the first layer up: the same work in another order. A span's exchange then
 * has the gradients of the later spans, and the next forward as far as the span itself, to hide behind.
 */
#ifndef RT_EXCHANGE_EXCHANGE_H
#define RT_EXCHANGE_EXCHANGE_H

#include "control/batch.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_span {
    size_t first, count; /* floats of the block */
};

/* Adjacent spans are joined while the result has at most `floats` floats: tiny layers do not repay a message
 * of their own. Returns how many there are then. */
size_t rt_spans_join(struct rt_span *spans, size_t count, size_t floats);

struct rt_exchange {
    void *self;
    /* The worker begins with a ticket. */
    rt_status (*begin)(void *self, const struct rt_ticket *ticket, struct rt_error *err);
    /* Returns when the parameters of the span may be used for it. After a failure at once: the next end()
     * says so, and the numbers of this ticket are worth nothing. */
    void (*need)(void *self, size_t span);
    /* The span's gradient is final, and the worker is done with the span's parameters. Each span comes once,
     * in the order that the replica names. */
    void (*ready)(void *self, size_t span);
    /* All of them have been. The exchange may still be under way when this returns. */
    rt_status (*end)(void *self, const struct rt_done *done, struct rt_error *err);
    /* Waits until nothing is under way any more: parameters are those after all updates. */
    rt_status (*settle)(void *self, struct rt_error *err);
    void (*destroy)(void *self);
};

/* Who computes the gradients: a network, or a test's function. Both blocks are the exchange's to read, and
 * params its to write, as need() and ready() allow. */
struct rt_replica {
    void *self;
    float *params, *gradient;
    size_t param_count;
    const struct rt_span *spans;
    size_t span_count;
    bool rising; /* spans become ready from the first up; otherwise from the last down */
    /* The gradient of the ticket's examples: the sum over them divided by the rows of the whole batch, so
     * that the sum over the parts is the batch's mean (with reduce=sum: divided by its own rows). Calls need
     * before it uses a span, and ready when a span's gradient is final. RT_DIVERGED: the loss is not finite.
     */
    rt_status (*compute)(void *self, const struct rt_ticket *ticket, const struct rt_exchange *exchange,
                         struct rt_done *done, struct rt_error *err);
};

/* What a worker does with a ticket: begins, computes the gradient, ends. replica->compute NULL: a server
 * without a worker, who takes part in updates by collectives all the same. */
rt_status rt_exchange_learn(const struct rt_exchange *exchange, const struct rt_replica *replica,
                            const struct rt_ticket *ticket, struct rt_done *done, struct rt_error *err);

#endif
