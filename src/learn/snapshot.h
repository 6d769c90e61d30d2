/*
 * The parameters and buffers of a model in memory: a run that writes no files uses this instead of model
 * files.
 */
#ifndef RT_LEARN_SNAPSHOT_H
#define RT_LEARN_SNAPSHOT_H

#include "learn/model_state.h"

struct rt_snapshot {
    float *floats; /* state tensor 0; NULL: nothing was taken yet */
    size_t count;
};

/* Copies the present state; the memory of an earlier snapshot is used again. hex: the hash of the parameters;
 * may be NULL. */
rt_status rt_snapshot_take(struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           char hex[65], struct rt_error *err);
/* Restores them, as those after `update` updates. */
rt_status rt_snapshot_give(const struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           uint64_t update, struct rt_error *err);
void rt_snapshot_deinit(struct rt_snapshot *snapshot); /* a zeroed one is fine */

/* The hash alone, without a copy. */
rt_status rt_model_state_hash(const struct rt_model_state *model_state, char hex[65], struct rt_error *err);

#endif
