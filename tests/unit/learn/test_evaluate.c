/* Evaluation on request only: it ends when it is asked to. And the data of a run: what identifies them. */
#include "learn/datasets.h"
#include "learn/evaluate.h"
#include "run/run.h"
#include "support/test.h"
#include "support/tiny.h"
#include <unistd.h>

static const char model[] = "{input: 4, layers: [{dense: 3}], loss: cross_entropy}";
static const struct tiny_way strategy = {0};
static const struct rt_trainer_settings settings = {.batch = 8, .shards = 1, .shuffle = true};

TEST(a_stop_request_ends_it) {
    struct rt_error err;
    struct tiny tiny;
    struct rt_score score = {.examples = 0};
    atomic_int stop;
    CHECK_OK(tiny_open(model, "sgd", 300, &strategy, &settings, &tiny, &err));
    const struct rt_forward forward = rt_forward_local(&tiny.network);
    atomic_init(&stop, 0);
    CHECK_OK(rt_evaluate(&tiny.network, &forward, &tiny.set, &tiny.scaling, RT_TARGET_CLASSES, &stop, NULL,
                         &score, &err));
    CHECK(score.examples == 300);
    score.examples = 0;
    atomic_store(&stop, 1);
    CHECK(rt_evaluate(&tiny.network, &forward, &tiny.set, &tiny.scaling, RT_TARGET_CLASSES, &stop, NULL,
                      &score, &err) == RT_INTERRUPTED);
    CHECK(score.examples == 0);
    tiny_close(&tiny);
}

/* The data are not even looked for, and nothing is left on the disk. */
TEST(a_stop_before_the_training) {
    struct rt_error err;
    struct rt_run *run;
    char dir[300], path[400], out[400];
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ringtmp-stop-XXXXXX", base ? base : "/tmp");
    REQUIRE(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/run.yaml", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs("{model: {input: 1, layers: [{dense: 1}], loss: mse}, data: {train: {csv: nothere.csv}}}", file);
    CHECK(fclose(file) == 0);
    CHECK_OK(rt_run_open(path, &run, &err));
    CHECK_OK(rt_run_set_out(run, out, &err));
    rt_run_stop(run);
    rt_status status = rt_run_train(run, NULL, NULL, &err);
    CHECK_MSG(status == RT_INTERRUPTED, "%d: %s", status, err.text);
    CHECK(!rt_run_facts(run) && access(out, F_OK) != 0);
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT); /* the request is over */
    rt_run_close(run);
    unlink(path);
    rmdir(dir);
}

/* Every value counts, and so does every part of the scaling. */
TEST(fingerprint_sees_everything) {
    struct rt_error err;
    struct tiny tiny;
    CHECK_OK(tiny_open(model, "sgd", 3000, &strategy, &settings, &tiny, &err));
    struct rt_datasets datasets = {.train = tiny.set, .target = RT_TARGET_CLASSES};
    float mean[4] = {0}, inverse[4] = {1, 1, 1, 1};
    struct rt_scaling scaling = {.scale = 1, .features = 4, .mean = mean, .inverse = inverse};
    char first[65], other[65];
    rt_datasets_fingerprint(&datasets, &scaling, first);
    for (size_t i = 0; i < 3000; i += 7) {
        float kept = tiny.inputs[4 * i];
        tiny.inputs[4 * i] += 1;
        rt_datasets_fingerprint(&datasets, &scaling, other);
        CHECK_MSG(strcmp(first, other) != 0, "example %zu is not seen", i);
        tiny.inputs[4 * i] = kept;
    }
    tiny.classes[2999] ^= 1;
    rt_datasets_fingerprint(&datasets, &scaling, other);
    CHECK(strcmp(first, other) != 0);
    tiny.classes[2999] ^= 1;
    inverse[3] = 2;
    rt_datasets_fingerprint(&datasets, &scaling, other);
    CHECK(strcmp(first, other) != 0);
    inverse[3] = 1;
    scaling.offset = 0.5;
    rt_datasets_fingerprint(&datasets, &scaling, other);
    CHECK(strcmp(first, other) != 0);
    scaling.offset = 0;
    rt_datasets_fingerprint(&datasets, &scaling, other);
    CHECK(strcmp(first, other) == 0);
    tiny_close(&tiny);
}

TEST_MAIN()
