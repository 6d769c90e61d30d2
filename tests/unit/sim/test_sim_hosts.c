/* Hosts of the network in memory that are stopped, hang, are killed and start again. Latencies are 1/64 s: a
 * peer may be silent for the least bound only, 1 s, where the bound adapts. */
/* labels: threads */
#include "sim/network.h"

#include "base/clock.h"
#include "support/memnet.h"
#include "support/test.h"
#include <math.h>

static const double latency = 1.0 / 64;
static const struct rt_memnet_settings fixed = {.latency = 1.0 / 64},
                                       adaptive = {.latency = 1.0 / 64, .silence_least = 1};

struct pause {
    struct rt_memnet *net;
    double seconds, closed_at;
    size_t body;
    bool waits; /* the host that stops waits for an event then; else it sleeps */
    bool fixed; /* the bound does not adapt */
};

enum { LARGE = 300 << 10 };

/* 1 is stopped at time 10. 0 sends it a frame then, for which it had posted a receive. */
static void pause_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    const struct pause *pause = user;
    static uint8_t body[2][LARGE];
    struct rt_event event;
    struct rt_send send = {.channel = 1, .body = {{body[0], pause->body}}};
    struct rt_receive receive = {.channel = 1, .body = body[1], .body_room = LARGE};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    const double until = 10 + pause->seconds;
    REQUIRE(link);
    if (i == 1) {
        rt_link_receive(link, &receive);
        if (!pause->waits)
            rt_endpoint_sleep(endpoint, 10.1);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
        const double came = pause->body > 1000 && until < 11 ? until + latency : until;
        CHECK_MSG(rt_endpoint_now(endpoint) == came, "%.9g", rt_endpoint_now(endpoint));
        CHECK(pause->seconds <= (pause->fixed ? 4.5 : 0.5)
                  ? rt_endpoint_stalled(endpoint) == 0
                  : fabs(rt_endpoint_stalled(endpoint) - pause->seconds) < 0.01);
    } else {
        rt_endpoint_sleep(endpoint, 10);
        rt_memnet_pause(pause->net, 1, pause->seconds);
        rt_endpoint_sleep(endpoint, 10.05);
        rt_link_send(link, &send);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
        CHECK(rt_endpoint_now(endpoint) == (pause->body > 1000 ? until : 10.05));
        rt_endpoint_sleep(endpoint, 10.4375);
        const struct rt_heartbeat last = rt_link_heartbeat(link);
        CHECK(pause->body > 1000 || fabs(last.ago - (0.4375 - latency)) < 1e-9);
    }
    if (pause->closed_at > 0) {
        REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
        CHECK_MSG(rt_endpoint_now(endpoint) == (i == 0 ? pause->closed_at : fmax(until, pause->closed_at)),
                  "%zu: closed at %.9g", i, rt_endpoint_now(endpoint));
        CHECK(strstr(event.error.text, i == 1         ? "closed the link"
                                       : pause->fixed ? "has been silent for 5 seconds"
                                                      : "has been silent for 1 seconds"));
        return;
    }
    CHECK(!rt_endpoint_wait(endpoint, 30, &event)); /* the link lives */
    CHECK(rt_link_heartbeat(link).ago == 0);
}

static void check_pause(struct pause pause) {
    struct rt_error err;
    CHECK_OK(rt_memnet_create(pause.fixed ? &fixed : &adaptive, 2, &pause.net, &err));
    CHECK_OK(rt_memnet_run(pause.net, pause_program, &pause, 100, &err));
    rt_memnet_destroy(pause.net);
}

TEST(a_short_pause_only_delays) {
    check_pause((struct pause){.seconds = 0.5});
    check_pause((struct pause){.seconds = 0.5, .waits = true});
}

TEST(a_large_frame_waits_for_a_stopped_reader) {
    check_pause((struct pause){.seconds = 0.5, .body = LARGE, .waits = true});
}

TEST(a_host_that_is_stopped_for_long_is_given_up) {
    check_pause((struct pause){.seconds = 3, .closed_at = 10 + latency + 1});
    check_pause((struct pause){.seconds = 3, .closed_at = 10 + latency + 1, .waits = true});
}

TEST(a_fixed_bound_has_patience) {
    check_pause((struct pause){.seconds = 3, .fixed = true});
    check_pause((struct pause){.seconds = 4.5, .fixed = true, .waits = true});
    check_pause((struct pause){.seconds = 4.75, .fixed = true});
    check_pause((struct pause){.seconds = 6, .closed_at = 10 + latency + 5, .fixed = true});
}

/* All are stopped at once, and go on one after another: none is given up. */
static void everybody_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_memnet *net = user;
    struct rt_event event;
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    rt_endpoint_sleep(endpoint, 10);
    rt_memnet_pause(net, i, i == 0 ? 7 : 8.5);
    CHECK(!rt_endpoint_wait(endpoint, 30, &event));
    CHECK(rt_endpoint_now(endpoint) == 30);
}

TEST(a_cluster_that_is_stopped_as_a_whole_goes_on) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&adaptive, 2, &net, &err));
    CHECK_OK(rt_memnet_run(net, everybody_program, net, 100, &err));
    rt_memnet_destroy(net);
}

/* A caller of a stopped host is let in when it goes on, or has waited for as long as one may be
 * silent. */
static void call_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_memnet *net = user;
    struct rt_event event;
    struct rt_error err;
    struct rt_link *link;
    if (i == 1) {
        CHECK_OK(rt_endpoint_listen(endpoint, "mem:1", &err));
        rt_memnet_pause(net, 1, 8);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_ACCEPTED, &event));
        CHECK(rt_endpoint_now(endpoint) == 8);
        return;
    }
    rt_endpoint_sleep(endpoint, i == 0 ? 1 : 5);
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 50, &link, &err));
    REQUIRE(memnet_expect(endpoint, i == 0 ? RT_EVENT_CLOSED : RT_EVENT_CONNECTED, &event));
    CHECK(rt_endpoint_now(endpoint) == (i == 0 ? 6 + latency : 8 + latency));
    CHECK(i != 0 || strcmp(event.error.text, "took the connection but said nothing for 5 seconds") == 0);
}

TEST(a_stopped_host_does_not_answer) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&adaptive, 3, &net, &err));
    CHECK_OK(rt_memnet_run(net, call_program, net, 100, &err));
    rt_memnet_destroy(net);
}

/* A program hangs, its heartbeats say so, and the link lives. */
static void hang_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_memnet *net = user;
    struct rt_event event;
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    if (i == 1) {
        while (rt_endpoint_now(endpoint) < 10) {
            rt_endpoint_step(endpoint, 3);
            CHECK(!rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 0.125, &event));
        }
        CHECK_MSG(rt_endpoint_now(endpoint) == 14, "%.9g", rt_endpoint_now(endpoint));
        return;
    }
    rt_endpoint_sleep(endpoint, 4.0625);
    rt_memnet_hang(net, 1, 9.9375);
    rt_endpoint_sleep(endpoint, 13.5);
    const struct rt_heartbeat last = rt_link_heartbeat(link);
    CHECK_MSG(last.known && last.note == 3 && fabs(last.age - 9.5) < 0.2 && last.ago == 0, "%g", last.age);
}

TEST(a_program_hangs_and_its_heartbeats_go_on) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&adaptive, 2, &net, &err));
    CHECK_OK(rt_memnet_run(net, hang_program, net, 100, &err));
    rt_memnet_destroy(net);
}

/* ---- restarts ---- */

struct restart {
    struct rt_memnet *net;
    unsigned first, second; /* how many of each program have begun at host 1 */
    bool before_listening;
};

static void second_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct restart *restart = user;
    struct rt_event event;
    struct rt_error err;
    restart->second++;
    CHECK(i == 1 && rt_endpoint_now(endpoint) == 12);
    CHECK(endpoint == rt_memnet_endpoint(restart->net, 1));
    rt_endpoint_sleep(endpoint, 13);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:1", &err));
    REQUIRE(memnet_expect(endpoint, RT_EVENT_ACCEPTED, &event));
    CHECK(rt_endpoint_now(endpoint) == 13);
    struct rt_receive receive = {.channel = 2};
    rt_link_receive(event.link, &receive);
    REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
}

static void first_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct restart *restart = user;
    struct rt_event event;
    struct rt_error err;
    struct rt_link *link;
    restart->first += i == 1;
    if (i == 1 && restart->before_listening) {
        CHECK(!rt_endpoint_wait(endpoint, 50, &event));
        return;
    }
    if (!restart->before_listening) {
        link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
        REQUIRE(link);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
        CHECK(rt_endpoint_now(endpoint) == (i == 0 ? 10 + latency : 10));
        CHECK(strstr(event.error.text, i == 0 ? "is gone" : "mem:1 was killed"));
    }
    if (i == 1) {
        CHECK(rt_endpoint_connect(endpoint, "mem:0", 20, &link, &err) == RT_FAILED);
        CHECK(rt_endpoint_listen(endpoint, "mem:1", &err) == RT_FAILED);
        return;
    }
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 20, &link, &err));
    REQUIRE(memnet_expect(endpoint, RT_EVENT_CONNECTED, &event));
    CHECK(event.link == link && rt_endpoint_now(endpoint) == 13 + latency);
    struct rt_send send = {.channel = 2};
    rt_link_send(link, &send);
    REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
    REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event)); /* the second ends with the run */
}

static void killer_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct restart *restart = user;
    struct rt_error err;
    if (i < 2) {
        first_program(user, i, endpoint);
        return;
    }
    rt_endpoint_sleep(endpoint, 10);
    CHECK_OK(rt_memnet_restart(restart->net, 1, 2, &err));
    CHECK_OK(rt_memnet_restart(restart->net, 1, 2, &err)); /* it is under way */
    rt_endpoint_sleep(endpoint, 20);
    rt_memnet_kill(restart->net, 1);
    CHECK_OK(rt_memnet_restart(restart->net, 1, 100, &err)); /* when all have ended: never */
}

static void check_restart(bool before_listening) {
    struct rt_error err;
    struct restart restart = {.before_listening = before_listening};
    CHECK_OK(rt_memnet_create(&adaptive, 3, &restart.net, &err));
    rt_memnet_restarts(restart.net, second_program, &restart);
    CHECK_OK(rt_memnet_run(restart.net, killer_program, &restart, 100, &err));
    CHECK(restart.first == 1 && restart.second == 1);
    rt_memnet_destroy(restart.net);
}

TEST(a_host_starts_again_at_its_address) {
    check_restart(false);
}

/* A call to the first program is heard by the second. */
TEST(calls_outlive_a_restart) {
    check_restart(true);
}

static void clock_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    double *cpu = user;
    rt_endpoint_sleep(endpoint, 3600 + (double)i);
    CHECK(rt_clock_wall() == 3600 + (double)i && rt_clock_boot() == rt_endpoint_now(endpoint));
    const double before = rt_clock_thread();
    cpu[i] = rt_clock_process() - before;
}

/* A program that asks the clock gets virtual time, and as much computing in every run. */
TEST(clocks_show_virtual_time) {
    struct rt_error err;
    struct rt_memnet *net;
    double cpu[2] = {0};
    CHECK_OK(rt_memnet_create(&fixed, 2, &net, &err));
    CHECK_OK(rt_memnet_run(net, clock_program, cpu, 4000, &err));
    CHECK(cpu[0] > 0 && cpu[0] < 1e-3 && cpu[0] == cpu[1]);
    const double before = rt_clock_thread();
    CHECK(rt_clock_thread() - before < 1 && rt_clock_wall() != 3600);
    rt_memnet_destroy(net);
}

TEST_MAIN()
