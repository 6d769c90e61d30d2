/* The transport over TCP between well-behaved endpoints: frames, order, credit, overtaking, ends of links. */
/* labels: threads */
#include "tcp_rig.h"
#include <pthread.h>
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
