/*
 * Whole-block work on gradients, divided over the threads of a device: adding, the tree of slices, the norm,
 * applying an update. One device and every stage of a ring use the same functions, so they get the same bits.
 */
#ifndef RT_LEARN_GRADIENT_H
#define RT_LEARN_GRADIENT_H

#include "nn/model.h"
#include "optim/optim.h"

/* y += x, element by element */
void rt_gradient_add(const struct rt_device *device, size_t n, const float *x, float *y);

void rt_gradient_apply(const struct rt_device *device, const struct rt_optim *optim,
                       const struct rt_optim_step *step, size_t n, const float *gradient, float *params,
                       float *state);
/* The same for `count` of the n parameters, from `first` on; gradient has only theirs. */
void rt_gradient_apply_span(const struct rt_device *device, const struct rt_optim *optim,
                            const struct rt_optim_step *step, size_t first, size_t count, size_t n,
                            const float *gradient, float *params, float *state);

/* The rule as a descent of these parameters; false: it is not plain descent. */
bool rt_gradient_descent(const struct rt_optim *optim, const struct rt_optim_step *step, float *params,
                         float *state, struct rt_descent *descent);

/* Whether all numbers are finite. */
bool rt_block_is_finite(const float *block, size_t count);

/* ---- slices ---- */

/*
 * The gradient of a batch is the sum over its slices, added in one fixed binary tree (see learn/step.h).
 * Slices are pushed on a stack; two neighbours that are complete subtrees of the same height are merged, so
 * the stack never exceeds the tree's height. A slice without rows counts as zeros.
 */
enum { RT_SLICE_BLOCKS = 33 };

struct rt_slices {
    const struct rt_device *device; /* borrowed */
    size_t params;
    uint64_t done;                  /* complete slices of this batch */
    size_t depth;                   /* blocks on the stack */
    float *blocks[RT_SLICE_BLOCKS]; /* [0] becomes the sum */
};

/* Blocks needed for that many slices. */
size_t rt_slices_blocks(uint64_t count);

/* rarely_touched: do not clear the memory, because nearly all of it will never be used. */
rt_status rt_slices_create(const struct rt_device *device, size_t params, uint64_t count, bool rarely_touched,
                           struct rt_slices *slices, struct rt_error *err);
void rt_slices_destroy(struct rt_slices *slices); /* a zeroed one is fine */

/* The block in which the gradient of a slice is summed: the same block until the slice ends. Slices are asked
 * for in order; slices that are skipped are empty. The block is not cleared. */
float *rt_slices_block(struct rt_slices *slices, uint64_t slice);
void rt_slices_end(struct rt_slices *slices); /* of the slice asked for last */
/* The same in pieces, as they become final: the additions for `count` floats from `first` on, and when all
 * floats are added, the end itself. */
void rt_slices_end_span(const struct rt_slices *slices, size_t first, size_t count);
void rt_slices_end_spans(struct rt_slices *slices);
/* Begins another batch. When the last slice of a batch, which always has rows, has ended, the gradient is in
 * blocks[0]. */
void rt_slices_reset(struct rt_slices *slices);

/* ---- the norm ---- */

/* The spans of a model's parameter tensors, in order, for the norm. */
struct rt_norm {
    size_t tensors;
    size_t *offsets, *counts;
    double *squares;
};

rt_status rt_norm_create(const struct rt_model *model, struct rt_norm *norm, struct rt_error *err);
void rt_norm_destroy(struct rt_norm *norm);

/* The sum of squares per tensor, added to sum tensor by tensor in order. */
double rt_norm_squares(struct rt_norm *norm, const struct rt_device *device, const float *gradient,
                       double sum);

/* The factor on gradients that limits their norm, the root of squares, to clip_norm (0: 1). */
float rt_norm_clip(double clip_norm, double squares);

#endif
