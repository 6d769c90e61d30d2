/*
 * The state of a model in memory: a run that writes no files uses this instead of model files, and a run that
 * survives the loss of a device goes back to one.
 */
#ifndef RT_LEARN_SNAPSHOT_H
#define RT_LEARN_SNAPSHOT_H

#include "base/file_memory.h"
#include "learn/model_state.h"

struct rt_snapshot {
    struct rt_file_memory memory; /* state tensors 0..tensors-1, one after another */
    struct rt_file_memory spare;  /* for the next one: this one stays until that is complete */
    size_t tensors;               /* 0: nothing was taken yet */
    uint32_t checksum;
};

/* Memory for this one and the next, so that taking one needs no more. */
rt_status rt_snapshot_reserve(struct rt_snapshot *snapshot, size_t bytes, bool on_disk, struct rt_error *err);
/* Copies the present state; on failure an earlier snapshot stays. on_disk: see base/file_memory.h. hex: the
 * hash of the parameters; may be NULL. */
rt_status rt_snapshot_take(struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           size_t tensors, bool on_disk, char hex[65], struct rt_error *err);
/* Bytes of a snapshot. */
size_t rt_snapshot_bytes(const struct rt_model *model, size_t tensors);
/* Whether it is as it was taken. */
bool rt_snapshot_is_sound(const struct rt_snapshot *snapshot);
/* Restores it, as the state after `update` updates. */
rt_status rt_snapshot_give(const struct rt_snapshot *snapshot, const struct rt_model_state *model_state,
                           uint64_t update, struct rt_error *err);
/* It as a model state that files are written from; it cannot be loaded. Good while both are. */
struct rt_snapshot_reader {
    const struct rt_snapshot *snapshot;
    const struct rt_model *model; /* whose state it is */
};
struct rt_model_state rt_snapshot_model_state(struct rt_snapshot_reader *reader);
void rt_snapshot_deinit(struct rt_snapshot *snapshot); /* a zeroed one is fine */

/* The hash alone, without a copy. */
rt_status rt_model_state_hash(const struct rt_model_state *model_state, char hex[65], struct rt_error *err);

#endif
