/*
 * Making the links of a cluster. First every node is told its place and which links it will have; then one
 * after another is told to connect. Where links are measured, one is made at a time, so that measurements do
 * not disturb one another; otherwise several nodes connect at the same time. The master makes its own links,
 * but for those with nodes that nobody can connect to: those nodes make theirs.
 */
#include "cluster/cluster_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Links that are made at a time: a node listens to a few guests only. */
enum { AT_ONCE = RT_GUESTS_HEARD / 2 };

/* A number alone is an address to the system, 127 being 0.0.0.127; but users mean a port. */
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
    if (given[strspn(given, "0123456789")] == 0 || length < 0 || length > RT_MAX_TEXT)
        return rt_fail(err, RT_BAD_INPUT, "'%.60s' is not a node address; write HOST or HOST:PORT", given);
    return RT_OK;
}

bool rt_cluster_is_loopback(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]", 5) == 0;
}

/* A join under way: node i is members[order[i - 1]]. */
struct form {
    struct rt_cluster *cluster;
    const size_t *order;
    size_t count;
    struct rt_wanted_link *wanted; /* in the direction in which each can be made */
    size_t wanted_count;
    uint32_t probe_bytes;
    struct rt_link **links;
    struct rt_edge *edges;
};

static struct rt_member *cluster_node(const struct form *form, size_t i) {
    return &form->cluster->members[form->order[i - 1]];
}

/* ---- what is asked for ---- */

static rt_status cluster_check_order(const struct form *form, struct rt_error *err) {
    struct rt_cluster *cluster = form->cluster;
    memset(cluster->joined, 0, cluster->count * sizeof *cluster->joined);
    if (form->count == 0)
        return rt_fail(err, RT_BAD_INPUT, "a cluster needs at least one node besides the master");
    for (size_t i = 0; i < form->count; i++) {
        const size_t member = form->order[i];
        if (member >= cluster->count || cluster->joined[member])
            return rt_fail(err, RT_BAD_INPUT,
                           "the order of the nodes names an unknown node, or one node twice");
        cluster->joined[member] = true;
    }
    return RT_OK;
}

/* Whether the one can connect to the other; NULL: the master, to which those connect that have done so
 * before. A loopback address is of no use on another machine. */
static bool cluster_can_connect(const struct rt_member *from, const struct rt_member *to) {
    if (!from || !to)
        return from ? from->joins : !to->joins || !to->hidden;
    return !to->hidden && (!rt_cluster_is_loopback(to->address) || rt_cluster_is_loopback(from->address));
}

bool rt_cluster_can_link(const struct rt_cluster *cluster, size_t a, size_t b) {
    const struct rt_member *one = a < cluster->count ? &cluster->members[a] : NULL;
    const struct rt_member *other = b < cluster->count ? &cluster->members[b] : NULL;
    const bool hidden = (one && one->hidden) || (other && other->hidden);
    return !hidden || cluster_can_connect(one, other) || cluster_can_connect(other, one);
}

static rt_status cluster_fail_link(const struct rt_member *from, const struct rt_member *to,
                                   struct rt_error *err) {
    if (from->hidden && to->hidden)
        return rt_fail(err, RT_BAD_INPUT,
                       "%.80s and %.80s cannot be connected to, and so not with one another: start one of "
                       "them with --listen HOST:PORT",
                       from->name, to->name);
    if (to->hidden) { /* then it is the other that nobody reaches but from its own machine */
        const struct rt_member *local = from;
        from = to;
        to = local;
    }
    return rt_fail(err, RT_BAD_INPUT,
                   "%.80s (%.80s) cannot reach %.80s, which is %.80s on this machine only: give that "
                   "node's address on the network",
                   from->name, from->address, to->name, to->address);
}

/* Turns a link round to an end that nobody can connect to. */
static rt_status cluster_check_links(const struct form *form, struct rt_error *err) {
    for (size_t i = 0; i < form->wanted_count; i++) {
        struct rt_wanted_link *link = &form->wanted[i];
        if (link->to == 0 || link->to > form->count || link->from > form->count || link->from == link->to)
            return rt_fail(err, RT_BAD_INPUT, "node %u cannot connect to node %u", link->from, link->to);
        const struct rt_member *from = link->from ? cluster_node(form, link->from) : NULL,
                               *to = cluster_node(form, link->to);
        if (cluster_can_connect(from, to))
            continue;
        if (!to->hidden || !cluster_can_connect(to, from))
            return cluster_fail_link(from, to, err);
        *link = (struct rt_wanted_link){link->to, link->from, rt_label_mirror(link->label)};
    }
    return RT_OK;
}

/* ---- places ---- */

static rt_status cluster_tell_place(const struct form *form, size_t i, struct rt_settle_link *room,
                                    struct rt_error *err) {
    struct rt_settle place = {.index = (uint16_t)i,
                              .count = (uint16_t)(form->count + 1),
                              .view = form->cluster->view,
                              .link = room};
    uint8_t body[12 + 4 * RT_MAX_LINKS];
    for (size_t k = 0; k < form->wanted_count; k++) {
        const struct rt_wanted_link *link = &form->wanted[k];
        if (link->from != i && link->to != i)
            continue;
        if (place.links == RT_MAX_LINKS)
            return rt_fail(err, RT_BAD_INPUT, "%.80s cannot have more than %d links",
                           cluster_node(form, i)->name, RT_MAX_LINKS);
        room[place.links++] = link->from == i
                                  ? (struct rt_settle_link){link->to, link->label}
                                  : (struct rt_settle_link){link->from, rt_label_mirror(link->label)};
    }
    const size_t bytes = rt_settle_encode(&place, body, sizeof body);
    return rt_cluster_request(form->cluster, form->order[i - 1], RT_MESSAGE_SETTLE, body, bytes, err);
}

/* All answers are received, also after a failure: an answer left over would be taken for that to a later
 * request. The first failure counts, but a node that is gone is the reason why others fail. */
struct failure {
    rt_status status;
    bool gone;
    size_t fault, peer; /* the member, and whom it could not reach; SIZE_MAX: none */
};

static void cluster_keep(struct failure *failure, const struct rt_cluster *cluster, size_t member,
                         size_t peer, rt_status status, const struct rt_error *why, struct rt_error *err) {
    const bool gone = cluster->members[member].talk.dead;
    if (status == RT_OK || (failure->status != RT_OK && (failure->gone || !gone)))
        return;
    *failure = (struct failure){status, gone, cluster->fault, gone ? SIZE_MAX : peer};
    if (err)
        *err = *why;
}

/* Answers that came after the failure say nothing about it. */
static rt_status cluster_blame(const struct failure *failure, struct rt_cluster *cluster) {
    if (failure->status != RT_OK) {
        cluster->fault = failure->fault;
        cluster->fault_peer = failure->peer;
    }
    return failure->status;
}

static rt_status cluster_tell_places(const struct form *form, struct rt_error *err) {
    struct rt_cluster *cluster = form->cluster;
    struct rt_settle_link *room;
    struct rt_error why;
    size_t asked = 0;
    rt_status status = rt_alloc(RT_MAX_LINKS, sizeof *room, "the links of a node", &room, err);
    while (status == RT_OK && asked < form->count) {
        status = cluster_tell_place(form, asked + 1, room, err);
        asked += status == RT_OK;
    }
    free(room);
    const double until = rt_endpoint_now(cluster->endpoint) + cluster->timeout;
    struct failure failure = {.status = status, .fault = cluster->fault, .peer = SIZE_MAX};
    for (size_t i = 0; i < asked && failure.status != RT_INTERRUPTED; i++) {
        struct rt_member *member = cluster_node(form, i + 1);
        status = rt_cluster_await(cluster, form->order[i], RT_MESSAGE_SETTLED, until, cluster->timeout, &why);
        cluster_keep(&failure, cluster, form->order[i], SIZE_MAX, status, &why, err);
        if (status == RT_OK)
            rt_talk_next(&member->talk);
    }
    return cluster_blame(&failure, cluster);
}

/* ---- links ---- */

/* Half of our timeout is for the node to find that it cannot reach the other: so we are told the reason. */
static rt_status cluster_request_link(const struct form *form, size_t k, struct rt_error *err) {
    const struct rt_wanted_link *link = &form->wanted[k];
    uint8_t body[RT_MAX_TEXT + RT_NODE_NAME + 64];
    const double half = form->cluster->timeout / 2;
    struct rt_join ask = {.peer = link->to,
                          .label = link->label,
                          .probe_bytes = form->probe_bytes,
                          .milliseconds = half < 1e6 ? (uint32_t)(half * 1000) : UINT32_MAX};
    const struct rt_member *to = link->to ? cluster_node(form, link->to) : NULL;
    if (to) /* to the master it connects as it always does */
        memcpy(ask.address, to->address, sizeof ask.address);
    rt_copy_sentence(ask.name, sizeof ask.name, to ? to->name : "the master");
    const size_t bytes = rt_join_encode(&ask, body, sizeof body);
    return rt_cluster_request(form->cluster, form->order[link->from - 1], RT_MESSAGE_JOIN, body, bytes, err);
}

static rt_status cluster_hear_link(const struct form *form, size_t k, double until, struct rt_error *err) {
    const struct rt_wanted_link *link = &form->wanted[k];
    struct rt_member *member = cluster_node(form, link->from);
    struct rt_joined joined;
    rt_status status = rt_cluster_await(form->cluster, form->order[link->from - 1], RT_MESSAGE_JOINED, until,
                                        form->cluster->timeout, err);
    if (status != RT_OK)
        return status;
    status = rt_joined_decode(member->talk.body, member->talk.body_bytes, &joined, err);
    rt_talk_next(&member->talk);
    if (status == RT_OK && (joined.peer != link->to || joined.label != link->label))
        status = rt_fail(err, RT_BAD_INPUT, "it answered for another link than the one requested");
    if (status != RT_OK) {
        form->cluster->fault = form->order[link->from - 1];
        return rt_fail_prefix(err, status, "%.80s", member->name);
    }
    form->edges[k] = (struct rt_edge){joined.latency, joined.bandwidth};
    return RT_OK;
}

/* The nodes of these links connect at the same time, each of them to one other. */
static rt_status cluster_make_links(const struct form *form, size_t first, size_t count,
                                    struct rt_error *err) {
    rt_status status = RT_OK;
    struct rt_error why;
    size_t asked = 0;
    while (status == RT_OK && asked < count) {
        status = cluster_request_link(form, first + asked, err);
        asked += status == RT_OK;
    }
    const double until = rt_endpoint_now(form->cluster->endpoint) + form->cluster->timeout;
    struct failure failure = {.status = status, .fault = form->cluster->fault, .peer = SIZE_MAX};
    for (size_t k = first; k < first + asked && failure.status != RT_INTERRUPTED; k++) {
        status = cluster_hear_link(form, k, until, &why);
        const struct rt_wanted_link *link = &form->wanted[k];
        const size_t peer = link->to ? form->order[link->to - 1] : SIZE_MAX;
        cluster_keep(&failure, form->cluster, form->order[link->from - 1], peer, status, &why, err);
    }
    return cluster_blame(&failure, form->cluster);
}

/* One of the master's own. */
static rt_status cluster_dial(const struct form *form, size_t k, struct rt_error *err) {
    struct rt_cluster *cluster = form->cluster;
    const struct rt_wanted_link *link = &form->wanted[k];
    struct rt_dial_settings settings = {.address = cluster_node(form, link->to)->address,
                                        .hello = rt_cluster_hello(cluster, link->label),
                                        .run = cluster->run,
                                        .to = link->to,
                                        .probe_bytes = form->probe_bytes,
                                        .until = rt_endpoint_now(cluster->endpoint) + cluster->timeout};
    struct rt_dial *made = &cluster->dial;
    rt_status status = rt_dial_start(cluster->endpoint, &settings, made, err);
    const struct rt_member *to = cluster_node(form, link->to);
    while (status == RT_OK && made->stage != RT_DIAL_DONE && made->stage != RT_DIAL_FAILED) {
        status = rt_cluster_pump(cluster, made->until, err);
        rt_dial_check(made);
        if (status == RT_OK && to->talk.dead) /* there is nobody to answer */
            status = rt_cluster_fail_lost(to, err);
    }
    if (status == RT_OK && made->stage == RT_DIAL_FAILED)
        status = rt_fail(err, made->error.status == RT_OK ? RT_FAILED : made->error.status, "%s",
                         made->error.text);
    if (status != RT_OK) {
        rt_dial_cancel(made);
        cluster->fault = form->order[link->to - 1];
        return status;
    }
    form->edges[k] = (struct rt_edge){made->latency, made->bandwidth};
    form->links[k] = rt_dial_take(made);
    cluster->own[cluster->own_count++] = form->links[k];
    return RT_OK;
}

/* One of the master's own that the node has to make. */
static rt_status cluster_await_dial(const struct form *form, size_t k, struct rt_error *err) {
    struct rt_cluster *cluster = form->cluster;
    const struct rt_wanted_link *link = &form->wanted[k];
    const double until = rt_endpoint_now(cluster->endpoint) + cluster->timeout;
    rt_door_expect(cluster->door, link->from, link->label, &form->links[k]);
    rt_status status = cluster_make_links(form, k, 1, err);
    while (status == RT_OK && !form->links[k]) { /* its last message may be on its way */
        if (cluster->door->lost.text[0])
            status = rt_fail(err, RT_FAILED, "%s", cluster->door->lost.text);
        else if (rt_endpoint_now(cluster->endpoint) >= until)
            status = rt_fail(err, RT_FAILED, "%.80s has not completed its link",
                             cluster_node(form, link->from)->name);
        else
            status = rt_cluster_pump(cluster, until, err);
    }
    rt_door_expect(cluster->door, 0, 0, NULL);
    if (status == RT_OK)
        cluster->own[cluster->own_count++] = form->links[k];
    return status;
}

/* How many of the links from k on can be made at a time: no node makes two of them. */
static size_t cluster_group(const struct form *form, size_t k) {
    size_t count = 1;
    while (!form->probe_bytes && count < AT_ONCE && k + count < form->wanted_count &&
           form->wanted[k + count].to && form->wanted[k + count].from > form->wanted[k + count - 1].from)
        count++;
    return count;
}

rt_status rt_cluster_join(struct rt_cluster *cluster, uint32_t view, const size_t *order, size_t count,
                          const struct rt_wanted_link *wanted, size_t wanted_count, uint32_t probe_bytes,
                          struct rt_link **links, struct rt_edge *edges, struct rt_error *err) {
    struct form form = {cluster, order, count, NULL, wanted_count, probe_bytes, links, edges};
    free(cluster->own);
    cluster->own = NULL;
    cluster->own_count = 0;
    cluster->lost.text[0] = 0;
    cluster->fault_peer = SIZE_MAX;
    for (size_t k = 0; k < wanted_count; k++)
        links[k] = NULL;
    RT_TRY(rt_alloc(wanted_count, sizeof *form.wanted, "the links of a cluster", &form.wanted, err));
    for (size_t k = 0; k < wanted_count; k++)
        form.wanted[k] = wanted[k];
    rt_status status = cluster_check_order(&form, err);
    if (status == RT_OK && view < cluster->view)
        status = rt_fail(err, RT_BAD_INPUT, "view %u of a run cannot be formed after view %u", view,
                         cluster->view);
    if (status == RT_OK)
        cluster->view = view;
    if (status == RT_OK)
        status = cluster_check_links(&form, err);
    if (status == RT_OK)
        status = rt_alloc(wanted_count, sizeof *cluster->own, "the links of the master", &cluster->own, err);
    if (status == RT_OK)
        status = cluster_tell_places(&form, err);
    for (size_t k = 0; k < wanted_count && status == RT_OK;) {
        const bool own = form.wanted[k].from == 0 || form.wanted[k].to == 0;
        const size_t at_once = own ? 1 : cluster_group(&form, k);
        if (form.wanted[k].from == 0)
            status = cluster_dial(&form, k, err);
        else if (form.wanted[k].to == 0)
            status = cluster_await_dial(&form, k, err);
        else
            status = cluster_make_links(&form, k, at_once, err);
        k += at_once;
    }
    free(form.wanted);
    if (status == RT_OK)
        return RT_OK;
    cluster->own_count = 0;
    for (size_t k = 0; k < wanted_count; k++) {
        rt_link_close(links[k]);
        links[k] = NULL;
    }
    return rt_cluster_explain(cluster, status, err);
}
