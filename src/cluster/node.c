/* A node: takes the events, keeps the time, serves one run after another. */
#include "cluster/node_inside.h"

#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void node_handle(struct rt_node *node, const struct rt_event *event) {
    if (event->kind == RT_EVENT_ACCEPTED)
        rt_guests_accept(&node->guests, event->link);
    else if (event->kind == RT_EVENT_REFUSED)
        rt_tell(&node->teller, RT_ABOUT_CALLERS, "%s", event->error.text);
    else if (event->kind != RT_EVENT_WOKEN && !rt_links_event(node, event))
        rt_guests_event(&node->guests, event);
}

void rt_node_stray(struct rt_session *session, const struct rt_event *event) {
    struct rt_node *node = session->node;
    node_handle(node, event);
    rt_guests_expire(&node->guests, rt_endpoint_now(node->endpoint));
}

const struct rt_node_settings *rt_node_settings(const struct rt_node *node) {
    return node->settings;
}

static void node_set_name(struct rt_node *node) {
    if (node->settings->name && node->settings->name[0])
        snprintf(node->name, sizeof node->name, "%s", node->settings->name);
    else if (gethostname(node->name, sizeof node->name - 1) != 0 || !node->name[0])
        snprintf(node->name, sizeof node->name, "a node without a name");
}

/* A node that does not listen, or whose network has ended, can accept no further master. */
static rt_status serve(struct rt_node *node, struct rt_error *err) {
    while (!atomic_load(node->stop)) {
        struct rt_event event;
        rt_offer_check(node);
        double until = fmin(rt_guests_deadline(&node->guests), rt_session_deadline(node));
        until = fmin(until, rt_offer_deadline(node));
        if (node->dial.stage != RT_DIAL_IDLE && node->dial.until < until)
            until = node->dial.until;
        if (rt_endpoint_wait(node->endpoint, until, &event))
            node_handle(node, &event);
        else if (until == INFINITY)
            return rt_fail(err, RT_FAILED, "the network of this node has ended");
        rt_guests_expire(&node->guests, rt_endpoint_now(node->endpoint));
        rt_session_expire(node, rt_endpoint_now(node->endpoint));
        rt_session_check(node);
    }
    return RT_OK;
}

/* Shutdown: guests that were refused get a moment to read the reason; all other input is ignored. */
static void node_see_off(struct rt_node *node) {
    const double until = rt_endpoint_now(node->endpoint) + 0.5;
    struct rt_event event;
    bool waits = true;
    for (size_t i = 0; i < RT_GUESTS; i++)
        if (node->guests.guest[i].state != RT_GUEST_NONE && node->guests.guest[i].state != RT_GUEST_LEAVING)
            rt_guest_drop(&node->guests.guest[i]);
    while (waits && rt_endpoint_wait(node->endpoint, until, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED)
            rt_link_close(event.link);
        else
            rt_guests_event(&node->guests, &event);
        waits = false;
        for (size_t i = 0; i < RT_GUESTS; i++)
            waits |= node->guests.guest[i].state == RT_GUEST_LEAVING;
    }
}

rt_status rt_node_serve(const struct rt_node_settings *settings, struct rt_endpoint *endpoint,
                        const struct rt_role *role, const atomic_int *stop, struct rt_error *err) {
    struct rt_node *node;
    rt_status status = rt_alloc(1, sizeof *node, "a node", &node, err);
    if (status != RT_OK)
        return status;
    node->settings = settings;
    node->endpoint = endpoint;
    node->role = role;
    node->stop = stop;
    node->work = settings->work ? settings->work : &node->own_work;
    node_set_name(node);
    const struct rt_host host = rt_node_host(node);
    rt_teller_init(&node->teller, endpoint, settings->tell, settings->user);
    rt_guests_init(&node->guests, endpoint, &node->teller, &host);
    status = rt_offer_init(node, err);
    if (status == RT_OK)
        status = serve(node, err);
    if (node->serving) {
        struct rt_error why;
        rt_fail(&why, RT_INTERRUPTED, "%s was told to end", node->name);
        rt_session_end(node, &why);
        node_see_off(node);
    }
    rt_guests_deinit(&node->guests);
    rt_teller_finish(&node->teller);
    free(node);
    return status;
}
