/* A directory to run in. */
#include "support/site.h"

#include "support/test.h"
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

static char dir[300];

const char *site_path(const char *file) {
    static char paths[8][600];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, file);
    return path;
}

void site_text(const char *file, const char *text) {
    FILE *out = fopen(site_path(file), "w");
    CHECK(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* Three kinds of flowers around three centres. */
static void write_flowers(const char *file, int first, int count) {
    static const char *const names[] = {"rose", "daisy", "tulip"};
    FILE *out = fopen(site_path(file), "w");
    REQUIRE(out);
    fprintf(out, "petal,sepal,stem,kind\n");
    for (int i = first; i < first + count; i++) {
        int kind = i % 3;
        double wobble[3];
        for (int j = 0; j < 3; j++)
            wobble[j] = (double)((i * 37 + j * 101 + i * i * 13) % 97) / 97 - 0.5;
        fprintf(out, "%.4f,%.4f,%.4f,%s\n", 5 * (kind == 0) + 1.5 * wobble[0],
                3 * (kind == 1) + 1.5 * wobble[1], 10 + kind + wobble[2], names[kind]);
    }
    CHECK(fclose(out) == 0);
}

static const char run_file[] =
    "model:\n"
    "  input: 3\n"
    "  layers: [{dense: 16}, relu, {dropout: 0.1}, {dense: 3}]\n"
    "  loss: cross_entropy\n"
    "data:\n"
    "  train: {csv: {file: train.csv, label: kind}}\n"
    "  test: {csv: {file: test.csv, label: kind}}\n"
    "  standardize: true\n"
    "train: {batch: 16, epochs: 4, optimizer: {adam: {lr: 0.02}}, seed: 3, threads: 1,\n"
    "        report_seconds: 0}\n";

void site_make(void) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ringtmp-train-XXXXXX", base ? base : "/tmp");
    REQUIRE(mkdtemp(dir));
    site_text("run.yaml", run_file);
    write_flowers("train.csv", 0, 150);
    write_flowers("test.csv", 1000, 60);
}

static void remove_tree(const char *path) {
    DIR *entries = opendir(path);
    if (entries) {
        const struct dirent *entry;
        while ((entry = readdir(entries))) {
            char child[1000];
            snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                remove_tree(child);
        }
        closedir(entries);
    }
    remove(path);
}

void site_clear(const char *name) {
    remove_tree(site_path(name));
}

static void copy_file(const char *from, const char *to) {
    static char block[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK_MSG(in && out, "%s cannot be copied", from);
    for (size_t got; in && out && (got = fread(block, 1, sizeof block, in)) > 0;)
        CHECK(fwrite(block, 1, got, out) == got);
    if (in)
        fclose(in);
    CHECK(!out || fclose(out) == 0);
}

static void copy_tree(const char *from, const char *to) {
    DIR *entries = opendir(from);
    if (!entries) {
        copy_file(from, to);
        return;
    }
    const struct dirent *entry;
    CHECK(mkdir(to, 0700) == 0);
    while ((entry = readdir(entries))) {
        char source[1000], copy[1000];
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            copy_tree(source, copy);
    }
    closedir(entries);
}

void site_copy(const char *from, const char *to) {
    copy_tree(site_path(from), site_path(to));
}

void site_remove(void) {
    remove_tree(dir);
}

/* ---- runs ---- */

static void watch_progress(void *user, const struct rt_progress *progress) {
    struct site_watch *watch = user;
    watch->reports++;
    watch->last_update = progress->update;
    watch->validations += progress->validated ? 1 : 0;
    if (!isnan(progress->loss)) {
        watch->first_loss = watch->first_loss == 0 ? progress->loss : watch->first_loss;
        watch->last_loss = progress->loss;
    }
    if (watch->stop_at && progress->update >= watch->stop_at)
        rt_run_stop(watch->run);
}

static void watch_notice(void *user, const char *sentence) {
    struct site_watch *watch = user;
    snprintf(watch->notice, sizeof watch->notice, "%s", sentence);
}

rt_status site_open(const char *out, const char *const *settings, struct rt_run **run, struct rt_error *err) {
    rt_status status = rt_run_open(site_path("run.yaml"), run, err);
    if (status != RT_OK)
        return status;
    status = rt_run_set_out(*run, site_path(out), err);
    if (status == RT_OK && getenv("RINGTMP"))
        status = rt_run_set_program(*run, getenv("RINGTMP"), err);
    for (; status == RT_OK && settings && *settings; settings++) {
        char key[100];
        const char *equals = strchr(*settings, '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - *settings), *settings);
        status = rt_run_set(*run, key, equals + 1, err);
    }
    if (status != RT_OK)
        rt_run_close(*run);
    return status;
}

rt_status site_train(const char *out, const char *const *settings, bool resume, uint64_t stop_at,
                     struct rt_result *result, struct site_watch *watch, struct rt_error *err) {
    struct rt_run *run;
    struct site_watch own;
    watch = watch ? watch : &own;
    rt_status status = site_open(out, settings, &run, err);
    if (status != RT_OK)
        return status;
    *watch = (struct site_watch){.run = run, .stop_at = stop_at};
    rt_run_set_resume(run, resume);
    rt_run_set_notice(run, watch_notice, watch);
    status = rt_run_train(run, watch_progress, watch, err);
    if (status == RT_OK)
        *result = *rt_run_result(run);
    else
        CHECK(rt_run_result(run) == NULL);
    result->out_dir = NULL;
    rt_run_close(run);
    return status;
}

json_t *site_json(const char *path) {
    json_error_t error;
    json_t *json = json_load_file(site_path(path), 0, &error);
    CHECK_MSG(json, "%s: %s", path, error.text);
    return json;
}
