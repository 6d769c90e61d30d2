/*
 * Forming a ring: from a run file to devices that know their part. Used by a training, by an evaluation of a
 * model that fits on no single device, and by `ringtmp plan`, which goes as far as the plan and no further.
 */
#ifndef RT_RUN_RING_SETUP_H
#define RT_RUN_RING_SETUP_H

#include "data/dataset.h"
#include "formats/runfile.h"
#include "ring/ring.h"
#include "run/learner.h"
#include "run/membership.h"

/* The devices of a plan, which is for one ring: of several, each place is as slow as the slowest device
 * there. */
struct rt_ring_places {
    size_t rings, count;           /* places in a ring */
    size_t *number;                /* [rings * count] among all devices */
    struct rt_plan_device *device; /* [count] */
    struct rt_layer_times *times;  /* of all of them */
};

struct rt_ring_setup {
    struct rt_job *job;
    struct rt_membership who;
    struct rt_plan *plan;
    struct rt_link *next, *previous; /* of the master, in the ring; NULL once a ring has taken them over */

    struct rt_plan_question question; /* that the plan answers */
    struct rt_plan_device *device;    /* [who.devices] */
    struct rt_layer_times **times;
    struct rt_ring_places places; /* of several rings; else zeros */
    double *slower; /* [who.devices] how many times slower than measured each has become; at first 1 */

    /* The view begins with the state of that version, which is in the memory of its nodes; 0: it comes from
     * elsewhere. holder: [layers] the node that has each layer's. */
    uint64_t version;
    uint16_t *holder;
    double replica_interval; /* seconds: see struct rt_learner */
    double replica_bytes;    /* that are sent for each version */
    bool replica_on_disk;    /* of the master */
    size_t stream_room;      /* batches of a stream that the master keeps; 0: none */
    size_t stream_bytes;     /* that they take */
};

/* What recovery can go back to. */
struct rt_ring_past {
    bool *gone;                       /* [who.devices] not called; afterwards those that are not there */
    const struct rt_versions *known;  /* replicas that are of use */
    const struct rt_holding *holding; /* [holdings] of the master */
    size_t holdings;
};

struct rt_ring_setup_settings {
    const struct rt_spec *spec;
    struct rt_network *network; /* described: the whole model, and the master's device */
    const struct rt_job *job;   /* of the whole batch, as the run file has it; needed until there is a plan */
    const char *program;        /* the ringtmp command, for local nodes; NULL: on the PATH */
    const uint8_t *token;       /* see struct rt_training_config */
    struct rt_endpoint *endpoint; /* see struct rt_membership_settings */
    int64_t slots;                /* of every node; -1: the planner chooses */
    const atomic_int *stop;       /* may be NULL */
    /* Told at once of nodes that do not answer; may be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
    /* Shown also where other notices are not; may be NULL. */
    void (*warn)(void *user, const char *sentence);
    void *warn_user;
    struct rt_start start;
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

/* The device of a node, by its number in the view. */
size_t rt_ring_setup_device(const struct rt_ring_setup *setup, size_t node);

/* Connects, measures and plans. deinit also on failure. */
rt_status rt_ring_setup_plan(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                             struct rt_error *err);
/* The plan as people read it, to be freed; NULL when memory is short. */
char *rt_ring_setup_print(const struct rt_ring_setup *setup);
/* Tells every node its part and sets the ring up; afterwards the master talks to its neighbours only. */
rt_status rt_ring_setup_assign(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                               struct rt_error *err);
/* The same at the beginning of a training: where a device is lost meanwhile it begins without. */
rt_status rt_ring_setup_begin(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                              struct rt_error *err);
/* What the end of that is, also for several rings: tells every node of the view its part in this job, and has
 * all begin. A ring's parts are those of the plan. */
rt_status rt_ring_setup_tell(struct rt_ring_setup *setup, const struct rt_job *job, struct rt_error *err);
/* In the middle of a run: another view, without the devices that are lost; those that had been left out may
 * be in it. Nothing is measured again, and micro-batches keep their size. The ring of the view before is
 * gone. The version is set that the view begins with. recovered: what else is gone. */
rt_status rt_ring_setup_recover(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                const struct rt_ring_past *past, struct rt_recovered *recovered,
                                struct rt_error *err);
void rt_ring_setup_deinit(struct rt_ring_setup *setup); /* a zeroed one is fine */

#endif
