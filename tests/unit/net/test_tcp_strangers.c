/*
 * The transport over TCP against connections that never become a link: strangers, silent ones, crowds of
 * them. They are refused with a message, and keep no others out.
 */
/* labels: threads */
#include "raw_peer.h"
#include <sys/wait.h>

enum { HALF_OPEN = 64 };

static struct rt_tcp_settings hasty = {.heartbeat_seconds = 0.05, .silence_seconds = 0.4};

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
                      "uses version 77 of the link protocol, this program version 5");
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

TEST_MAIN()
