/*
 * Forming a ring: from a run file to devices that know their part. Used by a training, by an evaluation of a
 * model that fits on no single device, and by `ringtmp plan`, which goes as far as the plan and no further.
 */
#ifndef RT_RUN_RING_SETUP_H
#define RT_RUN_RING_SETUP_H

#include "data/dataset.h"
#include "formats/runfile.h"
#include "ring/ring.h"
#include "run/membership.h"

struct rt_ring_setup {
    struct rt_job *job;
    struct rt_membership who;
    struct rt_plan *plan;
    struct rt_link *next, *previous; /* of the master, in the ring; NULL once a ring has taken them over */

    struct rt_plan_question question; /* that the plan answers */
    struct rt_plan_device *device;    /* [who.devices] */
    struct rt_layer_times **times;
};

struct rt_ring_setup_settings {
    const struct rt_spec *spec;
    struct rt_network *network; /* described: the whole model, and the master's device */
    const struct rt_job *job;   /* of the whole batch, as the run file has it; needed until there is a plan */
    const char *program;        /* the ringtmp command, for local nodes; NULL: on the PATH */
    int64_t slots;              /* of every node; -1: the planner chooses */
    const atomic_int *stop;     /* may be NULL */
    /* Told at once of nodes that do not answer; may be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
    /* The examples that the master will feed the ring with; NULL: not at hand. */
    const struct rt_dataset *set;
    const struct rt_scaling *scaling;
    /* The number of rings; 0 or 1: one. Device r * N / rings + p is at position p of ring r, and the plan is
     * for one ring whose devices are each as slow as the slowest at its position. shape adds the links in
     * place of a ring of all, and joined is told of the view that has them; may be NULL. */
    size_t rings;
    size_t parts;      /* of each batch: as many as rings, or 1: each has its own */
    bool with_servers; /* see struct rt_job_ring */
    rt_status (*shape)(void *user, struct rt_view *view, struct rt_error *err);
    void (*joined)(void *user, struct rt_view *view);
    void *user;
};

/* Connects, measures and plans. deinit also on failure. */
rt_status rt_ring_setup_plan(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                             struct rt_error *err);
/* The plan as people read it, to be freed; NULL when memory is short. */
char *rt_ring_setup_print(const struct rt_ring_setup *setup);
/* Tells every node its part and sets the ring up; afterwards the master talks to its neighbours only. */
rt_status rt_ring_setup_assign(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                               struct rt_error *err);
/* What the end of that is, also for several rings: tells every node of the view its part in this job, and has
 * all begin. A ring's parts are those of the plan. */
rt_status rt_ring_setup_tell(struct rt_ring_setup *setup, const struct rt_job *job, struct rt_error *err);
/* In the middle of a run: another view, without the devices that are lost; those that had been left out may
 * be in it. Nothing is measured again, and micro-batches keep their size. lost: [who.devices]. The ring of
 * the view before is gone. */
rt_status rt_ring_setup_recover(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                const bool *lost, struct rt_error *err);
void rt_ring_setup_deinit(struct rt_ring_setup *setup); /* a zeroed one is fine */

#endif
