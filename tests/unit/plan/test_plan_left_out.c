/* Plans: why a device is left out, or why there is no plan with it. Each has a reason of its own. */
#include "formats/yaml.h"
#include "plan/plan.h"
#include "support/test.h"

enum { DEVICES = 4, LAYERS = 12 };

struct world {
    struct rt_job *job;
    struct rt_device device;
    struct rt_model *model;
    struct rt_layer_times times[DEVICES][LAYERS];
    struct rt_plan_device devices[DEVICES];
    struct rt_plan_question question;
};

static struct world world;

/* Devices that are all alike and take a second for each operation on each layer. */
static void open_world(const char *keys) {
    static const char *const names[DEVICES] = {"master", "pi1", "pi2", "pi3"};
    struct rt_error err;
    struct rt_tree *tree;
    static char yaml[1000];
    int at = snprintf(yaml, sizeof yaml, "{learner: ring, loss: mse, %s, input: [4], layers: [", keys);
    for (size_t i = 0; i < LAYERS; i++)
        at += snprintf(yaml + at, sizeof yaml - (size_t)at, "dense: 4%s", i + 1 < LAYERS ? ", " : "]}");
    world = (struct world){0};
    CHECK_OK(rt_yaml_parse(yaml, strlen(yaml), "run.yaml", &tree, &err));
    CHECK_OK(rt_job_create(tree, &world.job, &err));
    CHECK_OK(rt_device_open(RT_MATH_REFERENCE, "auto", 1, &world.device, &err));
    uint32_t index = 0;
    CHECK_OK(rt_model_create(world.job->layers, &world.job->in, 0, SIZE_MAX, false, world.device.kernels,
                             &index, &world.model, &err));
    for (size_t d = 0; d < DEVICES; d++) {
        for (size_t i = 0; i < LAYERS; i++)
            world.times[d][i] = (struct rt_layer_times){1, 1, 1, 0};
        world.devices[d] = (struct rt_plan_device){.name = names[d], .layers = world.times[d]};
    }
    world.question = (struct rt_plan_question){
        .job = world.job, .model = world.model, .devices = world.devices, .count = DEVICES, .rows = 4};
}

static void close_world(void) {
    rt_model_destroy(world.model);
    rt_device_close(&world.device);
    rt_job_destroy(world.job);
}

static void slow_down(size_t device, double factor) {
    for (size_t i = 0; i < LAYERS; i++)
        world.times[device][i] = (struct rt_layer_times){factor, factor, factor, 0};
}

static void refuse(const char *said, int line) {
    struct rt_error err = {0};
    struct rt_plan *plan;
    const rt_status status = rt_plan_create(&world.question, &plan, &err);
    if (status != RT_BAD_INPUT || !strstr(err.text, said))
        rt_test_fail(__FILE__, line, "status %d: %s", (int)status, err.text);
    if (status == RT_OK)
        rt_plan_destroy(plan);
}

/* Messages about devices that are left out. */
static const char *left_out_text(const struct rt_plan *plan) {
    static char text[1000];
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out)
        return "";
    rt_plan_print_left_out(plan, &world.question, out);
    fclose(out);
    return text;
}

static void check_left_out(const char *said, int line) {
    struct rt_error err = {0};
    struct rt_plan *plan;
    if (rt_plan_create(&world.question, &plan, &err) != RT_OK) {
        rt_test_fail(__FILE__, line, "%s", err.text);
        return;
    }
    if (!strstr(left_out_text(plan), said))
        rt_test_fail(__FILE__, line, "no \"%s\" in \"%s\"", said, left_out_text(plan));
    rt_plan_destroy(plan);
}

/* Each is left out for a reason of its own: a device without room is no reason to leave out another. */
TEST(who_lacks_memory_is_told_apart_from_who_is_slow) {
    struct rt_error err;
    struct rt_plan *plan;
    static const char *const keys[] = {"batch: 64, micro_batch: 4", "batch: 64"};
    for (size_t i = 0; i < 2; i++) {
        open_world(keys[i]);
        world.devices[2].memory = 1 << 20;
        check_left_out("pi2 is left out: it offers 1.0 MiB, and the smallest part needs 12.0 MiB", __LINE__);
        slow_down(1, 1e4);
        check_left_out("pi1 is left out: ", __LINE__);
        check_left_out(" with it; pi2 is left out: it offers 1.0 MiB, and the smallest part needs 12.0 MiB",
                       __LINE__);
        CHECK_OK(rt_plan_create(&world.question, &plan, &err));
        REQUIRE(plan->left_out_count == 2 && plan->left_out[0] == 1 && plan->left_out[1] == 2);
        CHECK(plan->left_out_needs[0] == 0 && plan->left_out_needs[1] > RT_PLAN_PROGRAM_BYTES);
        CHECK(plan->with_them > 0 && plan->with_them < 0.5 * plan->without_them);
        rt_plan_destroy(plan);
        world.devices[3].memory = 2 << 20;
        check_left_out(
            "; pi2 (1.0 MiB) and pi3 (2.0 MiB) are left out: the smallest part needs 12.0 MiB, more "
            "than each of them offers",
            __LINE__);
        world.devices[3].memory = 64 << 20; /* enough */
        check_left_out("; pi2 is left out: it offers 1.0 MiB", __LINE__);

        world.question.keep_all = true;
        refuse("every device must hold a part (cluster.keep_all), and the smallest needs 12.0 MiB in "
               "micro-batches of ",
               __LINE__);
        refuse(", more than the 1.0 MiB offered by pi2", __LINE__);
        world.devices[3].memory = 2 << 20;
        refuse("offered by pi2; 1 other offers too little as well", __LINE__);
        world.question.keep_all = false;
        world.question.even = true;
        refuse("(cluster.plan is even)", __LINE__);
        close_world();
    }
}

/* What a plan says of its gain, printed as people read it. */
static const char *printed(const struct rt_plan *plan) {
    static char text[4000];
    FILE *out = fmemopen(text, sizeof text, "w");
    if (!out)
        return "";
    rt_plan_print(plan, &world.question, out);
    fclose(out);
    return text;
}

/* 12 layers of 3 seconds for 4 rows: 1/9 samples/s alone, whatever other devices there are, and four times
 * that together. */
TEST(what_the_others_bring) {
    struct rt_error err;
    struct rt_plan *plan;
    double alone = -1;
    open_world("batch: 256, micro_batch: 4");
    slow_down(1, 0.01);
    CHECK_OK(rt_plan_alone(&world.question, &alone, &err));
    CHECK_MSG(alone > 0.1 && alone < 0.112, "%g", alone);
    slow_down(1, 1);
    CHECK_OK(rt_plan_create(&world.question, &plan, &err));
    CHECK(plan->alone < 0 && !strstr(printed(plan), "alone"));
    plan->alone = alone;
    CHECK_MSG(strstr(printed(plan), "One device alone: 0.111 samples/s; these 4: 0.4"), "%s", printed(plan));
    CHECK_MSG(strstr(printed(plan), ", 4.0 x.\n"), "%s", printed(plan));
    plan->alone_threads = 1;
    plan->crowded = true;
    CHECK_MSG(strstr(printed(plan), "alone, on 1 thread: 0.111 samples/s; these 4: at most 0.4"), "%s",
              printed(plan));
    rt_plan_destroy(plan);
    /* a model that needs several devices */
    world.devices[0].memory = (12 << 20) + 1000;
    CHECK_OK(rt_plan_alone(&world.question, &alone, &err));
    CHECK(alone == 0);
    close_world();
}

TEST_MAIN()
