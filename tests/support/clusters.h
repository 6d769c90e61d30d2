/*
 * A cluster in memory for tests: endpoint 0 is the master's, the others are nodes that serve a small role, or
 * other programs of the test. When the master returns, the nodes are told to end.
 */
#ifndef RT_TEST_CLUSTERS_H
#define RT_TEST_CLUSTERS_H

#include "cluster/cluster.h"
#include "cluster/node.h"
#include "sim/network.h"
#include "support/test.h"

enum { CLUSTER_PLACES = 12, CLUSTER_LOG = 32000 };

struct cluster_place {
    size_t index;
    struct cluster_world *world;
    /* what it does; NULL: it is a node */
    void (*program)(struct cluster_place *place, struct rt_endpoint *endpoint);
    struct rt_node_settings settings;
    char name[32];
    atomic_int stop;
    char log[CLUSTER_LOG]; /* what the node told, a line each */
    /* how its role behaves */
    const char *refuses_assign; /* the sentence */
    double profile_seconds;     /* how long it measures */
    double keep;                /* seconds for which it waits for another view when one has failed */
    bool starts;                /* it sends the first number round its ring, as the master does */
    unsigned runs, ends;        /* how often it worked, and was told that a run is over */
    uint16_t seen_index, seen_count;
    char seen_names[80]; /* of the other nodes, in their order */
};

struct cluster_world {
    struct rt_memnet *net;
    size_t places;
    struct cluster_place place[CLUSTER_PLACES];
    uint8_t answer[32];
    uint8_t token[RT_TOKEN_BYTES]; /* of every run that is opened */
};

/* places: endpoints, the master counted. delays: none, or random ones of up to 20 ms. */
void cluster_init(struct cluster_world *world, size_t places, double random_delay);
void cluster_init_on(struct cluster_world *world, size_t places, const struct rt_memnet_settings *settings);
/* Runs it; virtual time may pass `limit` seconds. */
void cluster_run(struct cluster_world *world, double limit);
void cluster_deinit(struct cluster_world *world);

/* What the nodes do; for nodes on another network. */
struct rt_role cluster_role(struct cluster_place *place);

/* Opens a cluster of the nodes from place `first` on. */
rt_status cluster_open(struct cluster_world *world, struct rt_endpoint *endpoint, size_t first, size_t count,
                       struct rt_cluster **cluster, struct rt_error *err);

/* Gives a node, or each of them, some work. */
rt_status cluster_assign_one(struct rt_cluster *cluster, size_t member, struct rt_error *err);
rt_status cluster_assign(struct rt_cluster *cluster, struct rt_error *err);

/* Sends a number round the ring; every node adds one to it. Returns what comes back, or -1. */
int cluster_round(struct rt_link *next, struct rt_link *previous);

/* The master's part in a mesh: gets from every node the sum of the places of all others, the master not
 * counted, that have a link with it, and lets it go. links: [count], by place. -1: none came. */
void cluster_sums(struct rt_link **links, size_t count, int *sums);
void cluster_close_links(struct rt_link **links, size_t count);

/* Whether a node has told something that holds the text. */
bool cluster_told(const struct cluster_place *place, const char *text);

#endif
