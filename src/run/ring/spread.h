/* A trained model spread over a ring, for evaluation and prediction: no node needs memory for all of it. */
#ifndef RT_RUN_RING_SPREAD_H
#define RT_RUN_RING_SPREAD_H

#include "formats/runfile.h"
#include "learn/evaluate.h"
#include "run/modelfile.h"

struct rt_spread;

/* trained: described, and borrowed. spec: its cluster section says who takes part. program: the ringtmp
 * command, for local nodes. */
rt_status rt_spread_open(const char *model_path, struct rt_trained *trained, const struct rt_spec *spec,
                         const char *program, const atomic_int *stop, struct rt_spread **spread,
                         struct rt_error *err);
void rt_spread_close(struct rt_spread *spread); /* NULL is fine */

struct rt_forward rt_spread_forward(struct rt_spread *spread);

#endif
