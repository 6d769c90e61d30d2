/* What an update is, checked against its definition: slices and their tree, clipping, batches, the schedule
 * of examples, and a loss that is not finite. */
#include "learn/batches.h"
#include "support/test.h"
#include "support/tiny.h"
#include <math.h>

static const char model[] = "{input: 12, loss: cross_entropy, layers: [{dense: 20}, tanh, {dense: 5}]}";

static const struct rt_trainer_settings plain = {.seed = 5, .batch = 10, .micro_batch = 10, .shards = 1};

/* The gradient of rows first..end of the first batch of 10, example by example. */
static void slice_gradient(struct tiny *tiny, size_t first, size_t end, float *slot, float *gradient) {
    struct rt_network *network = &tiny->network;
    memset(gradient, 0, network->model->param_count * sizeof *gradient);
    for (uint32_t i = (uint32_t)first; i < end; i++) {
        const struct rt_pass pass = {
            .device = &network->device, .rows = 1, .training = true, .seed = plain.seed, .examples = &i};
        const float *x = tiny->inputs + i * network->inputs;
        const struct rt_targets targets = {.classes = tiny->classes + i};
        float loss;
        const float *y = rt_model_forward(network->model, &pass, &network->blocks, slot, x);
        network->loss->evaluate(&network->device, 1, network->outputs, y, &targets, 1.0f / 10, &loss,
                                rt_model_output_gradient(network->model, &pass, slot));
        rt_model_backward(network->model, &pass, &network->blocks, slot, x, RT_BACKWARD_BOTH, NULL, gradient,
                          true, NULL);
    }
}

enum { ROOM = 1000 };

/* One update with sgd of rate 1 takes exactly the gradient off the parameters. */
static void check_update(const struct rt_trainer_settings *settings, const float *gradient) {
    struct rt_error err;
    struct tiny tiny;
    float before[ROOM];
    CHECK_OK(tiny_open(model, "{sgd: {lr: 1}}", 10, &(struct tiny_way){.threads = 2}, settings, &tiny, &err));
    const size_t count = tiny.network.model->param_count;
    REQUIRE(count <= ROOM);
    memcpy(before, tiny.network.blocks.params, count * sizeof *before);
    struct rt_step step;
    CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    CHECK(step.rows == 10 && step.update == 1);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += tiny.network.blocks.params[i] != before[i] - gradient[i];
    CHECK_MSG(wrong == 0, "%zu of %zu parameters differ (%zu shards)", wrong, count, settings->shards);
    tiny_close(&tiny);
}

/* Ten rows in four slices: 0-1, 2-4, 5-6, 7-9, added as (0+1)+(2+3). */
TEST(shards_add_slices_in_a_tree) {
    struct rt_error err;
    struct tiny tiny;
    static float slot[20000], slices[4][ROOM], whole[ROOM];
    struct rt_trainer_settings settings = plain;
    CHECK_OK(tiny_open(model, "sgd", 10, &(struct tiny_way){.threads = 1}, &settings, &tiny, &err));
    const size_t count = tiny.network.model->param_count;
    REQUIRE(count <= ROOM && rt_model_slot_floats(tiny.network.model, 1, true) <= 20000);
    slice_gradient(&tiny, 0, 10, slot, whole);
    static const size_t cuts[] = {0, 2, 5, 7, 10};
    for (size_t v = 0; v < 4; v++)
        slice_gradient(&tiny, cuts[v], cuts[v + 1], slot, slices[v]);
    tiny_close(&tiny);
    check_update(&settings, whole);
    for (size_t i = 0; i < count; i++)
        slices[0][i] = (slices[0][i] + slices[1][i]) + (slices[2][i] + slices[3][i]);
    settings.shards = 4;
    check_update(&settings, slices[0]);
    settings.micro_batch = 2;
    check_update(&settings, slices[0]);
}

/* More slices than rows: the empty ones add nothing. */
TEST(empty_slices_are_zeros) {
    struct rt_error err;
    char few[65], many[65];
    struct rt_trainer_settings settings = plain;
    settings.shards = 16;
    CHECK_OK(tiny_hash(model, "sgd", 10, &(struct tiny_way){0}, &settings, 3, many, &err));
    settings.shards = 1;
    CHECK_OK(tiny_hash(model, "sgd", 10, &(struct tiny_way){0}, &settings, 3, few, &err));
    CHECK(strcmp(few, many) != 0);
}

TEST(clipping_scales_to_the_norm) {
    struct rt_error err;
    struct tiny tiny;
    static float slot[20000], gradient[ROOM];
    struct rt_trainer_settings settings = plain;
    CHECK_OK(tiny_open(model, "sgd", 10, &(struct tiny_way){0}, &settings, &tiny, &err));
    const size_t count = tiny.network.model->param_count;
    slice_gradient(&tiny, 0, 10, slot, gradient);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    tiny_close(&tiny);
    settings.clip_norm = 2 * sqrt(sum);
    check_update(&settings, gradient); /* below the limit: untouched */

    settings.clip_norm = 0.01;
    CHECK_OK(tiny_open(model, "{sgd: {lr: 1}}", 10, &(struct tiny_way){0}, &settings, &tiny, &err));
    float before[ROOM];
    memcpy(before, tiny.network.blocks.params, count * sizeof *before);
    struct rt_step step;
    CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    double moved = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)before[i] - (double)tiny.network.blocks.params[i];
        moved += d * d;
    }
    CHECK_MSG(fabs(sqrt(moved) - 0.01) < 1e-5, "moved by %g instead of 0.01", sqrt(moved));
    tiny_close(&tiny);
}

TEST(shards_must_be_a_power_of_two) {
    struct rt_error err;
    struct tiny tiny;
    struct rt_trainer_settings settings = plain;
    settings.shards = 3;
    CHECK(tiny_open(model, "sgd", 10, &(struct tiny_way){0}, &settings, &tiny, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "power of two"), "%s", err.text);
}

/* A rate that overflows: the step fails, says which update it was, and leaves the parameters alone. */
TEST(loss_that_is_not_finite_stops) {
    struct rt_error err;
    struct tiny tiny;
    CHECK_OK(tiny_open("{input: 12, loss: mse, layers: [{dense: 20}, relu, {dense: 5}]}", "{sgd: {lr: 1e30}}",
                       10, &(struct tiny_way){0}, &plain, &tiny, &err));
    rt_status status = RT_OK;
    struct rt_step step;
    char before[65] = "", after[65];
    while (status == RT_OK && rt_trainer_update(tiny.trainer) < 10) {
        CHECK_OK(rt_network_hash(&tiny.network, before, &err));
        status = rt_trainer_step(tiny.trainer, &step, &err);
    }
    CHECK(status == RT_DIVERGED);
    char number[40];
    snprintf(number, sizeof number, "at update %llu ",
             (unsigned long long)rt_trainer_update(tiny.trainer) + 1);
    CHECK_MSG(strstr(err.text, number), "%s", err.text);
    struct rt_error second;
    CHECK(rt_network_hash(&tiny.network, after, &second) == RT_OK);
    CHECK(strcmp(before, after) == 0);
    tiny_close(&tiny);
}

/* ---- batches ---- */

TEST(batches_cover_every_example_once_per_epoch) {
    struct rt_error err;
    struct rt_batches batches;
    CHECK_OK(rt_batches_create(9, 23, 5, true, false, &batches, &err));
    CHECK(batches.per_epoch == 5);
    uint32_t first[3] = {0};
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        int seen[23] = {0};
        for (uint64_t u = 0; u < 5; u++) {
            struct rt_batch batch;
            rt_batches_at(&batches, epoch * 5 + u + 1, &batch);
            CHECK(batch.rows == (u < 4 ? 5 : 3) && batch.epoch == epoch);
            for (size_t i = 0; i < batch.rows; i++)
                seen[batch.examples[i]]++;
            if (u == 0)
                first[epoch] = batch.examples[0] * 1000 + batch.examples[1];
        }
        for (int i = 0; i < 23; i++)
            CHECK(seen[i] == 1);
    }
    CHECK(first[0] != first[1] || first[1] != first[2]);
    rt_batches_destroy(&batches);
}

/* Update t is the same whether or not the updates before it were asked for. */
TEST(batches_need_no_history) {
    struct rt_error err;
    struct rt_batches walked, jumped;
    struct rt_batch a, b;
    CHECK_OK(rt_batches_create(9, 23, 5, true, false, &walked, &err));
    CHECK_OK(rt_batches_create(9, 23, 5, true, false, &jumped, &err));
    for (uint64_t u = 1; u <= 13; u++)
        rt_batches_at(&walked, u, &a);
    rt_batches_at(&jumped, 13, &b);
    CHECK(a.rows == b.rows && memcmp(a.examples, b.examples, a.rows * sizeof *a.examples) == 0);
    rt_batches_destroy(&walked);
    rt_batches_destroy(&jumped);
}

TEST(batches_in_order_without_shuffle) {
    struct rt_error err;
    struct rt_batches batches;
    struct rt_batch batch;
    CHECK_OK(rt_batches_create(9, 7, 3, false, false, &batches, &err));
    rt_batches_at(&batches, 6, &batch);
    CHECK(batch.rows == 1 && batch.examples[0] == 6 && batch.epoch == 1);
    rt_batches_at(&batches, 2, &batch);
    CHECK(batch.rows == 3 && batch.examples[0] == 3 && batch.examples[2] == 5);
    rt_batches_destroy(&batches);
    CHECK(rt_batches_create(9, 0, 3, false, false, &batches, &err) == RT_BAD_INPUT);
}

/* ---- what went wrong ---- */

/* One bad number, first or last, in any of what is saved. */
TEST(what_is_not_finite_is_found) {
    struct rt_error err;
    struct tiny tiny;
    struct rt_step step;
    CHECK_OK(tiny_open("{input: [1, 4, 4], loss: cross_entropy, layers: [batchnorm, flatten, {dense: 5}]}",
                       "adam", 10, &(struct tiny_way){0}, &plain, &tiny, &err));
    CHECK_OK(rt_trainer_step(tiny.trainer, &step, &err));
    CHECK_OK(rt_trainer_check(tiny.trainer, &err));
    const struct rt_model *built = tiny.network.model;
    const struct {
        float *data;
        size_t count;
        const char *said;
    } parts[] = {{tiny.network.blocks.params, built->param_count, "a parameter"},
                 {tiny.network.blocks.buffers, built->buffer_count, "a buffer"},
                 {rt_trainer_state(tiny.trainer), 2 * built->param_count, "the optimizer's state"}};
    const float bad[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    for (size_t i = 0; i < 9; i++) {
        const size_t part = i / 3;
        float *at = parts[part].data + (i % 2 ? 0 : parts[part].count - 1), kept = *at;
        *at = bad[i % 3];
        CHECK(rt_trainer_check(tiny.trainer, &err) == RT_DIVERGED);
        CHECK_MSG(strstr(err.text, parts[part].said) && strstr(err.text, "update 1"), "%s", err.text);
        *at = kept;
    }
    CHECK_OK(rt_trainer_check(tiny.trainer, &err));
    tiny_close(&tiny);
}

/* ---- auto ---- */

TEST(auto_micro_batch) {
    struct rt_error err;
    struct tiny tiny;
    CHECK_OK(tiny_open("{input: 2000, loss: cross_entropy, layers: [{dense: 3000}, {dense: 5}]}", "sgd", 10,
                       &(struct tiny_way){0}, &plain, &tiny, &err));
    CHECK(rt_train_micro_batch(tiny.network.model, 500) == 500);
    tiny_close(&tiny);
    CHECK_OK(tiny_open(
        "{input: [1, 28, 28], loss: cross_entropy, layers: [{conv2d: {filters: 32, kernel: 3, pad: 1}}, "
        "relu, {maxpool: 2}, flatten, {dense: 5}]}",
        "sgd", 10, &(struct tiny_way){0}, &plain, &tiny, &err));
    const size_t rows = rt_train_micro_batch(tiny.network.model, 512);
    CHECK_MSG(rows >= 4 && rows < 512 && (rows & (rows - 1)) == 0, "%zu", rows);
    CHECK(rt_train_micro_batch(tiny.network.model, 3) == 3);
    tiny_close(&tiny);
    CHECK_OK(tiny_open(
        "{input: [1, 28, 28], loss: cross_entropy, layers: [{residual: [{conv2d: {filters: 1, kernel: 3, "
        "pad: 1}}, batchnorm]}, flatten, {dense: 5}]}",
        "sgd", 10, &(struct tiny_way){0}, &plain, &tiny, &err));
    CHECK(rt_train_micro_batch(tiny.network.model, 5000) == 5000);
    CHECK(rt_train_measures_batch(tiny.network.model));
    tiny_close(&tiny);
}

TEST_MAIN()
