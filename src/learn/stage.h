/*
 * A stage: the work of one device on its run of layers. Parameters, gradients, optimizer state, and slots
 * for the micro-batches it holds. It computes, knows no links, and its caller decides when.
 *
 * Micro-batches are numbered from 0 in the order of their forwards. Input gradients and weight gradients
 * are asked for in the same order, so the stage keeps its slots as a ring: a slot is taken when its input
 * begins to arrive and released when its weight gradient is done.
 *
 * The result is that of one device (learn/step.h), bit by bit, for every cut of the layers. All memory is
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

/* Messages for which a node of a ring has room besides its slots: gradients on their way back, and outputs
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
    /* The indices of the examples follow x: a layer here or later needs them. They follow y to the next
     * stage: a later layer needs them. */
    bool needs_examples, sends_examples;
    bool fused; /* the optimizer is applied inside the last weight gradient of an update */
    struct rt_optim_step optim_step;
    /* ring-flow: images of older parameters that a backward may still ask for (learn/versions.h), and the
     * number of updates between the forward and the backward of a micro-batch */
    float **versions;
    uint64_t *version_update;
    size_t version_count;
    uint64_t stale; /* of the last one */
    uint64_t staleness_sum, staleness_max, staleness_count;
    /* an image of parameters, buffers and state at one update: all floats of its state tensors, in order */
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

/* Bytes that rt_stage_create takes, with snapshots and the scratch memory of one thread
 * (model->scratch_bytes); the planner's prediction. SIZE_MAX: too many. */
size_t rt_stage_bytes(const struct rt_job *job, const struct rt_model *model, size_t slots);

/* The slot of micro-batch number m (slots are reused in turn). x has room for rt_job_micro_rows(job) rows. */
struct rt_slot *rt_stage_slot(struct rt_stage *stage, uint64_t micro);

/* slot: x, rows, batch_rows, part, micro, epoch are set. Sets y, dy, update. training false: nothing is kept,
 * only x, rows and epoch are read, and the slot need not be held. */
void rt_stage_forward(struct rt_stage *stage, struct rt_slot *slot, bool training);
/* dy is filled. dx: [rows][in], or NULL if it is not needed (the first stage). */
void rt_stage_backward_input(struct rt_stage *stage, struct rt_slot *slot, float *dx);
/* Adds to the gradient, in the order of the micro-batches, after their input gradients. Micro-batches of one
 * slice may be done together, up to RT_MAX_WAITING: the bits are the same, and the gradient passes through
 * memory once. last: the last of them is the last of its update; then, if possible (one shard, no clipping),
 * the optimizer is applied in the same pass. So the last one is asked for when all input gradients are done,
 * and rt_stage_apply follows before any other call. watch (may be NULL): its `after` is called for each layer
 * whose gradient has become that of the whole update, from the last layer to the first, while the others are
 * still computed; not if the optimizer is applied in the same pass, nor if slices without rows follow. */
void rt_stage_backward_weights(struct rt_stage *stage, struct rt_slot *const *slots, size_t count, bool last,
                               const struct rt_layer_watch *watch);
/* The squares of this stage's gradient, tensor by tensor in order, added to sum in that order. Only if the
 * job clips; the factor for the sum over all stages is rt_norm_clip(job->clip_norm, sum). */
double rt_stage_squares(struct rt_stage *stage, double sum);
/* Ends the update: applies the optimizer with gradients scaled by clip (1: unscaled), unless that has been
 * done with the last weight gradient; increments the version. */
void rt_stage_apply(struct rt_stage *stage, float clip);

/* The same if a server applies the update: only increments the version. */
void rt_stage_leave_to_server(struct rt_stage *stage);
/* Parameters of this version have been received from a server. */
void rt_stage_renewed(struct rt_stage *stage, uint64_t update);

/* Copies the present state to the image. RT_DIVERGED, with the name, when a number in it is not finite: then
 * the image is unchanged. Not in a job that only evaluates: RT_FAILED. */
rt_status rt_stage_snapshot(struct rt_stage *stage, struct rt_error *err);

/* State tensors: 0 is parameters and buffers in the order of files (each tensor of each layer in the order of
 * rt_model_visit), w > 0 the optimizer's w-th value of every parameter. Floats of a state tensor, and its
 * floats first..first+count: read copies them from the image, or before the first snapshot from the stage
 * itself; write copies them into the stage. */
size_t rt_stage_state_count(const struct rt_stage *stage); /* 1 + the optimizer's tensors; evaluate_only: 1 */
size_t rt_stage_state_floats(const struct rt_stage *stage, size_t tensor);
void rt_stage_state_read(const struct rt_stage *stage, size_t tensor, size_t first, size_t count, float *out);
void rt_stage_state_write(struct rt_stage *stage, size_t tensor, size_t first, size_t count, const float *in);

#endif
