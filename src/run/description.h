/*
 * The metadata of model files and checkpoints: which keys there are, and the hash over all that decides a
 * prediction. Keys that begin with "ringtmp." are ours alone: one that is not known comes from a later
 * version or has been altered, and the file is refused. Keys of others ("format": "pt") are left alone.
 */
#ifndef RT_RUN_DESCRIPTION_H
#define RT_RUN_DESCRIPTION_H

#include "formats/safetensors.h"

#define RT_KEY_CLASSES     "classes"
#define RT_KEY_LOSS        "loss"
#define RT_KEY_MODEL       "model"
#define RT_KEY_PARAMS_HASH "params_sha256"
#define RT_KEY_SCALING     "scaling"
#define RT_KEY_UPDATE      "update"
#define RT_KEY_VERSION     "version"
/* Those added since the first model files. */
#define RT_KEY_BUFFERS_HASH "ringtmp.buffers_sha256"
#define RT_KEY_COLUMNS      "ringtmp.columns"
#define RT_KEY_HASH         "ringtmp.sha256"

/* Amends RT_KEY_HASH, after all other keys have their values. */
rt_status rt_description_seal(struct rt_tensors_out *out, struct rt_error *err);

/* Refuses an altered description: one that does not match its hash, or a key of ours that is not known.
 * *sealed: whether there is a hash. path: for messages. */
rt_status rt_description_check(const struct rt_tensors *tensors, const char *path, bool *sealed,
                               struct rt_error *err);

#endif
