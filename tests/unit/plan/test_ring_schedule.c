/*
 * The simulation of the ring's schedule. The golden figures are those of an independent simulation of the
 * same rules in Python (equal nodes, times of 1 for F, B and W, 20 updates), in which links only delay and
 * slots are without limit; "window": micro-batches in flight, counted at the master.
 */
#include "base/clock.h"
#include "plan/schedule.h"
#include "support/test.h"
#include <math.h>

enum { MOST = 16 };

static struct rt_schedule_result result; /* large */

/* Nodes that are all alike. */
static void make_nodes(struct rt_schedule_node *nodes, size_t count, double hop, double latency,
                       size_t slots) {
    for (size_t k = 0; k < count; k++)
        nodes[k] = (struct rt_schedule_node){.forward = 1,
                                             .input = 1,
                                             .weights = 1,
                                             .hop_forward = hop,
                                             .hop_backward = hop,
                                             .latency = latency,
                                             .slots = slots};
}

static double idle_of(const struct rt_schedule_settings *settings) {
    struct rt_error err;
    err.text[0] = 0;
    double busy = 0;
    if (rt_schedule_simulate(settings, &result, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return NAN;
    }
    for (size_t k = 0; k < settings->count; k++)
        busy += result.busy[k];
    return 1 - busy / ((double)settings->count * result.seconds);
}

TEST(split_idles_as_the_other_simulation_says) {
    static const struct {
        size_t count, micros;
        double latency, loss, idle;
    } cases[] = {
        {1, 4, 0, 0.05, 0},         {2, 8, 0, 0.05, 0.009415},    {4, 16, 0, 0, 0.003115},
        {4, 16, 0, 0.05, 0.014516}, {4, 16, 0.5, 0.05, 0.016025}, {4, 16, 1, 0.05, 0.017530},
        {8, 32, 0, 0, 0.003633},    {8, 32, 0.5, 0.05, 0.018818},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_schedule_node nodes[MOST];
        make_nodes(nodes, cases[i].count, 0, cases[i].latency, 1000);
        const struct rt_schedule_settings settings = {.nodes = nodes,
                                                      .count = cases[i].count,
                                                      .micros = cases[i].micros,
                                                      .updates = 20,
                                                      .loss = cases[i].loss,
                                                      .split = true};
        const double idle = idle_of(&settings);
        CHECK_MSG(fabs(idle - cases[i].idle) < 1e-6, "case %zu: idle %f", i, idle);
    }
}

/* Here many things happen at the same moment, and which of two gets the node first is a matter of taste. */
TEST(one_backward_idles_as_the_other_simulation_says) {
    static const struct {
        size_t count, micros, window;
        double latency, loss, idle;
    } cases[] = {
        {4, 16, 1000, 0, 0, 0.157895}, {4, 16, 1000, 1, 0.05, 0.259032},   {4, 16, 8, 0, 0.05, 0.161739},
        {4, 16, 8, 1, 0.05, 0.333333}, {4, 16, 1000, 0.5, 0.05, 0.210483}, {8, 32, 1000, 0, 0, 0.186441},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_schedule_node nodes[MOST];
        make_nodes(nodes, cases[i].count, 0, cases[i].latency, 1000);
        nodes[0].slots = cases[i].window;
        const struct rt_schedule_settings settings = {.nodes = nodes,
                                                      .count = cases[i].count,
                                                      .micros = cases[i].micros,
                                                      .updates = 20,
                                                      .loss = cases[i].loss};
        const double idle = idle_of(&settings);
        CHECK_MSG(fabs(idle - cases[i].idle) < 0.012, "case %zu: idle %f", i, idle);
    }
}

TEST(slots_of_an_update_are_as_good_as_any) {
    struct rt_schedule_node nodes[4];
    struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 4, .micros = 16, .updates = 20, .loss = 0.05, .split = true};
    make_nodes(nodes, 4, 0.1, 0.1, 16);
    const double idle = idle_of(&settings);
    double before = 1;
    for (size_t slots = 1; slots < 16; slots++) {
        make_nodes(nodes, 4, 0.1, 0.1, slots);
        const double fewer = idle_of(&settings);
        CHECK_MSG(fewer >= idle - 1e-9 && fewer <= before, "%zu slots: %f after %f", slots, fewer, before);
        before = fewer;
    }
    CHECK(idle < 0.02);
}

/* One micro-batch at a time: 2N hops and the work of all, one after another (`ring-one`). */
TEST(one_micro_batch_goes_round_and_back) {
    struct rt_schedule_node nodes[3];
    make_nodes(nodes, 3, 0.5, 0.25, 1);
    const struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 3, .micros = 1, .updates = 4, .loss = 0.125, .split = true};
    idle_of(&settings);
    /* F of all, loss, B of all, and the master's W; the others' Ws are done meanwhile. */
    const double one = 3 + 0.125 + 3 + 1 + 6 * 0.75;
    CHECK_MSG(fabs(result.seconds - 4 * one) < 1e-9, "%f", result.seconds);
    CHECK(fabs(result.update_seconds - one) < 1e-9);
}

TEST(a_slow_link_or_port_is_the_pace) {
    struct rt_schedule_node nodes[4];
    make_nodes(nodes, 4, 0, 0, 64);
    const struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 4, .micros = 64, .updates = 10, .split = true};
    nodes[1].hop_forward = 5;
    idle_of(&settings);
    CHECK_MSG(result.update_seconds > 320 && result.update_seconds < 340, "%f", result.update_seconds);
    /* Node 2 sends its activations and its gradients through one port. */
    nodes[1].hop_forward = 0;
    nodes[2].hop_forward = 2;
    nodes[1].hop_backward = 2;
    idle_of(&settings);
    CHECK_MSG(result.update_seconds > 256 && result.update_seconds < 275, "%f", result.update_seconds);
}

TEST(a_slow_node_is_the_pace) {
    struct rt_schedule_node nodes[4];
    make_nodes(nodes, 4, 0.1, 0.1, 32);
    nodes[2].forward = nodes[2].input = nodes[2].weights = 3;
    nodes[2].update = 10;
    const struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 4, .micros = 32, .updates = 10, .loss = 0.05, .split = true};
    idle_of(&settings);
    CHECK_MSG(result.update_seconds > 32 * 9 + 10 - 1e-6 && result.update_seconds < 1.03 * (32 * 9 + 10),
              "%f", result.update_seconds);
    CHECK(fabs(result.busy[2] - 10 * (32 * 9 + 10)) < 1e-6);
    CHECK(fabs(result.busy[0] - 10 * 32 * 3.05) < 1e-6);
}

/* No node updates before the last has all its gradients and the norm has gone round, twice for some. */
TEST(clipping_waits_for_all) {
    struct rt_schedule_node nodes[3];
    make_nodes(nodes, 3, 0, 0.5, 8);
    struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 3, .micros = 8, .updates = 6, .split = true};
    idle_of(&settings);
    const double without = result.update_seconds;
    settings.clip = true;
    idle_of(&settings);
    CHECK_MSG(result.update_seconds > without + 1.4, "%f, without %f", result.update_seconds, without);
    CHECK(result.update_seconds < without + 12);
}

TEST(flow_never_drains) {
    struct rt_schedule_node nodes[4];
    make_nodes(nodes, 4, 0.2, 0.1, 12);
    for (size_t k = 0; k < 4; k++)
        nodes[k].update = 0.5;
    const struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 4, .micros = 1, .updates = 200, .split = true, .flow = true};
    idle_of(&settings);
    CHECK_MSG(result.update_seconds < 3.5 * 1.02, "%f", result.update_seconds);
}

TEST(bad_schedules_are_refused) {
    struct rt_error err;
    struct rt_schedule_node nodes[2];
    make_nodes(nodes, 2, 0, 0, 1);
    struct rt_schedule_settings settings = {.nodes = nodes, .count = 2, .micros = 1, .updates = 1};
    settings.count = 0;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
    settings.count = RT_MAX_NODES + 1;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
    settings.count = 2;
    settings.micros = 0;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
    settings.micros = 1;
    nodes[1].slots = 0;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
    CHECK(strstr(err.text, "node 1"));
    nodes[1].slots = 1;
    nodes[1].latency = NAN;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
    nodes[1].latency = -1;
    CHECK(rt_schedule_simulate(&settings, &result, &err) == RT_BAD_INPUT);
}

/* The planner asks hundreds of times. The bound is loose: sanitizers and busy machines must pass it. */
TEST(a_simulation_is_quick) {
    struct rt_schedule_node nodes[8];
    make_nodes(nodes, 8, 0.1, 0.01, 40);
    const struct rt_schedule_settings settings = {
        .nodes = nodes, .count = 8, .micros = 64, .updates = 10, .loss = 0.05, .split = true};
    const double start = rt_clock_process();
    for (size_t i = 0; i < 10; i++)
        idle_of(&settings);
    const double each = (rt_clock_process() - start) / 10;
    CHECK_MSG(each < 0.03, "%f ms", 1e3 * each);
}

TEST_MAIN()
