/* Loss, targets, shapes and data; see fit.h. */
#include "learn/fit.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <math.h>
#include <stdlib.h>

rt_status rt_fit_check(const struct rt_network *network, enum rt_target target, struct rt_error *err) {
    const struct rt_loss_type *loss = network->loss;
    if (target == RT_TARGET_INPUT && loss->classes)
        return rt_fail(err, RT_BAD_INPUT,
                       "data.target is input, but the loss %s compares outputs with class labels: use mse, "
                       "or bce for inputs between 0 and 1",
                       loss->name);
    if (target == RT_TARGET_INPUT && network->inputs != network->outputs)
        return rt_fail(err, RT_BAD_INPUT,
                       "data.target is input, so the model needs as many outputs as inputs: it has %s and %s",
                       RT_COUNTED(network->inputs, "input"), RT_COUNTED(network->outputs, "output"));
    if ((target == RT_TARGET_CLASSES) != loss->classes && target != RT_TARGET_INPUT)
        return rt_fail(err, RT_BAD_INPUT, "the loss %s does not take %s as targets", loss->name,
                       loss->classes ? "values" : "class labels");
    return RT_OK;
}

/* The loss bce has no minimum when a target lies outside 0..1. A small excess is allowed: 255 * 0.00392157 is
 * more than 1. */
bool rt_fit_value(const struct rt_loss_type *loss, float value) {
    return isfinite(value) && (!loss || !loss->shares || (value >= -0.001f && value <= 1.001f));
}

static size_t fit_stored_row(const struct rt_dataset *set, size_t i) {
    return set->index ? set->index[i] : i;
}

static rt_status fit_check_classes(const struct rt_network *network, const struct rt_dataset *set,
                                   struct rt_error *err) {
    if (!set->classes)
        return rt_fail(err, RT_BAD_INPUT, "%s: has no class labels, which the loss %s needs", set->name,
                       network->loss->name);
    for (size_t i = 0; i < set->count; i++) {
        const int32_t class = set->classes[fit_stored_row(set, i)];
        if (class < 0 || (size_t) class >= network->outputs)
            return rt_fail(err, RT_BAD_INPUT,
                           "%s: the label of example %zu (counted from 0) is %d, but the model has %zu "
                           "outputs: labels go from 0 to %zu",
                           set->name, fit_stored_row(set, i), class, network->outputs, network->outputs - 1);
    }
    return RT_OK;
}

static rt_status fit_check_values(const struct rt_network *network, enum rt_target target,
                                  const struct rt_dataset *set, const struct rt_scaling *scaling,
                                  struct rt_error *err) {
    /* Inputs have been checked when they were read; only their scaling can make them infinite. */
    if (target == RT_TARGET_INPUT && !network->loss->shares)
        return RT_OK;
    float *row;
    rt_status status = rt_floats_create(network->outputs, "the targets of an example", &row, err);
    for (size_t i = 0; i < set->count && status == RT_OK; i++) {
        const uint32_t index = (uint32_t)i;
        size_t j = 0;
        rt_dataset_targets(set, scaling, target, &index, 1, NULL, row);
        while (j < network->outputs && rt_fit_value(network->loss, row[j]))
            j++;
        if (j < network->outputs)
            status = rt_fail(err, RT_BAD_INPUT,
                             "%s: target %zu of example %zu (both counted from 0) is %g%s: the loss %s needs "
                             "%s",
                             set->name, j, fit_stored_row(set, i), (double)row[j],
                             target == RT_TARGET_INPUT ? " after scaling" : "", network->loss->name,
                             network->loss->shares ? "targets between 0 and 1" : "finite targets");
    }
    free(row);
    return status;
}

rt_status rt_fit_check_set(const struct rt_network *network, enum rt_target target,
                           const struct rt_dataset *set, const struct rt_scaling *scaling,
                           struct rt_error *err) {
    rt_status status = rt_fit_check(network, target, err);
    if (status != RT_OK || set->count == 0)
        return status;
    const size_t size = rt_shape_size(&set->shape);
    if (size != network->inputs)
        return rt_fail(err, RT_BAD_INPUT, "%s: an example has %s, but the model has %s", set->name,
                       RT_COUNTED(size, "value"), RT_COUNTED(network->inputs, "input"));
    if (target == RT_TARGET_CLASSES)
        return fit_check_classes(network, set, err);
    if (target == RT_TARGET_VALUES && (!set->values || set->value_width != network->outputs))
        return rt_fail(err, RT_BAD_INPUT, "%s: has %s for each example, but the model has %s", set->name,
                       RT_COUNTED(set->values ? set->value_width : 0, "target value"),
                       RT_COUNTED(network->outputs, "output"));
    return fit_check_values(network, target, set, scaling, err);
}
