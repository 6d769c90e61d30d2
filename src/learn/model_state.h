/*
 * The state of a whole model, in the blocks of this device or spread over a ring. Files are written and
 * read through this, a piece at a time, so no device needs room for all of it.
 *
 * State tensor 0 is the parameters and buffers, layer by layer in the order of rt_model_visit; state
 * tensor w > 0 is the optimizer's w-th value of every parameter, in the same order.
 */
#ifndef RT_LEARN_MODEL_STATE_H
#define RT_LEARN_MODEL_STATE_H

#include "base/sha256.h"
#include "learn/network.h"

/* Consecutive floats of a state tensor, read or written in order. */
typedef rt_status (*rt_state_read)(void *user, size_t tensor, size_t count, float *out, struct rt_error *err);
typedef rt_status (*rt_state_write)(void *user, size_t tensor, size_t count, const float *floats,
                                    struct rt_error *err);

struct rt_model_state {
    const struct rt_model *model; /* the whole one; perhaps only described */
    size_t tensors;               /* 1 + those of the optimizer; 1: there is no optimizer */
    void *self;
    /* Passes tensors 0..tensors-1 to write, in order: begin starts, and what is written is the state of that
     * moment, even if training goes on; finish returns when all are written. done: finish would not have to
     * wait. RT_DIVERGED by begin or finish when a value is not finite. */
    rt_status (*begin)(void *self, size_t tensors, rt_state_write write, void *user, struct rt_error *err);
    bool (*done)(void *self);
    rt_status (*finish)(void *self, struct rt_error *err);
    /* Reads tensors 0..tensors-1 in order; they are those after `update` updates. */
    rt_status (*load)(void *self, size_t tensors, uint64_t update, rt_state_read read, void *user,
                      struct rt_error *err);
};

/* The state of a network on this device. state: the optimizer's, tensors blocks of param_count; may be
 * NULL. */
struct rt_local_state {
    struct rt_network *network;
    float *state;
    size_t optim_tensors;
};
struct rt_model_state rt_model_state_local(struct rt_local_state *local);

/* begin and finish in one. */
rt_status rt_model_state_write(const struct rt_model_state *model_state, size_t tensors, rt_state_write write,
                               void *user, struct rt_error *err);

/* SHA-256 over the parameters of a state tensor 0 that is passed in pieces, and another over its buffers. */
struct rt_params_hash {
    size_t *floats; /* of each tensor; owned */
    bool *buffer;
    size_t tensors, tensor, done; /* where it stands */
    struct rt_sha256 params, buffers;
};
rt_status rt_params_hash_open(const struct rt_model *model, struct rt_params_hash *hash,
                              struct rt_error *err);
void rt_params_hash_add(struct rt_params_hash *hash, size_t count, const float *floats);
void rt_params_hash_finish(struct rt_params_hash *hash, char params[65], char buffers[65]);
void rt_params_hash_close(struct rt_params_hash *hash); /* a zeroed one is fine */

/* The floats as little-endian bytes, which hashes are computed from. */
void rt_hash_floats(struct rt_sha256 *hash, size_t count, const float *floats);

#endif
