/* The calls of transport.h: each goes to the transport behind the endpoint. */
#include "net/transport.h"

#include <math.h>
#include <string.h>

/* For so long after a stall of this program a link that closes may be its own fault. */
#define STALL_SECONDS 3

void rt_endpoint_destroy(struct rt_endpoint *endpoint) {
    if (endpoint)
        endpoint->transport->destroy(endpoint);
}

rt_status rt_endpoint_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err) {
    return endpoint->transport->listen(endpoint, address, err);
}

rt_status rt_endpoint_connect(struct rt_endpoint *endpoint, const char *address, double until,
                              struct rt_link **link, struct rt_error *err) {
    return rt_endpoint_call(endpoint, address, until, until, link, err);
}

rt_status rt_endpoint_call(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                           struct rt_link **link, struct rt_error *err) {
    return endpoint->transport->connect(endpoint, address, refused, until, link, err);
}

void rt_link_count(struct rt_link *link, atomic_int *alive) {
    if (!link)
        return;
    if (alive)
        atomic_fetch_add(alive, 1);
    atomic_int *before = atomic_exchange(&link->counted, alive);
    if (before)
        atomic_fetch_sub(before, 1);
}

void rt_link_close(struct rt_link *link) {
    rt_link_count(link, NULL);
    if (link)
        link->endpoint->transport->close(link);
}

void rt_link_send(struct rt_link *link, struct rt_send *send) {
    link->endpoint->transport->send(link, send);
}

void rt_link_receive(struct rt_link *link, struct rt_receive *receive) {
    link->endpoint->transport->receive(link, receive);
}

bool rt_endpoint_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    return endpoint->transport->wait(endpoint, until, event);
}

void rt_endpoint_wake(struct rt_endpoint *endpoint) {
    endpoint->transport->wake(endpoint);
}

void rt_endpoint_attend(struct rt_endpoint *endpoint, bool attends) {
    if (endpoint->transport->attend)
        endpoint->transport->attend(endpoint, attends);
}

double rt_endpoint_now(struct rt_endpoint *endpoint) {
    return endpoint->transport->now(endpoint);
}

void rt_endpoint_sleep(struct rt_endpoint *endpoint, double until) {
    endpoint->transport->sleep(endpoint, until);
}

/* Milliseconds of the endpoint's time, plus 1, above 16 bits of the note; 0: no step was taken yet. */
static uint64_t transport_step_stamp(struct rt_endpoint *endpoint) {
    return (uint64_t)(rt_endpoint_now(endpoint) * 1e3) + 1;
}

void rt_endpoint_step(struct rt_endpoint *endpoint, uint16_t note) {
    atomic_store_explicit(&endpoint->step, transport_step_stamp(endpoint) << 16 | note, memory_order_relaxed);
}

void rt_endpoint_excuse(struct rt_endpoint *endpoint, double seconds) {
    const uint64_t now = transport_step_stamp(endpoint);
    uint64_t step = atomic_load_explicit(&endpoint->step, memory_order_relaxed);
    const uint64_t later = (step >> 16) + (uint64_t)(seconds * 1e3);
    /* If the owner has taken a step since, there is nothing to excuse. */
    if (step != 0)
        atomic_compare_exchange_strong(&endpoint->step, &step,
                                       (later < now ? later : now) << 16 | (step & 0xffff));
}

void rt_endpoint_stall(struct rt_endpoint *endpoint, double seconds) {
    atomic_store(&endpoint->stall_length, (uint64_t)(seconds * 1e3));
    atomic_store(&endpoint->stall_found, transport_step_stamp(endpoint));
}

void rt_endpoint_set_silence(struct rt_endpoint *endpoint, double most, double least) {
    atomic_store(&endpoint->silence, (uint64_t)(most * 1e3) << 32 | (uint64_t)(least * 1e3));
}

struct rt_heartbeat rt_endpoint_heartbeat(const struct rt_endpoint *endpoint, double now) {
    const uint64_t step = atomic_load_explicit(&endpoint->step, memory_order_relaxed);
    const double age = now - (double)((step >> 16) - 1) * 1e-3;
    return (struct rt_heartbeat){
        .known = true, .note = (uint16_t)(step & 0xffff), .age = step == 0 ? (double)INFINITY : fmax(age, 0)};
}

struct rt_heartbeat rt_link_heartbeat(const struct rt_link *link) {
    return link->endpoint->transport->heartbeat(link);
}

double rt_endpoint_stalled(struct rt_endpoint *endpoint) {
    const double found = (double)atomic_load(&endpoint->stall_found) * 1e-3;
    return found > 0 && rt_endpoint_now(endpoint) - found < STALL_SECONDS
               ? (double)atomic_load(&endpoint->stall_length) * 1e-3
               : 0;
}
