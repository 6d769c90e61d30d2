/* Links between the nodes of the rig: the higher rank connects and sends its rank. Over TCP any program on
 * the machine can connect, such as another test: strangers are refused. Nodes recognise one another by their
 * process, which no other rig of this moment has. */
#include "support/exrig_parts.h"

#include "base/bytes.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 2 * EXRIG_NODES, MARK_BYTES = 4 };

struct greeting {
    uint8_t rank;
    struct rt_send send;
};

/* A connection that has not sent its rank yet. */
struct call {
    struct rt_link *link; /* NULL: none */
    uint8_t rank;
    struct rt_receive receive;
};

static bool needs(const struct exrig *rig, uint16_t a, uint16_t b) {
    return rt_exchange_links(rig->strategy, &rig->options, &rig->roles, a, b);
}

static bool listen_to_all(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    char address[32];
    snprintf(address, sizeof address, rig->settings.tcp ? "127.0.0.1:0" : "mem:%u", node->rank);
    if (rt_endpoint_listen(node->endpoint, address, err) != RT_OK)
        return false;
    snprintf(rig->address[node->rank], sizeof rig->address[0], "%s", node->endpoint->address);
    /* All nodes listen before any connects. */
    if (rig->settings.tcp)
        pthread_barrier_wait(&rig->barrier);
    else
        rt_endpoint_sleep(node->endpoint, rt_endpoint_now(node->endpoint) + 0.001);
    return true;
}

static void take_call(struct call calls[CALLS], struct rt_link *link) {
    size_t i = 0;
    while (i < CALLS && calls[i].link)
        i++;
    if (i == CALLS) {
        rt_link_close(link);
        return;
    }
    struct call *call = &calls[i];
    call->link = link;
    call->receive =
        (struct rt_receive){.channel = RT_CHANNEL_CONTROL, .body = &call->rank, .body_room = 1, .user = call};
    rt_link_receive(link, &call->receive);
}

static void turn_away(struct call *call) {
    rt_link_close(call->link);
    call->link = NULL;
}

/* Whether it was one of the nodes that are missing. */
static bool hear(struct exrig_node *node, struct call *call) {
    const uint16_t peer = call->rank;
    if (call->receive.body_bytes != 1 || call->receive.head_bytes != MARK_BYTES ||
        rt_get_le32(call->receive.head) != (uint32_t)getpid() || peer <= node->rank ||
        peer >= node->rig->settings.nodes || !needs(node->rig, node->rank, peer) || node->links[peer]) {
        turn_away(call);
        return false;
    }
    node->links[peer] = call->link;
    call->link = NULL;
    return true;
}

/* Whether the link that closed was a stranger's. */
static bool lose(struct call calls[CALLS], const struct rt_link *link) {
    for (size_t i = 0; i < CALLS; i++)
        if (calls[i].link == link) {
            turn_away(&calls[i]);
            return true;
        }
    return false;
}

bool exrig_join(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    struct greeting greetings[EXRIG_NODES];
    struct call calls[CALLS];
    size_t missing = 0, unsent = 0;
    memset(calls, 0, sizeof calls);
    if (rig->settings.nodes == 1)
        return true;
    if (!listen_to_all(node, err))
        return false;
    const double until = rt_endpoint_now(node->endpoint) + 20;
    for (uint16_t peer = 0; peer < rig->settings.nodes; peer++) {
        if (peer == node->rank || !needs(rig, node->rank, peer))
            continue;
        if (peer > node->rank) {
            missing++;
            continue;
        }
        struct greeting *greeting = &greetings[peer];
        if (rt_endpoint_connect(node->endpoint, rig->address[peer], until, &node->links[peer], err) != RT_OK)
            return false;
        greeting->rank = (uint8_t)node->rank;
        greeting->send = (struct rt_send){
            .channel = RT_CHANNEL_CONTROL, .head_bytes = MARK_BYTES, .body = {{&greeting->rank, 1}}};
        rt_put_le32(greeting->send.head, (uint32_t)getpid());
        rt_link_send(node->links[peer], &greeting->send);
        unsent++;
    }
    struct rt_event event;
    while ((missing || unsent) && rt_endpoint_wait(node->endpoint, until, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED)
            take_call(calls, event.link);
        if (event.kind == RT_EVENT_RECEIVED)
            missing -= hear(node, event.receive->user);
        unsent -= event.kind == RT_EVENT_SENT;
        if (event.kind == RT_EVENT_CLOSED && !lose(calls, event.link))
            break;
    }
    for (size_t i = 0; i < CALLS; i++)
        turn_away(&calls[i]);
    if (missing || unsent)
        rt_fail(err, RT_FAILED, "node %u was not joined", node->rank);
    return !missing && !unsent;
}
