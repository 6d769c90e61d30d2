/*
 * The transport over TCP against peers that break the rules: here they are plain sockets. Whatever they do
 * costs them their link, or keeps them from having one, with a sentence, and disturbs nobody else.
 */
/* labels: threads */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "raw_peer.h"
#include <pthread.h>
#include <sys/wait.h>

enum { HALF_OPEN = 64 };

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

/* The endpoint still makes links, and this one carries a frame. */
static void check_still_serves(struct rt_endpoint *endpoint) {
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
}

TEST(bytes_that_are_no_frames_close_the_link) {
    uint8_t bytes[RT_FRAME_BYTES] = {1, 1, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
    check_breaks_link(false, bytes, sizeof bytes, "body of 2147483647 bytes; at most 1073741824 are allowed");
    bytes[0] = 9;
    rt_put_le32(bytes + 8, rt_crc32c(0, bytes, 8));
    check_breaks_link(true, bytes, sizeof bytes, "unknown kind 9");
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

/* ---- before there is a link ---- */

static void check_turned_away(struct rt_tcp_settings settings, const void *bytes, size_t count,
                              const char *sentence) {
    struct rt_endpoint *endpoint = listen_at_loopback(settings);
    int fd = raw_connect(endpoint);
    raw_send(fd, bytes, count);
    REQUIRE(expect(endpoint, RT_EVENT_REFUSED));
    CHECK(event.link == NULL && says("127.0.0.1:") && says(sentence));
    if (settings.silence_seconds == 0) /* the hasty ones are too hasty for a busy machine */
        check_still_serves(endpoint);
    close(fd);
    rt_endpoint_destroy(endpoint);
}

TEST(who_does_not_greet_properly_is_turned_away) {
    struct rt_tcp_settings patient = {0};
    uint8_t bytes[RT_PREAMBLE_BYTES];
    struct rt_preamble preamble = {.version = RT_LINK_VERSION, .kind = RT_PREAMBLE_CONTROL};
    check_turned_away(patient, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, "is not RingTMP");
    /* less than a greeting, but enough to see that it is none */
    check_turned_away(patient, "GET / HTTP/1.1\r\n\r\n", 18, "is not RingTMP");
    check_turned_away(patient, "RTL?", 4, "is not RingTMP");
    check_turned_away(patient, "?", 1, "is not RingTMP");
    check_turned_away(hasty, "RTLK", 4, "connected but did not identify itself for 0.4 seconds");
    check_turned_away(hasty, "", 0, "connected but did not identify itself for 0.4 seconds");
    check_turned_away(hasty, "RT", 2, "connected but did not identify itself for 0.4 seconds");
    check_turned_away(patient, "\x16\x03\x01", 3,
                      "one side uses encryption (a cluster key or certificates) and the other does not");
    rt_preamble_encode(&preamble, bytes);
    check_turned_away(hasty, bytes, sizeof bytes, "made only one of the two connections");
    bytes[10] ^= 1;
    check_turned_away(patient, bytes, sizeof bytes, "sent a damaged greeting");
    preamble = (struct rt_preamble){
        .version = RT_LINK_VERSION, .kind = RT_PREAMBLE_REFUSED, .refusal = RT_REFUSED_BUSY};
    rt_preamble_encode(&preamble, bytes);
    check_turned_away(patient, bytes, sizeof bytes, "sent a damaged greeting");
    preamble.version = 77;
    rt_preamble_encode(&preamble, bytes);
    check_turned_away(patient, bytes, sizeof bytes,
                      "uses version 77 of the link protocol, this program version 4");
}

TEST(who_is_not_in_the_cluster_is_turned_away) {
    static const uint8_t key[RT_KEY_BYTES] = {5};
    struct rt_tcp_settings patient = {.key = key}, short_of_time = hasty;
    short_of_time.key = key;
    uint8_t noise[300];
    fill_bytes(noise, sizeof noise, 9);
    noise[0] = 0x16; /* as TLS would begin */
    struct rt_endpoint *endpoint = listen_at_loopback(patient);
    for (int i = 0; i < 3; i++) {
        int fd = raw_connect(endpoint);
        raw_send(fd, i == 0 ? (const void *)"GET / HTTP/1.1\r\n\r\n" : noise, i == 0 ? 18 : sizeof noise);
        REQUIRE(expect(endpoint, RT_EVENT_REFUSED));
        CHECK(says("127.0.0.1:") && says("no encrypted connection: "));
        close(fd);
    }
    rt_endpoint_destroy(endpoint);
    endpoint = listen_at_loopback(short_of_time);
    int silent = raw_connect(endpoint), slow = raw_connect(endpoint);
    raw_send(slow, "\x16\x03\x01\x02\x00\x01", 6); /* the start of a greeting that never ends */
    for (int i = 0; i < 2; i++) {
        REQUIRE(expect(endpoint, RT_EVENT_REFUSED));
        CHECK(says("connected but did not identify itself for 0.4 seconds"));
    }
    close(silent);
    close(slow);
    rt_endpoint_destroy(endpoint);
}

TEST(the_same_connection_twice_is_turned_away) {
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    int first = raw_connect(endpoint), second = raw_connect(endpoint);
    uint8_t answer[RT_PREAMBLE_BYTES];
    raw_preamble(first, (struct rt_preamble){.kind = RT_PREAMBLE_DATA, .token = {3}});
    REQUIRE(raw_receive(first, answer, sizeof answer));
    raw_preamble(second, (struct rt_preamble){.kind = RT_PREAMBLE_DATA, .token = {3}});
    REQUIRE(expect(endpoint, RT_EVENT_REFUSED));
    CHECK(says("made the same connection of a link twice"));
    close(first);
    close(second);
    rt_endpoint_destroy(endpoint);
}

/* A busy owner takes no links: of too many that it has not been told of, the oldest is closed, so that the
 * last one is there when the owner looks. */
TEST(links_that_nobody_has_taken_keep_nobody_out) {
    enum { LINKS = 20, MOST = 4 };
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){.max_links = MOST});
    int fds[2 * LINKS];
    char last[80] = "", peer[80] = "";
    struct rt_link *links[LINKS];
    size_t taken = 0;
    for (uint8_t i = 0; i < LINKS; i++) {
        uint8_t answer[RT_PREAMBLE_BYTES];
        struct rt_preamble decoded = {0};
        for (int lane = 0; lane < 2; lane++) {
            int *fd = &fds[2 * i + lane];
            *fd = raw_connect(endpoint);
            raw_preamble(*fd, (struct rt_preamble){.kind = lane ? RT_PREAMBLE_DATA : RT_PREAMBLE_CONTROL,
                                                   .token = {i, 1}});
            REQUIRE(raw_receive(*fd, answer, sizeof answer));
            CHECK(rt_preamble_decode(answer, &decoded, NULL) == RT_OK);
            CHECK(decoded.kind != RT_PREAMBLE_REFUSED);
        }
        struct sockaddr_in own;
        socklen_t bytes = sizeof own;
        REQUIRE(getsockname(fds[2 * i], (struct sockaddr *)&own, &bytes) == 0);
        snprintf(last, sizeof last, "127.0.0.1:%u", ntohs(own.sin_port));
    }
    while (taken < LINKS && rt_endpoint_wait(endpoint, rt_clock_wall() + 0.3, &event)) {
        if (event.kind != RT_EVENT_ACCEPTED)
            continue;
        links[taken++] = event.link;
        snprintf(peer, sizeof peer, "%s", event.link->peer);
    }
    CHECK_MSG(taken == MOST, "%zu links", taken);
    CHECK_MSG(strcmp(peer, last) == 0, "%s, not %s", peer, last);
    for (size_t i = 0; i < taken; i++)
        rt_link_close(links[i]);
    for (size_t i = 0; i < 2 * LINKS; i++)
        close(fds[i]);
    rt_endpoint_destroy(endpoint);
}

/* By root, where there is another user. */
static bool can_be_another_user(void) {
    int status = 1;
    const pid_t child = fork();
    if (child == 0)
        _exit(geteuid() != 0 || setuid(65534) != 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

static void call_as_another_user(struct rt_endpoint *endpoint) {
    const pid_t child = fork();
    if (child == 0) {
        uint8_t answer[RT_PREAMBLE_BYTES];
        if (setuid(65534) != 0)
            _exit(1);
        int control = raw_connect(endpoint), data = raw_connect(endpoint);
        raw_preamble(control, (struct rt_preamble){.kind = RT_PREAMBLE_CONTROL, .token = {5}});
        raw_preamble(data, (struct rt_preamble){.kind = RT_PREAMBLE_DATA, .token = {5}});
        while (raw_receive(control, answer, sizeof answer) && raw_receive(data, answer, sizeof answer)) {
        }
        _exit(0);
    }
    REQUIRE(child > 0 && expect(endpoint, RT_EVENT_REFUSED));
    CHECK(says("belongs to another user of this machine"));
    rt_endpoint_destroy(endpoint);
    waitpid(child, NULL, 0);
}

TEST(only_our_own_user_where_that_is_wanted) {
    const struct rt_tcp_settings settings = {.own_user = true};
    struct raw_link raw;
    struct rt_endpoint *endpoint = listen_at_loopback(settings);
    REQUIRE(raw_join(endpoint, &raw));
    raw_leave(&raw);
    rt_endpoint_destroy(endpoint);
    if (can_be_another_user())
        call_as_another_user(listen_at_loopback(settings));
}

/* Silent connections beyond the limit push out the oldest silent one, not connections that speak. */
TEST(a_crowd_that_says_nothing_keeps_nobody_out) {
    enum { CROWD = HALF_OPEN + 20 };
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){0});
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = raw_connect(endpoint);
    struct pair pair = {.a = make_endpoint((struct rt_tcp_settings){0}), .b = endpoint};
    struct rt_error err;
    double before = rt_clock_wall();
    CHECK_OK(rt_endpoint_connect(pair.a, endpoint->address, before + PATIENCE, &pair.ab, &err));
    REQUIRE(expect(pair.a, RT_EVENT_CONNECTED));
    CHECK(rt_clock_wall() - before < 3);
    int refused = 0, accepted = 0;
    while (rt_endpoint_wait(endpoint, rt_clock_wall() + 0.1, &event)) {
        CHECK(event.kind == RT_EVENT_ACCEPTED || (event.kind == RT_EVENT_REFUSED && says("too many others")));
        accepted += event.kind == RT_EVENT_ACCEPTED;
        refused += event.kind == RT_EVENT_REFUSED;
    }
    CHECK(accepted == 1 && refused > 0);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    destroy_pair(&pair);
}

/* The next refusal within some seconds that says this; how many others it counts, -1: there is none. */
static int count_others(struct rt_endpoint *endpoint, const char *sentence, double seconds) {
    const double until = rt_clock_wall() + seconds;
    while (rt_endpoint_wait(endpoint, until, &event)) {
        int others = 0;
        const char *more = strstr(event.error.text, "; the same goes for ");
        if (event.kind != RT_EVENT_REFUSED || !strstr(event.error.text, sentence))
            continue;
        CHECK(says("127.0.0.1:"));
        if (more)
            CHECK(sscanf(more, "; the same goes for %d other", &others) == 1);
        return others;
    }
    return -1;
}

/* The owner is told of the first at once, and of later ones in one message per second. */
static void check_crowd(struct rt_endpoint *endpoint, const char *sentence, int count, double since) {
    int told = 0, sentences = 0;
    while (told < count) {
        const int others = count_others(endpoint, sentence, PATIENCE);
        CHECK_MSG(others >= 0, "%d of %d were told of", told, count);
        if (others < 0)
            return;
        CHECK(sentences > 0 || others == 0);
        told += 1 + others;
        sentences++;
    }
    CHECK(told == count);
    CHECK_MSG(sentences <= 2 + (int)(rt_clock_wall() - since), "%d sentences about %d", sentences, count);
}

TEST(a_crowd_is_told_of_in_few_sentences) {
    enum { CROWD = 200 };
    struct rt_endpoint *endpoint = listen_at_loopback((struct rt_tcp_settings){.silence_seconds = 3});
    const double since = rt_clock_wall();
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = raw_connect(endpoint);
    check_crowd(endpoint, "had not identified itself when too many others connected", CROWD - HALF_OPEN,
                since);
    check_crowd(endpoint, "did not identify itself for 3 seconds", HALF_OPEN, since);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    rt_endpoint_destroy(endpoint);
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
    check_answer_refused(bytes, sizeof bytes, "uses version 1 of the link protocol, this program version 4");
}

TEST_MAIN()
