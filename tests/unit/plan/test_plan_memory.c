/* Plans, from made-up times: memory, slots, and sizes of micro-batches. */
#include "plan_rig.h"

#include "ring/flow.h"

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

TEST_MAIN()
