/* A network's outputs for a set of examples: how good they are, or the outputs themselves. */
#ifndef RT_TRAIN_EVALUATE_H
#define RT_TRAIN_EVALUATE_H

#include "train/feed.h"
#include <stdatomic.h>

struct rt_score {
    size_t examples;
    double loss;     /* mean */
    double accuracy; /* NaN where it has no meaning */
};

/* confusion: [classes][classes] counts (see rt_network_classes), overwritten; may be NULL. stop: looked at
 * every few examples; once it is not 0 the evaluation ends with RT_INTERRUPTED; may be NULL. */
rt_status rt_evaluate(struct rt_network *network, const struct rt_dataset *set,
                      const struct rt_scaling *scaling, enum rt_target target, const atomic_int *stop,
                      uint64_t *confusion, struct rt_score *score, struct rt_error *err);

/* Calls take for every example in order with its outputs as people want them (probabilities of a classifier).
 */
typedef rt_status (*rt_output_fn)(void *user, size_t example, const float *outputs, size_t width,
                                  struct rt_error *err);
rt_status rt_predict(struct rt_network *network, const struct rt_dataset *set,
                     const struct rt_scaling *scaling, rt_output_fn take, void *user, struct rt_error *err);

#endif
