/*
 * The memory of a stage: it is taken when the stage is made, as much as was predicted, and none later. The
 * planner relies on the first, the speed of a ring on the second.
 */
#include "support/chain.h"
#include "support/counting.h"

static const char model[] =
    "{input: [3, 32, 32], loss: mse, layers: [{conv2d: {filters: 16, kernel: 3, pad: 1}}, batchnorm, relu, "
    "{residual: [{conv2d: {filters: 16, kernel: 3, pad: 1}}, relu]}, {dropout: 0.1}, flatten, {dense: 60}, "
    "tanh, {dense: 10}]}";

static void check_bytes(const char *keys, size_t first, size_t slots) {
    struct rt_error err;
    struct rt_device device;
    struct rt_job *job;
    struct rt_stage *stage;
    CHECK_OK(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, &err));
    CHECK_OK(chain_job(model, keys, &job, &err));
    const size_t before = allocated;
    CHECK_OK(rt_stage_create(job, &device, first, 9 - first, slots, &stage, &err));
    const double taken = (double)(allocated - before);
    const double said = (double)rt_stage_bytes(job, stage->model, slots);
    CHECK_MSG(said > 0.99 * taken && said < 1.01 * taken,
              "%s, layers from %zu, %zu slots: %.0f bytes predicted, %.0f taken", keys, first, slots, said,
              taken);
    CHECK(stage->version_count == (job->ring.mode == RT_RING_FLOW && slots > 1 ? slots : 0));
    if (job->evaluate_only)
        CHECK(!stage->state && !stage->image && !stage->slices.blocks[0]);
    rt_stage_destroy(stage);
    rt_job_destroy(job);
    rt_device_close(&device);
}

TEST(the_prediction_is_what_is_taken) {
    need_counting();
    static const char *const keys[] = {"batch: 64, micro_batch: 8, optimizer: adam",
                                       "batch: 64, micro_batch: 8, optimizer: momentum, shards: 8",
                                       "batch: 64, micro_batch: 8, clip_norm: 1",
                                       "batch: 8, ring: {mode: ring-flow}",
                                       "batch: 8",
                                       "batch: 64, micro_batch: 8, evaluate_only: true"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t first = 0; first < 9; first += 3)
            for (size_t slots = 1; slots <= 5; slots += 2)
                check_bytes(keys[i], first, slots);
}

static void check_updates(const char *keys, size_t slots) {
    struct rt_error err;
    struct tiny tiny;
    struct chain chain;
    const struct rt_trainer_settings settings = {.seed = 1, .batch = 8, .micro_batch = 8, .shards = 1};
    static const size_t cuts[] = {3, 7, 0};
    CHECK_OK(tiny_open(model, "sgd", 20, &(struct tiny_way){0}, &settings, &tiny, &err));
    CHECK_OK(chain_open(&tiny, model, keys, cuts, slots, 2, 1, &chain, &err));
    const long before = allocations;
    for (int i = 0; i < 5; i++) {
        chain_update(&chain);
        for (size_t k = 0; k < chain.count; k++)
            CHECK_OK(rt_stage_snapshot(chain.stages[k], &err));
    }
    const long during = allocations - before;
    CHECK_MSG(during == 0, "%ld allocations during 5 updates with %s", during, keys);
    chain_close(&chain);
    tiny_close(&tiny);
}

TEST(updates_take_no_memory) {
    need_counting();
    check_updates("batch: 8, micro_batch: 2, optimizer: adam", 3);
    check_updates("batch: 8, micro_batch: 2, optimizer: momentum, shards: 4, clip_norm: 0.1", 2);
    check_updates("batch: 8, ring: {mode: ring-flow}", 2);
}

TEST_MAIN()
