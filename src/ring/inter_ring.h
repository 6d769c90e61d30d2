/*
 * Rings side by side. Every ring holds the whole network, cut in the same way, and learns from its part of
 * each batch; nodes at the same place of their rings hold the same layers. What such nodes do together is
 * behind this: before an update their gradients are added up, and before the first one all start from the
 * same numbers. The engine (ring/flow.h) calls it, and hands it the events of its links; it never waits.
 *
 * Or the rings do not stay together (rt_job's `served`): each has batches of its own, and every place has a
 * server, to which gradients are pushed and from which parameters come. Then a node has one stage.
 */
#ifndef RT_RING_INTER_RING_H
#define RT_RING_INTER_RING_H

#include "learn/stage.h"
#include "metrics/states.h"
#include "net/transport.h"

struct rt_inter_ring {
    void *self;     /* NULL: there is one ring, and nothing else here counts */
    uint16_t first; /* the number, among all nodes of the run, of this ring's first */
    uint16_t nodes; /* of all rings */
    bool early;     /* hear of layers as soon as their gradient is complete, not only of whole stages */
    /* Once, before anything else: the stages that this node has, the one nearest to the data first. clock:
     * of a device that is emulated, which takes its time for sums before they are sent; else NULL. */
    rt_status (*open)(void *self, struct rt_stage *const *stages, size_t count, struct rt_states *clock,
                      struct rt_error *err);
    /* Whether the event is of its links; if so it has been taken in. */
    bool (*event)(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err);
    /* Before the first forward in training: whether the stages have the numbers that all start from. Asked
     * again after every event. */
    bool (*can_start)(void *self);
    /* The gradient of the stage's layers from `layer` on is complete, and their exchange begins. 0: of all of
     * them; said once for every update, and last. */
    void (*ready)(void *self, size_t stage, size_t layer);
    /* Whether the exchange of a whole stage is over, so that it has the sum. Not where there are servers. */
    bool (*is_done)(const void *self, size_t stage);
    /* Where there are servers:
     * the stage begins with update number `update`, of a batch of so many rows;
     * whether it has the parameters for it;
     * it has no batch at present: whether it rests, and has the newest parameters (asked until it does, anew
     * at first); whether there may be something to do for other rings; does it, whether there was anything.
     */
    void (*begin)(void *self, uint64_t update, size_t rows);
    bool (*has)(void *self);
    bool (*rest)(void *self, bool anew);
    bool (*can_serve)(const void *self);
    bool (*serve)(void *self);
    /* Of a ring's master, whose ring has come to rest at its end: whether all rings have, so that links may
     * be closed. */
    bool (*may_leave)(void *self);
    /* From time to time: fails when somebody was lost, or is stuck (cluster/liveness.h). idle: this node has
     * nothing else to do. */
    rt_status (*check)(void *self, bool idle, struct rt_error *err);
    /* The note of a node that waits for another ring, as of the last check; RT_NOTE_NONE: it waits for none.
     */
    uint16_t (*note)(const void *self);
    /* After a failure of event or check: the number of the node whose fault it is; 0: none known. */
    uint16_t (*lost)(const void *self);
    /* Adds what its links have carried, and what its server has done. */
    void (*tell)(const void *self, struct rt_metrics_row *row);
};

#endif
