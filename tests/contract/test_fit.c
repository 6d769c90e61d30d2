/*
 * Every combination of loss, target, shape of the output and kind of data either trains or is refused with a
 * sentence before the run: on one device, and again by a node for the job it is sent, whatever the master
 * that sent it thinks.
 */
#include "formats/yaml.h"
#include "run/roles.h"
#include "support/site.h"
#include "support/test.h"
#include <math.h>

enum { INPUTS = 4, EXAMPLES = 12 };

static const char *const losses[] = {"cross_entropy", "mse", "bce"};
static const char *const targets[] = {"label", "input"};
static const int outputs[] = {1, 2, 3, INPUTS};

/* What a data set is like, in the words of what follows; columns after the inputs are written by `write`. */
struct kind {
    const char *name, *source;
    int columns;          /* of targets; 0: none */
    int classes;          /* labels go from 0 to classes - 1; 0: they are no classes */
    bool numbers, shares; /* as values: are they numbers; between 0 and 1 */
    bool wide;            /* the inputs are not between 0 and 1 */
    bool text;            /* labels are words: as many as the model has outputs */
};

static const struct kind kinds[] = {
    {"bits", "{csv: {file: bits.csv, label: 4}}", 1, 2, true, true, false, false},
    {"classes", "{csv: {file: classes.csv, label: 4}}", 1, 3, true, false, false, false},
    {"words", "{csv: {file: words.csv, label: 4}}", 1, 3, false, false, false, true},
    {"below", "{csv: {file: below.csv, label: 4}}", 1, 0, true, false, false, false},
    {"beyond", "{csv: {file: beyond.csv, label: 4}}", 1, 0, true, false, false, false},
    {"values", "{csv: {file: values.csv, targets: [4, 5, 6]}}", 3, 0, true, false, false, false},
    {"shares", "{csv: {file: shares.csv, targets: [4, 5, 6]}}", 3, 0, true, true, false, false},
    {"nothing", "{csv: nothing.csv}", 0, 0, false, false, false, false},
    {"wide", "{csv: {file: wide.csv, label: 4}}", 1, 2, true, true, true, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void write_target(FILE *out, const struct kind *kind, int i) {
    static const char *const words[] = {"ash", "elm", "oak"};
    if (kind->text)
        fprintf(out, ",%s", words[i % 3]);
    else if (kind->columns == 3)
        fprintf(out, ",%g,%g,%g", kind->shares ? 0.1 * (i % 9) : 5 - i, kind->shares ? 1.0 : 0.5, 0.25);
    else if (kind->classes)
        fprintf(out, ",%d", i % kind->classes);
    else
        fprintf(out, ",%d", i < EXAMPLES - 1 ? 0 : strcmp(kind->name, "below") == 0 ? -1 : 70000);
}

static void write_data(void) {
    for (size_t k = 0; k < KINDS; k++) {
        char name[40];
        snprintf(name, sizeof name, "%s.csv", kinds[k].name);
        FILE *out = fopen(site_path(name), "w");
        REQUIRE(out);
        for (int i = 0; i < EXAMPLES; i++) {
            const double x = kinds[k].wide ? 3 - i : 0.08 * i;
            fprintf(out, "%g,%g,%g,%g", x, kinds[k].wide ? -x : 1 - x, 0.5, 0.01 * i);
            if (kinds[k].columns)
                write_target(out, &kinds[k], i);
            fputc('\n', out);
        }
        CHECK(fclose(out) == 0);
    }
}

/* Whether it means anything. */
static bool is_right(size_t loss, size_t target, int width, const struct kind *kind) {
    if (loss == 0 && width < 2)
        return false;
    if (target == 1)
        return loss != 0 && width == INPUTS && (loss == 1 || !kind->wide);
    if (loss == 0)
        return kind->columns == 1 && kind->classes > 0 && (kind->text ? width == 3 : kind->classes <= width);
    return kind->numbers && kind->columns == width && (loss == 1 || kind->shares);
}

static void describe(size_t loss, size_t target, int width, const struct kind *kind, char *text,
                     size_t room) {
    snprintf(text, room,
             "{model: {input: %d, layers: [{dense: %d}], loss: %s}, data: {train: %s, target: %s}, "
             "train: {batch: 4, epochs: 1, optimizer: {sgd: {lr: 0.001}}}}",
             INPUTS, width, losses[loss], kind->source, targets[target]);
}

/* On one device. */
static void check_device(size_t loss, size_t target, int width, const struct kind *kind, const char *text) {
    struct rt_error err = {.text = ""};
    struct rt_result result;
    static const char *const settings[] = {"train.threads=1", "train.checkpoint_seconds=0", NULL};
    static int count;
    char out[20];
    snprintf(out, sizeof out, "out%d", count++);
    site_text("run.yaml", text);
    const rt_status status = site_train(out, settings, false, 0, &result, NULL, &err);
    if (is_right(loss, target, width, kind))
        CHECK_MSG(status == RT_OK && isfinite(result.train_loss), "%s: %s", text, err.text);
    else
        CHECK_MSG(status == RT_BAD_INPUT && err.text[0], "%s: status %d: %s", text, (int)status, err.text);
}

/* What a node answers to a job. Where it opens data of its own, their hash is never the one that the job
 * claims: that this is what is refused shows that everything else was right. */
static void check_node(bool fits, const char *job, bool sent) {
    static const struct rt_node_device device = {.ring = {.threads = 1}};
    const struct rt_role role = rt_node_roles(&device);
    struct rt_session session = {.user = role.user};
    struct rt_assigned_node parts[2] = {{.count = 1, .slots = 2}, {.count = 1, .slots = 2}};
    struct rt_assign asked = {.index = 1, .nodes = 2, .node = parts};
    struct rt_error err = {.text = ""};
    uint64_t memory;
    REQUIRE(rt_yaml_parse(job, strlen(job), "the job", &asked.job, &err) == RT_OK);
    const rt_status status = role.assign(&session, &asked, &memory, &err);
    const bool accepted = status == RT_OK || (!sent && strstr(err.text, "differ from the master's"));
    CHECK_MSG(accepted == fits && (accepted || (status == RT_BAD_INPUT && err.text[0])), "%s: status %d: %s",
              job, (int)status, err.text);
    role.end(&session);
    rt_tree_destroy(asked.job);
}

static void check_jobs(size_t loss, size_t target, int width, const struct kind *kind, bool sent) {
    char common[900], job[1600];
    /* Where examples are sent, only what can be known without them is known. */
    bool fits = is_right(loss, target, width, kind);
    if (sent)
        fits = (loss != 0 || width > 1) && (target == 0 || (loss != 0 && width == INPUTS));
    snprintf(common, sizeof common,
             "input: %d, layers: [{dense: %d}], loss: %s, batch: 4, updates: 3, per_epoch: 3, exchange: "
             "{strategy: allreduce-rd}, data: {examples: %d, fingerprint: x, directory: %s, options: "
             "{train: %s, target: %s, send: %s}}",
             INPUTS, width, losses[loss], EXAMPLES, site_path("."), kind->source, targets[target],
             sent ? "true" : "false");
    snprintf(job, sizeof job, "{learner: exchange, %s}", common);
    check_node(fits, job, sent);
    snprintf(job, sizeof job, "{learner: hybrid, rings: 2, %s}", common);
    check_node(fits, job, sent);
}

TEST(every_combination_trains_or_is_refused) {
    char text[600];
    site_make();
    write_data();
    for (size_t loss = 0; loss < sizeof losses / sizeof *losses; loss++)
        for (size_t target = 0; target < 2; target++)
            for (size_t w = 0; w < sizeof outputs / sizeof *outputs; w++)
                for (size_t k = 0; k < KINDS; k++) {
                    describe(loss, target, outputs[w], &kinds[k], text, sizeof text);
                    check_device(loss, target, outputs[w], &kinds[k], text);
                }
    site_remove();
}

TEST(a_node_refuses_what_its_master_should_have) {
    site_make();
    write_data();
    for (size_t loss = 0; loss < sizeof losses / sizeof *losses; loss++)
        for (size_t target = 0; target < 2; target++)
            for (size_t w = 0; w < sizeof outputs / sizeof *outputs; w++) {
                for (size_t k = 0; k < KINDS; k++)
                    check_jobs(loss, target, outputs[w], &kinds[k], false);
                check_jobs(loss, target, outputs[w], &kinds[0], true);
            }
    site_remove();
}

TEST_MAIN()
