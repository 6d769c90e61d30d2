/*
 * An exchange: how the gradients of all workers become the next parameters. The worker computes; what lies
 * between its gradient and the parameters of its next forward is behind struct rt_exchange. There are three
 * implementations: collectives, in which all workers take part at the same time
 * (exchange/collective/collective_exchange.h); servers, to which each worker talks at its own pace
 * (exchange/server/client.h); and groups, each of which is one worker to the servers (exchange/nested.h).
 * Which one a rank gets is the strategy's decision (exchange/strategy.h), carried out by exchange/member.h.
 *
 * Parameters and gradients are cut into spans, in the order of the parameter block: a span is what becomes
 * ready at one time in a backward pass, and what a forward pass needs at one time. With `wfbp` the exchange
 * of a span starts as soon as its gradient exists, and a forward waits for one span, not for all. A backward
 * pass goes down, so the first span's gradient is ready last; but the next forward needs that span first, and
 * nothing is left to do while it travels. A worker may also make all input gradients first and then those of
 * the weights from the first layer up: the same work in another order. A span's exchange then has the
 * gradients of the later spans, and the next forward as far as the span itself, to hide behind.
 *
 * No function here waits. Two kinds of workers use it:
 *   - one whose thread computes a whole batch at a time waits by the blocking wrapper (exchange/blocking.h);
 *   - the engine of a ring (ring/flow.h), which never waits, asks has() before it goes on. So `hybrid` is a
 *     ring whose stages have an exchange.
 *
 * What else fits behind it:
 *   - updates on local data with averaging every so many steps: end() does nothing but every n-th time, when
 *     the parameters are what is exchanged; between two of them has() is always true and give() takes the
 *     worker's own step, as the server client does for Downpour's n_fetch;
 *   - gossip between random pairs: an exchange of its own, which chooses the partner of a step from the
 *     ticket's number (both ends draw the same pairs), and has() when the partner's span has come;
 *   - compressed spans: give() turns the gradient into what is sent and keeps the rest for the next step;
 *     take() turns what came into floats. Both run on the thread that computes, beside the exchange. The code
 *     that adds compressed values on the way (a collective's ADD, a server) and their type on the wire are
 *     new;
 *   - workers with data of their own: a ticket says how much to learn, not from what: the replica decides
 *     what the ticket's batch is. rt_done tells how many rows it was, and the server weighs by them.
 * Such a strategy is not the same as one device bit by bit, or cannot join rings; it says so by its fields
 * `exact` and `no_rings` (exchange/strategy.h), and the tests over all strategies go by these.
 */
#ifndef RT_EXCHANGE_EXCHANGE_H
#define RT_EXCHANGE_EXCHANGE_H

#include "control/batch.h"
#include "control/engine.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_span {
    size_t first, count; /* floats of the block */
};

/* Adjacent spans are joined while the result has at most `floats` floats: tiny layers do not repay a message
 * of their own. Returns how many there are then. */
size_t rt_spans_join(struct rt_span *spans, size_t count, size_t floats);

enum { RT_NO_SPAN = -1 };

struct rt_exchange {
    void *self;
    /* Takes the events of its links and sends what can be sent: to be given to an engine. An owner without an
     * engine passes it the events, and calls turn() after begin, ready, end or rest. */
    struct rt_engine_part part;

    /* ---- inside the engine (between rt_engine_enter and rt_engine_leave, where there is one) ---- */

    /* The worker begins with a ticket. May be NULL. */
    void (*begin)(void *self, const struct rt_ticket *ticket);
    /* Whether the exchange is done with a span: its parameters may be used, and its gradient be written. */
    bool (*has)(const void *self, size_t span);
    /* The span's gradient is final, and the worker is done with the span's parameters. Each span comes once
     * for a ticket, in the order that the replica names. */
    void (*ready)(void *self, size_t span);
    /* All of them are, also those that were not told. The exchange may still be under way. */
    void (*end)(void *self, const struct rt_done *done);
    /* There is no ticket: comes to rest. No other worker then waits for this one, and its parameters are
     * those after all updates. anew: also if it rests already, to have the newest. May be NULL: it does
     * anyway. */
    void (*rest)(void *self, bool anew);
    /* Whether nothing is under way any more. */
    bool (*rests)(const void *self);

    /* ---- by the thread that computes, outside of the engine: what takes its time ---- */

    /* Before a span is used: the span that take() must be called for next, when the exchange has it; others
     * may come first while this one is under way. RT_NO_SPAN: none. Both NULL: has() is enough. */
    ptrdiff_t (*due)(const void *self, size_t span);
    void (*take)(void *self, size_t span);
    /* The span's gradient is final: does with it what the worker itself has to do. Whether the exchange wants
     * to hear of it by ready(); if not, end() is enough. NULL: it always does. */
    bool (*give)(void *self, size_t span);
    /* All others wait for what a worker gives: it lets the engine's thread go first on its core. */
    bool urgent;
};

struct rt_blocking_exchange;

/* The worker that computes gradients: a network, or a function of a test. Both blocks are the exchange's to
 * read, and params its to write, as has() and ready() allow. */
struct rt_replica {
    void *self;
    float *params, *gradient;
    size_t param_count;
    const struct rt_span *spans;
    size_t span_count;
    /* [span_count] where the gradients of spans do not lie in one block; NULL: at gradient + first. Only an
     * exchange that gives sums back reads it. */
    float *const *gradients;
    /* Where a worker has several pieces of the batch's tree of slices (base/slices.h): `gradient` is the sum
     * of the first, these are the others', [more_pieces] blocks as large. */
    float *const *pieces;
    size_t more_pieces;
    bool rising; /* spans become ready from the first up; otherwise from the last down */
    /* The gradient of the ticket's examples: the sum over them divided by the rows of the whole batch, so
     * that the sum over the parts is the batch's mean (with reduce=sum: divided by its own rows). Waits for
     * each span before it uses it, and tells when a span's gradient is final (exchange/blocking.h).
     * RT_DIVERGED: the loss is not finite. NULL: a server without a worker, or a worker that does not block.
     */
    rt_status (*compute)(void *self, const struct rt_ticket *ticket, struct rt_blocking_exchange *exchange,
                         struct rt_done *done, struct rt_error *err);
};

#endif
