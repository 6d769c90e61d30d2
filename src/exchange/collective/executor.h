/*
 * Carries out lists of operations (exchange/collective/collective.h) over the links of a communicator.
 *
 * A load is a span of parameters with its operations; it is carried once per update. Loads are given all at
 * once, before the first update, so that all memory is there; every participant has the same loads in the
 * same order. rt_executor_start says that a load's own gradient is there; loads are started in their order.
 *
 * A load is cut into segments so that a segment can be sent on while the next arrives. For each segment its
 * operations happen in the order of the list; different segments, and different loads, do not wait for one
 * another except on a link, where frames keep the order (load, operation, segment): so both ends know,
 * without asking, which frame comes next and where it belongs, and what replaces parameters arrives in place.
 * Parameters travel on RT_CHANNEL_FIRST, gradients on RT_CHANNEL_SECOND.
 *
 * Nothing here waits or owns a thread: rt_executor_event takes in what happened and does what has become
 * possible. Use it on the thread that takes the endpoint's events.
 */
#ifndef RT_EXCHANGE_COLLECTIVE_EXECUTOR_H
#define RT_EXCHANGE_COLLECTIVE_EXECUTOR_H

#include "control/communicator.h"
#include "exchange/collective/collective.h"

struct rt_load_settings {
    struct rt_collective collective; /* taken over */
    float *gradient;                 /* the span's first float; NULL where no operation names it */
    float *params;
    float *const *pieces; /* [more_pieces] of the gradient, in the buffers from RT_BUFFER_SPARE on: blocks, */
    size_t more_pieces;   /* in which the span begins at offset */
    size_t count;
    size_t offset; /* of the span, for apply */
};

struct rt_executor_settings {
    const struct rt_communicator *comm;
    const struct rt_load_settings *loads;
    size_t load_count;
    size_t segment_floats; /* 0: a good size */
    /* RT_OP_APPLY: the gradient of `count` parameters from `offset` on is final. May be NULL where no list
     * has that operation. */
    void (*apply)(void *user, size_t offset, size_t count, const float *gradient);
    void *user;
};

struct rt_executor;

/* The operations of the loads are taken over, also on failure. */
rt_status rt_executor_create(const struct rt_executor_settings *settings, struct rt_executor **executor,
                             struct rt_error *err);
/* Only when the links are closed: receives stay posted on them for what comes next. */
void rt_executor_destroy(struct rt_executor *executor); /* NULL is fine */

/* The next load in turn begins: load k of the update for the k-th call, then the first of the next update. */
void rt_executor_start(struct rt_executor *executor);
/* Loads that have been carried to their end, ever rising: load k of update u (from 0) is done when this is
 * above u * load_count + k. Loads end in order. */
uint64_t rt_executor_done(const struct rt_executor *executor);
uint64_t rt_executor_started(const struct rt_executor *executor);

/* Whether the event was one of its frames; if so it has been taken in. A frame that does not fit what is
 * expected fails, naming the peer. RT_EVENT_CLOSED of a link is the owner's. */
bool rt_executor_event(struct rt_executor *executor, const struct rt_event *event, rt_status *status,
                       struct rt_error *err);

/* The rank that we wait for: the sender of the frame that holds up the oldest load. Of several, the one whose
 * operation comes first in the list. UINT16_MAX: none. */
uint16_t rt_executor_waits_for(const struct rt_executor *executor);

size_t rt_executor_bytes(const struct rt_executor *executor); /* memory taken */

#endif
