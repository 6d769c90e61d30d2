/* The exchange by collectives: whatever the strategy, the delays and the cut of the spans, what comes out is
 * what one device would have made of the same batches. */
/* labels: threads */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

/* The next strategy that makes the updates of one device; NULL: no more. */
static const struct rt_exchange_strategy *next_strategy(size_t *i) {
    const struct rt_exchange_strategy *const *strategies = rt_exchange_strategies();
    while (strategies[*i] && strategies[*i]->exact == RT_EXACT_NOT)
        ++*i;
    return strategies[*i] ? strategies[(*i)++] : NULL;
}

/* Everybody has the same parameters, and they are those of one device: to the bit, or nearly. */
static void check_result(const struct exrig *rig, size_t slices, bool exact) {
    const size_t bytes = rig->settings.params * sizeof(float);
    float *floats = calloc(exrig_floats(rig), sizeof *floats);
    REQUIRE(floats);
    exrig_serial(rig, 1, rig->settings.updates, slices, floats, floats + rig->settings.params);
    for (size_t i = 0; i < rig->settings.nodes; i++) {
        const float *theirs = rig->node[i].params;
        const bool server = rt_roles_place(&rig->roles, (uint16_t)i) == rig->roles.workers;
        if (server && rig->roles.servers > 1) /* has its own part only */
            continue;
        CHECK_MSG(server || memcmp(theirs, rig->node[rig->roles.worker[0]].params, bytes) == 0,
                  "%s, %zu nodes: node %zu differs", rig->strategy->name, rig->settings.nodes, i);
        const double away = exrig_distance(rig, theirs, floats);
        CHECK_MSG(exact ? memcmp(theirs, floats, bytes) == 0 : away < 1e-5,
                  "%s, %zu nodes: node %zu is %g from one device", rig->strategy->name, rig->settings.nodes,
                  i, away);
    }
    free(floats);
}

static void check_run(const struct exrig_settings *settings, size_t slices, bool exact) {
    struct exrig rig;
    if (!exrig_succeeds(settings, &rig)) {
        rt_test_fail(__FILE__, __LINE__, "that was %s %s with %zu nodes",
                     settings->strategy ? settings->strategy : "a way",
                     settings->options ? settings->options : "", settings->nodes);
        return;
    }
    check_result(&rig, slices, exact);
    uint64_t rows = 0;
    for (uint64_t batch = 1; batch <= settings->updates; batch++)
        rows += exrig_rows(&rig, batch);
    CHECK_MSG(rig.rows == rows, "%llu rows instead of %llu", (unsigned long long)rig.rows,
              (unsigned long long)rows);
    exrig_close(&rig);
}

static bool is_power(size_t n) {
    return (n & (n - 1)) == 0;
}

/* ---- one device ---- */

TEST(every_way_is_one_device) {
    const struct rt_exchange_strategy *strategy;
    for (size_t w = 0; (strategy = next_strategy(&w));)
        for (size_t n = 1; n <= 5; n++)
            check_run(&(struct exrig_settings){.strategy = strategy->name,
                                               .nodes = n,
                                               .updates = 10,
                                               .optimizer = "{momentum: {lr: 0.1}}"},
                      0, is_power(n) && strategy->exact == RT_EXACT_BITS);
}

TEST(shards_have_one_result) {
    static const char *const strategies[] = {"allreduce-rd", "allreduce-hd", "ps-sync", "ps-tree",
                                             "ps-shard"};
    for (size_t w = 0; w < sizeof strategies / sizeof *strategies; w++)
        for (size_t n = 1; n <= 8; n *= 2)
            check_run(&(struct exrig_settings){.strategy = strategies[w],
                                               .nodes = n,
                                               .shards = 8,
                                               .updates = 10,
                                               .batch = 30,
                                               .params = 97,
                                               .optimizer = "{adam: {lr: 0.05}}"},
                      8, true);
}

TEST(uneven_batches_and_parts_without_rows) {
    const struct rt_exchange_strategy *strategy;
    for (size_t w = 0; (strategy = next_strategy(&w));)
        check_run(
            &(struct exrig_settings){
                .strategy = strategy->name, .nodes = 5, .updates = 20, .uneven = true, .batch = 7},
            0, false);
}

TEST(servers_without_a_worker) {
    static const char *const options[][2] = {{"ps-sync", "{dedicated: true}"},
                                             {"ps-tree", "{dedicated: true}"},
                                             {"ps-hier", "{dedicated: true, group: 2}"},
                                             {"ps-shard", "{dedicated: true, k: 2, base: sync}"}};
    for (size_t w = 0; w < sizeof options / sizeof *options; w++)
        for (size_t n = 3; n <= 6; n++)
            check_run(&(struct exrig_settings){.strategy = options[w][0],
                                               .options = options[w][1],
                                               .nodes = n,
                                               .updates = 10,
                                               .random_delay = 0.01},
                      0, false);
}

/* The nodes have no data: what they learn from comes with their tickets. */
TEST(examples_that_are_sent) {
    for (size_t n = 1; n <= 5; n++)
        check_run(&(struct exrig_settings){.strategy = "allreduce-rd",
                                           .nodes = n,
                                           .updates = 20,
                                           .uneven = true,
                                           .send = true,
                                           .random_delay = 0.01},
                  0, is_power(n));
    check_run(&(struct exrig_settings){.strategy = "ps-sync",
                                       .options = "{dedicated: true}",
                                       .nodes = 4,
                                       .updates = 10,
                                       .params = 30000,
                                       .send = true,
                                       .tcp = true},
              0, false);
}

TEST(clipping) {
    const struct rt_exchange_strategy *strategy;
    size_t clipping = 0;
    for (size_t w = 0; (strategy = next_strategy(&w));)
        for (size_t n = 1; n <= 4 && strategy->can_clip; n++, clipping++)
            check_run(&(struct exrig_settings){.strategy = strategy->name,
                                               .nodes = n,
                                               .updates = 10,
                                               .clip_norm = 0.3,
                                               .random_delay = 0.01,
                                               .optimizer = "{momentum: {lr: 0.1}}"},
                      0, is_power(n) && strategy->exact == RT_EXACT_BITS);
    CHECK(clipping >= 16);
    check_run(&(struct exrig_settings){.strategy = "ps-sync",
                                       .options = "{dedicated: true}",
                                       .nodes = 4,
                                       .updates = 10,
                                       .clip_norm = 0.3},
              0, false);
}

TEST(what_cannot_be_clipped_is_refused) {
    struct exrig rig;
    struct rt_error err;
    CHECK_OK(
        exrig_open(&(struct exrig_settings){.strategy = "ps-peer", .nodes = 2, .updates = 1, .clip_norm = 1},
                   &rig, &err));
    CHECK_OK(exrig_run(&rig, NULL, NULL, &err));
    CHECK(rig.node[0].status == RT_BAD_INPUT && strstr(rig.node[0].error.text, "train.clip_norm"));
    exrig_close(&rig);
}

/* ---- time changes nothing ---- */

TEST(neither_delays_nor_segments_nor_order_change_a_bit) {
    const struct rt_exchange_strategy *strategy;
    for (size_t w = 0; (strategy = next_strategy(&w));) {
        struct exrig first, rig;
        struct exrig_settings settings = {
            .strategy = strategy->name, .nodes = 4, .updates = 8, .params = 500, .spans = 5};
        if (!exrig_succeeds(&settings, &first))
            continue;
        for (uint64_t seed = 1; seed <= 6; seed++) {
            settings.seed = seed;
            settings.options = seed % 3 == 0   ? "{wfbp: off}"
                               : seed % 3 == 1 ? "{order: up}"
                                               : "{order: down}";
            settings.segment_floats = seed % 3 == 0 ? 0 : 17 * (size_t)seed;
            settings.random_delay = 0.05;
            settings.latency = 0.001;
            for (size_t i = 0; i < 4; i++)
                settings.seconds[i] = seed < 3 ? 0 : 0.01 * (double)(1 + (i + seed) % 4);
            if (!exrig_succeeds(&settings, &rig))
                continue;
            for (size_t i = 0; i < 4; i++)
                CHECK_MSG(memcmp(rig.node[i].params, first.node[0].params, 500 * sizeof(float)) == 0,
                          "%s, seed %llu: node %zu differs", strategy->name, (unsigned long long)seed, i);
            exrig_close(&rig);
        }
        exrig_close(&first);
    }
}

TEST(thousands_of_updates_with_random_delays) {
    static const char *const strategies[] = {"allreduce-ring", "allreduce-hd", "ps-sync", "ps-peer"};
    for (size_t w = 0; w < 4; w++) {
        struct exrig rig;
        const struct exrig_settings settings = {.strategy = strategies[w],
                                                .nodes = 3 + w % 3,
                                                .updates = 2000,
                                                .random_delay = 0.02,
                                                .seed = w,
                                                .seconds = {0.001, 0.005, 0, 0.01},
                                                .limit = 1e6};
        if (!exrig_succeeds(&settings, &rig))
            continue;
        CHECK_MSG(exrig_excess(&rig, rig.node[0].params) < 0.01, "%s: %g", strategies[w],
                  exrig_excess(&rig, rig.node[0].params));
        exrig_close(&rig);
    }
}

/* A span's exchange starts when its gradient is there. Two workers who send each other everything: span l's
 * gradient is ready at r_l, takes c_l on the link, and has come at e_l = max(e_(l+1), r_l) + c_l. */
TEST(exchange_goes_on_during_the_backward_pass) {
    const double bandwidth = 4e5, backward = 0.5;
    double took[2];
    const size_t params = 60000, spans = 4;
    struct exrig_settings settings = {.strategy = "allreduce-rd",
                                      .nodes = 2,
                                      .updates = 1,
                                      .params = params,
                                      .spans = spans,
                                      .examples = 12,
                                      .bandwidth = bandwidth,
                                      .seconds = {2 * backward, 2 * backward}};
    struct rt_span span[EXRIG_SPANS];
    for (size_t off = 0; off < 2; off++) {
        struct exrig rig;
        settings.options = off ? "{wfbp: off}" : "{order: down}";
        REQUIRE(exrig_succeeds(&settings, &rig));
        took[off] = rig.node[0].ended;
        memcpy(span, rig.span, sizeof span);
        exrig_close(&rig);
    }
    double ends = 0;
    for (size_t l = spans; l-- > 0;) {
        const double ready = backward * (double)(spans - l) / (double)spans;
        ends = fmax(ends, ready) + (double)(span[l].count * sizeof(float)) / bandwidth;
    }
    CHECK_MSG(fabs(took[0] - (backward + ends)) < 0.15 * ends, "%g s, not %g", took[0], backward + ends);
    const double all = backward + (double)(params * sizeof(float)) / bandwidth;
    CHECK_MSG(fabs(took[1] - (backward + all)) < 0.15 * all, "%g s, not %g", took[1], backward + all);
    CHECK(took[0] < 0.85 * took[1]);
}

/* When two workers who send each other everything are done with so many updates: spans take `share` seconds
 * each to compute, forward and backward; gradients are made from the first span up, or from the last down. */
static double predict(const struct rt_span *span, size_t spans, uint64_t updates, double share,
                      double bandwidth, bool rising) {
    double now = 0, came[EXRIG_SPANS] = {0}, link = 0;
    for (uint64_t u = 0; u < updates; u++) {
        for (size_t l = 0; l < spans; l++)
            now = fmax(now, came[l]) + share;
        for (size_t k = 0; k < spans; k++) {
            const size_t l = rising ? k : spans - 1 - k;
            now += share;
            came[l] = link = fmax(link, now) + (double)(span[l].count * sizeof(float)) / bandwidth;
        }
    }
    return link;
}

/* From the first span up, the exchange also hides behind the next forward. */
TEST(exchange_goes_on_during_the_next_forward) {
    double took[2];
    struct exrig_settings settings = {.strategy = "allreduce-rd",
                                      .nodes = 2,
                                      .updates = 10,
                                      .params = 60000,
                                      .spans = 4,
                                      .examples = 12,
                                      .bandwidth = 4e5,
                                      .seconds = {0.8, 0.8}};
    for (size_t up = 0; up < 2; up++) {
        struct exrig rig;
        settings.options = up ? "{order: up}" : "{order: down}";
        REQUIRE(exrig_succeeds(&settings, &rig));
        took[up] = rig.node[0].ended;
        const double expected = predict(rig.span, 4, 10, 0.1, 4e5, up);
        CHECK_MSG(fabs(took[up] - expected) < 0.05 * expected, "%g s, not %g", took[up], expected);
        exrig_close(&rig);
    }
    CHECK_MSG(took[1] < 0.85 * took[0], "%g s, %g s", took[1], took[0]);
}

/* One worker five times slower holds up all; nobody fails for it. */
TEST(a_slow_worker_is_waited_for) {
    struct exrig rig;
    const struct exrig_settings settings = {
        .strategy = "allreduce-ring", .nodes = 4, .updates = 20, .seconds = {0.1, 0.1, 0.5, 0.1}};
    REQUIRE(exrig_succeeds(&settings, &rig));
    CHECK_MSG(rig.node[0].ended > 9.9 && rig.node[0].ended < 10.5, "%g s", rig.node[0].ended);
    check_result(&rig, 0, false);
    exrig_close(&rig);
}

/* ---- over TCP, with threads ---- */

TEST(over_tcp) {
    const struct rt_exchange_strategy *strategy;
    for (size_t w = 0; (strategy = next_strategy(&w));)
        for (size_t n = 3; n <= 4; n++)
            check_run(&(struct exrig_settings){.strategy = strategy->name,
                                               .nodes = n,
                                               .updates = 12,
                                               .params = 1000,
                                               .segment_floats = 100,
                                               .clip_norm = strategy->can_clip && n == 3 ? 0.5 : 0,
                                               .seconds = {0, 0.001},
                                               .tcp = true},
                      0, is_power(n) && strategy->exact == RT_EXACT_BITS);
}

TEST_MAIN()
