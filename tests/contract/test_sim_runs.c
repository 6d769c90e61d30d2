/* Whole training runs over the network in memory: with nobody lost they have the parameters of one device,
 * and the same seed gives the same run. */
#include "support/simrun.h"
#include "support/test.h"
#include <stdlib.h>

static struct simrun run, again;

static void train(const char *strategy, size_t devices, struct simrun *made) {
    const struct simrun_settings settings = {.devices = devices, .strategy = strategy, .seed = devices};
    simrun_train(&settings, made);
    CHECK_MSG(made->net_status == RT_OK, "%s on %zu: %s", strategy, devices, made->net_error.text);
    CHECK_MSG(made->status == RT_OK, "%s on %zu: %s", strategy, devices, made->error.text);
    CHECK_MSG(made->result.updates == 40 && made->result.samples == 600, "%s on %zu: %llu updates", strategy,
              devices, (unsigned long long)made->result.updates);
}

TEST(one_result_on_any_number_of_devices) {
    char one[65];
    simrun_make();
    train("sgd", 1, &run);
    snprintf(one, sizeof one, "%s", run.result.params_sha256);
    static const struct {
        const char *strategy;
        size_t devices;
    } cases[] = {{"ring", 2}, {"ring", 5}, {"ring", 8}, {"allreduce-rd", 4}, {"ps-sync", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train(cases[i].strategy, cases[i].devices, &run);
        CHECK_MSG(strcmp(run.result.params_sha256, one) == 0, "%s on %zu devices has other parameters",
                  cases[i].strategy, cases[i].devices);
    }
    simrun_remove();
}

TEST(a_run_is_a_function_of_its_seed) {
    static const char *const strategies[] = {"ring", "ps-async", "allreduce-ring"};
    simrun_make();
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        train(strategies[i], 3, &run);
        train(strategies[i], 3, &again);
        CHECK_MSG(run.seconds == again.seconds && strcmp(run.log, again.log) == 0, "%s: %.9g s, then %.9g s",
                  strategies[i], run.seconds, again.seconds);
        CHECK(strcmp(run.result.params_sha256, again.result.params_sha256) == 0);
    }
    simrun_remove();
}

/* The master reaches it, and the others do not: it is left out, and none of them. */
TEST(one_that_nobody_else_can_reach) {
    struct rt_sim_fault cuts[3];
    char one[65];
    simrun_make();
    train("ring", 5, &run);
    snprintf(one, sizeof one, "%s", run.result.params_sha256);
    for (size_t i = 0; i < 3; i++)
        cuts[i] = (struct rt_sim_fault){.at = 0.5 * (run.began + run.trained),
                                        .kind = RT_SIM_CUT,
                                        .who = 3,
                                        .other = (size_t[]){1, 2, 4}[i]};
    const struct simrun_settings settings = {.devices = 5,
                                             .strategy = "ring",
                                             .settings = {"cluster.keep_all=true"},
                                             .seed = 5,
                                             .faults = cuts,
                                             .fault_count = 3};
    simrun_train(&settings, &run);
    CHECK_MSG(run.net_status == RT_OK && run.status == RT_OK, "%s%s", run.net_error.text, run.error.text);
    CHECK_MSG(strstr(run.log, "; continuing on 4 devices after") && !strstr(run.log, "continuing on 3"), "%s",
              run.log);
    CHECK(strcmp(run.result.params_sha256, one) == 0);
    simrun_remove();
}

/* A run with these settings in which some are killed, one after the other; it ends well. */
static void kill_some(const char *strategy, size_t devices, const char *const settings[3], const size_t *who,
                      const double *at, size_t count) {
    struct rt_sim_fault kills[2];
    struct simrun_settings wanted = {.devices = devices,
                                     .strategy = strategy,
                                     .settings = {settings[0], settings[1], settings[2]},
                                     .seed = devices,
                                     .faults = kills,
                                     .fault_count = count};
    for (size_t i = 0; i < count; i++)
        kills[i] = (struct rt_sim_fault){.at = at[i], .kind = RT_SIM_KILL, .who = who[i]};
    simrun_train(&wanted, &run);
    CHECK_MSG(run.net_status == RT_OK && run.status == RT_OK, "%s on %zu, %s, %zu killed at %g s: %s%s",
              strategy, devices, settings[0], count, at[0], run.net_error.text, run.error.text);
}

/* The updates that the last recovery made again from a replica; -1: it had none. */
static int repeated(void) {
    static const char said[] = " (replica); repeating ";
    const char *last = NULL;
    for (const char *next = run.log; (next = strstr(next, said)); next += sizeof said - 1)
        last = next;
    return last ? atoi(last + sizeof said - 1) : -1;
}

/* Checkpoints and the best models so far take images of the state as well, also of the version that is being
 * replicated: replicas go on all the same, so that a loss near the end costs a few updates. */
TEST(replicas_go_on_beside_what_is_written) {
    static const char *const written[][2] = {{"train.checkpoint_seconds=0.25", "train.validate_epochs=0"},
                                             {"train.validate_updates=5", "data.hold_out=0.1"},
                                             {"train.validate_updates=2", "data.hold_out=0.1"}};
    simrun_make();
    train("ring", 4, &run);
    const double at = run.began + 0.8 * (run.trained - run.began);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const char *const settings[] = {written[i][0], written[i][1], "cluster.replica_every=1"};
        kill_some("ring", 4, settings, (size_t[]){2}, &at, 1);
        CHECK_MSG(repeated() >= 0 && repeated() <= 6, "%s: %s", written[i][0], run.log);
    }
    simrun_remove();
}

/* Another one is lost before the view is formed again: what is complete is not given up for what is newer. */
TEST(two_that_are_not_neighbours_lose_no_replica) {
    static const char *const settings[3] = {"cluster.replica_every=4", "train.checkpoint_seconds=0"};
    simrun_make();
    train("ring", 5, &run);
    const double from = run.began, until = run.trained;
    for (size_t i = 0; i < 12; i++) {
        const double first = from + (0.5 + 0.015 * (double)i) * (until - from);
        kill_some("ring", 5, settings, (size_t[]){1, 3}, (double[]){first, first + 0.02 * (double)(i % 12)},
                  2);
        CHECK_MSG(!strstr(run.log, "(start)"), "killed at %g s: %s", first, run.log);
    }
    simrun_remove();
}

/* Where the planner finds that the master is best off alone, those that were measured are let go, also when
 * one was lost meanwhile. */
TEST(devices_that_are_not_needed_are_let_go) {
    static const char *const any[3] = {"cluster.keep_all=false"};
    static const char *const one_shard[3] = {"cluster.keep_all=false", "train.shards=1"};
    simrun_make();
    for (size_t i = 0; i < 6; i++) {
        const double at = 0.045 + 0.02 * (double)i;
        kill_some("ring", 3, any, (size_t[]){1}, &at, 1);
        kill_some("{hybrid: {rings: 2, exchange: allreduce-rd}}", 4, one_shard, (size_t[]){1, 3},
                  (double[]){at, at + 0.05}, 2);
    }
    simrun_remove();
}

TEST_MAIN()
