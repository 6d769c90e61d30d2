/*
 * Emulates a slower network without the system's help: an endpoint sends data no faster than its
 * bandwidth, over all links together; it receives no faster either, and everything is delayed by the
 * latency. Heartbeats are neither counted nor delayed.
 *
 * Sending: bytes are given to the system in small pieces, each when the one before has left; links take
 * turns. Receiving: a frame is held back until its emulated arrival, counted from its first byte, so that
 * a transfer takes its time once and not twice, and several senders share the receiver's bandwidth.
 * Credits from the peer are held back in the same way. Nothing is lent: memory that is read directly
 * passes no network.
 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include <math.h>

/* Seconds of bytes that are written at once, and that are caught up when the thread woke up late. */
static const double portion = 5e-4, most_behind = 0.02;
enum { SMALLEST_PORTION = 1460 };

bool rt_tcp_is_shaped(const struct rt_tcp *tcp) {
    return tcp->shape.bandwidth > 0 || tcp->shape.latency > 0;
}

bool rt_shape_is_shut(const struct rt_tcp *tcp, enum rt_lane lane, double now) {
    return tcp->shape.bandwidth > 0 && lane == RT_LANE_DATA && now < tcp->shape.out_free;
}

static bool shape_is_counted(const struct rt_connection *connection) {
    return connection->tcp->shape.bandwidth > 0 && connection->lane == RT_LANE_DATA &&
           connection->state == RT_CONNECTION_OPEN;
}

size_t rt_shape_room(const struct rt_connection *connection) {
    struct rt_tcp_shape *shape = &connection->tcp->shape;
    if (!shape_is_counted(connection))
        return SIZE_MAX;
    const double now = rt_clock_wall();
    if (now < shape->out_free) {
        shape->pressed = true;
        return 0;
    }
    /* After a wait, time continues from when it should have ended: a thread that slept too long loses
     * nothing. */
    shape->out_free = shape->pressed ? fmax(shape->out_free, now - most_behind) : now;
    shape->pressed = false;
    return (size_t)fmax(SMALLEST_PORTION, shape->bandwidth * portion);
}

void rt_shape_wrote(struct rt_connection *connection, size_t bytes) {
    struct rt_tcp_shape *shape = &connection->tcp->shape;
    if (!shape_is_counted(connection))
        return;
    shape->out_free += (double)bytes / shape->bandwidth;
    shape->last = connection->link;
}

void rt_shape_received(struct rt_connection *connection, struct rt_receive *receive, double began) {
    struct rt_tcp_link *link = connection->link;
    struct rt_tcp_shape *shape = &connection->tcp->shape;
    if (!rt_tcp_is_shaped(connection->tcp)) {
        rt_tcp_tell_received(link, receive);
        return;
    }
    receive->at = rt_clock_wall();
    if (shape->bandwidth > 0 && connection->lane == RT_LANE_DATA) {
        const double bytes = (double)(RT_FRAME_BYTES + receive->head_bytes + receive->body_bytes);
        shape->in_free = fmax(shape->in_free, began) + bytes / shape->bandwidth;
        receive->at = fmax(receive->at, shape->in_free);
    }
    receive->at += shape->latency;
    rt_receive_push(&link->late.receives[connection->lane], receive);
}

/* A frame that does not fit into the queue is joined to the last: later than necessary, but never too
 * early. */
bool rt_shape_credit(struct rt_tcp_link *link, unsigned channel, uint32_t count) {
    const struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    struct rt_late_credits *late = &link->late.credits[channel];
    if (!(tcp->shape.latency > 0))
        return false;
    if (late->count < RT_LATE_CREDITS)
        late->entry[(late->first + late->count++) % RT_LATE_CREDITS] = (struct rt_late_credit){0};
    struct rt_late_credit *last = &late->entry[(late->first + late->count - 1) % RT_LATE_CREDITS];
    last->at = rt_clock_wall() + tcp->shape.latency;
    last->count += count;
    late->sum += count;
    return true;
}

uint32_t rt_shape_credits_coming(const struct rt_tcp_link *link, unsigned channel) {
    return link->late.credits[channel].sum;
}

double rt_shape_release(struct rt_tcp_link *link, double now) {
    double next = INFINITY;
    for (int lane = 0; lane < RT_LANES; lane++) {
        struct rt_receive_queue *queue = &link->late.receives[lane];
        while (queue->first && queue->first->at <= now)
            rt_tcp_tell_received(link, rt_receive_pop(queue));
        next = queue->first ? fmin(next, queue->first->at) : next;
    }
    for (unsigned channel = 0; channel < RT_CHANNELS; channel++) {
        struct rt_late_credits *late = &link->late.credits[channel];
        for (; late->count > 0 && late->entry[late->first].at <= now; late->count--) {
            const uint32_t count = late->entry[late->first].count;
            link->credits[channel] += count;
            late->sum -= count;
            late->first = (late->first + 1) % RT_LATE_CREDITS;
        }
        next = late->count > 0 ? fmin(next, late->entry[late->first].at) : next;
    }
    return next;
}

double rt_shape_next_write(const struct rt_tcp *tcp, double now) {
    return rt_shape_is_shut(tcp, RT_LANE_DATA, now) ? tcp->shape.out_free : (double)INFINITY;
}

void rt_shape_write_links(struct rt_tcp *tcp) {
    struct rt_tcp_link *first = tcp->links;
    for (struct rt_tcp_link *link = tcp->links; link && tcp->shape.last; link = link->next)
        if (link == tcp->shape.last && link->next)
            first = link->next;
    for (struct rt_tcp_link *link = first; link; link = link->next)
        rt_tcp_link_write(link);
    for (struct rt_tcp_link *link = tcp->links; link != first; link = link->next)
        rt_tcp_link_write(link);
}
