/* A trained model: the network with everything needed to use it. */
#ifndef RT_LEARN_TRAINED_H
#define RT_LEARN_TRAINED_H

#include "data/dataset.h"
#include "learn/names.h"
#include "learn/snapshot.h"

struct rt_trained {
    struct rt_network network;
    struct rt_scaling scaling;
    struct rt_names names;   /* of the classes, or of the values 0, 1, ... of a target; count 0: none */
    struct rt_names columns; /* of the inputs, in the table that it was trained on; count 0: not known */
    char *description;       /* the model section as JSON; owned */
    uint64_t update;         /* the one that gave these parameters */
    struct rt_snapshot kept; /* its state, if it is neither in the network nor in a file; else empty */
    bool unsealed;           /* read from a file that has no hash over its description */
};

void rt_trained_deinit(struct rt_trained *trained); /* a zeroed one is fine */

/* Classes that the model distinguishes and a prediction can name; 0: its outputs are values. A single output
 * of bce is the probability of the second of two named classes. */
size_t rt_trained_classes(const struct rt_trained *trained);

#endif
