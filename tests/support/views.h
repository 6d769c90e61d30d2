/*
 * View after view in one run, for tests: nodes with a role that holds something from one view to the next,
 * and a master that forms rings of them. A number goes round the ring; every node adds one to it.
 */
#ifndef RT_TEST_VIEWS_H
#define RT_TEST_VIEWS_H

#include "cluster/view.h"
#include "support/clusters.h"

enum { VIEW_STOP = 200 }; /* the number that ends the run */

/* What a node holds, until its session ends. */
struct view_held {
    unsigned views; /* that it has worked in */
    uint32_t view;  /* as of the last ASSIGN */
    uint64_t version;
};

/* Each node by its place: how it behaves, and what was seen of it. */
struct view_node {
    double keep;     /* seconds for which it waits for another view; 0: the session ends with its view */
    double orphaned; /* likewise, when it has lost the master, as it believes; 0: it does not */
    bool looks_away; /* does not see that a neighbour is lost, until it is recalled */
    double slow;     /* seconds from then on, before it returns */
    struct view_held held; /* as last seen */
    unsigned made;         /* how often it has begun to hold something */
    double ended;          /* when its session ended */
    bool seen_recall;
    struct rt_node_work work;
};
extern struct view_node view_nodes[CLUSTER_PLACES];

struct rt_role view_role(struct cluster_place *place);
void view_serve(struct cluster_place *place, struct rt_endpoint *endpoint); /* a node, in memory */

/* Runs a master with so many nodes, which keep what they hold for so many seconds. */
void view_run(size_t nodes, double keep, double random_delay,
              void (*program)(struct cluster_place *place, struct rt_endpoint *endpoint));

struct view_master {
    struct cluster_place *place;
    struct rt_endpoint *endpoint;
    struct rt_cluster *cluster;
    struct rt_view *view;
    struct rt_link *next, *previous;
    uint8_t number, back; /* of a round; they are the links' until these are closed */
    struct rt_send send;
    struct rt_receive receive;
};

void view_open(struct view_master *master, struct cluster_place *place, struct rt_endpoint *endpoint,
               size_t nodes);
void view_close(struct view_master *master);
const struct rt_member *view_member(const struct view_master *master, size_t i);

/* Assigns the view that has been joined. */
rt_status view_assign(struct view_master *master, struct rt_error *err);
/* A ring of these members, which begins to work. form_all: of all, and it must succeed. */
rt_status view_form(struct view_master *master, uint32_t number, uint64_t version, const size_t *members,
                    size_t count, struct rt_error *err);
void view_form_all(struct view_master *master, uint32_t number, uint64_t version);
int view_round(struct view_master *master, uint8_t number); /* what comes back of a number; -1: nothing */
void view_leave(struct view_master *master);                /* closes the master's links */
void view_reopen(struct view_master *master, uint32_t number, const bool *lost, double timeout);
void view_pass(struct view_master *master, double seconds);

#endif
