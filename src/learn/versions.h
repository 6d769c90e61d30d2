/*
 * Versions of parameters in ring-flow. Parameters change while micro-batches are in flight, so the backward
 * of each uses the version that its forward used. A version is copied only when it is about to change while a
 * micro-batch in flight still needs it; the images are allocated when the stage is created.
 */
#ifndef RT_LEARN_VERSIONS_H
#define RT_LEARN_VERSIONS_H

#include "learn/stage.h"

/* The largest number of images that so many slots need. A single slot needs none: nothing changes while it is
 * held. */
static inline size_t rt_versions_needed(size_t slots) {
    return slots > 1 ? slots : 0;
}

/* The parameters of a version that a held slot used. */
float *rt_versions_params(const struct rt_stage *stage, uint64_t update);

/* To be called before the newest parameters change: keeps an image of them if a held slot other than `done`
 * (may be NULL) used them. */
void rt_versions_keep(struct rt_stage *stage, const struct rt_slot *done);

#endif
