/* A network ready to compute: a model, the device it runs on, its parameters and buffers, and its loss. */
#ifndef RT_LEARN_NETWORK_H
#define RT_LEARN_NETWORK_H

#include "metrics/states.h"
#include "nn/loss.h"
#include "nn/model.h"

struct rt_network {
    struct rt_device device;
    struct rt_model *model;
    struct rt_blocks blocks; /* zeroed when created: see rt_model_init and rt_modelfile_params */
    const struct rt_loss_type *loss;
    size_t inputs, outputs;  /* floats in one example */
    struct rt_states *clock; /* of the thread that computes, on a device that may be emulated; NULL: none */
};

/* How a network computes; none of it changes a result, unless math is RT_MATH_FAST. */
struct rt_computing {
    enum rt_math math;
    const char *kernels; /* "auto" or an instruction set */
    size_t threads;      /* 0: all cores */
};

/* Builds the model and opens the device, but allocates no memory for parameters, buffers and scratch: so the
 * sizes in a model file can be checked against its contents before they are trusted. */
rt_status rt_network_describe(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                              const struct rt_computing *computing, struct rt_network *network,
                              struct rt_error *err);
/* Allocates the memory of a network that has been described. */
rt_status rt_network_allocate(struct rt_network *network, struct rt_error *err);

/* Both. */
rt_status rt_network_create(const struct rt_tree *input, const struct rt_tree *layers, const char *loss,
                            const struct rt_computing *computing, struct rt_network *network,
                            struct rt_error *err);
void rt_network_destroy(struct rt_network *network); /* a zeroed one is fine */

/* Classes the network distinguishes: its outputs; 0 when its loss is not over classes. */
size_t rt_network_classes(const struct rt_network *network);

/* Whether accuracy is meaningful: for classes, and for a single yes or no. values: the targets are values of
 * their own, not the inputs of an auto-encoder. */
bool rt_network_has_accuracy(const struct rt_network *network, bool values);

/* SHA-256 over all parameters in layer order, as little-endian float32. */
rt_status rt_network_hash(const struct rt_network *network, char hex[65], struct rt_error *err);

#endif
