/*
 * A view of a run: which nodes take part, and which links they have with one another. Node 0 is the master.
 * A view is formed (the links are made), every node is told its part (ASSIGN, whose plan is not understood
 * here), and all begin (rt_cluster_go). A run can form another view, with other members or other links,
 * before it begins or in the middle, when a node was lost (rt_cluster_reopen); the nodes drop the links of
 * the one before.
 */
#ifndef RT_CLUSTER_VIEW_H
#define RT_CLUSTER_VIEW_H

#include "cluster/cluster.h"
#include "cluster/node_names.h"

struct rt_view {
    uint32_t number;                /* of the run's views, from 1 */
    uint64_t version;               /* updates applied to the state with which it begins; 0 at first */
    size_t nodes;                   /* the master counted */
    size_t *member;                 /* [nodes - 1] node i is member[i - 1] of the cluster */
    char (*name)[RT_NODE_NAME + 1]; /* [nodes] what each is called, once it is formed */

    size_t link_count;
    struct rt_wanted_link *wanted; /* [link_count] */
    struct rt_link **links; /* [link_count] those of the master, until they are taken; the others are NULL */
    struct rt_edge *edges;  /* [link_count] as measured */
};

/* member: [nodes - 1]; NULL: node i is member i - 1. Has no links yet. */
rt_status rt_view_create(uint32_t number, const size_t *member, size_t nodes, struct rt_view **view,
                         struct rt_error *err);
void rt_view_destroy(struct rt_view *view); /* closes the links that were not taken; NULL is fine */

/* ---- which links there are to be: before they are made ---- */

/* Node `from` connects to node `to`, never to 0; label: enum rt_label. See rt_cluster_join. */
rt_status rt_view_add_link(struct rt_view *view, size_t from, size_t to, uint16_t label,
                           struct rt_error *err);
/* A ring of the nodes first, first + 1, ... The last link is made by the first node: the master does not
 * listen. One node alone has none. */
rt_status rt_view_add_ring(struct rt_view *view, size_t first, size_t nodes, struct rt_error *err);
/* Every node has a link with the master; besides, two nodes a < b have one when needs(user, a, b) says so.
 * needs may be NULL: there are no others. */
rt_status rt_view_add_mesh(struct rt_view *view, bool (*needs)(const void *user, uint16_t a, uint16_t b),
                           const void *user, struct rt_error *err);

/* ---- forming it ---- */

/* Makes the links; each is measured when probe_bytes is not 0. Nothing may be posted on the master's links
 * before rt_cluster_go. */
rt_status rt_view_join(struct rt_view *view, struct rt_cluster *cluster, uint32_t probe_bytes,
                       struct rt_error *err);
/* Borrowed from the view. */
struct rt_node_names rt_view_names(const struct rt_view *view);
/* The master's link with a node, which is the caller's from now on; NULL: there is none. */
struct rt_link *rt_view_take_link(struct rt_view *view, size_t node, uint16_t label);
/* Tells every node its part, and waits until all have taken the memory for it. plan: for all nodes; its
 * index, view and version are not used. */
rt_status rt_view_assign(const struct rt_view *view, struct rt_cluster *cluster, const struct rt_assign *plan,
                         struct rt_error *err);

#endif
