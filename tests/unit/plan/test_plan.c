/* Plans, from made-up times: which device holds what, which are left out, messages. */
#include "plan_rig.h"

#include "base/clock.h"
#include "ring/flow.h"
#include <math.h>

TEST(equal_devices_share_equally) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(16, "4"), "batch: 64, micro_batch: 4", 4, 4);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    REQUIRE(plan->nodes == 4);
    for (size_t k = 0; k < 4; k++)
        CHECK(plan->node[k].count == 4);
    CHECK(plan->micros == 16 && plan->micro_batch == 4);
    /* 16 micro-batches of 4 layers and 3 operations: 192 s per update without any waiting. */
    CHECK_MSG(plan->idle_fraction < 0.02, "idle %f", plan->idle_fraction);
    CHECK_MSG(plan->samples_per_s > 0.98 * 64 / 192 && plan->samples_per_s <= 64 / 192.0, "%f samples/s",
              plan->samples_per_s);
    CHECK(fabs(plan->node[1].busy - 192) < 1e-6);
    CHECK(plan->node[1].link_bytes == 2 * 64 * 4 * sizeof(float));
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Speeds 10:10:1 with 21 layers: 10, 10 and 1 of them against 7 each. */
TEST(unequal_devices_share_by_speed) {
    struct rt_error err;
    struct rt_plan *plan, *even;
    open_world(&world, dense(21, "4"), "batch: 64, micro_batch: 2", 3, 2);
    slow_down(&world, 2, 10);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    world.question.even = true;
    CHECK_OK(rt_plan_create(&world.question, &even, &err));
    check_plan(plan, &world);
    check_plan(even, &world);
    REQUIRE(plan->nodes == 3 && even->nodes == 3);
    CHECK(plan->node[0].count == 10 && plan->node[1].count == 10 && plan->node[2].count == 1);
    CHECK(even->node[0].count == 7 && even->node[1].count == 7 && even->node[2].count == 7);
    const double ratio = plan->samples_per_s / even->samples_per_s;
    CHECK_MSG(ratio > 6.7 && ratio < 7.1, "ratio %f", ratio);
    rt_plan_destroy(plan);
    rt_plan_destroy(even);
    close_world(&world);
}

TEST(a_device_that_slows_the_ring_is_left_out) {
    struct rt_error err;
    struct rt_plan *plan;
    for (size_t slow = 1; slow < 4; slow++) {
        open_world(&world, dense(12, "4"), "batch: 64, micro_batch: 4", 4, 4);
        slow_down(&world, slow, 50);
        CHECK_OK(rt_plan_create(&world.question, &plan, &err));
        check_plan(plan, &world);
        REQUIRE(plan->nodes == 3 && plan->left_out_count == 1);
        CHECK(plan->left_out[0] == slow);
        CHECK(plan->without_them == plan->samples_per_s);
        CHECK_MSG(plan->with_them > 0 && plan->with_them < 0.5 * plan->without_them, "%f with, %f without",
                  plan->with_them, plan->without_them);
        rt_plan_destroy(plan);
        world.question.keep_all = true;
        CHECK_OK(rt_plan_create(&world.question, &plan, &err));
        CHECK(plan->nodes == 4 && plan->left_out_count == 0);
        rt_plan_destroy(plan);
        close_world(&world);
    }
}

/* Nothing is gained by the fourth of four when one layer takes as long as all others, and nothing is lost. */
TEST(a_device_that_does_no_harm_is_kept) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(7, "4"), "batch: 64, micro_batch: 4", 4, 4);
    for (size_t d = 0; d < 4; d++)
        world.times[d][3] = (struct rt_layer_times){10, 10, 10, 0};
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK_MSG(plan->nodes == 4, "%zu nodes", plan->nodes);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Behind a link that takes longer than the work a device does harm, however fast it is. */
TEST(a_device_behind_a_slow_link_is_left_out) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(9, "4"), "batch: 64, micro_batch: 4", 3, 4);
    world.devices[0].bandwidth = 1e6;
    world.devices[1].bandwidth = world.devices[2].bandwidth = 1;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    REQUIRE(plan->nodes == 2 && plan->left_out_count == 1);
    CHECK(plan->left_out[0] == 2);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(a_wide_cut_is_avoided_on_a_slow_link) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world,
               "input: [8], layers: [dense: 8, dense: 1000, dense: 8, dense: 8, dense: 1000, dense: 8]",
               "batch: 64, micro_batch: 8", 2, 8);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->node[0].count == 3);
    rt_plan_destroy(plan);
    /* all layers alike in time, so the middle is best, unless it is too wide for the link */
    close_world(&world);
    open_world(&world, "input: [8], layers: [dense: 8, dense: 8, dense: 1000, dense: 8, dense: 8, dense: 8]",
               "batch: 64, micro_batch: 8", 2, 8);
    world.devices[0].bandwidth = world.devices[1].bandwidth = 2000;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK_MSG(plan->nodes == 2 && plan->node[0].count != 3, "%zu layers", plan->node[0].count);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* ---- the master ---- */

TEST(the_master_holds_a_layer_with_parameters) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, "input: [2, 3, 3], layers: [relu, flatten, relu, dense: 4, dense: 4]",
               "batch: 8, micro_batch: 1", 2, 1);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK(plan->nodes == 2 && plan->node[0].count == 4);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(the_tail_is_the_masters) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(12, "4"), "batch: 64, micro_batch: 4", 3, 4);
    world.question.master_tail = 2;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    REQUIRE(plan->nodes == 3);
    CHECK(plan->tail == 2);
    CHECK_MSG(plan->node[0].count == 2 && plan->node[1].count == 4 && plan->node[2].count == 4,
              "%zu, %zu and %zu layers", plan->node[0].count, plan->node[1].count, plan->node[2].count);
    CHECK(fabs(plan->node[0].busy - plan->node[1].busy) < 0.02 * plan->node[1].busy);
    CHECK(plan->idle_fraction < 0.05);
    const size_t back = RT_PLAN_PROGRAM_BYTES + RT_FLOW_SEND_BUFFERS * 4 * 4 * sizeof(float);
    CHECK(plan->node[0].memory ==
          stage_bytes(0, 2, plan->node[0].slots) + stage_bytes(10, 2, plan->node[0].slots) + back);
    rt_plan_destroy(plan);
    /* alone it holds everything once */
    slow_down(&world, 1, 1e4);
    slow_down(&world, 2, 1e4);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK(plan->nodes == 1 && plan->tail == 0 && plan->node[0].count == 12 && plan->left_out_count == 2);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* ---- other modes ---- */

TEST(flow_and_evaluation_have_plans) {
    static const char *const keys[] = {"batch: 4, ring: {mode: ring-flow}",
                                       "batch: 64, evaluate_only: true",
                                       "batch: 1",
                                       "batch: 64, micro_batch: 4, ring: {order: 1f1b}",
                                       "batch: 64, micro_batch: 4, clip_norm: 1",
                                       "batch: 2048, micro_batch: 1"};
    struct rt_error err;
    struct rt_plan *plan;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        open_world(&world, dense(8, "4"), keys[i], 4, 1);
        world.question.keep_all = true;
        CHECK_OK(rt_plan_create(&world.question, &plan, &err));
        check_plan(plan, &world);
        CHECK(plan->nodes == 4);
        CHECK(plan->samples_per_s > 0);
        CHECK_MSG(plan->idle_fraction >= 0 && plan->idle_fraction < 0.8, "%s: idle %f", keys[i],
                  plan->idle_fraction);
        rt_plan_destroy(plan);
        close_world(&world);
    }
}

TEST(one_device_has_a_plan) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, "input: [2, 3, 3], layers: [relu, flatten]", "batch: 8", 1, 1);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK(plan->nodes == 1 && plan->idle_fraction < 1e-6 && plan->node[0].link_bytes == 0);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* ---- sentences ---- */

static void refuse(const char *said, int line) {
    struct rt_error err;
    struct rt_plan *plan;
    err.text[0] = 0;
    const rt_status status = rt_plan_create(&world.question, &plan, &err);
    if (status != RT_BAD_INPUT || !strstr(err.text, said))
        rt_test_fail(__FILE__, line, "status %d: %s", (int)status, err.text);
    if (status == RT_OK)
        rt_plan_destroy(plan);
}

TEST(what_cannot_be_is_explained) {
    open_world(&world, "input: [2, 3, 3], layers: [flatten, dense: 4, relu, dense: 4]",
               "batch: 8, micro_batch: 1", 5, 1);
    refuse("at most 3 nodes", __LINE__);
    world.question.master_tail = 1;
    refuse("at most 2 nodes", __LINE__);
    world.question.master_tail = 4;
    refuse("cluster.master_tail is 4", __LINE__);
    close_world(&world);

    open_world(&world, "input: [2, 3, 3], layers: [flatten, relu, relu]", "batch: 8, micro_batch: 1", 2, 1);
    refuse("no layer of this model has parameters", __LINE__);
    close_world(&world);

    /* 1000 x 1000 weights, gradients and momentum, and an image of weights and momentum: 20 MB and a little
     */
    open_world(&world, "input: [10], layers: [dense: 1000, dense: 1000, dense: 10]",
               "batch: 8, optimizer: momentum", 2, 1);
    world.devices[0].memory = 14 << 20;
    world.devices[1].memory = 18 << 20;
    refuse("layer 1 (dense) needs 31.8 MiB", __LINE__);
    refuse("the largest offer is 18.0 MiB, from pi1", __LINE__);
    refuse("run.yaml:1: ", __LINE__);
    world.devices[0].memory = 1000;
    world.devices[1].memory = 64 << 20;
    refuse("the master offers 1.0 KiB", __LINE__);
    close_world(&world);

    open_world(&world, "input: [10], layers: [dense: 1000, dense: 1000, dense: 1000, dense: 1000, dense: 10]",
               "batch: 8, optimizer: momentum", 2, 1);
    world.devices[0].memory = world.devices[1].memory = 40 << 20;
    refuse("the model does not fit on these devices", __LINE__);
    close_world(&world);
}

/* ---- the table ---- */

TEST(the_table_says_it_all) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world,
               "input: [1, 8, 8], layers: [conv2d: {filters: 4, kernel: 3}, relu, flatten, "
               "dense: 32, relu, dense: 32, relu, dense: 10]",
               "batch: 64, micro_batch: 4", 3, 4);
    slow_down(&world, 2, 1000);
    world.devices[0].bandwidth = world.devices[1].bandwidth = world.devices[2].bandwidth = 1e6;
    world.devices[1].name = "pi\x1b[2J";
    world.question.master_tail = 1;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    REQUIRE(out);
    rt_plan_print(plan, &world.question, out);
    fclose(out);
    static const char *const said[] = {"node",
                                       "device",
                                       "layers",
                                       "params",
                                       "slots",
                                       "memory",
                                       "idle",
                                       "master",
                                       "0-",
                                       " + 7 dense",
                                       "busy",
                                       " link",
                                       "samples/s",
                                       "16 micro-batches of 4",
                                       "pi2 is left out: ",
                                       "pi?[2J"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        CHECK_MSG(strstr(text, said[i]), "no \"%s\" in:\n%s", said[i], text);
    CHECK(!strchr(text, 0x1b));
    free(text);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* `ringtmp train` makes a plan at the start of every run. */
TEST(a_plan_is_quick) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(32, "4"), "batch: 256", 8, 16);
    for (size_t d = 0; d < 8; d++) {
        slow_down(&world, d, 1 + (double)d);
        world.devices[d].memory = 14 << 20;
    }
    const double start = rt_clock_process();
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    const double seconds = rt_clock_process() - start;
    CHECK_MSG(seconds < 5, "%f s", seconds);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST_MAIN()
