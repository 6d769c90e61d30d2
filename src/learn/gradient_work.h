/*
 * The gradient of some rows of a batch: examples, forward, loss and backward, one micro-batch after another.
 * Used by the trainer of one device and by a worker that has a part of the batch. All memory is allocated
 * when it is created.
 */
#ifndef RT_LEARN_GRADIENT_WORK_H
#define RT_LEARN_GRADIENT_WORK_H

#include "learn/batches.h"
#include "learn/row_reader.h"
#include "metrics/states.h"

struct rt_gradient_work {
    struct rt_network *network; /* borrowed */
    uint64_t seed;
    size_t micro_batch;
    /* Of a data set; zeroed if examples are sent. With single examples a second reader holds the successor,
     * and becomes the first. */
    struct rt_row_reader reader, next_feed;
    bool begun;             /* the successor is in the feed, and the first layer has begun with it: */
    uint32_t begun_example; /* this one */
    bool cannot_begin;      /* the first layer is not one that can: not to be tried again */
    bool accuracy;          /* means something */
    float *slot, *losses;
    /* Called when the thread reaches the end of a state (RT_STATE_FORWARD, RT_STATE_BACKWARD). */
    void (*ended)(void *self, enum rt_state state);
    void *self;
};

struct rt_gradient_work_settings {
    struct rt_network *network;
    const struct rt_dataset *set; /* NULL: examples come with each order */
    const struct rt_scaling *scaling;
    enum rt_target target;
    uint64_t seed;
    size_t micro_batch;
};

/* The caller sets ended and self. */
rt_status rt_gradient_work_create(const struct rt_gradient_work_settings *settings,
                                  struct rt_gradient_work *work, struct rt_error *err);
void rt_gradient_work_destroy(struct rt_gradient_work *work); /* a zeroed one is fine */

/* The parameters have changed since the last order: drops work that was begun with the old ones. */
void rt_gradient_work_forget(struct rt_gradient_work *work);

/* Examples that are in memory already, from row `first` of the batch on. */
struct rt_received_rows {
    size_t first;
    const float *x;
    struct rt_targets targets;
};

struct rt_gradient_order {
    uint64_t update; /* for messages */
    const struct rt_batch *batch;
    size_t first, end;                   /* rows of the batch, at least one */
    float scale;                         /* the gradient is that of the rows' losses, summed, times this */
    const struct rt_received_rows *sent; /* NULL: of the data set */
    float *gradient;
    /* For the last micro-batch: receives spans of the gradient, which may then never be stored, and updates
     * the parameters at once. NULL: none. */
    const struct rt_grad_sink *sink;
    /* before: in the first micro-batch; after: in the last. NULL: none. */
    const struct rt_layer_watch *watch;
};

/* Loss and counts of the rows; every order adds to them. */
struct rt_gradient_sums {
    double loss; /* in the order of the rows */
    size_t correct;
};

/* RT_DIVERGED when the loss is not finite: nothing was given to the sink then. */
rt_status rt_gradient_work_run(struct rt_gradient_work *work, const struct rt_gradient_order *order,
                               struct rt_gradient_sums *sums, struct rt_error *err);

#endif
