/* The input pipeline of a ring's leader: its part of every batch, where several rings share each. */
#ifndef RT_RUN_HYBRID_PART_PIPELINE_H
#define RT_RUN_HYBRID_PART_PIPELINE_H

#include "ring/ring.h"

/* Of epochs that are cut short some batches are left out: update u is of batch rt_hybrid_batch(u). */
struct rt_hybrid_numbering {
    uint64_t per_epoch, batches; /* updates, and batches, of an epoch */
};

struct rt_part_pipeline {
    struct rt_ring_source whole; /* where whole batches come from */
    size_t part, parts;
    struct rt_hybrid_numbering numbering; /* zeros: batches are numbered as updates are */
    bool sum;                             /* the gradient is the mean over the part, not over the batch */
    /* Whether the ring may begin with this batch; it is asked again when something has come. */
    bool (*may_begin)(void *user, uint64_t batch);
    void *user;
};

/* feed is borrowed. */
struct rt_ring_source rt_part_pipeline_source(struct rt_part_pipeline *part_pipeline);

uint64_t rt_hybrid_batch(const struct rt_hybrid_numbering *numbering, uint64_t update);

/* Rows of a batch of so many that are the part's. */
size_t rt_hybrid_rows(size_t rows, size_t part, size_t parts);

#endif
