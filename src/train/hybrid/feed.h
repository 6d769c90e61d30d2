/* What the head of a ring feeds it: its part of every batch, where several rings share each. */
#ifndef RT_TRAIN_HYBRID_FEED_H
#define RT_TRAIN_HYBRID_FEED_H

#include "ring/ring.h"

/* Of epochs that are cut short some batches are left out: update u is of batch rt_hybrid_batch(u). */
struct rt_hybrid_numbering {
    uint64_t per_epoch, batches; /* updates, and batches, of an epoch */
};

struct rt_hybrid_feed {
    struct rt_ring_source whole; /* where whole batches come from */
    size_t part, parts;
    struct rt_hybrid_numbering numbering; /* zeros: batches are numbered as updates are */
    bool sum;                             /* the gradient is the mean over the part, not over the batch */
    /* Whether the ring may begin with this batch; it is asked again when something has come. */
    bool (*may_begin)(void *user, uint64_t batch);
    void *user;
};

/* feed is borrowed. */
struct rt_ring_source rt_hybrid_feed_source(struct rt_hybrid_feed *feed);

uint64_t rt_hybrid_batch(const struct rt_hybrid_numbering *numbering, uint64_t update);

/* Rows of a batch of so many that are the part's. */
size_t rt_hybrid_rows(size_t rows, size_t part, size_t parts);

#endif
