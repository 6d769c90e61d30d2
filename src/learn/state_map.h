/*
 * Where the layers lie in the state tensors of the whole model (learn/model_state.h). A node that holds some
 * of the layers, in whatever view of a run, speaks of their state by these positions: so state moves between
 * nodes that are cut differently.
 */
#ifndef RT_LEARN_STATE_MAP_H
#define RT_LEARN_STATE_MAP_H

#include "job/job.h"
#include "nn/model.h"

struct rt_state_map {
    size_t layers;  /* of the whole model */
    size_t tensors; /* 1 + those of the optimizer */
    size_t *params; /* [layers + 1] parameters of the layers before each; owned */
    size_t *all;    /* [layers + 1] the same with buffers: in state tensor 0 */
};

/* Describes the whole model; takes no memory for its parameters. */
rt_status rt_state_map_create(const struct rt_job *job, const struct rt_kernels *kernels,
                              struct rt_state_map *map, struct rt_error *err);
void rt_state_map_destroy(struct rt_state_map *map); /* a zeroed one is fine */

/* The position in a state tensor at which a layer begins. */
static inline size_t rt_state_map_at(const struct rt_state_map *map, size_t tensor, size_t layer) {
    return tensor == 0 ? map->all[layer] : map->params[layer];
}

/* Floats of layers first..first+count in all state tensors together. */
size_t rt_state_map_floats(const struct rt_state_map *map, size_t first, size_t count);

#endif
