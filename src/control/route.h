/*
 * The way of control messages between the master and a node. Either they have a link of their own, both ways.
 * Or they go round a ring: they come from the previous node, and what is said goes on to the next one, so
 * that a message of the master passes every node and comes back. The state machines at both ends
 * (coordinator, agent) are the same either way.
 *
 * In a ring only ERROR also travels against the direction, because the node ahead may be the reason.
 */
#ifndef RT_CONTROL_ROUTE_H
#define RT_CONTROL_ROUTE_H

#include "cluster/talk.h"

struct rt_route {
    struct rt_talk *in, *out; /* borrowed; the same: a link of their own */
    uint16_t from, to;        /* the numbers of the nodes at their other ends */
};

static inline bool rt_route_is_ring(const struct rt_route *route) {
    return route->in != route->out;
}

/* Whether the event is of its links, on whatever channel. */
bool rt_route_has(const struct rt_route *route, const struct rt_event *event);
/* Whether the event was one of its talks; if so it has been taken in. */
bool rt_route_event(const struct rt_route *route, const struct rt_event *event);
/* Whether nothing can be sent any more. */
bool rt_route_is_closed(const struct rt_route *route);
/* Says why a run ends, both ways. node: the one it is about. */
void rt_route_refuse(const struct rt_route *route, rt_status status, uint16_t node, const char *sentence);
/* Makes a failure that of the node at the other end of a talk, whose number is *lost; err: the reason without
 * its name. Returns RT_FAILED. */
rt_status rt_route_blame(const struct rt_route *route, const struct rt_talk *talk, uint16_t *lost,
                         struct rt_error *err);

#endif
