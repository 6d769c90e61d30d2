/*
 * The job of a ring: the model and how it is trained, as far as it concerns those who compute. The master
 * makes it from the run file; it travels as a tree and is read through an option table, so that a node
 * checks it as strictly as a person's file is checked.
 */
#ifndef RT_JOB_JOB_H
#define RT_JOB_JOB_H

#include "base/option.h"
#include "nn/loss.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "tensor/device.h"

enum rt_ring_mode {
    RT_RING_EXACT, /* `ring`: the parameters of an update never change under it */
    RT_RING_FLOW,  /* `ring-flow`: an update per micro-batch, never drained; versions are stashed */
};

/* The keys of the tree: input, layers, loss, mode (ring|ring-flow), order (split|1f1b), seed, batch,
 * micro_batch (auto: the planner's choice, the whole batch until it is made), shards, updates, per_epoch,
 * clip_norm, weight_decay (what the optimizer says itself wins), optimizer, lr_schedule, math,
 * evaluate_only, timeout, part and parts (of each batch: where rings share it), served. input, layers, loss
 * and batch must be given. */
struct rt_job {
    struct rt_tree *tree; /* owned: what travels; the rest borrows from it or is made from it */
    const struct rt_tree *input, *layers; /* of the model */
    struct rt_shape in;                   /* of the model: input, read */
    const char *loss;
    int mode;   /* enum rt_ring_mode */
    bool split; /* backward in two parts; false: 1f1b */
    int64_t seed, batch;
    int64_t micro_batch; /* at most batch; -1: not chosen yet; ring-flow: batch */
    int64_t shards;      /* of the whole batch; as many as parts where those do not divide them */
    int64_t part, parts; /* which part of the shards is this ring's, of how many */
    /* Rings side by side, each at its own pace: parameters come from servers (ring/inter_ring.h), who apply
     * the updates, and of the numbers of updates this ring has some. */
    bool with_servers;
    int64_t updates, per_epoch;
    double clip_norm;
    int64_t damp; /* ring-flow: the rate of a stale gradient is divided by (1 + staleness) ^ damp */
    double weight_decay;
    const struct rt_tree *optimizer, *schedule;
    int math;           /* enum rt_math */
    bool evaluate_only; /* no backward will be asked for */
    double timeout;     /* seconds in which a neighbour must make progress when it owes something */

    struct rt_optim *optim; /* made from the above */
    struct rt_schedule lr_schedule;
};

/* tree is taken over, also on failure. Everything is checked but the layers, which rt_model_create reads. */
rt_status rt_job_create(struct rt_tree *tree, struct rt_job **job, struct rt_error *err);
void rt_job_destroy(struct rt_job *job); /* NULL is fine */

/* Rows that a micro-batch has at most. */
size_t rt_job_micro_rows(const struct rt_job *job);

/* Slices of a batch that are this ring's. */
size_t rt_job_slices(const struct rt_job *job);

/* Micro-batches of an update of `rows` examples: each of the shards' slices is cut into parts of micro_batch
 * rows, so that a part never crosses a slice (see learn/step.h). A slice without rows has no part. Where
 * rings share the batch: those of this ring's slices; where those have no rows, there is one micro-batch of
 * none: the ring has a part in every update. */
size_t rt_job_micros(const struct rt_job *job, size_t rows);
/* Part i of them: its rows first..first+rows of the batch, its slice, counted from this ring's first, and
 * where it stands in it. */
struct rt_micro {
    size_t first, rows;
    size_t slice;
    bool first_of_slice, last_of_slice;
};
struct rt_micro rt_job_micro(const struct rt_job *job, size_t batch_rows, size_t i);

#endif
