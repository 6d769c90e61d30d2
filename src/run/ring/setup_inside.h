/* What the files that form a ring share; see setup.h. */
#ifndef RT_RUN_RING_SETUP_INSIDE_H
#define RT_RUN_RING_SETUP_INSIDE_H

#include "run/ring/setup.h"

/* Local processes share the cores of this machine: the plan promises no more than those can do. */
void rt_ring_setup_share_cores(const struct rt_ring_setup *setup, const struct rt_spec *spec, size_t rings);
/* Adds to the plan's memory what devices take besides their part. */
rt_status rt_ring_setup_count_memory(const struct rt_ring_setup_settings *settings,
                                     const struct rt_ring_setup *setup, struct rt_error *err);

#endif
