/* A network's outputs for a set of examples: their loss and accuracy, or the outputs themselves. The network
 * may be on this device or spread over a ring. */
#ifndef RT_LEARN_EVALUATE_H
#define RT_LEARN_EVALUATE_H

#include "learn/row_reader.h"
#include <stdatomic.h>

/* A pass over examples: inputs fills in the given rows, outputs takes the network's outputs in order. */
struct rt_forward_pass {
    void *user;
    rt_status (*inputs)(void *user, size_t first, size_t rows, float *x, struct rt_error *err);
    rt_status (*outputs)(void *user, size_t first, size_t rows, const float *y, struct rt_error *err);
};

/* Computes outputs: run takes `examples` examples from the pass and gives it their outputs, at most `rows` at
 * a time, in order. */
struct rt_forward {
    void *self;
    size_t rows;
    rt_status (*run)(void *self, size_t examples, const struct rt_forward_pass *pass, struct rt_error *err);
};

/* A network on this device. */
struct rt_forward rt_forward_local(struct rt_network *network);

struct rt_score {
    size_t examples;
    double loss;     /* mean */
    double accuracy; /* NaN where it has no meaning */
};

/* network: its loss, widths and device are used, not its parameters. confusion: [classes][classes] counts
 * (see rt_network_classes), overwritten; may be NULL. stop: checked every few examples; once it is not 0 the
 * evaluation ends with RT_INTERRUPTED; may be NULL. */
rt_status rt_evaluate(const struct rt_network *network, const struct rt_forward *forward,
                      const struct rt_dataset *set, const struct rt_scaling *scaling, enum rt_target target,
                      const atomic_int *stop, uint64_t *confusion, struct rt_score *score,
                      struct rt_error *err);

/* Calls take for every example in order with its outputs as a user expects them (probabilities of a
 * classifier). */
typedef rt_status (*rt_output_fn)(void *user, size_t example, const float *outputs, size_t width,
                                  struct rt_error *err);
rt_status rt_predict(const struct rt_network *network, const struct rt_forward *forward,
                     const struct rt_dataset *set, const struct rt_scaling *scaling, rt_output_fn take,
                     void *user, struct rt_error *err);

#endif
