/*
 * Which examples form update t. A function of the seed, the number of examples and the batch size only, so
 * every machine, and a resumed run, finds the same ones without drawing earlier batches.
 */
#ifndef RT_LEARN_BATCHES_H
#define RT_LEARN_BATCHES_H

#include "base/status.h"

struct rt_batches {
    uint64_t seed;
    uint32_t examples, batch;
    bool shuffle;
    uint64_t per_epoch; /* updates in an epoch; the last may have fewer examples than batch */
    uint32_t *order;    /* the examples in the order of the epoch `ordered` */
    uint64_t ordered;   /* UINT64_MAX: none yet */
};

/* The examples of one update. */
struct rt_batch {
    const uint32_t *examples; /* [rows]; good until the next rt_batches_at */
    size_t rows;
    size_t following; /* examples after them in the order of the epoch: those of later updates */
    uint32_t epoch;   /* from 0 */
};

/* drop_last: see rt_batches_count. */
rt_status rt_batches_create(uint64_t seed, size_t examples, size_t batch, bool shuffle, bool drop_last,
                            struct rt_batches *batches, struct rt_error *err);
void rt_batches_destroy(struct rt_batches *batches);

/* Batches of an epoch. drop_last: an incomplete last batch is left out. */
uint64_t rt_batches_count(uint64_t examples, uint64_t batch, bool drop_last);

/* The fewest examples that are computed at a time, over all batches of an epoch, cut into that many slices,
 * and those into micro-batches (0: whole slices). */
size_t rt_batches_fewest(uint64_t examples, uint64_t batch, bool drop_last, uint64_t slices, uint64_t micro);

/* update is counted from 1. Allocates nothing. */
void rt_batches_at(struct rt_batches *batches, uint64_t update, struct rt_batch *batch);

#endif
