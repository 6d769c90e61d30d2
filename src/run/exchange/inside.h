/* What the files of the exchange's learner share: learner.c, learner_recover.c, returns.c, setup.c,
 * scheduling.c, groups.c, model_state.c. */
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
    struct rt_membership who;
    char fingerprint[65]; /* of the training data, once it is known */

    /* Of the view. */
    size_t *device; /* [who.devices] of each rank */
    uint16_t count; /* ranks */
    struct rt_exchange_options view_options;
    const struct rt_exchange_options *options; /* those, as far as so few nodes allow */
    struct rt_link_cost cost;
    struct rt_link **links;
    struct rt_talk *talks;
    double *slice_seconds;     /* [2 * devices] in which each computes a slice; in which it makes an update;
                                  NULL: not measured */
    struct rt_slice_run *runs; /* [workers] of a batch's slices; NULL: equal parts */
    size_t workers;
    struct rt_exchanger *exchanger; /* the master's own part */
    struct rt_coordinator *coordinator;
    struct rt_engine_part coordinator_part;
    struct rt_scheduler *scheduler;  /* guarded by the engine */
    struct rt_sample_sender *sender; /* data.send; NULL: the workers have their own data */
    struct {
        bool look;     /* guarded by the engine: at devices that are gone */
        size_t member; /* likewise: one that has come back; SIZE_MAX: none */
        double at;     /* for the next look */
    } returns;
    bool stopped;
    struct rt_error failure; /* why it ends, for the nodes; status RT_OK: it does not */

    bool image_on_disk; /* as asked for, or because memory is short */
    struct rt_local_state local;
    struct rt_model_state blocks;
    size_t fetched; /* tensors that are here as they are at rest; 0: none */
    uint64_t moved; /* bytes of state that were sent to the nodes of this view */
    struct rt_metrics_row *rows;
    bool asked; /* for rows */
};

/* ---- setup.c ---- */
/* Gathers the nodes. */
rt_status rt_exchange_gather(struct rt_exchange_learner *learner, struct rt_error *err);
/* Joins those that are there, tells them their part, and makes the master's own. */
rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err);
/* Bytes of the images that the run keeps on the master. */
size_t rt_exchange_image_bytes(const struct rt_exchange_learner *learner);
/* What a view has begins to work. */
rt_status rt_exchange_start(struct rt_exchange_learner *learner, struct rt_error *err);

/* ---- shares.c ---- */
/* Where shares follow speed: measures how fast the devices are. */
rt_status rt_exchange_measure(struct rt_exchange_learner *learner, struct rt_error *err);
/* Shares a batch's slices among the workers of the view, where the strategy can add them, and there are
 * enough.
 */
rt_status rt_exchange_share_slices(struct rt_exchange_learner *learner, const struct rt_roles *roles,
                                   struct rt_error *err);
void rt_exchange_print_shares(const struct rt_exchange_learner *learner, FILE *out);

/* ---- ranks.c ---- */
/* Of those that are there, and what the strategy can do with them. */
rt_status rt_exchange_number_nodes(struct rt_exchange_learner *learner, struct rt_error *err);
/* Whether a view has more nodes now than the one that works. */
bool rt_exchange_has_place(const struct rt_exchange_learner *learner);

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

/* ---- returns.c ---- */
/* A part of the engine that calls devices that are gone; and what the engine hears from them. */
struct rt_engine_part rt_exchange_returns_part(struct rt_exchange_learner *learner);
void rt_exchange_stray(void *user, const struct rt_event *event);
/* See struct rt_learner. */
bool rt_exchange_wants_view(void *self, struct rt_error *why);

/* ---- learner_recover.c ---- */
/* Gives up what belongs to a view; the nodes have been told. */
void rt_exchange_leave(struct rt_exchange_learner *learner);
/* Forms a view of those that are there, and begins; user: the learner. What was left of another is given up.
 */
rt_status rt_exchange_form_anew(void *user, struct rt_error *err);
/* Whether it survives the loss of a device. */
void rt_exchange_can_recover(const struct rt_exchange_learner *learner, struct rt_learner *described);

/* ---- learner.c ---- */
/* Waits for the nodes to say goodbye, or to hang up; for so many seconds at most. */
void rt_exchange_linger(struct rt_exchange_learner *learner, double seconds);
/* What is true of the view. */
void rt_exchange_describe(struct rt_exchange_learner *learner, struct rt_learner *described);
/* If a node was lost, puts the name that the user knows into the message. Keeps the reason for the other
 * nodes. */
rt_status rt_exchange_explain(struct rt_exchange_learner *learner, rt_status status, struct rt_error *err);

#endif
