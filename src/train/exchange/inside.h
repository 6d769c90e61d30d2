/* What the files of the exchange's learner share: exchange_learner.c, exchange_form.c, exchange_tickets.c,
 * exchange_steps.c, exchange_numbers.c. */
#ifndef RT_TRAIN_EXCHANGE_INSIDE_H
#define RT_TRAIN_EXCHANGE_INSIDE_H

#include "exchange/crew.h"
#include "train/exchange/exchanger.h"
#include "train/exchange/sent.h"
#include "train/gather.h"
#include "train/learner.h"

/* Rounds whose results are kept until a step returns them: so far the others may be ahead of a master that
 * computes. */
enum { RT_EXCHANGE_ROUNDS = 64 };

/* What the master's server has made of a node's gradients, in their order: gradient n, counted from 0, is
 * that of the node's result n. No node has more results that wait to be taken than there are places. */
struct rt_fates {
    uint64_t judged, taken; /* gradients; results that were taken */
    bool dropped[RT_CREW_RESULTS];
    uint64_t round; /* the last one that a gradient of it is in */
};

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
    struct rt_sender *sender; /* data.send; NULL: the workers have their own data */
    bool stopped;
    struct rt_error failure; /* why it ends, for the nodes; status RT_OK: it does not */

    struct rt_local_numbers local;
    struct rt_numbers blocks;
    size_t fetched; /* words that are here as they are at rest; 0: none */
    struct rt_metrics_row *rows;
    bool asked; /* for rows */

    /* Tickets; guarded by the engine. Updates are counted from 1, and so are the batches they are made of. */
    uint64_t returned; /* updates that steps have returned */
    uint64_t given;    /* the last one that was given to somebody */
    uint64_t limit;    /* none above it is given */
    uint64_t warm;     /* up to this one only the first worker gets any */
    bool draining;
    uint64_t computed;     /* by collectives: updates that the master's own worker has given its part of */
    struct rt_done own[2]; /* what it said of the last two */
    uint16_t turn;         /* who is asked for results first */
    /* Where the server on the master sees every gradient, one for each batch: */
    bool tracks;
    struct rt_fates *fates;  /* [count] */
    uint64_t *tickets;       /* [count] that a node was given */
    uint64_t rounds;         /* that are complete */
    bool *in_round;          /* [RT_EXCHANGE_ROUNDS][workers] whose gradients are in it */
    struct rt_done *results; /* [RT_EXCHANGE_ROUNDS][workers] */
    /* and where every batch is one worker's: whose gradients came to something, in their order, ever rising,
     * [count * RT_CREW_RESULTS]; and results of the master's own worker, ever rising. */
    uint16_t *line;
    uint64_t lined, served;
    uint64_t made;
    struct rt_done waiting[RT_CREW_RESULTS];
    /* Where every batch is one worker's and epochs are cut short: the epoch whose batches are given, from 0;
     * how many of them were; gradients that came to something. */
    uint64_t epoch, begun, applied;
    double since, heard; /* when its first batch was given; when a gradient last came to something */
    double usual;        /* seconds that a batch takes a worker, about; 0: not known */
};

/* ---- exchange_form.c ---- */
/* Gathers and joins the nodes, tells them their part, and makes the master's own. */
rt_status rt_exchange_form(struct rt_exchange_learner *learner, struct rt_error *err);

/* ---- exchange_tickets.c ---- */
struct rt_engine_part rt_exchange_tickets_part(struct rt_exchange_learner *learner);
/* The batch of an update, as one device would count it: an epoch that was cut short leaves some out. */
uint64_t rt_exchange_batch(const struct rt_exchange_learner *learner, uint64_t update);
/* Whether every batch is one worker's and an epoch ends when enough of it has been learnt from. */
bool rt_exchange_cuts(const struct rt_exchange_learner *learner);
/* The first update from this one on after which the parameters may have to stand still. */
uint64_t rt_exchange_next_rest(const struct rt_exchange_learner *learner, uint64_t update);
/* Opens the way for the tickets of the update that is next and of those that may follow it at once. */
void rt_exchange_open_tickets(struct rt_exchange_learner *learner, uint64_t ahead);
/* The batch that the master's own worker is to learn from, where every batch is one worker's; 0: none. */
uint64_t rt_exchange_own_batch(struct rt_exchange_learner *learner);
/* Place `number` of the line. */
uint16_t *rt_exchange_in_line(const struct rt_exchange_learner *learner, uint64_t number);
bool *rt_exchange_round(const struct rt_exchange_learner *learner, uint64_t update);
/* Tickets as those after so many updates; nothing is under way. */
void rt_exchange_tickets_set(struct rt_exchange_learner *learner, uint64_t update);
/* Of the server on the master, see exchange/server.h. */
void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict);

/* ---- exchange_steps.c ---- */
rt_status rt_exchange_step(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err);

/* ---- exchange_numbers.c ---- */
struct rt_numbers rt_exchange_numbers(struct rt_exchange_learner *learner);
/* Brings words 0..words-1 to the master, as they are at rest. */
rt_status rt_exchange_fetch(struct rt_exchange_learner *learner, size_t words, struct rt_error *err);

/* ---- exchange_learner.c ---- */
/* Where a node was lost, says which in the user's words; keeps the reason for the others. */
rt_status rt_exchange_explain(struct rt_exchange_learner *learner, rt_status status, struct rt_error *err);

#endif
