/*
 * A training step takes no memory: the allocator is replaced by one that counts, and twenty updates of an MLP
 * and of a network with every kind of layer there is must not move the counter. Nor must those of an
 * exchange, of whatever way: by a network that is alone, with the server where there is one, and by three
 * nodes over TCP that have a toy to learn. Nor must those of a ring: whole updates of master and workers,
 * with all their messages, metrics among them, over the network in memory.
 */
#include "exchange/strategy.h"
#include "formats/yaml.h"
#include "run/learner.h"
#include "support/counting.h"
#include "support/exrig.h"
#include "support/ringrig.h"
#include "support/test.h"
#include "support/tiny.h"

static void check_steps(const char *model, const char *optimizer, struct rt_trainer_settings settings,
                        size_t threads) {
    struct rt_error err;
    struct tiny tiny;
    CHECK_OK(tiny_open(model, optimizer, 50, &(struct tiny_way){.threads = threads}, &settings, &tiny, &err));
    long before = allocations;
    for (int i = 0; i < 20; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    }
    long during = allocations - before;
    tiny_close(&tiny);
    CHECK_MSG(during == 0, "%ld allocations during 20 updates of %.60s", during, model);
}

static void check_settings(const char *model) {
    const struct rt_trainer_settings plain = {
        .seed = 1, .batch = 16, .micro_batch = 16, .shards = 1, .shuffle = true};
    struct rt_trainer_settings settings = plain;
    for (size_t threads = 1; threads <= 2; threads++) {
        check_steps(model, "sgd", settings, threads);
        settings.micro_batch = 4;
        check_steps(model, "adam", settings, threads);
        settings.clip_norm = 0.1;
        settings.shards = 4;
        check_steps(model, "momentum", settings, threads);
        settings = plain;
    }
}

TEST(counter_counts) {
    need_counting();
    long before = allocations;
    void *volatile memory = malloc(100);
    free(memory);
    CHECK(allocations > before);
}

TEST(mlp_step_takes_no_memory) {
    need_counting();
    check_settings(
        "{input: 60, loss: cross_entropy, layers: [{dense: 100}, relu, {dense: 50}, relu, {dense: 10}]}");
}

TEST(every_layer_takes_no_memory) {
    need_counting();
    static const char model[] =
        "{input: [2, 12, 12], loss: mse, layers: [{conv2d: {filters: 8, kernel: 3, pad: 1}}, batchnorm, "
        "relu, "
        "{residual: [{conv2d: {filters: 8, kernel: 3, pad: 1, groups: 8}}, elu]}, {maxpool: 2}, leaky_relu, "
        "{avgpool: {kernel: 3, stride: 1, pad: 1}}, gelu, {dropout: 0.2}, {residual: [layernorm, tanh]}, "
        "{conv2d: {filters: 16, kernel: 3}}, sigmoid, global_avgpool, flatten, {dense: 6}, softmax]}";
    for (size_t i = 0; rt_layer_types()[i]; i++)
        CHECK_MSG(strstr(model, rt_layer_types()[i]->name), "the model of this test has no %s",
                  rt_layer_types()[i]->name);
    check_settings(model);
}

/* ---- exchanges ---- */

static const char wide[] =
    "{input: 60, loss: cross_entropy, layers: [{dense: 100}, relu, {dense: 50}, relu, {dense: 10}]}";

static void check_way(const struct rt_exchange_strategy *strategy, struct tiny *tiny,
                      const struct rt_trainer_settings *settings) {
    struct rt_error err;
    struct rt_spec *spec;
    struct rt_exchange_options options;
    struct rt_network network = {0};
    struct rt_learner learner;
    static const char run[] = "{train: {batch: 16, validate_epochs: 0}}";
    const struct rt_computing computing = {.kernels = "auto", .threads = 2};
    CHECK_OK(rt_spec_parse(run, sizeof run - 1, "run", NULL, 0, &spec, &err));
    CHECK_OK(rt_exchange_options_read(strategy, NULL, &options, &err));
    CHECK_OK(rt_network_describe(rt_tree_get(tiny->tree, "input"), rt_tree_get(tiny->tree, "layers"),
                                 "cross_entropy", &computing, &network, &err));
    const struct rt_training_config config = {.spec = spec,
                                              .network = &network,
                                              .set = &tiny->set,
                                              .scaling = &tiny->scaling,
                                              .target = RT_TARGET_CLASSES,
                                              .optim = tiny->optim,
                                              .schedule = &tiny->schedule,
                                              .settings = *settings,
                                              .per_epoch = 4,
                                              .strategy = strategy->name,
                                              .options = &options,
                                              .exchange = strategy};
    REQUIRE(rt_learner_exchange(&config, &learner, &err) == RT_OK);
    struct rt_step step;
    CHECK_OK(learner.step(learner.self, &step, &err));
    const long before = allocations;
    for (int i = 0; i < 20; i++)
        CHECK_OK(learner.step(learner.self, &step, &err));
    const long during = allocations - before;
    CHECK_MSG(during == 0, "%ld allocations during 20 updates by %s", during, strategy->name);
    CHECK(step.update == 21);
    free(learner.plan);
    learner.destroy(learner.self);
    rt_network_destroy(&network);
    rt_spec_destroy(spec);
}

TEST(exchange_step_takes_no_memory) {
    need_counting();
    struct rt_error err;
    struct tiny tiny;
    struct rt_trainer_settings settings = {
        .seed = 1, .batch = 16, .micro_batch = 16, .shards = 1, .shuffle = true, .updates = 1000};
    CHECK_OK(tiny_open(wide, "momentum", 50, &(struct tiny_way){0}, &settings, &tiny, &err));
    for (size_t i = 0; rt_exchange_strategies()[i]; i++) {
        const struct rt_exchange_strategy *strategy = rt_exchange_strategies()[i];
        check_way(strategy, &tiny, &settings);
        struct rt_trainer_settings cut = settings;
        cut.shards = 4;
        cut.micro_batch = 2;
        check_way(strategy, &tiny, &cut);
    }
    tiny_close(&tiny);
}

/* All nodes are threads of this process: what any of them takes is counted. */
static void train_and_count(void *user, struct exrig *rig) {
    long *during = user;
    struct rt_metrics_row rows[EXRIG_NODES];
    CHECK(exrig_train(rig, 12));
    const long before = allocations;
    CHECK(exrig_train(rig, 30) && exrig_metrics(rig, rows) && exrig_train(rig, 30));
    *during = allocations - before;
    CHECK(exrig_settle(rig));
}

TEST(exchange_between_nodes_takes_no_memory) {
    need_counting();
    for (size_t i = 0; rt_exchange_strategies()[i]; i++) {
        struct rt_error err;
        struct exrig rig;
        long during = -1;
        const struct exrig_settings settings = {
            .strategy = rt_exchange_strategies()[i]->name, .nodes = 3, .params = 4000, .tcp = true};
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, train_and_count, &during, &err));
        CHECK_MSG(during == 0, "%ld allocations during 60 batches by %s", during, settings.strategy);
        exrig_close(&rig);
    }
}

/* ---- rings ---- */

/* Every fourth update METRICS go round: each node decodes the rows of those before it and adds its own. */
static void count_in_ring(void *user, struct rig *rig, struct rt_ring *ring) {
    long *during = user;
    struct rt_metrics_row rows[RIG_NODES];
    if (!rig_steps(rig, ring, 4))
        return;
    const long before = allocations;
    for (size_t i = 0; i < 5 && rig->status[0] == RT_OK; i++)
        if (rig_steps(rig, ring, 4))
            rig->status[0] = rt_ring_metrics(ring, rows, &rig->errors[0]);
    if (rig->status[0] == RT_OK && rows[0].updates >= 20)
        *during = allocations - before;
}

static void check_ring(struct rig_settings settings, const char *what) {
    struct rt_error err;
    struct rig rig;
    long during = -1;
    settings.model = wide;
    settings.examples = 50;
    settings.batch = 16;
    settings.updates = 100;
    CHECK_OK(rig_open(&settings, &rig, &err));
    CHECK_OK(rig_run(&rig, count_in_ring, &during, &err));
    for (size_t i = 0; i < settings.nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "%s: node %zu: %s", what, i, rig.errors[i].text);
    CHECK_MSG(during == 0, "%ld allocations during 20 updates and 5 METRICS of a ring, %s", during, what);
    rig_close(&rig);
}

TEST(ring_takes_no_memory) {
    need_counting();
    const struct rig_settings plain = {.nodes = 3, .micro_batch = 4, .slots = 2};
    struct rig_settings settings = plain;
    check_ring(settings, "plain");
    settings.together = true;
    settings.tail = 1;
    check_ring(settings, "1f1b and a tail");
    settings = plain;
    settings.optimizer = "{adam: {}}";
    settings.clip_norm = 0.1;
    settings.shards = 4;
    check_ring(settings, "adam, clipping and shards");
    settings = plain;
    settings.flow = true;
    check_ring(settings, "ring-flow");
    settings = plain;
    settings.nodes = 1;
    check_ring(settings, "alone");
}

TEST_MAIN()
