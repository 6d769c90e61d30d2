/* Training runs over the network in memory; see simrun.h. */
#include "support/simrun.h"

#include "cluster/node.h"
#include "job/job.h"
#include "run/roles.h"
#include "support/site.h"
#include "support/test.h"
#include "tensor/answer.h"
#include "tensor/device.h"
#include <unistd.h>

struct world;

struct place {
    struct world *world;
    size_t index;
    char name[16];
    atomic_int stop; /* the master has ended */
};

struct world {
    const struct simrun_settings *settings;
    struct simrun *run;
    struct rt_memnet *net;
    struct place place[SIMRUN_PLACES];
    uint8_t answer[32];
    size_t logged;
    struct rt_run *training; /* that is under way; NULL: none */
    const char *out;         /* its directory */
    unsigned masters;        /* that were started, */
    unsigned killed;         /* and of them, the first so many were killed */
    bool ended;              /* the last of them has */
};

/* ---- what is told ---- */

static void world_log(struct world *world, const char *who, const char *sentence) {
    struct simrun *run = world->run;
    const size_t room = sizeof run->log - world->logged;
    const int added =
        snprintf(run->log + world->logged, room, "%9.4f %s: %s\n", rt_memnet_now(world->net), who, sentence);
    if (added > 0 && (size_t)added < room)
        world->logged += (size_t)added;
    else
        run->log[world->logged] = 0;
}

static void master_tell(void *user, const char *sentence) {
    struct world *world = user;
    world->run->notices++;
    world_log(world, "master", sentence);
}

static void node_tell(void *user, const char *sentence) {
    struct place *place = user;
    world_log(place->world, place->name, sentence);
}

static void master_progress(void *user, const struct rt_progress *progress) {
    struct world *world = user;
    struct simrun *run = world->run;
    if (run->began == 0)
        run->began = rt_memnet_now(world->net);
    run->told = progress->update;
    run->trained = rt_memnet_now(world->net);
}

/* ---- programs ---- */

static void node_run(struct place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    const struct rt_node_device device = {.ring = {.kernels = "auto", .threads = 1}};
    struct rt_node_settings settings = {
        .name = place->name, .kernels = "exact", .cores = 1, .threads = 1, .tell = node_tell, .user = place};
    const struct rt_role role = rt_node_roles(&device);
    memcpy(settings.answer, place->world->answer, sizeof settings.answer);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    /* one that was killed has no network any more */
    if (rt_node_serve(&settings, endpoint, &role, &place->stop, &err) != RT_OK)
        world_log(place->world, place->name, err.text);
}

/* *run stays NULL on failure. */
static rt_status master_open(const struct world *world, struct rt_run **made, struct rt_error *err) {
    const struct simrun_settings *settings = world->settings;
    struct rt_run *opened, **run = &opened;
    char nodes[400] = "[";
    RT_TRY(site_open(world->out, settings->settings, run, err));
    for (size_t i = 1; i < settings->devices; i++) {
        const size_t used = strlen(nodes);
        snprintf(nodes + used, sizeof nodes - used, "%smem:%zu", i > 1 ? ", " : "", i);
    }
    snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), "]");
    rt_status status = rt_run_set(*run, "cluster.node", nodes, err);
    if (status == RT_OK)
        status = rt_run_set(*run, "cluster.strategy", settings->strategy, err);
    if (status == RT_OK)
        *made = opened;
    else
        rt_run_close(opened);
    return status;
}

/* What there is to be resumed of one that was killed. */
static bool master_resumes(const struct world *world) {
    char journal[40];
    snprintf(journal, sizeof journal, "%s/journal.jsonl", world->out);
    return world->masters > 1 && access(site_path(journal), F_OK) == 0;
}

/* Of one that was killed nobody hears any more. */
static void master_run(struct world *world, unsigned number, struct rt_endpoint *endpoint) {
    struct simrun *run = world->run;
    struct rt_run *training = NULL;
    struct rt_error err;
    rt_status status = master_open(world, &training, &err);
    if (status == RT_OK) {
        rt_run_set_endpoint(training, endpoint);
        rt_run_set_resume(training, master_resumes(world));
        rt_run_set_notice(training, master_tell, world);
        rt_run_set_warning(training, master_tell, world);
        world->training = training;
        status = rt_run_train(training, master_progress, world, &err);
    }
    if (number > world->killed) {
        run->status = status;
        run->error = err;
        if (status == RT_OK)
            run->result = *rt_run_result(training);
        run->result.out_dir = NULL;
        run->seconds = rt_memnet_now(world->net);
        world->ended = true;
        world->training = NULL;
    }
    rt_run_close(training);
}

/* Kills the master, with its files as they are at that moment: what it writes as it ends is not looked at. */
static void killer_run(struct world *world, struct rt_endpoint *endpoint) {
    struct rt_error err;
    rt_endpoint_sleep(endpoint, world->settings->master_killed);
    if (world->ended)
        return;
    site_copy("out", "out2");
    world->out = "out2";
    world->killed = world->masters;
    world_log(world, "master", "is killed");
    if (world->training)
        rt_run_stop(world->training);
    CHECK_OK(rt_memnet_restart(world->net, 0, world->settings->master_back, &err));
}

static void world_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct world *world = user;
    if (i == world->settings->devices) {
        killer_run(world, endpoint);
        return;
    }
    if (i > 0) {
        node_run(&world->place[i], endpoint);
        return;
    }
    const unsigned number = ++world->masters;
    master_run(world, number, endpoint);
    if (number <= world->killed)
        return;
    for (size_t j = 1; j < world->settings->devices; j++) {
        atomic_store(&world->place[j].stop, 1);
        rt_endpoint_wake(rt_memnet_endpoint(world->net, j));
    }
}

/* ---- a run ---- */

static rt_status world_answer(struct world *world, struct rt_error *err) {
    struct rt_device device;
    RT_TRY(rt_device_open(RT_MATH_EXACT, "auto", 1, &device, err));
    const rt_status status = rt_kernels_answer(device.kernels, world->answer, err);
    rt_device_close(&device);
    return status;
}

void simrun_make(void) {
    static const char run_file[] =
        "model:\n"
        "  input: 3\n"
        "  layers: [{dense: 6}, tanh, {dense: 5}, tanh, {dense: 6}, tanh, {dropout: 0.1}, {dense: 5}, tanh,\n"
        "           {dense: 6}, tanh, {dense: 5}, tanh, {dense: 6}, tanh, {dense: 5}, tanh, {dense: 3}]\n"
        "  loss: cross_entropy\n"
        "data:\n"
        "  train: {csv: {file: train.csv, label: kind}}\n"
        "  test: {csv: {file: test.csv, label: kind}}\n"
        "  standardize: true\n"
        "train: {batch: 16, epochs: 4, optimizer: {momentum: {lr: 0.05}}, seed: 3, threads: 1, shards: 8,\n"
        "        report_seconds: 0.1, checkpoint_seconds: 0.2}\n"
        "cluster: {keep_all: true, rebalance: false}\n";
    site_make();
    site_text("run.yaml", run_file);
}

void simrun_remove(void) {
    site_remove();
}

void simrun_train(const struct simrun_settings *settings, struct simrun *run) {
    struct rt_error err;
    struct world *world = calloc(1, sizeof *world);
    const struct rt_memnet_settings net = {.seed = settings->seed,
                                           .latency = 0.005,
                                           .bandwidth = 1e7,
                                           .random_delay = 0.002,
                                           .silence_seconds = 5,
                                           .silence_least = RT_JOB_SILENCE_LEAST};
    *run = (struct simrun){.status = RT_FAILED};
    REQUIRE(world);
    world->settings = settings;
    world->run = run;
    world->out = "out";
    site_clear("out");
    site_clear("out2");
    CHECK_OK(world_answer(world, &err));
    const size_t killers = settings->master_killed > 0 ? 1 : 0;
    CHECK_OK(rt_memnet_create(&net, settings->devices + killers, &world->net, &err));
    for (size_t i = 0; i < settings->devices; i++) {
        struct place *place = &world->place[i];
        place->world = world;
        place->index = i;
        snprintf(place->name, sizeof place->name, "pi%zu", i);
    }
    CHECK_OK(rt_memnet_schedule(world->net, settings->faults, settings->fault_count, &err));
    run->net_status = rt_memnet_run(world->net, world_program, world,
                                    settings->limit > 0 ? settings->limit : 600, &run->net_error);
    rt_memnet_destroy(world->net);
    free(world);
}
