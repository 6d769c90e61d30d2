/* A ring gives the bits of one device: whatever the number of nodes, the size of micro-batches, the order of
 * work and the delays on the way. Parameters, buffers and the optimizer's state are compared. */
#include "support/ringrig.h"
#include "support/test.h"

static const char mlp[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 14}, relu, "
                          "{dense: 12}, tanh, {dense: 10}, relu, {dense: 9}, {dense: 5}]}";

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
    static const size_t nodes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        compare(&(struct rig_settings){.model = mlp,
                                       .nodes = nodes[i],
                                       .slots = 4,
                                       .examples = 40,
                                       .batch = 16,
                                       .micro_batch = 4,
                                       .updates = 7,
                                       .optimizer = "{adam: {lr: 0.01}}"},
                "plain");
}

TEST_MAIN()
