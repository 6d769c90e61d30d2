/* Plans: how many slots, what they are predicted to take, and what the master does besides its layers. */
#include "formats/yaml.h"
#include "learn/stage.h"
#include "plan/plan.h"
#include "ring/flow.h"
#include "support/test.h"

enum { DEVICES = 4, MOST_LAYERS = 20 };

struct world {
    struct rt_job *job;
    struct rt_device device;
    struct rt_model *model;
    struct rt_layer_times times[MOST_LAYERS];
    struct rt_plan_device devices[DEVICES];
    struct rt_plan_question question;
    char yaml[2000];
};

/* Devices that are alike; every operation on a layer with parameters takes a second, the others a tenth. */
static void open_world(struct world *world, const char *model, const char *keys, size_t rows) {
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
    for (size_t i = 0; i < world->model->count; i++) {
        const double seconds = world->model->layers[i]->param_count ? 1 : 0.1;
        world->times[i] = (struct rt_layer_times){seconds, seconds, seconds, 0};
    }
    for (size_t d = 0; d < DEVICES; d++)
        world->devices[d] = (struct rt_plan_device){.name = "device", .layers = world->times};
    world->question = (struct rt_plan_question){.job = world->job,
                                                .model = world->model,
                                                .devices = world->devices,
                                                .count = DEVICES,
                                                .keep_all = true,
                                                .rows = rows};
}

static void close_world(struct world *world) {
    rt_model_destroy(world->model);
    rt_device_close(&world->device);
    rt_job_destroy(world->job);
}

static struct world world;

static struct rt_plan *make_plan(void) {
    struct rt_error err;
    struct rt_plan *plan = NULL;
    const rt_status status = rt_plan_create(&world.question, &plan, &err);
    CHECK_MSG(status == RT_OK, "%s", err.text);
    return plan;
}

/* What the stage of a node really takes, and all that comes on top. */
static size_t node_bytes(const struct rt_plan_node *node) {
    struct rt_error err;
    struct rt_model *model;
    uint32_t index = 0;
    if (rt_model_create(world.job->layers, &world.job->in, node->first, node->count, node->first > 0,
                        world.device.kernels, &index, &model, &err) != RT_OK)
        return 0;
    const size_t stage = rt_stage_bytes(world.job, model, node->slots);
    rt_model_destroy(model);
    const struct rt_shape *shape = node->first ? &world.model->layers[node->first]->in : &world.model->out;
    const size_t messages = RT_FLOW_SEND_BUFFERS + (node->first ? 0 : RT_FLOW_RETURNS);
    return RT_PLAN_PROGRAM_BYTES + stage +
           messages * sizeof(float) * rt_job_micro_rows(world.job) * rt_shape_size(shape);
}

static const char deep[] =
    "input: [96], layers: [dense: 64, relu, dense: 64, relu, dense: 64, relu, dense: 64, "
    "relu, dense: 64, relu, dense: 64, relu, dense: 64, relu, dense: 64]";

/* Slots lie in one block in whole pages: one slot more costs nothing or 2 MiB. The prediction is exact all
 * the same, also where a run begins with an activation that the layer before would have applied. */
TEST(memory_of_any_number_of_slots_is_exact) {
    static const char *const modes[] = {"ring: {mode: ring}", "ring: {mode: ring-flow}"};
    for (size_t mode = 0; mode < 2; mode++)
        for (size_t slots = 1; slots <= 40; slots += 3) {
            char keys[100];
            snprintf(keys, sizeof keys, "batch: 1024, micro_batch: 64, %s", modes[mode]);
            open_world(&world, deep, keys, 64);
            world.times[4].forward = 0.01; /* so that some run begins with a relu */
            world.question.slots = slots;
            struct rt_plan *plan = make_plan();
            for (size_t k = 0; plan && k < plan->nodes; k++)
                CHECK_MSG(plan->node[k].memory == node_bytes(&plan->node[k]),
                          "node %zu, layer %zu, %zu slots: %llu predicted, %zu taken", k, plan->node[k].first,
                          slots, (unsigned long long)plan->node[k].memory, node_bytes(&plan->node[k]));
            rt_plan_destroy(plan);
            close_world(&world);
        }
}

/* Where they are cheap: all of an update on the master, half as many again where inputs of the next update
 * can arrive before the last one is done. */
TEST(cheap_slots_are_taken) {
    open_world(&world, deep, "batch: 64, micro_batch: 4", 4);
    struct rt_plan *plan = make_plan();
    REQUIRE(plan);
    for (size_t k = 0; k < plan->nodes; k++)
        CHECK_MSG(plan->node[k].slots == (k ? 24 : 16), "node %zu: %zu slots", k, plan->node[k].slots);
    rt_plan_destroy(plan);
    close_world(&world);
    /* of very many micro-batches a part is enough */
    open_world(&world, deep, "batch: 4096, micro_batch: 4", 4);
    plan = make_plan();
    REQUIRE(plan);
    for (size_t k = 0; k < plan->nodes; k++)
        CHECK_MSG(plan->node[k].slots >= 16 && plan->node[k].slots <= 256, "node %zu: %zu slots", k,
                  plan->node[k].slots);
    rt_plan_destroy(plan);
    close_world(&world);
    /* in ring-flow each one makes gradients staler: never more than take twice the way round */
    open_world(&world, deep, "batch: 64, micro_batch: 4, ring: {mode: ring-flow}", 4);
    plan = make_plan();
    REQUIRE(plan);
    for (size_t k = 0; k < plan->nodes; k++)
        CHECK_MSG(plan->node[k].slots <= 4 * DEVICES, "node %zu: %zu slots", k, plan->node[k].slots);
    rt_plan_destroy(plan);
    /* and one device alone has nothing to wait for */
    world.question.count = 1;
    plan = make_plan();
    REQUIRE(plan);
    CHECK_MSG(plan->node[0].slots == 1, "alone: %zu slots", plan->node[0].slots);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Where they are not, the plan keeps to what it needs and half of that, whatever there is; and to the offer
 * of a device. */
TEST(dear_slots_are_spared) {
    open_world(&world, deep, "batch: 262144, micro_batch: 16384", 16384);
    struct rt_plan *plan = make_plan();
    REQUIRE(plan);
    for (size_t k = 1; k < plan->nodes; k++) {
        CHECK_MSG(plan->node[k].slots < 24, "node %zu: %zu slots", k, plan->node[k].slots);
        CHECK_MSG(plan->node[k].slots > 8, "node %zu: %zu slots", k, plan->node[k].slots);
    }
    const size_t slots = plan->node[2].slots;
    const uint64_t memory = plan->node[2].memory;
    rt_plan_destroy(plan);
    world.devices[2].memory = memory * 9 / 10;
    plan = make_plan();
    REQUIRE(plan);
    CHECK(plan->node[2].memory <= memory * 9 / 10);
    CHECK_MSG(plan->node[2].slots < slots && plan->node[2].slots + 3 >= slots * 9 / 10,
              "%zu slots, %zu without a limit", plan->node[2].slots, slots);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Inputs and the loss that take as long as two layers of the eight are worth two layers less. */
TEST(the_masters_own_work_counts) {
    static const char plain[] = "input: [8], layers: [dense: 8, dense: 8, dense: 8, dense: 8, dense: 8, "
                                "dense: 8, dense: 8, dense: 8, dense: 8, dense: 8]";
    open_world(&world, plain, "batch: 64, micro_batch: 4", 4);
    world.question.count = 2;
    struct rt_plan *plan = make_plan();
    REQUIRE(plan);
    CHECK(plan->node[0].count == 5);
    const double busy = plan->node[0].busy;
    rt_plan_destroy(plan);
    world.question.master_inputs = 2 / 4.0; /* a layer takes three seconds for four rows */
    world.question.master_loss = 4 / 4.0;
    plan = make_plan();
    REQUIRE(plan);
    CHECK_MSG(plan->node[0].count == 4, "%zu layers", plan->node[0].count);
    CHECK_MSG(plan->node[0].busy > busy + 16 * 2.9 && plan->node[0].busy < busy + 16 * 3.1, "%f and %f busy",
              busy, plan->node[0].busy);
    CHECK_MSG(plan->idle_fraction < 0.02, "idle %f", plan->idle_fraction);
    rt_plan_destroy(plan);
    world.question.master_loss = -1;
    struct rt_error err;
    CHECK(rt_plan_create(&world.question, &plan, &err) == RT_BAD_INPUT);
    close_world(&world);
}

TEST_MAIN()
