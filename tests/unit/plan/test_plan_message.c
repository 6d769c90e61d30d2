/* What passes between two nodes must fit into a message: smaller micro-batches are planned, or the reason is
 * told before anything is sent. */
#include "formats/yaml.h"
#include "plan/plan.h"
#include "ring/flow.h"
#include "support/test.h"
#include <stdlib.h>

enum { DEVICES = 2, LAYERS = 8 };

struct world {
    struct rt_job *job;
    struct rt_device device;
    struct rt_model *model;
    struct rt_layer_times times[LAYERS];
    struct rt_plan_device devices[DEVICES];
    struct rt_plan_question question;
};

static void open_world(struct world *world, const char *layers, const char *keys) {
    struct rt_error err;
    struct rt_tree *tree;
    char text[400];
    uint32_t index = 0;
    snprintf(text, sizeof text, "{learner: ring, input: [4], layers: [%s], loss: mse, batch: 1024, %s}",
             layers, keys);
    CHECK_OK(rt_yaml_parse(text, strlen(text), "run.yaml", &tree, &err));
    CHECK_OK(rt_job_create(tree, &world->job, &err));
    CHECK_OK(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &world->device, &err));
    CHECK_OK(rt_model_create(world->job->layers, &world->job->in, 0, SIZE_MAX, false, world->device.kernels,
                             &index, &world->model, &err));
    REQUIRE(world->model->count <= LAYERS);
    for (size_t i = 0; i < LAYERS; i++)
        world->times[i] = (struct rt_layer_times){1, 1, 1, 0};
    for (size_t d = 0; d < DEVICES; d++)
        world->devices[d] = (struct rt_plan_device){.name = d ? "pi" : "master", .layers = world->times};
    world->question = (struct rt_plan_question){
        .job = world->job, .model = world->model, .devices = world->devices, .count = DEVICES, .rows = 16};
}

static void close_world(struct world *world) {
    rt_model_destroy(world->model);
    rt_device_close(&world->device);
    rt_job_destroy(world->job);
}

static void check_message(const struct rt_plan *plan, const struct world *world) {
    for (size_t k = 0; plan->nodes > 1 && k < plan->nodes; k++) {
        const size_t end = plan->node[k].first + plan->node[k].count;
        const struct rt_shape *shape =
            end < world->model->count ? &world->model->layers[end]->in : &world->model->out;
        CHECK((double)plan->micro_batch * 4 * ((double)rt_shape_size(shape) + 1) <= RT_MAX_TENSOR_BYTES);
    }
}

/* One example of a million numbers is 4 MB: 256 of them fit, 1,024 do not. */
TEST(micro_batches_are_small_enough) {
    struct world world;
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, "dense: 1000000, relu, layernorm, tanh", "seed: 1");
    world.question.keep_all = true;
    /* Many rows take as long as few: the largest micro-batch would be the best. */
    world.question.more_rows = 32;
    for (size_t d = 0; d < DEVICES; d++)
        world.devices[d].more_layers = world.times;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK_MSG(plan->nodes == 2 && plan->micro_batch == 256, "micro-batches of %zu", plan->micro_batch);
    check_message(plan, &world);
    rt_plan_destroy(plan);
    close_world(&world);
}

/* Where the size of a micro-batch is given, the cut goes where little passes. */
TEST(the_cut_goes_where_little_passes) {
    struct world world;
    struct rt_error err;
    struct rt_plan *plan;
    open_world(&world, "dense: 1000000, relu, relu, relu, relu, dense: 10, dense: 10", "micro_batch: 1024");
    world.question.keep_all = true;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->nodes == 2 && plan->node[0].count == 6);
    check_message(plan, &world);
    rt_plan_destroy(plan);
    close_world(&world);
}

static void check_refused(const char *layers, const char *keys, const char *said) {
    struct world world;
    struct rt_error err = {.text = ""};
    struct rt_plan *plan;
    char *text = NULL;
    size_t bytes;
    open_world(&world, layers, keys);
    world.question.keep_all = true;
    CHECK(rt_plan_create(&world.question, &plan, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, said) && strstr(err.text, "a message holds") &&
                  strstr(err.text, "train.micro_batch"),
              "%s", err.text);
    /* Or the others are left out, with the same reason. */
    world.question.keep_all = false;
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->nodes == 1 && plan->left_out_count == 1 && plan->too_large);
    FILE *out = open_memstream(&text, &bytes);
    REQUIRE(out);
    rt_plan_print(plan, &world.question, out);
    fclose(out);
    CHECK_MSG(strstr(text, "does not fit into a message"), "%s", text);
    free(text);
    rt_plan_destroy(plan);
    close_world(&world);
}

TEST(what_cannot_pass_is_told) {
    check_refused("dense: 1000000, relu, layernorm, tanh", "micro_batch: 1024",
                  "3.8 GiB in micro-batches of 1024");
    check_refused("dense: 1000000, relu, batchnorm, tanh", "seed: 1", "micro-batches of 1024");
    check_refused("dense: 4, dense: 4, dense: 1000000", "micro_batch: 1024", ", its output, is 3.8 GiB");
}

/* A node does not take such a place either. */
TEST(a_node_refuses_it_too) {
    struct world world;
    struct rt_error err = {.text = ""};
    struct rt_flow flow = {.job = NULL};
    struct rt_neighbour previous = {.index = 1};
    const struct rt_shape wide = {.rank = 1, .dim = {1000000}};
    open_world(&world, "dense: 4, dense: 4", "micro_batch: 1024");
    flow.job = world.job;
    CHECK(rt_flow_add(&flow, NULL, &wide, &previous, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "does not fit into a message"), "%s", err.text);
    close_world(&world);
}

TEST_MAIN()
