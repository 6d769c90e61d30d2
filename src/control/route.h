/*
 * The route of control messages between the master and a node: a direct link, or round a ring. In a ring,
 * messages arrive from the previous node and go to the next one, so a message of the master passes every node
 * and comes back. The state machines at both ends (coordinator, agent) are the same for both routes.
 *
 * In a ring, ERROR also travels in the opposite direction, because the next node may be the cause.
 */
#ifndef RT_CONTROL_ROUTE_H
#define RT_CONTROL_ROUTE_H

#include "cluster/talk.h"

struct rt_route {
    struct rt_talk *in, *out; /* borrowed; equal: a direct link */
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
/* Sends the reason why the run ends, in both directions. node: the one it is about. */
void rt_route_refuse(const struct rt_route *route, rt_status status, uint16_t node, const char *sentence);
/* The same when the run goes on: the master ends the view, and forms another one. */
void rt_route_end_view(const struct rt_route *route, const char *sentence);
/* Attributes a failure to the node at the other end of a talk; *lost: its number; err: the reason without its
 * name. Returns RT_FAILED. */
rt_status rt_route_blame(const struct rt_route *route, const struct rt_talk *talk, uint16_t *lost,
                         struct rt_error *err);

#endif
