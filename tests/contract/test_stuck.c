/*
 * A node whose working thread hangs while its links live: soon everybody waits, each for another, and the one
 * that hangs is named, within the one bound that holds for all strategies. In rings and in rings side by
 * side; for exchanges see test_crew.c. A master that hangs is waited for, and the result is what it would
 * have been.
 */
#include "cluster/liveness.h"
#include "support/hybridrig.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

/* Seconds: the timeout, and the most that may pass from the freeze until the master has named the node. */
static const double timeout = 10, bound = 11.5;

/* ---- one ring ------------------------------------------------------------------------------------------ */

static const struct rig_settings ring = {
    .model = "{input: [6], layers: [dense: 8, tanh, dense: 8, relu, dense: 6, dense: 5, dense: 3], loss: "
             "cross_entropy}",
    .nodes = 4,
    .slots = 4,
    .examples = 40,
    .batch = 16,
    .micro_batch = 4,
    .updates = 1000000,
    .latency = 0.002,
    .random_delay = 0.01,
    .timeout = timeout};

static void train_on(void *user, struct rig *rig, struct rt_ring *made) {
    (void)user;
    rig_steps(rig, made, 1000);
}

static void freeze_in_ring(const struct rig_settings *settings, const char *what) {
    struct rt_error err;
    struct rig rig;
    char name[16];
    const size_t who = settings->frozen;
    snprintf(name, sizeof name, "node %zu", who);
    CHECK_OK(rig_open(settings, &rig, &err));
    CHECK_OK(rig_run(&rig, train_on, NULL, &err));
    CHECK_MSG(rig.status[0] == RT_FAILED && strstr(rig.errors[0].text, name) &&
                  strstr(rig.errors[0].text, "made no progress for 10 seconds"),
              "%s, node %zu at %g: the master says: %s", what, who, settings->freezes, rig.errors[0].text);
    CHECK_MSG(rig.lost == who, "%s, node %zu at %g: node %zu is blamed: %s", what, who, settings->freezes,
              rig.lost, rig.errors[0].text);
    CHECK_MSG(rig.ended[0] < settings->freezes + bound, "%s, node %zu at %g: named at %g", what, who,
              settings->freezes, rig.ended[0]);
    for (size_t i = 1; i < settings->nodes; i++)
        if (i != who)
            CHECK_MSG(rig.status[i] == RT_FAILED && rig.ended[i] < settings->freezes + bound + 3,
                      "%s, node %zu at %g: node %zu ends at %g: %s", what, who, settings->freezes, i,
                      rig.ended[i], rig.errors[i].text);
    rig_close(&rig);
}

/* Each node, at several times: in the first update, and in the middle of things. */
static void freeze_each(struct rig_settings settings, const char *what) {
    for (settings.frozen = 1; settings.frozen < settings.nodes; settings.frozen++)
        for (size_t i = 0; i < 5; i++) {
            settings.seed = i;
            settings.freezes = 0.02 + 0.37 * (double)i;
            settings.thaws = settings.freezes + 500;
            freeze_in_ring(&settings, what);
        }
}

TEST(in_a_ring) {
    struct rig_settings settings = ring;
    freeze_each(settings, "ring");
    settings.nodes = 2;
    freeze_each(settings, "ring of two");
    settings.nodes = 4;
    settings.tail = 1;
    settings.clip_norm = 0.3;
    freeze_each(settings, "ring with a tail and clipping");
}

TEST(in_a_ring_that_takes_one_example_at_a_time) {
    struct rig_settings settings = ring;
    settings.batch = settings.micro_batch = settings.slots = 1;
    freeze_each(settings, "ring-one");
}

TEST(in_a_ring_that_flows) {
    struct rig_settings settings = ring;
    settings.flow = true;
    freeze_each(settings, "ring-flow");
}

/* Waits shorter than the timeout, of nodes one after another, are nobody's fault. */
static void train_and_gather(void *user, struct rig *rig, struct rt_ring *made) {
    if (rig_steps(rig, made, 20))
        rig->status[0] = rig_gather(rig, made, user, &rig->errors[0]);
}

/* Such a run ends well, with the parameters of one device. */
static void is_waited_for(const struct rig_settings *settings) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(settings, &rig, &err));
    const size_t count = rig_floats(&rig);
    float *gathered = calloc(count, sizeof *gathered), *single = calloc(count, sizeof *single);
    CHECK_OK(rig_run(&rig, train_and_gather, gathered, &err));
    for (size_t i = 0; i < settings->nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "node %zu hangs at %g: node %zu says: %s", settings->frozen,
                  settings->freezes, i, rig.errors[i].text);
    CHECK(rig.ended[0] > settings->thaws);
    for (size_t i = 0; i < 20; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
    }
    rig_single(&rig, single);
    CHECK(memcmp(gathered, single, count * sizeof *single) == 0);
    free(gathered);
    free(single);
    rig_close(&rig);
}

TEST(a_master_that_hangs_is_waited_for) {
    struct rig_settings settings = ring;
    for (size_t i = 0; i < 4; i++) {
        settings.freezes = 0.02 + 0.3 * (double)i;
        settings.thaws = settings.freezes + 17 * timeout;
        is_waited_for(&settings);
    }
}

TEST(a_node_that_hangs_for_less_is_waited_for) {
    struct rig_settings settings = ring;
    for (settings.frozen = 1; settings.frozen < 4; settings.frozen++) {
        settings.freezes = 0.3;
        settings.thaws = settings.freezes + timeout - 1;
        is_waited_for(&settings);
    }
}

/* Operations that each take nearly the timeout: no steps, and then a long wait of everybody else. */
TEST(a_node_that_is_slow_again_and_again_is_waited_for) {
    for (int i = 0; i < 2; i++) {
        struct rig_settings settings = ring;
        settings.timeout = 3;
        settings.freezes = 0.3;
        settings.thaws = settings.freezes + (i ? 0.9 : 0.6) * settings.timeout;
        settings.again = settings.thaws - settings.freezes + 0.03;
        for (settings.frozen = 1; settings.frozen < 4; settings.frozen++)
            is_waited_for(&settings);
    }
}

/* ---- heartbeats that lie ------------------------------------------------------------------------------- */

static const uint16_t lies[] = {0, 1, 3, 500, RT_NOTE_MASTER, UINT16_MAX};
enum { LIES = sizeof lies / sizeof *lies };

/* A node that delivers nothing, whatever its heartbeats say: it is named or nobody is, and the run ends. */
TEST(a_node_of_a_ring_that_pretends) {
    for (size_t i = 0; i < LIES; i++) {
        struct rig_settings settings = ring;
        settings.freezes = 0.3;
        settings.thaws = 1000;
        settings.pretends = true;
        settings.note = lies[i];
        for (settings.frozen = 1; settings.frozen < 4; settings.frozen++) {
            struct rt_error err;
            struct rig rig;
            CHECK_OK(rig_open(&settings, &rig, &err));
            CHECK_OK(rig_run(&rig, train_on, NULL, &err));
            CHECK_MSG(rig.status[0] == RT_FAILED && (rig.lost == settings.frozen || rig.lost == RT_NODE_NONE),
                      "node %zu says %x: node %zu is blamed: %s", settings.frozen, lies[i], rig.lost,
                      rig.errors[0].text);
            CHECK_MSG(rig.lost == settings.frozen || lies[i] > 3, "node %zu says %x: nobody is named",
                      settings.frozen, lies[i]);
            CHECK_MSG(rig.ended[0] < settings.freezes + (10 + 4 * 4) * timeout + 2,
                      "node %zu says %x: ended at %g", settings.frozen, lies[i], rig.ended[0]);
            rig_close(&rig);
        }
    }
}

/* ---- rings side by side -------------------------------------------------------------------------------- */

static struct hybrid_run run; /* too large for a stack */

static void freeze_in_rings(const struct hybrid_shape *shape) {
    struct rt_error err;
    char name[16];
    snprintf(name, sizeof name, "node %u", shape->who);
    CHECK_OK(hybrid_open(shape, &run, &err));
    const struct rt_memnet_settings net = {.seed = shape->who, .latency = 2e-3, .random_delay = 5e-3};
    mesh_in_memory(&net, run.nodes, hybrid_attend, &run);
    CHECK_MSG(run.status[0] == RT_FAILED && strstr(run.errors[0].text, name) && run.lost == shape->who,
              "%s, rings of %zu, node %u at %g: node %zu is blamed: %s", shape->strategy, shape->places,
              shape->who, shape->freezes, run.lost, run.errors[0].text);
    CHECK_MSG(run.ended[0] < shape->freezes + bound, "%s, rings of %zu, node %u at %g: named at %g: %s",
              shape->strategy, shape->places, shape->who, shape->freezes, run.ended[0], run.errors[0].text);
    for (size_t i = 1; i < run.nodes; i++)
        if (i != shape->who)
            CHECK_MSG(run.status[i] != RT_OK && run.ended[i] < shape->freezes + bound + 5,
                      "%s, node %u at %g: node %zu ends at %g: %s", shape->strategy, shape->who,
                      shape->freezes, i, run.ended[i], run.errors[i].text);
    hybrid_close(&run);
}

static const struct hybrid_shape rings = {.rings = 2,
                                          .places = 3,
                                          .examples = 115,
                                          .batch = 16,
                                          .micro_batch = 2,
                                          .shards = 8,
                                          .updates = 1000,
                                          .optimizer = "{sgd: {lr: 0.01}}",
                                          .timeout = timeout,
                                          .fault = FREEZES};

static void freeze_each_of_rings(struct hybrid_shape shape) {
    for (shape.who = 1; shape.who < shape.rings * shape.places; shape.who++)
        for (size_t i = 0; i < 3; i++) {
            shape.freezes = 0.04 + (shape.places == 1 ? 0.02 : 0.43) * (double)i; /* which go faster */
            shape.thaws = shape.freezes + 500;
            freeze_in_rings(&shape);
        }
}

TEST(in_rings_side_by_side) {
    static const char *const strategies[] = {"allreduce-rd", "ps-sync"};
    for (size_t i = 0; i < 2; i++) {
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i];
        freeze_each_of_rings(shape);
        shape.rings = 3;
        shape.places = 1;
        freeze_each_of_rings(shape);
    }
}

TEST(in_rings_that_go_at_their_own_pace) {
    static const char *const strategies[] = {"ps-async", "ps-ssp", "ps-backup"};
    for (size_t i = 0; i < 3; i++) {
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i];
        freeze_each_of_rings(shape);
        shape.rings = 3;
        shape.places = 1;
        freeze_each_of_rings(shape);
    }
}

TEST(a_node_of_several_rings_that_pretends) {
    static const char *const strategies[] = {"allreduce-rd", "ps-async"};
    for (size_t i = 0; i < 2 * LIES; i++) {
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i % 2];
        shape.freezes = 0.3;
        shape.thaws = 1000;
        shape.pretends = true;
        shape.note = lies[i / 2];
        for (shape.who = 1; shape.who < shape.rings * shape.places; shape.who++) {
            struct rt_error err;
            CHECK_OK(hybrid_open(&shape, &run, &err));
            mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
            CHECK_MSG(run.status[0] == RT_FAILED && (run.lost == shape.who || run.lost == RT_NODE_NONE),
                      "%s, node %u says %x: node %zu is blamed: %s", shape.strategy, shape.who, shape.note,
                      run.lost, run.errors[0].text);
            CHECK_MSG(run.ended[0] < shape.freezes + (10 + 4 * 6) * timeout + 5,
                      "%s, node %u says %x: ended at %g", shape.strategy, shape.who, shape.note,
                      run.ended[0]);
            hybrid_close(&run);
        }
    }
}

/* One that is slow in every operation holds the others up, and is nobody's fault. */
TEST(a_node_of_several_rings_that_is_slow_again_and_again_is_waited_for) {
    static const char *const strategies[] = {"allreduce-rd", "ps-async", "ps-ssp", "ps-backup"};
    for (size_t i = 0; i < 4; i++) {
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i];
        shape.updates = 6;
        shape.timeout = 3;
        shape.freezes = 0.03;
        shape.thaws = shape.freezes + 0.8 * shape.timeout;
        shape.again = 0.8 * shape.timeout + 0.2;
        for (shape.who = 1; shape.who < shape.rings * shape.places; shape.who++) {
            struct rt_error err;
            CHECK_OK(hybrid_open(&shape, &run, &err));
            mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
            for (size_t n = 0; n < run.nodes; n++)
                CHECK_MSG(run.status[n] == RT_OK, "%s, node %u is slow: node %zu says: %s", strategies[i],
                          shape.who, n, run.errors[n].text);
            CHECK(run.ended[0] > shape.thaws);
            hybrid_close(&run);
        }
    }
}

TEST(a_master_of_several_rings_that_hangs_is_waited_for) {
    static const char *const strategies[] = {"allreduce-rd", "ps-async", "ps-ssp", "ps-backup"};
    for (size_t i = 0; i < 4; i++) {
        struct rt_error err;
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i];
        shape.updates = 20;
        shape.freezes = 0.03;
        shape.thaws = shape.freezes + 17 * timeout;
        CHECK_OK(hybrid_open(&shape, &run, &err));
        mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
        for (size_t n = 0; n < run.nodes; n++)
            CHECK_MSG(run.status[n] == RT_OK, "%s: node %zu says: %s", strategies[i], n, run.errors[n].text);
        CHECK(run.ended[0] > shape.thaws);
        hybrid_close(&run);
    }
}

/* Rings that have no batch, as while the master validates, wait for it. */
TEST(a_master_that_does_something_else_is_waited_for) {
    static const char *const strategies[] = {"allreduce-rd", "ps-async", "ps-ssp", "ps-backup"};
    for (size_t i = 0; i < 4; i++) {
        struct rt_error err;
        struct hybrid_shape shape = rings;
        shape.strategy = strategies[i];
        shape.updates = 5;
        shape.fault = NONE;
        shape.pauses = 17 * timeout;
        CHECK_OK(hybrid_open(&shape, &run, &err));
        mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
        for (size_t n = 0; n < run.nodes; n++)
            CHECK_MSG(run.status[n] == RT_OK, "%s: node %zu says: %s", strategies[i], n, run.errors[n].text);
        CHECK(run.ended[0] > shape.pauses);
        hybrid_close(&run);
    }
}

TEST_MAIN()
