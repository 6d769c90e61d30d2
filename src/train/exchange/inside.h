/* What the files of the exchange's learner share: learner.c, form.c, crew_ends.c, crew_groups.c,
 * numbers.c. */
#ifndef RT_TRAIN_EXCHANGE_INSIDE_H
#define RT_TRAIN_EXCHANGE_INSIDE_H

#include "exchange/crew.h"
#include "train/exchange/exchanger.h"
#include "train/exchange/foreman.h"
#include "train/exchange/sent.h"
#include "train/gather.h"
#include "train/learner.h"

struct rt_exchange_learner {
    struct rt_lesson lesson;
    const struct rt_way_options *options;
    struct rt_gathering who;
    uint16_t count; /* devices; rank i is device i */
    struct rt_link **links;
    struct rt_talk *talks;
    struct rt_exchanger *site; /* the master's own part */
    struct rt_crew *crew;
    struct rt_engine_part crew_part;
    struct rt_foreman *foreman; /* guarded by the engine */
    struct rt_sender *sender;   /* data.send; NULL: the workers have their own data */
    bool stopped;
    struct rt_error failure; /* why it ends, for the nodes; status RT_OK: it does not */

    struct rt_local_numbers local;
    struct rt_numbers blocks;
    size_t fetched; /* words that are here as they are at rest; 0: none */
    struct rt_metrics_row *rows;
    bool asked; /* for rows */
};

/* ---- form.c ---- */
/* Gathers and joins the nodes, tells them their part, and makes the master's own. */
rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err);

/* ---- crew_groups.c ---- */
/* The crew as the foreman sees it. */
struct rt_foreman_crew rt_exchange_crew(struct rt_exchange_learner *learner);
/* Where the master's own worker is the proxy of a group: the others there get the batch that it begins with;
 * and what they say of it is waited for and added. By the thread that computes, not inside. */
void rt_exchange_give_beside(struct rt_exchange_learner *learner, uint64_t batch);
rt_status rt_exchange_take_beside(struct rt_exchange_learner *learner, struct rt_done *done,
                                  struct rt_error *err);

/* ---- crew_ends.c ---- */
/* Makes the foreman of the run. tracks: the server here sees every gradient, one for each batch. */
rt_status rt_exchange_make_foreman(struct rt_exchange_learner *learner, bool tracks, struct rt_error *err);
/* The crew as a part of the engine: after each of its events the foreman gives batches. */
struct rt_engine_part rt_exchange_crew_part(struct rt_exchange_learner *learner);
/* Of the server on the master, see exchange/server.h; user: the learner. */
void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict);

/* ---- numbers.c ---- */
struct rt_numbers rt_exchange_numbers(struct rt_exchange_learner *learner);
/* Brings words 0..words-1 to the master, as they are at rest. */
rt_status rt_exchange_fetch(struct rt_exchange_learner *learner, size_t words, struct rt_error *err);

/* ---- learner.c ---- */
/* Where a node was lost, says which in the user's words; keeps the reason for the others. */
rt_status rt_exchange_explain(struct rt_exchange_learner *learner, rt_status status, struct rt_error *err);

#endif
