/*
 * Forming the ring. The nodes are told from the last to the first, so that each knows its place before its
 * predecessor connects to it; one link is made, and measured, at a time, so that measurements do not disturb
 * one another. The master, who does not listen, makes both of its own links: to the first node, and the
 * closing edge to the last.
 */
#include "cluster/cluster_inside.h"

#include "cluster/node.h"
#include <stdio.h>
#include <string.h>

rt_status rt_cluster_address(const char *given, char address[RT_MAX_TEXT + 1], struct rt_error *err) {
    const char *colon = strchr(given, ':');
    int length;
    if (given[0] == '[')
        length =
            snprintf(address, RT_MAX_TEXT + 1, strstr(given, "]:") ? "%s" : "%s:%d", given, RT_NODE_PORT);
    else if (colon && strchr(colon + 1, ':')) /* an IPv6 address alone */
        length = snprintf(address, RT_MAX_TEXT + 1, "[%s]:%d", given, RT_NODE_PORT);
    else
        length = snprintf(address, RT_MAX_TEXT + 1, colon ? "%s" : "%s:%d", given, RT_NODE_PORT);
    if (!given[0] || length < 0 || length > RT_MAX_TEXT)
        return rt_fail(err, RT_BAD_INPUT, "'%.60s' is no address of a node: HOST or HOST:PORT", given);
    return RT_OK;
}

bool rt_cluster_is_loopback(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]", 5) == 0;
}

/* A loopback address means another machine to everybody who is on another machine. */
static rt_status check_addresses(const struct rt_cluster *cluster, const size_t *order, size_t count,
                                 struct rt_error *err) {
    for (size_t i = 0; i + 1 < count; i++) {
        const struct rt_member *from = &cluster->members[order[i]], *to = &cluster->members[order[i + 1]];
        if (rt_cluster_is_loopback(to->address) && !rt_cluster_is_loopback(from->address))
            return rt_fail(err, RT_BAD_INPUT,
                           "%.80s (%.80s) cannot reach %.80s, which is %.80s on this machine only: give that "
                           "node's address on the network",
                           from->welcome.name, from->address, to->welcome.name, to->address);
    }
    return RT_OK;
}

/* Place i of the ring, counted from 1. */
static rt_status join(struct rt_cluster *cluster, const size_t *order, size_t count, size_t i,
                      uint32_t probe_bytes, struct rt_edge *edge, struct rt_error *err) {
    uint8_t body[RT_MAX_TEXT + 64];
    struct rt_joined joined;
    struct rt_join ask = {.index = (uint16_t)i,
                          .count = (uint16_t)(count + 1),
                          .peer = (uint16_t)((i + 1) % (count + 1)),
                          .label = RT_LABEL_RING,
                          .probe_bytes = probe_bytes};
    if (i < count)
        memcpy(ask.address, cluster->members[order[i]].address, sizeof ask.address);
    size_t bytes = rt_join_encode(&ask, body, sizeof body);
    size_t member = order[i - 1];
    rt_status status = rt_cluster_ask(cluster, member, RT_MESSAGE_JOIN, body, bytes, RT_MESSAGE_JOINED, err);
    if (status != RT_OK)
        return status;
    struct rt_talk *talk = &cluster->members[member].talk;
    status = rt_joined_decode(talk->body, talk->body_bytes, &joined, err);
    rt_talk_next(talk);
    if (status != RT_OK)
        return rt_fail_prefix(err, status, "%.80s", cluster->members[member].address);
    *edge = (struct rt_edge){joined.latency, joined.bandwidth};
    return RT_OK;
}

/* The master's own link to the node at place `to`. */
static rt_status dial(struct rt_cluster *cluster, const struct rt_member *member, uint16_t to, size_t count,
                      uint16_t label, uint32_t probe_bytes, struct rt_link **link, struct rt_edge *edge,
                      struct rt_error *err) {
    double until = rt_endpoint_now(cluster->endpoint) + cluster->patience;
    struct rt_dial_settings settings = {.address = member->address,
                                        .hello = rt_cluster_hello(cluster, label),
                                        .run = cluster->run,
                                        .to = to,
                                        .count = (uint16_t)(count + 1),
                                        .probe_bytes = probe_bytes,
                                        .until = until};
    struct rt_dial *made = &cluster->dial;
    rt_status status = rt_dial_start(cluster->endpoint, &settings, made, err);
    while (status == RT_OK && made->stage != RT_DIAL_DONE && made->stage != RT_DIAL_FAILED) {
        status = rt_cluster_pump(cluster, until, err);
        rt_dial_check(made);
    }
    if (status == RT_OK && made->stage == RT_DIAL_FAILED)
        status = rt_fail(err, made->error.status == RT_OK ? RT_FAILED : made->error.status, "%s",
                         made->error.text);
    if (status != RT_OK) {
        rt_dial_cancel(made);
        return status;
    }
    *edge = (struct rt_edge){made->latency, made->bandwidth};
    *link = rt_dial_take(made);
    return RT_OK;
}

rt_status rt_cluster_ring(struct rt_cluster *cluster, const size_t *order, size_t count, uint32_t probe_bytes,
                          struct rt_link **next, struct rt_link **previous, struct rt_edge *edges,
                          struct rt_error *err) {
    struct rt_link *first = NULL, *closing = NULL;
    cluster->next = cluster->previous = NULL;
    cluster->lost.text[0] = 0;
    memset(cluster->in_ring, 0, cluster->count * sizeof *cluster->in_ring);
    for (size_t i = 0; i < count; i++) {
        if (order[i] >= cluster->count || cluster->in_ring[order[i]])
            return rt_fail(err, RT_BAD_INPUT, "the order of a ring names a node that is not there, or twice");
        cluster->in_ring[order[i]] = true;
    }
    if (count == 0)
        return rt_fail(err, RT_BAD_INPUT, "a ring needs at least one node besides the master");
    rt_status status = check_addresses(cluster, order, count, err);
    for (size_t i = count; i >= 1 && status == RT_OK; i--)
        status = join(cluster, order, count, i, probe_bytes, &edges[i], err);
    if (status == RT_OK)
        status = dial(cluster, &cluster->members[order[0]], 1, count, RT_LABEL_RING, probe_bytes, &first,
                      &edges[0], err);
    if (status == RT_OK)
        cluster->next = first;
    if (status == RT_OK)
        status = dial(cluster, &cluster->members[order[count - 1]], (uint16_t)count, count, RT_LABEL_CLOSING,
                      probe_bytes, &closing, &edges[count], err);
    if (status != RT_OK) {
        cluster->next = NULL;
        rt_link_close(first);
        return status;
    }
    cluster->previous = closing;
    *next = first;
    *previous = closing;
    return RT_OK;
}
