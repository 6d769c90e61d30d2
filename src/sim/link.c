/* The lives of links in the network in memory: connecting, closing, being cut, giving up. */
#include "base/memory.h"
#include "sim/network_inside.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = RT_CHANNELS + 4 }; /* of a side, on the agenda */

/* ---- the end of a link ---- */

/* Stops all transfers to and from this side. */
static void memnet_halt(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        rt_mem_unplan(side, &side->channels[c].arrival);
        side->channels[c].coming.first = NULL;
    }
    rt_mem_unplan(side, &side->leave);
    rt_mem_unplan(side, &side->opening);
    rt_mem_unplan(side, &side->closing);
    side->leaving = NULL;
    side->into = NULL;
    if (side->peer)
        side->peer->into = NULL;
}

static void memnet_drop_posted(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        side->channels[c].waiting.first = NULL;
        side->channels[c].posted.first = NULL;
    }
    rt_mem_unplan(side, &side->giving_up);
}

void rt_mem_die(struct rt_mem_side *side, const char *format, ...) {
    va_list arguments;
    memnet_halt(side);
    memnet_drop_posted(side);
    side->state = RT_MEM_DEAD;
    rt_link_count(&side->link, NULL);
    side->why.status = RT_FAILED;
    va_start(arguments, format);
    vsnprintf(side->why.text, sizeof side->why.text, format, arguments);
    va_end(arguments);
    rt_mem_push(side->node, RT_EVENT_CLOSED, side, NULL);
}

static bool memnet_is_unknown(const struct rt_mem_side *side) {
    return side->state == RT_MEM_HIDDEN || side->state == RT_MEM_CALLING;
}

/* Moves a side from its list to another, or to none. */
static void memnet_enlist(struct rt_mem_side *side, struct rt_mem_side **list) {
    if (side->after)
        side->after->before = side->before;
    if (side->before)
        side->before->after = side->after;
    else if (side->node->sides == side)
        side->node->sides = side->after;
    else if (side->node->calls == side)
        side->node->calls = side->after;
    side->before = NULL;
    side->after = list ? *list : NULL;
    if (side->after)
        side->after->before = side;
    if (list)
        *list = side;
}

static void memnet_free_side(struct rt_mem_side *side) {
    memnet_halt(side);
    memnet_drop_posted(side);
    memnet_enlist(side, NULL);
    if (side->peer)
        side->peer->peer = NULL;
    rt_mem_agenda_release(&rt_mem_net_of(side)->agenda, ITEMS);
    free(side);
}

void rt_mem_tell(struct rt_mem_side *side, const char *what) {
    struct rt_mem_side *peer = side->peer;
    if (!peer || peer->state == RT_MEM_DEAD || rt_mem_is_cut(side))
        return;
    if (memnet_is_unknown(peer)) {
        memnet_free_side(peer);
        return;
    }
    /* After all frames that have left, and after the answer if the peer is still connecting. */
    double bandwidth, at = rt_mem_net_of(side)->now + rt_mem_draw_travel(side, &bandwidth);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        if (peer->channels[c].last > at)
            at = peer->channels[c].last;
    snprintf(peer->why.text, sizeof peer->why.text, "%s", what);
    rt_mem_plan(peer, &peer->closing, at);
}

void rt_mem_close(struct rt_link *link) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (rt_mem_is_alive(side))
        rt_mem_tell(side, "closed the link");
    if (side->peer && memnet_is_unknown(side->peer))
        memnet_free_side(side->peer); /* behind a cut */
    rt_mem_forget(side->node, side);
    memnet_free_side(side);
}

void rt_memnet_cut(struct rt_memnet *net, size_t a, size_t b) {
    if (a >= net->count || b >= net->count || a == b)
        return;
    net->cut[a * net->count + b] = net->cut[b * net->count + a] = true;
    double silence = net->settings.silence_seconds > 0 ? net->settings.silence_seconds : 5;
    const size_t ends[2] = {a, b};
    for (int end = 0; end < 2; end++)
        for (struct rt_mem_side *side = net->nodes[ends[end]].sides; side; side = side->after) {
            if (side->to != ends[!end] || !rt_mem_is_alive(side))
                continue;
            if (side->peer && memnet_is_unknown(side->peer))
                memnet_halt(side->peer); /* the request is lost */
            memnet_halt(side);
            if (side->state != RT_MEM_LIVE)
                continue; /* gives up when its time is over */
            snprintf(side->why.text, sizeof side->why.text, "has been silent for %g s", silence);
            rt_mem_plan(side, &side->closing, net->now + silence);
        }
}

void rt_memnet_kill(struct rt_memnet *net, size_t i) {
    if (i >= net->count || net->nodes[i].over)
        return;
    struct rt_mem_node *node = &net->nodes[i];
    for (struct rt_mem_side *side = node->sides; side; side = side->after)
        if (side->state != RT_MEM_DEAD)
            rt_mem_tell(side, "is gone");
    char why[100];
    snprintf(why, sizeof why, "mem:%zu was killed", i);
    rt_mem_over(node, why);
}

/* ---- the beginning of a link ---- */

static rt_status memnet_make_side(struct rt_mem_node *node, size_t to, struct rt_mem_side **made,
                                  struct rt_error *err) {
    struct rt_mem_side *side;
    rt_status status = rt_alloc(1, sizeof *side, "a link", &side, err);
    if (status != RT_OK)
        return status;
    status = rt_mem_agenda_promise(&node->net->agenda, ITEMS, err);
    if (status != RT_OK) {
        free(side);
        return status;
    }
    side->link.endpoint = &node->endpoint;
    snprintf(side->link.peer, sizeof side->link.peer, "mem:%zu", to);
    side->node = node;
    side->to = to;
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        side->channels[c].arrival = (struct rt_mem_item){.kind = RT_MEM_ARRIVE, .channel = c, .owner = side};
    side->leave = (struct rt_mem_item){.kind = RT_MEM_LEAVE, .owner = side};
    side->opening = (struct rt_mem_item){.kind = RT_MEM_OPEN, .owner = side};
    side->closing = (struct rt_mem_item){.kind = RT_MEM_CLOSE, .owner = side};
    side->giving_up = (struct rt_mem_item){.kind = RT_MEM_GIVE_UP, .owner = side};
    side->state = RT_MEM_HIDDEN;
    *made = side;
    return RT_OK;
}

rt_status rt_mem_connect(struct rt_endpoint *endpoint, const char *address, double until,
                         struct rt_link **link, struct rt_error *err) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    struct rt_memnet *net = node->net;
    struct rt_mem_side *near, *far;
    char *end = NULL;
    bool named = strncmp(address, "mem:", 4) == 0 && address[4] >= '0' && address[4] <= '9';
    unsigned long to = named ? strtoul(address + 4, &end, 10) : 0;
    if (!named || *end || to >= net->count)
        return rt_fail(err, RT_BAD_INPUT, "%s: no endpoint of this network, which has mem:0 to mem:%zu",
                       address, net->count - 1);
    if (node->over)
        return rt_fail(err, RT_FAILED, "%s: this end of the network is dead", address);
    rt_status status = memnet_make_side(node, to, &near, err);
    if (status != RT_OK)
        return status;
    status = memnet_make_side(&net->nodes[to], node->index, &far, err);
    if (status != RT_OK) {
        memnet_free_side(near);
        return status;
    }
    near->peer = far;
    far->peer = near;
    near->state = RT_MEM_CONNECTING;
    memnet_enlist(near, &node->sides);
    if (until < INFINITY)
        rt_mem_plan(near, &near->giving_up, until > net->now ? until : net->now);
    if (!rt_mem_is_cut(near)) {
        double bandwidth;
        rt_mem_plan(far, &far->opening, net->now + rt_mem_draw_travel(near, &bandwidth));
    }
    *link = &near->link;
    return RT_OK;
}

/* The request has arrived. If the program does not listen yet, the request waits. */
static void memnet_answer(struct rt_mem_side *far) {
    struct rt_mem_side *near = far->peer;
    if (!far->node->listening) {
        far->state = RT_MEM_CALLING;
        memnet_enlist(far, &far->node->calls);
        return;
    }
    far->state = RT_MEM_LIVE;
    memnet_enlist(far, &far->node->sides);
    rt_mem_push(far->node, RT_EVENT_ACCEPTED, far, NULL);
    double bandwidth, at = rt_mem_net_of(far)->now + rt_mem_draw_travel(far, &bandwidth);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        near->channels[c].last = at; /* frames come after the answer */
    rt_mem_plan(near, &near->opening, at);
}

void rt_mem_answer_calls(struct rt_mem_node *node) {
    struct rt_mem_side *call = node->calls;
    while (call && call->after)
        call = call->after; /* the first to come is the last of the list */
    for (; call; call = call->before)
        if (!rt_mem_is_cut(call))
            rt_mem_plan(call, &call->opening, node->net->now);
}

void rt_mem_happen(struct rt_mem_item *item) {
    struct rt_mem_side *side = item->owner;
    switch (item->kind) {
    case RT_MEM_TIMER: /* happens to a node */
        break;
    case RT_MEM_LEAVE:
        rt_mem_leave(side);
        rt_mem_transmit(side);
        break;
    case RT_MEM_ARRIVE:
        rt_mem_arrive(side, &side->channels[item->channel]);
        break;
    case RT_MEM_OPEN:
        if (memnet_is_unknown(side)) {
            memnet_answer(side);
            break;
        }
        side->state = RT_MEM_LIVE;
        rt_mem_unplan(side, &side->giving_up);
        rt_mem_push(side->node, RT_EVENT_CONNECTED, side, NULL);
        rt_mem_transmit(side);
        break;
    case RT_MEM_CLOSE: {
        struct rt_error why = side->why;
        rt_mem_die(side, "%s", why.text);
        break;
    }
    case RT_MEM_GIVE_UP:
        if (side->peer && side->peer->state == RT_MEM_CALLING)
            rt_mem_die(side, "nothing is listening there");
        else
            rt_mem_die(side, "did not answer in time");
        rt_mem_tell(side, "gave up connecting");
        break;
    }
}
