/*
 * A training step takes no memory: the allocator is replaced by one that counts, and twenty updates of an MLP
 * and of a network with every kind of layer there is must not move the counter.
 */
#include "support/counting.h"
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

TEST_MAIN()
