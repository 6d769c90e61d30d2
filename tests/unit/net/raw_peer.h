/* A peer that is a pair of plain sockets, for the tests of what the TCP transport does with what it sends. */
#ifndef RT_TEST_RAW_PEER_H
#define RT_TEST_RAW_PEER_H

#include "net/frame.h"
#include "tcp_rig.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rt_endpoint *listen_at_loopback(struct rt_tcp_settings settings) {
    struct rt_endpoint *endpoint = make_endpoint(settings);
    struct rt_error err = {0};
    if (endpoint && rt_endpoint_listen(endpoint, "127.0.0.1:0", &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return endpoint;
}

/* Another address of this machine: to the endpoint, a peer there is somewhere else. */
static const char *calls_from = "127.0.0.1";

static int raw_connect(const struct rt_endpoint *endpoint) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(endpoint))};
    struct sockaddr_in from = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, calls_from, &from.sin_addr) != 1 ||
        bind(fd, (struct sockaddr *)&from, sizeof from) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        rt_test_fail(__FILE__, __LINE__, "cannot connect");
    return fd;
}

static void raw_send(int fd, const void *bytes, size_t count) {
    if (send(fd, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
        rt_test_fail(__FILE__, __LINE__, "cannot send");
}

/* false: the other side closed first. */
static bool raw_receive(int fd, void *bytes, size_t count) {
    struct pollfd look = {.fd = fd, .events = POLLIN};
    for (size_t done = 0; done < count;) {
        ssize_t n =
            poll(&look, 1, (int)(PATIENCE * 1e3)) == 1 ? recv(fd, (char *)bytes + done, count - done, 0) : 0;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static void raw_preamble(int fd, struct rt_preamble preamble) {
    uint8_t bytes[RT_PREAMBLE_BYTES];
    preamble.version = preamble.version ? preamble.version : RT_LINK_VERSION;
    rt_preamble_encode(&preamble, bytes);
    raw_send(fd, bytes, sizeof bytes);
}

/* Sockets that look like a link to the endpoint, which accepts it. */
struct raw_link {
    int control, data;
    struct rt_link *link;
};

static bool raw_join(struct rt_endpoint *endpoint, struct raw_link *raw) {
    struct rt_preamble control = {.kind = RT_PREAMBLE_CONTROL, .token = {7}},
                       data = {.kind = RT_PREAMBLE_DATA, .token = {7}};
    uint8_t answer[RT_PREAMBLE_BYTES];
    raw->control = raw_connect(endpoint);
    raw_preamble(raw->control, control);
    raw->data = raw_connect(endpoint);
    raw_preamble(raw->data, data);
    bool answered =
        raw_receive(raw->control, answer, sizeof answer) && raw_receive(raw->data, answer, sizeof answer);
    if (!answered || !expect(endpoint, RT_EVENT_ACCEPTED))
        return false;
    raw->link = event.link;
    return true;
}

static void raw_leave(struct raw_link *raw) {
    close(raw->control);
    close(raw->data);
}

/* Until the endpoint's credit for a channel has come. */
static inline bool raw_await_credit(int control) {
    uint8_t bytes[RT_FRAME_BYTES];
    struct rt_frame frame = {0};
    while (frame.kind != RT_FRAME_CREDIT)
        if (!raw_receive(control, bytes, sizeof bytes) || rt_frame_decode(bytes, &frame, NULL) != RT_OK)
            return false;
    return true;
}

/* The endpoint still makes links, and this one carries a frame. */
static inline void check_still_serves(struct rt_endpoint *endpoint) {
    struct pair pair = {.a = make_endpoint((struct rt_tcp_settings){0}), .b = endpoint};
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "hello", NULL, 0);
    REQUIRE(join_pair(&pair));
    rt_link_receive(pair.ba, &receive);
    rt_link_send(pair.ab, &send);
    CHECK(expect(endpoint, RT_EVENT_RECEIVED));
    rt_link_close(pair.ba);
    rt_endpoint_destroy(pair.a);
}

#endif
