/*
 * Rings side by side, over the network in memory, with the roles that real nodes have: the parameters of one
 * device to the bit, whatever the shape, the collective and the delays; and an end in bounded time, with a
 * sentence that names the node, when one of them does not do its part. Rings that stay together: those that
 * do not have test_hybrid_apart.c.
 */
/* labels: threads */
#include "support/hybridrig.h"
#include "support/test.h"

static const char tiny_layers[] =
    "{input: 1, loss: cross_entropy, layers: [{dense: 1}, tanh, {dense: 1}, {dense: 2}]}";

/* ---- the bits of one device ---------------------------------------------------------------------------- */

static void check_rows(const struct hybrid_run *run) {
    for (size_t i = 0; i < run->nodes; i++) {
        const struct rt_metrics_row *row = &run->rows[i];
        const struct rt_plan_node *node = &run->rig.plan_nodes[i % run->shape.places];
        size_t params = 0;
        for (size_t k = node->first; k < node->first + node->count; k++)
            params += run->rig.tiny.network.model->layers[k]->param_count;
        CHECK(row->updates == run->shape.updates);
        CHECK_MSG(params == 0 ||
                      (row->sent[2][RT_CHANNEL_SECOND] > 0 && row->received[2][RT_CHANNEL_SECOND] > 0),
                  "node %zu has counted no gradients between rings", i);
    }
}

/* net: NULL: an ordinary one. */
static void compare_over(const struct rt_memnet_settings *net, const struct hybrid_shape *shape,
                         const char *what) {
    struct rt_error err;
    static struct hybrid_run run;
    CHECK_OK(hybrid_open(shape, &run, &err));
    mesh_in_memory(net, run.nodes, hybrid_attend, &run);
    for (size_t i = 0; i < run.nodes; i++)
        CHECK_MSG(run.status[i] == RT_OK, "%s: node %zu: %s", what, i, run.errors[i].text);
    double loss = 0;
    size_t correct = 0;
    for (size_t i = shape->begin; i < shape->updates; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(run.rig.tiny.trainer, &step, &err));
        loss += step.loss;
        correct += step.correct;
    }
    float *single = calloc(rig_floats(&run.rig), sizeof *single);
    rig_single(&run.rig, single);
    CHECK_MSG(memcmp(single, run.floats, rig_floats(&run.rig) * sizeof *single) == 0,
              "%s: %zu rings of %zu nodes by %s: other bits than one device", what, shape->rings,
              shape->places, run.shape.strategy);
    CHECK_MSG(run.correct == correct && run.loss > 0.999999 * loss && run.loss < 1.000001 * loss,
              "%s: a loss of %.17g instead of %.17g", what, run.loss, loss);
    check_rows(&run);
    free(single);
    hybrid_close(&run);
}

static void compare(const struct hybrid_shape *shape, const char *what) {
    compare_over(NULL, shape, what);
}

/* 7 batches of 16 and one of 3: of 4 or 8 rings some have no example in it. */
static const struct hybrid_shape plain = {.rings = 2,
                                          .places = 3,
                                          .examples = 115,
                                          .batch = 16,
                                          .micro_batch = 2,
                                          .shards = 8,
                                          .updates = 10,
                                          .optimizer = "{adam: {lr: 0.01}}"};

TEST(any_shape) {
    static const size_t shapes[][2] = {{2, 1}, {4, 1}, {8, 1}, {2, 3}, {4, 3}, {2, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct hybrid_shape shape = plain;
        shape.rings = shapes[i][0];
        shape.places = shapes[i][1];
        compare(&shape, "plain");
    }
}

/* Frames that overtake one another between links, and links of very different speeds. */
static void shape_links(void *user, size_t from, size_t to, double now, double *latency, double *bandwidth,
                        double *random_delay) {
    (void)user, (void)now, (void)random_delay;
    *latency *= (double)(1 + (from * 7 + to * 3) % 11);
    *bandwidth /= (double)(1 + (from * 5 + to) % 7);
}

TEST(any_delays) {
    static const char *const strategies[] = {"allreduce-rd", "ps-sync", "allreduce-hd"};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const struct rt_memnet_settings net = {
            .seed = seed, .latency = 1e-4, .bandwidth = 1e6, .random_delay = 5e-3, .shape = shape_links};
        struct hybrid_shape shape = plain;
        shape.rings = seed % 2 ? 4 : 2;
        shape.places = seed % 2 ? 3 : 4;
        shape.tail = seed % 3;
        shape.strategy = strategies[seed % 3];
        shape.clip_norm = seed % 4 ? 0 : 0.3;
        compare_over(&net, &shape, "delays");
    }
}

TEST(any_way_that_adds_in_the_tree) {
    static const char *const strategies[] = {"allreduce-hd", "ps-sync", "ps-tree", "ps-shard"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct hybrid_shape shape = plain;
        shape.rings = 4;
        shape.strategy = strategies[i];
        compare(&shape, "ways");
    }
}

TEST(layers_at_once_or_each_when_it_is_ready) {
    struct hybrid_shape shape = plain;
    shape.late = true;
    compare(&shape, "wfbp=off");
    shape.rings = 4;
    shape.shards = 4; /* a ring has one slice */
    compare(&shape, "wfbp=off");
    shape.late = false;
    compare(&shape, "wfbp=on");
}

TEST(clipping_and_a_tail) {
    struct hybrid_shape shape = plain;
    shape.clip_norm = 0.3;
    compare(&shape, "clipping");
    shape.tail = 2;
    compare(&shape, "clipping and a tail");
    shape.clip_norm = 0;
    shape.rings = 4;
    compare(&shape, "a tail");
}

TEST(numbers_that_were_loaded) {
    struct hybrid_shape shape = plain;
    shape.begin = 4;
    compare(&shape, "loaded");
    shape.rings = 4;
    shape.tail = 1;
    compare(&shape, "loaded");
}

/* They may be there before a head has heard which batch comes next. */
TEST(numbers_that_come_before_the_first_ticket) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct rt_memnet_settings net = {
            .seed = seed, .latency = 1e-4, .bandwidth = 1e9, .random_delay = 1e-2};
        struct hybrid_shape shape = plain;
        shape.rings = 4;
        shape.places = seed % 4 ? 1 : 3;
        shape.updates = 6;
        shape.begin = 4;
        shape.optimizer = "{sgd: {lr: 0.1}}";
        compare_over(&net, &shape, "loaded, in any order");
    }
}

/* Fewer examples than rings in every batch. */
TEST(hardly_any_examples) {
    struct hybrid_shape shape = plain;
    shape.rings = 4;
    shape.examples = 3;
    compare(&shape, "three examples");
}

/* Fewer parameters in a layer than rings: whoever would have a part of them has none. */
TEST(layers_of_two_parameters) {
    size_t count = 0;
    for (const struct rt_exchange_strategy *const *at = rt_exchange_strategies(); *at; at++) {
        if ((*at)->exact != RT_EXACT_BITS || (*at)->no_rings)
            continue;
        struct hybrid_shape shape = plain;
        shape.model = tiny_layers;
        shape.rings = 8;
        shape.places = 1;
        shape.strategy = (*at)->name;
        compare(&shape, "two parameters");
        count++;
    }
    CHECK(count > 0);
}

/* ---- another order of additions ------------------------------------------------------------------------ */

/* Layers are exchanged each by itself, so it does not count where the rings are cut. */
TEST(the_cut_does_not_count) {
    static const char *const strategies[] = {"allreduce-ring", "ps-peer", "ps-scatter", "allreduce-rd",
                                             "ps-hier"};
    struct rt_error err;
    static struct hybrid_run run;
    for (size_t k = 0; k < 2 * sizeof strategies / sizeof *strategies; k++) {
        const size_t i = k / 2;
        const bool few = k % 2; /* parameters in a layer */
        float *before = NULL;
        for (size_t places = 1; places <= (few ? 3 : 4); places += places == 1 ? 2 : 1) {
            struct hybrid_shape shape = plain;
            shape.rings = 3;
            shape.places = places;
            shape.strategy = strategies[i];
            shape.late = places == 4;
            shape.model = few ? tiny_layers : NULL;
            CHECK_OK(hybrid_open(&shape, &run, &err));
            mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
            for (size_t n = 0; n < run.nodes; n++)
                CHECK_MSG(run.status[n] == RT_OK, "%s: node %zu: %s", strategies[i], n, run.errors[n].text);
            const size_t bytes = rig_floats(&run.rig) * sizeof(float);
            if (before)
                CHECK_MSG(memcmp(before, run.floats, bytes) == 0,
                          "%s: rings of %zu nodes have other bits than rings of one", strategies[i], places);
            else
                before = memcpy(malloc(bytes), run.floats, bytes);
            hybrid_close(&run);
        }
        free(before);
    }
}

/* ---- somebody does not do his part --------------------------------------------------------------------- */

static void fail_with(enum hybrid_fault fault, uint16_t who, const char *said) {
    struct rt_error err;
    static struct hybrid_run run;
    struct hybrid_shape shape = plain;
    char name[16];
    shape.updates = 200;
    shape.timeout = 10;
    shape.fault = fault;
    shape.who = who;
    snprintf(name, sizeof name, "node %u", who);
    CHECK_OK(hybrid_open(&shape, &run, &err));
    mesh_in_memory(NULL, run.nodes, hybrid_attend, &run);
    CHECK_MSG(run.status[0] == RT_FAILED && strstr(run.errors[0].text, name) &&
                  strstr(run.errors[0].text, said),
              "fault %d of node %u: the master says: %s", (int)fault, who, run.errors[0].text);
    CHECK_MSG(run.lost == who, "fault %d of node %u: node %zu is blamed: %s", (int)fault, who, run.lost,
              run.errors[0].text);
    for (size_t i = 0; i < run.nodes; i++) {
        if (i == who)
            continue;
        CHECK_MSG(run.status[i] != RT_OK, "fault %d of node %u: node %zu is content", (int)fault, who, i);
        CHECK_MSG(run.ended[i] < 45, "fault %d of node %u: node %zu ends after %g seconds", (int)fault, who,
                  i, run.ended[i]);
    }
    hybrid_close(&run);
}

/* In ring 0; the head of ring 1; another node of it. As far as the network can tell they answer. */
TEST(a_silent_node_is_named) {
    fail_with(SLEEPS, 1, "made no progress for");
    fail_with(SLEEPS, 2, "made no progress for");
    fail_with(SLEEPS, 3, "made no progress for");
    fail_with(SLEEPS, 4, "made no progress for");
    fail_with(SLEEPS, 5, "made no progress for");
}

TEST(a_lost_node_is_named) {
    fail_with(HANGS_UP, 1, "");
    fail_with(HANGS_UP, 3, "");
    fail_with(HANGS_UP, 4, "");
}

TEST(a_node_that_talks_nonsense_is_named) {
    fail_with(TALKS_NONSENSE, 1, "");
    fail_with(TALKS_NONSENSE, 3, "");
    fail_with(TALKS_NONSENSE, 5, "node 5: not a RingTMP message");
}

TEST(a_node_that_is_told_to_end_is_named) {
    fail_with(IS_STOPPED, 2, "the node is stopped");
    fail_with(IS_STOPPED, 3, "the node is stopped");
    fail_with(IS_STOPPED, 5, "the node is stopped");
}

TEST_MAIN()
