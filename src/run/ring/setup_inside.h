/* What the files that form a ring share; see setup.h. */
#ifndef RT_RUN_RING_SETUP_INSIDE_H
#define RT_RUN_RING_SETUP_INSIDE_H

#include "run/ring/setup.h"

/* Local processes share the cores of this machine: the plan promises no more than those can do. */
void rt_ring_setup_share_cores(const struct rt_ring_setup *setup, const struct rt_spec *spec, size_t rings);
/* Adds to the plan's memory what devices take besides their part. */
rt_status rt_ring_setup_count_memory(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err);

/* A view of the devices that are in the plan. */
rt_status rt_ring_setup_form_planned(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err);

/* ---- measure.c ---- */
/* Asks the devices that are there at the beginning. */
rt_status rt_ring_setup_measure(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                size_t rows, struct rt_layer_times *const *times, struct rt_error *err);
rt_status rt_ring_setup_measure_master(const struct rt_ring_setup_settings *settings,
                                       struct rt_ring_setup *setup, struct rt_error *err);

/* ---- order.c ---- */
/* The devices that are there, in the order of a ring; returns how many. order: [who.devices]. */
size_t rt_ring_setup_order(const struct rt_ring_setup *setup, size_t *order);
/* Joins all of them, and measures the links. */
rt_status rt_ring_setup_probe_links(const struct rt_ring_setup_settings *settings,
                                    struct rt_ring_setup *setup, struct rt_error *err);
rt_status rt_ring_setup_add_ring(void *user, struct rt_view *view, struct rt_error *err);
void rt_ring_setup_take_links(struct rt_ring_setup *setup, size_t places);

/* Those of the master, which nobody has taken. */
void rt_ring_setup_close_links(struct rt_ring_setup *setup);

/* ---- places.c ---- */
/* number: [rings * count], the device at each place of each ring, the master first; copied. deinit also on
 * failure. */
rt_status rt_ring_places_init(const struct rt_ring_setup *setup, const size_t *number, size_t rings,
                              size_t count, struct rt_ring_places *places, struct rt_error *err);
void rt_ring_places_deinit(struct rt_ring_places *places); /* a zeroed one is fine */

/* ---- replan.c ---- */
/* The devices that are there may offer less memory than before: they were started again. */
void rt_ring_setup_look_again(struct rt_ring_setup *setup);
bool rt_ring_setup_is_there(const struct rt_ring_setup *setup, size_t device);
/* The plan for the devices that are there, as fast as they are now; in the numbers of all devices. */
rt_status rt_ring_setup_replan(const struct rt_ring_setup *setup, bool keep_all, struct rt_plan **plan,
                               struct rt_error *err);
/* samples/s that the plan there is reaches with devices as fast as they are now. */
rt_status rt_ring_setup_rate(const struct rt_ring_setup *setup, double *rate, struct rt_error *err);

/* ---- replica_plan.c ---- */
/* Bytes per second at which every node sends its replica; 0: no limit. */
double rt_ring_setup_replica_rate(const struct rt_ring_setup *setup);
/* Adds the replicas to the plan's memory, and sets how often they can be made. */
rt_status rt_ring_setup_count_replicas(struct rt_ring_setup *setup, struct rt_error *err);
void rt_ring_setup_print_replicas(const struct rt_ring_setup *setup, FILE *out);

/* ---- stream_plan.c ---- */
/* How many examples of a stream are kept, and their memory on the master; after the replicas. */
rt_status rt_ring_setup_count_stream(const struct rt_ring_setup_settings *settings,
                                     struct rt_ring_setup *setup, struct rt_error *err);
void rt_ring_setup_print_stream(const struct rt_ring_setup *setup, FILE *out);

#endif
