/* The transport over TCP between well-behaved endpoints: frames, order, credit, overtaking, ends of links. */
/* labels: threads */
#include "support/port.h"
#include "tcp_rig.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TEST(a_frame_arrives_as_it_was_sent) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    CHECK(strcmp(pair.ab->peer, pair.b->address) == 0);
    CHECK(strncmp(pair.ba->peer, "127.0.0.1:", 10) == 0);
    char body[32] = {0};
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, body, sizeof body);
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "head", "first ", 6);
    send.body[1] = (struct rt_piece){"second", 6};
    rt_link_receive(pair.ba, &receive);
    rt_link_send(pair.ab, &send);
    REQUIRE(expect(pair.a, RT_EVENT_SENT));
    CHECK(event.send == &send && event.link == pair.ab);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(event.receive == &receive && event.link == pair.ba);
    CHECK(receive.head_bytes == 4 && memcmp(receive.head, "head", 4) == 0);
    CHECK(receive.body_bytes == 12 && memcmp(body, "first second", 12) == 0);
    const struct rt_link_counts *sent = &pair.ab->counts, *received = &pair.ba->counts;
    CHECK(sent->frames_sent[RT_CHANNEL_FIRST] == 1 && sent->bytes_sent[RT_CHANNEL_FIRST] == 16);
    CHECK(received->frames_received[RT_CHANNEL_FIRST] == 1);
    CHECK(received->bytes_received[RT_CHANNEL_FIRST] == 16);
    CHECK(sent->wire_sent >= 32 && sent->wire_sent < 300 && received->wire_received >= 32);
    destroy_pair(&pair);
}

TEST(frames_without_head_or_body_arrive) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    struct rt_receive receives[3];
    struct rt_send sends[3] = {make_send(RT_CHANNEL_CONTROL, "", NULL, 0),
                               make_send(RT_CHANNEL_CONTROL, "only a head", NULL, 0),
                               make_send(RT_CHANNEL_CONTROL, "", "only a body", 11)};
    char body[16];
    for (int i = 0; i < 3; i++) {
        receives[i] = make_receive(RT_CHANNEL_CONTROL, i == 2 ? body : NULL, i == 2 ? sizeof body : 0);
        rt_link_receive(pair.ba, &receives[i]);
        rt_link_send(pair.ab, &sends[i]);
    }
    for (int i = 0; i < 3; i++) {
        REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
        CHECK(event.receive == &receives[i]);
        CHECK(receives[i].head_bytes == sends[i].head_bytes &&
              receives[i].body_bytes == sends[i].body[0].bytes);
    }
    CHECK(memcmp(body, "only a body", 11) == 0);
    destroy_pair(&pair);
}

/* Both ways at once, several channels, many more frames than receives are posted at a time. */
TEST(each_channel_keeps_its_order) {
    enum { FRAMES = 400, POSTED = 4 };
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    static struct rt_send sends[2][RT_CHANNELS][FRAMES];
    static struct rt_receive receives[2][RT_CHANNELS][POSTED];
    static uint8_t bodies[2][RT_CHANNELS][POSTED][3000], source[3000 + FRAMES];
    int arrived[2][RT_CHANNELS] = {{0}};
    struct rt_link *links[2] = {pair.ab, pair.ba};
    fill_bytes(source, sizeof source, 1);
    for (int side = 0; side < 2; side++)
        for (unsigned channel = 0; channel < RT_CHANNELS; channel++) {
            for (int i = 0; i < POSTED; i++) {
                receives[side][channel][i] = make_receive(channel, bodies[side][channel][i], 3000);
                rt_link_receive(links[side], &receives[side][channel][i]);
            }
            for (int i = 0; i < FRAMES; i++) {
                char number[12];
                snprintf(number, sizeof number, "%d", i);
                struct rt_send *send = &sends[side][channel][i];
                *send = make_send(channel, number, source + i, (size_t)(i * 37 % 3000));
                rt_link_send(links[side], send);
            }
        }
    int left = 2 * RT_CHANNELS * FRAMES;
    double until = rt_clock_wall() + PATIENCE;
    while (left > 0 && rt_clock_wall() < until)
        for (int side = 0; side < 2; side++) {
            if (!rt_endpoint_wait(side ? pair.b : pair.a, rt_clock_wall() + 0.001, &event))
                continue;
            REQUIRE(event.kind == RT_EVENT_SENT || event.kind == RT_EVENT_RECEIVED);
            if (event.kind != RT_EVENT_RECEIVED)
                continue;
            struct rt_receive *receive = event.receive;
            unsigned channel = receive->channel;
            int i = arrived[side][channel]++;
            CHECK(receive == &receives[side][channel][i % POSTED]);
            receive->head[receive->head_bytes] = 0;
            CHECK(atoi((char *)receive->head) == i);
            CHECK(receive->body_bytes == (size_t)(i * 37 % 3000) &&
                  memcmp(receive->body, source + i, receive->body_bytes) == 0);
            rt_link_receive(event.link, receive);
            left--;
        }
    CHECK_MSG(left == 0, "%d frames did not arrive", left);
    destroy_pair(&pair);
}

TEST(a_stalled_channel_holds_up_nothing_else) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    struct rt_send stalled = make_send(RT_CHANNEL_FIRST, "stalled", NULL, 0);
    struct rt_send moving = make_send(RT_CHANNEL_BULK, "moving", NULL, 0);
    struct rt_receive first = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    struct rt_receive bulk = make_receive(RT_CHANNEL_BULK, NULL, 0);
    rt_link_send(pair.ab, &stalled); /* no receive is posted for it */
    rt_link_send(pair.ab, &moving);
    rt_link_receive(pair.ba, &bulk);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(event.receive == &bulk);
    REQUIRE(expect(pair.a, RT_EVENT_SENT));
    CHECK(event.send == &moving);
    CHECK(is_quiet(pair.a, 0.05) && is_quiet(pair.b, 0.05));
    rt_link_receive(pair.ba, &first);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(event.receive == &first);
    destroy_pair(&pair);
}

TEST(a_low_channel_overtakes_a_high_one) {
    enum { FRAMES = 64, BYTES = 1 << 20 };
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    static struct rt_send bulk[FRAMES];
    static struct rt_receive receives[FRAMES];
    uint8_t *source = calloc(1, BYTES), *body = malloc(BYTES);
    struct rt_receive first = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    struct rt_send urgent = make_send(RT_CHANNEL_FIRST, "urgent", NULL, 0);
    rt_link_receive(pair.ba, &first);
    for (int i = 0; i < FRAMES; i++) {
        receives[i] = make_receive(RT_CHANNEL_BULK, body, BYTES);
        rt_link_receive(pair.ba, &receives[i]);
        bulk[i] = make_send(RT_CHANNEL_BULK, "bulk", source, BYTES);
        rt_link_send(pair.ab, &bulk[i]);
    }
    REQUIRE(expect(pair.a, RT_EVENT_SENT)); /* they are under way */
    rt_link_send(pair.ab, &urgent);
    int before = 0, seen = 0, sent_before = 0, sent = 0;
    while (seen < FRAMES + 1) {
        REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
        seen++;
        if (event.receive == &first)
            before = seen - 1;
    }
    while (sent < FRAMES) {
        REQUIRE(expect(pair.a, RT_EVENT_SENT));
        sent++;
        if (event.send == &urgent)
            sent_before = sent;
    }
    CHECK_MSG(before < FRAMES / 2, "%d of %d frames came first", before, FRAMES);
    CHECK_MSG(sent_before < FRAMES / 2, "%d of %d frames were sent first", sent_before, FRAMES);
    destroy_pair(&pair);
    free(source);
    free(body);
}

TEST(a_large_body_is_exact) {
    const size_t bytes = (64 << 20) + 13;
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    uint8_t *source = malloc(bytes), *body = calloc(1, bytes);
    REQUIRE(source && body);
    fill_bytes(source, bytes, 7);
    struct rt_receive receive = make_receive(RT_CHANNEL_SECOND, body, bytes);
    struct rt_send send = make_send(RT_CHANNEL_SECOND, "large", source, bytes / 3);
    send.body[1] = (struct rt_piece){source + bytes / 3, bytes - bytes / 3};
    rt_link_send(pair.ab, &send);
    rt_link_receive(pair.ba, &receive);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(receive.body_bytes == bytes && memcmp(body, source, bytes) == 0);
    destroy_pair(&pair);
    free(source);
    free(body);
}

TEST(two_links_between_the_same_endpoints_are_apart) {
    struct pair pair, again;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    again = pair;
    REQUIRE(join_pair(&again));
    CHECK(again.ab != pair.ab && again.ba != pair.ba);
    struct rt_receive receive = make_receive(RT_CHANNEL_CONTROL, NULL, 0);
    struct rt_send send = make_send(RT_CHANNEL_CONTROL, "second", NULL, 0);
    rt_link_receive(again.ba, &receive);
    rt_link_close(pair.ab);
    REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
    CHECK(event.link == pair.ba && says("closed the connection"));
    rt_link_send(again.ab, &send);
    REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(event.link == again.ba);
    destroy_pair(&pair);
}

/* What was sent before a link was closed is heard, also when it was closed at once, on either connection. */
TEST(the_last_words_arrive) {
    for (int round = 0; round < 20; round++) {
        struct pair pair;
        REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
        static uint8_t source[300000], body[300000];
        fill_bytes(source, sizeof source, (uint32_t)round);
        struct rt_receive receives[2] = {make_receive(RT_CHANNEL_CONTROL, NULL, 0),
                                         make_receive(RT_CHANNEL_BULK, body, sizeof body)};
        struct rt_send sends[2] = {make_send(RT_CHANNEL_CONTROL, "goodbye", NULL, 0),
                                   make_send(RT_CHANNEL_BULK, "and this", source, sizeof source)};
        for (int i = 0; i < 2; i++) {
            rt_link_receive(pair.ba, &receives[i]);
            rt_link_send(pair.ab, &sends[i]);
        }
        REQUIRE(expect(pair.a, RT_EVENT_SENT) && expect(pair.a, RT_EVENT_SENT));
        if (round % 2)
            rt_link_close(pair.ab);
        else
            rt_endpoint_destroy(pair.a);
        REQUIRE(expect(pair.b, RT_EVENT_RECEIVED) && expect(pair.b, RT_EVENT_RECEIVED));
        CHECK(memcmp(source, body, sizeof body) == 0);
        REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
        CHECK(event.link == pair.ba);
        if (round % 2)
            rt_endpoint_destroy(pair.a);
        rt_endpoint_destroy(pair.b);
    }
}

/* The same while the other side is sending: its bytes, which are not read any more, must not make the system
 * drop ours. */
TEST(the_last_words_arrive_against_a_flood) {
    enum { FLOOD = 16 << 20, WORDS = 3 << 20 };
    uint8_t *flood = calloc(1, FLOOD), *drain = malloc(FLOOD), *words = malloc(WORDS),
            *heard = calloc(1, WORDS);
    REQUIRE(flood && drain && words && heard);
    fill_bytes(words, WORDS, 3);
    for (int round = 0; round < 10; round++) {
        struct pair pair;
        REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
        struct rt_receive into_a[4], into_b = make_receive(RT_CHANNEL_FIRST, heard, WORDS);
        struct rt_send from_b[4], from_a = make_send(RT_CHANNEL_FIRST, "goodbye", words, WORDS);
        for (int i = 0; i < 4; i++) {
            into_a[i] = make_receive(RT_CHANNEL_BULK, drain, FLOOD);
            from_b[i] = make_send(RT_CHANNEL_BULK, "", flood, FLOOD);
            rt_link_receive(pair.ab, &into_a[i]);
            rt_link_send(pair.ba, &from_b[i]);
        }
        rt_link_receive(pair.ba, &into_b);
        rt_link_send(pair.ab, &from_a);
        REQUIRE(await_kind(pair.a, RT_EVENT_SENT));
        rt_link_close(pair.ab);
        REQUIRE(await_kind(pair.b, RT_EVENT_RECEIVED));
        CHECK(memcmp(heard, words, WORDS) == 0);
        memset(heard, 0, WORDS);
        CHECK(await_kind(pair.b, RT_EVENT_CLOSED));
        destroy_pair(&pair);
    }
    free(flood);
    free(drain);
    free(words);
    free(heard);
}

/* After rt_link_close the memory is the owner's: freed at once, in the middle of a transfer, with events
 * waiting. The sanitizers watch. */
TEST(nothing_is_touched_after_close) {
    enum { BYTES = 4 << 20 };
    for (int round = 0; round < 10; round++) {
        struct pair pair;
        REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
        struct rt_send *sends = calloc(8, sizeof *sends);
        struct rt_receive *receives = calloc(8, sizeof *receives);
        uint8_t *source = calloc(1, BYTES), *body = malloc(BYTES);
        for (int i = 0; i < 8; i++) {
            receives[i] = make_receive(RT_CHANNEL_SECOND, body, BYTES);
            sends[i] = make_send(RT_CHANNEL_SECOND, "x", source, BYTES);
            rt_link_receive(pair.ba, &receives[i]);
            rt_link_send(pair.ab, &sends[i]);
        }
        REQUIRE(expect(pair.b, RT_EVENT_RECEIVED));
        struct rt_link *closer = round % 2 ? pair.ab : pair.ba;
        struct rt_endpoint *other = round % 2 ? pair.b : pair.a;
        double before = rt_clock_wall();
        rt_link_close(closer);
        CHECK(rt_clock_wall() - before < 1);
        if (round % 2) {
            memset(sends, 0xee, 8 * sizeof *sends);
            memset(source, 0xee, BYTES);
            CHECK(is_quiet(pair.a, 0.01));
        } else {
            memset(receives, 0xee, 8 * sizeof *receives);
            free(body);
            body = NULL;
            CHECK(is_quiet(pair.b, 0.01));
        }
        CHECK(await_kind(other, RT_EVENT_CLOSED));
        destroy_pair(&pair);
        free(sends);
        free(receives);
        free(source);
        free(body);
    }
}

/* A process that connects to the address it is told. It is made before there are threads: a program with some
 * cannot fork one that makes more. */
struct child {
    pid_t id;
    int pipe[2];
};

static bool start_child(struct rt_tcp_settings settings, struct child *child) {
    if (pipe(child->pipe) != 0 || (child->id = fork()) < 0)
        return false;
    if (child->id > 0)
        return true;
    char address[80];
    struct rt_link *link;
    ssize_t got = read(child->pipe[0], address, sizeof address);
    struct rt_endpoint *endpoint = make_endpoint(settings);
    if (got != sizeof address || !endpoint ||
        rt_endpoint_connect(endpoint, address, rt_clock_wall() + PATIENCE, &link, NULL) != RT_OK)
        _exit(1);
    while (rt_endpoint_wait(endpoint, rt_clock_wall() + 60, &event)) {
    }
    _exit(0);
}

static bool tell_child(struct child *child, const struct rt_endpoint *listener) {
    return write(child->pipe[1], listener->address, sizeof listener->address) == sizeof listener->address;
}

TEST(a_killed_peer_is_noticed_at_once) {
    struct child child;
    REQUIRE(start_child((struct rt_tcp_settings){0}, &child));
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "127.0.0.1:0", &err));
    REQUIRE(tell_child(&child, endpoint));
    REQUIRE(expect(endpoint, RT_EVENT_ACCEPTED));
    struct rt_link *link = event.link;
    kill(child.id, SIGKILL);
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(rt_clock_wall() - before < 1.5);
    CHECK(event.link == link && event.error.text[0]);
    waitpid(child.id, NULL, 0);
    rt_endpoint_destroy(endpoint);
}

TEST(a_stopped_peer_is_noticed_by_its_silence) {
    struct rt_tcp_settings settings = {.heartbeat_seconds = 0.05, .silence_seconds = 0.5};
    struct child child;
    REQUIRE(start_child(settings, &child));
    struct rt_endpoint *endpoint = make_endpoint(settings);
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "127.0.0.1:0", &err));
    REQUIRE(tell_child(&child, endpoint));
    REQUIRE(expect(endpoint, RT_EVENT_ACCEPTED));
    CHECK(is_quiet(endpoint, 1)); /* heartbeats keep it */
    kill(child.id, SIGSTOP);
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(rt_clock_wall() - before > 0.3 && rt_clock_wall() - before < 5);
    CHECK(says("has been silent for 0.5 seconds"));
    kill(child.id, SIGKILL);
    waitpid(child.id, NULL, 0);
    rt_endpoint_destroy(endpoint);
}

static void pass_time(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* As with Ctrl-Z and fg: a body is on its way and the sockets are full when neither network thread runs any
 * more, for longer than the silence after which a peer is given up. */
TEST(two_who_were_both_stopped_go_on) {
    enum { BYTES = 32 << 20 };
    const double silence = 1;
    struct pair pair;
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    REQUIRE(out && in);
    fill_bytes(out, BYTES, 7);
    REQUIRE(make_pair((struct rt_tcp_settings){.silence_seconds = silence, .cma = RT_LENDS_NOTHING}, &pair));
    struct rt_receive receive = make_receive(RT_CHANNEL_SECOND, in, BYTES);
    struct rt_send send = make_send(RT_CHANNEL_SECOND, "large", out, BYTES);
    rt_link_receive(pair.ba, &receive);
    pass_time(0.1); /* a has heard that it may send */
    rt_endpoint_attend(pair.b, true);
    rt_link_send(pair.ab, &send);
    pass_time(0.1);
    rt_endpoint_attend(pair.a, true);
    pass_time(3 * silence);
    rt_endpoint_attend(pair.b, false);
    rt_endpoint_attend(pair.a, false);
    CHECK(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(expect(pair.a, RT_EVENT_SENT));
    CHECK(receive.body_bytes == BYTES && memcmp(out, in, BYTES) == 0);
    destroy_pair(&pair);
    free(out), free(in);
}

TEST(connecting_waits_for_the_listener) {
    struct rt_endpoint *a = make_endpoint((struct rt_tcp_settings){0});
    struct rt_endpoint *b = make_endpoint((struct rt_tcp_settings){0});
    struct held_port port;
    struct rt_error err;
    struct rt_link *link;
    port_hold(&port);
    CHECK_OK(rt_endpoint_connect(a, port.address, rt_clock_wall() + PATIENCE, &link, &err));
    char head[] = "posted early";
    struct rt_send send = make_send(RT_CHANNEL_FIRST, head, NULL, 0);
    rt_link_send(link, &send);
    CHECK(is_quiet(a, 0.1));
    CHECK_OK(rt_endpoint_listen(b, port.address, &err));
    REQUIRE(expect(a, RT_EVENT_CONNECTED) && expect(b, RT_EVENT_ACCEPTED));
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    rt_link_receive(event.link, &receive);
    REQUIRE(expect(b, RT_EVENT_RECEIVED) && expect(a, RT_EVENT_SENT));
    rt_endpoint_destroy(a);
    rt_endpoint_destroy(b);
    port_let_go(&port);
}

TEST(what_cannot_be_reached_is_named) {
    struct rt_endpoint *a = make_endpoint((struct rt_tcp_settings){0});
    struct rt_endpoint *b = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    struct rt_link *link;
    struct held_port port;
    char text[200];
    port_hold(&port);
    CHECK_OK(rt_endpoint_listen(b, port.address, &err));
    CHECK(rt_endpoint_listen(a, b->address, &err) == RT_BAD_INPUT);
    snprintf(text, sizeof text, "cannot listen on %s: address already in use", b->address);
    CHECK_MSG(strcmp(err.text, text) == 0, "%s", err.text);
    CHECK(rt_endpoint_listen(b, "127.0.0.1:0", &err) == RT_BAD_INPUT);

    rt_endpoint_destroy(b);
    double before = rt_clock_wall();
    CHECK_OK(rt_endpoint_connect(a, port.address, before + 0.2, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    CHECK(event.link == link &&
          strcmp(event.error.text, "connection refused: nothing is listening there") == 0);
    CHECK(rt_clock_wall() - before >= 0.19);
    rt_link_close(link);

    CHECK_OK(rt_endpoint_connect(a, "no-such-host.invalid:7117", rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    CHECK(says("no-such-host.invalid does not resolve: "));
    rt_link_close(link);
    CHECK(rt_endpoint_listen(a, "no-such-host.invalid:7117", &err) != RT_OK);
    CHECK(strstr(err.text, "no-such-host.invalid does not resolve: "));
    rt_endpoint_destroy(a);
    port_let_go(&port);
}

/* A link may be closed, and its endpoint go, whatever it is doing. */
TEST(a_link_can_be_closed_at_any_time) {
    static const char *const addresses[] = {"no-such-host.invalid:7117", "127.0.0.1:1", "127.0.0.1:2"};
    struct rt_error err;
    struct rt_link *link;
    for (int round = 0; round < 6; round++) {
        struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
        CHECK_OK(
            rt_endpoint_connect(endpoint, addresses[round % 3], rt_clock_wall() + PATIENCE, &link, &err));
        if (round < 3) {
            rt_link_close(link);
            CHECK(is_quiet(endpoint, 0));
        }
        double before = rt_clock_wall();
        rt_endpoint_destroy(endpoint);
        CHECK(rt_clock_wall() - before < 2);
    }
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    CHECK_OK(rt_endpoint_connect(pair.a, pair.b->address, rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(pair.a, RT_EVENT_CONNECTED));
    destroy_pair(&pair); /* with an event that was not taken */
}

TEST(what_is_no_address_is_refused) {
    static const char *const wrong[] = {
        "",       "host",  "host:",   ":7117", "host:port", "host:65536",     "host:-1", "host:7117x",
        "::1:80", "[::1]", "[::1:80", "[]:80", "host: 1",   "host:000007117", "a:b:7",   "[::1]80"};
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    struct rt_link *link;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_MSG(rt_endpoint_connect(endpoint, wrong[i], 0, &link, &err) == RT_BAD_INPUT, "%s", wrong[i]);
        CHECK_MSG(rt_endpoint_listen(endpoint, wrong[i], &err) == RT_BAD_INPUT, "%s", wrong[i]);
    }
    CHECK(rt_endpoint_connect(endpoint, "127.0.0.1:0", 0, &link, &err) == RT_BAD_INPUT);
    char longest[400];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 390, ":1", 3);
    CHECK(rt_endpoint_connect(endpoint, longest, 0, &link, &err) == RT_BAD_INPUT);
    rt_endpoint_destroy(endpoint);
}

TEST(listening_beyond_loopback_needs_a_key) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    CHECK(rt_endpoint_listen(endpoint, "0.0.0.0:0", &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "keygen") && strstr(err.text, "--insecure"), "%s", err.text);
    rt_endpoint_destroy(endpoint);
    endpoint = make_endpoint((struct rt_tcp_settings){.insecure = true});
    CHECK_OK(rt_endpoint_listen(endpoint, "0.0.0.0:0", &err));
    rt_endpoint_destroy(endpoint);
}

TEST(names_and_ipv6_addresses_work) {
    static const char *const addresses[] = {"localhost:0", "[::1]:0"};
    for (int i = 0; i < 2; i++) {
        struct pair pair = {.a = make_endpoint((struct rt_tcp_settings){0}),
                            .b = make_endpoint((struct rt_tcp_settings){0})};
        struct rt_error err;
        if (rt_endpoint_listen(pair.b, addresses[i], &err) == RT_OK)
            CHECK(join_pair(&pair) && strcmp(pair.ab->peer, pair.b->address) == 0);
        else
            CHECK_MSG(i == 1, "%s", err.text); /* not every machine has IPv6 */
        destroy_pair(&pair);
    }
}

TEST(no_more_links_than_allowed) {
    struct pair pair;
    struct rt_error err;
    struct rt_link *link;
    REQUIRE(make_pair((struct rt_tcp_settings){.max_links = 1}, &pair));
    CHECK_OK(rt_endpoint_connect(pair.a, pair.b->address, rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(pair.a, RT_EVENT_CLOSED));
    CHECK(event.link == link && says("has reached its maximum number of links"));
    REQUIRE(expect(pair.b, RT_EVENT_REFUSED));
    CHECK(says("was refused: there are"));
    rt_link_close(link);
    rt_link_close(pair.ab); /* which makes room */
    REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
    rt_link_close(pair.ba);
    REQUIRE(join_pair(&pair));
    destroy_pair(&pair);
}

TEST(a_frame_that_cannot_be_closes_the_link) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    struct rt_send send = {.channel = RT_CHANNEL_FIRST, .body = {{"", RT_MAX_BODY}, {"", 1}}};
    rt_link_send(pair.ab, &send);
    REQUIRE(expect(pair.a, RT_EVENT_CLOSED));
    CHECK(says("too large"));
    CHECK(await_kind(pair.b, RT_EVENT_CLOSED));
    rt_link_send(pair.ab, &send); /* to no effect */
    CHECK(is_quiet(pair.a, 0.02));
    destroy_pair(&pair);
}

static void *wake_soon(void *endpoint) {
    usleep(20000);
    rt_endpoint_wake(endpoint);
    return NULL;
}

TEST(anybody_can_wake_the_owner) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wake_soon, endpoint) == 0);
    CHECK(expect(endpoint, RT_EVENT_WOKEN) && event.link == NULL);
    pthread_join(thread, NULL);
    rt_endpoint_wake(endpoint);
    CHECK(expect(endpoint, RT_EVENT_WOKEN));
    CHECK(is_quiet(endpoint, 0));
    double until = rt_endpoint_now(endpoint) + 0.03;
    rt_endpoint_sleep(endpoint, until);
    CHECK(rt_endpoint_now(endpoint) >= until);
    rt_endpoint_destroy(endpoint);
}

TEST(waiting_costs_nothing) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    double cpu = rt_clock_process();
    CHECK(is_quiet(pair.a, 0.5));
    cpu = rt_clock_process() - cpu; /* of both network threads and this one */
    CHECK_MSG(cpu < 0.01, "%g CPU-seconds in half a second", cpu);
    destroy_pair(&pair);
}

TEST_MAIN()
