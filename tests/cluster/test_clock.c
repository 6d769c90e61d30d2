/*
 * The clock changes no result. Checkpoints, reports and stop requests come at any time; validations, early
 * stops and the model that is kept are functions of the update count, in every strategy. The times are drawn
 * at random, and every run must have one list of validations and one hash. $RINGTMP is the command, for the
 * other nodes.
 */
#include "base/rng.h"
#include "support/site.h"
#include "support/test.h"

enum { EXAMPLES = 200, SETTINGS = 16 };

/* Labels that cannot be learnt: the loss goes up and down, so one validation too late is another best model.
 */
static const char run_file[] =
    "model: {input: 4, layers: [dense: 16, relu, dense: 12, relu, dense: 3], loss: cross_entropy}\n"
    "data: {train: {csv: {file: noise.csv, label: label}}, hold_out: 0.2}\n"
    "train: {batch: 16, epochs: 40, optimizer: {momentum: {lr: 0.2}}, validate_updates: 7, early_stop: 9,\n"
    "        shards: 4, threads: 1}\n"
    "cluster: {keep_all: true}\n";

static uint32_t draw(uint32_t below) {
    static uint64_t draws;
    uint32_t word[4];
    rt_rng_block(15, RT_PURPOSE_DELAY, 0, draws++, 0, word);
    return word[0] % below;
}

static void make_noise(void) {
    site_make();
    site_text("run.yaml", run_file);
    FILE *out = fopen(site_path("noise.csv"), "w");
    REQUIRE(out);
    fprintf(out, "a,b,c,d,label\n");
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k < 4; k++)
            fprintf(out, "%g,", draw(2000) / 1000.0 - 1);
        fprintf(out, "%d\n", (int)draw(3));
    }
    CHECK(fclose(out) == 0);
}

/* ---- what a run leaves ---- */

/* What every validation found, by its update: as lines. */
struct list {
    char text[8000];
    size_t count, checkpoints;
    uint64_t last;
};

static void read_journal(const char *out, bool losses, struct list *list) {
    static char line[20000];
    char path[100];
    *list = (struct list){0};
    snprintf(path, sizeof path, "%s/journal.jsonl", out);
    FILE *journal = fopen(site_path(path), "r");
    REQUIRE(journal);
    while (fgets(line, sizeof line, journal)) {
        json_t *event = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(event, "event"));
        list->checkpoints += name && strcmp(name, "checkpoint") == 0;
        if (name && strcmp(name, "validation") == 0) {
            const size_t used = strlen(list->text);
            list->count++;
            list->last = (uint64_t)json_integer_value(json_object_get(event, "update"));
            snprintf(list->text + used, sizeof list->text - used, "%d %.17g\n", (int)list->last,
                     losses ? json_real_value(json_object_get(event, "loss")) : 0.0);
        }
        json_decref(event);
    }
    fclose(journal);
}

/* ---- runs ---- */

struct trial {
    const char *strategy;
    size_t nodes;
    const char *words[4]; /* further settings */
};

static char chosen[SETTINGS][80]; /* those of the run that is under way */

/* seconds: between checkpoints; 0: only at the end. report: seconds between reports. */
static const char *const *settings_of(const struct trial *trial, double seconds, unsigned report) {
    static const char *all[SETTINGS + 1];
    size_t count = 0;
    snprintf(chosen[count++], sizeof chosen[0], "cluster.strategy=%s", trial->strategy);
    snprintf(chosen[count++], sizeof chosen[0], "cluster.nodes=%zu", trial->nodes);
    snprintf(chosen[count++], sizeof chosen[0], "train.checkpoint_seconds=%g", seconds);
    snprintf(chosen[count++], sizeof chosen[0], "train.report_seconds=%u", report);
    for (size_t i = 0; i < 4 && trial->words[i]; i++)
        snprintf(chosen[count++], sizeof chosen[0], "%s", trial->words[i]);
    for (size_t i = 0; i < count; i++)
        all[i] = chosen[i];
    all[count] = NULL;
    return all;
}

/* Trains into `out`, stopped and resumed stops times; returns how often it was. */
static size_t train(const char *out, const struct trial *trial, double seconds, unsigned report, size_t stops,
                    struct rt_result *result) {
    struct rt_error err;
    struct site_watch watch = {0};
    for (size_t stopped = 0;; stopped++) {
        const uint64_t stop_at = stopped < stops ? watch.last_update + 1 + draw(9) : 0;
        rt_status status =
            site_train(out, settings_of(trial, seconds, report), stopped > 0, stop_at, result, &watch, &err);
        if (status == RT_INTERRUPTED && stopped < stops)
            continue;
        if (status != RT_OK)
            rt_test_fail(__FILE__, __LINE__, "%s on %zu: %s", trial->strategy, trial->nodes, err.text);
        return stopped;
    }
}

/* Whether a run at times of its own has the validations and the parameters of one that nothing disturbed. */
static void compare(const struct trial *trial, const struct list *expected, const struct rt_result *one) {
    struct rt_result result;
    struct list found;
    for (size_t stops = 0; stops < 2; stops++) {
        const double seconds = (1 + draw(draw(4) ? 5 : 30)) * 1e-3;
        char out[40], what[200];
        snprintf(out, sizeof out, "out-%u", (unsigned)draw(1000000));
        const size_t stopped = train(out, trial, seconds, stops ? 0 : draw(2), stops, &result);
        read_journal(out, true, &found);
        snprintf(what, sizeof what, "%s on %zu, checkpoints every %g s, %zu stops", trial->strategy,
                 trial->nodes, seconds, stopped);
        CHECK_MSG(found.checkpoints > 1 && (stopped > 0) == (stops > 0), "%s: %zu checkpoints", what,
                  found.checkpoints);
        CHECK_MSG(strcmp(found.text, expected->text) == 0, "%s: other validations:\n%s\ninstead of\n%s", what,
                  found.text, expected->text);
        CHECK_MSG(result.updates == one->updates, "%s: %d updates", what, (int)result.updates);
        CHECK_MSG(strcmp(result.params_sha256, one->params_sha256) == 0, "%s: another hash", what);
    }
}

/* Those that compute what one device does, and others that are exact in their own order. */
TEST(exact_strategies_have_one_result) {
    static const struct trial one = {"sgd", 1, {0}};
    static const struct trial same[] = {{"sgd", 1, {0}},           {"ring", 3, {0}},
                                        {"allreduce-rd", 4, {0}},  {"allreduce-hd,wfbp=off", 2, {0}},
                                        {"ps-sync", 4, {0}},       {"ps-backup,backup=0", 4, {0}},
                                        {"hybrid,rings=2", 4, {0}}};
    static const struct trial others[] = {
        {"allreduce-ring", 3, {0}},
        {"ps-peer", 3, {0}},
        {"ring-flow,slots=1", 2, {"train.shards=1", "train.optimizer.momentum.lr=0.05"}}};
    struct rt_result result;
    struct list expected;
    make_noise();
    train("one", &one, 0, 1, 0, &result);
    read_journal("one", true, &expected);
    CHECK_MSG(result.updates < 400 && expected.last == result.updates && expected.count > 9,
              "no early stop after %d updates", (int)result.updates);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        compare(&same[i], &expected, &result);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char out[40];
        snprintf(out, sizeof out, "undisturbed-%zu", i);
        train(out, &others[i], 0, 1, 0, &result);
        read_journal(out, true, &expected);
        compare(&others[i], &expected, &result);
    }
    site_remove();
}

/* Those whose result depends on timing: they validate when the others do. */
TEST(all_strategies_validate_at_the_same_updates) {
#define WORDS                                                                                                \
    { "train.shards=1", "train.early_stop=0", "train.updates=65", "train.optimizer.momentum.lr=0.01" }
    static const struct trial trials[] = {{"ring-flow", 3, WORDS},
                                          {"ps-async", 3, WORDS},
                                          {"ps-ssp", 3, WORDS},
                                          {"ps-backup", 3, WORDS},
                                          {"ps-hier,group=2,base=async", 4, WORDS},
                                          {"hybrid,rings=2,exchange=ps-async", 4, WORDS}};
    char expected[1000] = "";
    make_noise();
    for (int update = 1; update <= 65; update++) /* an epoch has ten updates */
        if (update % 7 == 0 || update % 10 == 0 || update == 65)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d 0\n", update);
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        struct rt_result result;
        struct list found;
        char out[40];
        snprintf(out, sizeof out, "out-%zu", i);
        train(out, &trials[i], (1 + draw(5)) * 1e-3, draw(2), draw(2), &result);
        read_journal(out, false, &found);
        CHECK_MSG(strcmp(found.text, expected) == 0, "%s: validated\n%s", trials[i].strategy, found.text);
    }
    site_remove();
}

TEST_MAIN()
