/*
 * A network as a worker's replica (struct rt_replica): it turns tickets into gradients, layer by layer, and
 * tells the exchange before it uses a layer's parameters and when a layer's gradient is final.
 *
 * The gradient of a worker's rows is made as the single device makes that of a batch: the part's share of
 * train.shards, each slice summed in order, the slices added in the binary tree. A run of slices that is no
 * whole subtree has several sums, one for each of its pieces; the sum over the workers then goes on with the
 * same tree. Dropout's masks belong to examples, so it does not matter which worker computes which example.
 */
#ifndef RT_RUN_EXCHANGE_REPLICA_H
#define RT_RUN_EXCHANGE_REPLICA_H

#include "control/engine.h"
#include "exchange/blocking.h"
#include "learn/gradient.h"
#include "learn/gradient_work.h"

struct rt_net_replica_settings {
    struct rt_network *network; /* allocated */
    /* set NULL: it gets its examples from `rows`; count: the examples of the run, in any case */
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    enum rt_target target;
    size_t count;
    /* Waits for the rows of a ticket that are sent to us. RT_OK with x NULL: the exchange has failed. */
    rt_status (*rows)(void *user, uint64_t batch, size_t first, size_t rows, struct rt_received_rows *sent,
                      struct rt_error *err);
    void *user;

    uint64_t seed;
    size_t batch;
    struct rt_slice_part part; /* of each batch: this worker's */
    size_t micro_batch;        /* 0: auto, see rt_train_micro_batch */
    bool shuffle, drop_last;
    bool rising;                  /* spans become ready from the first up, not from the last down */
    bool sum;                     /* gradients are divided by the worker's own rows, not by the batch's */
    size_t bucket;                /* floats: adjacent spans that have at most so many together are joined */
    bool computes;                /* false: a server without a worker: it has blocks and spans only */
    const struct rt_pace *pace;   /* of the device; NULL: it is not emulated */
    struct rt_endpoint *endpoint; /* whose time an emulated device takes; NULL: the clock's */
    enum rt_state between;        /* what the thread does between two tickets */
};

struct rt_net_replica;

/* Borrows everything it is given until it is destroyed. */
rt_status rt_net_replica_create(const struct rt_net_replica_settings *settings,
                                struct rt_net_replica **replica, struct rt_error *err);
void rt_net_replica_destroy(struct rt_net_replica *replica); /* NULL is fine */

struct rt_replica *rt_net_replica_base(struct rt_net_replica *replica);
/* An emulated device waits by the engine, so that the exchange goes on meanwhile. */
void rt_net_replica_attach(struct rt_net_replica *replica, struct rt_engine *engine);

size_t rt_net_replica_micro_batch(const struct rt_net_replica *replica);
/* The clocks of the thread that computes; its first ticket sets them to zero. */
struct rt_states *rt_net_replica_states(struct rt_net_replica *replica);
/* Seconds of no training: between the first ticket and now. */
double rt_net_replica_apart(const struct rt_net_replica *replica);
void rt_net_replica_set_apart(struct rt_net_replica *replica, bool is_apart);
/* Enters a state; returns the one before. */
enum rt_state rt_net_replica_enter(struct rt_net_replica *replica, enum rt_state state);
uint64_t rt_net_replica_samples(const struct rt_net_replica *replica); /* learnt from */

/* Bytes that a replica takes besides the network's own blocks; SIZE_MAX: more than there can be. */
size_t rt_net_replica_bytes(const struct rt_model *model, size_t batch, size_t micro_batch,
                            const struct rt_slice_part *part, bool computes);

#endif
