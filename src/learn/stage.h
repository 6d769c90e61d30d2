/*
 * A stage: what one device does with its run of layers. Parameters, gradients, optimizer state, and slots
 * for the micro-batches it holds. It computes and knows nothing of links; whoever drives it decides when.
 *
 * Micro-batches are numbered from 0 in the order of their forwards. Input gradients and weight gradients are
 * asked for in the same order, so the stage keeps its slots as a ring: a slot is taken when its input begins
 * to arrive and released when its weight gradient is done.
 *
 * The result is that of one device (learn/step.h), bit by bit, wherever the layers are cut. All memory is
 * taken by rt_stage_create, and only rt_stage_create and rt_stage_snapshot can fail. One thread at a time.
 */
#ifndef RT_LEARN_STAGE_H
#define RT_LEARN_STAGE_H

#include "job/job.h"
#include "learn/gradient.h"
#include "nn/model.h"

struct rt_slot {
    uint64_t micro, update; /* number, and the version of the parameters its forward used */
    uint32_t epoch;
    size_t rows, batch_rows; /* rows 0: the part of a batch that has fewer than there are rings */
    float *x;       /* [rows][in], and behind it rows indices of examples (uint32_t), see needs_examples */
    float *numbers; /* the model's slot: activations, stashes, gradients */
    float *y;       /* the output, in numbers, after forward */
    float *dy;      /* where the gradient at the output belongs, in numbers */
    struct rt_micro part;
    bool held; /* from its forward in training until its weight gradient is done */
};

/* Messages that a node of a ring has room for besides its slots: gradients on their way back, and outputs
 * that return to the master. The planner counts them. */
enum { RT_FLOW_SEND_BUFFERS = 3, RT_FLOW_RETURNS = 8 };

struct rt_state_span; /* where a layer's tensor lies in state tensor 0: learn/stage_state.c */

struct rt_stage {
    const struct rt_job *job;
    struct rt_device *device; /* borrowed */
    struct rt_model *model;
    struct rt_blocks blocks;
    float *state;            /* the optimizer's: [tensor][parameter] */
    struct rt_slices slices; /* the gradients; none in a job that only evaluates */
    struct rt_norm norm;     /* for clipping */
    struct rt_slot *slots;
    size_t slot_count;
    float *slot_memory; /* of all slots */
    uint64_t update;    /* applied so far: the version of the parameters */
    /* The indices of the examples come behind x: a layer here or later needs them. They go on behind y to the
     * next stage: a later layer needs them. */
    bool needs_examples, sends_examples;
    bool fused; /* the optimizer is applied inside the last weight gradient of an update */
    struct rt_optim_step optim_step;
    /* ring-flow: images of older parameters that a backward may still ask for (learn/versions.h), and how
     * many updates came between the forward and the backward of a micro-batch */
    float **versions;
    uint64_t *version_update;
    size_t version_count;
    uint64_t stale; /* of the last one */
    uint64_t staleness_sum, staleness_max, staleness_count;
    /* an image of parameters, buffers and state at one update */
    float *image;
    bool image_taken;
    uint64_t image_update;
    struct rt_state_span *spans;
    size_t span_count;
};

/* Layers first..first+count of the job's model; slots: how many. Parameters are initialised from the seed.
 * Refuses to take more than this machine has, and reserves the scratch memory of the device's threads. */
rt_status rt_stage_create(const struct rt_job *job, struct rt_device *device, size_t first, size_t count,
                          size_t slots, struct rt_stage **stage, struct rt_error *err);
void rt_stage_destroy(struct rt_stage *stage); /* NULL is fine */

/* Bytes that rt_stage_create takes, snapshots and the scratch memory of one thread (model->scratch_bytes)
 * included; the planner's prediction. SIZE_MAX: too many. */
size_t rt_stage_bytes(const struct rt_job *job, const struct rt_model *model, size_t slots);

/* The slot of micro-batch number m (slots are reused in turn). x has room for rt_job_micro_rows(job) rows. */
struct rt_slot *rt_stage_slot(struct rt_stage *stage, uint64_t micro);

/* slot: x, rows, batch_rows, part, micro, epoch are set. Sets y, dy, update. training false: nothing is kept,
 * only x, rows and epoch are read, and a slot that is not held will do. */
void rt_stage_forward(struct rt_stage *stage, struct rt_slot *slot, bool training);
/* dy is filled. dx: [rows][in], or NULL where nobody wants it (the first stage). */
void rt_stage_backward_input(struct rt_stage *stage, struct rt_slot *slot, float *dx);
/* Adds to the gradient, in the order of the micro-batches, after their input gradients. Those of one slice
 * may be done together, up to RT_MAX_WAITING: the bits are the same, and the gradient passes through memory
 * once. last: the last of them is the last of its update; then, where it can be (one shard, no clipping), the
 * optimizer is applied on the way. So that one is asked for when the input gradients of all are done, and
 * rt_stage_apply follows before any other call. watch (may be NULL): its `after` is told of each layer whose
 * gradient has become that of the whole update, from the last layer to the first, while the others are still
 * computed; not where the optimizer is applied on the way, nor where slices without rows come behind. */
void rt_stage_backward_weights(struct rt_stage *stage, struct rt_slot *const *slots, size_t count, bool last,
                               const struct rt_layer_watch *watch);
/* The squares of this stage's gradient, tensor by tensor in order, added to sum in that order. Only where the
 * job clips; the factor that follows from the sum over all stages is rt_norm_clip(job->clip_norm, sum). */
double rt_stage_squares(struct rt_stage *stage, double sum);
/* Ends the update: applies the optimizer with gradients scaled by clip (1: as they are), unless that has been
 * done on the way; the version moves on. */
void rt_stage_apply(struct rt_stage *stage, float clip);

/* The same where a server applies it: the version moves on. */
void rt_stage_leave_to_server(struct rt_stage *stage);
/* Parameters have come from a server, as those of this version. */
void rt_stage_renewed(struct rt_stage *stage, uint64_t update);

/* Keeps an image of this moment. RT_DIVERGED, naming what, when a number in it is not finite: then the image
 * is what it was before. Not in a job that only evaluates: RT_FAILED. */
rt_status rt_stage_snapshot(struct rt_stage *stage, struct rt_error *err);

/* State tensors: 0 is parameters and buffers as they lie in files (each tensor of each layer in the order of
 * rt_model_visit), w > 0 the optimizer's w-th value of every parameter. Floats of a state tensor, and its
 * floats first..first+count: read copies them out of the image, or before the first snapshot out of the stage
 * as it is; write copies them into the stage. */
size_t rt_stage_state_count(const struct rt_stage *stage); /* 1 + the optimizer's tensors; evaluate_only: 1 */
size_t rt_stage_state_floats(const struct rt_stage *stage, size_t tensor);
void rt_stage_state_read(const struct rt_stage *stage, size_t tensor, size_t first, size_t count, float *out);
void rt_stage_state_write(struct rt_stage *stage, size_t tensor, size_t first, size_t count, const float *in);

#endif
