/* The route of control messages; see route.h. */
#include "control/route.h"

bool rt_route_has(const struct rt_route *route, const struct rt_event *event) {
    return event->link && (event->link == route->in->link || event->link == route->out->link);
}

bool rt_route_event(const struct rt_route *route, const struct rt_event *event) {
    return rt_talk_event(route->in, event) || (rt_route_is_ring(route) && rt_talk_event(route->out, event));
}

bool rt_route_is_closed(const struct rt_route *route) {
    return route->in->closed && route->out->closed;
}

static void route_refuse(struct rt_talk *talk, rt_status status, uint16_t node, const char *sentence) {
    if (talk->link && !talk->closed)
        rt_talk_refuse(talk, status, node, sentence);
}

void rt_route_refuse(const struct rt_route *route, rt_status status, uint16_t node, const char *sentence) {
    route_refuse(route->out, status, node, sentence);
    if (rt_route_is_ring(route))
        route_refuse(route->in, status, node, sentence);
}

void rt_route_end_view(const struct rt_route *route, const char *sentence) {
    struct rt_talk *const talks[] = {route->out, route->in};
    for (size_t i = 0; i < (rt_route_is_ring(route) ? 2 : 1); i++)
        if (talks[i]->link && !talks[i]->closed)
            rt_talk_put_off(talks[i], 0, sentence);
}

rt_status rt_route_blame(const struct rt_route *route, const struct rt_talk *talk, uint16_t *lost,
                         struct rt_error *err) {
    *lost = talk == route->in ? route->from : route->to;
    return err->status = RT_FAILED;
}
