/*
 * Rings side by side that do not stay together: every place has a server, and each ring goes at its own pace.
 * Over the network in memory, with the roles that real nodes have. Where the strategy leaves no choice the
 * parameters are those of one device, to the bit; elsewhere every batch is learnt from once, every place
 * makes as many updates, bounds are kept, and the network learns. And when somebody does not do his part, an
 * end in bounded time, with a sentence that names him.
 */
/* labels: threads=who_is_late_is_dropped_or_made_up_for */
#include "support/hybridrig.h"
#include "support/test.h"

#include <math.h>

/* 7 batches of 16 and one of 3: of 4 or 8 rings that share it some have no example. */
static const struct hybrid_shape plain = {.rings = 2,
                                          .places = 3,
                                          .strategy = "ps-async",
                                          .examples = 115,
                                          .batch = 16,
                                          .micro_batch = 2,
                                          .shards = 8,
                                          .updates = 24,
                                          .optimizer = "{sgd: {lr: 0.1}}"};

/* Frames that overtake one another between links, and links of very different speeds. */
static void shape_links(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                        double *random_delay) {
    (void)user, (void)now, (void)random_delay;
    *latency *= (double)(1 + (from * 7 + to * 3) % 11);
    *bandwidth /= (double)(1 + (from * 5 + to) % 7);
}

static struct rt_memnet_settings delays(uint64_t seed) {
    return (struct rt_memnet_settings){
        .seed = seed, .latency = 1e-4, .bandwidth = 1e6, .random_delay = 5e-3, .shape = shape_links};
}

/* Too large for a stack. */
static struct hybrid_run the_run, *const run = &the_run;

static void go(const struct rt_memnet_settings *net, const struct hybrid_shape *shape) {
    struct rt_error err;
    CHECK_OK(hybrid_open(shape, run, &err));
    mesh_in_memory(net, run->nodes, hybrid_attend, run);
    for (size_t i = 0; i < run->nodes; i++)
        CHECK_MSG(run->status[i] == RT_OK, "%s,%s: node %zu: %s", run->shape.strategy,
                  run->shape.options ? run->shape.options : "", i, run->errors[i].text);
}

/* ---- where there is no choice: the bits of one device -------------------------------------------------- */

static void compare(const struct rt_memnet_settings *net, const struct hybrid_shape *shape) {
    struct rt_error err;
    go(net, shape);
    double loss = 0;
    for (size_t i = shape->begin; i < shape->updates; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(run->rig.tiny.trainer, &step, &err));
        loss += step.loss;
    }
    float *single = calloc(rig_floats(&run->rig), sizeof *single);
    rig_single(&run->rig, single);
    CHECK_MSG(memcmp(single, run->floats, rig_floats(&run->rig) * sizeof *single) == 0,
              "%zu rings of %zu nodes by %s: other bits than one device", shape->rings, shape->places,
              shape->strategy);
    CHECK_MSG(run->loss > 0.999999 * loss && run->loss < 1.000001 * loss, "a loss of %.17g instead of %.17g",
              run->loss, loss);
    free(single);
    hybrid_close(run);
}

static const size_t shapes[][2] = {{2, 1}, {4, 1}, {8, 1}, {2, 3}, {4, 3}, {2, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The servers of all places wait for everybody's part of each batch. */
TEST(rounds_without_backups) {
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        const struct rt_memnet_settings net = delays(i);
        struct hybrid_shape shape = plain;
        shape.rings = shapes[i % SHAPES][0];
        shape.places = shapes[i % SHAPES][1];
        shape.strategy = "ps-backup";
        shape.options = "backup: 0";
        shape.late = i % 2;
        shape.optimizer = i % 3 ? "{adam: {lr: 0.01}}" : "{momentum: {lr: 0.05}}";
        shape.begin = i % 4 == 3 ? 5 : 0;
        compare(i < SHAPES ? NULL : &net, &shape);
    }
}

/* While one ring warms the parameters up it is alone, also where others could push more than one at a time.
 */
TEST(one_ring_alone) {
    for (size_t i = 0; i < SHAPES; i++) {
        const struct rt_memnet_settings net = delays(i);
        struct hybrid_shape shape = plain;
        shape.rings = shapes[i][0];
        shape.places = shapes[i][1];
        shape.strategy = "downpour";
        shape.options = "warm_start: 1";
        shape.updates = 8; /* an epoch */
        shape.optimizer = i % 2 ? "{adagrad: {lr: 0.05}}" : "{sgd: {lr: 0.1}}";
        shape.late = i % 3 == 0;
        compare(i % 2 ? &net : NULL, &shape);
    }
}

/* ---- where there is ------------------------------------------------------------------------------------ */

/* The losses are about those of one device. */
static void check_learnt(void) {
    double loss = 0;
    for (size_t i = 0; i < run->shape.updates; i++) {
        struct rt_step step;
        struct rt_error err;
        CHECK_OK(rt_trainer_step(run->rig.tiny.trainer, &step, &err));
        loss += step.loss;
    }
    CHECK_MSG(run->loss > 0.9 * loss && run->loss < 1.1 * loss, "%s: a loss of %g, and on one device of %g",
              run->shape.strategy, run->loss, loss);
    for (size_t i = 0; i < rig_floats(&run->rig); i++)
        CHECK(isfinite(run->floats[i]));
}

/* Every gradient of every ring has become an update at every place. */
static void check_updates(void) {
    const struct hybrid_shape *shape = &run->shape;
    const uint64_t samples = shape->updates / run->config.per_epoch * shape->examples;
    for (size_t place = 0; place < shape->places; place++) {
        uint64_t learnt = 0;
        for (size_t ring = 0; ring < shape->rings; ring++)
            learnt += run->rows[ring * shape->places + place].samples;
        CHECK_MSG(learnt == samples && run->rows[place].updates == shape->updates,
                  "%s: place %zu: %llu examples and %llu updates instead of %llu and %zu", shape->strategy,
                  place, (unsigned long long)learnt, (unsigned long long)run->rows[place].updates,
                  (unsigned long long)samples, shape->updates);
    }
    CHECK(run->counted && run->counts.applied == shape->updates && run->counts.dropped == 0);
}

TEST(every_gradient_counts_at_every_place) {
    static const char *const strategies[][2] = {{"ps-async", "prio: stale, dc: 0.04"},
                                                {"ps-ssp", "s: 1"},
                                                {"ps-ssp", "s: 0"},
                                                {"ps-vap", NULL},
                                                {"ps-shard", "base: async"},
                                                {"ps-shard", "base: ssp"},
                                                {"downpour", NULL}};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const struct rt_memnet_settings net = delays(seed);
            struct hybrid_shape shape = plain;
            shape.rings = seed + 1;
            shape.places = 1 + (i + seed) % 3 + ((i + seed) % 3 > 0);
            shape.strategy = strategies[i][0];
            shape.options = strategies[i][1];
            shape.late = seed == 2;
            shape.updates = 40;
            go(&net, &shape);
            check_updates();
            check_learnt();
            hybrid_close(run);
        }
}

/* The clocks of rings differ by no more than the bound, and so does what an update can have missed, at every
 * place. */
TEST(bounds_are_kept_at_every_place) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const struct rt_memnet_settings net = delays(100 + seed);
        const uint64_t bound = seed % 3;
        char options[32];
        struct hybrid_shape shape = plain;
        shape.rings = 2 + seed % 3;
        shape.places = seed % 2 ? 3 : 1;
        shape.strategy = "ps-ssp";
        snprintf(options, sizeof options, "s: %llu", (unsigned long long)bound);
        shape.options = options;
        shape.updates = 48;
        go(&net, &shape);
        for (size_t place = 0; place < shape.places; place++)
            CHECK_MSG(run->rows[place].staleness_max <= (2 * bound + 1) * (shape.rings - 1),
                      "place %zu, s = %llu: a staleness of %llu", place, (unsigned long long)bound,
                      (unsigned long long)run->rows[place].staleness_max);
        check_updates();
        hybrid_close(run);
    }
}

TEST(gradients_are_added_up_between_pushes) {
    struct hybrid_shape shape = plain;
    shape.strategy = "downpour";
    shape.options = "n_push: 4, n_fetch: 2";
    shape.updates = 48;
    go(NULL, &shape);
    check_learnt();
    CHECK_MSG(run->counts.applied < 24, "%llu updates of 48 batches",
              (unsigned long long)run->counts.applied);
    hybrid_close(run);
}

TEST(who_is_late_is_dropped_or_made_up_for) {
    static const char *const strategies[][2] = {
        {"ps-backup", "backup: 1"}, {"ps-cut", "cut: 0.5, base: async"}, {"ps-cut", "cut: 0.5, base: ssp"}};
    for (size_t i = 0; i < 3 * sizeof strategies / sizeof *strategies; i++) {
        const struct rt_memnet_settings net = delays(i);
        struct hybrid_shape shape = plain;
        shape.rings = 3;
        shape.places = i % 2 ? 3 : 1;
        shape.strategy = strategies[i / 3][0];
        shape.options = strategies[i / 3][1];
        go(&net, &shape);
        for (size_t k = 0; k < rig_floats(&run->rig); k++)
            CHECK(isfinite(run->floats[k]));
        CHECK(run->counts.applied == shape.updates);
        hybrid_close(run);
    }
}

/* A bound so tight that nearly everything is held: no ring waits at one place for another that waits for it
 * at the next. */
TEST(values_that_are_bounded_at_every_place) {
    static const char *const deltas[] = {"delta: 0.0001", "delta: 0.01", "factor: 0.01"};
    for (uint64_t seed = 1; seed <= 9; seed++) {
        const struct rt_memnet_settings net = delays(seed);
        struct hybrid_shape shape = plain;
        shape.rings = 2 + seed % 3;
        shape.places = 3 + seed % 2;
        shape.strategy = "ps-vap";
        shape.options = deltas[seed % 3];
        shape.updates = 80;
        go(&net, &shape);
        CHECK(run->counts.held > 0);
        check_updates();
        hybrid_close(run);
    }
}

/* Every link has a latency of its own, up to a hundred times that of another. */
static void scatter(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                    double *random_delay) {
    static const double factors[] = {1, 1, 3, 10, 30, 100};
    uint64_t hash = (from * 1000003u + to * 7919u + *(const uint64_t *)user * 104729u) * 0x9E3779B97F4A7C15u;
    (void)now, (void)bandwidth;
    hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 32;
    *latency *= factors[hash % 6];
    *random_delay *= factors[hash % 6];
}

/* No ring waits for ever at one place for another that waits for it at the next; and all places make every
 * update. The seeds are some with which they once did, or did not. */
TEST(nobody_waits_for_ever) {
    static const struct {
        size_t rings, places, updates;
        const char *strategy, *options;
        uint64_t seeds[4];
    } cases[] = {
        {3, 4, 100, "ps-vap", "delta: 0.0001", {30, 36, 50, 57}},
        {2, 3, 64, "ps-cut", "cut: 0.5, base: ssp, s: 0", {22, 29, 39, 66}},
        {4, 3, 64, "ps-cut", "cut: 0.5, base: ssp, s: 0", {371, 374, 497, 527}},
        {2, 3, 64, "ps-cut", "cut: 0.5, base: async", {20, 21, 22, 23}},
        {3, 4, 64, "ps-backup", "backup: 1", {1, 2, 3, 4}},
        {3, 3, 64, "ps-ssp", "s: 0", {1, 2, 3, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < 4; k++) {
            uint64_t seed = cases[i].seeds[k];
            const struct rt_memnet_settings net = {.seed = seed,
                                                   .latency = 1e-4,
                                                   .bandwidth = 1e8,
                                                   .random_delay = 1e-3,
                                                   .shape = scatter,
                                                   .user = &seed};
            struct hybrid_shape shape = plain;
            shape.rings = cases[i].rings;
            shape.places = cases[i].places;
            shape.updates = cases[i].updates;
            shape.strategy = cases[i].strategy;
            shape.options = cases[i].options;
            go(&net, &shape);
            for (size_t place = 0; place < shape.places; place++)
                CHECK_MSG(run->rows[place].updates == shape.updates,
                          "%s, seed %llu: place %zu has made %llu updates", shape.strategy,
                          (unsigned long long)seed, place, (unsigned long long)run->rows[place].updates);
            hybrid_close(run);
        }
}

/* More rings than batches: some never have one. */
TEST(hardly_any_examples) {
    static const char *const strategies[] = {"ps-async", "ps-ssp", "ps-vap", "downpour", "ps-backup"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct hybrid_shape shape = plain;
        shape.rings = 4;
        shape.examples = 3;
        shape.updates = 2;
        shape.strategy = strategies[i];
        go(NULL, &shape);
        hybrid_close(run);
    }
}

/* ---- somebody does not do his part --------------------------------------------------------------------- */

static void fail_with(const char *strategy, enum hybrid_fault fault, uint16_t who, const char *said) {
    struct rt_error err;
    struct hybrid_shape shape = plain;
    char name[16];
    shape.strategy = strategy;
    shape.updates = 200;
    shape.timeout = 10;
    shape.fault = fault;
    shape.who = who;
    snprintf(name, sizeof name, "node %u", who);
    CHECK_OK(hybrid_open(&shape, run, &err));
    mesh_in_memory(NULL, run->nodes, hybrid_attend, run);
    CHECK_MSG(run->status[0] == RT_FAILED && strstr(run->errors[0].text, name) &&
                  strstr(run->errors[0].text, said),
              "%s, fault %d of node %u: the master says: %s", strategy, (int)fault, who, run->errors[0].text);
    CHECK_MSG(run->lost == who, "%s, fault %d of node %u: node %zu is blamed: %s", strategy, (int)fault, who,
              run->lost, run->errors[0].text);
    for (size_t i = 0; i < run->nodes; i++) {
        if (i == who)
            continue;
        CHECK_MSG(run->status[i] != RT_OK, "%s, fault %d of node %u: node %zu is content", strategy,
                  (int)fault, who, i);
        CHECK_MSG(run->ended[i] < 45, "%s, fault %d of node %u: node %zu ends after %g seconds", strategy,
                  (int)fault, who, i, run->ended[i]);
    }
    hybrid_close(run);
}

/* In ring 0; the head of ring 1; another node of it. As far as the network can tell they answer. */
TEST(a_silent_node_is_named) {
    for (uint16_t who = 1; who <= 5; who++)
        fail_with(who % 2 ? "ps-async" : "ps-backup", SLEEPS, who, "made no progress for");
}

TEST(a_lost_node_is_named) {
    fail_with("ps-async", HANGS_UP, 1, "");
    fail_with("ps-ssp", HANGS_UP, 3, "");
    fail_with("ps-backup", HANGS_UP, 4, "");
}

TEST(a_node_that_talks_nonsense_is_named) {
    fail_with("ps-async", TALKS_NONSENSE, 1, "");
    fail_with("ps-ssp", TALKS_NONSENSE, 3, "");
    fail_with("ps-backup", TALKS_NONSENSE, 5, "not a RingTMP message");
}

TEST(a_node_that_is_told_to_end_is_named) {
    fail_with("ps-async", IS_STOPPED, 2, "the node is stopped");
    fail_with("ps-ssp", IS_STOPPED, 3, "the node is stopped");
    fail_with("ps-backup", IS_STOPPED, 5, "the node is stopped");
}

TEST_MAIN()
