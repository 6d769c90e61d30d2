/* Small trainings for tests: a network, generated data and a trainer, all in memory. */
#ifndef RT_TEST_TINY_H
#define RT_TEST_TINY_H

#include "learn/step.h"

struct tiny {
    struct rt_tree *tree;
    struct rt_network network;
    struct rt_dataset set;
    struct rt_scaling scaling;
    struct rt_optim *optim;
    struct rt_schedule schedule;
    struct rt_trainer *trainer;
    float *inputs, *values;
    int32_t *classes;
};

/* How a training is computed; zeros mean: exact kernels, chosen by the CPU, one thread. */
struct tiny_way {
    enum rt_math math;
    const char *kernels;
    size_t threads;
};

/* model: "{input: ..., layers: [...], loss: ...}"; optimizer as in a run file. The data are a function of
 * their number and the model's shapes. settings->updates is filled in when it is 0. */
rt_status tiny_open(const char *model, const char *optimizer, size_t examples,
                    const struct tiny_way *strategy, const struct rt_trainer_settings *settings,
                    struct tiny *tiny, struct rt_error *err);
void tiny_close(struct tiny *tiny);

/* Opens, makes so many updates, gives the hash of the parameters, closes. */
rt_status tiny_hash(const char *model, const char *optimizer, size_t examples,
                    const struct tiny_way *strategy, const struct rt_trainer_settings *settings,
                    size_t updates, char hex[65], struct rt_error *err);

#endif
