/* A node: takes the events, keeps the time, serves one run after another. */
#include "cluster/node_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Rate limit of log lines about runs or callers: the burst, and seconds per further line. A peer must not be
 * able to fill the disk. */
static const double most_lines = 100, line_seconds = 10;

static void node_tell_untold(struct rt_node *node, struct rt_telling *telling) {
    char sentence[120];
    if (telling->untold == 0)
        return;
    snprintf(sentence, sizeof sentence, "%s about %s %s left out", RT_COUNTED(telling->untold, "more line"),
             telling == &node->telling[RT_ABOUT_RUNS] ? "runs" : "callers",
             telling->untold > 1 ? "were" : "was");
    telling->untold = 0;
    node->settings->tell(node->settings->user, sentence);
}

void rt_node_tell(struct rt_node *node, enum rt_about about, const char *format, ...) {
    struct rt_telling *telling = &node->telling[about];
    char sentence[2 * sizeof(((struct rt_error *)0)->text)];
    va_list args;
    if (!node->settings->tell)
        return;
    const double now = rt_endpoint_now(node->endpoint);
    telling->lines = fmin(most_lines, telling->lines + (now - telling->at) / line_seconds);
    telling->at = now;
    if (telling->lines < 1) {
        telling->untold++;
        return;
    }
    telling->lines -= 1;
    node_tell_untold(node, telling);
    va_start(args, format);
    rt_vsentence(sentence, sizeof sentence, format, args);
    va_end(args);
    node->settings->tell(node->settings->user, sentence);
}

static void node_handle(struct rt_node *node, const struct rt_event *event) {
    if (event->kind == RT_EVENT_ACCEPTED)
        rt_guest_accept(node, event->link);
    else if (event->kind == RT_EVENT_REFUSED)
        rt_node_tell(node, RT_ABOUT_CALLERS, "%s", event->error.text);
    else if (event->kind != RT_EVENT_WOKEN && !rt_links_event(node, event))
        rt_guest_event(node, event);
}

void rt_node_stray(struct rt_session *session, const struct rt_event *event) {
    struct rt_node *node = session->node;
    node_handle(node, event);
    rt_guest_expire(node, rt_endpoint_now(node->endpoint));
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
        double until = fmin(rt_guest_deadline(node), rt_session_deadline(node));
        if (node->dial.stage != RT_DIAL_IDLE && node->dial.until < until)
            until = node->dial.until;
        if (rt_endpoint_wait(node->endpoint, until, &event))
            node_handle(node, &event);
        else if (until == INFINITY)
            return rt_fail(err, RT_FAILED, "the network of this node has ended");
        rt_guest_expire(node, rt_endpoint_now(node->endpoint));
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
    for (size_t i = 0; i < RT_NODE_GUESTS; i++)
        if (node->guests[i].state != RT_GUEST_NONE && node->guests[i].state != RT_GUEST_LEAVING)
            rt_guest_drop(&node->guests[i]);
    while (waits && rt_endpoint_wait(node->endpoint, until, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED)
            rt_link_close(event.link);
        else
            rt_guest_event(node, &event);
        waits = false;
        for (size_t i = 0; i < RT_NODE_GUESTS; i++)
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
    node->work = settings->work ? settings->work : &node->own_work;
    for (size_t i = 0; i < RT_TELLINGS; i++)
        node->telling[i].lines = most_lines;
    node_set_name(node);
    status = serve(node, err);
    if (node->serving) {
        struct rt_error why;
        rt_fail(&why, RT_INTERRUPTED, "%s was told to end", node->name);
        rt_session_end(node, &why);
        node_see_off(node);
    }
    for (size_t i = 0; i < RT_NODE_GUESTS; i++)
        if (node->guests[i].state != RT_GUEST_NONE)
            rt_guest_drop(&node->guests[i]);
    for (size_t i = 0; i < RT_TELLINGS && settings->tell; i++)
        node_tell_untold(node, &node->telling[i]);
    free(node);
    return status;
}
