/*
 * The promise of the ring, before any link: whichever way the layers are cut into stages and a batch into
 * micro-batches, and however late weight gradients come, every parameter, buffer and number of the
 * optimizer's state has the bits that one device gives.
 */
#include "support/chain.h"
#include "support/test.h"

static const char mlp[] = "{input: 20, loss: cross_entropy, layers: [{dense: 32}, relu, {dense: 24}, tanh, "
                          "{dense: 16}, gelu, {dense: 5}]}";
static const char cnn[] =
    "{input: [2, 6, 6], loss: mse, layers: [{conv2d: {filters: 4, kernel: 3, pad: 1}}, relu, {residual: "
    "[{conv2d: {filters: 4, kernel: 3, pad: 1}}, {dropout: 0.3}, relu]}, {maxpool: 2}, flatten, {dropout: "
    "0.25}, {dense: 12}, sigmoid, {dense: 4}]}";

/* 23 examples in batches of 10: the third update of an epoch has 3 rows, so of 4 slices one is empty. */
enum { EXAMPLES = 23, BATCH = 10, UPDATES = 5 };

struct strategy {
    size_t micro, shards, slots, threads;
    double clip;
};

static const size_t cuts_of_7[][6] = {{0}, {2}, {1, 4}, {1, 3, 4, 5}};
static const size_t cuts_of_9[][6] = {{0}, {5}, {2, 6}, {1, 2, 4, 7}};

static void check_chain(const struct tiny *tiny, const char *model, const char *optimizer,
                        const struct strategy *strategy, const size_t *cuts) {
    struct rt_error err;
    struct chain chain;
    char keys[400];
    snprintf(keys, sizeof keys,
             "batch: %d, micro_batch: %zu, shards: %zu, clip_norm: %g, optimizer: %s, seed: 5, updates: 20, "
             "per_epoch: 3, weight_decay: 0.01, lr_schedule: {cosine: {warmup: 1}}",
             BATCH, strategy->micro, strategy->shards, strategy->clip, optimizer);
    CHECK_OK(chain_open(tiny, model, keys, cuts, strategy->slots, strategy->threads,
                        (uint32_t)(strategy->micro * 31 + cuts[0]), &chain, &err));
    for (size_t i = 0; i < UPDATES; i++)
        chain_update(&chain);
    const size_t wrong = chain_differs(&chain, tiny);
    CHECK_MSG(
        wrong == 0, "%s: %zu stages, micro_batch %zu, %zu shards, clip %g, %zu slots: %zu numbers differ",
        optimizer, chain.count, strategy->micro, strategy->shards, strategy->clip, strategy->slots, wrong);
    chain_close(&chain);
}

/* The same training on one device. */
static rt_status train(const char *model, const char *optimizer, size_t shards, double clip, size_t micro,
                       struct tiny *tiny, struct rt_error *err) {
    const struct rt_trainer_settings settings = {.seed = 5,
                                                 .batch = BATCH,
                                                 .micro_batch = micro,
                                                 .shards = shards,
                                                 .shuffle = true,
                                                 .clip_norm = clip,
                                                 .updates = 20};
    rt_status status = tiny_open(model, optimizer, EXAMPLES, &(struct tiny_way){0}, &settings, tiny, err);
    if (status != RT_OK)
        return status;
    tiny->schedule = (struct rt_schedule){.kind = RT_SCHEDULE_COSINE, .warmup = 1};
    tiny->optim->weight_decay = 0.01;
    for (size_t i = 0; i < UPDATES && status == RT_OK; i++) {
        struct rt_step step;
        status = rt_trainer_step(tiny->trainer, &step, err);
    }
    return status;
}

static void check_model(const char *model, const size_t cuts[][6], const char *optimizer, size_t shards,
                        double clip) {
    struct rt_error err;
    struct tiny tiny;
    CHECK_OK(train(model, optimizer, shards, clip, BATCH, &tiny, &err));
    static const size_t micros[] = {1, 3, BATCH};
    for (size_t n = 0; n < 4; n++)
        for (size_t i = 0; i < 3; i++) {
            const struct strategy strategy = {.micro = micros[i],
                                              .shards = shards,
                                              .slots = 1 + (n + i) % 4,
                                              .threads = 1 + (n + i) % 2,
                                              .clip = clip};
            check_chain(&tiny, model, optimizer, &strategy, cuts[n]);
        }
    tiny_close(&tiny);
}

static void check_optimizers(const char *model, const size_t cuts[][6]) {
    for (size_t i = 0; rt_optim_types()[i]; i++)
        for (size_t shards = 1; shards <= 4; shards *= 4)
            for (int clips = 0; clips < 2; clips++)
                check_model(model, cuts, rt_optim_types()[i]->name, shards, clips ? 0.05 : 0);
}

TEST(mlp_has_the_bits_of_one_device) {
    check_optimizers(mlp, cuts_of_7);
}

TEST(cnn_with_residual_and_dropout_has_the_bits_of_one_device) {
    check_optimizers(cnn, cuts_of_9);
}

/* Every layer a stage of its own place to begin: wherever one cut falls. */
TEST(any_cut_has_the_bits_of_one_device) {
    struct rt_error err;
    struct tiny tiny;
    static const char *const models[] = {mlp, cnn};
    static const size_t layers[] = {7, 9};
    for (size_t m = 0; m < 2; m++) {
        CHECK_OK(train(models[m], "momentum", 1, 0, BATCH, &tiny, &err));
        for (size_t cut = 1; cut < layers[m]; cut++) {
            const size_t cuts[] = {cut, 0};
            const struct strategy strategy = {.micro = 4, .shards = 1, .slots = 3, .threads = 1};
            check_chain(&tiny, models[m], "momentum", &strategy, cuts);
        }
        tiny_close(&tiny);
    }
}

/* Batchnorm measures the micro-batch: equal to one device with the same one, and only then. */
TEST(batchnorm_has_the_bits_of_one_device) {
    static const char model[] =
        "{input: [2, 6, 6], loss: cross_entropy, layers: [{conv2d: {filters: 4, kernel: 3, pad: 1}}, "
        "batchnorm, relu, {residual: [batchnorm, {conv2d: {filters: 4, kernel: 3, pad: 1}}]}, batchnorm, "
        "global_avgpool, {dense: 5}]}";
    struct rt_error err;
    struct tiny tiny;
    for (size_t micro = 3; micro <= BATCH; micro += 7) {
        CHECK_OK(train(model, "adam", 1, 0, micro, &tiny, &err));
        for (size_t cut = 1; cut < 7; cut++) {
            const size_t cuts[] = {cut, 0};
            const struct strategy strategy = {.micro = micro, .shards = 1, .slots = 2, .threads = 1};
            check_chain(&tiny, model, "adam", &strategy, cuts);
        }
        tiny_close(&tiny);
    }
}

TEST_MAIN()
