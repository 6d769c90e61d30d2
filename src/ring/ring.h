/*
 * The ring, as seen by its master. The master is node 0: it holds the first layers (and, if the plan says so,
 * the last ones as well), the data and the loss. Every call runs the master's own share of the work while the
 * others do theirs; between two calls the others go on with what they have.
 */
#ifndef RT_RING_RING_H
#define RT_RING_RING_H

#include "base/periods.h"
#include "cluster/cluster.h"
#include "learn/evaluate.h"
#include "learn/model_state.h"
#include "metrics/states.h"
#include "plan/plan.h"
#include "ring/inter_ring.h"
#include "ring/replicas.h"
#include <stdatomic.h>

/* Where the examples come from. Called by the thread that drives the ring. */
struct rt_ring_source {
    void *self;
    /* The examples of update number `update` (from 1): how many, and their indices, which stay as they are
     * until the call for another update. *rows 0: there are none yet (a stream); the ring will be woken. */
    rt_status (*batch)(void *self, uint64_t update, size_t *rows, uint32_t *epoch, const uint32_t **examples,
                       struct rt_error *err);
    void (*inputs)(void *self, const uint32_t *examples, size_t rows, float *x);
    /* Losses of rows outputs, and unless dy is NULL the gradient at the output, of the mean over batch_rows.
     * Adds to *loss and *correct. */
    void (*loss)(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                 float *dy, double *loss, size_t *correct);
};

struct rt_ring_settings {
    const struct rt_job *job;
    const struct rt_plan *plan;
    struct rt_device *device;        /* the master's */
    struct rt_endpoint *endpoint;    /* may be NULL when the master is alone */
    struct rt_link *next, *previous; /* NULL when the master is alone; taken over */
    uint32_t run;
    struct rt_ring_source source;
    const struct rt_pace *pace;  /* of the device; NULL: it is not emulated */
    double timeout;              /* seconds in which a neighbour must make progress; 0: 60 */
    const atomic_int *stop;      /* may be NULL; once it is not 0 a call ends with RT_INTERRUPTED at the next
                                    boundary between updates, or at once in an evaluation */
    const atomic_int *abandon;   /* may be NULL; once it is not 0 the ring fails with RT_INTERRUPTED, soon and
                                    in the middle of whatever it does: its node is to end */
    const atomic_bool *recalled; /* may be NULL; once it is set the ring fails in the same way: another view
                                    of the run is formed */
    /* Told of events that are not of its links; NULL: new connections are refused. */
    void (*stray)(void *user, const struct rt_event *event);
    void *user;
    struct rt_node_names names;      /* of all nodes of the run */
    struct rt_inter_ring inter_ring; /* zeros: there are no other rings */
    /* What the master keeps so that the run survives the loss of a node (ring/replicas.h). It outlives the
     * ring; *replicas is that of the ring before, with which this one begins, or NULL. NULL: nothing is kept.
     * version: see rt_ring_restore; 0: the state comes from elsewhere. */
    struct rt_replicas **replicas;
    bool replicas_on_disk;
    uint64_t version;
    /* ring-flow: updates at which it is drained, so that rt_ring_drain is true when a step returns them. */
    struct rt_periods rests;
};

struct rt_ring;

rt_status rt_ring_create(const struct rt_ring_settings *settings, struct rt_ring **ring,
                         struct rt_error *err);
void rt_ring_destroy(struct rt_ring *ring); /* without a stop before, the others see their links close */

/* Initial or saved numbers for every stage, tensor by tensor (see learn/stage.h) in layer order: read is
 * asked for consecutive floats of the whole model's tensor. update: the version that they are. Call it before
 * the first update, or when all begun updates have been returned; without it all nodes start from the seed.
 */
rt_status rt_ring_load(struct rt_ring *ring, size_t tensors, uint64_t update, rt_state_read read, void *user,
                       struct rt_error *err);

struct rt_ring_update {
    uint64_t update;
    size_t rows;
    double loss; /* summed over the rows in order */
    size_t correct;
    double start, end; /* rt_clock_wall; where updates overlap, from the end of the one before */
};

/* One update: returns when the master's own layers are updated. RT_DIVERGED when the loss is not finite: then
 * no node applies that update. */
rt_status rt_ring_step(struct rt_ring *ring, struct rt_ring_update *update, struct rt_error *err);

/* For several rings: a ring that follows the first of them begins after so many updates. Before its first
 * step; the state comes from the first. Where each has its own batches: before every step. */
void rt_ring_follow(struct rt_ring *ring, uint64_t update);
/* Where each has its own batches, and this ring has none at present: returns when all of it rests (see
 * ring/inter_ring.h). A ring that rests already does so again: its parameters are then the newest. */
rt_status rt_ring_rest(struct rt_ring *ring, struct rt_error *err);

/* Lets the ring go on between updates until test is true, at most until the given time (of the endpoint;
 * INFINITY: for ever). */
rt_status rt_ring_wait(struct rt_ring *ring, bool (*test)(void *user), void *user, double until,
                       struct rt_error *err);

/* ring-flow begins updates before the ones before them are done. So before an evaluation, a snapshot or the
 * stop: while (!rt_ring_drain(ring)) rt_ring_step(...). It holds back what has not begun and says whether
 * every update that has begun has been returned by a step; such steps do not heed settings.stop. The first
 * step after that goes on as before. In `ring` it is always true. */
bool rt_ring_drain(struct rt_ring *ring);

/* Forward only, with the parameters as they are after the last step: `examples` examples in parts of at most
 * the job's micro_batch. inputs fills in the given rows, outputs takes the network's outputs in order. */
rt_status rt_ring_evaluate(struct rt_ring *ring, size_t examples, const struct rt_forward_pass *pass,
                           struct rt_error *err);

/* All stages keep an image of the parameters as they are after the last step; the ring goes on. RT_DIVERGED
 * when a number is not finite. */
rt_status rt_ring_snapshot(struct rt_ring *ring, struct rt_error *err);
/* Waits until all nodes have taken the image. */
rt_status rt_ring_snapshot_finish(struct rt_ring *ring, struct rt_error *err);
/* Whether the newest snapshot is of the state as it is, where that is known. */
bool rt_ring_is_imaged(const struct rt_ring *ring);
/* Where there are replicas a snapshot is replicated from then on: the version (updates) whose replicas were
 * complete last; 0: none. */
uint64_t rt_ring_replicated(const struct rt_ring *ring);
/* In a new ring, before its first update: the state is that of settings.version again. holder: [layers], the
 * node that has a layer's state of that version; a node that holds the layer itself has taken it already. */
rt_status rt_ring_restore(struct rt_ring *ring, const uint16_t *holder, struct rt_error *err);
/* Bytes of state that restore and load have moved between nodes. */
uint64_t rt_ring_moved(const struct rt_ring *ring);
/* The image, tensor by tensor in layer order: write is given consecutive floats. begin asks for the tensors
 * from `first` to `first + tensors`; pieces arrive during later calls of any kind; finish waits for what is
 * missing. */
rt_status rt_ring_collect_begin(struct rt_ring *ring, size_t first, size_t tensors, rt_state_write write,
                                void *user, struct rt_error *err);
bool rt_ring_collect_done(const struct rt_ring *ring);
rt_status rt_ring_collect_finish(struct rt_ring *ring, struct rt_error *err);

/* A row for every node, the master's first; asks round the ring. rows: [plan->nodes]. */
rt_status rt_ring_metrics(struct rt_ring *ring, struct rt_metrics_row *rows, struct rt_error *err);
/* The same without waiting: those that came last; asks for new ones once a second. false: none yet. */
bool rt_ring_metrics_recent(struct rt_ring *ring, struct rt_metrics_row *rows);

/* After a failure: the number of the node that is gone, does not answer or sent invalid data; RT_NODE_NONE:
 * it was another failure. why, unless NULL: the reason without its name, if there is one. */
uint16_t rt_ring_lost(const struct rt_ring *ring, struct rt_error *why);

/* When another view is to be formed: tells the others, so that they wait for it, and gives them a moment to
 * hear it. Only destroy comes after it. */
void rt_ring_give_up(struct rt_ring *ring);

/* When the run ends before its end: tells the others, so that they do not wait for the master. Nothing after
 * stop. Only destroy comes after it. */
void rt_ring_abandon(struct rt_ring *ring);

/* The end, in good order: every node has done all its work when it returns. */
rt_status rt_ring_stop(struct rt_ring *ring, struct rt_error *err);

uint64_t rt_ring_version(const struct rt_ring *ring); /* updates applied */
bool rt_ring_is_busy(const struct rt_ring *ring);     /* an update has begun, and was not returned */

/* From now on the master's time counts as training, or no longer does. */
void rt_ring_set_apart(struct rt_ring *ring, bool is_apart);

#endif
