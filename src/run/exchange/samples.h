/*
 * Examples that the master sends to workers without data of their own (data.send): one end packs the rows of
 * a ticket into floats, the other keeps them until they are learnt from. A row's inputs as the network takes
 * them, row after row, then what its output is compared with: the number of its class, or values, or nothing
 * where the input itself is the target.
 */
#ifndef RT_RUN_EXCHANGE_SAMPLES_H
#define RT_RUN_EXCHANGE_SAMPLES_H

#include "control/coordinator.h"
#include "control/engine.h"
#include "learn/gradient_work.h"
#include "run/learner.h"

/* The rows of a batch that a worker's part has, and the floats that each of them is. */
struct rt_sample_layout {
    size_t examples, batch;    /* of the run; of an update */
    struct rt_slice_part part; /* of the master's end: the largest that there is */
    bool drop_last;            /* see learn/batches.h */
    size_t inputs, outputs;
    enum rt_target target;
    const struct rt_loss_type *loss; /* of the worker's end: what it cannot take is refused; NULL: any */
};
/* Rows of the part in batch `number`, from 1; first: the first of them. */
size_t rt_sample_layout_rows(const struct rt_sample_layout *layout, uint64_t number, size_t *first);
size_t rt_sample_layout_row_floats(const struct rt_sample_layout *layout);
/* Floats of the part at most; SIZE_MAX: more than there can be. */
size_t rt_sample_layout_floats(const struct rt_sample_layout *layout);

/* Classes are sent as floats, which count so far. */
enum { RT_SAMPLE_CLASSES = 1 << 24 };

/* ---- the master's end ---- */

struct rt_sample_sender;
struct rt_sample_sender_settings {
    struct rt_sample_layout layout;
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    const struct rt_kernels *kernels;
    uint64_t seed;
    bool shuffle;
    size_t nodes; /* the master counted */
};
/* For the examples of a training configuration, of which no node gets a larger part. */
struct rt_sample_sender_settings rt_sample_sender_of(const struct rt_training_config *config,
                                                     struct rt_slice_part part, size_t nodes);
rt_status rt_sample_sender_create(const struct rt_sample_sender_settings *settings,
                                  struct rt_sample_sender **sender, struct rt_error *err);
void rt_sample_sender_destroy(struct rt_sample_sender *sender); /* NULL is fine */
/* Packs the rows of a ticket for a node with that part, which is not larger than that of the settings: how
 * many floats, 0 where it has no rows. They stay as they are until RT_TICKETS_AHEAD more have been packed for
 * that node. By one thread at a time. */
size_t rt_sample_sender_pack(struct rt_sample_sender *sender, uint16_t rank, uint64_t batch,
                             struct rt_slice_part part, const float **floats);
/* Packs the rows of a ticket that was just given, and sends them. By one thread at a time. */
void rt_sample_sender_send(struct rt_sample_sender *sender, struct rt_coordinator *coordinator, uint16_t rank,
                           uint64_t batch, struct rt_slice_part part);

/* ---- the worker's end ---- */

/* The targets of rows that were sent, which begin at x; classes has room for theirs. Refuses what cannot be
 * the target of the loss. */
rt_status rt_sample_targets(const struct rt_sample_layout *layout, const float *x, size_t rows,
                            int32_t *classes, struct rt_targets *targets, struct rt_error *err);

struct rt_sample_receiver;
rt_status rt_sample_receiver_create(const struct rt_sample_layout *layout, struct rt_sample_receiver **box,
                                    struct rt_error *err);
void rt_sample_receiver_destroy(struct rt_sample_receiver *box); /* NULL is fine */
/* Takes in what comes, in order; inside the engine. See control/agent.h. */
rt_status rt_sample_receiver_take(struct rt_sample_receiver *box, uint64_t batch, uint64_t at,
                                  const float *floats, size_t count, struct rt_error *err);
/* Whether the rows of a batch are here: all of it, or it has none. Inside. */
bool rt_sample_receiver_has(const struct rt_sample_receiver *box, uint64_t batch);
/* Takes them; they are good until the next call. x NULL: the part has none. Inside. */
rt_status rt_sample_receiver_use(struct rt_sample_receiver *box, uint64_t batch,
                                 struct rt_received_rows *rows, struct rt_error *err);
/* Waits until the rows of a ticket are all here, and takes them. Fails with the engine. */
rt_status rt_sample_receiver_rows(struct rt_sample_receiver *box, struct rt_engine *engine, uint64_t batch,
                                  struct rt_received_rows *rows, struct rt_error *err);

#endif
