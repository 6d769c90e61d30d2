/* out: none: a run that writes no files gives the same model, in memory; and the key `out` of a run file. */
#include "support/site.h"
#include "support/test.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 3, CLASSES = 3 };
static const float inputs[ROWS * 3] = {5, 0, 10, 0, 3, 11, 0.1f, -0.1f, 12.2f};

static size_t entries(const char *path) {
    size_t count = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static bool exists(const char *file) {
    struct stat info;
    return stat(site_path(file), &info) == 0;
}

static rt_status open_none(const char *const *settings, struct rt_run **run, struct rt_error *err) {
    rt_status status = site_open("unused", settings, run, err);
    if (status == RT_OK)
        status = rt_run_set_out(*run, "none", err);
    return status;
}

/* Trains with files and without, and compares all that a program can see. */
static void compare(const char *name, const char *const *settings) {
    struct rt_error err;
    struct rt_run *with, *without;
    float first[ROWS * CLASSES], second[ROWS * CLASSES];
    CHECK_OK(site_open(name, settings, &with, &err));
    CHECK_OK(rt_run_train(with, NULL, NULL, &err));
    CHECK_OK(rt_run_predict(with, inputs, ROWS, first, &err));
    const size_t here = entries("."), there = entries(site_path("."));
    CHECK_OK(open_none(settings, &without, &err));
    CHECK_OK(rt_run_train(without, NULL, NULL, &err));
    const struct rt_result *result = rt_run_result(without), *expected = rt_run_result(with);
    REQUIRE(result && expected);
    CHECK_MSG(strcmp(result->params_sha256, expected->params_sha256) == 0, "%s: another model", name);
    CHECK(result->updates == expected->updates && result->test_loss == expected->test_loss &&
          result->test_accuracy == expected->test_accuracy && result->params == expected->params);
    CHECK(rt_run_model_update(without) == rt_run_model_update(with));
    CHECK(result->out_dir == NULL && expected->out_dir != NULL && rt_run_out_dir(without) == NULL);
    CHECK_OK(rt_run_predict(without, inputs, ROWS, second, &err));
    CHECK_MSG(memcmp(first, second, sizeof first) == 0, "%s: other predictions", name);
    CHECK_OK(rt_run_predict(without, inputs, ROWS, second, &err)); /* and once more */
    CHECK(memcmp(first, second, sizeof first) == 0);
    CHECK_MSG(entries(".") == here && entries(site_path(".")) == there, "%s: files were written", name);
    rt_run_close(without);
    rt_run_close(with);
}

TEST(one_device) {
    static const char *const plain[] = {"train.checkpoint_seconds=0.001", NULL};
    site_make();
    compare("plain", plain);
    site_remove();
}

/* A learning rate that is too high makes an early model the best one. */
#define BEST                                                                                                 \
    "data.hold_out=0.3", "train.validate_updates=1", "train.updates=30",                                     \
        "train.optimizer={momentum: {lr: 0.7}}"

TEST(the_best_model_is_kept) {
    static const char *const best[] = {BEST, NULL};
    struct rt_error err;
    struct rt_run *run;
    site_make();
    compare("best", best);
    CHECK_OK(open_none(best, &run, &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK_MSG(rt_run_model_update(run) < 30, "the last model is the best: nothing is tested");
    rt_run_close(run);
    site_remove();
}

TEST(several_devices) {
    static const char *const ring[] = {BEST, "cluster.nodes=2", "cluster.keep_all=true", NULL},
                             *const server[] = {BEST, "cluster.nodes=2", "cluster.strategy=ps-sync", NULL};
    site_make();
    compare("ring", ring);
    compare("server", server);
    site_remove();
}

static void stop_at_10(void *user, const struct rt_progress *progress) {
    if (progress->update >= 10)
        rt_run_stop(user);
}

TEST(stops_and_what_is_refused) {
    static const char *const often[] = {"train.report_seconds=0", NULL};
    struct rt_error err;
    struct rt_run *run;
    float outputs[ROWS * CLASSES];
    site_make();
    const size_t there = entries(site_path("."));
    CHECK_OK(open_none(often, &run, &err));
    CHECK(rt_run_train(run, stop_at_10, run, &err) == RT_INTERRUPTED);
    CHECK_MSG(strstr(err.text, "stopped at update 10 of 40; with out: none there is no checkpoint"), "%s",
              err.text);
    CHECK(rt_run_result(run) == NULL && rt_run_predict(run, inputs, ROWS, outputs, &err) == RT_BAD_INPUT);
    rt_run_set_resume(run, 1);
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "none to resume from"), "%s", err.text);
    rt_run_set_resume(run, 0);
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(entries(site_path(".")) == there);
    /* What is in memory survives a training that fails; and the same run can write files again. */
    CHECK_OK(rt_run_set(run, "data.train", "{csv: nothere.csv}", &err));
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT);
    CHECK_OK(rt_run_predict(run, inputs, ROWS, outputs, &err));
    CHECK_OK(rt_run_set(run, "data.train", "{csv: {file: train.csv, label: kind}}", &err));
    CHECK_OK(rt_run_set_out(run, site_path("later"), &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(exists("later/model.safetensors") && exists("later/summary.json") && rt_run_out_dir(run));
    rt_run_close(run);
    site_remove();
}

TEST(the_key_of_the_run_file) {
    struct rt_error err;
    struct rt_run *run;
    site_make();
    const size_t there = entries(site_path("."));
    CHECK_OK(rt_run_open(site_path("run.yaml"), &run, &err));
    CHECK_OK(rt_run_set(run, "out", "none", &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(entries(site_path(".")) == there && rt_run_result(run)->out_dir == NULL);
    char hash[65];
    strcpy(hash, rt_run_result(run)->params_sha256);
    CHECK_OK(rt_run_set(run, "out", site_path("by the key"), &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(exists("by the key/model.safetensors") && strcmp(hash, rt_run_result(run)->params_sha256) == 0);
    CHECK(strcmp(rt_run_result(run)->out_dir, site_path("by the key")) == 0);
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT && strstr(err.text, "not an empty directory"));
    rt_run_set_resume(run, 1);
    CHECK_OK(rt_run_set(run, "train.epochs", "5", &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(rt_run_result(run)->updates == 50);
    /* What the program says wins. */
    rt_run_set_resume(run, 0);
    CHECK_OK(rt_run_set_out(run, site_path("by the function"), &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    CHECK(exists("by the function/model.safetensors"));
    rt_run_close(run);
    site_remove();
}

TEST_MAIN()
