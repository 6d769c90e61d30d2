/*
 * A ring without links, for tests: the stages of a model one after another in one process, on the data of a
 * tiny training, so that their numbers can be compared with those of one device.
 */
#ifndef RT_TEST_CHAIN_H
#define RT_TEST_CHAIN_H

#include "learn/batches.h"
#include "learn/stage.h"
#include "support/tiny.h"

enum { CHAIN_MOST = 8 };

struct chain {
    const struct tiny *tiny; /* the data and the loss */
    struct rt_job *job;
    struct rt_device device;
    size_t count, slots;
    struct rt_stage *stages[CHAIN_MOST];
    struct rt_batches batches;
    struct rt_micro parts[64]; /* of the update in work */
    size_t micros;
    float *dx; /* of any stage */
    float *losses;
    uint32_t random; /* for the order of what may come in any order */
};

/* The job of a model ("{input: ..., layers: ..., loss: ...}") with more keys ("batch: 10, shards: 4"). */
rt_status chain_job(const char *model, const char *keys, struct rt_job **job, struct rt_error *err);

/* cuts: where stages begin after the first, ending with 0 (NULL: one stage). slots of each stage. Weight
 * gradients come late and in an order that depends on `random`. */
rt_status chain_open(const struct tiny *tiny, const char *model, const char *keys, const size_t *cuts,
                     size_t slots, size_t threads, uint32_t random, struct chain *chain,
                     struct rt_error *err);
void chain_close(struct chain *chain);

/* One update. */
void chain_update(struct chain *chain);

/* Numbers that differ from those of the trainer: parameters, buffers and the optimizer's state. */
size_t chain_differs(const struct chain *chain, const struct tiny *tiny);

#endif
