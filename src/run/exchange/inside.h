/* What the files of the exchange's learner share: learner.c, setup.c, scheduling.c, groups.c,
 * model_state.c. */
#ifndef RT_RUN_EXCHANGE_INSIDE_H
#define RT_RUN_EXCHANGE_INSIDE_H

#include "control/batch_scheduler.h"
#include "control/coordinator.h"
#include "run/exchange/exchanger.h"
#include "run/exchange/samples.h"
#include "run/learner.h"
#include "run/membership.h"

struct rt_exchange_learner {
    struct rt_training_config config;
    const struct rt_exchange_options *options;
    struct rt_membership who;
    uint16_t count; /* devices; rank i is device i */
    struct rt_link **links;
    struct rt_talk *talks;
    struct rt_exchanger *exchanger; /* the master's own part */
    struct rt_coordinator *coordinator;
    struct rt_engine_part coordinator_part;
    struct rt_scheduler *scheduler;  /* guarded by the engine */
    struct rt_sample_sender *sender; /* data.send; NULL: the workers have their own data */
    bool stopped;
    struct rt_error failure; /* why it ends, for the nodes; status RT_OK: it does not */

    struct rt_local_state local;
    struct rt_model_state blocks;
    size_t fetched; /* tensors that are here as they are at rest; 0: none */
    struct rt_metrics_row *rows;
    bool asked; /* for rows */
};

/* ---- setup.c ---- */
/* Gathers and joins the nodes, tells them their part, and makes the master's own. */
rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err);

/* ---- groups.c ---- */
/* The coordinator as the batch scheduler sees it. */
struct rt_scheduler_workers rt_exchange_workers(struct rt_exchange_learner *learner);
/* Where the master's own worker is the proxy of a group: the others there get the batch that it begins with;
 * and what they say of it is waited for and added. By the thread that computes, not inside. */
void rt_exchange_give_beside(struct rt_exchange_learner *learner, uint64_t batch);
rt_status rt_exchange_take_beside(struct rt_exchange_learner *learner, struct rt_done *done,
                                  struct rt_error *err);

/* ---- scheduling.c ---- */
/* Makes the batch scheduler of the run. tracks: the server here sees every gradient, one for each batch. */
rt_status rt_exchange_make_scheduler(struct rt_exchange_learner *learner, bool tracks, struct rt_error *err);
/* The coordinator as a part of the engine: after each of its events the batch scheduler gives batches. */
struct rt_engine_part rt_exchange_coordinator_part(struct rt_exchange_learner *learner);
/* Of the server on the master, see exchange/server/server.h; user: the learner. */
void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict);

/* ---- model_state.c ---- */
struct rt_model_state rt_exchange_model_state(struct rt_exchange_learner *learner);
/* Brings tensors 0..tensors-1 to the master, as they are at rest. */
rt_status rt_exchange_fetch(struct rt_exchange_learner *learner, size_t tensors, struct rt_error *err);

/* ---- learner.c ---- */
/* If a node was lost, puts the name that the user knows into the message. Keeps the reason for the other
 * nodes. */
rt_status rt_exchange_explain(struct rt_exchange_learner *learner, rt_status status, struct rt_error *err);

#endif
