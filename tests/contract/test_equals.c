/* What equals what, as docs/strategies.md promises it between one strategy and another: bit for bit, over the
 * network in memory under virtual time, and over TCP where no result depends on who comes first. What equals
 * one device is in test_collective_exchange.c and test_server*.c. */
/* labels: threads=synchronous_pairs_over_tcp emulated */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

enum { PARAMS = 300 };

static struct exrig rig, other;

struct pair {
    const char *strategy, *options, *base, *base_options;
};

/* A server's own parameters, else the worker's. */
static const float *result_of(const struct exrig *from) {
    return rt_exchange_rules(from->strategy, &from->options) ? from->node[0].shelf : from->node[0].params;
}

static void check_pair(const struct pair *pair, struct exrig_settings settings) {
    settings.params = PARAMS;
    settings.spans = 4;
    settings.updates = 15;
    settings.optimizer = "{momentum: {lr: 0.1}}";
    settings.strategy = pair->strategy;
    settings.options = pair->options;
    if (!exrig_succeeds(&settings, &rig)) {
        rt_test_fail(__FILE__, __LINE__, "that was %s %s", settings.strategy, settings.options);
        return;
    }
    settings.strategy = pair->base;
    settings.options = pair->base_options;
    if (exrig_succeeds(&settings, &other)) {
        CHECK_MSG(memcmp(result_of(&rig), result_of(&other), PARAMS * sizeof(float)) == 0,
                  "%s %s is %g from %s, %zu nodes", pair->strategy, pair->options,
                  exrig_distance(&rig, result_of(&rig), result_of(&other)), pair->base, settings.nodes);
        float start[PARAMS] = {0};
        CHECK(exrig_distance(&rig, result_of(&rig), start) > 1e-3); /* something was learnt */
        exrig_close(&other);
    }
    exrig_close(&rig);
}

/* ---- no result depends on who comes first ---- */

static const struct pair synchronous[] = {
    {"ps-hier", "{group: 16}", "ps-sync", NULL},
    {"ps-hier", "{group: 16, dedicated: true}", "ps-sync", "{dedicated: true}"},
    {"ps-hier", "{depth: 1}", "ps-sync", NULL},
    {"ps-hier", "{depth: 3, group: 16}", "ps-sync", NULL},
    {"ps-sync", "{exchange: binom}", "ps-tree", NULL},
    {"ps-sync", "{exchange: scatter}", "ps-scatter", NULL},
    {"ps-sync", "{wfbp: off, bucket: 0}", "ps-sync", "{order: down}"},
    {"ps-sync", "{order: up}", "ps-sync", "{order: down}"},
    {"ps-shard", "{order: down}", "ps-shard", "{order: up}"},
    {"ps-cut", "{cut: 1}", "ps-sync", NULL},
    {"ps-backup", "{backup: 0}", "ps-sync", NULL},
    {"ps-backup", "{backup: 0, dedicated: true, wfbp: off}", "ps-sync", "{dedicated: true}"},
    {"ps-shard", "{k: 1}", "ps-sync", NULL},
};

TEST(synchronous_pairs_in_memory) {
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        for (size_t n = 2; n <= 6; n++)
            check_pair(&synchronous[i], (struct exrig_settings){.nodes = n,
                                                                .seed = n,
                                                                .uneven = true,
                                                                .latency = 0.001,
                                                                .random_delay = 0.05,
                                                                .seconds = {0.01, 0.03, 0.02}});
}

TEST(synchronous_pairs_over_tcp) {
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        for (size_t n = 3; n <= 4; n++)
            check_pair(&synchronous[i], (struct exrig_settings){.nodes = n, .uneven = true, .tcp = true});
}

/* ---- the same order of arrival ---- */

static const struct pair asynchronous[] = {
    {"ps-ssp", "{s: inf, dedicated: true}", "ps-async", "{dedicated: true}"},
    {"ps-vap", "{delta: inf, dedicated: true}", "ps-async", "{dedicated: true}"},
    {"ps-cut", "{cut: 1, base: async, dedicated: true}", "ps-async", "{dedicated: true}"},
    {"ps-cut", "{cut: 1, base: ssp, s: 1, dedicated: true}", "ps-ssp", "{s: 1, dedicated: true}"},
    {"ps-shard", "{k: 1, base: async, dedicated: true}", "ps-async", "{dedicated: true}"},
    {"ps-shard", "{k: 1, base: ssp, s: 1, dedicated: true}", "ps-ssp", "{s: 1, dedicated: true}"},
    {"ps-hier", "{base: async, group: 1, dedicated: true}", "ps-async", "{dedicated: true}"},
    {"ps-hier", "{base: ssp, group: 1, s: 1, dedicated: true}", "ps-ssp", "{s: 1, dedicated: true}"},
    {"ps-hier", "{base: ssp, group: 1, s: 0, step: clock, dedicated: true}", "ps-ssp",
     "{s: 0, step: clock, dedicated: true}"},
    {"ps-hier", "{base: async, group: 1}", "ps-async", NULL},
    {"ps-hier", "{base: ssp, group: 1, s: 1, wfbp: off}", "ps-ssp", "{s: 1, wfbp: off}"},
};

TEST(asynchronous_pairs_in_the_same_order) {
    for (size_t i = 0; i < sizeof asynchronous / sizeof *asynchronous; i++)
        for (size_t n = 2; n <= 6; n++)
            check_pair(&asynchronous[i], (struct exrig_settings){.nodes = n,
                                                                 .seed = n,
                                                                 .latency = 0.001,
                                                                 .random_delay = 0.02,
                                                                 .seconds = {0, 0.03, 0.05, 0.02, 0.07}});
}

/* ---- sums ---- */

static bool offers(const struct rt_exchange_strategy *strategy, const char *option) {
    for (size_t i = 0; i < strategy->option_count; i++)
        if (strcmp(strategy->options[i].name, option) == 0)
            return true;
    return false;
}

/* The sum of n workers' means at an n-th of the rate is their mean: to the bit where n is a power of two. */
static void check_sum(const struct rt_exchange_strategy *strategy, size_t nodes, bool tcp) {
    static const char *const rates[] = {"", "{momentum: {lr: 0.25}}", "{momentum: {lr: 0.125}}",
                                        "{momentum: {lr: 0.08333333333333333}}", "{momentum: {lr: 0.0625}}"};
    const bool spares = offers(strategy, "backup"); /* nobody may be */
    struct exrig_settings settings = {.strategy = strategy->name,
                                      .nodes = nodes,
                                      .params = PARAMS,
                                      .updates = 10,
                                      .random_delay = 0.01,
                                      .tcp = tcp,
                                      .options = spares ? "{reduce: sum, backup: 0}" : "{reduce: sum}",
                                      .optimizer = rates[nodes]};
    if (!exrig_succeeds(&settings, &rig))
        return;
    settings.options = spares ? "{reduce: mean, backup: 0}" : "{reduce: mean}";
    settings.optimizer = rates[1];
    if (exrig_succeeds(&settings, &other)) {
        const double away = exrig_distance(&rig, result_of(&rig), result_of(&other));
        CHECK_MSG(nodes == 3 ? away < 1e-6 : away == 0, "%s, %zu nodes: %g away", strategy->name, nodes,
                  away);
        float start[PARAMS] = {0};
        CHECK(exrig_distance(&rig, result_of(&rig), start) > 1e-2);
        exrig_close(&other);
    }
    exrig_close(&rig);
}

TEST(sums_are_means_at_a_lower_rate) {
    size_t count = 0;
    for (const struct rt_exchange_strategy *const *at = rt_exchange_strategies(); *at; at++)
        for (size_t n = 1; offers(*at, "reduce") && n <= 4; n++, count++)
            check_sum(*at, n, false);
    CHECK(count > 0);
}

TEST(sums_are_means_at_a_lower_rate_over_tcp) {
    size_t count = 0;
    for (const struct rt_exchange_strategy *const *at = rt_exchange_strategies(); *at; at++)
        if (offers(*at, "reduce"))
            check_sum(*at, 3 + count++ % 2, true);
    CHECK(count > 0);
}

/* A clock at a time: each worker one batch. Who has nothing to do rests, and nobody waits for it: so
 * everybody has the batch of the next clock in hand before it ends the last one. */
struct clocks {
    uint64_t count;
};

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

static void give_clocks(void *user, struct exrig *r) {
    const struct clocks *clocks = user;
    struct exrig_node *master = &r->node[0];
    uint64_t batch = 0;
    for (uint64_t clock = 0; clock < clocks->count && master->status == RT_OK; clock++) {
        struct rt_done done;
        rt_engine_enter(master->engine);
        for (uint16_t rank = 1; rank < r->settings.nodes; rank++) {
            while (rt_coordinator_take(master->coordinator, rank, &done))
                ;
            CHECK(rt_coordinator_give(master->coordinator, rank, ++batch));
        }
        rt_engine_leave(master->engine);
        master->status = rt_engine_wait(master->engine, clock + 1 < clocks->count ? all_begun : all_returned,
                                        r, INFINITY, &master->error);
    }
}

/* Without any delay each clock adds one gradient of every worker to the same parameters. */
static void check_clocks(size_t workers, const char *optimizer, const char *options, bool tcp) {
    struct clocks clocks = {.count = 15};
    struct exrig_settings settings = {.strategy = "ps-ssp",
                                      .options = options,
                                      .nodes = workers + 1,
                                      .params = PARAMS,
                                      .optimizer = optimizer,
                                      .random_delay = 0.01,
                                      .seconds = {0, 0.01, 0.03, 0.02},
                                      .tcp = tcp};
    struct rt_error err;
    CHECK_OK(exrig_open(&settings, &rig, &err));
    CHECK_OK(exrig_run(&rig, give_clocks, &clocks, &err));
    for (size_t i = 0; i < settings.nodes; i++)
        CHECK_MSG(rig.node[i].status == RT_OK, "node %zu: %s", i, rig.node[i].error.text);
    settings.strategy = "ps-sync";
    settings.options = "{reduce: sum, dedicated: true}";
    settings.batch = workers * 12;
    settings.updates = clocks.count;
    if (exrig_succeeds(&settings, &other)) {
        const double away = exrig_distance(&rig, rig.node[0].shelf, other.node[0].params);
        CHECK_MSG(away < 1e-6, "%s, %zu workers, %s: %g away", options, workers, tcp ? "TCP" : "memory",
                  away);
        float start[PARAMS] = {0};
        CHECK(exrig_distance(&rig, rig.node[0].shelf, start) > 1e-2);
        exrig_close(&other);
    }
    exrig_close(&rig);
}

TEST(without_delay_is_the_synchronous_sum) {
    for (size_t workers = 1; workers <= 4; workers++)
        for (int tcp = 0; tcp < 2; tcp++) {
            check_clocks(workers, "{sgd: {lr: 0.02}}", "{s: 0, dedicated: true}", tcp);
            check_clocks(workers, "{momentum: {lr: 0.01}}", "{s: 0, step: clock, dedicated: true}", tcp);
        }
}

TEST_MAIN()
