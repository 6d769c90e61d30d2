/* Groups that are one worker each to the server: what the server makes of them, with which parameters their
 * members compute, and that the bounds hold between groups. In memory under virtual time, and over TCP. */
/* labels: threads=one_group_is_one_device */
#include "base/rng.h"
#include "support/servelog.h"
#include "support/test.h"
#include <math.h>
#include <stdlib.h>

static struct servelog seen;
static struct exrig rig, other;

/* ---- every update is a group's ---- */

/* What the members of the group have read for a batch: the same, all of them. */
static struct {
    uint64_t batch;
    float *params;
} reads[EXRIG_NODES];
static size_t compared, different;

static rt_status compare_reads(void *user, struct exrig *r, uint16_t rank, uint64_t batch,
                               struct rt_error *err) {
    (void)user, (void)err;
    const struct exrig_node *node = &r->node[rank];
    const uint16_t proxy = node->team.ranks[0];
    const size_t bytes = r->settings.params * sizeof(float);
    if (reads[proxy].batch != batch) {
        reads[proxy].batch = batch;
        memcpy(reads[proxy].params, node->params, bytes);
        return RT_OK;
    }
    compared++;
    different += memcmp(reads[proxy].params, node->params, bytes) != 0;
    return RT_OK;
}

/* The gradient of a group: one slice for each member, added in the binary tree. */
static void add_members(const struct exrig *r, const struct log_push *push, const float *params, float *sum) {
    const size_t n = r->settings.params, rows = exrig_rows(r, push->batch),
                 parts = r->node[r->proxy[push->worker]].parts;
    float *slices = calloc(parts * n, sizeof *slices);
    for (size_t i = 0; i < parts; i++)
        exrig_gradient(r, push->batch, i * rows / parts, (i + 1) * rows / parts, params, slices + i * n);
    for (size_t step = 1; step < parts; step *= 2)
        for (size_t i = 0; i + step < parts; i += 2 * step)
            for (size_t j = 0; j < n; j++)
                slices[i * n + j] += slices[(i + step) * n + j];
    memcpy(sum, slices, n * sizeof *sum);
    free(slices);
}

/* Every version again, of the gradients that the server had, from the parameters each was made with. */
static void check_numbers(const struct exrig *r, const struct servelog *log) {
    const size_t n = r->settings.params;
    float *versions = calloc((log->updates + 1) * n, sizeof *versions), *sum = calloc(n, sizeof *sum);
    const float lr = (float)r->optim->lr;
    for (size_t v = 0; v < log->updates; v++) {
        const struct log_push *push = &log->update[v].push[0];
        CHECK(log->update[v].pushes == 1 && push->rows == exrig_rows(r, push->batch));
        add_members(r, push, versions + push->base * n, sum);
        for (size_t j = 0; j < n; j++)
            versions[(v + 1) * n + j] = versions[v * n + j] - lr * sum[j];
    }
    CHECK(memcmp(versions + log->updates * n, r->node[0].shelf, n * sizeof *versions) == 0);
    free(versions);
    free(sum);
}

static const struct {
    const char *options;
    int bound; /* -1: none */
} cases[] = {
    {"{base: async, group: 2}", -1},
    {"{base: async, group: 3, dedicated: true}", -1},
    {"{base: async, wfbp: off, prio: stale}", -1},
    {"{base: ssp, s: 0, group: 2}", 0},
    {"{base: ssp, s: 1, group: 2, dedicated: true}", 1},
    {"{base: ssp, s: 3, group: 3, wfbp: off}", 3},
    {"{base: ssp, s: inf, group: 2}", -1},
};

static struct exrig_settings random_settings(const char *options, size_t nodes, uint64_t seed) {
    struct exrig_settings settings = {.strategy = "ps-hier",
                                      .options = options,
                                      .nodes = nodes,
                                      .params = 60,
                                      .updates = 40,
                                      .uneven = true,
                                      .segment_floats = seed % 3 ? 0 : 7,
                                      .seed = seed,
                                      .latency = 0.001,
                                      .random_delay = seed % 4 ? 0.1 : 0,
                                      .reads = compare_reads};
    for (size_t i = 0; i < nodes; i++) {
        uint32_t words[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, 0, i, 0, words);
        settings.seconds[i] = (double)rt_rng_unit(words[0]);
    }
    return settings;
}

static void check_groups(size_t i, size_t nodes) {
    const struct exrig_settings settings = random_settings(cases[i].options, nodes, nodes + 10 * i);
    memset(&seen, 0, sizeof seen);
    for (size_t k = 0; k < EXRIG_NODES; k++)
        reads[k].batch = 0;
    if (!servelog_run(&settings, &seen, &rig)) {
        rt_test_fail(__FILE__, __LINE__, "that was %s on %zu nodes", cases[i].options, nodes);
        return;
    }
    CHECK_MSG(seen.updates == 40 && rig.given == 40, "%d updates", (int)seen.updates);
    uint64_t rows = 0;
    for (uint64_t batch = 1; batch <= 40; batch++)
        rows += exrig_rows(&rig, batch);
    CHECK_MSG(rig.rows == rows, "%s: %d rows of %d", cases[i].options, (int)rig.rows, (int)rows);
    check_numbers(&rig, &seen);
    const uint64_t staleness = rig.node[0].counts.staleness_max, groups = rig.clients.workers;
    if (cases[i].bound >= 0)
        CHECK_MSG(staleness <= (2 * (uint64_t)cases[i].bound + 1) * (groups - 1),
                  "%s, %d groups: a staleness of %d", cases[i].options, (int)groups, (int)staleness);
    exrig_close(&rig);
}

TEST(a_group_is_one_worker) {
    for (size_t k = 0; k < EXRIG_NODES; k++)
        reads[k].params = calloc(60, sizeof(float));
    compared = different = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t nodes = 2; nodes <= 9; nodes++)
            check_groups(i, nodes);
    CHECK(compared > 1000);
    CHECK_MSG(different == 0, "%zu of %zu members had other parameters than their proxy", different,
              compared);
    for (size_t k = 0; k < EXRIG_NODES; k++)
        free(reads[k].params);
}

/* ---- one group of all: nothing is ever stale ---- */

static void check_one_device(const char *options, size_t nodes, bool tcp) {
    struct exrig_settings settings = {.strategy = "ps-hier",
                                      .options = options,
                                      .nodes = nodes,
                                      .optimizer = "{adam: {lr: 0.1}}",
                                      .params = 300,
                                      .updates = 12,
                                      .uneven = true,
                                      .send = nodes % 2,
                                      .latency = 0.001,
                                      .random_delay = 0.02,
                                      .seconds = {0.01, 0.03, 0.02},
                                      .clip_norm = nodes % 3 ? 0 : 0.5,
                                      .tcp = tcp};
    if (tcp)
        memset(settings.seconds, 0, sizeof settings.seconds); /* they would be real ones */
    if (!exrig_succeeds(&settings, &rig))
        return;
    float *params = calloc(settings.params, sizeof *params),
          *state = calloc(2 * settings.params, sizeof *state);
    exrig_serial(&rig, 1, settings.updates, 0, params, state);
    CHECK_MSG(memcmp(params, rig.node[0].shelf, settings.params * sizeof *params) == 0,
              "%s on %zu nodes: %g away", options, nodes, exrig_distance(&rig, params, rig.node[0].shelf));
    CHECK(rig.node[0].counts.staleness_max == 0);
    free(params);
    free(state);
    exrig_close(&rig);
}

TEST(one_group_is_one_device) {
    for (size_t nodes = 1; nodes <= 6; nodes++)
        for (int tcp = 0; tcp < 2; tcp++) {
            check_one_device("{base: async, group: 16}", nodes, tcp);
            check_one_device("{base: ssp, s: 0, group: 16, wfbp: off}", nodes, tcp);
            check_one_device("{base: ssp, s: 0, step: clock, group: 16}", nodes, tcp);
            if (nodes > 1)
                check_one_device("{base: async, group: 16, dedicated: true}", nodes, tcp);
        }
}

/* ---- without delay: a clock adds one gradient of every group ---- */

static bool all_hold_at_most(const struct exrig *r, size_t tickets) {
    for (uint16_t rank = 1; rank < r->settings.nodes; rank++)
        if (rt_coordinator_held(r->node[0].coordinator, rank) > tickets)
            return false;
    return true;
}

static bool all_begun(void *self) {
    return all_hold_at_most(self, 1);
}

static bool all_returned(void *self) {
    return all_hold_at_most(self, 0);
}

enum { CLOCKS = 15 };

/* Everybody has the batch of the next clock in hand before it ends the last one: who has none rests. */
static void give_clocks(void *user, struct exrig *r) {
    struct exrig_node *master = &r->node[0];
    (void)user;
    for (uint64_t clock = 0; clock < CLOCKS && master->status == RT_OK; clock++) {
        struct rt_done done;
        rt_engine_enter(master->engine);
        for (uint16_t rank = 1; rank < r->settings.nodes; rank++) {
            const size_t group = rt_roles_place(&r->clients, r->node[rank].team.ranks[0]);
            while (rt_coordinator_take(master->coordinator, rank, &done))
                ;
            CHECK(rt_coordinator_give(master->coordinator, rank, clock * r->clients.workers + group + 1));
        }
        rt_engine_leave(master->engine);
        master->status = rt_engine_wait(master->engine, clock + 1 < CLOCKS ? all_begun : all_returned, r,
                                        INFINITY, &master->error);
    }
}

static void check_clocks(size_t groups, size_t group, bool tcp) {
    char options[100];
    snprintf(options, sizeof options, "{base: ssp, s: 0, step: clock, dedicated: true, group: %zu}", group);
    struct exrig_settings settings = {.strategy = "ps-hier",
                                      .options = options,
                                      .nodes = groups * group + 1,
                                      .optimizer = "{momentum: {lr: 0.01}}",
                                      .random_delay = 0.01,
                                      .seconds = {0, 0.01, 0.03, 0.02},
                                      .tcp = tcp};
    struct rt_error err;
    CHECK_OK(exrig_open(&settings, &rig, &err));
    CHECK_OK(exrig_run(&rig, give_clocks, NULL, &err));
    for (size_t i = 0; i < settings.nodes; i++)
        CHECK_MSG(rig.node[i].status == RT_OK, "node %zu: %s", i, rig.node[i].error.text);
    CHECK(rig.node[0].counts.staleness_max == 0);
    settings.strategy = "ps-sync";
    settings.options = "{reduce: sum, dedicated: true}";
    settings.nodes = groups + 1;
    settings.batch = groups * 12;
    settings.updates = CLOCKS;
    if (exrig_succeeds(&settings, &other)) {
        const double away = exrig_distance(&rig, rig.node[0].shelf, other.node[0].params);
        CHECK_MSG(away < 1e-6, "%zu groups of %zu: %g away", groups, group, away);
        exrig_close(&other);
    }
    exrig_close(&rig);
}

TEST(without_delay_is_the_synchronous_sum) {
    for (size_t groups = 1; groups <= 4; groups++)
        for (size_t group = 1; group <= 3; group++) {
            check_clocks(groups, group, false);
            if (group == 2)
                check_clocks(groups, group, true);
        }
}

TEST_MAIN()
