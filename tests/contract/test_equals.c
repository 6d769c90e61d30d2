/* What equals what, as docs/strategies.md promises it between one way and another: bit for bit, over the
 * network in memory under virtual time, and over TCP where no result depends on who comes first. What equals
 * one device is in test_carried.c and test_server*.c. */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

enum { PARAMS = 300 };

static struct exrig rig, other;

struct pair {
    const char *way, *options, *base, *base_options;
};

/* A server's own parameters, else the worker's. */
static const float *result_of(const struct exrig *from) {
    return rt_way_rules(from->way, &from->options) ? from->node[0].shelf : from->node[0].params;
}

static void check_pair(const struct pair *pair, struct exrig_settings settings) {
    settings.params = PARAMS;
    settings.spans = 4;
    settings.updates = 15;
    settings.optimizer = "{momentum: {lr: 0.1}}";
    settings.way = pair->way;
    settings.options = pair->options;
    if (!exrig_succeeds(&settings, &rig)) {
        rt_test_fail(__FILE__, __LINE__, "that was %s %s", settings.way, settings.options);
        return;
    }
    settings.way = pair->base;
    settings.options = pair->base_options;
    if (exrig_succeeds(&settings, &other)) {
        CHECK_MSG(memcmp(result_of(&rig), result_of(&other), PARAMS * sizeof(float)) == 0,
                  "%s %s is %g from %s, %zu nodes", pair->way, pair->options,
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
    {"ps-sync", "{exchange: binom}", "ps-tree", NULL},
    {"ps-sync", "{exchange: scatter}", "ps-scatter", NULL},
    {"ps-sync", "{wfbp: off, bucket: 0}", "ps-sync", "{wfbp: on}"},
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

TEST_MAIN()
