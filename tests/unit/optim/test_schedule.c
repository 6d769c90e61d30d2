/* Learning-rate schedules: the factors at the places where they change. */
#include "optim/schedule.h"
#include "support/test.h"
#include <math.h>

static bool near(double a, double b) {
    return fabs(a - b) < 1e-12;
}

TEST(constant_is_one) {
    struct rt_error err;
    struct rt_schedule schedule;
    CHECK_OK(rt_schedule_read(NULL, &schedule, &err));
    for (uint64_t u = 1; u <= 100; u++)
        CHECK(rt_schedule_factor(&schedule, u, 100, 10) == 1);
}

TEST(warmup_grows_evenly_to_one) {
    struct rt_schedule schedule = {.kind = RT_SCHEDULE_CONSTANT, .warmup = 2};
    for (uint64_t u = 1; u <= 20; u++)
        CHECK(near(rt_schedule_factor(&schedule, u, 100, 10), (double)u / 20));
    CHECK(rt_schedule_factor(&schedule, 21, 100, 10) == 1);
    /* a part of an epoch; less than one update; more than there are */
    schedule.warmup = 0.25;
    CHECK(near(rt_schedule_factor(&schedule, 1, 100, 10), 0.5));
    CHECK(rt_schedule_factor(&schedule, 2, 100, 10) == 1);
    schedule.warmup = 0.01;
    CHECK(rt_schedule_factor(&schedule, 1, 100, 10) == 1);
    schedule.warmup = 1e9;
    CHECK(near(rt_schedule_factor(&schedule, 1, 100, 10), 0.01));
    CHECK(near(rt_schedule_factor(&schedule, 100, 100, 10), 1));
}

TEST(step_drops_at_its_epochs) {
    struct rt_schedule schedule = {.kind = RT_SCHEDULE_STEP, .every = 3, .factor = 0.1};
    CHECK(rt_schedule_factor(&schedule, 1, 1000, 10) == 1);
    CHECK(rt_schedule_factor(&schedule, 30, 1000, 10) == 1);
    CHECK(near(rt_schedule_factor(&schedule, 31, 1000, 10), 0.1));
    CHECK(near(rt_schedule_factor(&schedule, 60, 1000, 10), 0.1));
    CHECK(near(rt_schedule_factor(&schedule, 61, 1000, 10), 0.01));
    /* the clock starts after the warm-up */
    schedule.warmup = 1;
    CHECK(rt_schedule_factor(&schedule, 40, 1000, 10) == 1);
    CHECK(near(rt_schedule_factor(&schedule, 41, 1000, 10), 0.1));
}

TEST(cosine_falls_from_one_to_its_floor) {
    const double pi = 3.14159265358979323846;
    struct rt_schedule schedule = {.kind = RT_SCHEDULE_COSINE, .floor = 0.1};
    CHECK(rt_schedule_factor(&schedule, 1, 100, 10) == 1);
    CHECK(near(rt_schedule_factor(&schedule, 51, 100, 10), 0.55));
    double last = 2;
    for (uint64_t u = 1; u <= 100; u++) {
        double factor = rt_schedule_factor(&schedule, u, 100, 10);
        CHECK(near(factor, 0.1 + 0.9 * 0.5 * (1 + cos(pi * (double)(u - 1) / 100))));
        CHECK(factor < last && factor > 0.1);
        last = factor;
    }
    CHECK(rt_schedule_factor(&schedule, 101, 100, 10) == 0.1);
    schedule.warmup = 5;
    CHECK(rt_schedule_factor(&schedule, 50, 100, 10) == 1);
    CHECK(near(rt_schedule_factor(&schedule, 76, 100, 10), 0.55));
}

static struct rt_tree *scalar(const char *text) {
    struct rt_tree *tree;
    if (rt_tree_create(RT_TREE_SCALAR, text, "test", 7, &tree, NULL) != RT_OK)
        exit(1);
    return tree;
}

static struct rt_tree *map(const char *key, struct rt_tree *value) {
    struct rt_tree *tree;
    if (rt_tree_create(RT_TREE_MAP, NULL, "test", 7, &tree, NULL) != RT_OK ||
        rt_tree_add(tree, key, value, NULL) != RT_OK)
        exit(1);
    return tree;
}

TEST(reading) {
    struct rt_error err;
    struct rt_schedule schedule;
    struct rt_tree *tree = scalar("cosine");
    CHECK_OK(rt_schedule_read(tree, &schedule, &err));
    CHECK(schedule.kind == RT_SCHEDULE_COSINE && schedule.floor == 0 && schedule.warmup == 0);
    rt_tree_destroy(tree);

    tree = map("step", map("every", scalar("2.5")));
    CHECK_OK(rt_schedule_read(tree, &schedule, &err));
    CHECK(schedule.kind == RT_SCHEDULE_STEP && schedule.every == 2.5 && schedule.factor == 0.1);
    rt_tree_destroy(tree);

    tree = scalar("cosin");
    CHECK(rt_schedule_read(tree, &schedule, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "'cosine'") && strstr(err.text, "test:7"), "%s", err.text);
    rt_tree_destroy(tree);

    tree = map("step", map("evry", scalar("2")));
    CHECK(rt_schedule_read(tree, &schedule, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "every"), "%s", err.text);
    rt_tree_destroy(tree);

    tree = map("step", map("every", scalar("0")));
    CHECK(rt_schedule_read(tree, &schedule, &err) == RT_BAD_INPUT);
    rt_tree_destroy(tree);
}

TEST(help_names_every_schedule) {
    char text[4000] = "";
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    REQUIRE(out);
    rt_schedule_help(out);
    fclose(out);
    CHECK(strstr(text, "constant") && strstr(text, "step") && strstr(text, "cosine"));
    CHECK(strstr(text, "every") && strstr(text, "floor") && strstr(text, "warmup"));
}

TEST_MAIN()
