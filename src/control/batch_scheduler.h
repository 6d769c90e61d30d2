/*
 * The batch scheduler decides which worker gets which batch, and collects the updates. The master of a run
 * has one. It knows neither links nor networks: remote workers (or whole rings) are behind one interface, the
 * master's own worker is behind another.
 *
 * Two threads use it. The one that computes takes steps; the one that takes the events gives batches as soon
 * as results have come, so no worker waits while the master's own worker computes. Their owner guards the
 * shared state; "inside" means that the guard is held.
 */
#ifndef RT_CONTROL_BATCH_SCHEDULER_H
#define RT_CONTROL_BATCH_SCHEDULER_H

#include "base/periods.h"
#include "control/batch.h"

struct rt_scheduler;

/* The remote workers, by rank as in the roles, from 1; rank 0 is the master's own worker. All functions are
 * called inside and never wait. */
struct rt_scheduler_workers {
    void *self;   /* NULL: the master is alone, and nothing else is used */
    size_t ahead; /* batches that each can hold at a time */
    /* Gives a batch to learn from; false: it has all that it may hold, or has done so much that has yet to be
     * taken. No more than RT_TICKET_RESULTS (control/coordinator.h) are held or wait to be taken at a time.
     */
    bool (*give)(void *self, uint16_t rank, uint64_t batch);
    size_t (*held)(const void *self, uint16_t rank);               /* batches given and not done */
    size_t (*waiting)(const void *self, uint16_t rank);            /* results that were not taken */
    bool (*take)(void *self, uint16_t rank, struct rt_done *done); /* the oldest; false: none */
    void (*flush)(void *self); /* what was given goes out at once, not with the next event */
};

/* The master's own worker, and how its thread waits. */
struct rt_scheduler_own {
    void *self;
    struct rt_batch_worker worker; /* not called inside */
    /* Waits until test, called inside, is true. */
    rt_status (*await)(void *self, bool (*test)(void *user), void *user, struct rt_error *err);
    void (*enter)(void *self);
    void (*leave)(void *self);
    double (*now)(const void *self); /* seconds; also inside */
};

struct rt_scheduler_settings {
    struct rt_scheduler_workers workers;
    struct rt_scheduler_own own;
    const struct rt_roles *roles; /* borrowed */
    bool servers;                 /* gradients are judged by servers, one at a time; false: by collectives */
    bool asynchronous;            /* then: every batch is one worker's; false: all share each batch */
    /* A server on the master sees every gradient, one for each batch, and says what became of it
     * (rt_scheduler_judged). Rounds need that. */
    bool tracks;
    double warm_start;  /* part of the first epoch in which the first worker trains alone, if asynchronous */
    uint64_t updates;   /* of the run */
    uint64_t batches;   /* of a whole epoch */
    uint64_t per_epoch; /* those that are learnt from: fewer where epochs are cut short */
    struct rt_periods rests; /* updates after which the parameters may have to stand still */
};

rt_status rt_scheduler_create(const struct rt_scheduler_settings *settings, struct rt_scheduler **scheduler,
                              struct rt_error *err);
void rt_scheduler_destroy(struct rt_scheduler *scheduler); /* NULL is fine */

/* ---- by the thread that computes, not inside ---- */

/* One update: the sum of the results of all its workers. */
rt_status rt_scheduler_step(struct rt_scheduler *scheduler, struct rt_done *sum, struct rt_error *err);
/* Updates that steps have returned, those before the run counted. */
uint64_t rt_scheduler_returned(const struct rt_scheduler *scheduler);
/* Whether every update that has begun has been returned. If not, steps finish them, and begin no others until
 * it has been true. */
bool rt_scheduler_drain(struct rt_scheduler *scheduler);
/* Sets the state to that after so many updates; nothing is in progress. */
void rt_scheduler_set(struct rt_scheduler *scheduler, uint64_t update);

/* ---- inside ---- */

/* Gives all batches that may be given. Call it when results have come. */
void rt_scheduler_dispense(struct rt_scheduler *scheduler);
/* Whether every batch is one worker's and an epoch ends when enough of it has been learnt from. Then a worker
 * may be late when nothing has come for some time: see rt_scheduler_look_again. */
bool rt_scheduler_cuts(const struct rt_scheduler *scheduler);
void rt_scheduler_look_again(struct rt_scheduler *scheduler);
/* Of the server on the master, see exchange/server/server.h; user: the batch scheduler. */
void rt_scheduler_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
void rt_scheduler_judged(void *user, const struct rt_push *push, enum rt_verdict verdict);

#endif
