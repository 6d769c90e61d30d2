/*
 * Links of the network in memory. A frame begins to leave when its link is free, a receive is posted for it
 * at the other side, and no lower channel has one that could. When it has left it is copied into that
 * receive, which belongs to the net until the frame is said to have arrived: so frames on their way need no
 * memory but what was posted.
 */
#include "net/memory_net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"

enum { ITEMS = RT_CHANNELS + 4 }; /* of a side, on the agenda */

/* ---- lists of what is posted ---- */

static void add_send(struct rt_mem_sends *list, struct rt_send *send) {
    send->next = NULL;
    *(list->first ? &list->last->next : &list->first) = send;
    list->last = send;
}

static struct rt_send *take_send(struct rt_mem_sends *list) {
    struct rt_send *send = list->first;
    list->first = send->next;
    return send;
}

static void add_receive(struct rt_mem_receives *list, struct rt_receive *receive) {
    receive->next = NULL;
    *(list->first ? &list->last->next : &list->first) = receive;
    list->last = receive;
}

static struct rt_receive *take_receive(struct rt_mem_receives *list) {
    struct rt_receive *receive = list->first;
    list->first = receive->next;
    return receive;
}

/* ---- travelling ---- */

static struct rt_memnet *net_of(const struct rt_mem_side *side) {
    return side->place->net;
}

static void plan(struct rt_mem_side *side, struct rt_mem_item *item, double at) {
    rt_mem_agenda_add(&net_of(side)->agenda, item, at);
}

static void unplan(struct rt_mem_side *side, struct rt_mem_item *item) {
    rt_mem_agenda_remove(&net_of(side)->agenda, item);
}

static bool is_cut(const struct rt_mem_side *side) {
    const struct rt_memnet *net = net_of(side);
    return net->cut[side->place->index * net->count + side->to];
}

static bool is_alive(const struct rt_mem_side *side) {
    return side && (side->state == RT_MEM_LIVE || side->state == RT_MEM_CONNECTING);
}

/* How long something takes to the peer, after it has left, and the speed at which it leaves. */
static double draw_travel(const struct rt_mem_side *side, double *bandwidth) {
    struct rt_memnet *net = net_of(side);
    const struct rt_memnet_settings *settings = &net->settings;
    double latency = settings->latency, random_delay = settings->random_delay;
    *bandwidth = settings->bandwidth;
    if (settings->shape)
        settings->shape(settings->user, side->place->index, side->to, net->now, &latency, bandwidth,
                        &random_delay);
    if (random_delay > 0) {
        uint32_t words[4];
        rt_rng_block(settings->seed, RT_PURPOSE_DELAY, 0, net->drawn++, 0, words);
        latency += random_delay * (words[0] * 0x1p-32);
    }
    return latency;
}

static size_t body_bytes(const struct rt_send *send) {
    size_t bytes = 0;
    for (size_t i = 0; i < RT_PIECES; i++)
        bytes += send->body[i].bytes;
    return bytes;
}

static void fill(struct rt_receive *receive, const struct rt_send *send) {
    receive->head_bytes = send->head_bytes;
    memcpy(receive->head, send->head, send->head_bytes);
    receive->body_bytes = body_bytes(send);
    if (receive->body_bytes > receive->body_room)
        return; /* seen when it arrives */
    uint8_t *to = receive->body;
    for (size_t i = 0; i < RT_PIECES; i++)
        if (send->body[i].bytes) {
            memcpy(to, send->body[i].data, send->body[i].bytes);
            to += send->body[i].bytes;
        }
}

static void leave(struct rt_mem_side *side) {
    struct rt_send *send = side->leaving;
    struct rt_receive *receive = side->into;
    side->leaving = NULL;
    side->into = NULL;
    if (receive) {
        struct rt_mem_channel *channel = &side->peer->channels[send->channel];
        fill(receive, send);
        double at = net_of(side)->now + side->travel;
        channel->last = receive->at = at > channel->last ? at : channel->last;
        bool alone = !channel->coming.first;
        add_receive(&channel->coming, receive);
        if (alone)
            plan(side->peer, &channel->arrival, receive->at);
    }
    rt_mem_push(side->place, RT_EVENT_SENT, side, send);
}

/* Lets frames begin to leave while the link is free. */
static void transmit(struct rt_mem_side *side) {
    while (!side->leaving && side->state == RT_MEM_LIVE && is_alive(side->peer) && !is_cut(side)) {
        unsigned c = 0;
        while (c < RT_CHANNELS && !(side->channels[c].waiting.first && side->peer->channels[c].posted.first))
            c++;
        if (c == RT_CHANNELS)
            return;
        side->leaving = take_send(&side->channels[c].waiting);
        side->into = take_receive(&side->peer->channels[c].posted);
        double bandwidth;
        side->travel = draw_travel(side, &bandwidth);
        size_t bytes = side->leaving->head_bytes + body_bytes(side->leaving);
        if (bandwidth > 0 && bytes > 0)
            plan(side, &side->leave, net_of(side)->now + (double)bytes / bandwidth);
        else
            leave(side);
    }
}

void rt_mem_send(struct rt_link *link, struct rt_send *send) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (!is_alive(side))
        return;
    add_send(&side->channels[send->channel].waiting, send);
    transmit(side);
}

void rt_mem_receive(struct rt_link *link, struct rt_receive *receive) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (!is_alive(side))
        return;
    add_receive(&side->channels[receive->channel].posted, receive);
    if (side->peer)
        transmit(side->peer);
}

static void arrive(struct rt_mem_side *side, struct rt_mem_channel *channel) {
    struct rt_receive *receive = take_receive(&channel->coming);
    if (receive->body_bytes > receive->body_room) {
        rt_mem_tell(side, "closed the link: it had no room for a frame");
        rt_mem_die(side, "%s sent a body of %zu bytes on channel %u, where the room is %zu", side->link.peer,
                   receive->body_bytes, receive->channel, receive->body_room);
        return;
    }
    if (channel->coming.first)
        plan(side, &channel->arrival, channel->coming.first->at);
    rt_mem_push(side->place, RT_EVENT_RECEIVED, side, receive);
}

/* ---- the end of a link ---- */

/* Nothing travels to or from this side any more. */
static void halt(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        unplan(side, &side->channels[c].arrival);
        side->channels[c].coming.first = NULL;
    }
    unplan(side, &side->leave);
    unplan(side, &side->opening);
    unplan(side, &side->closing);
    side->leaving = NULL;
    side->into = NULL;
    if (side->peer)
        side->peer->into = NULL;
}

static void drop_posted(struct rt_mem_side *side) {
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        side->channels[c].waiting.first = NULL;
        side->channels[c].posted.first = NULL;
    }
    unplan(side, &side->giving_up);
}

void rt_mem_die(struct rt_mem_side *side, const char *format, ...) {
    va_list arguments;
    halt(side);
    drop_posted(side);
    side->state = RT_MEM_DEAD;
    side->why.status = RT_FAILED;
    va_start(arguments, format);
    vsnprintf(side->why.text, sizeof side->why.text, format, arguments);
    va_end(arguments);
    rt_mem_push(side->place, RT_EVENT_CLOSED, side, NULL);
}

static void free_side(struct rt_mem_side *side) {
    halt(side);
    drop_posted(side);
    if (side->state != RT_MEM_HIDDEN) {
        if (side->after)
            side->after->before = side->before;
        *(side->before ? &side->before->after : &side->place->sides) = side->after;
    }
    if (side->peer)
        side->peer->peer = NULL;
    rt_mem_agenda_release(&net_of(side)->agenda, ITEMS);
    free(side);
}

void rt_mem_tell(struct rt_mem_side *side, const char *what) {
    struct rt_mem_side *peer = side->peer;
    if (!peer || peer->state == RT_MEM_DEAD || is_cut(side))
        return;
    if (peer->state == RT_MEM_HIDDEN) {
        free_side(peer);
        return;
    }
    /* Behind all frames that have left, and behind the answer if the peer is still connecting. */
    double bandwidth, at = net_of(side)->now + draw_travel(side, &bandwidth);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        if (peer->channels[c].last > at)
            at = peer->channels[c].last;
    snprintf(peer->why.text, sizeof peer->why.text, "%s %s", peer->link.peer, what);
    plan(peer, &peer->closing, at);
}

void rt_mem_close(struct rt_link *link) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (is_alive(side))
        rt_mem_tell(side, "closed the link");
    if (side->peer && side->peer->state == RT_MEM_HIDDEN)
        free_side(side->peer); /* behind a cut */
    rt_mem_forget(side->place, side);
    free_side(side);
}

void rt_memnet_cut(struct rt_memnet *net, size_t a, size_t b) {
    if (a >= net->count || b >= net->count || a == b)
        return;
    net->cut[a * net->count + b] = net->cut[b * net->count + a] = true;
    double silence = net->settings.silence_seconds > 0 ? net->settings.silence_seconds : 5;
    const size_t ends[2] = {a, b};
    for (int end = 0; end < 2; end++)
        for (struct rt_mem_side *side = net->places[ends[end]].sides; side; side = side->after) {
            if (side->to != ends[!end] || !is_alive(side))
                continue;
            if (side->peer && side->peer->state == RT_MEM_HIDDEN)
                halt(side->peer); /* the request is lost */
            halt(side);
            if (side->state != RT_MEM_LIVE)
                continue; /* gives up when its time is over */
            snprintf(side->why.text, sizeof side->why.text, "%s has been silent for %g s", side->link.peer,
                     silence);
            plan(side, &side->closing, net->now + silence);
        }
}

/* ---- the beginning of a link ---- */

static rt_status make_side(struct rt_mem_place *place, size_t to, struct rt_mem_side **made,
                           struct rt_error *err) {
    struct rt_mem_side *side;
    rt_status status = rt_alloc(1, sizeof *side, "a link", &side, err);
    if (status != RT_OK)
        return status;
    status = rt_mem_agenda_promise(&place->net->agenda, ITEMS, err);
    if (status != RT_OK) {
        free(side);
        return status;
    }
    side->link.endpoint = &place->endpoint;
    snprintf(side->link.peer, sizeof side->link.peer, "mem:%zu", to);
    side->place = place;
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

static void show(struct rt_mem_side *side, enum rt_mem_state state) {
    side->state = state;
    side->after = side->place->sides;
    if (side->after)
        side->after->before = side;
    side->place->sides = side;
}

rt_status rt_mem_connect(struct rt_endpoint *endpoint, const char *address, double until,
                         struct rt_link **link, struct rt_error *err) {
    struct rt_mem_place *place = (struct rt_mem_place *)endpoint;
    struct rt_memnet *net = place->net;
    struct rt_mem_side *near, *far;
    char *end = NULL;
    bool named = strncmp(address, "mem:", 4) == 0 && address[4] >= '0' && address[4] <= '9';
    unsigned long to = named ? strtoul(address + 4, &end, 10) : 0;
    if (!named || *end || to >= net->count)
        return rt_fail(err, RT_BAD_INPUT, "%s: no endpoint of this network, which has mem:0 to mem:%zu",
                       address, net->count - 1);
    if (place->over)
        return rt_fail(err, RT_FAILED, "%s: this end of the network is dead", address);
    rt_status status = make_side(place, to, &near, err);
    if (status != RT_OK)
        return status;
    status = make_side(&net->places[to], place->index, &far, err);
    if (status != RT_OK) {
        free_side(near);
        return status;
    }
    near->peer = far;
    far->peer = near;
    show(near, RT_MEM_CONNECTING);
    if (until < INFINITY)
        plan(near, &near->giving_up, until > net->now ? until : net->now);
    if (!is_cut(near)) {
        double bandwidth;
        plan(far, &far->opening, net->now + draw_travel(near, &bandwidth));
    }
    *link = &near->link;
    return RT_OK;
}

/* The request is at the place it was for: let it in or refuse it. The answer travels back. */
static void answer(struct rt_mem_side *far) {
    struct rt_mem_side *near = far->peer;
    double bandwidth, at = net_of(far)->now + draw_travel(far, &bandwidth);
    if (!far->place->listening) {
        snprintf(near->why.text, sizeof near->why.text, "%s: nobody listens there", near->link.peer);
        plan(near, &near->closing, at);
        free_side(far);
        return;
    }
    show(far, RT_MEM_LIVE);
    rt_mem_push(far->place, RT_EVENT_ACCEPTED, far, NULL);
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        near->channels[c].last = at; /* frames come after the answer */
    plan(near, &near->opening, at);
}

void rt_mem_happen(struct rt_mem_item *item) {
    struct rt_mem_side *side = item->owner;
    switch (item->kind) {
    case RT_MEM_TIMER: /* happens to a place */
        break;
    case RT_MEM_LEAVE:
        leave(side);
        transmit(side);
        break;
    case RT_MEM_ARRIVE:
        arrive(side, &side->channels[item->channel]);
        break;
    case RT_MEM_OPEN:
        if (side->state == RT_MEM_HIDDEN) {
            answer(side);
            break;
        }
        side->state = RT_MEM_LIVE;
        unplan(side, &side->giving_up);
        rt_mem_push(side->place, RT_EVENT_CONNECTED, side, NULL);
        transmit(side);
        break;
    case RT_MEM_CLOSE: {
        struct rt_error why = side->why;
        rt_mem_die(side, "%s", why.text);
        break;
    }
    case RT_MEM_GIVE_UP:
        rt_mem_tell(side, "gave up connecting");
        rt_mem_die(side, "%s did not answer in time", side->link.peer);
        break;
    }
}
