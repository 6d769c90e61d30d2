/*
 * The transport over TCP against peers that break the rules: here they are plain sockets. Whatever they do
 * costs them their link, or keeps them from having one, with a sentence, and disturbs nobody else.
 */
/* labels: threads */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "raw_peer.h"
#include <pthread.h>

static struct rt_tcp_settings hasty = {.heartbeat_seconds = 0.05, .silence_seconds = 0.4};

/* The bytes of a data frame, as a well-behaved peer would send them; their number. */
static size_t make_any_frame(uint8_t *bytes, bool light, unsigned channel, const char *head,
                             const char *body) {
    struct rt_frame frame = {.kind = RT_FRAME_DATA,
                             .channel = channel,
                             .head_bytes = (uint32_t)strlen(head),
                             .body_bytes = (uint32_t)strlen(body),
                             .body = light ? RT_BODY_LIGHT : RT_BODY_SEALED};
    size_t n = RT_FRAME_BYTES;
    rt_frame_encode(&frame, bytes);
    memcpy(bytes + n, head, strlen(head));
    n += strlen(head);
    memcpy(bytes + n, body, strlen(body));
    const size_t summed = n + (light ? 0 : strlen(body));
    n += strlen(body);
    rt_put_le32(bytes + n, rt_crc32c(0, bytes, summed));
    return n + RT_FRAME_TAIL_BYTES;
}

static size_t make_frame(uint8_t *bytes, unsigned channel, const char *head, const char *body) {
    return make_any_frame(bytes, false, channel, head, body);
}

/* Sends these bytes on one of the connections of a link, on which FIRST has one receive of 8 bytes posted;
 * the link must close and say so. */
static void check_breaks_link(bool on_control, const uint8_t *bytes, size_t count, const char *sentence) {
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    struct raw_link raw, good;
    uint8_t body[8];
    REQUIRE(raw_join(endpoint, &good));
    REQUIRE(raw_join(endpoint, &raw));
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, body, sizeof body);
    rt_link_receive(raw.link, &receive);
    REQUIRE(raw_await_credit(raw.control));
    raw_send(on_control ? raw.control : raw.data, bytes, count);
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(event.link == raw.link && says(sentence));
    rt_link_close(raw.link);
    check_still_serves(endpoint);
    CHECK(is_quiet(endpoint, 0)); /* the other link lives */
    raw_leave(&raw);
    raw_leave(&good);
    rt_endpoint_destroy(endpoint);
}

static void check_raw_link(bool light) {
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    struct raw_link raw;
    uint8_t bytes[200], body[8];
    REQUIRE(raw_join(endpoint, &raw));
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, body, sizeof body);
    rt_link_receive(raw.link, &receive);
    REQUIRE(raw_await_credit(raw.control));
    size_t count = make_any_frame(bytes, light, RT_CHANNEL_FIRST, "head", "12345678");
    for (size_t i = 0; i < count; i++) /* however it is cut */
        raw_send(raw.data, bytes + i, 1);
    REQUIRE(expect(endpoint, RT_EVENT_RECEIVED));
    CHECK(receive.head_bytes == 4 && receive.body_bytes == 8 && memcmp(body, "12345678", 8) == 0);

    struct rt_send send = make_send(RT_CHANNEL_SECOND, "answer", "body", 4);
    rt_link_send(raw.link, &send);
    CHECK(is_quiet(endpoint, 0.03)); /* there is no credit */
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = RT_CHANNEL_SECOND, .count = 1},
                    bytes);
    raw_send(raw.control, bytes, RT_FRAME_BYTES);
    REQUIRE(expect(endpoint, RT_EVENT_SENT));
    uint8_t expected[200], got[200];
    count = make_any_frame(expected, light, RT_CHANNEL_SECOND, "answer", "body");
    REQUIRE(raw_receive(raw.data, got, count));
    CHECK(memcmp(got, expected, count) == 0);
    raw_leave(&raw);
    rt_endpoint_destroy(endpoint);
}

TEST(a_raw_link_that_keeps_the_rules_works) {
    check_raw_link(true);
    calls_from = "127.0.0.2";
    check_raw_link(false);
    calls_from = "127.0.0.1";
}

TEST(frames_against_the_rules_close_the_link) {
    uint8_t bytes[300];
    size_t count = make_frame(bytes, RT_CHANNEL_FIRST, "head", "12345678");
    bytes[count - 1] ^= 1;
    check_breaks_link(false, bytes, count, "sent a frame whose checksum does not match");
    bytes[count - 1] ^= 1;
    bytes[RT_FRAME_BYTES + 5] ^= 1;
    check_breaks_link(false, bytes, count, "sent a frame whose checksum does not match");
    count = make_any_frame(bytes, true, RT_CHANNEL_FIRST, "head", "12345678");
    bytes[RT_FRAME_BYTES + 1] ^= 1; /* in the head, which is always in the sum */
    check_breaks_link(false, bytes, count, "sent a frame whose checksum does not match");

    count = make_frame(bytes, RT_CHANNEL_FIRST, "head", "123456789");
    check_breaks_link(false, bytes, count, "sent 9 bytes on channel 1, where there is room for 8");
    count = make_frame(bytes, RT_CHANNEL_SECOND, "head", "1");
    check_breaks_link(false, bytes, count, "sent a frame on channel 2 that was not requested");
    count = make_frame(bytes, RT_CHANNEL_FIRST, "", "1");
    check_breaks_link(true, bytes, count, "wrong connection");

    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_PING}, bytes);
    check_breaks_link(false, bytes, RT_FRAME_BYTES, "wrong connection");
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_CREDIT, .count = RT_MAX_CREDIT}, bytes);
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_CREDIT, .count = 1}, bytes + RT_FRAME_BYTES);
    check_breaks_link(true, bytes, 2 * RT_FRAME_BYTES, "more than 1048576 frames");
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_ECHO, .count = 1000}, bytes);
    check_breaks_link(true, bytes, RT_FRAME_BYTES, "answered a heartbeat that was not sent");
}

TEST(bytes_that_are_no_frames_close_the_link) {
    uint8_t bytes[RT_FRAME_BYTES] = {1, 1, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
    check_breaks_link(false, bytes, sizeof bytes, "body of 2147483647 bytes; at most 1073741824 are allowed");
    bytes[0] = 10;
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
    check_breaks_link(true, bytes, sizeof bytes, "unknown kind 10");
    check_breaks_link(true, (const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, "sent bytes that are not a frame");
    uint8_t noise[300];
    fill_bytes(noise, sizeof noise, 5);
    check_breaks_link(false, noise, sizeof noise, "sent bytes that are not a frame");
}

TEST(more_frames_than_were_asked_for_close_the_link) {
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    struct raw_link raw;
    uint8_t bytes[200], body[8];
    REQUIRE(raw_join(endpoint, &raw));
    struct rt_receive receive = make_receive(RT_CHANNEL_BULK, body, sizeof body);
    rt_link_receive(raw.link, &receive);
    REQUIRE(raw_await_credit(raw.control));
    size_t count = make_frame(bytes, RT_CHANNEL_BULK, "", "1");
    memcpy(bytes + count, bytes, count);
    raw_send(raw.data, bytes, 2 * count);
    REQUIRE(expect(endpoint, RT_EVENT_RECEIVED) && expect(endpoint, RT_EVENT_CLOSED));
    CHECK(says("sent a frame on channel 3 that was not requested"));
    raw_leave(&raw);
    rt_endpoint_destroy(endpoint);
}

TEST(a_link_that_falls_silent_is_closed) {
    struct rt_endpoint *endpoint = listen_at_loopback(hasty);
    struct raw_link raw;
    REQUIRE(raw_join(endpoint, &raw));
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(says("has been silent for 0.4 seconds") && rt_clock_wall() - before < 3);
    raw_leave(&raw);
    rt_endpoint_destroy(endpoint);
}

static void *flood(void *socket) {
    static const uint8_t bytes[64 << 10];
    while (send(*(int *)socket, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {
    }
    return NULL;
}

/* A peer that reads slowly receives what was sent before the link was closed, although it is sending bytes
 * that are not read any more. */
TEST(the_last_words_arrive_at_a_slow_reader) {
    enum { WORDS = 60000, SMALL = 8 << 10, FLOOD = 512 << 20 };
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    struct raw_link raw;
    static uint8_t words[WORDS], heard[RT_FRAME_BYTES + WORDS];
    uint8_t start[RT_FRAME_BYTES], *drain = malloc(FLOOD);
    int small = SMALL;
    pthread_t thread;
    REQUIRE(drain && raw_join(endpoint, &raw));
    REQUIRE(setsockopt(raw.data, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    fill_bytes(words, sizeof words, 11);
    struct rt_receive receive = make_receive(RT_CHANNEL_BULK, drain, FLOOD);
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "", words, sizeof words);
    rt_link_receive(raw.link, &receive);
    REQUIRE(raw_await_credit(raw.control));
    rt_frame_encode(
        &(struct rt_frame){.kind = RT_FRAME_DATA, .channel = RT_CHANNEL_BULK, .body_bytes = FLOOD}, start);
    raw_send(raw.data, start, sizeof start);
    REQUIRE(pthread_create(&thread, NULL, flood, &raw.data) == 0);
    rt_frame_encode(&(struct rt_frame){.kind = RT_FRAME_CREDIT, .channel = RT_CHANNEL_FIRST, .count = 1},
                    start);
    raw_send(raw.control, start, sizeof start);
    rt_link_send(raw.link, &send);
    REQUIRE(expect(endpoint, RT_EVENT_SENT));
    rt_link_close(raw.link);
    CHECK(raw_receive(raw.data, heard, sizeof heard));
    CHECK(memcmp(heard + RT_FRAME_BYTES, words, sizeof words) == 0);
    rt_endpoint_destroy(endpoint);
    pthread_join(thread, NULL);
    raw_leave(&raw);
    free(drain);
}

/* One connection of two going is the end of the link, within a bounded time. */
TEST(half_a_link_is_no_link) {
    for (int side = 0; side < 2; side++) {
        struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
        struct raw_link raw;
        REQUIRE(raw_join(endpoint, &raw));
        close(side ? raw.control : raw.data);
        double before = rt_clock_wall();
        REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
        CHECK(rt_clock_wall() - before < 3 && says("closed the connection"));
        close(side ? raw.data : raw.control);
        rt_endpoint_destroy(endpoint);
    }
}

/* ---- peers that we connect to ---- */

/* Connects to a socket that takes the connection and says this. */
static void check_answer_refused(const void *bytes, size_t count, const char *sentence) {
    struct rt_endpoint *endpoint = make_endpoint(hasty);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    char address[40];
    struct rt_error err;
    struct rt_link *link;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    CHECK_OK(rt_endpoint_connect(endpoint, address, rt_clock_wall() + PATIENCE, &link, &err));
    int fd = accept(listener, NULL, NULL);
    raw_send(fd, bytes, count);
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(event.link == link && says(sentence) && rt_clock_wall() - before < 3);
    close(fd);
    close(listener);
    rt_endpoint_destroy(endpoint);
}

/* A peer that hangs up may be restarting: there is another attempt, until time is up. */
TEST(whoever_hangs_up_is_tried_again) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    char address[40];
    struct rt_error err;
    struct rt_link *link;
    int listener = socket(AF_INET, SOCK_STREAM, 0), attempts = 0;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    CHECK_OK(rt_endpoint_connect(endpoint, address, rt_clock_wall() + 0.5, &link, &err));
    struct pollfd look = {.fd = listener, .events = POLLIN};
    while (!rt_endpoint_wait(endpoint, 0, &event)) {
        if (poll(&look, 1, 20) == 1) {
            close(accept(listener, NULL, NULL));
            attempts++;
        }
    }
    CHECK(event.kind == RT_EVENT_CLOSED && attempts > 1);
    CHECK(says("before the link was made"));
    close(listener);
    rt_endpoint_destroy(endpoint);
}

TEST(whoever_answers_something_else_is_refused) {
    uint8_t bytes[RT_PREAMBLE_BYTES];
    struct rt_preamble preamble = {.version = RT_LINK_VERSION, .kind = RT_PREAMBLE_CONTROL, .token = {9}};
    check_answer_refused("220 mail.example.org ESMTP ready\r\n", 34, "is not RingTMP");
    check_answer_refused("220 ready\r\n", 11, "is not RingTMP");
    check_answer_refused("", 0, "took the connection but said nothing for 0.4 seconds");
    rt_preamble_encode(&preamble, bytes);
    check_answer_refused(bytes, sizeof bytes, "answered with the greeting of another connection");
    preamble.version = 1;
    rt_preamble_encode(&preamble, bytes);
    check_answer_refused(bytes, sizeof bytes, "uses version 1 of the link protocol, this program version 5");
}

TEST_MAIN()
