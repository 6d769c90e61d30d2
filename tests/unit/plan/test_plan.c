/* Plans, from made-up times: which device holds what, which are left out, memory, micro-batches, messages. */
#include "base/clock.h"
#include "formats/yaml.h"
#include "plan/plan.h"
#include "ring/flow.h"
#include "support/test.h"
#include <math.h>

enum { MOST_DEVICES = 8, MOST_LAYERS = 32 };

struct world {
    struct rt_job *job;
    struct rt_device device;
    struct rt_model *model;
    struct rt_layer_times times[MOST_DEVICES][MOST_LAYERS], more[MOST_DEVICES][MOST_LAYERS];
    struct rt_plan_device devices[MOST_DEVICES];
    struct rt_plan_question question;
    char yaml[4000];
};

static const char *const names[] = {"master", "pi1", "pi2", "pi3", "pi4", "pi5", "pi6", "pi7"};

/* Devices that are all alike and take a second for each operation on each layer, a row being a micro-batch
 * of `rows`. */
static void open_world(struct world *world, const char *model, const char *keys, size_t count, size_t rows) {
    struct rt_error err;
    struct rt_tree *tree;
    *world = (struct world){0};
    snprintf(world->yaml, sizeof world->yaml, "{learner: ring, %s, loss: mse, %s}", model, keys);
    CHECK_OK(rt_yaml_parse(world->yaml, strlen(world->yaml), "run.yaml", &tree, &err));
    CHECK_OK(rt_job_create(tree, &world->job, &err));
    CHECK_OK(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &world->device, &err));
    uint32_t index = 0;
    CHECK_OK(rt_model_create(world->job->layers, &world->job->in, 0, SIZE_MAX, false, world->device.kernels,
                             &index, &world->model, &err));
    REQUIRE(world->model->count <= MOST_LAYERS);
    for (size_t d = 0; d < count; d++) {
        for (size_t i = 0; i < MOST_LAYERS; i++)
            world->times[d][i] = (struct rt_layer_times){1, 1, 1, 0};
        world->devices[d] = (struct rt_plan_device){
            .name = names[d], .layers = world->times[d], .more_layers = world->more[d]};
    }
    world->question = (struct rt_plan_question){
        .job = world->job, .model = world->model, .devices = world->devices, .count = count, .rows = rows};
}

static void close_world(struct world *world) {
    rt_model_destroy(world->model);
    rt_device_close(&world->device);
    rt_job_destroy(world->job);
}

static void slow_down(struct world *world, size_t device, double factor) {
    for (size_t i = 0; i < MOST_LAYERS; i++) {
        struct rt_layer_times *times = &world->times[device][i];
        *times = (struct rt_layer_times){times->forward * factor, times->input * factor,
                                         times->weights * factor, times->update * factor};
    }
}

/* "dense: 4" so many times. */
static const char *dense(size_t count, const char *input) {
    static char text[2000];
    int at = snprintf(text, sizeof text, "input: [%s], layers: [", input);
    for (size_t i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%sdense: 4", i ? ", " : "");
    snprintf(text + at, sizeof text - (size_t)at, "]");
    return text;
}

/* Every layer belongs to exactly one node, in order. */
static void check_plan(const struct rt_plan *plan, const struct world *world) {
    size_t next = 0;
    for (size_t k = 0; k < plan->nodes; k++) {
        CHECK(plan->node[k].first == next);
        CHECK(plan->node[k].count >= 1);
        CHECK(plan->node[k].slots >= 1);
        CHECK(k == 0 ? plan->node[k].device == 0 : plan->node[k].device > plan->node[k - 1].device);
        next += plan->node[k].count;
        const uint64_t memory = world->devices[plan->node[k].device].memory;
        CHECK_MSG(memory == 0 || plan->node[k].memory <= memory, "node %zu: %llu of %llu bytes", k,
                  (unsigned long long)plan->node[k].memory, (unsigned long long)memory);
    }
    CHECK(next + plan->tail == world->model->count);
    CHECK(plan->nodes + plan->left_out_count == world->question.count);
}

static struct world world; /* large */

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

/* ---- memory ---- */

/* Bytes of a run of layers as its stage takes them. */
static size_t stage_bytes(size_t first, size_t count, size_t slots) {
    struct rt_error err;
    struct rt_model *model;
    uint32_t index = 0;
    if (rt_model_create(world.job->layers, &world.job->in, first, count, first > 0, world.device.kernels,
                        &index, &model, &err) != RT_OK)
        return 0;
    const size_t bytes = rt_stage_bytes(world.job, model, slots);
    rt_model_destroy(model);
    return bytes;
}

/* The same, the program, and the messages of a node that is not alone: gradients on their way back, outputs
 * on the master. */
static size_t node_bytes(size_t first, size_t count, size_t slots) {
    const struct rt_shape *shape = first ? &world.model->layers[first]->in : &world.model->out;
    const size_t messages = RT_FLOW_SEND_BUFFERS + (first ? 0 : RT_FLOW_RETURNS);
    return RT_PLAN_PROGRAM_BYTES + stage_bytes(first, count, slots) +
           messages * sizeof(float) * rt_job_micro_rows(world.job) * rt_shape_size(shape);
}

TEST(memory_is_what_the_stages_take) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world,
               "input: [1, 8, 8], layers: [conv2d: {filters: 4, kernel: 3}, relu, flatten, "
               "dense: 32, relu, dense: 10]",
               "batch: 64, micro_batch: 4, optimizer: adam", 3, 4);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    for (size_t k = 0; k < plan->nodes; k++) {
        const struct rt_plan_node *node = &plan->node[k];
        CHECK_MSG(node->memory == node_bytes(node->first, node->count, node->slots),
                  "node %zu: %llu, the stage takes %zu", k, (unsigned long long)node->memory,
                  node_bytes(node->first, node->count, node->slots));
    }
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Whatever the limits: either they are kept, or no cut keeps them. */
TEST(memory_limits_are_kept) {
    struct rt_error err;
    uint32_t random = 5;
    size_t plans = 0, refusals = 0;
    for (size_t trial = 0; trial < 60; trial++) {
        struct rt_plan *plan;
        open_world(&world,
                   "input: [2, 6, 6], layers: [flatten, dense: 40, relu, dense: 30, relu, dense: 60, "
                   "flatten, dense: 10]",
                   "batch: 32, micro_batch: 4, optimizer: momentum", 3, 4);
        world.question.keep_all = trial % 2;
        const double all = (double)stage_bytes(0, 8, 1);
        for (size_t d = 0; d < 3; d++) {
            random = random * 1664525u + 1013904223u;
            world.devices[d].memory =
                RT_PLAN_PROGRAM_BYTES + (uint64_t)(all * (0.1 + 0.9 * (random >> 8) * 0x1p-24));
        }
        /* all cuts in three or fewer, by hand; the master holds layer 1 at least */
        bool possible = RT_PLAN_PROGRAM_BYTES + stage_bytes(0, 8, 1) <= world.devices[0].memory &&
                        !world.question.keep_all;
        for (size_t a = 2; a < 8; a++) {
            if (node_bytes(0, a, 1) > world.devices[0].memory)
                continue;
            for (size_t b = a + 1; b < 8; b++)
                possible = possible || (node_bytes(a, b - a, 1) <= world.devices[1].memory &&
                                        node_bytes(b, 8 - b, 1) <= world.devices[2].memory);
            for (size_t d = 1; d < 3; d++)
                possible = possible ||
                           (!world.question.keep_all && node_bytes(a, 8 - a, 1) <= world.devices[d].memory);
        }
        err.text[0] = 0;
        const rt_status status = rt_plan_create(&world.question, &plan, &err);
        CHECK_MSG((status == RT_OK) == possible, "trial %zu: %s", trial, err.text);
        if (status == RT_OK) {
            check_plan(plan, &world);
            rt_plan_destroy(plan);
            plans++;
        } else {
            CHECK(status == RT_BAD_INPUT && err.text[0]);
            refusals++;
        }
        close_world(&world);
    }
    CHECK_MSG(plans > 10 && refusals > 5, "%zu plans, %zu refusals", plans, refusals);
}

/* A cut that leaves room for more slots beats one that is even but has room for one. */
TEST(room_for_slots_counts) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world,
               "input: [64], layers: [dense: 64, dense: 64, dense: 64, dense: 64, dense: 64, dense: 64, "
               "dense: 64, dense: 64]",
               "batch: 32, micro_batch: 1", 2, 1);
    world.devices[0].latency = world.devices[1].latency = 2;
    world.devices[1].memory = node_bytes(4, 4, 1) + 100;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    check_plan(plan, &world);
    CHECK_MSG(plan->node[1].slots > 1 && plan->node[1].count == 3, "%zu slots, %zu layers",
              plan->node[1].slots, plan->node[1].count);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(slots_can_be_given) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(8, "4"), "batch: 64, micro_batch: 4", 4, 4);
    world.question.slots = 3;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    for (size_t k = 0; k < plan->nodes; k++)
        CHECK(plan->node[k].slots == 3);
    const double few = plan->samples_per_s;
    rt_plan_destroy(plan);
    world.question.slots = 0;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->samples_per_s > 1.1 * few);
    for (size_t k = 0; k < plan->nodes; k++)
        CHECK(plan->node[k].slots > 3 && plan->node[k].slots <= (k ? 24 : 16));
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

/* ---- micro-batches ---- */

TEST(micro_batches_are_chosen) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, dense(8, "4"), "batch: 256", 4, 16);
    /* nothing but rows costs time: small ones fill the ring best, and the largest of the good ones is taken
     */
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    const size_t in_proportion = plan->micro_batch;
    CHECK_MSG(plan->micros >= 16, "%zu micro-batches", plan->micros);
    CHECK(plan->idle_fraction < 0.05);
    rt_plan_destroy(plan);
    /* every operation costs as much as 8 rows, whatever its size: larger ones are better */
    world.question.more_rows = 32;
    for (size_t d = 0; d < 4; d++)
        for (size_t i = 0; i < 8; i++) {
            world.times[d][i] = (struct rt_layer_times){24, 24, 24, 0};
            world.more[d][i] = (struct rt_layer_times){40, 40, 40, 0};
        }
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK_MSG(plan->micro_batch > in_proportion, "%zu rows, %zu in proportion", plan->micro_batch,
              in_proportion);
    CHECK(plan->micro_batch < 256);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(batchnorm_keeps_the_whole_batch) {
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, "input: [4], layers: [dense: 4, residual: [dense: 4, batchnorm], dense: 4]",
               "batch: 64, shards: 2", 2, 16);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->micro_batch == 32 && plan->micros == 2);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(sizes_to_measure) {
    static const struct {
        const char *keys;
        size_t devices, rows, more;
    } cases[] = {
        {"batch: 64, micro_batch: 4", 4, 4, 0},
        {"batch: 128", 4, 2, 16},
        {"batch: 1", 4, 1, 0},
        {"batch: 3", 2, 1, 3},
        {"batch: 64, micro_batch: 64", 1, 64, 0},
        {"batch: 64, shards: 64", 1, 1, 0},
        {"batch: 1024", 1, 64, 512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t rows, more;
        open_world(&world, dense(2, "4"), cases[i].keys, 1, 1);
        rt_plan_rows(world.job, cases[i].devices, &rows, &more);
        CHECK_MSG(rows == cases[i].rows && more == cases[i].more, "%s: %zu and %zu", cases[i].keys, rows,
                  more);
        close_world(&world);
    }
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
