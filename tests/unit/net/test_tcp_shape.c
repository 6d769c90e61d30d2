/* labels: threads */
/*
 * A network that is slower than there is. Nothing arrives too early, which no busy machine can disturb; that
 * it does not arrive much too late is measured generously. What holds over any transport is tested over this
 * one too, in contract/test_transport.c.
 */
#include "tcp_rig.h"
#include <stdlib.h>

enum { FRAME = 256 << 10, FRAMES = 8 };
static const double rate = 10e6, delay = 0.03;

/* Seconds until so many frames have gone from a to b. */
static double transfer(struct pair *pair, int frames) {
    uint8_t *from = malloc(FRAME), *to = malloc(FRAME);
    struct rt_send sends[FRAMES];
    struct rt_receive receives[FRAMES];
    fill_bytes(from, FRAME, 7);
    for (int i = 0; i < frames; i++) {
        receives[i] = make_receive(RT_CHANNEL_SECOND, to, FRAME);
        rt_link_receive(pair->ba, &receives[i]);
    }
    const double start = rt_clock_wall();
    for (int i = 0; i < frames; i++) {
        sends[i] = make_send(RT_CHANNEL_SECOND, "head", from, FRAME);
        rt_link_send(pair->ab, &sends[i]);
    }
    for (int i = 0; i < frames; i++)
        CHECK(await_kind(pair->b, RT_EVENT_RECEIVED));
    const double took = rt_clock_wall() - start;
    CHECK(memcmp(from, to, FRAME) == 0);
    for (int i = 0; i < frames; i++)
        CHECK(await_kind(pair->a, RT_EVENT_SENT));
    free(from);
    free(to);
    return took;
}

TEST(a_transfer_takes_its_time) {
    static const uint8_t key[RT_KEY_BYTES] = {5};
    for (int secret = 0; secret < 2; secret++) {
        struct pair pair;
        const struct rt_tcp_settings settings = {
            .bandwidth = rate, .cma = RT_LENDS_TO_ITSELF, .key = secret ? key : NULL};
        REQUIRE(make_pair(settings, &pair));
        const double ideal = FRAMES * FRAME / rate, took = transfer(&pair, FRAMES);
        CHECK_MSG(took > 0.97 * ideal && took < 2 * ideal + 1, "%g s, not %g", took, ideal);
        /* One frame alone as well: no bytes are saved up while nothing is sent. */
        const double one = transfer(&pair, 1);
        CHECK_MSG(one > 0.97 * FRAME / rate, "%g s, not %g", one, FRAME / rate);
        destroy_pair(&pair);
    }
}

TEST(a_message_is_late_by_the_latency) {
    struct pair pair;
    char body[2][8] = {"ping", "pong"}, room[2][8];
    REQUIRE(make_pair((struct rt_tcp_settings){.latency = delay}, &pair));
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct rt_send ping = make_send(RT_CHANNEL_CONTROL, "x", body[0], 8),
                       pong = make_send(RT_CHANNEL_CONTROL, "x", body[1], 8);
        struct rt_receive there = make_receive(RT_CHANNEL_CONTROL, room[0], 8),
                          back = make_receive(RT_CHANNEL_CONTROL, room[1], 8);
        rt_link_receive(pair.ba, &there);
        rt_link_receive(pair.ab, &back);
        const double start = rt_clock_wall();
        rt_link_send(pair.ab, &ping);
        CHECK(await_kind(pair.b, RT_EVENT_RECEIVED));
        CHECK(rt_clock_wall() - start >= delay);
        rt_link_send(pair.ba, &pong);
        CHECK(await_kind(pair.a, RT_EVENT_RECEIVED) && strcmp(room[1], "pong") == 0);
        const double took = rt_clock_wall() - start;
        best = took < best ? took : best;
        CHECK(await_kind(pair.b, RT_EVENT_SENT));
    }
    /* The first has to wait for the credit that the other side gives, too. */
    CHECK_MSG(best >= 2 * delay && best < 2 * delay + 1, "%g s", best);
    destroy_pair(&pair);
}

TEST(senders_share_what_a_receiver_can_take) {
    struct rt_error err;
    struct rt_endpoint *hub = make_endpoint((struct rt_tcp_settings){.bandwidth = rate}),
                       *senders[2] = {make_endpoint((struct rt_tcp_settings){0}),
                                      make_endpoint((struct rt_tcp_settings){0})};
    struct rt_link *links[2], *there[2];
    struct rt_send sends[2];
    struct rt_receive receives[2];
    uint8_t *bytes = malloc(3 * (size_t)FRAME);
    REQUIRE(bytes && rt_endpoint_listen(hub, "127.0.0.1:0", &err) == RT_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rt_endpoint_connect(senders[i], hub->address, rt_clock_wall() + PATIENCE, &links[i], &err));
        CHECK(await_kind(senders[i], RT_EVENT_CONNECTED) && await_kind(hub, RT_EVENT_ACCEPTED));
        there[i] = event.link;
        receives[i] = make_receive(RT_CHANNEL_FIRST, bytes + (size_t)i * FRAME, FRAME);
        rt_link_receive(there[i], &receives[i]);
    }
    fill_bytes(bytes + 2 * FRAME, FRAME, 1);
    const double start = rt_clock_wall();
    for (int i = 0; i < 2; i++) {
        sends[i] = make_send(RT_CHANNEL_FIRST, "head", bytes + 2 * FRAME, FRAME);
        rt_link_send(links[i], &sends[i]);
    }
    for (int i = 0; i < 2; i++)
        CHECK(await_kind(senders[i], RT_EVENT_SENT));
    CHECK(await_kind(hub, RT_EVENT_RECEIVED) && await_kind(hub, RT_EVENT_RECEIVED));
    const double took = rt_clock_wall() - start;
    CHECK_MSG(took > 0.97 * 2 * FRAME / rate, "%g s, not %g", took, 2 * FRAME / rate);
    CHECK(memcmp(bytes, bytes + 2 * FRAME, FRAME) == 0 && memcmp(bytes + FRAME, bytes, FRAME) == 0);
    rt_endpoint_destroy(senders[0]);
    rt_endpoint_destroy(senders[1]);
    rt_endpoint_destroy(hub);
    free(bytes);
}

/* What was on its way when a link closes still counts. */
TEST(what_is_on_its_way_is_not_lost) {
    struct pair pair;
    char text[8] = "last", room[8] = "";
    REQUIRE(make_pair((struct rt_tcp_settings){.latency = 0.2}, &pair));
    struct rt_send send = make_send(RT_CHANNEL_CONTROL, "x", text, 8);
    struct rt_receive receive = make_receive(RT_CHANNEL_CONTROL, room, 8);
    rt_link_send(pair.ab, &send);
    rt_link_receive(pair.ba, &receive);
    CHECK(await_kind(pair.a, RT_EVENT_SENT)); /* when the credit has come */
    rt_link_close(pair.ab);
    CHECK(expect(pair.b, RT_EVENT_RECEIVED) && strcmp(room, "last") == 0 && expect(pair.b, RT_EVENT_CLOSED));
    destroy_pair(&pair);
}

TEST_MAIN()
