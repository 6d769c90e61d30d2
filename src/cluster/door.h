/*
 * Where a master accepts connections: nodes that offer themselves (`ringtmp node --join`) wait here until
 * they are called, and links of a view that only the node can make arrive here. Others are refused; their
 * number and time are limited as a node's guests are.
 */
#ifndef RT_CLUSTER_DOOR_H
#define RT_CLUSTER_DOOR_H

#include "cluster/cluster.h"
#include "cluster/guest.h"

struct rt_door {
    struct rt_cluster *cluster;
    struct rt_teller teller;
    struct rt_guests guests;
    uint16_t index; /* of the master: 0 */
    /* The link of the view that is expected; slot NULL: none is. */
    uint16_t from, label;
    struct rt_link **slot;
    struct rt_error lost; /* it was, while it was made; text "": not */
};

rt_status rt_door_open(struct rt_cluster *cluster, const char *address, struct rt_door **door,
                       struct rt_error *err);
void rt_door_close(struct rt_door *door); /* NULL is fine */

bool rt_door_event(struct rt_door *door, const struct rt_event *event); /* whether it was for the door */
void rt_door_check(struct rt_door *door); /* sends those away whose time is over */

/* Nodes that wait. */
size_t rt_door_offers(const struct rt_door *door);
/* The one with that token; token NULL: one that no member has; NULL: there is none. */
struct rt_guest *rt_door_find(struct rt_door *door, const uint8_t *token);
/* Its conversation becomes that of the member, to be greeted. */
rt_status rt_door_take(struct rt_door *door, struct rt_guest *guest, struct rt_member *member,
                       struct rt_error *err);

/* A link with node `from` of the view that is formed; label: what the master is to it. The slot is filled
 * when it is made. slot NULL: none is expected any longer. */
void rt_door_expect(struct rt_door *door, uint16_t from, uint16_t label, struct rt_link **slot);

#endif
