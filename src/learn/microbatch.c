/* The default size of a micro-batch. It bounds memory and keeps activations in the caches. */
#include "learn/step.h"

#include <string.h>

/* Bytes for the activations of a micro-batch, 16 MiB: small compared with the memory of any device, and what
 * a large cache holds. Measured: with fewer rows activations stay nearer to the core, but then every
 * micro-batch passes over the gradients of the dense layers once more. */
enum { SLOT_FLOATS = (16 << 20) / 4, FEWEST_ROWS = 4 };

static bool microbatch_has_layer(const struct rt_model *model, const char *const *names) {
    for (size_t i = 0; i < model->count; i++) {
        for (size_t k = 0; names[k]; k++)
            if (strcmp(model->layers[i]->type->name, names[k]) == 0)
                return true;
        if (model->layers[i]->body && microbatch_has_layer(model->layers[i]->body, names))
            return true;
    }
    return false;
}

bool rt_train_measures_batch(const struct rt_model *model) {
    return rt_model_measures_batch(model);
}

size_t rt_train_micro_batch(const struct rt_model *model, size_t batch) {
    static const char *const images[] = {"conv2d", "maxpool", "avgpool", "global_avgpool", NULL};
    if (rt_train_measures_batch(model) || !microbatch_has_layer(model, images) ||
        rt_model_slot_floats(model, batch, true) <= SLOT_FLOATS)
        return batch;
    size_t rows = FEWEST_ROWS;
    while (2 * rows < batch && rt_model_slot_floats(model, 2 * rows, true) <= SLOT_FLOATS)
        rows *= 2;
    return rows < batch ? rows : batch;
}
