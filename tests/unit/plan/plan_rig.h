/* Questions to the planner with made-up times. */
#ifndef RT_TEST_PLAN_RIG_H
#define RT_TEST_PLAN_RIG_H

#include "formats/yaml.h"
#include "learn/stage.h"
#include "plan/plan.h"
#include "support/test.h"

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
static inline void open_world(struct world *world, const char *model, const char *keys, size_t count,
                              size_t rows) {
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

static inline void close_world(struct world *world) {
    rt_model_destroy(world->model);
    rt_device_close(&world->device);
    rt_job_destroy(world->job);
}

static inline void slow_down(struct world *world, size_t device, double factor) {
    for (size_t i = 0; i < MOST_LAYERS; i++) {
        struct rt_layer_times *times = &world->times[device][i];
        *times = (struct rt_layer_times){times->forward * factor, times->input * factor,
                                         times->weights * factor, times->update * factor};
    }
}

/* "dense: 4" so many times. */
static inline const char *dense(size_t count, const char *input) {
    static char text[2000];
    int at = snprintf(text, sizeof text, "input: [%s], layers: [", input);
    for (size_t i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%sdense: 4", i ? ", " : "");
    snprintf(text + at, sizeof text - (size_t)at, "]");
    return text;
}

/* Every layer belongs to exactly one node, in order. */
static inline void check_plan(const struct rt_plan *plan, const struct world *world) {
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

/* Bytes of a run of layers as its stage takes them. */
static inline size_t stage_bytes(size_t first, size_t count, size_t slots) {
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

#endif
