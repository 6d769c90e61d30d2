/* A node: takes the events, keeps the time, serves one run after another. */
#include "cluster/node_inside.h"

#include "base/memory.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void rt_node_tell(struct rt_node *node, const char *format, ...) {
    char sentence[700];
    va_list args;
    if (!node->settings->tell)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    node->settings->tell(node->settings->user, sentence);
}

static void handle(struct rt_node *node, const struct rt_event *event) {
    if (event->kind == RT_EVENT_ACCEPTED)
        rt_guest_accept(node, event->link);
    else if (event->kind == RT_EVENT_REFUSED)
        rt_node_tell(node, "%s", event->error.text);
    else if (event->kind != RT_EVENT_WOKEN && !rt_links_event(node, event))
        rt_guest_event(node, event);
}

void rt_node_stray(struct rt_session *session, const struct rt_event *event) {
    struct rt_node *node = session->node;
    handle(node, event);
    rt_guest_expire(node, rt_endpoint_now(node->endpoint));
}

const struct rt_node_settings *rt_node_settings(const struct rt_node *node) {
    return node->settings;
}

static void set_name(struct rt_node *node) {
    if (node->settings->name && node->settings->name[0])
        snprintf(node->name, sizeof node->name, "%s", node->settings->name);
    else if (gethostname(node->name, sizeof node->name - 1) != 0 || !node->name[0])
        snprintf(node->name, sizeof node->name, "a node without a name");
}

/* A node that does not listen, or whose network has ended, can wait for nobody. */
static rt_status serve(struct rt_node *node, struct rt_error *err) {
    while (!atomic_load(node->stop)) {
        struct rt_event event;
        double until = rt_guest_deadline(node);
        if (node->dial.stage != RT_DIAL_IDLE && node->dial.until < until)
            until = node->dial.until;
        if (rt_endpoint_wait(node->endpoint, until, &event))
            handle(node, &event);
        else if (until == INFINITY)
            return rt_fail(err, RT_FAILED, "the network of this node has ended");
        rt_guest_expire(node, rt_endpoint_now(node->endpoint));
        rt_session_check(node);
    }
    return RT_OK;
}

/* The end: those who were told why they must go get a moment to hear it; nobody else is heard. */
static void see_off(struct rt_node *node) {
    const double until = rt_endpoint_now(node->endpoint) + 0.5;
    struct rt_event event;
    bool waits = true;
    for (size_t i = 0; i < RT_NODE_LINKS; i++)
        if (node->guests[i].state != RT_GUEST_NONE && node->guests[i].state != RT_GUEST_LEAVING)
            rt_guest_drop(&node->guests[i]);
    while (waits && rt_endpoint_wait(node->endpoint, until, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED)
            rt_link_close(event.link);
        else
            rt_guest_event(node, &event);
        waits = false;
        for (size_t i = 0; i < RT_NODE_LINKS; i++)
            waits |= node->guests[i].state == RT_GUEST_LEAVING;
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
    set_name(node);
    status = serve(node, err);
    if (node->serving) {
        struct rt_error why;
        rt_fail(&why, RT_INTERRUPTED, "%s was told to end", node->name);
        rt_session_end(node, &why);
        see_off(node);
    }
    for (size_t i = 0; i < RT_NODE_LINKS; i++)
        if (node->guests[i].state != RT_GUEST_NONE)
            rt_guest_drop(&node->guests[i]);
    free(node);
    return status;
}
