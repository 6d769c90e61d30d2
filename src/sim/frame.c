/*
 * Frames of the network in memory. A frame begins to leave when its link is free, a receive is posted for it
 * at the other side, and no higher-priority channel has a frame that could leave. When it has left it is
 * copied into that receive, which belongs to the net until the arrival: so frames in flight need no memory
 * but what was posted.
 */
#include "base/rng.h"
#include "sim/network_inside.h"
#include <string.h>

/* ---- lists of what is posted ---- */

static void memnet_add_send(struct rt_mem_sends *list, struct rt_send *send) {
    send->next = NULL;
    *(list->first ? &list->last->next : &list->first) = send;
    list->last = send;
}

static struct rt_send *memnet_take_send(struct rt_mem_sends *list) {
    struct rt_send *send = list->first;
    list->first = send->next;
    return send;
}

static void memnet_add_receive(struct rt_mem_receives *list, struct rt_receive *receive) {
    receive->next = NULL;
    *(list->first ? &list->last->next : &list->first) = receive;
    list->last = receive;
}

static struct rt_receive *memnet_take_receive(struct rt_mem_receives *list) {
    struct rt_receive *receive = list->first;
    list->first = receive->next;
    return receive;
}

/* ---- travelling ---- */

double rt_mem_latency(const struct rt_memnet *net, size_t from, size_t to, double at, double *bandwidth,
                      double *random_delay) {
    const struct rt_memnet_settings *settings = &net->settings;
    double latency = settings->latency;
    *random_delay = settings->random_delay;
    *bandwidth = settings->bandwidth;
    if (settings->shape)
        settings->shape(settings->user, from, to, at, &latency, bandwidth, random_delay);
    return latency;
}

double rt_mem_draw_travel(const struct rt_mem_side *side, double *bandwidth) {
    struct rt_memnet *net = rt_mem_net_of(side);
    const struct rt_memnet_settings *settings = &net->settings;
    double random_delay;
    double latency = rt_mem_latency(net, side->node->index, side->to, net->now, bandwidth, &random_delay);
    if (random_delay > 0) {
        uint32_t words[4];
        rt_rng_block(settings->seed, RT_PURPOSE_DELAY, 0, net->drawn++, 0, words);
        latency += random_delay * (words[0] * 0x1p-32);
    }
    return latency;
}

static void memnet_fill(struct rt_receive *receive, const struct rt_send *send) {
    receive->head_bytes = send->head_bytes;
    memcpy(receive->head, send->head, send->head_bytes);
    receive->body_bytes = rt_send_body(send);
    if (receive->body_bytes > receive->body_room)
        return; /* seen when it arrives */
    uint8_t *to = receive->body;
    for (size_t i = 0; i < RT_PIECES; i++)
        if (send->body[i].bytes) {
            memcpy(to, send->body[i].data, send->body[i].bytes);
            to += send->body[i].bytes;
        }
}

void rt_mem_leave(struct rt_mem_side *side) {
    struct rt_send *send = side->leaving;
    struct rt_receive *receive = side->into;
    side->leaving = NULL;
    side->into = NULL;
    if (receive) {
        struct rt_mem_channel *channel = &side->peer->channels[send->channel];
        memnet_fill(receive, send);
        double at = rt_mem_net_of(side)->now + side->travel;
        if (rt_mem_is_held(side))
            side->peer->held += receive->head_bytes + receive->body_bytes;
        channel->last = receive->at = at > channel->last ? at : channel->last;
        bool alone = !channel->coming.first;
        memnet_add_receive(&channel->coming, receive);
        if (alone && !rt_mem_is_deaf(side->peer))
            rt_mem_plan(side->peer, &channel->arrival, receive->at);
    }
    rt_mem_push(side->node, RT_EVENT_SENT, side, send);
}

/* What the other side does not read is taken by the systems of the two hosts, up to a certain amount. */
static bool memnet_has_room(const struct rt_mem_side *side, const struct rt_send *send) {
    return !rt_mem_is_held(side) || side->peer->held + send->head_bytes + rt_send_body(send) <= RT_MEM_WINDOW;
}

void rt_mem_transmit(struct rt_mem_side *side) {
    while (!side->leaving && side->state == RT_MEM_LIVE && rt_mem_is_alive(side->peer) &&
           !side->node->paused) {
        unsigned c = 0;
        while (c < RT_CHANNELS && !(side->channels[c].waiting.first && side->peer->channels[c].posted.first))
            c++;
        if (c == RT_CHANNELS || !memnet_has_room(side, side->channels[c].waiting.first))
            return;
        side->leaving = memnet_take_send(&side->channels[c].waiting);
        side->into = memnet_take_receive(&side->peer->channels[c].posted);
        double bandwidth;
        side->travel = rt_mem_draw_travel(side, &bandwidth);
        size_t bytes = side->leaving->head_bytes + rt_send_body(side->leaving);
        if (bandwidth > 0 && bytes > 0)
            rt_mem_plan(side, &side->leave, rt_mem_net_of(side)->now + (double)bytes / bandwidth);
        else
            rt_mem_leave(side);
    }
}

void rt_mem_send(struct rt_link *link, struct rt_send *send) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (!rt_mem_is_alive(side))
        return;
    memnet_add_send(&side->channels[send->channel].waiting, send);
    rt_mem_transmit(side);
}

void rt_mem_receive(struct rt_link *link, struct rt_receive *receive) {
    struct rt_mem_side *side = (struct rt_mem_side *)link;
    if (!rt_mem_is_alive(side))
        return;
    struct rt_mem_channel *channel = &side->channels[receive->channel];
    const bool heard = !side->peer || !rt_mem_is_deaf(side->peer);
    memnet_add_receive(heard ? &channel->posted : &channel->unheard, receive);
    if (side->peer && heard)
        rt_mem_transmit(side->peer);
}

/* Frames that were held up, and the peer's word of what it has posted. */
void rt_mem_release(struct rt_mem_side *side) {
    double bandwidth, random_delay;
    const struct rt_memnet *net = rt_mem_net_of(side);
    const double at =
        net->now + rt_mem_latency(net, side->to, side->node->index, net->now, &bandwidth, &random_delay);
    side->held = 0;
    for (unsigned c = 0; c < RT_CHANNELS; c++) {
        struct rt_mem_channel *channel = &side->channels[c];
        for (struct rt_receive *receive = channel->coming.first; receive; receive = receive->next)
            channel->last = receive->at = fmax(receive->at, at);
        if (channel->coming.first)
            rt_mem_plan(side, &channel->arrival, channel->coming.first->at);
        if (!side->peer)
            continue;
        struct rt_mem_channel *theirs = &side->peer->channels[c];
        while (theirs->unheard.first)
            memnet_add_receive(&theirs->posted, memnet_take_receive(&theirs->unheard));
    }
    rt_mem_transmit(side);
    if (side->peer)
        rt_mem_transmit(side->peer);
}

void rt_mem_arrive(struct rt_mem_side *side, struct rt_mem_channel *channel) {
    struct rt_receive *receive = memnet_take_receive(&channel->coming);
    if (receive->body_bytes > receive->body_room) {
        rt_mem_tell(side, "closed the link: it had no room for a frame");
        rt_mem_die(side, "sent a body of %zu bytes on channel %u, where the room is %zu", receive->body_bytes,
                   receive->channel, receive->body_room);
        return;
    }
    if (channel->coming.first)
        rt_mem_plan(side, &channel->arrival, channel->coming.first->at);
    rt_mem_push(side->node, RT_EVENT_RECEIVED, side, receive);
}
