/*
 * The rules of a link: which frame is next, how much may be sent, when the link is dead.
 *
 * Posted receives are credits: the number of receives newly posted on a channel is sent to the peer on the
 * control connection, and it may send that many frames. So a frame that arrives always has its
 * destination; a frame without a credit breaks the protocol.
 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How long after one connection has ended the other is still read. */
#define ENDING_SECONDS 1.0

rt_status rt_tcp_link_create(struct rt_tcp *tcp, const char *peer, struct rt_tcp_link **out,
                             struct rt_error *err) {
    struct rt_tcp_link *link;
    rt_status status = rt_alloc(1, sizeof *link, "a link", &link, err);
    if (status != RT_OK)
        return status;
    link->base.endpoint = &tcp->base;
    snprintf(link->base.peer, sizeof link->base.peer, "%s", peer);
    *out = link;
    return RT_OK;
}

void rt_tcp_link_take_posts(struct rt_tcp_link *link) {
    while (link->posted_sends.first) {
        struct rt_send *send = rt_send_pop(&link->posted_sends);
        rt_send_push(&link->sends[send->channel], send);
    }
    while (link->posted_receives.first) {
        struct rt_receive *receive = rt_receive_pop(&link->posted_receives);
        rt_receive_push(&link->receives[receive->channel], receive);
        link->to_grant[receive->channel]++;
    }
}

void rt_tcp_link_up(struct rt_tcp_link *link, enum rt_event_kind kind) {
    link->state = RT_LINK_UP;
    link->heard = rt_clock_wall();
    for (int i = 0; i < RT_LANES; i++) {
        link->lanes[i]->state = RT_CONNECTION_OPEN;
        rt_stream_connected(&link->lanes[i]->stream);
        link->lanes[i]->in.more = true; /* TLS may have read more than the preamble */
    }
    rt_cma_begin(link, kind == RT_EVENT_CONNECTED);
    rt_tcp_tell_open(link, kind);
}

/* ---- writing ---- */

static uint32_t link_credits_due(const struct rt_tcp_link *link, unsigned channel) {
    uint32_t room = RT_MAX_CREDIT - link->granted[channel];
    return link->to_grant[channel] < room ? link->to_grant[channel] : room;
}

/* A heartbeat goes out. One at a time is timed: answers come in order. */
static void link_time_ping(struct rt_tcp_link *link) {
    link->pings_sent++;
    if (link->timing)
        return;
    link->timing = true;
    link->timed = link->pings_sent;
    link->timed_at = rt_clock_wall();
}

/* Milliseconds by which our heartbeats may be late. */
static uint16_t link_lateness(const struct rt_tcp *tcp) {
    const double late = rt_silence_told(tcp->lateness, tcp->parked);
    return late * 1e3 < UINT16_MAX ? (uint16_t)(late * 1e3) : UINT16_MAX;
}

static rt_status link_take_echo(struct rt_tcp_link *link, const struct rt_frame *frame,
                                struct rt_error *err) {
    const uint32_t unanswered = link->pings_sent - link->echoed, answered = frame->count - link->echoed;
    if (answered == 0 || answered > unanswered)
        return rt_fail(err, RT_BAD_INPUT, "answered a heartbeat that was not sent");
    link->echoed = frame->count;
    link->silence.late = frame->late * 1e-3;
    if (link->timing && frame->count - link->timed <= unanswered) { /* that one or a later one */
        rt_silence_sample(&link->silence, rt_clock_wall() - link->timed_at);
        link->timing = false;
    }
    return RT_OK;
}

/* Returned loans, credits, the heartbeat and the answer to others, in one write. */
static size_t link_make_own_frames(struct rt_tcp_link *link, uint8_t *bytes) {
    size_t count = rt_cma_frames(link, RT_LANE_CONTROL, bytes);
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++) {
        uint32_t grant = link_credits_due(link, channel);
        if (grant == 0)
            continue;
        struct rt_frame frame = {.kind = RT_FRAME_CREDIT, .channel = channel, .count = grant};
        rt_frame_encode(&frame, bytes + count);
        count += RT_FRAME_BYTES;
        link->granted[channel] += grant;
        link->to_grant[channel] -= grant;
    }
    if (link->ping_due) {
        rt_tcp_look_for_stall((struct rt_tcp *)link->base.endpoint);
        const struct rt_heartbeat own = rt_endpoint_heartbeat(link->base.endpoint, rt_clock_wall());
        const uint32_t age = own.age * 1e3 < UINT32_MAX ? (uint32_t)(own.age * 1e3) : UINT32_MAX;
        rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_PING, .note = own.note, .age = age},
                        bytes + count);
        count += RT_FRAME_BYTES;
        link->ping_due = false;
        link_time_ping(link);
    }
    if (link->echo_due) {
        rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_ECHO,
                                           .late = link_lateness((struct rt_tcp *)link->base.endpoint),
                                           .count = link->pings_heard},
                        bytes + count);
        count += RT_FRAME_BYTES;
        link->echo_due = false;
    }
    return count;
}

/* The channel whose frame goes next on this connection; RT_CHANNELS: none can. */
static unsigned link_next_channel(const struct rt_tcp_link *link, enum rt_lane lane) {
    unsigned from = lane == RT_LANE_CONTROL ? RT_CHANNEL_CONTROL : RT_CHANNEL_FIRST;
    unsigned to = lane == RT_LANE_CONTROL ? RT_CHANNEL_FIRST : RT_CHANNELS;
    for (unsigned channel = from; channel < to; channel++) {
        const struct rt_send *send = link->sends[channel].first;
        if (send && link->credits[channel] > 0 && !(rt_cma_suits(link, send) && rt_cma_is_full(link)))
            return channel;
    }
    return RT_CHANNELS;
}

static bool link_has_own_frames(const struct rt_tcp_link *link) {
    bool any = link->ping_due || link->echo_due || rt_cma_has_frames(link, RT_LANE_CONTROL);
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++)
        any |= link_credits_due(link, channel) > 0;
    return any;
}

bool rt_tcp_link_has_output(const struct rt_tcp_link *link, enum rt_lane lane) {
    const struct rt_tcp_output *out = &link->lanes[lane]->out;
    return !out->blocked && !out->broken &&
           (out->total > 0 || link_next_channel(link, lane) < RT_CHANNELS ||
            (lane == RT_LANE_CONTROL && link_has_own_frames(link)));
}

/* How a body is sent: not at all, or without a checksum where the path cannot damage it unnoticed. */
static enum rt_frame_body link_body_kind(const struct rt_tcp_link *link, enum rt_lane lane,
                                         const struct rt_send *send) {
    const struct rt_stream *stream = &link->lanes[lane]->stream;
    return rt_cma_suits(link, send)           ? RT_BODY_LENT
           : stream->session || stream->local ? RT_BODY_LIGHT
                                              : RT_BODY_SEALED;
}

static bool link_begin_output(struct rt_tcp_link *link, enum rt_lane lane) {
    struct rt_tcp_output *out = &link->lanes[lane]->out;
    const unsigned channel = link_next_channel(link, lane);
    uint8_t bytes[RT_OWN_BYTES];
    size_t count = 0;
    if (lane == RT_LANE_CONTROL)
        count = link_make_own_frames(link, bytes);
    else if (channel < RT_CHANNELS)
        count = rt_cma_frames(link, lane, bytes);
    if (count > 0) {
        rt_tcp_output_begin_own(out, bytes, count);
        return true;
    }
    if (channel == RT_CHANNELS)
        return false;
    struct rt_send *send = rt_send_pop(&link->sends[channel]);
    link->credits[channel]--;
    rt_tcp_output_begin(out, send, link_body_kind(link, lane, send));
    return true;
}

static void link_write_lane(struct rt_tcp_link *link, enum rt_lane lane) {
    struct rt_connection *connection = link->lanes[lane];
    struct rt_tcp *tcp = connection->tcp;
    struct rt_tcp_output *out = &connection->out;
    size_t budget = RT_BUDGET;
    while (!out->blocked && !out->broken && budget > 0 && (out->total > 0 || link_begin_output(link, lane))) {
        struct rt_error ignored; /* reading says what happened, after what was sent before it */
        struct rt_send *send = out->send;
        enum rt_stream_result result = rt_tcp_output_write(connection, &budget, &ignored);
        if (result == RT_STREAM_OK && send)
            rt_cma_written(link, send, out->lent);
        out->broken = result == RT_STREAM_ENDED || result == RT_STREAM_FAILED;
        if (tcp->shape.pressed && lane == RT_LANE_DATA)
            break;
    }
}

void rt_tcp_link_write(struct rt_tcp_link *link) {
    for (enum rt_lane lane = 0; lane < RT_LANES && link->state == RT_LINK_UP; lane++)
        link_write_lane(link, lane);
}

/* ---- reading ---- */

static rt_status link_take_frame(struct rt_connection *connection, const struct rt_frame *frame,
                                 struct rt_receive **receive, struct rt_error *err) {
    struct rt_tcp_link *link = connection->link;
    unsigned channel = frame->channel;
    if ((channel == RT_CHANNEL_CONTROL) != (connection->lane == RT_LANE_CONTROL))
        return rt_fail(err, RT_BAD_INPUT, "sent a frame of channel %u on the wrong connection", channel);
    if (link->granted[channel] == 0)
        return rt_fail(err, RT_BAD_INPUT, "sent a frame on channel %u that was not requested", channel);
    if (frame->body == RT_BODY_LENT && !link->cma.borrows)
        return rt_fail(err, RT_BAD_INPUT, "offered memory without an agreement on cross-memory attach");
    struct rt_receive *first = link->receives[channel].first;
    if (frame->body_bytes > first->body_room)
        return rt_fail(err, RT_BAD_INPUT, "sent %lu bytes on channel %u, where there is room for %zu",
                       (unsigned long)frame->body_bytes, channel, first->body_room);
    link->granted[channel]--;
    *receive = rt_receive_pop(&link->receives[channel]);
    return RT_OK;
}

rt_status rt_tcp_link_frame(struct rt_connection *connection, const struct rt_frame *frame,
                            struct rt_receive **receive, struct rt_error *err) {
    struct rt_tcp_link *link = connection->link;
    if (frame->kind == RT_FRAME_DATA)
        return link_take_frame(connection, frame, receive, err);
    if (frame->kind == RT_FRAME_RETURN)
        return rt_cma_frame(link, frame, err);
    if (connection->lane != RT_LANE_CONTROL)
        return rt_fail(err, RT_BAD_INPUT, "sent a control frame on the wrong connection");
    if (frame->kind == RT_FRAME_AGREE)
        return rt_cma_frame(link, frame, err);
    if (frame->kind == RT_FRAME_OFFER)
        *receive = &link->cma.room;
    if (frame->kind == RT_FRAME_CREDIT) {
        const uint32_t credits =
            link->credits[frame->channel] + rt_shape_credits_coming(link, frame->channel);
        if (frame->count > RT_MAX_CREDIT - credits)
            return rt_fail(err, RT_BAD_INPUT, "asked for more than %d frames at once", RT_MAX_CREDIT);
        if (!rt_shape_credit(link, frame->channel, frame->count))
            link->credits[frame->channel] += frame->count;
    }
    if (frame->kind == RT_FRAME_PING) {
        atomic_store(&link->heartbeat, (uint64_t)1 << 48 | (uint64_t)frame->note << 32 | frame->age);
        atomic_store(&link->heartbeat_at, (uint64_t)(rt_clock_wall() * 1e3));
        link->pings_heard++;
        link->echo_due = true;
    }
    return frame->kind == RT_FRAME_ECHO ? link_take_echo(link, frame, err) : RT_OK;
}

struct rt_heartbeat rt_tcp_heartbeat(const struct rt_link *base) {
    const struct rt_tcp_link *link = (const struct rt_tcp_link *)base;
    const double came = (double)atomic_load(&link->heartbeat_at) * 1e-3;
    const uint64_t last = atomic_load(&link->heartbeat);
    const uint32_t age = (uint32_t)last;
    return (struct rt_heartbeat){.known = last != 0,
                                 .note = (uint16_t)(last >> 32),
                                 .age = age == UINT32_MAX ? (double)INFINITY : age * 1e-3,
                                 .ago = rt_clock_wall() - came};
}

static void link_begin_ending(struct rt_tcp_link *link, const struct rt_error *reason) {
    if (link->state == RT_LINK_ENDING)
        return;
    link->state = RT_LINK_ENDING;
    link->ending_until = rt_clock_wall() + ENDING_SECONDS;
    link->last = *reason;
}

static void link_end_lane(struct rt_tcp_link *link, enum rt_lane lane, const struct rt_error *reason) {
    link_begin_ending(link, reason);
    link->lanes[lane]->ended = true;
    if (link->lanes[RT_LANE_CONTROL]->ended && link->lanes[RT_LANE_DATA]->ended)
        rt_tcp_link_fail(link, &link->last);
}

void rt_tcp_link_lose(struct rt_tcp_link *link, unsigned channel, const struct rt_error *reason) {
    link->lost[channel] = true;
    link_begin_ending(link, reason);
}

void rt_tcp_link_read(struct rt_tcp_link *link, enum rt_lane lane) {
    struct rt_connection *connection = link->lanes[lane];
    struct rt_error err;
    uint64_t before = connection->stream.received;
    enum rt_stream_result result = rt_tcp_input_read(connection, &err);
    if (connection->stream.received != before)
        link->heard = rt_clock_wall();
    if (result == RT_STREAM_FAILED)
        rt_tcp_link_fail(link, &err);
    else if (result == RT_STREAM_ENDED)
        link_end_lane(link, lane, &err);
    else if (rt_cma_has_frames(link, RT_LANE_CONTROL)) /* an attending owner may be away for a while */
        rt_tcp_link_write(link);
}

/* ---- the end ---- */

void rt_tcp_link_drop_lanes(struct rt_tcp_link *link) {
    for (int i = 0; i < RT_LANES; i++)
        if (link->lanes[i]) {
            link->closed_sent += link->lanes[i]->stream.sent;
            link->closed_received += link->lanes[i]->stream.received;
            rt_connection_end(link->lanes[i]);
            link->lanes[i] = NULL;
        }
}

void rt_tcp_link_end(struct rt_tcp_link *link) {
    rt_cma_end(link);
    rt_tcp_link_drop_lanes(link);
    rt_resolve_release(link->resolve);
    link->resolve = NULL;
    memset(link->sends, 0, sizeof link->sends);
    memset(link->receives, 0, sizeof link->receives);
    memset(&link->late, 0, sizeof link->late);
    link->state = RT_LINK_DEAD;
}

void rt_tcp_link_fail(struct rt_tcp_link *link, const struct rt_error *reason) {
    struct rt_error kept = *reason; /* which may lie in the link */
    rt_shape_release(link, (double)INFINITY);
    rt_tcp_link_end(link);
    rt_tcp_tell_closed(link, &kept);
}

void rt_tcp_link_check(struct rt_tcp_link *link, double now) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    struct rt_error err;
    if (link->state == RT_LINK_ENDING && now >= link->ending_until) {
        rt_tcp_link_fail(link, &link->last);
        return;
    }
    /* Up to the last look at the sockets: what came since may lie there. */
    const double bound = rt_silence_bound(&link->silence, &tcp->silence);
    if (link->state == RT_LINK_UP && tcp->served - link->heard > bound) {
        (void)rt_silence_fail(bound, &err);
        rt_tcp_link_fail(link, &err);
    }
}
