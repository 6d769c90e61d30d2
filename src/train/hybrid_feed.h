/* What the head of a ring feeds it: its part of every batch, where several rings share each. */
#ifndef RT_TRAIN_HYBRID_FEED_H
#define RT_TRAIN_HYBRID_FEED_H

#include "train/supply.h"

struct rt_hybrid_feed {
    struct rt_supply supply;
    struct rt_ring_source whole; /* of the supply */
    size_t part, parts;
    bool sum; /* the gradient is the mean over the part, not over the batch */
    /* Whether the ring may begin with a batch of so many rows; it is asked again when something has come. */
    bool (*may_begin)(void *user, uint64_t batch);
    void *user;
};

rt_status rt_hybrid_feed_open(const struct rt_lesson *lesson, size_t micro_rows, struct rt_endpoint *endpoint,
                              struct rt_hybrid_feed *feed, struct rt_error *err);
void rt_hybrid_feed_close(struct rt_hybrid_feed *feed); /* a zeroed one is fine */
struct rt_ring_source rt_hybrid_feed_source(struct rt_hybrid_feed *feed);

/* Rows of a batch of so many that are the part's. */
size_t rt_hybrid_rows(size_t rows, size_t part, size_t parts);

#endif
