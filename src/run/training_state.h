/* Where a run stands, and the settings that determine its result, as the JSON text inside a checkpoint. */
#ifndef RT_RUN_TRAINING_STATE_H
#define RT_RUN_TRAINING_STATE_H

#include "run/checkpoint.h"

rt_status rt_training_state_json(const struct rt_training_state *training_state,
                                 const struct rt_fingerprint *fingerprint, char **json,
                                 struct rt_error *err); /* to be freed */

/* Refuses settings that differ from the run's, naming the first that does. A value "SHOWN|COMPARED" is shown
 * to people by its first part and compared by its second: so strategies that may be exchanged for one another
 * are equal, and each has its own name. path: for messages. rescored: the first setting that differs but only
 * decides how models are scored; NULL: none. */
rt_status rt_training_state_read(const char *json, const char *path, const struct rt_fingerprint *fingerprint,
                                 struct rt_training_state *training_state, const char **rescored,
                                 struct rt_error *err);

#endif
