/* Whole-block work on gradients, cut over the threads of a device: adding, the norm, applying an update. */
#ifndef RT_TRAIN_GRADIENT_H
#define RT_TRAIN_GRADIENT_H

#include "optim/optim.h"
#include "train/network.h"

/* y += x, element by element */
void rt_gradient_add(const struct rt_device *device, size_t n, const float *x, float *y);

void rt_gradient_apply(const struct rt_device *device, const struct rt_optim *optim,
                       const struct rt_optim_step *step, size_t n, const float *gradient, float *params,
                       float *state);

/* The spans of a model's parameter tensors, in order, for the norm. */
struct rt_norm {
    size_t tensors;
    size_t *offsets, *counts;
    double *squares;
};

rt_status rt_norm_create(const struct rt_model *model, struct rt_norm *norm, struct rt_error *err);
void rt_norm_destroy(struct rt_norm *norm);

/* The square root of the sum of squares: per tensor, then over the tensors in order. */
double rt_norm_measure(struct rt_norm *norm, const struct rt_device *device, const float *gradient);

#endif
