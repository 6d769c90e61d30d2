/* What it costs that a run survives the loss of a device, and of its master: as lines of a plan, before the
 * run. What it has cost is in summary.json. Replicas of a ring are in run/ring/replica_plan.c. */
#ifndef RT_RUN_RESILIENCE_H
#define RT_RUN_RESILIENCE_H

#include "formats/runfile.h"
#include <stdio.h>

/* The image of the state that the master keeps: `bytes` are two of them. where: "of memory", ... */
void rt_resilience_print_image(const struct rt_spec *spec, size_t bytes, const char *where, FILE *out);

/* Checkpoints of so many bytes: adds a line to a plan, which it takes over. NULL: there is no plan, or memory
 * is short. */
char *rt_resilience_add_checkpoint(char *plan, const struct rt_spec *spec, size_t bytes);

#endif
