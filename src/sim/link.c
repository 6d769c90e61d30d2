/* The lives of links in the network in memory: connecting, closing, giving up. */
#include "base/memory.h"
#include "sim/network_inside.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = RT_CHANNELS + 6 }; /* of a side, on the agenda */

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
    rt_mem_unplan(side, &side->silence);
    rt_mem_unplan(side, &side->resume);
    side->leaving = NULL;
    side->into = NULL;
    if (side->peer)
        side->peer->into = NULL;
}

static void memnet_drop_posted(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        side->channels[c].waiting.first = NULL;
        side->channels[c].posted.first = NULL;
        side->channels[c].unheard.first = NULL;
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
    if (!peer || peer->state == RT_MEM_DEAD)
        return;
    if (rt_mem_is_unknown(peer)) {
        memnet_free_side(peer);
        return;
    }
    /* After all frames that have left, and after the answer if the peer is still connecting. */
    double bandwidth, at = rt_mem_net_of(side)->now + rt_mem_draw_travel(side, &bandwidth);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        if (peer->channels[c].last > at)
            at = peer->channels[c].last;
    snprintf(peer->why.text, sizeof peer->why.text, "%s", what);
    if (rt_mem_is_deaf(peer))
        peer->untold = true;
    else
        rt_mem_plan(peer, &peer->closing, at);
}

void rt_mem_close(struct rt_link *link) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (rt_mem_is_alive(side))
        rt_mem_tell(side, "closed the link");
    if (side->peer && rt_mem_is_unknown(side->peer))
        memnet_free_side(side->peer); /* of one that was dead already */
    rt_mem_forget(side->node, side);
    memnet_free_side(side);
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
    side->silence = (struct rt_mem_item){.kind = RT_MEM_SILENCE, .owner = side};
    side->resume = (struct rt_mem_item){.kind = RT_MEM_RESUME, .owner = side};
    side->opened = node->net->now;
    side->deaf_from = side->outage = INFINITY;
    side->state = RT_MEM_HIDDEN;
    *made = side;
    return RT_OK;
}

/* No host of this network says that nothing listens there. */
rt_status rt_mem_connect(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                         struct rt_link **link, struct rt_error *err) {
    (void)refused;
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
    status = memnet_make_side(net->hosts[to], node->index, &far, err);
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
    if (!rt_mem_is_parted(near)) {
        double bandwidth;
        rt_mem_plan(far, &far->opening, net->now + rt_mem_draw_travel(near, &bandwidth));
    }
    *link = &near->link;
    return RT_OK;
}

/* An attempt takes three seconds at most, in which the system asks at its beginning and after a second. */
static double memnet_next_attempt(double first, double now) {
    const double period = 3, second = 1;
    const double begun = first + period * floor(fmax(now - first, 0) / period);
    return begun >= now ? begun : begun + second >= now ? begun + second : begun + period;
}

void rt_mem_ask_again(struct rt_mem_side *near) {
    struct rt_mem_side *far = near->peer;
    double bandwidth;
    if (near->state != RT_MEM_CONNECTING || !far || !rt_mem_is_unknown(far) || far->opening.slot ||
        (far->state == RT_MEM_CALLING && !far->node->listening))
        return;
    rt_mem_plan(far, &far->opening,
                memnet_next_attempt(near->opened, rt_mem_net_of(near)->now) +
                    rt_mem_draw_travel(near, &bandwidth));
}

/* The request is at the node it was for. Whoever is to listen there may not have begun to, or may be
 * stopped: then it waits. The answer may not get through: then it is as if there had been none. */
static void memnet_answer(struct rt_mem_side *far) {
    struct rt_mem_side *near = far->peer;
    struct rt_memnet *net = rt_mem_net_of(far);
    if (far->state == RT_MEM_HIDDEN)
        far->node = net->hosts[far->node->index];
    far->link.endpoint = &far->node->endpoint;
    if (rt_mem_is_parted(far))
        return;
    if (!far->node->listening || far->node->paused) {
        if (far->state == RT_MEM_HIDDEN)
            memnet_enlist(far, &far->node->calls);
        far->state = RT_MEM_CALLING;
        const double patience = net->now + net->silence.most;
        if (far->node->paused && (!near->giving_up.slot || near->giving_up.at > patience))
            rt_mem_plan(near, &near->giving_up, patience);
        return;
    }
    far->state = RT_MEM_LIVE;
    far->opened = net->now;
    memnet_enlist(far, &far->node->sides);
    rt_mem_push(far->node, RT_EVENT_ACCEPTED, far, NULL);
    double bandwidth, at = net->now + rt_mem_draw_travel(far, &bandwidth);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        near->channels[c].last = at; /* frames come after the answer */
    rt_mem_plan(near, &near->opening, at);
    if (near->node->paused)
        rt_mem_hush(far, net->now);
}

/* The first to come is the last of the list. */
static struct rt_mem_side *memnet_first_call(const struct rt_mem_node *node) {
    struct rt_mem_side *call = node->calls;
    while (call && call->after)
        call = call->after;
    return call;
}

void rt_mem_answer_calls(struct rt_mem_node *node) {
    for (struct rt_mem_side *call = memnet_first_call(node); call; call = call->before)
        if (!rt_mem_is_parted(call))
            rt_mem_plan(call, &call->opening, node->net->now);
}

void rt_mem_hand_calls(struct rt_mem_node *from, struct rt_mem_node *to) {
    for (struct rt_mem_side *call; (call = memnet_first_call(from));) {
        memnet_enlist(call, NULL);
        call->node = to;
        call->link.endpoint = &to->endpoint;
        memnet_enlist(call, &to->calls);
    }
}

void rt_mem_happen(struct rt_mem_item *item) {
    struct rt_mem_side *side = item->owner;
    switch (item->kind) {
    case RT_MEM_LEAVE:
        rt_mem_leave(side);
        rt_mem_transmit(side);
        break;
    case RT_MEM_ARRIVE:
        rt_mem_arrive(side, &side->channels[item->channel]);
        break;
    case RT_MEM_OPEN:
        if (rt_mem_is_unknown(side)) {
            memnet_answer(side);
            break;
        }
        side->state = RT_MEM_LIVE;
        side->opened = rt_mem_net_of(side)->now;
        rt_mem_unplan(side, &side->giving_up);
        if (side->peer && side->peer->node->paused)
            rt_mem_hush(side, side->opened);
        rt_mem_push(side->node, RT_EVENT_CONNECTED, side, NULL);
        rt_mem_transmit(side);
        break;
    case RT_MEM_CLOSE: {
        struct rt_error why = side->why;
        rt_mem_die(side, "%s", why.text);
        break;
    }
    case RT_MEM_GIVE_UP:
        if (side->peer && side->peer->state == RT_MEM_CALLING && side->peer->node->paused)
            rt_mem_die(side, "took the connection but said nothing for %.3g seconds",
                       rt_mem_net_of(side)->silence.most);
        else if (side->peer && side->peer->state == RT_MEM_CALLING)
            rt_mem_die(side, "nothing is listening there");
        else
            rt_mem_die(side, "did not answer in time");
        rt_mem_tell(side, "gave up connecting");
        break;
    case RT_MEM_SILENCE:
        rt_mem_silent(side);
        break;
    case RT_MEM_RESUME:
        rt_mem_resume(side);
        break;
    default: /* happens to a node, or is a fault */
        break;
    }
}
