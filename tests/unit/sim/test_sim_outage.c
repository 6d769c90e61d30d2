/*
 * Outages of the network in memory: who hears what, who notices the other's silence and when, and what
 * arrives late. Latencies are 1/64 s: round trips are so short that a peer may be silent for the least bound
 * only, 1 s, where the bound adapts.
 */
/* labels: threads */
#include "sim/fault.h"

#include "support/memnet.h"
#include "support/test.h"
#include <math.h>

static const double latency = 1.0 / 64;

struct outage {
    struct rt_sim_fault faults[4];
    size_t count;
    double frame_at[2];   /* when each side sends a frame; 0: it does not */
    double arrives_at[2]; /* at the other side; 0: never */
    double closed_at[2];  /* 0: never */
    const char *why[2];
    bool fixed; /* the bound does not adapt */
};

static void outage_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    const struct outage *outage = user;
    struct rt_event event;
    struct rt_send send = {.channel = 1, .head_bytes = 1};
    struct rt_receive receive = {.channel = 1};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    double came = 0, closed = 0;
    unsigned sent = 0;
    REQUIRE(link);
    rt_link_receive(link, &receive);
    if (outage->frame_at[i] > 0) {
        rt_endpoint_sleep(endpoint, outage->frame_at[i]);
        rt_link_send(link, &send);
    }
    while (rt_endpoint_wait(endpoint, 30, &event)) {
        came = event.kind == RT_EVENT_RECEIVED ? rt_endpoint_now(endpoint) : came;
        sent += event.kind == RT_EVENT_SENT;
        if (event.kind != RT_EVENT_CLOSED)
            continue;
        closed = rt_endpoint_now(endpoint);
        CHECK_MSG(outage->why[i] && strstr(event.error.text, outage->why[i]), "%zu: \"%s\"", i,
                  event.error.text);
    }
    CHECK_MSG(fabs(came - outage->arrives_at[!i]) < 1e-9, "%zu: a frame came at %.9g s", i, came);
    CHECK_MSG(fabs(closed - outage->closed_at[i]) < 1e-9, "%zu: closed at %.9g s", i, closed);
    CHECK(sent == (outage->frame_at[i] > 0));
    rt_link_close(link);
}

static void check_outage(struct outage outage) {
    const struct rt_memnet_settings settings = {.latency = latency, .silence_least = outage.fixed ? 0 : 1};
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&settings, 2, &net, &err));
    CHECK_OK(rt_memnet_schedule(net, outage.faults, outage.count, &err));
    CHECK_OK(rt_memnet_run(net, outage_program, &outage, 100, &err));
    rt_memnet_destroy(net);
}

/* 1 heard the heartbeat of 9.75 last. 0 hears for as long as 1's system sends without acknowledgements. */
TEST(one_direction_is_cut_for_good) {
    const struct rt_sim_fault cut = {10, RT_SIM_CUT_ONE_WAY, 0, 1, 0};
    check_outage((struct outage){.faults = {cut},
                                 .count = 1,
                                 .frame_at = {10.1, 10.15},
                                 .arrives_at = {0, 10.15 + latency},
                                 .closed_at = {10 + latency + 1, 9.75 + latency + 1},
                                 .why = {"has been silent for 1 seconds", "has been silent for 1 seconds"}});
    check_outage((struct outage){.faults = {cut},
                                 .count = 1,
                                 .frame_at = {9.99, 10.25},
                                 .arrives_at = {0, 0},
                                 .closed_at = {10 + latency + 1, 9.75 + latency + 1},
                                 .why = {"has been silent", "has been silent"}});
}

TEST(both_directions_are_cut_for_good) {
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 1, 0, 0}},
                                 .count = 1,
                                 .frame_at = {9.99, 10.1},
                                 .closed_at = {9.75 + latency + 1, 9.75 + latency + 1},
                                 .why = {"has been silent", "has been silent"}});
}

/* Repetitions come 0.2, 0.6 and 1.4 s after the beginning. */
TEST(a_short_outage_only_delays) {
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 0, 1, 0.3}},
                                 .count = 1,
                                 .frame_at = {10.1, 9.99},
                                 .arrives_at = {10.6 + latency, 10.6 + latency}});
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT_ONE_WAY, 0, 1, 0.3}},
                                 .count = 1,
                                 .frame_at = {10.1, 10.1},
                                 .arrives_at = {10.6 + latency, 10.1 + latency}});
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT_ONE_WAY, 0, 1, 0.1}},
                                 .count = 1,
                                 .frame_at = {10.05, 10.05},
                                 .arrives_at = {10.2 + latency, 10.05 + latency}});
    /* The second begins before the first is over, and ends first. */
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 0, 1, 0.3}, {10.1, RT_SIM_UNPLUG, 1, 0, 0.1}},
                                 .count = 2,
                                 .frame_at = {10.1, 9.99},
                                 .arrives_at = {10.6 + latency, 10.6 + latency}});
}

/* The repetition after 0.7 s comes after 1.4 s, when both have given up. */
TEST(a_longer_outage_closes_the_link) {
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 0, 1, 0.7}},
                                 .count = 1,
                                 .frame_at = {10.1, 9.99},
                                 .closed_at = {9.75 + latency + 1, 9.75 + latency + 1},
                                 .why = {"has been silent", "has been silent"}});
}

/* Before enough was measured a peer may be silent for 5 s. */
TEST(a_young_link_has_more_time) {
    check_outage((struct outage){.faults = {{1, RT_SIM_CUT, 0, 1, 2}},
                                 .count = 1,
                                 .frame_at = {1.5, 1.6},
                                 .arrives_at = {4 + latency, 4 + latency}});
    check_outage((struct outage){.faults = {{1, RT_SIM_CUT, 0, 1, 0}},
                                 .count = 1,
                                 .closed_at = {0.75 + latency + 5, 0.75 + latency + 5},
                                 .why = {"has been silent for 5 seconds", "has been silent for 5 seconds"}});
}

/* And always where the bound does not adapt. */
TEST(a_fixed_bound_is_as_long_as_the_setting) {
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 0, 1, 2}},
                                 .count = 1,
                                 .frame_at = {10.5, 10.6},
                                 .arrives_at = {13 + latency, 13 + latency},
                                 .fixed = true});
    check_outage((struct outage){.faults = {{10, RT_SIM_CUT, 0, 1, 0}},
                                 .count = 1,
                                 .closed_at = {9.75 + latency + 5, 9.75 + latency + 5},
                                 .why = {"has been silent for 5 seconds", "has been silent for 5 seconds"},
                                 .fixed = true});
}

/* The end of a link is news that is held up like all else. */
static void news_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    if (i == 1) {
        rt_endpoint_sleep(endpoint, 10.1);
        rt_link_close(link);
        return;
    }
    REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
    CHECK(strstr(event.error.text, "closed the link"));
    CHECK_MSG(fabs(rt_endpoint_now(endpoint) - 10.6 - latency) < 1e-9, "%.9g", rt_endpoint_now(endpoint));
    rt_link_close(link);
}

static void run_with(const struct rt_sim_fault *faults, size_t count, size_t hosts,
                     rt_memnet_program program) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.latency = latency, .silence_least = 1}, hosts,
                              &net, &err));
    CHECK_OK(rt_memnet_schedule(net, faults, count, &err));
    CHECK_OK(rt_memnet_run(net, program, net, 100, &err));
    rt_memnet_destroy(net);
}

TEST(a_close_is_heard_of_after_the_outage) {
    run_with(&(struct rt_sim_fault){10, RT_SIM_CUT, 0, 1, 0.3}, 1, 2, news_program);
}

/* What is posted during an outage is not known to the other side, whose frames wait for it. */
static void credit_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_send send = {.channel = 1};
    struct rt_receive receive = {.channel = 1};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    rt_endpoint_sleep(endpoint, 10.05);
    if (i == 0)
        rt_link_receive(link, &receive); /* and nothing passes from 0 to 1 */
    else
        rt_link_send(link, &send);
    REQUIRE(memnet_expect(endpoint, i == 0 ? RT_EVENT_RECEIVED : RT_EVENT_SENT, &event));
    CHECK_MSG(fabs(rt_endpoint_now(endpoint) - 10.6 - (i == 0 ? latency : 0)) < 1e-9, "%.9g",
              rt_endpoint_now(endpoint));
}

TEST(what_is_posted_is_not_known_through_an_outage) {
    run_with(&(struct rt_sim_fault){10, RT_SIM_CUT_ONE_WAY, 0, 1, 0.3}, 1, 2, credit_program);
}

/* Through a cut in one direction no link is made, either way; when it is over, the next attempt works. */
static void connect_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_error err;
    struct rt_event event;
    struct rt_link *in_vain, *link;
    char address[40];
    snprintf(address, sizeof address, "mem:%d", i == 0);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    rt_endpoint_sleep(endpoint, 1);
    CHECK_OK(rt_endpoint_connect(endpoint, address, 3, &in_vain, &err));
    CHECK_OK(rt_endpoint_connect(endpoint, address, 30, &link, &err));
    REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
    CHECK(event.link == in_vain && rt_endpoint_now(endpoint) == 3);
    CHECK(strcmp(event.error.text, "did not answer in time") == 0);
    for (int k = 0; k < 2; k++) {
        REQUIRE(rt_endpoint_wait(endpoint, 20, &event));
        const bool accepted = event.kind == RT_EVENT_ACCEPTED;
        CHECK(accepted || event.kind == RT_EVENT_CONNECTED);
        CHECK_MSG(rt_endpoint_now(endpoint) == 5 + (accepted ? latency : 2 * latency), "%.9g",
                  rt_endpoint_now(endpoint));
    }
    rt_endpoint_sleep(endpoint, 10); /* and no link before its time */
}

TEST(no_link_is_made_through_an_outage) {
    run_with(&(struct rt_sim_fault){0.5, RT_SIM_CUT_ONE_WAY, 1, 0, 3.75}, 1, 2, connect_program);
}

/* 0 is unplugged: all its links end, and the others' do not. */
static void unplug_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_error err;
    unsigned closed = 0;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    for (size_t to = 0; to < i; to++) {
        char address[40];
        struct rt_link *link;
        snprintf(address, sizeof address, "mem:%zu", to);
        CHECK_OK(rt_endpoint_connect(endpoint, address, INFINITY, &link, &err));
    }
    while (rt_endpoint_wait(endpoint, 20, &event))
        if (event.kind == RT_EVENT_CLOSED) {
            closed++;
            CHECK(i == 0 || strcmp(event.link->peer, "mem:0") == 0);
        }
    CHECK_MSG(closed == (i == 0 ? 3 : 1), "%zu lost %u links", i, closed);
}

TEST(an_unplugged_host_is_lost_to_all) {
    run_with(&(struct rt_sim_fault){10, RT_SIM_UNPLUG, 0, 0, 5}, 1, 4, unplug_program);
}

TEST_MAIN()
