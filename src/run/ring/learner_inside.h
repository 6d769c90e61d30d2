/* What the files of the learner that is a ring share; see learner.h. */
#ifndef RT_RUN_RING_LEARNER_INSIDE_H
#define RT_RUN_RING_LEARNER_INSIDE_H

#include "run/ring/input_pipeline.h"
#include "run/ring/learner.h"
#include "run/ring/setup_inside.h"

/* What is known about the speed of the devices in this view; see watch.c. */
struct rt_watch {
    double at; /* when to look again */
    bool has_before;
    struct rt_metrics_row *before; /* [devices] reports of the nodes, a while ago */
    double *slower;                /* [devices] what was measured last, by node */
    unsigned windows;              /* in a row in which another plan was worth it */
};

/* A device that has joined, and measures the layers; see newcomer.c. */
struct rt_newcomer {
    bool active;
    size_t member;
    unsigned asked; /* 1: for the first size of micro-batches; 2: for the other */
    double until;   /* for the answer */
};

struct rt_ring_learner {
    struct rt_training_config config;
    struct rt_ring_setup setup;
    struct rt_ring *ring;
    struct rt_input_pipeline pipeline;
    struct rt_stream_batches *stream; /* NULL: the data are none */
    struct rt_rings *rings;           /* NULL: there is one */
    size_t nodes;                     /* of all rings */
    struct rt_metrics_row *rows;
    struct rt_replicas *replicas; /* what the master keeps of the state; NULL: nothing yet */
    uint64_t replicating; /* the version of the newest image that became a replica in this view; 0: none */
    bool superseded;      /* it took the place of one that was not complete */
    struct rt_watch watch;
    struct rt_newcomer newcomer;
};

/* ---- learner.c ---- */
/* If a node was lost, says which device that is. Keeps the reason, to tell the other rings. */
rt_status rt_ring_learner_explain(const struct rt_ring_learner *learner, rt_status status,
                                  struct rt_error *err);
/* Of the state after the last update, at rest. The run is told if it becomes a replica. */
rt_status rt_ring_learner_take_image(struct rt_ring_learner *learner, struct rt_error *err);
struct rt_ring_setup_settings rt_ring_learner_wants(const struct rt_ring_learner *learner);
/* The ring of the view that has been formed. */
rt_status rt_ring_learner_open_ring(struct rt_ring_learner *learner, struct rt_error *err);

/* ---- learner_recover.c ---- */
/* What follows from the plan. */
void rt_ring_learner_describe(const struct rt_ring_learner *learner, struct rt_learner *described);
/* Adds replicas and recovery, where there are any. */
void rt_ring_learner_can_recover(const struct rt_ring_learner *learner, struct rt_learner *described);

/* ---- learner_stream.c ---- */
/* Opens the stream, where the data are one and it is not open yet. */
rt_status rt_ring_learner_open_stream(struct rt_ring_learner *learner, struct rt_error *err);
/* Before an update: lets go of the examples that no recovery would need. */
void rt_ring_learner_release(struct rt_ring_learner *learner);
/* Adds what a stream has. */
void rt_ring_learner_describe_stream(const struct rt_ring_learner *learner, struct rt_learner *described);

/* ---- newcomer.c ---- */
void rt_ring_newcomer_begin(struct rt_ring_learner *learner, size_t member);
/* Of an active one: whether the planner knows it now; it is no longer active then. */
bool rt_ring_newcomer_look(struct rt_ring_learner *learner);
/* No view waits for those that have not measured yet. */
void rt_ring_newcomers_forget(struct rt_ring_learner *learner);

/* ---- watch.c ---- */
rt_status rt_ring_learner_watch_init(struct rt_ring_learner *learner, struct rt_error *err);
void rt_ring_learner_watch_deinit(struct rt_ring_learner *learner); /* also of a zeroed one */
/* Another view has begun: nothing is known of it yet. */
void rt_ring_learner_watch_view(struct rt_ring_learner *learner);
/* Of the learner's table. */
bool rt_ring_learner_wants_view(void *self, struct rt_error *why);

#endif
