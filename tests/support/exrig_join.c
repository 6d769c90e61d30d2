/* Links between the nodes of the rig: the higher rank connects and says who it is. */
#include "support/exrig_parts.h"

#include <stdio.h>
#include <string.h>

struct greeting {
    uint8_t bytes[2];
    struct rt_receive receive;
    struct rt_send send;
};

static bool needs(const struct exrig *rig, uint16_t a, uint16_t b) {
    return rt_way_links(rig->way, &rig->options, &rig->roles, a, b);
}

static bool listen_to_all(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    char address[32];
    snprintf(address, sizeof address, rig->settings.tcp ? "127.0.0.1:0" : "mem:%u", node->rank);
    if (rt_endpoint_listen(node->endpoint, address, err) != RT_OK)
        return false;
    snprintf(rig->address[node->rank], sizeof rig->address[0], "%s", node->endpoint->address);
    /* Everybody listens before anybody connects. */
    if (rig->settings.tcp)
        pthread_barrier_wait(&rig->barrier);
    else
        rt_endpoint_sleep(node->endpoint, rt_endpoint_now(node->endpoint) + 0.001);
    return true;
}

bool exrig_join(struct exrig_node *node, struct rt_error *err) {
    struct exrig *rig = node->rig;
    struct greeting greetings[EXRIG_NODES];
    size_t missing = 0, count = 0, unsent = 0;
    memset(greetings, 0, sizeof greetings);
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
        greeting->bytes[0] = (uint8_t)node->rank;
        greeting->send = (struct rt_send){.channel = RT_CHANNEL_CONTROL, .body = {{greeting->bytes, 1}}};
        rt_link_send(node->links[peer], &greeting->send);
        unsent++;
    }
    struct rt_event event;
    while ((missing || unsent) && rt_endpoint_wait(node->endpoint, until, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED && count < EXRIG_NODES) {
            struct greeting *greeting = &greetings[EXRIG_NODES - 1 - count++];
            greeting->receive = (struct rt_receive){
                .channel = RT_CHANNEL_CONTROL, .body = greeting->bytes, .body_room = 1, .user = greeting};
            rt_link_receive(event.link, &greeting->receive);
        }
        if (event.kind == RT_EVENT_RECEIVED) {
            const struct greeting *greeting = event.receive->user;
            node->links[greeting->bytes[0] % EXRIG_NODES] = event.link;
            missing--;
        }
        unsent -= event.kind == RT_EVENT_SENT;
        if (event.kind == RT_EVENT_CLOSED)
            break;
    }
    if (missing || unsent)
        rt_fail(err, RT_FAILED, "node %u was not joined", node->rank);
    return !missing && !unsent;
}
