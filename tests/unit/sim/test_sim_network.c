/*
 * The network in memory: times are exact and runs repeat to the last event. Failures are in
 * tests/unit/sim/test_sim_faults.c; what holds for every transport is in tests/contract/test_transport.c.
 */
/* labels: threads */
#include "sim/network.h"

#include "support/memnet.h"
#include "support/test.h"
#include <malloc.h>
#include <math.h>

/* ---- frames round a ring ---- */

struct ring {
    size_t n;
    unsigned frames, slots;
    size_t body;
    uint64_t hash, events;
    size_t memory; /* in use halfway */
};

/* Bytes of the heap in use; always 0 where it cannot be asked. */
static size_t memory_in_use(void) {
#ifdef __GLIBC__
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

static void mix(struct ring *ring, uint64_t value) {
    ring->hash = (ring->hash ^ value) * 0x100000001b3u;
}

enum { SENT = RT_CHANNELS - 1 }; /* channels */

/* Sends `frames` frames on each of these channels to the right, keeping `slots` posted on each. */
static void ring_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct ring *ring = user;
    struct rt_send sends[RT_CHANNELS][4];
    struct rt_receive receives[RT_CHANNELS][4];
    static _Thread_local uint8_t bodies[RT_CHANNELS][4][4096];
    static const uint8_t data[4096];
    unsigned sent[RT_CHANNELS] = {0}, got[RT_CHANNELS] = {0}, left = 2 * SENT * ring->frames;
    struct rt_link *to = NULL, *from = NULL;
    struct rt_error err;
    struct rt_event event;
    char address[40];
    snprintf(address, sizeof address, "mem:%zu", (i + 1) % ring->n);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    CHECK_OK(rt_endpoint_connect(endpoint, address, INFINITY, &to, &err));
    for (unsigned c = 1; c < RT_CHANNELS; c++)
        for (unsigned k = 0; k < ring->slots; k++) {
            sends[c][k] = (struct rt_send){.channel = c, .head_bytes = 8, .body = {{data, ring->body}}};
            receives[c][k] =
                (struct rt_receive){.channel = c, .body = bodies[c][k], .body_room = sizeof bodies[c][k]};
            memcpy(sends[c][k].head, &sent[c], sizeof sent[c]);
            if (sent[c]++ < ring->frames)
                rt_link_send(to, &sends[c][k]);
        }
    while (left) {
        if (i == 0 && left == SENT * ring->frames)
            ring->memory = memory_in_use();
        REQUIRE(rt_endpoint_wait(endpoint, INFINITY, &event));
        double now = rt_endpoint_now(endpoint);
        uint64_t bits;
        memcpy(&bits, &now, sizeof bits);
        mix(ring, bits);
        mix(ring, i << 8 | (uint64_t)event.kind);
        ring->events++;
        if (event.kind == RT_EVENT_ACCEPTED) {
            from = event.link;
            for (unsigned c = 1; c < RT_CHANNELS; c++)
                for (unsigned k = 0; k < ring->slots; k++)
                    rt_link_receive(from, &receives[c][k]);
        } else if (event.kind == RT_EVENT_SENT) {
            unsigned c = event.send->channel;
            left--;
            memcpy(event.send->head, &sent[c], sizeof sent[c]);
            if (sent[c] < ring->frames) {
                sent[c]++;
                rt_link_send(to, event.send);
            }
        } else if (event.kind == RT_EVENT_RECEIVED) {
            unsigned c = event.receive->channel, number;
            left--;
            memcpy(&number, event.receive->head, sizeof number);
            CHECK(event.link == from && number == got[c]++ && event.receive->body_bytes == ring->body);
            mix(ring, c << 8 | number);
            rt_link_receive(from, event.receive);
        } else {
            REQUIRE(event.kind == RT_EVENT_CONNECTED);
        }
    }
    CHECK(to->counts.frames_sent[1] == ring->frames && from->counts.frames_received[1] == ring->frames);
    CHECK(i != 0 || memory_in_use() <= ring->memory); /* less when others have ended */
    CHECK(to->counts.wire_sent == SENT * (uint64_t)ring->frames * (8 + ring->body));
}

static uint64_t ring_hash(uint64_t seed) {
    struct ring ring = {.n = 8, .frames = 300, .slots = 2, .body = 100};
    memnet_run(
        &(struct rt_memnet_settings){.seed = seed, .latency = 1e-3, .bandwidth = 1e6, .random_delay = 1e-2},
        ring.n, ring_program, &ring);
    CHECK(ring.events > 8 * SENT * 2 * 300);
    return ring.hash;
}

TEST(a_run_is_a_function_of_its_seed) {
    uint64_t hash = ring_hash(1);
    CHECK(ring_hash(1) == hash);
    CHECK(ring_hash(2) != hash);
}

/* ---- times ---- */

enum { FRAMES = 5 };

static const unsigned channel_of[FRAMES] = {2, 0, 2, 1, 3};

/* 128 bytes at 1024 bytes per second occupy the link for 1/8 s; then they travel for 1/2 s. */
static void time_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    uint8_t body[FRAMES][120] = {{0}};
    if (i == 0) {
        struct rt_send sends[FRAMES];
        static const unsigned order[FRAMES] = {0, 1, 3, 2, 4}; /* the first is alone when it is posted */
        struct rt_link *link = memnet_join(endpoint, "mem:1");
        REQUIRE(link);
        CHECK(rt_endpoint_now(endpoint) == 1.0);
        rt_endpoint_sleep(endpoint, 2);
        for (unsigned k = 0; k < FRAMES; k++) {
            sends[k] = (struct rt_send){
                .channel = channel_of[k], .head_bytes = 8, .body = {{body[k], 100}, {body[k], 20}}};
            rt_link_send(link, &sends[k]);
        }
        for (unsigned k = 0; k < FRAMES; k++) {
            REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
            CHECK(event.send == &sends[order[k]]);
            CHECK(rt_endpoint_now(endpoint) == (k < 4 ? 2.125 + 0.125 * k : 10.125));
        }
        CHECK(link->counts.bytes_sent[2] == 256 && link->counts.wire_sent == 640);
    } else {
        struct rt_receive receives[FRAMES];
        static const unsigned order[FRAMES] = {2, 0, 1, 2, 3};
        struct rt_link *link = memnet_admit(endpoint);
        REQUIRE(link);
        CHECK(rt_endpoint_now(endpoint) == 0.5);
        for (unsigned k = 0; k < FRAMES; k++) {
            receives[k] =
                (struct rt_receive){.channel = channel_of[k], .body = body[k], .body_room = sizeof body[k]};
            if (k < 4)
                rt_link_receive(link, &receives[k]);
        }
        for (unsigned k = 0; k < FRAMES; k++) {
            if (k == 4) {
                CHECK(!rt_endpoint_wait(endpoint, 10, &event)); /* the last one has no receive yet */
                CHECK(rt_endpoint_now(endpoint) == 10);
                rt_link_receive(link, &receives[k]);
            }
            REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
            CHECK(event.receive->channel == order[k]);
            CHECK(rt_endpoint_now(endpoint) == (k < 4 ? 2.625 + 0.125 * k : 10.625));
        }
    }
}

TEST(latency_and_bandwidth_give_exact_times) {
    memnet_run(&(struct rt_memnet_settings){.latency = 0.5, .bandwidth = 1024}, 2, time_program, NULL);
}

/* Without bandwidth one way, with latency the other, from time 3 on slower. */
static void shape(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                  double *random_delay) {
    (void)user, (void)to;
    CHECK(*latency == 0.25 && *bandwidth == 64 && *random_delay == 0);
    if (from == 0)
        *bandwidth = 0;
    if (from == 1)
        *latency = now < 3 ? 1 : 2;
}

static void shaped_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_receive receive = {.channel = 1};
    struct rt_send send = {.channel = 1, .head_bytes = 64};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    rt_link_receive(link, &receive);
    if (i == 0) {
        CHECK(rt_endpoint_now(endpoint) == 1.25);
        rt_link_send(link, &send);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
        CHECK(rt_endpoint_now(endpoint) == 1.25);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
        CHECK(rt_endpoint_now(endpoint) == 4 + 1 + 2);
    } else {
        REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
        CHECK(rt_endpoint_now(endpoint) == 1.5);
        rt_endpoint_sleep(endpoint, 4);
        rt_link_send(link, &send);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
    }
}

TEST(links_differ_by_direction_and_time) {
    memnet_run(&(struct rt_memnet_settings){.latency = 0.25, .bandwidth = 64, .shape = shape}, 2,
               shaped_program, NULL);
}

/* Every frame is sent when the one before is there: so the random delays show. */
static void delay_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_receive receive = {.channel = 3};
    struct rt_send send = {.channel = 3, .head_bytes = 1};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    double least = INFINITY, most = 0;
    REQUIRE(link);
    rt_link_receive(link, &receive);
    for (int k = 0; k < 1000; k++) {
        double start = rt_endpoint_now(endpoint);
        if (i == 0)
            rt_link_send(link, &send);
        for (int part = 0; part < 2; part++) {
            REQUIRE(rt_endpoint_wait(endpoint, INFINITY, &event));
            if (event.kind != RT_EVENT_RECEIVED)
                continue;
            double trip = rt_endpoint_now(endpoint) - start;
            least = trip < least ? trip : least;
            most = trip > most ? trip : most;
            rt_link_receive(link, &receive);
            if (i == 1)
                rt_link_send(link, &send);
        }
    }
    if (i == 0)
        CHECK_MSG(least > 1.9999 && least < 2.2 && most < 4 && most > 3.8, "%g to %g s", least, most);
}

TEST(random_delays_fill_their_range) {
    memnet_run(&(struct rt_memnet_settings){.seed = 3, .latency = 1, .random_delay = 1}, 2, delay_program,
               NULL);
}

struct polling {
    int turns[2];
    struct rt_endpoint *first;
};

/* Others get their turn, but no time passes, while one polls. */
static void polling_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct polling *polling = user;
    struct rt_event event;
    if (i == 0) {
        CHECK(!rt_endpoint_wait(endpoint, 0, &event) && polling->turns[1] == 1);
        while (!rt_endpoint_wait(endpoint, 0, &event))
            polling->turns[0]++;
        CHECK(event.kind == RT_EVENT_WOKEN && polling->turns[1] == 2 && rt_endpoint_now(endpoint) == 0);
    } else {
        polling->turns[1]++;
        rt_endpoint_sleep(endpoint, 0);
        polling->turns[1]++;
        rt_endpoint_wake(polling->first);
        rt_endpoint_sleep(endpoint, 7);
    }
}

TEST(polling_lets_the_others_run) {
    struct rt_error err;
    struct rt_memnet *net;
    struct polling polling = {.turns = {0, 0}};
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 2, &net, &err));
    polling.first = rt_memnet_endpoint(net, 0);
    CHECK_OK(rt_memnet_run(net, polling_program, &polling, INFINITY, &err));
    CHECK(rt_memnet_now(net) == 7 && rt_memnet_endpoint(net, 2) == NULL);
    rt_memnet_destroy(net);
}

static void wake_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct polling *polling = user;
    struct rt_event event;
    for (int k = 1; k <= 2; k++)
        if (i == 1) {
            rt_endpoint_sleep(endpoint, 4 * k);
            rt_endpoint_wake(polling->first);
        } else {
            REQUIRE(rt_endpoint_wait(endpoint, k == 1 ? 5 : INFINITY, &event));
            CHECK(rt_endpoint_now(endpoint) == 4 * k);
        }
}

TEST(a_wait_that_ended_leaves_no_timer) {
    struct rt_error err;
    struct rt_memnet *net;
    struct polling polling = {.turns = {0, 0}};
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 2, &net, &err));
    polling.first = rt_memnet_endpoint(net, 0);
    CHECK_OK(rt_memnet_run(net, wake_program, &polling, INFINITY, &err));
    rt_memnet_destroy(net);
}

/* Frames over many links that arrive at the same time arrive in the order they were sent. */
static void ties_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    enum { LINKS = 20 };
    (void)user;
    struct rt_event event;
    struct rt_send sends[LINKS];
    struct rt_receive receives[LINKS];
    struct rt_link *links[LINKS];
    for (unsigned k = 0; k < LINKS; k++)
        REQUIRE(links[k] = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint));
    for (unsigned k = 0; k < LINKS; k++)
        if (i == 0) {
            sends[k] = (struct rt_send){.channel = k % 4, .head_bytes = 1, .head = {(uint8_t)k}};
            rt_link_send(links[k * 7 % LINKS], &sends[k]);
            REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
        } else {
            receives[k] = (struct rt_receive){.channel = (k * 3) % LINKS % 4};
            rt_link_receive(links[k], &receives[k]);
        }
    for (unsigned k = 0; i == 1 && k < LINKS; k++) {
        REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
        CHECK(event.receive->head[0] == k);
    }
}

TEST(ties_go_by_order) {
    memnet_run(&(struct rt_memnet_settings){.latency = 1}, 2, ties_program, NULL);
}

TEST(bad_settings_and_addresses_are_refused) {
    struct rt_error err;
    struct rt_memnet *net;
    struct rt_link *link;
    const char *bad[] = {"", "mem", "mem:", "mem:2", "mem:-1", "mem:0x", "mem: 1", "10.0.0.1:80"};
    CHECK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 0, &net, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 2, &net, &err));
    struct rt_endpoint *endpoint = rt_memnet_endpoint(net, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(rt_endpoint_connect(endpoint, bad[i], 1, &link, &err) == RT_BAD_INPUT);
        CHECK(rt_endpoint_listen(endpoint, bad[i], &err) == RT_BAD_INPUT);
    }
    CHECK(endpoint->address[0] == 0);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:0", &err));
    CHECK(strcmp(endpoint->address, "mem:0") == 0);
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 1, &link, &err)); /* and is freed with its other side */
    rt_memnet_destroy(net);
}

/* A connection to an endpoint that does not listen yet waits. */
static void late_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_error err;
    struct rt_event event;
    struct rt_link *links[3];
    struct rt_send send = {.channel = 1};
    struct rt_receive receive = {.channel = 1};
    if (i == 0) {
        for (int k = 0; k < 3; k++)
            CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", k == 1 ? 6 : 10, &links[k], &err));
        rt_link_send(links[2], &send);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
        CHECK(event.link == links[1] && rt_endpoint_now(endpoint) == 6);
        CHECK(strcmp(event.error.text, "nothing is listening there") == 0);
        rt_link_close(links[1]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_CONNECTED, &event));
        CHECK(event.link == links[0] && rt_endpoint_now(endpoint) == 8);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_CONNECTED, &event));
        CHECK(event.link == links[2]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
    } else {
        rt_endpoint_sleep(endpoint, 7);
        REQUIRE(links[0] = memnet_admit(endpoint));
        CHECK(rt_endpoint_now(endpoint) == 7);
        REQUIRE(links[2] = memnet_admit(endpoint));
        rt_link_receive(links[2], &receive);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
    }
}

TEST(connecting_waits_for_a_late_listener) {
    memnet_run(&(struct rt_memnet_settings){.latency = 1}, 2, late_program, NULL);
}

/* Links outlive a run and are there in the next. */
static void first_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_link **links = user;
    links[i] = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
}

static void second_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_link **links = user;
    struct rt_event event;
    struct rt_send send = {.channel = 0};
    struct rt_receive receive = {.channel = 0};
    if (i == 0)
        rt_link_send(links[0], &send);
    else
        rt_link_receive(links[1], &receive);
    REQUIRE(memnet_expect(endpoint, i == 0 ? RT_EVENT_SENT : RT_EVENT_RECEIVED, &event));
}

TEST(a_net_runs_again) {
    struct rt_error err;
    struct rt_memnet *net;
    struct rt_link *links[2];
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.latency = 1}, 2, &net, &err));
    CHECK_OK(rt_memnet_run(net, first_program, links, 100, &err));
    CHECK_OK(rt_memnet_run(net, second_program, links, 100, &err));
    CHECK(rt_memnet_now(net) == 3);
    rt_memnet_destroy(net);
}

TEST_MAIN()
