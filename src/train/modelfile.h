/*
 * Model files: parameters and buffers as safetensors, named as rt_model_visit names them, with metadata from
 * which the network can be built again: `model` (the model section of the run file as JSON), `loss`,
 * `scaling` (of the data, as JSON), `classes` (names, as a JSON list; only where the data gave names),
 * `params_sha256`, `update` and `version`.
 */
#ifndef RT_TRAIN_MODELFILE_H
#define RT_TRAIN_MODELFILE_H

#include "data/dataset.h"
#include "formats/safetensors.h"
#include "train/numbers.h"

/* Names of classes; owned. */
struct rt_names {
    char **items;
    size_t count;
};

rt_status rt_names_copy(const char *const *items, size_t count, struct rt_names *names, struct rt_error *err);
void rt_names_deinit(struct rt_names *names);

/* A network with all that is needed to use it. */
struct rt_trained {
    struct rt_network network;
    struct rt_scaling scaling;
    struct rt_names names; /* count 0: the classes have no names */
    char *description;     /* the model section as JSON; owned */
    uint64_t update;       /* the one that gave these parameters */
};

void rt_trained_deinit(struct rt_trained *trained); /* a zeroed one is fine */

/* Replaces the file atomically. numbers: where the parameters are; the blocks of trained->network need not be
 * there. hex: the hash of the parameters; may be NULL. */
rt_status rt_modelfile_write(const char *path, const struct rt_trained *trained,
                             const struct rt_numbers *numbers, char hex[65], struct rt_error *err);

/* Builds the network that the file describes. Memory is taken only when what the description needs is what
 * the file holds. */
rt_status rt_modelfile_read(const char *path, const struct rt_computing *computing,
                            struct rt_trained *trained, struct rt_error *err);
/* The same without the numbers: for those who have them elsewhere. */
rt_status rt_modelfile_describe(const char *path, const struct rt_computing *computing,
                                struct rt_trained *trained, struct rt_error *err);
/* rt_modelfile_read for a file that is open already; path for messages. */
rt_status rt_modelfile_build(const struct rt_tensors *tensors, const char *path,
                             const struct rt_computing *computing, struct rt_trained *trained,
                             struct rt_error *err);

/* Reads parameters and buffers only, from a model or a checkpoint, for a model whose tensors have the same
 * names and shapes. A file whose parameters do not match the hash it carries is refused before anything is
 * changed. version: the update that the numbers are to count as. update (may be NULL): what the file says; 0
 * if it does not. */
rt_status rt_modelfile_load(const char *path, const struct rt_numbers *numbers, uint64_t version,
                            uint64_t *update, struct rt_error *err);
/* The same into a network on this device. */
rt_status rt_modelfile_params(const char *path, struct rt_network *network, uint64_t *update,
                              struct rt_error *err);

#endif
