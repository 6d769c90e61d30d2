/* Runs that go wrong: directories that are taken, updates that diverge, trainings that do not get to their
 * end, and what is left of them. */
#include "support/site.h"
#include "support/test.h"
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static const char *const short_run[] = {"train.epochs=2", NULL};

static bool exists(const char *file) {
    return access(site_path(file), F_OK) == 0;
}

/* Entries of a directory of the site. */
static size_t count_entries(const char *file) {
    DIR *entries = opendir(site_path(file));
    size_t count = 0;
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (entries)
        closedir(entries);
    return count;
}

/* ---- directories ---- */

TEST(used_directory_is_refused) {
    struct rt_error err;
    struct rt_result result;
    site_make();
    CHECK_OK(site_train("out", short_run, false, 0, &result, NULL, &err));
    CHECK(site_train("out", short_run, false, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "rt_run_set_resume"), "%s", err.text);
    CHECK(mkdir(site_path("empty"), 0777) == 0);
    CHECK_OK(site_train("empty", short_run, false, 0, &result, NULL, &err));
    site_remove();
}

/* A second run that starts while the first one is under way. */
struct second {
    struct rt_run *run;
    uint64_t at;
    rt_status status;
    struct rt_error err;
};

static void start_second(void *user, const struct rt_progress *progress) {
    struct second *second = user;
    if (progress->update == second->at)
        second->status = rt_run_train(second->run, NULL, NULL, &second->err);
}

TEST(two_runs_in_one_second) {
    struct rt_error err;
    struct rt_run *first;
    struct second second = {.at = 0, .status = RT_FAILED};
    site_make();
    REQUIRE(chdir(site_path("")) == 0);
    CHECK_OK(rt_run_open("run.yaml", &first, &err));
    CHECK_OK(rt_run_open("run.yaml", &second.run, &err));
    CHECK_OK(rt_run_train(first, start_second, &second, &err));
    CHECK_MSG(second.status == RT_OK, "%s", second.err.text);
    CHECK(strcmp(rt_run_out_dir(first), rt_run_out_dir(second.run)) != 0);
    CHECK(count_entries("runs") == 2);
    rt_run_close(first);
    rt_run_close(second.run);
    site_remove();
}

TEST(directory_in_use_is_refused) {
    struct rt_error err;
    struct rt_run *first;
    struct rt_result result;
    struct second second = {.at = 5, .status = RT_FAILED};
    static const char *const often[] = {"train.checkpoint_seconds=0.000001", NULL};
    site_make();
    CHECK_OK(site_open("out", often, &first, &err));
    CHECK_OK(site_open("out", often, &second.run, &err));
    rt_run_set_resume(second.run, 1);
    CHECK_OK(rt_run_train(first, start_second, &second, &err));
    CHECK(second.status == RT_BAD_INPUT);
    CHECK_MSG(strstr(second.err.text, "another run is writing into"), "%s", second.err.text);
    rt_run_close(first);
    rt_run_close(second.run);
    /* And when it is over, it may go on. */
    CHECK_OK(site_train("out", often, true, 0, &result, NULL, &err));
    site_remove();
}

/* What cannot be used is told before the data are looked at; what was not used is not left behind. */
TEST(bad_directories_are_told_first) {
    struct rt_error err;
    struct rt_result result;
    static const char *const no_data[] = {"data.train={csv: none.csv}", NULL};
    site_make();
    site_text("file", "text");
    CHECK(site_train("file", no_data, false, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "file: is a file"), "%s", err.text);
    CHECK(site_train("file", no_data, true, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "file: is a file"), "%s", err.text);
    CHECK(site_train("file/below", no_data, false, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "file/below"), "%s", err.text);
    CHECK(symlink("loop", site_path("loop")) == 0);
    CHECK(site_train("loop", no_data, false, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "loop: cannot be read"), "%s", err.text);

    CHECK(mkdir(site_path("empty"), 0777) == 0);
    CHECK(site_train("empty", no_data, false, 0, &result, NULL, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "none.csv"), "%s", err.text);
    CHECK(exists("empty") && count_entries("empty") == 0);
    REQUIRE(chdir(site_path("")) == 0);
    struct rt_run *run;
    CHECK_OK(rt_run_open("run.yaml", &run, &err));
    CHECK_OK(rt_run_set(run, "data.train", "{csv: none.csv}", &err));
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT);
    CHECK(count_entries("runs") == 0 && rt_run_out_dir(run) == NULL);
    rt_run_close(run);
    site_remove();
}

TEST(leftovers_of_a_killed_run_go) {
    struct rt_error err;
    struct rt_result result;
    static const char *const left[] = {"out/checkpoint/state.safetensors.7-0.tmp",
                                       "out/checkpoint/best.safetensors.7-0.tmp",
                                       "out/model.safetensors.7-0.tmp", "out/summary.json.7-0.tmp"};
    site_make();
    CHECK_OK(site_train("out", short_run, false, 0, &result, NULL, &err));
    for (size_t i = 0; i < 4; i++)
        site_text(left[i], "half");
    site_text("out/notes.7-0.tmp", "mine");
    CHECK_OK(site_train("out", short_run, true, 0, &result, NULL, &err));
    for (size_t i = 0; i < 4; i++)
        CHECK_MSG(!exists(left[i]), "%s is still there", left[i]);
    CHECK(exists("out/notes.7-0.tmp"));
    site_remove();
}

/* ---- numbers that are not finite ---- */

/* Nothing to learn in three rows; the loss of the fourth is finite, but the update by it is not. */
static const char sudden_data[] = "0,0,0\n0,0,0\n0,0,0\n1e18,1e18,0\n";
#define SUDDEN                                                                                               \
    "model.input=2", "model.layers=[{dense: 1}]", "model.loss=mse", "train.batch=1",                         \
        "train.checkpoint_seconds=0.000001",                                                                 \
        "data={train: {csv: {file: sudden.csv, header: false, label: 2}}, shuffle: false}"

TEST(last_update_diverges) {
    struct rt_error err;
    struct rt_result result;
    site_make();
    site_text("sudden.csv", sudden_data);
    static const char *const sudden[] = {SUDDEN, "train.optimizer={sgd: {lr: 1e6}}", "train.epochs=1", NULL};
    CHECK(site_train("out", sudden, false, 0, &result, NULL, &err) == RT_DIVERGED);
    CHECK_MSG(strstr(err.text, "a parameter is not finite after update 4"), "%s", err.text);
    CHECK_MSG(strstr(err.text, "model.init: ") && strstr(err.text, "out/checkpoint/state.safetensors"), "%s",
              err.text);
    CHECK(!exists("out/model.safetensors") && !exists("out/summary.json"));
    /* The checkpoint is that of update 3: a resumed run goes on from it, and fails in the same way. */
    struct site_watch watch;
    CHECK(site_train("out", sudden, true, 0, &result, &watch, &err) == RT_DIVERGED);
    CHECK_MSG(strstr(err.text, "update 4"), "%s", err.text);
    CHECK(watch.reports == 2 && watch.notice[0] == 0);
    /* The advice can be followed. */
    static const char *const slower[] = {SUDDEN, "train.optimizer={sgd: {lr: 1e-38}}", "train.epochs=1",
                                         "model.init=out/checkpoint/state.safetensors", NULL};
    CHECK_OK(site_train("slower", slower, false, 0, &result, NULL, &err));
    CHECK(result.updates == 4);
    site_remove();
}

/* A loss that is not finite ends the run before its update is applied. */
TEST(failing_run_keeps_its_checkpoint) {
    struct rt_error err;
    struct rt_result result;
    struct rt_run *run;
    site_make();
    site_text("sudden.csv", "0,0,0\n0,0,0\n0,0,0\n1e30,1e30,0\n");
    static const char *const sudden[] = {SUDDEN, "train.optimizer={sgd: {lr: 0.01}}", NULL};
    CHECK(site_train("out", sudden, false, 0, &result, NULL, &err) == RT_DIVERGED);
    CHECK_MSG(strstr(err.text, "the loss is not finite at update 4"), "%s", err.text);
    CHECK(!exists("out/model.safetensors"));
    /* Read back, and a step from it. */
    site_text("sudden.csv", sudden_data);
    static const char *const still[] = {SUDDEN, "train.optimizer={sgd: {lr: 0.01}}", "train.updates=1",
                                        "model.init=out/checkpoint/state.safetensors", NULL};
    CHECK_OK(site_open("again", still, &run, &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    const float inputs[] = {1, 1};
    float output;
    CHECK_OK(rt_run_predict(run, inputs, 1, &output, &err));
    CHECK(isfinite(output));
    rt_run_close(run);
    site_remove();
}

TEST(validation_that_is_not_finite) {
    struct rt_error err;
    struct rt_result result;
    site_make();
    site_text("zero.csv", "0,0,0\n0,0,0\n0,0,0\n0,0,0\n");
    site_text("huge.csv", "1e30,1e30,0\n");
    static const char *const parts[] = {"validation", "test"};
    for (size_t i = 0; i < 2; i++) {
        char data[200];
        snprintf(data, sizeof data,
                 "data={train: {csv: {file: zero.csv, header: false, label: 2}}, %s: {csv: {file: huge.csv, "
                 "header: false, label: 2}}}",
                 parts[i]);
        const char *const settings[] = {
            "model.input=2", "model.layers=[{dense: 1}]", "model.loss=mse", data, "train.batch=2", NULL};
        CHECK(site_train(parts[i], settings, false, 0, &result, NULL, &err) == RT_DIVERGED);
        char said[100];
        snprintf(said, sizeof said, "the %s loss is not finite after update 2", parts[i]);
        CHECK_MSG(strstr(err.text, said), "%s", err.text);
        snprintf(said, sizeof said, "%s/model.safetensors", parts[i]);
        CHECK(!exists(said));
    }
    site_remove();
}

/* ---- what was there before ---- */

static void stop_run(void *user, const struct rt_progress *progress) {
    if (progress->update == 3)
        rt_run_stop(user);
}

TEST(failed_training_keeps_the_model_before) {
    struct rt_error err;
    struct rt_run *run;
    site_make();
    CHECK_OK(site_open("out", short_run, &run, &err));
    CHECK_OK(rt_run_train(run, NULL, NULL, &err));
    const struct rt_result before = *rt_run_result(run);
    const float inputs[] = {5, 0, 10};
    float first[3], second[3];
    CHECK_OK(rt_run_predict(run, inputs, 1, first, &err));
    CHECK_OK(rt_run_set_out(run, site_path("other"), &err));
    CHECK_OK(rt_run_set(run, "train.seed", "9", &err));
    CHECK(rt_run_train(run, stop_run, run, &err) == RT_INTERRUPTED);
    CHECK(strcmp(rt_run_out_dir(run), site_path("other")) == 0);
    CHECK_OK(rt_run_set(run, "data.train", "{csv: none.csv}", &err));
    CHECK_OK(rt_run_set_out(run, site_path("third"), &err));
    CHECK(rt_run_train(run, NULL, NULL, &err) == RT_BAD_INPUT);
    const struct rt_result *after = rt_run_result(run);
    REQUIRE(after);
    CHECK(strcmp(after->params_sha256, before.params_sha256) == 0);
    CHECK(strcmp(after->out_dir, site_path("out")) == 0);
    CHECK(rt_run_test(run) && rt_run_test(run)->loss == before.test_loss);
    CHECK(strcmp(rt_run_class_name(run, 0), "daisy") == 0);
    CHECK_OK(rt_run_predict(run, inputs, 1, second, &err));
    CHECK(memcmp(first, second, sizeof first) == 0);
    rt_run_close(run);
    site_remove();
}

/* ---- the best model ---- */

#define WILD "data.hold_out=0.2", "train.epochs=12", "train.optimizer={sgd: {lr: 8}}"

/* What the journal says of the validation of an update; left alone where there was none. */
static void read_validation(const char *file, uint64_t update, double *loss, double *accuracy) {
    static char line[20000];
    FILE *journal = fopen(site_path(file), "r");
    while (journal && fgets(line, sizeof line, journal)) {
        json_t *event = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(event, "event"));
        if (name && strcmp(name, "validation") == 0 &&
            json_integer_value(json_object_get(event, "update")) == (json_int_t)update) {
            *loss = json_number_value(json_object_get(event, "loss"));
            *accuracy = json_number_value(json_object_get(event, "accuracy"));
        }
        json_decref(event);
    }
    if (journal)
        fclose(journal);
}

TEST(summary_is_about_the_model_kept) {
    struct rt_error err;
    struct rt_result result;
    static const char *const best[] = {WILD, NULL};
    static const char *const last[] = {WILD, "train.keep_best=false", NULL};
    site_make();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(site_train(i ? "last" : "best", i ? last : best, false, 0, &result, NULL, &err));
        json_t *summary = site_json(i ? "last/summary.json" : "best/summary.json");
        const uint64_t update = (uint64_t)json_integer_value(json_object_get(summary, "model_update"));
        CHECK((update == result.updates) == (i == 1));
        double loss = -1, accuracy = -1;
        read_validation(i ? "last/journal.jsonl" : "best/journal.jsonl", update, &loss, &accuracy);
        CHECK(json_number_value(json_object_get(summary, "validation_loss")) == loss);
        CHECK(json_number_value(json_object_get(summary, "validation_accuracy")) == accuracy);
        json_decref(summary);
    }
    /* Without validation data there is no such number: the test set is not one. */
    CHECK_OK(site_train("none", short_run, false, 0, &result, NULL, &err));
    json_t *summary = site_json("none/summary.json");
    CHECK(json_is_null(json_object_get(summary, "validation_loss")));
    json_decref(summary);
    site_remove();
}

TEST(damaged_best_model) {
    struct rt_error err;
    struct rt_run *run;
    struct rt_result result;
    struct site_watch watch;
    static const char *const wild[] = {WILD, NULL};
    site_make();
    CHECK_OK(site_train("out", wild, false, 0, &result, NULL, &err));
    CHECK(truncate(site_path("out/checkpoint/best.safetensors"), 100) == 0);
    CHECK_OK(site_train("out", wild, true, 0, &result, &watch, &err));
    CHECK_MSG(strstr(watch.notice, "the last one is kept"), "notice: %s", watch.notice);
    CHECK_OK(rt_run_load(site_path("out/model.safetensors"), &run, &err));
    CHECK(rt_run_model_update(run) == result.updates);
    rt_run_close(run);
    site_remove();
}

TEST(other_validation_forgets_the_best) {
    struct rt_error err;
    struct rt_result result;
    struct site_watch watch;
    static const char *const wild[] = {WILD, NULL};
    static const char *const longer[] = {WILD, "train.epochs=14", NULL};
    static const char *const rarely[] = {WILD, "train.epochs=16", "train.validate_epochs=2", NULL};
    site_make();
    CHECK_OK(site_train("out", wild, false, 0, &result, NULL, &err));
    CHECK_OK(site_train("out", longer, true, 0, &result, &watch, &err));
    CHECK_MSG(watch.notice[0] == 0, "notice: %s", watch.notice);
    CHECK_OK(site_train("out", rarely, true, 0, &result, &watch, &err));
    CHECK_MSG(strstr(watch.notice, "train.validate_epochs has changed"), "notice: %s", watch.notice);
    json_t *summary = site_json("out/summary.json");
    CHECK(json_integer_value(json_object_get(summary, "model_update")) >= 14 * 8);
    json_decref(summary);
    site_remove();
}

/* ---- stops at awkward moments ---- */

TEST(stop_after_the_last_update) {
    struct rt_error err;
    struct rt_result whole, stopped;
    site_make();
    CHECK_OK(site_train("whole", NULL, false, 0, &whole, NULL, &err));
    CHECK(site_train("stopped", NULL, false, 40, &stopped, NULL, &err) == RT_INTERRUPTED);
    CHECK(!exists("stopped/model.safetensors"));
    CHECK_OK(site_train("stopped", NULL, true, 0, &stopped, NULL, &err));
    CHECK(strcmp(whole.params_sha256, stopped.params_sha256) == 0 && whole.test_loss == stopped.test_loss);
    site_remove();
}

static struct rt_run *alarmed;

static void stop_alarmed(int number) {
    (void)number;
    rt_run_stop(alarmed);
}

/* Nearly all the time goes into validations, so the alarm finds one; a resumed run does it again. */
TEST(stop_during_a_validation) {
    struct rt_error err;
    static const char *const slow[] = {"data.validation={csv: {file: many.csv, label: kind}}",
                                       "train.validate_updates=1", "train.updates=10", NULL};
    site_make();
    FILE *out = fopen(site_path("many.csv"), "w");
    REQUIRE(out);
    fprintf(out, "petal,sepal,stem,kind\n");
    for (int i = 0; i < 30000; i++)
        fprintf(out, "%d,%d,10,%s\n", i % 7, i % 5, i % 2 ? "rose" : "tulip");
    CHECK(fclose(out) == 0);
    signal(SIGALRM, stop_alarmed);
    CHECK_OK(site_open("out", slow, &alarmed, &err));
    int parts = 0;
    for (rt_status status = RT_INTERRUPTED; status == RT_INTERRUPTED; parts++) {
        const struct itimerval soon = {.it_value.tv_usec = parts < 4 ? 60000 : 0};
        REQUIRE(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        rt_run_set_resume(alarmed, exists("out"));
        status = rt_run_train(alarmed, NULL, NULL, &err);
        CHECK_MSG(status == RT_OK || status == RT_INTERRUPTED, "%s", err.text);
    }
    for (uint64_t update = 1; update <= 10; update++) {
        double loss = -1, accuracy;
        read_validation("out/journal.jsonl", update, &loss, &accuracy);
        CHECK_MSG(loss >= 0, "no validation of update %d, in %d parts", (int)update, parts);
    }
    rt_run_close(alarmed);
    site_remove();
}

TEST_MAIN()
