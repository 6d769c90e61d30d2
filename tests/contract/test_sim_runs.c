/* Whole training runs over the network in memory: with nobody lost they have the parameters of one device,
 * and the same seed gives the same run. */
#include "support/simrun.h"
#include "support/test.h"

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

/* Checkpoints and the best models so far take images of the state as well, also of the version that is being
 * replicated: replicas go on all the same, so that a loss near the end costs a few updates. */
TEST(replicas_go_on_beside_what_is_written) {
    static const char *const written[][3] = {
        {"train.checkpoint_seconds=%g", "train.validate_epochs=0"},
        {"train.checkpoint_seconds=0", "train.validate_updates=5", "data.hold_out=0.1"}};
    simrun_make();
    train("ring", 4, &run);
    const double began = run.began, trained = run.trained;
    for (size_t i = 0; i < 2; i++) {
        char first[60];
        snprintf(first, sizeof first, written[i][0], 0.1 * (trained - began));
        const struct rt_sim_fault kill = {
            .at = began + 0.8 * (trained - began), .kind = RT_SIM_KILL, .who = 2};
        const struct simrun_settings settings = {.devices = 4,
                                                 .strategy = "ring",
                                                 .settings = {"cluster.keep_all=true",
                                                              "cluster.replica_every=1", first, written[i][1],
                                                              written[i][2]},
                                                 .seed = 4,
                                                 .faults = &kill,
                                                 .fault_count = 1};
        simrun_train(&settings, &run);
        const char *repeating = strstr(run.log, " (replica); repeating ");
        CHECK_MSG(run.status == RT_OK && repeating, "%s%s", run.error.text, run.log);
        CHECK_MSG(repeating && atoi(repeating + strlen(" (replica); repeating ")) <= 5, "%s, %s: %s", first,
                  written[i][1], run.log);
    }
    simrun_remove();
}

TEST_MAIN()
