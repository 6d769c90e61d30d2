/*
 * Types shared by the batch scheduler and the workers: a ticket, its result, the roles of the nodes, and the
 * server's verdict on a gradient. No links and no floats.
 */
#ifndef RT_CONTROL_BATCH_H
#define RT_CONTROL_BATCH_H

#include "base/slices.h"
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A batch, or a part of one, assigned to a worker. batch counts from 1 over the whole run, as on one device,
 * and determines the examples. Synchronous workers compute a part of the batch, asynchronous ones all of it.
 */
struct rt_ticket {
    uint64_t batch;
    size_t part, parts; /* which of those who share it; what rows these are, the worker knows */
};

/* A worker's result for a ticket. */
struct rt_done {
    uint64_t batch;
    uint64_t rows, correct;
    double loss; /* summed over the rows in order */
};

/* The worker of this node. Called by the thread that computes. */
struct rt_batch_worker {
    void *self;
    /* Learns from its part of a batch, or takes part in its exchange with nothing. NULL: it is given none. */
    rt_status (*learn)(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err);
    /* The worker has become idle: no bound or round waits for it. NULL: it is never idle. */
    rt_status (*settle)(void *self, struct rt_error *err);
};

/* The roles of a run's nodes, by rank; the master is 0. */
struct rt_roles {
    size_t nodes;
    size_t servers;         /* ranks 0 .. servers-1 serve; 0: every worker has the optimizer */
    size_t workers;         /* of them: */
    const uint16_t *worker; /* [workers] their ranks, rising */
    /* [workers] where each has its own number of a batch's slices: which. NULL: equal parts. */
    const struct rt_slice_run *runs;
};
/* The index of a rank among the workers; roles->workers: it is not a worker. */
size_t rt_roles_place(const struct rt_roles *roles, uint16_t rank);

enum rt_verdict { RT_VERDICT_APPLY, RT_VERDICT_GATHER, RT_VERDICT_HOLD, RT_VERDICT_DROP };

/* A gradient that has come. */
struct rt_push {
    size_t worker;    /* place among the workers */
    uint64_t batch;   /* whose examples */
    uint64_t base;    /* version of the parameters that it was made with */
    uint64_t clock;   /* gradients of the worker that counted before it */
    uint64_t arrival; /* a number that rises with arrival */
    uint32_t rows;
    const float *gradient; /* of the server's range */
};

/* Gradients are counted by staleness, the updates between read and apply; the last bin: that many or more. */
enum { RT_STALENESS_BINS = 64 };

#endif
