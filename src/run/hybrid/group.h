/*
 * The data-parallel group of nodes at the same position of several rings: they hold the same layers, and
 * exchange gradients before every update, by any strategy (exchange/member.h). Behind struct rt_inter_ring,
 * for the engine of a ring's node (ring/flow_exchange.c), which is the worker of that exchange. The group
 * itself has the links between equal positions, decides when a node of another ring is stuck, and provides
 * the common initial state.
 *
 * Before the first update the node in ring 0 gives its state (parameters, buffers, optimizer state and the
 * version that they are) to the others: whatever they were loaded from, all start from the same.
 */
#ifndef RT_RUN_HYBRID_GROUP_H
#define RT_RUN_HYBRID_GROUP_H

#include "exchange/member.h"
#include "ring/inter_ring.h"

struct rt_group_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    struct rt_link_cost cost;
    struct rt_endpoint *endpoint;
    uint32_t run;
    struct rt_node_names names; /* of all nodes of the run */
    uint16_t ring, rings;       /* our rank, of how many */
    /* Our position in the ring, and the size of a ring: the node at position p of ring r has number r *
     * ring_size + p. */
    uint16_t ring_position, ring_size;
    /* [rings], by ring; borrowed until the group is destroyed. The group closes the links in it; set a link
     * to NULL if you close it before. */
    struct rt_link **links;
    double timeout; /* seconds in which a node that owes something must make progress */
    /* Where there are servers: examples of the run; and a callback for the verdicts on gradients (see
     * exchange/server/server.h), may be NULL. */
    uint64_t examples;
    void (*updated)(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
    void (*judged)(void *user, const struct rt_push *push, enum rt_verdict verdict);
    void *user;
};

struct rt_group;

/* The links are taken over on success. Those that the strategy needs must be there. */
rt_status rt_group_create(const struct rt_group_settings *settings, struct rt_group **group,
                          struct rt_error *err);
/* Closes the links: until then they may write to the memory of the stages. */
void rt_group_hang_up(struct rt_group *group); /* NULL is fine */
void rt_group_destroy(struct rt_group *group); /* hangs up; NULL is fine */

/* Whether two rings need links between the nodes at equal positions. */
bool rt_group_needs(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options,
                    const struct rt_roles *roles, uint16_t a, uint16_t b);

struct rt_inter_ring rt_group_inter_ring(struct rt_group *group);

/* The server here; NULL: there is none, or it has nothing to serve. */
const struct rt_server *rt_group_server(const struct rt_group *group);

/* Tickets that the leader of a ring holds at a time: the one it learns from, and the next. */
enum { RT_LEADER_TICKETS_AHEAD = 2 };

/* The leaders of rings talk with the master of the run over the same links: a coordinator there, an agent
 * here. */
struct rt_group_talk {
    void *self; /* NULL: there are no talks */
    /* Whether the event is of a talk; if so it has been taken in. After a failure *lost is the number of the
     * node that caused it, which the sentence then leaves out; RT_NODE_NONE: none known. */
    bool (*event)(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                  struct rt_error *err);
    /* Whether the first node of a ring is waited for; of ring 0 it is the master. NULL: none is. */
    bool (*waits_for)(const void *self, uint16_t ring);
    /* The ring is at rest: says so; whether all are. */
    bool (*may_leave)(void *self);
    /* Receives examples from the master (control/state_transfer.h); NULL: the ring has its own data. */
    rt_status (*examples)(void *self, uint64_t batch, uint64_t first, const float *floats, size_t count,
                          struct rt_error *err);
};
void rt_group_set_talk(struct rt_group *group, struct rt_group_talk talk);

#endif
