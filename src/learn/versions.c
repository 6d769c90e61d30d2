/* The images of older parameters. The slots that are held determine which images are free. */
#include "learn/versions.h"

#include <string.h>

static bool versions_is_used(const struct rt_stage *stage, uint64_t update, const struct rt_slot *except) {
    for (size_t i = 0; i < stage->slot_count; i++)
        if (&stage->slots[i] != except && stage->slots[i].held && stage->slots[i].update == update)
            return true;
    return false;
}

float *rt_versions_params(const struct rt_stage *stage, uint64_t update) {
    for (size_t i = 0; i < stage->version_count && update != stage->update; i++)
        if (stage->version_update[i] == update)
            return stage->versions[i];
    return stage->blocks.params;
}

void rt_versions_keep(struct rt_stage *stage, const struct rt_slot *done) {
    if (!versions_is_used(stage, stage->update, done))
        return;
    /* There is a free one: every other image in use has a slot of its own, and so has this one. */
    size_t i = 0;
    while (i + 1 < stage->version_count && versions_is_used(stage, stage->version_update[i], NULL))
        i++;
    memcpy(stage->versions[i], stage->blocks.params, stage->model->param_count * sizeof(float));
    stage->version_update[i] = stage->update;
}
