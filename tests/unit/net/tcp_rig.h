/* Two endpoints over loopback in one program, and waiting for what they do; for the tests of the TCP
 * transport. */
#ifndef RT_TEST_TCP_RIG_H
#define RT_TEST_TCP_RIG_H

#include "base/clock.h"
#include "net/tcp.h"
#include "support/test.h"

#define PATIENCE 20.0 /* seconds, for what must happen; much, for slow and sanitized machines */

static struct rt_event event;

static inline struct rt_endpoint *make_endpoint(struct rt_tcp_settings settings) {
    struct rt_endpoint *endpoint = NULL;
    struct rt_error err = {0};
    if (rt_tcp_create(&settings, &endpoint, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return endpoint;
}

/* The next event, into `event`; whether it is of this kind. */
static inline bool expect(struct rt_endpoint *endpoint, enum rt_event_kind kind) {
    if (!rt_endpoint_wait(endpoint, rt_clock_wall() + PATIENCE, &event)) {
        rt_test_fail(__FILE__, __LINE__, "no event within %g seconds; expected kind %d", PATIENCE, kind);
        return false;
    }
    if (event.kind != kind)
        rt_test_fail(__FILE__, __LINE__, "event of kind %d (%s) instead of %d", event.kind, event.error.text,
                     kind);
    return event.kind == kind;
}

/* Skips events of other kinds. */
static inline bool await_kind(struct rt_endpoint *endpoint, enum rt_event_kind kind) {
    double until = rt_clock_wall() + PATIENCE;
    while (rt_endpoint_wait(endpoint, until, &event))
        if (event.kind == kind)
            return true;
    rt_test_fail(__FILE__, __LINE__, "no event of kind %d within %g seconds", kind, PATIENCE);
    return false;
}

/* Nothing happens at this endpoint for a while. */
static inline bool is_quiet(struct rt_endpoint *endpoint, double seconds) {
    return !rt_endpoint_wait(endpoint, rt_clock_wall() + seconds, &event);
}

static inline bool says(const char *text) {
    if (strstr(event.error.text, text))
        return true;
    rt_test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", event.error.text, text);
    return false;
}

struct pair {
    struct rt_endpoint *a, *b;
    struct rt_link *ab, *ba; /* a's end, b's end */
};

static inline bool join_pair(struct pair *pair) {
    struct rt_error err = {0};
    if (rt_endpoint_connect(pair->a, pair->b->address, rt_clock_wall() + PATIENCE, &pair->ab, &err) !=
        RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    if (!expect(pair->a, RT_EVENT_CONNECTED) || event.link != pair->ab || !expect(pair->b, RT_EVENT_ACCEPTED))
        return false;
    pair->ba = event.link;
    return true;
}

static inline bool make_pair(struct rt_tcp_settings settings, struct pair *pair) {
    struct rt_error err = {0};
    pair->a = make_endpoint(settings);
    pair->b = make_endpoint(settings);
    if (!pair->a || !pair->b)
        return false;
    if (rt_endpoint_listen(pair->b, "127.0.0.1:0", &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    return join_pair(pair);
}

static inline void destroy_pair(struct pair *pair) {
    rt_endpoint_destroy(pair->a);
    rt_endpoint_destroy(pair->b);
}

static inline struct rt_send make_send(unsigned channel, const char *head, const void *body, size_t bytes) {
    struct rt_send send = {.channel = channel, .head_bytes = strlen(head), .body = {{body, bytes}}};
    memcpy(send.head, head, send.head_bytes);
    return send;
}

static inline struct rt_receive make_receive(unsigned channel, void *body, size_t room) {
    return (struct rt_receive){.channel = channel, .body = body, .body_room = room};
}

static inline void fill_bytes(uint8_t *bytes, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

/* The address of the endpoint as a port. */
static inline int port_of(const struct rt_endpoint *endpoint) {
    return atoi(strrchr(endpoint->address, ':') + 1);
}

#endif
