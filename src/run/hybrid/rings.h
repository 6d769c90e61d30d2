/*
 * The other rings of a run, on the master. The learner (run/ring/learner.c) drives ring 0 like a single ring;
 * this adds what several rings need: links and parts, the exchange of gradients at the master's own position
 * (run/hybrid/group.h), and the control messages to the other leaders (control/coordinator.h).
 */
#ifndef RT_RUN_HYBRID_RINGS_H
#define RT_RUN_HYBRID_RINGS_H

#include "run/learner.h"
#include "run/ring/setup.h"

struct rt_rings;

/* config: of the run, with the options of hybrid (struct rt_exchange_options); what it points
 * at is borrowed. For more than one ring; in the middle of a run one may be left (rt_rings_form_again). */
rt_status rt_rings_create(const struct rt_training_config *config, struct rt_rings **rings,
                          struct rt_error *err);
/* Tells the other rings why the run ends, unless it has been stopped, and closes the links: the links may
 * write to the memory of ring 0 until then. */
void rt_rings_hang_up(struct rt_rings *rings);       /* NULL is fine */
void rt_rings_destroy(struct rt_rings *rings);       /* hangs up; NULL is fine */
size_t rt_rings_count(const struct rt_rings *rings); /* NULL: 1 */

/* ---- forming ---- */

/* Has the set-up plan for all of them, and join them. */
void rt_rings_want(struct rt_rings *rings, struct rt_ring_setup_settings *wanted);
/* When there is a plan: adds what the exchange takes to the memory and the time that are predicted. */
rt_status rt_rings_planned(struct rt_rings *rings, struct rt_ring_setup *setup, struct rt_error *err);
/* The plan as people read it, to be freed; NULL when memory is short. */
char *rt_rings_print(const struct rt_rings *rings, const struct rt_ring_setup *setup);
/* Tells every node its part. Where a device is lost meanwhile, or was while links and devices were measured,
 * the run begins with other rings of those that are there, in place of *rings. */
rt_status rt_rings_begin(struct rt_rings **rings, const struct rt_ring_setup_settings *settings,
                         struct rt_ring_setup *setup, struct rt_error *err);
/* Before ring 0 is made: turns the source of whole batches into that of its part, and gives what it does
 * together with the others. */
rt_status rt_rings_open(struct rt_rings *rings, const struct rt_ring_setup *setup,
                        struct rt_ring_source *source, struct rt_inter_ring *inter_ring,
                        struct rt_error *err);

/* ---- when a device is lost, or comes back ---- */

/* Tells the other rings that the view is over; then ring 0 is told (rt_ring_give_up). */
void rt_rings_end_view(struct rt_rings *rings);
/* Gives them a moment to leave, and closes the links: ring 0 may be destroyed. */
void rt_rings_leave(struct rt_rings *rings);
/* Another view: as many rings as are best for the devices that are there, in place of *rings, which the run
 * has left, and a plan for them in the set-up. gone, recovered: see rt_ring_setup_recover. */
rt_status rt_rings_form_again(struct rt_rings **rings, const struct rt_ring_setup_settings *settings,
                              struct rt_ring_setup *setup, bool *gone, struct rt_recovered *recovered,
                              struct rt_error *err);
/* How many times faster other rings of the devices that are there are predicted to be; more: they are of more
 * devices. */
rt_status rt_rings_gain(const struct rt_rings *rings, const struct rt_ring_setup *setup, double *gain,
                        bool *more, struct rt_error *err);

/* Whether the images that the run keeps of the state (run/replicate.c) are in a file. */
bool rt_rings_image_is_on_disk(const struct rt_rings *rings, const struct rt_ring_setup *setup);

/* ---- the run ---- */

/* One update of all of them. */
rt_status rt_rings_step(struct rt_rings *rings, struct rt_ring *ring, struct rt_ring_update *update,
                        struct rt_error *err);
/* Whether every update that has begun has been returned; see rt_learner's at_rest. */
bool rt_rings_drain(struct rt_rings *rings);
/* Then, before ring 0 is asked for anything else: it has what all updates have led to. */
rt_status rt_rings_rest(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err);
/* Ring 0 has been given the state after so many updates. */
void rt_rings_loaded(struct rt_rings *rings, uint64_t update);
/* What the server on the master has counted; false: it has none. */
bool rt_rings_counts(const struct rt_rings *rings, struct rt_exchange_counts *counts);
/* The rows of the other rings, where they belong among those of all nodes. recent: without waiting; *fresh
 * tells whether there are any. */
rt_status rt_rings_metrics(struct rt_rings *rings, struct rt_ring *ring, bool recent,
                           struct rt_metrics_row *rows, bool *fresh, struct rt_error *err);
/* Why the run ends; the first reason counts. */
void rt_rings_fail(struct rt_rings *rings, rt_status status, const char *sentence);
/* The end in good order: of ring 0, when the others have been told. */
rt_status rt_rings_stop(struct rt_rings *rings, struct rt_ring *ring, struct rt_error *err);

#endif
