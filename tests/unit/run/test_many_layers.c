/*
 * Models that are deep or long beyond use: what a job or a run file may ask for is built, planned and given
 * to a node in a time that grows with its size, or it is refused. The limits on time are far above what it
 * takes and far below what it took when the work doubled with each level, or grew with the square of the
 * layers.
 */
/* labels: slow=nested_layers */
#include "base/clock.h"
#include "plan/plan.h"
#include "run/roles.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>

static const double seconds = 20;

static struct rt_tree *make(enum rt_tree_kind kind, const char *text) {
    struct rt_error err;
    struct rt_tree *tree = NULL;
    CHECK(rt_tree_create(kind, text, "test", 0, &tree, &err) == RT_OK);
    return tree;
}

static struct rt_tree *add(struct rt_tree *tree, const char *key, struct rt_tree *item) {
    struct rt_error err;
    CHECK(rt_tree_add(tree, key, item, &err) == RT_OK);
    return tree;
}

static struct rt_tree *dense(size_t units) {
    char text[24];
    snprintf(text, sizeof text, "%zu", units);
    return add(make(RT_TREE_MAP, NULL), "dense", make(RT_TREE_SCALAR, text));
}

/* residual: [residual: [... [dense: 4] ...]] as a list of one layer */
static struct rt_tree *nested(size_t levels) {
    struct rt_tree *layers = add(make(RT_TREE_LIST, NULL), NULL, dense(4));
    for (size_t i = 0; i < levels; i++)
        layers = add(make(RT_TREE_LIST, NULL), NULL, add(make(RT_TREE_MAP, NULL), "residual", layers));
    return layers;
}

static struct rt_tree *chain(size_t count) {
    struct rt_tree *layers = make(RT_TREE_LIST, NULL);
    for (size_t i = 0; i < count; i++)
        add(layers, NULL, dense(4 + i * 7 % 61));
    return layers;
}

static struct rt_tree *job_of(struct rt_tree *layers) {
    struct rt_tree *job = make(RT_TREE_MAP, NULL);
    add(job, "learner", make(RT_TREE_SCALAR, "ring"));
    add(job, "input", make(RT_TREE_SCALAR, "4"));
    add(job, "layers", layers);
    add(job, "loss", make(RT_TREE_SCALAR, "mse"));
    return add(job, "batch", make(RT_TREE_SCALAR, "32"));
}

/* As deep as a message may be: a slot's size was computed twice at every level for the level above. */
TEST(nested_layers) {
    enum { LEVELS = 30 };
    const struct rt_shape in = {.rank = 1, .dim = {4}};
    const double start = rt_clock_wall();
    struct rt_tree *layers = nested(LEVELS);
    struct rt_device device;
    struct rt_model *model;
    struct rt_error err;
    uint32_t index = 0;
    REQUIRE(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &device, &err) == RT_OK);
    REQUIRE(rt_model_create(layers, &in, 0, SIZE_MAX, false, device.kernels, &index, &model, &err) == RT_OK);
    CHECK(index == LEVELS + 1);
    const size_t one = rt_model_slot_floats(model, 1, true), many = rt_model_slot_floats(model, 64, true);
    CHECK(one > LEVELS && many > one && many <= 64 * one);
    CHECK(rt_model_slot_floats(model, SIZE_MAX / 2, true) == SIZE_MAX);
    CHECK(rt_layer_activation_bytes(model->layers[0], 64) > 0);

    /* And it computes: with weights of zero each level adds what comes in once more. */
    float *params = calloc(model->param_count, sizeof *params), *slot = calloc(many, sizeof *slot);
    const float x[8] = {1, -2, 3, -4, 5, -6, 7, -8};
    struct rt_blocks blocks = {.params = params};
    const struct rt_pass pass = {.device = &device, .rows = 2, .training = true};
    REQUIRE(params && slot);
    const float *y = rt_model_forward(model, &pass, &blocks, slot, x);
    for (size_t i = 0; i < 8; i++)
        CHECK(y[i] == (float)LEVELS * x[i]);
    CHECK(rt_clock_wall() - start < seconds);
    free(params);
    free(slot);
    rt_model_destroy(model);
    rt_device_close(&device);
    rt_tree_destroy(layers);
}

/* One node of a ring: reading the job, and making the stage. */
static rt_status assign(struct rt_tree *layers, size_t count, struct rt_error *err) {
    static const struct rt_node_device device = {.ring = {.threads = 1}};
    const struct rt_role role = rt_node_roles(&device);
    struct rt_session session = {.user = role.user};
    struct rt_assigned_node parts[2] = {{.count = 1, .slots = 2},
                                        {.first = 1, .count = (uint32_t)count - 1, .slots = 2}};
    struct rt_assign asked = {.index = 1, .nodes = 2, .node = parts, .job = job_of(layers)};
    uint64_t memory;
    const rt_status status = role.assign(&session, &asked, &memory, err);
    role.end(&session);
    rt_tree_destroy(asked.job);
    return status;
}

TEST(a_node_is_given_many_layers) {
    struct rt_error err = {.text = ""};
    const double start = rt_clock_wall();
    CHECK_OK(assign(add(add(make(RT_TREE_LIST, NULL), NULL, dense(4)), NULL,
                        add(make(RT_TREE_MAP, NULL), "residual", nested(28))),
                    2, &err));
    CHECK_OK(assign(chain(5000), 5000, &err));
    CHECK(assign(chain(RT_MODEL_LAYERS + 1), RT_MODEL_LAYERS, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "at most 65536 layers"), "%s", err.text);
    /* Those inside others count. */
    struct rt_tree *inside = chain(RT_MODEL_LAYERS);
    add(inside, NULL, dense(4));
    CHECK(assign(add(add(make(RT_TREE_LIST, NULL), NULL, dense(4)), NULL,
                     add(make(RT_TREE_MAP, NULL), "residual", inside)),
                 2, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "at most 65536 layers"), "%s", err.text);
    CHECK(rt_clock_wall() - start < seconds);
}

/* ---- plans ---- */

enum { LAYERS = 3000, DEVICES = 8 };

static void check_parts(const struct rt_plan *plan, double even, double off, uint64_t memory) {
    size_t next = 0;
    for (size_t k = 0; k < plan->nodes; k++) {
        const struct rt_plan_node *node = &plan->node[k];
        CHECK(node->first == next && node->slots > 0);
        next += node->count;
        if (even > 0)
            CHECK_MSG(fabs((double)node->count - even) <= off * even, "node %zu has %zu layers", k,
                      node->count);
        CHECK_MSG(memory == 0 || node->memory <= memory, "node %zu takes %llu", k,
                  (unsigned long long)node->memory);
    }
    CHECK(next == LAYERS);
}

TEST(a_plan_for_many_layers) {
    static struct rt_layer_times times[LAYERS];
    struct rt_plan_device devices[DEVICES];
    struct rt_device device;
    struct rt_job *job;
    struct rt_model *model;
    struct rt_plan *plan;
    struct rt_error err;
    uint32_t index = 0;
    const double start = rt_clock_wall();
    REQUIRE(rt_job_create(job_of(chain(LAYERS)), &job, &err) == RT_OK);
    REQUIRE(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &device, &err) == RT_OK);
    REQUIRE(rt_model_create(job->layers, &job->in, 0, SIZE_MAX, false, device.kernels, &index, &model,
                            &err) == RT_OK);
    for (size_t i = 0; i < LAYERS; i++)
        times[i] = (struct rt_layer_times){1e-3, 1e-3, 1e-3, 0};
    for (size_t d = 0; d < DEVICES; d++)
        devices[d] = (struct rt_plan_device){.name = "one of them", .layers = times};
    struct rt_plan_question question = {
        .job = job, .model = model, .devices = devices, .count = DEVICES, .rows = 32, .keep_all = true};
    CHECK_OK(rt_plan_create(&question, &plan, &err));
    CHECK(plan->nodes == DEVICES);
    check_parts(plan, (double)LAYERS / DEVICES, 0.05, 0);
    rt_plan_destroy(plan);

    /* With memory for about a third of it each: the cut is as exact as the description of its parts. */
    for (size_t d = 0; d < DEVICES; d++)
        devices[d].memory = UINT64_C(44) << 20;
    question.count = 3;
    CHECK_OK(rt_plan_create(&question, &plan, &err));
    check_parts(plan, 0, 0, devices[0].memory);
    rt_plan_destroy(plan);
    for (size_t d = 0; d < DEVICES; d++)
        devices[d].memory = UINT64_C(24) << 20;
    CHECK(rt_plan_create(&question, &plan, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "does not fit"), "%s", err.text);
    CHECK_MSG(rt_clock_wall() - start < seconds, "%g s", rt_clock_wall() - start);
    rt_model_destroy(model);
    rt_device_close(&device);
    rt_job_destroy(job);
}

TEST_MAIN()
