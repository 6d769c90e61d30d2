/* The scaling of data as JSON, for model files: {"scale": s, "offset": o, "mean": [...], "inverse": [...]}.
 */
#ifndef RT_LEARN_SCALING_H
#define RT_LEARN_SCALING_H

#include "data/dataset.h"

rt_status rt_scaling_json(const struct rt_scaling *scaling, char **json,
                          struct rt_error *err); /* to be freed */

/* path: for messages. inputs: the number of features, if there are any. */
rt_status rt_scaling_read(const char *json, const char *path, size_t inputs, struct rt_scaling *scaling,
                          struct rt_error *err);

#endif
