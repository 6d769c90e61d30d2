/* Losses: from the network's output and the targets to one loss per example and the gradient. */
#ifndef RT_NN_LOSS_H
#define RT_NN_LOSS_H

#include "tensor/device.h"
#include "tensor/shape.h"

struct rt_model;

/* The target of an output. */
struct rt_targets {
    const int32_t *classes;     /* [rows], for losses over classes */
    const float *values;        /* [rows][width], for the others */
    const uint32_t *value_rows; /* [rows]: where each row lies among the values; NULL: one after the other */
};

struct rt_loss_type {
    const char *name;
    const char *help;
    const char *contains; /* the layer that is part of it, or NULL */
    bool classes;         /* wants class numbers, and accuracy means something */
    bool shares;          /* wants values between 0 and 1 */
    /* loss[rows]; dy (may be NULL) = scale * d loss / d y. width: floats per output. */
    void (*evaluate)(const struct rt_device *device, size_t rows, size_t width, const float *y,
                     const struct rt_targets *targets, float scale, float *loss, float *dy);
    /* Converts outputs to what a user expects (probabilities for cross_entropy and bce); in place; NULL: no
     * change. */
    void (*present)(const struct rt_device *device, size_t rows, size_t width, float *y);
};

const struct rt_loss_type *const *rt_loss_types(void); /* NULL-terminated */
const struct rt_loss_type *rt_loss_find(const char *name);
/* Their names, for messages; NULL-terminated. */
enum { RT_MAX_LOSSES = 15 };
void rt_loss_names(const char *names[RT_MAX_LOSSES + 1]);

/* Refuses a model whose output does not fit the loss (a softmax before cross_entropy, which has its own). */
rt_status rt_loss_check(const struct rt_loss_type *loss, const struct rt_model *model, struct rt_error *err);

/* The index of a layer before the last one that does what the loss does itself, which is rarely intended;
 * SIZE_MAX: there is none. */
size_t rt_loss_doubtful(const struct rt_loss_type *loss, const struct rt_model *model);

/* The class that an output predicts: the first of the largest. */
size_t rt_loss_class(size_t width, const float *y);

/* How many rows have their largest output at the right class (for bce of width 1: on the right side). */
size_t rt_loss_correct(const struct rt_loss_type *loss, size_t rows, size_t width, const float *y,
                       const struct rt_targets *targets);

#endif
