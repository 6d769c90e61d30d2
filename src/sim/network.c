/* The network in memory: its endpoints and their events. See network_inside.h for the parts. */
#include "sim/network.h"

#include "base/memory.h"
#include "sim/network_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

void rt_mem_push(struct rt_mem_node *node, enum rt_event_kind kind, struct rt_mem_side *side,
                 void *operation) {
    if (node->count == node->room) {
        /* Rare: there are never more events than operations posted and links. */
        size_t room = node->room ? 2 * node->room : 64;
        struct rt_mem_event *grown = malloc(room * sizeof *grown);
        if (!grown) {
            if (!node->net->failed)
                rt_mem_fail(node->net, RT_NO_MEMORY, "no memory for %zu events of the simulated network",
                            room);
            return;
        }
        for (size_t i = 0; i < node->count; i++)
            grown[i] = node->queue[(node->first + i) & (node->room - 1)];
        free(node->queue);
        node->queue = grown;
        node->first = 0;
        node->room = room;
    }
    node->queue[(node->first + node->count++) & (node->room - 1)] =
        (struct rt_mem_event){kind, side, operation};
    if (node->state == RT_MEM_WAITING)
        node->state = RT_MEM_READY;
}

void rt_mem_forget(struct rt_mem_node *node, const struct rt_mem_side *side) {
    size_t kept = 0;
    for (size_t i = 0; i < node->count; i++) {
        struct rt_mem_event event = node->queue[(node->first + i) & (node->room - 1)];
        if (event.side != side)
            node->queue[(node->first + kept++) & (node->room - 1)] = event;
    }
    node->count = kept;
}

bool rt_mem_take(struct rt_mem_node *node, struct rt_event *event) {
    event->link = NULL;
    event->send = NULL;
    event->receive = NULL;
    event->error.status = RT_OK;
    event->error.text[0] = 0;
    if (atomic_load_explicit(&node->woken, memory_order_relaxed) && atomic_exchange(&node->woken, false)) {
        event->kind = RT_EVENT_WOKEN;
        return true;
    }
    if (!node->count)
        return false;
    struct rt_mem_event first = node->queue[node->first];
    node->first = (node->first + 1) & (node->room - 1);
    node->count--;
    event->kind = first.kind;
    event->link = &first.side->link;
    struct rt_link_counts *counts = &event->link->counts;
    if (first.kind == RT_EVENT_SENT) {
        event->send = first.operation;
        size_t bytes = event->send->head_bytes;
        for (size_t i = 0; i < RT_PIECES; i++)
            bytes += event->send->body[i].bytes;
        counts->frames_sent[event->send->channel]++;
        counts->bytes_sent[event->send->channel] += bytes;
        counts->wire_sent += bytes;
    } else if (first.kind == RT_EVENT_RECEIVED) {
        event->receive = first.operation;
        size_t bytes = event->receive->head_bytes + event->receive->body_bytes;
        counts->frames_received[event->receive->channel]++;
        counts->bytes_received[event->receive->channel] += bytes;
        counts->wire_received += bytes;
    } else if (first.kind == RT_EVENT_CLOSED) {
        event->error = first.side->why;
    }
    return true;
}

/* ---- endpoints and the net ---- */

static rt_status memnet_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    char own[40];
    snprintf(own, sizeof own, "mem:%zu", node->index);
    if (strcmp(address, own) != 0 && strcmp(address, "mem:*") != 0)
        return rt_fail(err, RT_BAD_INPUT, "%s: this endpoint can listen at %s only", address, own);
    if (node->over)
        return rt_fail(err, RT_FAILED, "%s: this end of the network is dead", own);
    snprintf(endpoint->address, sizeof endpoint->address, "%s", own);
    node->listening = true;
    rt_mem_answer_calls(node);
    return RT_OK;
}

static void memnet_destroy_endpoint(struct rt_endpoint *endpoint) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    while (node->sides)
        rt_mem_close(&node->sides->link);
    node->listening = false;
    endpoint->address[0] = 0;
}

struct rt_heartbeat rt_mem_heartbeat_of(const struct rt_mem_node *node) {
    if (node->pretends > 0 && node->net->now >= node->pretends)
        return (struct rt_heartbeat){.known = true, .note = node->note};
    return rt_endpoint_heartbeat(&node->endpoint, node->net->now);
}

/* Heartbeats take no time here, unless they have stopped. */
static struct rt_heartbeat memnet_heartbeat(const struct rt_link *link) {
    const struct rt_mem_side *side = (const struct rt_mem_side *)link;
    const double now = rt_mem_net_of(side)->now;
    if (side->quiet && now > side->heard) {
        struct rt_heartbeat last = side->last;
        last.ago = now - side->heard;
        return last;
    }
    return side->peer ? rt_mem_heartbeat_of(side->peer->node) : (struct rt_heartbeat){0};
}

static void memnet_attend(struct rt_endpoint *endpoint, bool attends) {
    ((struct rt_mem_node *)endpoint)->attended = attends;
}

static const struct rt_transport transport = {
    .name = "memory",
    .one_thread = true,
    .destroy = memnet_destroy_endpoint,
    .listen = memnet_listen,
    .connect = rt_mem_connect,
    .close = rt_mem_close,
    .send = rt_mem_send,
    .receive = rt_mem_receive,
    .wait = rt_mem_wait,
    .wake = rt_mem_wake,
    .attend = memnet_attend,
    .now = rt_mem_now,
    .sleep = rt_mem_sleep,
    .heartbeat = memnet_heartbeat,
};

rt_status rt_mem_make_node(struct rt_memnet *net, size_t index, struct rt_mem_node **made,
                           struct rt_error *err) {
    enum { ITEMS = 3 }; /* on the agenda */
    struct rt_mem_node *node;
    if (net->node_count == net->node_room) {
        const size_t room = 2 * net->node_room + 8;
        struct rt_mem_node **grown = realloc(net->nodes, room * sizeof *grown);
        if (!grown)
            return rt_fail(err, RT_NO_MEMORY, "no memory for %zu endpoints of a network", room);
        net->nodes = grown;
        net->node_room = room;
    }
    RT_TRY(rt_alloc(1, sizeof *node, "an endpoint of a network", &node, err));
    const rt_status status = rt_mem_agenda_promise(&net->agenda, ITEMS, err);
    if (status != RT_OK) {
        free(node);
        return status;
    }
    node->endpoint.transport = &transport;
    node->net = net;
    node->index = index;
    node->slot = net->node_count;
    node->timer = (struct rt_mem_item){.kind = RT_MEM_TIMER, .owner = node};
    node->thaw = (struct rt_mem_item){.kind = RT_MEM_THAW, .owner = node};
    node->start = (struct rt_mem_item){.kind = RT_MEM_START, .owner = node};
    sem_init(&node->turn, 0, 0);
    net->nodes[net->node_count++] = node;
    *made = node;
    return RT_OK;
}

static rt_status memnet_fill(struct rt_memnet *net, size_t endpoints, struct rt_error *err) {
    RT_TRY(rt_alloc(endpoints, sizeof *net->hosts, "the endpoints of a network", &net->hosts, err));
    RT_TRY(rt_alloc(endpoints * endpoints, sizeof *net->cuts, "the cuts of a network", &net->cuts, err));
    for (; net->count < endpoints; net->count++)
        RT_TRY(rt_mem_make_node(net, net->count, &net->hosts[net->count], err));
    return RT_OK;
}

rt_status rt_memnet_create(const struct rt_memnet_settings *settings, size_t endpoints,
                           struct rt_memnet **made, struct rt_error *err) {
    struct rt_memnet *net;
    if (endpoints < 1 || endpoints > 4096)
        return rt_fail(err, RT_BAD_INPUT, "a network in memory has 1 to 4096 endpoints, not %zu", endpoints);
    RT_TRY(rt_alloc(1, sizeof *net, "a network in memory", &net, err));
    sem_init(&net->done, 0, 0);
    net->settings = *settings;
    net->silence =
        rt_silence_terms(settings->silence_seconds, settings->silence_least, settings->heartbeat_seconds);
    RT_FINISH_CREATE(memnet_fill(net, endpoints, err), net, rt_memnet_destroy, made);
}

void rt_memnet_destroy(struct rt_memnet *net) {
    if (!net)
        return;
    for (size_t i = 0; i < net->node_count; i++)
        memnet_destroy_endpoint(&net->nodes[i]->endpoint);
    for (size_t i = 0; i < net->node_count; i++) {
        free(net->nodes[i]->queue);
        sem_destroy(&net->nodes[i]->turn);
        free(net->nodes[i]);
    }
    sem_destroy(&net->done);
    rt_mem_free_faults(net);
    free(net->agenda.items);
    free(net->cuts);
    free(net->hosts);
    free(net->nodes);
    free(net);
}

struct rt_endpoint *rt_memnet_endpoint(struct rt_memnet *net, size_t i) {
    return i < net->count ? &net->hosts[i]->endpoint : NULL;
}

double rt_memnet_now(const struct rt_memnet *net) {
    return net->now;
}

void rt_memnet_freeze(struct rt_endpoint *endpoint, double from, double until) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    node->freezes = from;
    node->thaws = until;
}

void rt_memnet_freeze_again(struct rt_endpoint *endpoint, double every) {
    ((struct rt_mem_node *)endpoint)->freezes_every = every;
}

void rt_memnet_pretend(struct rt_endpoint *endpoint, double from, uint16_t note) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    node->pretends = from;
    node->note = note;
}
