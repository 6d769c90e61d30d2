/* The images of a run's state that the master keeps where the learner has no replicas (run/replicate.c): what
 * they take. */
#ifndef RT_RUN_IMAGE_H
#define RT_RUN_IMAGE_H

#include "formats/runfile.h"
#include "nn/model.h"
#include "optim/optim.h"

/* Of two: one stays until the next is complete. */
size_t rt_image_bytes(const struct rt_model *model, const struct rt_optim *optim);
/* memory: of the master's part in the run. */
bool rt_image_is_on_disk(const struct rt_spec_cluster *cluster, size_t bytes, double memory);

#endif
