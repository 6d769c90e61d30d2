/*
 * The result does not depend on how it is computed: one hash of the parameters for every number of threads,
 * micro-batch size and instruction set, for the fused and the plain update. Only batchnorm may make it depend
 * on the micro-batch. The data end in a smaller batch, and there is more than one epoch.
 */
/* labels: threads=cnn_has_one_result */
#include "support/test.h"
#include "support/tiny.h"
#include <stdlib.h>

enum { EXAMPLES = 30, BATCH = 20, UPDATES = 3 };

static const char mlp[] = "{input: 96, loss: cross_entropy, layers: [{dense: 160}, relu, {dense: 70}, gelu, "
                          "layernorm, {dense: 33}, elu, {dense: 10}]}";
static const char cnn[] =
    "{input: [3, 10, 10], loss: cross_entropy, layers: [{conv2d: {filters: 18, kernel: 3, pad: 1}}, relu, "
    "{residual: [{conv2d: {filters: 18, kernel: 3, pad: 1}}, tanh, {dropout: 0.3}]}, {maxpool: 2}, "
    "{conv2d: {filters: 12, kernel: 3, stride: 2, pad: 1, groups: 3}}, leaky_relu, flatten, layernorm, "
    "{dropout: 0.25}, {dense: 40}, sigmoid, {dense: 7}]}";
static const char regression[] =
    "{input: [2, 9, 9], loss: mse, layers: [{conv2d: {filters: 8, kernel: 3}}, gelu, {avgpool: 2}, "
    "{conv2d: {filters: 8, kernel: 3, pad: 1, groups: 8}}, relu, global_avgpool, {dense: 5}]}";
static const char normed[] =
    "{input: [2, 8, 8], loss: cross_entropy, layers: [{conv2d: {filters: 6, kernel: 3, pad: 1}}, batchnorm, "
    "relu, "
    "{residual: [{conv2d: {filters: 6, kernel: 3, pad: 1}}, batchnorm]}, {maxpool: 2}, flatten, {dense: 5}]}";

static const struct rt_trainer_settings plain = {
    .seed = 3, .batch = BATCH, .micro_batch = BATCH, .shards = 1, .shuffle = true};

static void hash_of(const char *model, const char *optimizer, const struct tiny_way *strategy,
                    const struct rt_trainer_settings *settings, char hex[65]) {
    struct rt_error err;
    hex[0] = 0;
    CHECK_OK(tiny_hash(model, optimizer, EXAMPLES, strategy, settings, UPDATES, hex, &err));
}

/* Fails unless this way of computing gives the same hash. */
static void expect(const char *wanted, const char *model, const char *optimizer, struct tiny_way strategy,
                   struct rt_trainer_settings settings) {
    char hex[65];
    hash_of(model, optimizer, &strategy, &settings, hex);
    CHECK_MSG(
        strcmp(hex, wanted) == 0,
        "%.16s... instead of %.16s... for %s, %s kernels, %zu threads, micro-batch %zu, %zu shards%s: %.40s",
        hex, wanted, optimizer,
        strategy.math == RT_MATH_REFERENCE ? "reference"
        : strategy.kernels                 ? strategy.kernels
                                           : "auto",
        strategy.threads, settings.micro_batch, settings.shards, settings.unfused ? ", unfused" : "", model);
}

/* The instruction sets of this CPU, by the names that train.kernels takes. */
static size_t instruction_sets(const char *names[8]) {
    const struct rt_kernels *tables[8];
    size_t count = rt_kernels_exact_all(tables, 8);
    for (size_t i = 0; i < count; i++) {
        const char *slash = strchr(tables[i]->name, '/');
        names[i] = slash ? slash + 1 : tables[i]->name;
    }
    return count;
}

static void check_all_ways(const char *model, const char *optimizer, struct rt_trainer_settings settings) {
    static const size_t micro_batches[] = {1, 8, BATCH, 0};
    char wanted[65];
    hash_of(model, optimizer, &(struct tiny_way){.threads = 1}, &settings, wanted);
    for (size_t m = 0; m < 4; m++) {
        settings.micro_batch = micro_batches[m];
        for (size_t threads = 1; threads <= 2; threads++) {
            settings.unfused = false;
            expect(wanted, model, optimizer, (struct tiny_way){.threads = threads}, settings);
            settings.unfused = true;
            expect(wanted, model, optimizer, (struct tiny_way){.threads = threads}, settings);
        }
    }
    settings.unfused = false;
    const char *names[8];
    size_t count = instruction_sets(names);
    CHECK(count >= 1);
    for (size_t i = 0; i < count; i++) {
        settings.micro_batch = BATCH;
        expect(wanted, model, optimizer, (struct tiny_way){.kernels = names[i], .threads = 2}, settings);
        settings.micro_batch = 5;
        expect(wanted, model, optimizer, (struct tiny_way){.kernels = names[i], .threads = 1}, settings);
    }
    settings.micro_batch = BATCH;
    expect(wanted, model, optimizer, (struct tiny_way){.math = RT_MATH_REFERENCE, .threads = 1}, settings);
}

TEST(mlp_has_one_result) {
    check_all_ways(mlp, "{momentum: {lr: 0.05, momentum: 0.9}}", plain);
}

TEST(cnn_has_one_result) {
    check_all_ways(cnn, "{adam: {lr: 0.01}}", plain);
}

TEST(regression_has_one_result) {
    check_all_ways(regression, "{sgd: {lr: 0.1}}", plain);
}

/* Every rule that is registered, fused and apart, in one piece and in micro-batches. */
TEST(optimizers_have_one_result) {
    char before[65] = "";
    for (size_t i = 0; rt_optim_types()[i]; i++) {
        const char *rule = rt_optim_types()[i]->name;
        char wanted[65];
        hash_of(mlp, rule, &(struct tiny_way){.threads = 1}, &plain, wanted);
        CHECK_MSG(strcmp(wanted, before) != 0, "%s does the same as the rule before it", rule);
        memcpy(before, wanted, sizeof before);
        struct rt_trainer_settings settings = plain;
        settings.unfused = true;
        expect(wanted, mlp, rule, (struct tiny_way){.threads = 2}, settings);
        settings.micro_batch = 8;
        expect(wanted, mlp, rule, (struct tiny_way){.threads = 2, .kernels = "portable"}, settings);
        settings.unfused = false;
        expect(wanted, mlp, rule, (struct tiny_way){.threads = 2}, settings);
    }
}

/* With one example at a time some rules take a dense layer's gradient as its two factors. */
TEST(single_examples_have_one_result) {
    for (size_t i = 0; rt_optim_types()[i]; i++) {
        const char *rule = rt_optim_types()[i]->name;
        struct rt_trainer_settings settings = plain;
        settings.batch = 1;
        settings.unfused = true;
        char wanted[65];
        hash_of(mlp, rule, &(struct tiny_way){.threads = 1}, &settings, wanted);
        settings.unfused = false;
        expect(wanted, mlp, rule, (struct tiny_way){.threads = 1}, settings);
        expect(wanted, mlp, rule, (struct tiny_way){.threads = 2, .kernels = "portable"}, settings);
    }
}

/* Models whose first layer can begin with the next example while it is updated (it stands first, in several
 * blocks or one, with and without bias and activation, behind a layer that changes nothing, before layers
 * with a body), and others in which another layer or a body is first. */
static const struct {
    bool begins;
    const char *text;
} followed[] = {
    {true, "{input: [4, 5, 6], loss: cross_entropy, layers: [flatten, {dense: 100}, relu, {dense: 5}]}"},
    {true,
     "{input: 70, loss: cross_entropy, layers: [{dense: {units: 130, bias: false}}, gelu, {dense: 5}]}"},
    {true,
     "{input: 12, loss: cross_entropy, layers: [{dense: 24}, {residual: [{dense: 24}, tanh]}, {dense: 5}]}"},
    {true, "{input: 24, loss: cross_entropy, layers: [{dense: 16}, relu, dropout, {dense: 5}]}"},
    {false, "{input: 24, loss: cross_entropy, layers: [{residual: [{dense: 24}, tanh]}, {dense: 5}]}"},
    {false, "{input: 24, loss: cross_entropy, layers: [{dropout: 0.3}, {dense: 32}, relu, {dense: 5}]}"},
    {false, "{input: 24, loss: cross_entropy, layers: [layernorm, {dense: 32}, relu, {dense: 5}]}"},
    {false, "{input: 24, loss: cross_entropy, layers: [{dense: 5}]}"}};
enum { FOLLOWED = sizeof followed / sizeof *followed, FEW = 7, STEPS = 18 };

static const struct rt_trainer_settings single = {
    .seed = 3, .batch = 1, .micro_batch = 1, .shards = 1, .shuffle = true};

/* Over more than one epoch. */
TEST(the_example_that_follows_has_one_result) {
    for (size_t i = 0; i < FOLLOWED; i++) {
        struct rt_trainer_settings settings = single;
        struct rt_error err;
        char apart[65] = "", together[65] = "";
        settings.unfused = true;
        CHECK_OK(tiny_hash(followed[i].text, "momentum", FEW, &(struct tiny_way){.threads = 1}, &settings,
                           STEPS, apart, &err));
        settings.unfused = false;
        CHECK_OK(tiny_hash(followed[i].text, "momentum", FEW, &(struct tiny_way){.threads = 1}, &settings,
                           STEPS, together, &err));
        CHECK_MSG(strcmp(apart, together) == 0, "%s", followed[i].text);
    }
}

static void take_nothing(void *self, size_t offset, size_t count, const float *grad) {
    (void)self, (void)offset, (void)count, (void)grad;
}

TEST(the_first_layer_begins_where_it_can) {
    for (size_t i = 0; i < FOLLOWED; i++) {
        struct rt_error err;
        struct tiny tiny;
        CHECK_OK(tiny_open(followed[i].text, "momentum", FEW, &(struct tiny_way){.threads = 1}, &single,
                           &tiny, &err));
        struct rt_network *network = &tiny.network;
        const uint32_t example = 0;
        const struct rt_pass pass = {
            .device = &network->device, .rows = 1, .training = true, .examples = &example};
        float *slot = calloc(rt_model_slot_floats(network->model, 1, true), sizeof *slot);
        float *grads = calloc(network->model->param_count, sizeof *grads);
        REQUIRE(slot && grads);
        const struct rt_descent descent = {.lr = 0.1f, .scale = 1, .w = network->blocks.params};
        struct rt_successor successor = {.x = tiny.inputs + network->inputs};
        const struct rt_grad_sink sink = {.take = take_nothing, .descent = &descent, .successor = &successor};
        rt_model_forward(network->model, &pass, &network->blocks, slot, tiny.inputs);
        rt_model_backward(network->model, &pass, &network->blocks, slot, tiny.inputs, RT_BACKWARD_BOTH, NULL,
                          grads, false, &sink);
        CHECK_MSG(successor.begun == followed[i].begins, "%s", followed[i].text);
        free(slot);
        free(grads);
        tiny_close(&tiny);
    }
}

/* What was begun with parameters that are no more is forgotten. */
TEST(loading_parameters_forgets_what_was_begun) {
    struct tiny tiny[2];
    struct rt_error err;
    for (int apart = 0; apart < 2; apart++) {
        struct rt_trainer_settings settings = single;
        struct rt_step step;
        settings.unfused = apart;
        CHECK_OK(tiny_open(followed[0].text, "momentum", FEW, &(struct tiny_way){.threads = 1}, &settings,
                           &tiny[apart], &err));
        for (int i = 0; i < 3; i++)
            CHECK_OK(rt_trainer_step(tiny[apart].trainer, &step, &err));
        for (size_t i = 0; i < tiny[apart].network.model->param_count; i++)
            tiny[apart].network.blocks.params[i] *= 0.5f;
        rt_trainer_set_update(tiny[apart].trainer, 3);
        CHECK_OK(rt_trainer_step(tiny[apart].trainer, &step, &err));
    }
    CHECK(memcmp(tiny[0].network.blocks.params, tiny[1].network.blocks.params,
                 tiny[0].network.model->param_count * sizeof(float)) == 0);
    tiny_close(&tiny[0]);
    tiny_close(&tiny[1]);
}

TEST(clipping_has_one_result) {
    struct rt_trainer_settings settings = plain;
    char unclipped[65], clipped[65];
    hash_of(mlp, "{sgd: {lr: 0.1}}", &(struct tiny_way){.threads = 1}, &settings, unclipped);
    settings.clip_norm = 0.05;
    hash_of(mlp, "{sgd: {lr: 0.1}}", &(struct tiny_way){.threads = 1}, &settings, clipped);
    CHECK(strcmp(clipped, unclipped) != 0);
    check_all_ways(mlp, "{sgd: {lr: 0.1}}", settings);
}

TEST(shards_have_one_result) {
    struct rt_trainer_settings settings = plain;
    char one[65], four[65];
    hash_of(mlp, "sgd", &(struct tiny_way){.threads = 1}, &settings, one);
    settings.shards = 4;
    hash_of(mlp, "sgd", &(struct tiny_way){.threads = 1}, &settings, four);
    CHECK(strcmp(one, four) != 0);
    check_all_ways(mlp, "sgd", settings);
    check_all_ways(cnn, "{momentum: {lr: 0.05}}", settings);
}

/* Batchnorm measures the micro-batch: with it the result depends on the micro-batch, and on nothing else. */
TEST(batchnorm_depends_on_the_micro_batch_only) {
    char whole[65], eight[65];
    struct rt_trainer_settings settings = plain;
    hash_of(normed, "sgd", &(struct tiny_way){.threads = 1}, &settings, whole);
    settings.micro_batch = 0;
    expect(whole, normed, "sgd", (struct tiny_way){.threads = 2}, settings);
    settings.micro_batch = 8;
    hash_of(normed, "sgd", &(struct tiny_way){.threads = 1}, &settings, eight);
    CHECK(strcmp(whole, eight) != 0);
    expect(eight, normed, "sgd", (struct tiny_way){.threads = 2}, settings);
    expect(eight, normed, "sgd", (struct tiny_way){.math = RT_MATH_REFERENCE, .threads = 1}, settings);
    const char *names[8];
    size_t count = instruction_sets(names);
    for (size_t i = 0; i < count; i++) {
        settings.unfused = i % 2;
        expect(eight, normed, "sgd", (struct tiny_way){.kernels = names[i], .threads = 2}, settings);
    }
}

TEST_MAIN()
