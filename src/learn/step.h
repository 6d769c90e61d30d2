/*
 * The trainer: one device, one update at a time. All memory is taken when it is created; a step takes none.
 *
 * The gradient of a batch of B examples is by definition the sum over `shards` slices of the batch (slice v:
 * rows v*B/V .. (v+1)*B/V), each summed over its examples in order, the slices added in one fixed binary
 * tree,
 * ((0+1)+(2+3))+... With one shard that is the plain sum in order. Micro-batches are contiguous parts of a
 * slice; they bound memory and change no bit.
 */
#ifndef RT_LEARN_STEP_H
#define RT_LEARN_STEP_H

#include "data/dataset.h"
#include "learn/network.h"
#include "metrics/states.h"
#include "optim/optim.h"
#include "optim/schedule.h"

struct rt_trainer_settings {
    uint64_t seed;
    size_t batch;
    size_t micro_batch; /* 0: auto, see rt_train_micro_batch */
    size_t shards;      /* a power of two */
    bool shuffle;
    bool drop_last;          /* the incomplete batch at the end of an epoch is left out */
    double clip_norm;        /* 0: off */
    uint64_t updates;        /* planned; the schedules want to know */
    struct rt_states *clock; /* of an emulated device: its time is booked there, in the states. NULL: none */
    bool unfused;            /* never apply the update inside the backward pass; same bits, for tests */
};

struct rt_trainer;

/* Borrows all its arguments until it is destroyed. */
rt_status rt_trainer_create(struct rt_network *network, const struct rt_dataset *set,
                            const struct rt_scaling *scaling, enum rt_target target,
                            const struct rt_optim *optim, const struct rt_schedule *schedule,
                            const struct rt_trainer_settings *settings, struct rt_trainer **trainer,
                            struct rt_error *err);
void rt_trainer_destroy(struct rt_trainer *trainer);

/* The results of one update. */
struct rt_step {
    uint64_t update; /* its number, from 1 */
    size_t rows;
    double loss;       /* summed over the rows in order */
    size_t correct;    /* rows that were right, where that means something */
    double start, end; /* rt_clock_wall */
};

/* One update. RT_DIVERGED when the loss is not finite: then the parameters are those of the update before. */
rt_status rt_trainer_step(struct rt_trainer *trainer, struct rt_step *step, struct rt_error *err);

/* RT_DIVERGED when a parameter, a buffer or the optimizer's state is not finite: the last update diverged,
 * and the state is not worth keeping. */
rt_status rt_trainer_check(const struct rt_trainer *trainer, struct rt_error *err);

uint64_t rt_trainer_update(const struct rt_trainer *trainer); /* updates done */
void rt_trainer_set_update(struct rt_trainer *trainer, uint64_t update);
uint64_t rt_trainer_per_epoch(const struct rt_trainer *trainer);
size_t rt_trainer_micro_batch(const struct rt_trainer *trainer);

/* The optimizer's state: optim->type->state_tensors blocks of param_count floats, one after another. */
float *rt_trainer_state(struct rt_trainer *trainer);

/* Wall seconds that the steps so far spent in each state, if there is no clock. */
const double *rt_trainer_seconds(const struct rt_trainer *trainer);

/* Auto: the whole batch if it fits the caches or cutting it gains nothing. Batchnorm measures the
 * micro-batch, so with it auto is always the whole batch: auto must not change results. */
size_t rt_train_micro_batch(const struct rt_model *model, size_t batch);

/* Whether a layer measures the micro-batch (batchnorm), so that its size is part of the result. */
bool rt_train_measures_batch(const struct rt_model *model);

#endif
