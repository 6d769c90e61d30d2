/*
 * Whole-block work on gradients, divided over the threads of a device: adding, the tree of slices, the norm,
 * applying an update. One device and every stage of a ring use the same functions, so they get the same bits.
 */
#ifndef RT_LEARN_GRADIENT_H
#define RT_LEARN_GRADIENT_H

#include "base/slices.h"
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
 * The gradient of a batch is the sum over its slices, added in one fixed binary tree (see learn/step.h). A
 * device adds those of a run (base/slices.h). Slices are pushed on a stack; two neighbours that are complete
 * subtrees of the same height are merged, so the stack never exceeds the tree's height by much. At the end it
 * has the run's pieces, in order: of all slices one, their sum. A slice without rows counts as zeros.
 */
enum { RT_SLICE_BLOCKS = RT_MAX_PIECES + 2 };

struct rt_slices {
    const struct rt_device *device; /* borrowed */
    size_t params;
    struct rt_slice_run run;
    uint32_t done;                  /* complete slices of this batch */
    size_t depth;                   /* blocks on the stack */
    float *blocks[RT_SLICE_BLOCKS]; /* [0], [1], ... become the pieces */
};

/* rarely_touched: do not clear the memory, because nearly all of it will never be used. As many blocks as the
 * run is high (rt_slices_height); at least one. */
rt_status rt_slices_create(const struct rt_device *device, size_t params, struct rt_slice_run run,
                           bool rarely_touched, struct rt_slices *slices, struct rt_error *err);
void rt_slices_destroy(struct rt_slices *slices); /* a zeroed one is fine */

/* The block in which the gradient of a slice is summed, counted from the run's first: the same block until
 * the slice ends. Slices are asked for in order; slices that are skipped are empty. The block is not cleared.
 * One beyond the run's last: only the skipping, and no block. */
float *rt_slices_block(struct rt_slices *slices, size_t slice);
void rt_slices_end(struct rt_slices *slices); /* of the slice asked for last */
/* The same in pieces, as they become final: the additions for `count` floats from `first` on, and when all
 * floats are added, the end itself. */
void rt_slices_end_span(const struct rt_slices *slices, size_t first, size_t count);
void rt_slices_end_spans(struct rt_slices *slices);
/* Begins another batch. When the last slice has ended, the pieces are in the first blocks. */
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
