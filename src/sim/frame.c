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

double rt_mem_draw_travel(const struct rt_mem_side *side, double *bandwidth) {
    struct rt_memnet *net = rt_mem_net_of(side);
    const struct rt_memnet_settings *settings = &net->settings;
    double latency = settings->latency, random_delay = settings->random_delay;
    *bandwidth = settings->bandwidth;
    if (settings->shape)
        settings->shape(settings->user, side->node->index, side->to, net->now, &latency, bandwidth,
                        &random_delay);
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
        channel->last = receive->at = at > channel->last ? at : channel->last;
        bool alone = !channel->coming.first;
        memnet_add_receive(&channel->coming, receive);
        if (alone)
            rt_mem_plan(side->peer, &channel->arrival, receive->at);
    }
    rt_mem_push(side->node, RT_EVENT_SENT, side, send);
}

void rt_mem_transmit(struct rt_mem_side *side) {
    while (!side->leaving && side->state == RT_MEM_LIVE && rt_mem_is_alive(side->peer) &&
           !rt_mem_is_cut(side)) {
        unsigned c = 0;
        while (c < RT_CHANNELS && !(side->channels[c].waiting.first && side->peer->channels[c].posted.first))
            c++;
        if (c == RT_CHANNELS)
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
    memnet_add_receive(&side->channels[receive->channel].posted, receive);
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
