/*
 * The talk between the master of the run, who is the first node of ring 0, and the first nodes of the other
 * rings, their heads: which batch to learn from, what came of it, metrics, the end. On the control channel of
 * the links over which they exchange gradients; both sides are parts of their group (run/hybrid/group.h).
 *
 *   TICKET   learn from batch `micro`: the master has begun with it, or it is the ring's own
 *   DONE     a ring has learnt from its part of it, or from all of it
 *   PULL     to rings that have their own batches: updates begin, and who has no batch may rest. From such a
 *            ring: it has learnt from all up to batch `micro`, and rests
 *   METRICS  asked for with an empty body; the answer has a row for every node of the ring
 *   STOP     nothing more will come; the answer: the ring is at rest. Then the master hangs up, when all are.
 *   ERROR    why the run ends, in either direction
 */
#ifndef RT_RUN_HYBRID_TALK_H
#define RT_RUN_HYBRID_TALK_H

#include "cluster/talk.h"
#include "exchange/exchange.h"
#include "run/hybrid/group.h"

/* ---- the master's side ---- */

struct rt_leaders;

/* links: [rings], those with the heads. The talks close them, and set them to NULL then; borrowed. */
rt_status rt_leaders_create(struct rt_endpoint *endpoint, uint32_t run, uint16_t rings, uint16_t places,
                            struct rt_link **links, struct rt_leaders **leaders, struct rt_error *err);
void rt_leaders_destroy(struct rt_leaders *leaders); /* hangs up; NULL is fine */
struct rt_group_talk rt_leaders_talk(struct rt_leaders *leaders);

/* To rings that have their own batches: the first update begins. */
void rt_leaders_begin(struct rt_leaders *leaders);
/* Gives a ring a batch to learn from; false: it holds RT_LEADER_TICKETS_AHEAD already, or too many of its
 * results were not taken. */
enum { RT_LEADER_TICKETS_AHEAD = 2 };
bool rt_leaders_give(struct rt_leaders *leaders, uint16_t ring, uint64_t batch);
size_t rt_leaders_held(const struct rt_leaders *leaders, uint16_t ring);    /* given and not done */
size_t rt_leaders_waiting(const struct rt_leaders *leaders, uint16_t ring); /* results that were not taken */
bool rt_leaders_take(struct rt_leaders *leaders, uint16_t ring,
                     struct rt_done *done); /* the oldest; false: none */
/* Whether all who were given batches are done, and rest. */
bool rt_leaders_rest(const struct rt_leaders *leaders);
/* For metrics; what was asked for and has not come is not asked again. */
void rt_leaders_ask(struct rt_leaders *leaders);
bool rt_leaders_metrics(const struct rt_leaders *leaders,
                        struct rt_metrics_row *rows); /* rows: of all nodes */
/* The master waits until they rest, or no longer does. */
void rt_leaders_expect_rest(struct rt_leaders *leaders, bool rest);
void rt_leaders_stop(struct rt_leaders *leaders);
/* Tells all why the run ends, and gives them a moment to hear it. Takes all events of the endpoint. */
void rt_leaders_fail(struct rt_leaders *leaders, rt_status status, const char *sentence, double seconds);

/* ---- a head's side ---- */

struct rt_leader {
    struct rt_talk talk;
    struct rt_endpoint *endpoint;
    uint16_t number;
    uint64_t tickets[RT_LEADER_TICKETS_AHEAD]; /* batches to learn from, the first one first; 0: none */
    bool begun;                                /* updates have: a ring without a ticket may rest */
    bool asked;                                /* for metrics */
    bool stopped;                              /* the master has nothing more */
    bool goodbye;                              /* said */
    /* What is to be said as soon as the talk has room. */
    struct rt_message owed[2 * RT_LEADER_TICKETS_AHEAD + 2];
    size_t owed_count;
    bool attention; /* something has come that is not the next ticket in turn */
    uint64_t last;  /* ticket that was learnt from */
    bool ended;     /* he has said why the run ends, or has hung up */
};

/* link: with the master; taken over on success. head must stay where it is. */
rt_status rt_leader_open(struct rt_leader *leader, struct rt_endpoint *endpoint, uint32_t run,
                         uint16_t number, struct rt_link *link, struct rt_error *err);
void rt_leader_close(struct rt_leader *leader); /* a zeroed one is fine */
struct rt_group_talk rt_leader_talk(struct rt_leader *leader);

/* It has learnt from its first ticket. */
void rt_leader_done(struct rt_leader *leader, const struct rt_done *done);
/* The ring rests. */
void rt_leader_rests(struct rt_leader *leader);
void rt_leader_metrics(struct rt_leader *leader, const struct rt_metrics_row *rows, size_t count);
/* Tells the master why the run ends; node: whose fault it is, 0: nobody's. Waits a moment until he has heard
 * it; takes all events of the endpoint, and hands on those that are not of this talk. */
void rt_leader_fail(struct rt_leader *leader, rt_status status, uint16_t node, const char *sentence,
                    double seconds, void (*stray)(void *user, const struct rt_event *event), void *user);

#endif
