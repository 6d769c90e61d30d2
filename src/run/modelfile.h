/*
 * Model files: parameters and buffers as safetensors, named as rt_model_visit names them, with metadata from
 * which the network can be built again (description.h has the keys; docs/outputs.md explains them), and
 * hashes over all of it: a file that has been altered is refused.
 */
#ifndef RT_RUN_MODELFILE_H
#define RT_RUN_MODELFILE_H

#include "data/dataset.h"
#include "formats/safetensors.h"
#include "learn/trained.h"

/* Replaces the file atomically. numbers: where the parameters are; the blocks of trained->network need not be
 * there. hex: the hash of the parameters; may be NULL. */
rt_status rt_modelfile_write(const char *path, const struct rt_trained *trained,
                             const struct rt_model_state *model_state, char hex[65], struct rt_error *err);

/* Builds the network that the file describes. Memory is taken only when what the description needs is what
 * the file holds. */
rt_status rt_modelfile_read(const char *path, const struct rt_computing *computing,
                            struct rt_trained *trained, struct rt_error *err);
/* The same without the parameters, for callers that have them elsewhere. */
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
rt_status rt_modelfile_load(const char *path, const struct rt_model_state *model_state, uint64_t version,
                            uint64_t *update, struct rt_error *err);
/* Whether a file is of another program's making: of a square matrix its shape does not tell whether it has
 * the inputs first, as a dense layer here, or last. name: set to that of the first such weight; "": there is
 * none, or the file is ours. */
rt_status rt_modelfile_doubt(const char *path, const struct rt_model *model, char name[64],
                             struct rt_error *err);
/* The same into a network on this device. */
rt_status rt_modelfile_params(const char *path, struct rt_network *network, uint64_t *update,
                              struct rt_error *err);

#endif
