/*
 * From the network thread to the owner. A link with events is in the endpoint's list of ready links; the
 * owner takes one event from the first link, which goes to the end of the list if it has more. The events
 * are kept in the sends and receives themselves, so nothing is allocated.
 *
 * On one link a completed send comes before a received frame: so the answer to a message never arrives
 * before the message's own completion. Closed comes last.
 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include <string.h>
#include <time.h>

static void tcp_make_ready(struct rt_tcp_link *link) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    if (link->ready)
        return;
    link->ready = true;
    link->next_ready = NULL;
    if (tcp->last_ready)
        tcp->last_ready->next_ready = link;
    else
        tcp->first_ready = link;
    tcp->last_ready = link;
}

void rt_tcp_look_for_stall(struct rt_tcp *tcp) {
    const double now = rt_clock_boot(), late = tcp->awake_by > 0 ? now - tcp->awake_by : 0;
    if (late > tcp->silence.heartbeat)
        rt_endpoint_excuse(&tcp->base, late);
    if (late > rt_silence_stall(tcp->shortest_bound, &tcp->silence)) {
        tcp->stalled = true;
        rt_endpoint_stall(&tcp->base, late);
    }
    tcp->awake_by = now;
}

/* The thread's own work since the last round is not time in which the program did not run. Reading the CPU
 * clock is a system call, so it is read now and then; less work than that between two rounds does not
 * matter. */
void rt_tcp_round_by_owner(struct rt_tcp *tcp, double until) {
    static const double now_and_then = 0.01;
    const double now = rt_clock_boot();
    if (now > tcp->owner_cpu_at + now_and_then) {
        const double cpu = rt_clock_thread();
        if (tcp->awake_by > 0)
            tcp->awake_by += cpu - tcp->owner_cpu;
        tcp->owner_cpu = cpu;
        tcp->owner_cpu_at = now;
    }
    rt_tcp_round(tcp, until);
}

static struct rt_tcp *tcp_begin_events(struct rt_tcp_link *link) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    rt_tcp_look_for_stall(tcp);
    uint64_t sent = link->closed_sent, received = link->closed_received;
    for (int i = 0; i < RT_LANES; i++)
        if (link->lanes[i]) {
            sent += link->lanes[i]->stream.sent;
            received += link->lanes[i]->stream.received;
        }
    pthread_mutex_lock(&tcp->mutex);
    link->wire_sent = sent;
    link->wire_received = received;
    if (!link->pushed_out)
        tcp_make_ready(link);
    return tcp;
}

static void tcp_end_events(struct rt_tcp *tcp) {
    pthread_cond_signal(&tcp->changed);
    pthread_mutex_unlock(&tcp->mutex);
}

void rt_tcp_tell_open(struct rt_tcp_link *link, enum rt_event_kind kind) {
    struct rt_tcp *tcp = tcp_begin_events(link);
    link->tell_open = true;
    link->open_kind = kind;
    tcp_end_events(tcp);
}

void rt_tcp_tell_sent(struct rt_tcp_link *link, struct rt_send *send) {
    struct rt_tcp *tcp = tcp_begin_events(link);
    rt_send_push(&link->done_sends, send);
    tcp_end_events(tcp);
}

void rt_tcp_tell_received(struct rt_tcp_link *link, struct rt_receive *receive) {
    struct rt_tcp *tcp = tcp_begin_events(link);
    rt_receive_push(&link->done_receives, receive);
    tcp_end_events(tcp);
}

void rt_tcp_tell_closed(struct rt_tcp_link *link, const struct rt_error *reason) {
    struct rt_tcp *tcp = tcp_begin_events(link);
    link->tell_closed = true;
    link->over = true;
    rt_link_count(&link->base, NULL);
    link->reason = *reason;
    memset(&link->posted_sends, 0, sizeof link->posted_sends);
    memset(&link->posted_receives, 0, sizeof link->posted_receives);
    tcp_end_events(tcp);
}

void rt_tcp_tell_refused(struct rt_tcp *tcp, const struct rt_error *reason) {
    pthread_mutex_lock(&tcp->mutex);
    if (tcp->refusal_count < RT_REFUSALS_KEPT) {
        size_t slot = (tcp->first_refusal + tcp->refusal_count++) % RT_REFUSALS_KEPT;
        tcp->refusals[slot] = *reason;
    }
    tcp_end_events(tcp);
}

void rt_tcp_untell(struct rt_tcp_link *link) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    if (!link->ready)
        return;
    struct rt_tcp_link **at = &tcp->first_ready, *before = NULL;
    while (*at != link) {
        before = *at;
        at = &before->next_ready;
    }
    *at = link->next_ready;
    if (tcp->last_ready == link)
        tcp->last_ready = before;
    link->ready = false;
}

static void tcp_take_sent(struct rt_tcp_link *link, struct rt_event *event) {
    struct rt_send *send = rt_send_pop(&link->done_sends);
    struct rt_link_counts *counts = &link->base.counts;
    counts->frames_sent[send->channel]++;
    counts->bytes_sent[send->channel] += send->head_bytes + rt_send_body(send);
    event->kind = RT_EVENT_SENT;
    event->send = send;
}

static void tcp_take_received(struct rt_tcp_link *link, struct rt_event *event) {
    struct rt_receive *receive = rt_receive_pop(&link->done_receives);
    struct rt_link_counts *counts = &link->base.counts;
    counts->frames_received[receive->channel]++;
    counts->bytes_received[receive->channel] += receive->head_bytes + receive->body_bytes;
    event->kind = RT_EVENT_RECEIVED;
    event->receive = receive;
}

/* With the mutex held: the next event, if there is one. */
static bool tcp_take_event(struct rt_tcp *tcp, struct rt_event *event) {
    *event = (struct rt_event){.kind = RT_EVENT_WOKEN};
    if (tcp->woken) {
        tcp->woken = false;
        return true;
    }
    struct rt_tcp_link *link = tcp->first_ready;
    if (link) {
        rt_tcp_untell(link);
        event->link = &link->base;
        link->base.counts.wire_sent = link->wire_sent;
        link->base.counts.wire_received = link->wire_received;
        if (link->tell_open) {
            link->tell_open = false;
            event->kind = link->open_kind;
        } else if (link->done_sends.first) {
            tcp_take_sent(link, event);
        } else if (link->done_receives.first) {
            tcp_take_received(link, event);
        } else {
            link->tell_closed = false;
            event->kind = RT_EVENT_CLOSED;
            event->error = link->reason;
        }
        if (link->done_sends.first || link->done_receives.first || link->tell_closed)
            tcp_make_ready(link);
        return true;
    }
    if (tcp->refusal_count > 0) {
        event->kind = RT_EVENT_REFUSED;
        event->error = tcp->refusals[tcp->first_refusal];
        tcp->first_refusal = (tcp->first_refusal + 1) % RT_REFUSALS_KEPT;
        tcp->refusal_count--;
        return true;
    }
    return false;
}

bool rt_tcp_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    pthread_mutex_lock(&tcp->mutex);
    bool found, looked = !tcp->attended;
    while (!(found = tcp_take_event(tcp, event))) {
        double now = rt_clock_wall();
        if (until <= now && looked)
            break;
        if (tcp->attended) {
            pthread_mutex_unlock(&tcp->mutex);
            rt_tcp_round_by_owner(tcp, until);
            pthread_mutex_lock(&tcp->mutex);
            looked = true;
            continue;
        }
        double end = until < now + 3600 ? until : now + 3600; /* also when it is infinite */
        struct timespec time = {(time_t)end, (long)((end - (double)(time_t)end) * 1e9)};
        pthread_cond_timedwait(&tcp->changed, &tcp->mutex, &time);
    }
    pthread_mutex_unlock(&tcp->mutex);
    return found;
}
