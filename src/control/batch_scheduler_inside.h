/* What the files of a batch scheduler share; see batch_scheduler.h. */
#ifndef RT_CONTROL_BATCH_SCHEDULER_INSIDE_H
#define RT_CONTROL_BATCH_SCHEDULER_INSIDE_H

#include "control/batch_scheduler.h"
#include "control/coordinator.h"

/* Rounds whose results are kept until a step returns them: so far the others may be ahead of a master that
 * computes. */
enum { RT_SCHEDULER_ROUNDS = 64 };

/* The verdicts of the master's server on one worker's gradients, in order: gradient n, counted from 0,
 * belongs to result n. No worker has more results waiting to be taken than there are entries. */
struct rt_outcomes {
    uint64_t judged, taken; /* gradients; results that were taken */
    bool dropped[RT_TICKET_RESULTS];
    uint64_t round; /* the last one that a gradient of it is in */
};

/* Guarded by the owner. Updates are counted from 1, and so are the batches they are made of. */
struct rt_scheduler {
    struct rt_scheduler_settings settings;
    uint16_t count; /* ranks, the master's own counted */
    bool asynchronous;
    size_t place; /* index of the master's own worker among the workers; roles->workers: none */
    bool works;

    uint64_t returned; /* updates that steps have returned */
    uint64_t given;    /* the last one that was given to a worker */
    uint64_t limit;    /* none above it is given */
    uint64_t warm;     /* up to this one only the first worker gets any */
    bool draining;
    uint64_t computed;     /* by collectives: updates that the master's own worker has given its part of */
    struct rt_done own[2]; /* what it said of the last two */
    uint16_t turn;         /* who is asked for results first */
    /* Where the server on the master sees every gradient, one for each batch: */
    struct rt_outcomes *outcomes; /* [count] */
    uint64_t *tickets;            /* [count] tickets that each rank was given */
    uint64_t rounds;              /* that are complete */
    bool *in_round;               /* [RT_SCHEDULER_ROUNDS][workers] whose gradients are in it */
    struct rt_done *results;      /* [RT_SCHEDULER_ROUNDS][workers] */
    /* and where every batch is one worker's: whose gradients came to something, in their order, ever rising,
     * [count * RT_TICKET_RESULTS]; and results of the master's own worker, ever rising. */
    uint16_t *line;
    uint64_t lined, client;
    uint64_t made;
    struct rt_done waiting[RT_TICKET_RESULTS];
    /* Where every batch is one worker's and epochs are cut short: the epoch whose batches are given, from 0;
     * how many of them were; gradients that came to something. */
    uint64_t epoch, begun, applied;
    double since, heard; /* when its first batch was given; when a gradient last came to something */
    double usual;        /* seconds that a batch takes a worker, about; 0: not known */
};

/* ---- batch_scheduler.c; inside ---- */

/* The batch of an update, as one device would count it: an epoch that was cut short leaves some out. */
uint64_t rt_scheduler_batch(const struct rt_scheduler *scheduler, uint64_t update);
/* The first update from this one on after which the parameters may have to stand still. */
uint64_t rt_scheduler_next_rest(const struct rt_scheduler *scheduler, uint64_t update);
/* Allows the tickets of the next update, and of up to `ahead` updates that may follow it at once. */
void rt_scheduler_open(struct rt_scheduler *scheduler, uint64_t ahead);
/* The batch that the master's own worker is to learn from, where every batch is one worker's; 0: none. */
uint64_t rt_scheduler_own_batch(struct rt_scheduler *scheduler);
/* Entry `number` of the line. */
uint16_t *rt_scheduler_in_line(const struct rt_scheduler *scheduler, uint64_t number);
/* [workers] Whose gradients are in the round of an update. */
bool *rt_scheduler_round(const struct rt_scheduler *scheduler, uint64_t update);

#endif
