/* Waiting for an exchange; see blocking.h. */
#include "exchange/blocking.h"

#include "base/cores.h"

static bool blocking_has(void *self) {
    const struct rt_blocking_exchange *blocking = self;
    return blocking->exchange.has(blocking->exchange.self, blocking->awaited);
}

static bool blocking_rests(void *self) {
    const struct rt_blocking_exchange *blocking = self;
    return blocking->exchange.rests(blocking->exchange.self);
}

static rt_status blocking_wait(struct rt_blocking_exchange *blocking, bool (*test)(void *self),
                               struct rt_error *err) {
    const rt_status status =
        rt_engine_wait_as(blocking->engine, blocking->states, RT_STATE_WAIT_BARRIER, test, blocking, err);
    blocking->failed = status != RT_OK;
    return status;
}

/* The engine may have no other core, and all wait for what it does now. */
static void blocking_leave(struct rt_blocking_exchange *blocking) {
    rt_engine_leave(blocking->engine);
    if (blocking->exchange.urgent)
        rt_core_give_way();
}

void rt_blocking_need(struct rt_blocking_exchange *blocking, size_t span) {
    const struct rt_exchange *exchange = &blocking->exchange;
    struct rt_error err;
    while (!blocking->failed) {
        const ptrdiff_t due = exchange->due ? exchange->due(exchange->self, span) : (ptrdiff_t)span;
        if (due == RT_NO_SPAN)
            return;
        blocking->awaited = (size_t)due;
        if (blocking_wait(blocking, blocking_has, &err) != RT_OK)
            return;
        if (exchange->take)
            exchange->take(exchange->self, (size_t)due);
        if ((size_t)due == span)
            return;
    }
}

void rt_blocking_ready(struct rt_blocking_exchange *blocking, size_t span) {
    const struct rt_exchange *exchange = &blocking->exchange;
    if (blocking->failed || (exchange->give && !exchange->give(exchange->self, span)))
        return;
    rt_engine_enter(blocking->engine);
    exchange->ready(exchange->self, span);
    blocking_leave(blocking);
}

static rt_status blocking_begin(struct rt_blocking_exchange *blocking, const struct rt_ticket *ticket,
                                struct rt_error *err) {
    const struct rt_exchange *exchange = &blocking->exchange;
    if (exchange->begin) {
        rt_engine_enter(blocking->engine);
        exchange->begin(exchange->self, ticket);
        rt_engine_leave(blocking->engine);
    }
    return rt_engine_status(blocking->engine, err);
}

static rt_status blocking_end(struct rt_blocking_exchange *blocking, const struct rt_done *done,
                              struct rt_error *err) {
    const struct rt_exchange *exchange = &blocking->exchange;
    RT_TRY(rt_engine_status(blocking->engine, err));
    rt_engine_enter(blocking->engine);
    exchange->end(exchange->self, done);
    blocking_leave(blocking);
    return rt_engine_status(blocking->engine, err);
}

rt_status rt_blocking_learn(struct rt_blocking_exchange *blocking, const struct rt_replica *replica,
                            const struct rt_ticket *ticket, struct rt_done *done, struct rt_error *err) {
    *done = (struct rt_done){.batch = ticket->batch};
    RT_TRY(blocking_begin(blocking, ticket, err));
    if (replica->compute)
        RT_TRY(replica->compute(replica->self, ticket, blocking, done, err));
    return blocking_end(blocking, done, err);
}

rt_status rt_blocking_settle(struct rt_blocking_exchange *blocking, struct rt_error *err) {
    const struct rt_exchange *exchange = &blocking->exchange;
    RT_TRY(rt_engine_status(blocking->engine, err));
    if (exchange->rest) {
        rt_engine_enter(blocking->engine);
        exchange->rest(exchange->self, false);
        rt_engine_leave(blocking->engine);
    }
    for (size_t i = 0; exchange->take && i < blocking->span_count; i++)
        rt_blocking_need(blocking, i);
    return blocking_wait(blocking, blocking_rests, err);
}
