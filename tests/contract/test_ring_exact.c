/* A ring gives the bits of one device: whatever the number of nodes, the size of micro-batches, the order of
 * work and the delays on the way. Parameters, buffers and the optimizer's state are compared. */
/* labels: threads emulated */
#include "support/ringrig.h"
#include "support/test.h"

static const char mlp[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 14}, relu, "
                          "{dense: 12}, tanh, {dense: 10}, relu, {dense: 9}, {dense: 5}]}";
/* Its masks depend on which examples these are, which must reach the layers that drop, and the tail. */
static const char drops[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, relu, {dense: 14}, "
                            "{dropout: 0.4}, {dense: 12}, tanh, {dense: 10}, {dropout: 0.3}, {dense: 5}]}";
/* Where batches are normalised, statistics go round beside the parameters. */
static const char cnn[] =
    "{input: [1, 8, 8], loss: cross_entropy, layers: [{conv2d: {filters: 4, kernel: 3, pad: 1}}, batchnorm, "
    "relu, {residual: [{conv2d: {filters: 4, kernel: 3, pad: 1}}, relu, {conv2d: {filters: 4, kernel: 3, "
    "pad: 1}}]}, relu, {maxpool: 2}, {residual: [{conv2d: {filters: 4, kernel: 3, pad: 1}}, {dropout: "
    "0.2}]}, flatten, {dense: 5}]}";
static const struct {
    const char *name, *layers;
} models[] = {{"mlp", mlp}, {"cnn", cnn}, {"dropout", drops}};

/* ---- choices ------------------------------------------------------------------------------------------- */

/* A case is a value of each choice. Few cases, in which every value of one choice meets every value of each
 * other choice; greedily, the next case is the one in which most meet for the first time. With RT_EVERY_CASE
 * in the environment, as tests/long/test_ring_all.sh has it: all there are. */
enum { CHOICES = 6, VALUES = 20 };
struct choices {
    size_t count[CHOICES]; /* of values */
    size_t given;          /* cases so far */
    bool met[CHOICES][VALUES][CHOICES][VALUES];
};

static size_t case_count(const struct choices *choices) {
    size_t cases = 1;
    for (size_t i = 0; i < CHOICES; i++)
        cases *= choices->count[i];
    return cases;
}

static void case_at(const struct choices *choices, size_t number, size_t value[CHOICES]) {
    for (size_t i = 0; i < CHOICES; i++) {
        value[i] = number % choices->count[i];
        number /= choices->count[i];
    }
}

static size_t first_meetings(const struct choices *choices, const size_t value[CHOICES]) {
    size_t found = 0;
    for (size_t i = 0; i < CHOICES; i++)
        for (size_t k = 0; k < i; k++)
            found += !choices->met[i][value[i]][k][value[k]];
    return found;
}

static bool next_case(struct choices *choices, size_t value[CHOICES]) {
    const size_t cases = case_count(choices);
    const bool every = getenv("RT_EVERY_CASE") != NULL;
    size_t best = choices->given, most = 0;
    for (size_t number = 0; number < cases && !every; number++) {
        case_at(choices, number, value);
        const size_t found = first_meetings(choices, value);
        if (found > most) {
            most = found;
            best = number;
        }
    }
    if (every ? best == cases : most == 0)
        return false;
    case_at(choices, best, value);
    for (size_t i = 0; i < CHOICES; i++)
        for (size_t k = 0; k < i; k++)
            choices->met[i][value[i]][k][value[k]] = true;
    choices->given++;
    return true;
}

static size_t optimizer_count(void) {
    size_t count = 0;
    while (rt_optim_types()[count])
        count++;
    return count;
}

static const size_t node_counts[] = {1, 2, 3, 4, 8}, micro_batches[] = {1, 4, 16};
enum { MODELS = 3, NODE_COUNTS = 5, MICRO_BATCHES = 3 };

/* ---- one result ---------------------------------------------------------------------------------------- */

struct outcome {
    float *floats; /* as gathered */
    double loss, single_loss;
    size_t correct, single_correct;
};

static void train(void *user, struct rig *rig, struct rt_ring *ring) {
    struct outcome *outcome = user;
    for (size_t i = 0; rig->status[0] == RT_OK && i < rig->settings.updates; i++) {
        struct rt_ring_update update;
        rig->status[0] = rt_ring_step(ring, &update, &rig->errors[0]);
        if (rig->status[0] != RT_OK)
            return;
        outcome->loss += update.loss;
        outcome->correct += update.correct;
        if (update.update != i + 1 || rt_ring_version(ring) != i + 1)
            rig->status[0] = rt_fail(&rig->errors[0], RT_FAILED, "update %zu is called %llu", i + 1,
                                     (unsigned long long)update.update);
    }
    if (rig->status[0] == RT_OK)
        rig->status[0] = rig_gather(rig, ring, outcome->floats, &rig->errors[0]);
}

/* Runs the ring and the single device, and compares. */
static void compare(const struct rig_settings *settings, const char *what) {
    struct rt_error err;
    struct rig rig;
    struct outcome outcome = {0};
    CHECK_OK(rig_open(settings, &rig, &err));
    outcome.floats = calloc(rig_floats(&rig), sizeof(float));
    float *single = calloc(rig_floats(&rig), sizeof(float));
    CHECK_OK(rig_run(&rig, train, &outcome, &err));
    for (size_t i = 0; i < settings->nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "%s: node %zu: %s", what, i, rig.errors[i].text);
    for (size_t i = 0; i < rig.settings.updates; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
        outcome.single_loss += step.loss;
        outcome.single_correct += step.correct;
    }
    rig_single(&rig, single);
    CHECK_MSG(memcmp(single, outcome.floats, rig_floats(&rig) * sizeof(float)) == 0,
              "%s: %zu nodes, micro_batch %zu, %s: other bits than one device", what, settings->nodes,
              settings->micro_batch, settings->together ? "1f1b" : "split");
    CHECK_MSG(outcome.loss == outcome.single_loss && outcome.correct == outcome.single_correct,
              "%s: the losses differ", what);
    free(single);
    free(outcome.floats);
    rig_close(&rig);
}

TEST(any_number_of_nodes) {
    for (size_t i = 0; i < NODE_COUNTS; i++)
        compare(&(struct rig_settings){.model = mlp,
                                       .nodes = node_counts[i],
                                       .slots = 4,
                                       .examples = 40,
                                       .batch = 16,
                                       .micro_batch = 4,
                                       .updates = 7,
                                       .optimizer = "{adam: {lr: 0.01}}"},
                "plain");
}

static const struct rig_settings plain = {.model = mlp,
                                          .nodes = 3,
                                          .slots = 3,
                                          .examples = 40,
                                          .batch = 16,
                                          .micro_batch = 4,
                                          .updates = 5,
                                          .optimizer = "{momentum: {lr: 0.05, momentum: 0.9}}"};

TEST(any_micro_batch_in_either_order_of_work) {
    static const size_t nodes[] = {2, 4, 8};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < MICRO_BATCHES; k++)
            for (int together = 0; together < 2; together++) {
                struct rig_settings settings = plain;
                settings.nodes = nodes[i];
                settings.micro_batch = micro_batches[k];
                settings.together = together;
                settings.slots = 1 + (i + k) % 4;
                compare(&settings, "order");
            }
}

/* Delays on every link, so that messages come in all orders that there may be. */
TEST(delays_change_nothing) {
    const size_t optimizers = optimizer_count();
    struct choices choices = {.count = {MODELS, optimizers, NODE_COUNTS, MICRO_BATCHES, 2, 2}};
    size_t value[CHOICES];
    REQUIRE(optimizers <= VALUES);
    while (next_case(&choices, value)) {
        struct rig_settings settings = plain;
        const uint64_t seed = choices.given;
        char what[80];
        settings.model = models[value[0]].layers;
        settings.optimizer = rt_optim_types()[value[1]]->name;
        settings.nodes = node_counts[value[2]];
        settings.micro_batch = micro_batches[value[3]];
        settings.together = value[4];
        settings.tail = value[5];
        settings.updates = 3; /* of which the last has a short batch */
        settings.seed = seed;
        settings.slots = 1 + seed % 5;
        settings.latency = 0.001;
        settings.random_delay = 0.02;
        settings.bandwidth = seed % 2 ? 20000 : 0;
        settings.clip_norm = seed % 3 == 0 ? 0.5 : 0;
        snprintf(what, sizeof what, "delays, %s, %s", models[value[0]].name, settings.optimizer);
        compare(&settings, what);
    }
    printf("%zu rings with delays had the bits of one device\n", choices.given);
    CHECK(choices.given >= NODE_COUNTS * optimizers);
}

/* Where computing takes time too, weight gradients wait while the next update's activations are here. */
TEST(slow_devices_change_nothing) {
    for (size_t nodes = 1; nodes <= 4; nodes++) {
        struct rig_settings settings = plain;
        settings.nodes = nodes;
        settings.slowdown = 300;
        settings.slots = 2 + nodes;
        settings.random_delay = 0.0001;
        settings.tail = nodes / 2;
        compare(&settings, "slow devices");
    }
}

TEST(every_optimizer) {
    for (const struct rt_optim_type *const *type = rt_optim_types(); *type; type++) {
        struct rig_settings settings = plain;
        settings.optimizer = (*type)->name;
        compare(&settings, (*type)->name);
    }
}

TEST(clipping_by_the_norm_of_all) {
    for (size_t nodes = 1; nodes <= 4; nodes++)
        for (size_t tail = 0; tail < 2; tail++) {
            struct rig_settings settings = plain;
            settings.nodes = nodes;
            settings.tail = tail;
            settings.clip_norm = 0.05;
            settings.together = tail;
            compare(&settings, "clipping");
        }
}

TEST(slices_of_a_batch) {
    struct rig_settings settings = plain;
    settings.shards = 4;
    settings.micro_batch = 3;
    compare(&settings, "shards");
    settings.shards = 32; /* more than rows */
    compare(&settings, "shards");
    settings.clip_norm = 0.05;
    compare(&settings, "shards");
}

TEST(a_tail_on_the_master) {
    for (size_t tail = 1; tail <= 3; tail++) {
        struct rig_settings settings = plain;
        settings.tail = tail;
        settings.slots = tail;
        settings.micro_batch = 3;
        compare(&settings, "tail");
    }
}

TEST(dropout) {
    struct rig_settings settings = plain;
    settings.model = drops;
    for (size_t nodes = 1; nodes <= 4; nodes++)
        for (size_t tail = 0; tail < 3; tail++) {
            settings.nodes = nodes;
            settings.tail = tail;
            settings.micro_batch = 1 + nodes;
            compare(&settings, "dropout");
        }
}

TEST(convolutions_with_residual_blocks) {
    struct rig_settings settings = plain;
    settings.model = cnn;
    settings.updates = 3;
    for (size_t nodes = 2; nodes <= 4; nodes++) {
        settings.nodes = nodes;
        settings.tail = nodes % 2;
        compare(&settings, "cnn");
    }
}

/* ---- between updates ----------------------------------------------------------------------------------- */

struct evaluation {
    struct rig *rig;
    float *outputs;
    size_t count; /* of outputs so far */
    bool fail;
};

static rt_status give(void *user, size_t first, size_t rows, float *x, struct rt_error *err) {
    const struct evaluation *evaluation = user;
    const size_t inputs = evaluation->rig->tiny.network.inputs;
    if (evaluation->fail && first > 10)
        return rt_fail(err, RT_FAILED, "no more");
    memcpy(x, evaluation->rig->tiny.inputs + first * inputs, rows * inputs * sizeof *x);
    return RT_OK;
}

static rt_status take(void *user, size_t first, size_t rows, const float *y, struct rt_error *err) {
    struct evaluation *evaluation = user;
    const size_t outputs = evaluation->rig->tiny.network.outputs;
    if (first != evaluation->count)
        return rt_fail(err, RT_FAILED, "outputs from %zu on where %zu was expected", first,
                       evaluation->count);
    memcpy(evaluation->outputs + first * outputs, y, rows * outputs * sizeof *y);
    evaluation->count += rows;
    return RT_OK;
}

/* Training, an evaluation, one that its caller ends, more training, another evaluation. */
static void train_and_evaluate(void *user, struct rig *rig, struct rt_ring *ring) {
    struct evaluation *evaluation = user;
    const struct rt_forward_pass pass = {evaluation, give, take};
    evaluation->rig = rig;
    if (!rig_steps(rig, ring, 2))
        return;
    rig->status[0] = rt_ring_evaluate(ring, 37, &pass, &rig->errors[0]);
    evaluation->count = 0;
    evaluation->fail = true;
    struct rt_error err;
    CHECK(rt_ring_evaluate(ring, 37, &pass, &err) == RT_FAILED && strstr(err.text, "no more"));
    evaluation->fail = false;
    evaluation->count = 0;
    if (rig_steps(rig, ring, 2))
        rig->status[0] = rt_ring_evaluate(ring, 37, &pass, &rig->errors[0]);
    CHECK(evaluation->count == 37);
    atomic_store(&rig->stop, 1);
    CHECK(rt_ring_evaluate(ring, 37, &pass, &err) == RT_INTERRUPTED);
    struct rt_ring_update update;
    CHECK(rt_ring_step(ring, &update, &err) == RT_INTERRUPTED);
}

TEST(evaluation_equals_one_device) {
    for (size_t nodes = 1; nodes <= 4; nodes++) {
        struct rt_error err;
        struct rig rig;
        static float outputs[40 * 5], slot[20000];
        struct evaluation evaluation = {.outputs = outputs};
        struct rig_settings settings = plain;
        settings.nodes = nodes;
        settings.tail = nodes % 2;
        settings.random_delay = 0.01;
        settings.clip_norm = nodes == 2 ? 0.1 : 0;
        CHECK_OK(rig_open(&settings, &rig, &err));
        CHECK_OK(rig_run(&rig, train_and_evaluate, &evaluation, &err));
        for (size_t i = 0; i < nodes; i++)
            CHECK_MSG(rig.status[i] == RT_OK, "node %zu: %s", i, rig.errors[i].text);
        struct rt_network *network = &rig.tiny.network;
        for (size_t i = 0; i < 4; i++) {
            struct rt_step step;
            CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
        }
        REQUIRE(rt_model_slot_floats(network->model, 37, false) <= 20000);
        const struct rt_pass pass = {.device = &network->device, .rows = 37};
        const float *y = rt_model_forward(network->model, &pass, &network->blocks, slot, rig.tiny.inputs);
        CHECK_MSG(memcmp(y, outputs, 37 * 5 * sizeof *y) == 0, "%zu nodes: other outputs", nodes);
        rig_close(&rig);
    }
}

/* A snapshot after update 3 is gathered while updates 4 to 8 happen, one after 8 during 9 and 10. */
struct snapshots {
    struct rig_words tensors[2];
};

static void train_and_gather(void *user, struct rig *rig, struct rt_ring *ring) {
    struct snapshots *snapshots = user;
    struct rt_error *err = &rig->errors[0];
    for (size_t i = 0; i < 2; i++) {
        if (!rig_steps(rig, ring, i ? 5 : 3))
            return;
        rig->status[0] = rt_ring_snapshot(ring, err);
        if (rig->status[0] == RT_OK)
            rig->status[0] = rt_ring_collect_begin(ring, 0, 3, rig_write, &snapshots->tensors[i], err);
        CHECK(!rt_ring_collect_done(ring) || rig->settings.nodes == 1);
    }
    if (!rig_steps(rig, ring, 2))
        return;
    rig->status[0] = rt_ring_collect_finish(ring, err);
    CHECK(rt_ring_collect_done(ring));
}

TEST(a_snapshot_is_gathered_while_training_goes_on) {
    for (size_t i = 0; i < 12; i++) {
        const size_t nodes = 1 + i % 4;
        struct rt_error err;
        struct rig rig;
        struct rig_settings settings = plain;
        settings.nodes = nodes;
        settings.tail = nodes % 2;
        settings.optimizer = "adam";
        settings.random_delay = 0.02;
        settings.slowdown = 100;
        settings.seed = i; /* sometimes the question overtakes the snapshot */
        CHECK_OK(rig_open(&settings, &rig, &err));
        const size_t count = rig_floats(&rig);
        struct snapshots snapshots = {{{calloc(count, sizeof(float)), 0}, {calloc(count, sizeof(float)), 0}}};
        float *single = calloc(count, sizeof(float));
        CHECK_OK(rig_run(&rig, train_and_gather, &snapshots, &err));
        for (size_t k = 0; k < nodes; k++)
            CHECK_MSG(rig.status[k] == RT_OK, "node %zu: %s", k, rig.errors[k].text);
        for (size_t at = 0; at < 2; at++) {
            const struct rig_words *tensors = &snapshots.tensors[at];
            for (size_t k = 0; k < (at ? 5 : 3); k++) {
                struct rt_step step;
                CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
            }
            rig_single(&rig, single);
            CHECK_MSG(tensors->count == count && memcmp(single, tensors->floats, count * sizeof(float)) == 0,
                      "%zu nodes: other parameters than after update %d", nodes, at ? 8 : 3);
            free(tensors->floats);
        }
        free(single);
        rig_close(&rig);
    }
}

/* What was gathered after update 3 is loaded into a ring of another size, which goes on to update 6. */
struct halves {
    struct rig_words tensors;
    float *end;
};

static void first_half(void *user, struct rig *rig, struct rt_ring *ring) {
    struct halves *halves = user;
    if (rig_steps(rig, ring, 3))
        rig->status[0] = rig_gather(rig, ring, halves->tensors.floats, &rig->errors[0]);
}

static void second_half(void *user, struct rig *rig, struct rt_ring *ring) {
    struct halves *halves = user;
    const size_t tensors = 1 + rig->tiny.optim->type->state_tensors;
    rig->status[0] = rt_ring_load(ring, tensors, 3, rig_read, &halves->tensors, &rig->errors[0]);
    CHECK(rt_ring_version(ring) == 3);
    if (rig_steps(rig, ring, 3))
        rig->status[0] = rig_gather(rig, ring, halves->end, &rig->errors[0]);
}

/* One half with the settings before, the other with those after; both have one result. */
static void compare_halves(const struct rig_settings *before, const struct rig_settings *after,
                           const char *what) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(before, &rig, &err));
    const size_t bytes = rig_floats(&rig) * sizeof(float);
    struct halves halves = {{malloc(bytes), 0}, malloc(bytes)};
    CHECK_OK(rig_run(&rig, first_half, &halves, &err));
    for (size_t i = 0; i < before->nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "%s: node %zu: %s", what, i, rig.errors[i].text);
    rig_close(&rig);
    CHECK_OK(rig_open(after, &rig, &err));
    CHECK_OK(rig_run(&rig, second_half, &halves, &err));
    for (size_t i = 0; i < after->nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "%s: node %zu: %s", what, i, rig.errors[i].text);
    for (size_t i = 0; i < 6; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
    }
    rig_single(&rig, halves.tensors.floats);
    CHECK_MSG(memcmp(halves.tensors.floats, halves.end, bytes) == 0, "%s: %zu nodes, then %zu: other bits",
              what, before->nodes, after->nodes);
    free(halves.tensors.floats);
    free(halves.end);
    rig_close(&rig);
}

/* Every optimizer and every model meets every pair of sizes. */
TEST(a_run_goes_on_in_a_ring_of_another_size) {
    const size_t optimizers = optimizer_count();
    /* The last two: the order of the work before and after. */
    struct choices choices = {
        .count = {MODELS, optimizers, NODE_COUNTS * (NODE_COUNTS - 1), MICRO_BATCHES, 2, 2}};
    size_t value[CHOICES];
    REQUIRE(optimizers <= VALUES && choices.count[2] <= VALUES);
    while (next_case(&choices, value)) {
        struct rig_settings before = plain;
        char what[80];
        const size_t from = value[2] % NODE_COUNTS, to = (from + 1 + value[2] / NODE_COUNTS) % NODE_COUNTS;
        before.model = models[value[0]].layers;
        before.optimizer = rt_optim_types()[value[1]]->name;
        before.nodes = node_counts[from];
        before.micro_batch = micro_batches[value[3]];
        before.together = value[4];
        before.random_delay = 0.01;
        before.seed = choices.given;
        struct rig_settings after = before;
        after.nodes = node_counts[to];
        after.together = value[5];
        after.tail = choices.given % 2;
        snprintf(what, sizeof what, "%s, %s", models[value[0]].name, before.optimizer);
        compare_halves(&before, &after, what);
    }
    printf("%zu rings went on with the bits of one device\n", choices.given);
    CHECK(choices.given >= choices.count[2] * optimizers);
}

/* Back to update 3 after update 5: as if the two between had never been. */
static void go_back(void *user, struct rig *rig, struct rt_ring *ring) {
    struct halves *halves = user;
    if (!rig_steps(rig, ring, 3))
        return;
    rig->status[0] = rig_gather(rig, ring, halves->tensors.floats, &rig->errors[0]);
    if (!rig_steps(rig, ring, 2))
        return;
    rig->status[0] = rt_ring_load(ring, 3, 3, rig_read, &halves->tensors, &rig->errors[0]);
    if (rig_steps(rig, ring, 3))
        rig->status[0] = rig_gather(rig, ring, halves->end, &rig->errors[0]);
}

TEST(a_run_can_go_back) {
    for (size_t i = 0; i < 12; i++) {
        struct rt_error err;
        struct rig rig;
        struct rig_settings settings = plain;
        settings.optimizer = "adam";
        settings.nodes = 1 + i % 4;
        settings.slots = 1 + i % 3;
        settings.tail = i % 2;
        settings.random_delay = 0.02;
        settings.slowdown = i % 2 ? 200 : 0;
        settings.seed = i;
        CHECK_OK(rig_open(&settings, &rig, &err));
        const size_t bytes = rig_floats(&rig) * sizeof(float);
        struct halves halves = {{malloc(bytes), 0}, malloc(bytes)};
        CHECK_OK(rig_run(&rig, go_back, &halves, &err));
        for (size_t k = 0; k < settings.nodes; k++)
            CHECK_MSG(rig.status[k] == RT_OK, "node %zu: %s", k, rig.errors[k].text);
        for (size_t k = 0; k < 6; k++) {
            struct rt_step step;
            CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
        }
        rig_single(&rig, halves.tensors.floats);
        CHECK_MSG(memcmp(halves.tensors.floats, halves.end, bytes) == 0, "%zu nodes: other bits",
                  settings.nodes);
        free(halves.tensors.floats);
        free(halves.end);
        rig_close(&rig);
    }
}

TEST_MAIN()
