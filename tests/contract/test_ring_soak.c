/* Many micro-batches through a ring with one slot per node and random delays on every link: nobody ever waits
 * for somebody who waits for him. */
/* labels: slow=with_clipping_a_tail_and_delays_of_all_sizes */
#include "support/ringrig.h"
#include "support/test.h"

static const char model[] =
    "{input: 2, loss: mse, layers: [{dense: 2}, {dense: 2}, {dense: 2}, {dense: 2}, {dense: 1}]}";

enum { MICROS_PER_UPDATE = 32 };

static void train(void *user, struct rig *rig, struct rt_ring *ring) {
    const size_t *updates = user;
    rig_steps(rig, ring, *updates);
}

static void soak(size_t micros, const struct rig_settings *settings) {
    struct rt_error err;
    struct rig rig;
    size_t updates = micros / MICROS_PER_UPDATE;
    CHECK_OK(rig_open(settings, &rig, &err));
    CHECK_OK(rig_run(&rig, train, &updates, &err));
    for (size_t i = 0; i < settings->nodes; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "node %zu: %s", i, rig.errors[i].text);
    rig_close(&rig);
}

static const struct rig_settings base = {.model = model,
                                         .nodes = 4,
                                         .slots = 1,
                                         .examples = 8 * MICROS_PER_UPDATE,
                                         .batch = MICROS_PER_UPDATE,
                                         .micro_batch = 1,
                                         .updates = 1000000,
                                         .optimizer = "{sgd: {lr: 0.001}}",
                                         .random_delay = 0.003,
                                         .limit = 1e7};

TEST(a_hundred_thousand_micro_batches_with_one_slot) {
    soak(100000, &base);
}

TEST(with_clipping_a_tail_and_delays_of_all_sizes) {
    struct rig_settings settings = base;
    settings.clip_norm = 0.01;
    settings.tail = 1;
    settings.random_delay = 1;
    soak(4000, &settings);
    settings.tail = 0;
    settings.slots = 3;
    settings.nodes = 2;
    settings.bandwidth = 1000;
    soak(4000, &settings);
}

TEST_MAIN()
