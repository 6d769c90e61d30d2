/*
 * Several rings in one run. Every ring holds the whole network, cut in the same way, and learns from its part
 * of each batch; nodes at the same position of their rings hold the same layers. What such nodes do together
 * is an exchange (exchange/exchange.h), whose worker is the engine of a ring's node (ring/flow_exchange.c):
 * before an update their gradients are added up. Or the rings do not stay together (rt_job's `with_servers`):
 * each ring has its own batches, and every position has a server, to which gradients are pushed and from
 * which parameters are fetched. Then a node has one stage.
 *
 * Besides the exchange the engine needs what is here: the common initial state, the events of the links to
 * other rings, and the check whether a node there is stuck. No function waits.
 */
#ifndef RT_RING_INTER_RING_H
#define RT_RING_INTER_RING_H

#include "exchange/exchange.h"
#include "learn/stage.h"

struct rt_inter_ring {
    void *self;     /* NULL: there is one ring, and nothing else here counts */
    uint16_t first; /* the number, among all nodes of the run, of this ring's first */
    uint16_t nodes; /* of all rings */
    bool early;     /* hear of layers as soon as their gradient is complete, not only of whole stages */
    /* Once, before anything else: the stages that this node has, the one nearest to the data first. clock:
     * of a device that is emulated, which takes its time for sums before they are sent; else NULL. Gives the
     * exchange of these stages, borrowed: a span for each layer with parameters, from the data to the loss;
     * self NULL: no layer has any. Its events go through event() below. */
    rt_status (*open)(void *self, struct rt_stage *const *stages, size_t count, struct rt_states *clock,
                      struct rt_exchange *exchange, struct rt_error *err);
    /* Whether the event is of its links; if so it has been taken in. */
    bool (*event)(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err);
    /* Before the first forward in training: takes a step towards the state that all start from; whether the
     * stages have it. Asked again after every event. */
    bool (*start)(void *self);
    /* Whether the server at this position, if there is one, may have work; does it, and returns whether there
     * was any. */
    bool (*can_serve)(const void *self);
    bool (*serve)(void *self);
    /* Of a ring's master, whose ring has come to rest at its end: whether all rings have, so that links may
     * be closed. */
    bool (*may_leave)(void *self);
    /* Called periodically. Fails when a node was lost or is stuck (cluster/liveness.h). idle: this node has
     * no other work. */
    rt_status (*check)(void *self, bool idle, struct rt_error *err);
    /* The note of a node that waits for another ring, as of the last check; RT_NOTE_NONE: it waits for none.
     */
    uint16_t (*note)(const void *self);
    /* After a failure of event or check: the number of the node that caused it, which the sentence then
     * leaves out; RT_NODE_NONE: none known. */
    uint16_t (*lost)(const void *self);
    /* Adds what its links have carried, and what its server has done. */
    void (*tell)(const void *self, struct rt_metrics_row *row);
};

#endif
