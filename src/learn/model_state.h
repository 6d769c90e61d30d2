/*
 * The numbers of a whole model, wherever they lie: in the blocks of this device, or spread over a ring. Files
 * are written and read through this, a stretch at a time, so nobody ever needs room for all of them.
 *
 * They come in words: word 0 is parameters and buffers, tensor after tensor in the order of rt_model_visit;
 * word w > 0 is word w-1 of the optimizer's state, for the parameters in the same order.
 */
#ifndef RT_LEARN_MODEL_STATE_H
#define RT_LEARN_MODEL_STATE_H

#include "base/sha256.h"
#include "learn/network.h"

/* Consecutive floats of a word, read or written in order. */
typedef rt_status (*rt_state_read)(void *user, size_t word, size_t count, float *out, struct rt_error *err);
typedef rt_status (*rt_state_write)(void *user, size_t word, size_t count, const float *floats,
                                    struct rt_error *err);

struct rt_model_state {
    const struct rt_model *model; /* the whole one; perhaps only described */
    size_t words;                 /* 1 + those of the optimizer; 1: there is none */
    void *self;
    /* Gives words 0..words-1 to write, in order: begin starts, and from then on the numbers that are written
     * are those of that moment, even if training goes on; finish returns when all have been given. done: a
     * finish would not have to wait. RT_DIVERGED by begin or finish when a number is not finite. */
    rt_status (*begin)(void *self, size_t words, rt_state_write write, void *user, struct rt_error *err);
    bool (*done)(void *self);
    rt_status (*finish)(void *self, struct rt_error *err);
    /* Takes words 0..words-1 from read, in order; they are those after `update` updates. */
    rt_status (*load)(void *self, size_t words, uint64_t update, rt_state_read read, void *user,
                      struct rt_error *err);
};

/* Those of a network on this device. state: the optimizer's, words blocks of param_count; may be NULL. */
struct rt_local_state {
    struct rt_network *network;
    float *state;
    size_t optim_words;
};
struct rt_model_state rt_model_state_local(struct rt_local_state *local);

/* begin and finish in one. */
rt_status rt_model_state_write(const struct rt_model_state *model_state, size_t words, rt_state_write write,
                               void *user, struct rt_error *err);

/* SHA-256 over the parameters of a word 0 that passes by in stretches, and another over its buffers. */
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

/* Floats as the little-endian bytes that hashes are made of. */
void rt_hash_floats(struct rt_sha256 *hash, size_t count, const float *floats);

#endif
