/* What rings.c, rings_apart.c, setup.c and plan.c share. */
#ifndef RT_RUN_HYBRID_INSIDE_H
#define RT_RUN_HYBRID_INSIDE_H

#include "control/batch_scheduler.h"
#include "run/exchange/samples.h"
#include "run/hybrid/group.h"
#include "run/hybrid/part_pipeline.h"
#include "run/hybrid/rings.h"

struct rt_rings {
    struct rt_training_config config;
    struct rt_exchange_options options;          /* with the number of rings settled */
    const struct rt_exchange_strategy *strategy; /* between the rings */
    struct rt_exchange_options exchange_options;
    struct rt_link_cost cost;  /* of the links between them */
    bool with_servers, shares; /* see run/hybrid/position.h */
    uint16_t count, ring_size;
    uint16_t most;        /* rings: as many as the run began with */
    int64_t slices;       /* of a batch, that the run's sums are made of: see choose_keeps_bits in choose.c */
    int64_t backups;      /* that the options ask for */
    char fingerprint[65]; /* of the training data; "": not known yet */
    double rate;          /* samples/s that are predicted for machines of their own */
    double exchange_seconds; /* predicted, of an update; nothing else goes on meanwhile */

    struct rt_endpoint *endpoint;
    struct rt_node_names names; /* of all nodes */
    struct rt_link **links;     /* [count]: of the master with the leaders of the other rings */
    struct rt_talk *talks;      /* [count] with them */
    struct rt_communicator comm;
    struct rt_coordinator *coordinator;
    struct rt_sample_sender *sender; /* data.send; NULL: the leaders have their own data */
    uint64_t samples_sent;           /* rings that stay together: the last update whose examples were sent */
    struct rt_group *group;
    struct rt_part_pipeline part_pipeline;
    double asked; /* when leaders were last asked for metrics */
    bool stepped,
        reloaded; /* reloaded: ring 0 was loaded after an update, and has another state than the rest */
    bool stopped; /* in good order */
    struct rt_error failure; /* why it ends, for the others; status RT_OK: it does not */

    /* Where each ring goes at its own pace. */
    struct rt_scheduler *scheduler; /* of the rings, whose ranks are their numbers */
    uint16_t *worker;
    struct rt_roles roles;
    struct rt_ring *ring; /* ring 0, while a call is under way */
    bool resting;         /* ring 0 is, and has had no batch since */
};

/* Waits, while ring 0 goes on, for what the leaders owe; rest: also for their rest. */
rt_status rt_rings_wait(struct rt_rings *rings, bool rest, bool (*test)(void *user), void *user,
                        struct rt_error *err);

/* Has what was given or asked sent. */
void rt_rings_flush(struct rt_rings *rings);

/* Of so many devices, in place of `before`. */
rt_status rt_rings_create_again(const struct rt_rings *before, size_t count, size_t ring_size,
                                struct rt_rings **rings, struct rt_error *err);

/* ---- setup.c ---- */
/* Tells every node of the view its part. */
rt_status rt_rings_assign(struct rt_rings *rings, struct rt_ring_setup *setup, struct rt_error *err);
/* Takes note of what a link costs. */
void rt_rings_count_cost(struct rt_rings *rings, const struct rt_edge *edge);
/* The links of the view that is formed for them. */
void rt_rings_shape(struct rt_rings *rings, struct rt_ring_setup_settings *wanted);

/* ---- plan.c ---- */
/* Adds what the exchange takes to the plan of one ring; batch: of the run. */
rt_status rt_rings_add_exchange(struct rt_rings *rings, double batch, struct rt_plan *plan,
                                struct rt_error *err);

/* ---- choose.c: how many rings the devices that are there form ---- */
struct rt_rings_choice {
    struct rt_rings *rings;
    struct rt_ring_places places;
    struct rt_plan *plan; /* of one of the rings */
    struct rt_job *job;   /* of the part that it has of each batch */
    bool keeps_bits;      /* the sums are those of the run until now */
};
/* The job's shards for so many rings: as many as the sums have been made of, where that is a tree. */
int64_t rt_rings_shards(const struct rt_rings *rings);
/* The best one. deinit also on failure. */
rt_status rt_rings_choose(const struct rt_rings *rings, const struct rt_ring_setup *setup,
                          struct rt_rings_choice *choice, struct rt_error *err);
void rt_rings_choice_deinit(struct rt_rings_choice *choice); /* a zeroed one is fine */

/* ---- rings_apart.c: each ring at its own pace ---- */
rt_status rt_rings_make_scheduler(struct rt_rings *rings, const struct rt_plan *plan, struct rt_error *err);
rt_status rt_rings_step_apart(struct rt_rings *rings, struct rt_ring_update *update, struct rt_error *err);
/* All rings rest, and ring 0 has the newest parameters. */
rt_status rt_rings_rest_apart(struct rt_rings *rings, struct rt_error *err);
/* Of the server on the master (see exchange/server/server.h). user: the rings */
void rt_rings_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
void rt_rings_judged(void *user, const struct rt_push *push, enum rt_verdict verdict);

#endif
