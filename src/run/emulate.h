/* The devices and the network that local processes emulate: cluster.slowdown, cluster.bandwidth and
 * cluster.latency. */
#ifndef RT_RUN_EMULATE_H
#define RT_RUN_EMULATE_H

#include "cluster/local.h"
#include "formats/runfile.h"
#include "metrics/pace.h"

/* Of each local process, the master first: paces[cluster.nodes]. */
rt_status rt_emulate_paces(const struct rt_spec *spec, struct rt_pace *paces, struct rt_error *err);

/* Likewise the network that each has. Texts are borrowed from the spec. */
rt_status rt_emulate_links(const struct rt_spec *spec, struct rt_emulated_link *links, struct rt_error *err);

/* Of the master; refuses what is wrong with the others' as well. */
rt_status rt_emulate_master(const struct rt_spec *spec, struct rt_pace *pace, struct rt_error *err);

#endif
