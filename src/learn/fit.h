/*
 * Whether a loss, its targets, the shapes of a model and the data fit together. Only this file decides it:
 * the master asks before a run, a node asks again about the job it was sent and about the labels and target
 * values that reach it.
 */
#ifndef RT_LEARN_FIT_H
#define RT_LEARN_FIT_H

#include "data/dataset.h"
#include "learn/network.h"

/* Whether the network's outputs can be compared with such targets at all. */
rt_status rt_fit_check(const struct rt_network *network, enum rt_target target, struct rt_error *err);

/* Whether every example of a set can be learnt from: reads all labels or target values. An empty set fits. */
rt_status rt_fit_check_set(const struct rt_network *network, enum rt_target target,
                           const struct rt_dataset *set, const struct rt_scaling *scaling,
                           struct rt_error *err);

/* Whether the loss can take this number as a target value. NULL: any loss that takes values. */
bool rt_fit_value(const struct rt_loss_type *loss, float value);

#endif
