/* rt_run_make_plan: as far as a training goes before its first update, without data. */
#include "base/fpenv.h"
#include "learn/snapshot.h"
#include "run/hybrid/rings.h"
#include "run/job_write.h"
#include "run/optimizer.h"
#include "run/resilience.h"
#include "run/run_inside.h"
#include "run/strategy.h"
#include <stdlib.h>

/* rings: of a strategy that has several; else it stays NULL. */
static rt_status planning_form(const struct rt_run *run, const struct rt_strategy_choice *choice,
                               struct rt_network *network, struct rt_rings **rings,
                               struct rt_ring_setup *setup, struct rt_error *err) {
    static const struct rt_ring_options any = {.slots = -1};
    const struct rt_spec_train *train = &run->spec->train;
    const bool alone = choice->strategy->alone;
    const struct rt_ring_options *options = choice->strategy->rings || alone ? &any : choice->settings;
    size_t micro = train->micro_batch < 0 ? 0 : (size_t)train->micro_batch;
    if (alone && micro == 0)
        micro = rt_train_micro_batch(network->model, (size_t)train->batch);
    struct rt_training_config config = {
        .spec = run->spec,
        .network = network,
        .strategy = choice->strategy->name,
        .options = choice->settings,
        .exchange = rt_strategy_exchange(choice),
        .per_epoch = 1,
        .settings = {.seed = (uint64_t)train->seed,
                     .batch = choice->strategy->single ? 1 : (size_t)train->batch,
                     .micro_batch = micro,
                     .shards = (size_t)train->shards,
                     .clip_norm = train->clip_norm,
                     .updates = 1}};
    struct rt_ring_setup_settings wanted = {.spec = run->spec,
                                            .network = network,
                                            .program = run->program,
                                            .slots = options->slots,
                                            .stop = &run->stop,
                                            .waits = run->notice,
                                            .waits_user = run->notice_user};
    rt_status status = RT_OK;
    if (choice->strategy->rings && rt_exchange_rings(choice->settings, rt_spec_devices(run->spec)) > 1)
        status = rt_rings_create(&config, rings, err);
    if (status != RT_OK)
        return status;
    config.options = options;
    struct rt_job *job;
    RT_TRY(rt_job_write_training(&config, NULL, NULL, &job, err));
    wanted.job = job;
    if (*rings)
        rt_rings_want(*rings, &wanted);
    status = rt_ring_setup_plan(&wanted, setup, err);
    rt_job_destroy(job);
    return status == RT_OK && *rings ? rt_rings_planned(*rings, setup, err) : status;
}

/* Bytes of parameters, buffers and optimizer state. */
static rt_status planning_count_state(const struct rt_spec *spec, const struct rt_strategy_choice *choice,
                                      const struct rt_network *network, size_t *bytes, struct rt_error *err) {
    struct rt_optim *optim;
    RT_TRY(rt_train_optimizer(&spec->train, rt_strategy_exchange(choice), &optim, err));
    *bytes = rt_snapshot_bytes(network->model, 1 + optim->type->state_tensors);
    rt_optim_destroy(optim);
    return RT_OK;
}

/* Of a strategy that has no layers to cut. */
static char *planning_print_exchange(const struct rt_spec *spec, const struct rt_strategy_choice *choice,
                                     size_t state) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    fprintf(out,
            "%s: every worker has the whole model, and its part of each batch; there are no layers to cut.\n",
            choice->strategy->name);
    if (rt_spec_devices(spec) > 1)
        rt_resilience_print_image(spec, 2 * state,
                                  spec->cluster.replica == RT_REPLICA_DISK ? "in a file"
                                  : spec->cluster.replica == RT_REPLICA_MEMORY
                                      ? "of memory"
                                      : "of memory, or in a file where that is short",
                                  out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static rt_status planning_make_plan(struct rt_run *run, char **plan, struct rt_error *err) {
    const struct rt_spec *spec = run->spec;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = spec->train.kernels,
                                           .threads = rt_membership_threads(spec)};
    struct rt_strategy_choice choice = {0};
    struct rt_network network = {0};
    struct rt_ring_setup setup = {0};
    struct rt_rings *rings = NULL;
    char *text = NULL;
    rt_status status = rt_strategy_read(spec, &choice, err);
    if (status == RT_OK)
        status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss, &computing,
                                     &network, err);
    char *taken = status == RT_OK ? rt_strategy_explain(&choice) : NULL;
    if (status == RT_OK && spec->notice[0] && run->notice)
        run->notice(run->notice_user, spec->notice);
    if (taken && run->notice)
        run->notice(run->notice_user, taken);
    free(taken);
    const bool cuts = status == RT_OK && (!choice.strategy->exchange || choice.strategy->rings);
    size_t state = 0;
    if (status == RT_OK)
        status = planning_count_state(spec, &choice, &network, &state, err);
    if (status == RT_OK && cuts)
        status = planning_form(run, &choice, &network, &rings, &setup, err);
    if (status == RT_OK) {
        text = rings  ? rt_rings_print(rings, &setup)
               : cuts ? rt_ring_setup_print(&setup)
                      : planning_print_exchange(spec, &choice, state);
        text = rt_resilience_add_checkpoint(text, spec, state);
        if (!text)
            status = rt_fail(err, RT_NO_MEMORY, "not enough memory for the plan");
    }
    rt_rings_destroy(rings);
    rt_ring_setup_deinit(&setup);
    rt_network_destroy(&network);
    rt_strategy_choice_deinit(&choice);
    if (status == RT_OK)
        *plan = text;
    return status;
}

rt_status rt_run_make_plan(struct rt_run *run, char **plan, struct rt_error *err) {
    fenv_t theirs;
    if (!run->spec)
        return rt_fail(err, RT_BAD_INPUT, "a plan needs a run file");
    rt_fp_enter(&theirs);
    rt_status status = rt_run_settle(run, err);
    if (status == RT_OK)
        status = planning_make_plan(run, plan, err);
    rt_fp_leave(&theirs);
    atomic_store(&run->stop, 0);
    return status;
}
