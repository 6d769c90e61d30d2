/*
 * Failures drawn from seeds, at whole runs over the network in memory: hosts are killed, killed and started
 * again, stopped, hang, or are unplugged, links are cut in one direction or both; one after another or two at
 * once; while the first view is formed, in training, while a view is formed again, near the end. Or
 * the master is killed, and its run resumed. Every run must end well, with every update and every example,
 * and where the strategy promises it with the parameters of an undisturbed run.
 *
 *     build/tests/test_failures                        some of every strategy, as in `make test`
 *     RT_FAILURES=1000 build/tests/test_failures       so many (make test-long)
 *     RT_FAILURE_SEED=17 build/tests/test_failures ring    that one again, with what master and nodes told
 */
#include "support/simrun.h"
#include "support/test.h"

#include "base/rng.h"
#include <math.h>
#include <signal.h>
#include <unistd.h>

enum { BLOCKS = 8, USUAL = 128, MOST_FAULTS = 3, SECONDS_PER_CASE = 30 };

static const struct row {
    const char *block; /* of this file */
    const char *strategy, *epochs;
    uint64_t updates, samples;
    bool exact;          /* the same parameters, whatever happens */
    bool drops;          /* may leave some of the examples out */
    const char *setting; /* one more; may be NULL */
} ring = {.block = "ring", .strategy = "ring", .epochs = "4", .updates = 40, .samples = 600, .exact = true},
  ring_one = {.block = "ring_one",
              .strategy = "ring-one",
              .epochs = "1",
              .updates = 150,
              .samples = 150,
              .exact = true},
  hybrid = {.block = "hybrid",
            .strategy = "{hybrid: {rings: 2, exchange: allreduce-rd}}",
            .epochs = "4",
            .updates = 40,
            .samples = 600,
            .exact = true};

#define EXCHANGE(in, named, ...)                                                                             \
    { .block = in, .strategy = named, .epochs = "24", .updates = 240, .samples = 3600, __VA_ARGS__ }
static const struct row allreduce_ring = EXCHANGE("allreduce_ring", "allreduce-ring", .exact = false),
                        allreduce_rd = EXCHANGE("allreduce_rd", "allreduce-rd", .exact = true),
                        ps_sync = EXCHANGE("ps_sync", "ps-sync", .exact = true),
                        ps_async = EXCHANGE("ps_async", "ps-async", .exact = false);

/* One of them for each seed. */
static const struct row others[] = {EXCHANGE("others", "allreduce-hd", .exact = true),
                                    EXCHANGE("others", "ps-tree", .exact = true),
                                    EXCHANGE("others", "ps-shard,k=2", .exact = true),
                                    EXCHANGE("others", "ps-peer", .exact = false),
                                    EXCHANGE("others", "ps-ssp", .exact = false),
                                    EXCHANGE("others", "downpour", .exact = false),
                                    {.block = "others",
                                     .strategy = "ring-flow",
                                     .epochs = "4",
                                     .updates = 40,
                                     .samples = 600,
                                     .setting = "train.shards=1"},
                                    EXCHANGE("others", "ps-backup", .drops = true)};
enum { OTHERS = sizeof others / sizeof *others };

struct failure {
    const struct row *row;
    uint64_t seed;
    size_t devices;
    struct rt_sim_fault faults[MOST_FAULTS];
    size_t count;
    double master_killed, master_back; /* alone; see struct simrun_settings */
};

/* Undisturbed ones, by the number of devices. */
static struct simrun usual[OTHERS][SIMRUN_PLACES], run;

/* ---- running ------------------------------------------------------------------------------------------- */

static void failure_run(const struct failure *failure, struct simrun *made) {
    char epochs[30];
    snprintf(epochs, sizeof epochs, "train.epochs=%s", failure->row->epochs);
    const struct simrun_settings settings = {.devices = failure->devices,
                                             .strategy = failure->row->strategy,
                                             .settings = {epochs, failure->row->setting},
                                             .seed = failure->seed,
                                             .faults = failure->faults,
                                             .fault_count = failure->count,
                                             .master_killed = failure->master_killed,
                                             .master_back = failure->master_back};
    simrun_train(&settings, made);
}

static size_t failure_number(const struct row *row) {
    size_t i = 0;
    while (i < OTHERS && row != &others[i])
        i++;
    return i % OTHERS;
}

static const struct simrun *failure_usual(const struct row *row, size_t devices) {
    struct simrun *made = &usual[failure_number(row)][devices];
    const struct failure none = {.row = row, .seed = 1, .devices = devices};
    if (made->result.updates == 0) {
        failure_run(&none, made);
        CHECK_MSG(made->status == RT_OK, "%s on %zu devices, undisturbed: %s", row->strategy, devices,
                  made->error.text);
    }
    return made;
}

/* By then every node has answered the master: one that never did may be an address that is wrong. */
#define GREETED 0.04

/* ---- drawing ------------------------------------------------------------------------------------------- */

/* When: while the first view is formed, in training, near the end, or anywhere; another one soon after the
 * first. */
static void failure_draw(const struct row *row, uint64_t seed, struct failure *failure) {
    const bool rings = row == &hybrid; /* of an even number of devices */
    uint32_t words[4];
    rt_rng_block(seed, RT_PURPOSE_DELAY, 3, 0, 0, words);
    *failure = (struct failure){.row = row,
                                .seed = seed,
                                .devices = rings ? 4 + 2 * (words[0] % 3) : 2 + words[0] % 7,
                                .count = 1 + words[1] % 3};
    const struct simrun *whole = failure_usual(row, failure->devices);
    const double windows[][2] = {{GREETED, whole->began + 0.001},
                                 {whole->began, whole->trained},
                                 {whole->began, whole->trained},
                                 {whole->trained - 0.1, whole->seconds + 0.1},
                                 {GREETED, whole->seconds}};
    const double *window = windows[words[2] % (sizeof windows / sizeof *windows)];
    const struct rt_sim_fault_terms terms = {
        .hosts = failure->devices, .spared = 1, .from = window[0], .until = window[1], .longest = 12};
    rt_sim_fault_draw(seed, &terms, failure->faults, failure->count);
    if ((words[0] >> 16) % 8 == 0) {
        /* All nodes must be there when it is resumed; then, while the state is loaded, one may be lost. */
        failure->master_killed = failure->faults[0].at;
        failure->master_back = 0.001 * (double)(words[3] % 8000);
        failure->count = words[1] % 2;
        failure->faults[0].at = failure->master_killed + failure->master_back + GREETED +
                                (0.2 + whole->began) * (double)(words[2] % 1000) / 1000;
    }
    for (size_t i = 1; i < failure->count && words[3] % 2; i++)
        failure->faults[i].at = failure->faults[0].at + 0.001 * (double)(i * (words[3] >> 8) % 700);
}

static void failure_print(const struct failure *failure, char *text, size_t room) {
    char line[RT_SIM_FAULT_ROOM];
    int used = snprintf(text, room, "RT_FAILURE_SEED=%llu test_failures %s: %zu devices\n",
                        (unsigned long long)failure->seed, failure->row->block, failure->devices);
    if (failure->master_killed > 0)
        used += snprintf(text + used, room - (size_t)used,
                         "    at %g s the master is killed, and resumed after %g s\n", failure->master_killed,
                         failure->master_back);
    for (size_t i = 0; i < failure->count; i++) {
        rt_sim_fault_print(&failure->faults[i], line);
        used += snprintf(text + used, room - (size_t)used, "    %s\n", line);
    }
}

/* ---- judging ------------------------------------------------------------------------------------------- */

/* What is printed when a run never comes back. */
static char current[1000];

static void failure_hangs(int signal) {
    static const char text[] = "does not end: ";
    (void)!write(2, text, sizeof text - 1);
    (void)!write(2, current, strlen(current));
    _exit(signal);
}

static bool failure_is_well(const struct failure *failure) {
    const struct row *row = failure->row;
    const struct simrun *whole = &usual[failure_number(row)][failure->devices];
    if (run.net_status != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", run.net_error.text);
    else if (run.status != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "the run failed: %s", run.error.text);
    else if (run.result.updates != row->updates || run.result.samples > row->samples ||
             (run.result.samples < row->samples && !row->drops))
        rt_test_fail(__FILE__, __LINE__, "%llu updates with %llu examples",
                     (unsigned long long)run.result.updates, (unsigned long long)run.result.samples);
    else if (row->exact && strcmp(run.result.params_sha256, whole->result.params_sha256) != 0)
        rt_test_fail(__FILE__, __LINE__, "other parameters than undisturbed");
    else
        return true;
    return false;
}

/* Returns whether a device was lost. */
static bool failure_try(const struct row *row, uint64_t seed, bool alone) {
    struct failure failure;
    failure_draw(row, seed, &failure);
    failure_print(&failure, current, sizeof current);
    alarm(SECONDS_PER_CASE);
    failure_run(&failure, &run);
    if (!failure_is_well(&failure) || alone)
        fprintf(stderr, "%s", current);
    if (alone)
        fprintf(stderr, "%s", run.log);
    return strstr(run.log, "is lost") || strstr(run.log, "is killed");
}

static void failures_of(const struct row *rows, size_t row_count) {
    const char *seed = getenv("RT_FAILURE_SEED"), *count = getenv("RT_FAILURES");
    const uint64_t all = count ? strtoull(count, NULL, 10) : USUAL;
    simrun_make();
    signal(SIGALRM, failure_hangs);
    if (seed)
        failure_try(&rows[strtoull(seed, NULL, 10) % row_count], strtoull(seed, NULL, 10), true);
    uint64_t tried = 0, lost = 0;
    for (; !seed && tried < (all + BLOCKS - 1) / BLOCKS; tried++)
        lost += failure_try(&rows[(tried + 1) % row_count], tried + 1, false);
    CHECK_MSG(4 * lost >= tried || tried < 12, "a device was lost in %llu of %llu runs",
              (unsigned long long)lost, (unsigned long long)tried);
    simrun_remove();
}

TEST(ring) {
    failures_of(&ring, 1);
}

TEST(ring_one) {
    failures_of(&ring_one, 1);
}

TEST(allreduce_ring) {
    failures_of(&allreduce_ring, 1);
}

TEST(allreduce_rd) {
    failures_of(&allreduce_rd, 1);
}

TEST(ps_sync) {
    failures_of(&ps_sync, 1);
}

TEST(ps_async) {
    failures_of(&ps_async, 1);
}

TEST(hybrid) {
    failures_of(&hybrid, 1);
}

TEST(others) {
    failures_of(others, OTHERS);
}

TEST_MAIN()
