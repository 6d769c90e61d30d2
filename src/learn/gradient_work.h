/*
 * The gradient of some rows of a batch: examples, forward, loss and backward, one micro-batch after another.
 * Whoever learns from a batch does it here, the trainer of one device as well as a worker who has a part of
 * it. All memory is taken when it is created.
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
    /* Of a data set; zeroed where examples are sent. With single examples a second one takes the successor,
     * and becomes the first. */
    struct rt_row_reader reader, next_feed;
    bool begun;             /* the successor is in the feed, and the first layer has begun with it: */
    uint32_t begun_example; /* this one */
    bool cannot_begin;      /* the first layer is not one that can: not to be tried again */
    bool accuracy;          /* means something */
    float *slot, *losses;
    /* Told that the thread has come to the end of a state (RT_STATE_FORWARD, RT_STATE_BACKWARD). */
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

/* ended and self are the caller's to set. */
rt_status rt_gradient_work_create(const struct rt_gradient_work_settings *settings,
                                  struct rt_gradient_work *work, struct rt_error *err);
void rt_gradient_work_destroy(struct rt_gradient_work *work); /* a zeroed one is fine */

/* The parameters are not those that the last order left: what was begun with them is forgotten. */
void rt_gradient_work_forget(struct rt_gradient_work *work);

/* Examples that are here already, from row `first` of the batch on. */
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
    /* Of the last micro-batch: hears of spans of the gradient, which may then never be stored, and updates
     * the parameters at once. NULL: none. */
    const struct rt_grad_sink *sink;
    /* before: in the first micro-batch; after: in the last. NULL: nobody. */
    const struct rt_layer_watch *watch;
};

/* What the rows said; added to by every order. */
struct rt_gradient_sums {
    double loss; /* in the order of the rows */
    size_t correct;
};

/* RT_DIVERGED when the loss is not finite: nothing was given to the sink then. */
rt_status rt_gradient_work_run(struct rt_gradient_work *work, const struct rt_gradient_order *order,
                               struct rt_gradient_sums *sums, struct rt_error *err);

#endif
