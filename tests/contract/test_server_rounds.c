/* Servers that do not wait for the slowest: rounds with backup workers or a quorum, epochs that are cut
 * short; and workers that do several steps by themselves. */
/* labels: threads */
#include "exchange/server/rules.h"
#include "support/servelog.h"
#include "support/test.h"
#include <math.h>

static struct servelog seen, plain;
static struct exrig rig, other;

static struct exrig_settings slow_settings(const char *strategy, const char *options) {
    return (struct exrig_settings){.strategy = strategy,
                                   .options = options,
                                   .nodes = 5,
                                   .updates = 40,
                                   .latency = 0.002,
                                   .random_delay = 0.004,
                                   .seconds = {0, 1, 5, 1, 1}};
}

TEST(enough_of_a_round) {
    struct rt_exchange_options options = {.backups = -1, .quorum = 1};
    CHECK(rt_rules_quorum(&options, 1) == 1 && rt_rules_quorum(&options, 2) == 1);
    CHECK(rt_rules_quorum(&options, 20) == 19 && rt_rules_quorum(&options, 21) == 19);
    options.backups = 0;
    CHECK(rt_rules_quorum(&options, 7) == 7);
    options.backups = 9;
    CHECK(rt_rules_quorum(&options, 7) == 1);
    options.quorum = 0.55;
    CHECK(rt_rules_quorum(&options, 20) == 11 && rt_rules_quorum(&options, 3) == 2);
    options.quorum = 1e-9;
    CHECK(rt_rules_quorum(&options, 3) == 1);

    /* Only what was made for the round that is under way, with its parameters, is in it. */
    struct rt_server_view view = {.options = &options, .workers = 3, .version = 5};
    for (uint64_t base = 4; base <= 5; base++)
        for (uint64_t batch = 4; batch <= 8; batch++) {
            const struct rt_push push = {.base = base, .batch = batch};
            const enum rt_verdict wanted = base == 5 && batch == 6 ? RT_VERDICT_GATHER : RT_VERDICT_DROP;
            CHECK(rt_rules_backup.judge(&view, &push) == wanted);
        }

    options.cut = 0.75;
    CHECK(rt_rules_cut_after(&options, 40) == 30 && rt_rules_cut_after(&options, 10) == 8);
    CHECK(rt_rules_cut_after(&options, 1) == 1 && rt_rules_cut_after(&options, 2) == 2);
    options.cut = 1;
    CHECK(rt_rules_cut_after(&options, 40) == 40);
}

/* Plain rounds are what the collectives of ps-sync do, bit for bit, with any number of workers and rows. */
TEST(without_backup_workers_it_is_ps_sync) {
    for (size_t workers = 1; workers <= 7; workers++)
        for (int dedicated = 0; dedicated < 2; dedicated++) {
            struct exrig_settings settings = {.strategy = "ps-backup",
                                              .options = dedicated ? "{backup: 0, dedicated: true}"
                                                                   : "{backup: 0, wfbp: off}",
                                              .nodes = workers + (size_t)dedicated,
                                              .optimizer = "{momentum: {lr: 0.1}}",
                                              .uneven = true,
                                              .updates = 15,
                                              .seed = workers,
                                              .clip_norm = 0.5,
                                              .random_delay = 0.1};
            if (!servelog_run(&settings, &seen, &rig))
                return;
            CHECK(seen.updates == 15 && seen.update[14].pushes == workers && seen.dropped == 0);
            settings.strategy = "ps-sync";
            settings.options = dedicated ? "{dedicated: true}" : NULL;
            if (exrig_succeeds(&settings, &other)) {
                CHECK_MSG(memcmp(rig.node[0].shelf, other.node[0].params, 24 * sizeof(float)) == 0,
                          "%zu workers: %g away", workers,
                          exrig_distance(&rig, rig.node[0].shelf, other.node[0].params));
                exrig_close(&other);
            }
            exrig_close(&rig);
        }
}

static double per_update(const char *options, size_t pushes, size_t *dropped) {
    const struct exrig_settings settings = slow_settings("ps-backup", options);
    if (!servelog_run(&settings, &seen, &rig))
        return 0;
    CHECK(seen.updates == 40);
    for (size_t v = 0; v < seen.updates; v++)
        CHECK(seen.update[v].pushes == pushes);
    *dropped = seen.dropped;
    CHECK(rig.node[0].counts.dropped == seen.dropped && rig.node[0].counts.gathered == 40 * pushes);
    servelog_check(&rig, &seen);
    exrig_close(&rig);
    return (seen.update[39].at - seen.update[0].at) / 39;
}

/* Who says that it reads for a batch gets the parameters which that batch's round is made with, or later
 * ones: with older ones its gradient would be dropped. */
TEST(a_reader_for_a_round_waits_for_the_one_before) {
    struct rt_worker_state state[2] = {{.batch = 0}, {.batch = 5}};
    const struct rt_exchange_options options = {.backups = 1};
    struct rt_server_view view = {.options = &options, .workers = 2, .state = state};
    for (view.version = 0; view.version < 8; view.version++) {
        CHECK(rt_rules_backup.may_read(&view, 0));
        CHECK(rt_rules_backup.may_read(&view, 1) == (view.version >= 4));
    }
    state[1].gathered = true; /* it is in the round */
    CHECK(!rt_rules_backup.may_read(&view, 1));
}

TEST(backup_workers_are_not_waited_for) {
    size_t none = 0, some = 0, half = 0;
    const double all = per_update("{dedicated: true, backup: 0}", 4, &none);
    const double backup = per_update("{dedicated: true}", 3, &some);
    const double quorum = per_update("{dedicated: true, quorum: 0.5}", 2, &half);
    printf("one of 4 workers is 5 times slower: %.2f s per update, with a backup %.2f (%zu dropped), with a "
           "quorum of half %.2f (%zu dropped)\n",
           all, backup, some, quorum, half);
    CHECK(all > 4.9 && backup < 1.1 && quorum < 1.1);
    CHECK(none == 0 && some >= 7 && half > some);
}

/* Who has no examples of a small batch is done first, and is no round by itself. */
TEST(a_round_has_examples) {
    const struct exrig_settings settings = {.strategy = "ps-backup",
                                            .options = "{dedicated: true, quorum: 0.5}",
                                            .nodes = 5,
                                            .batch = 13,
                                            .examples = 14,
                                            .uneven = true,
                                            .updates = 40,
                                            .random_delay = 0.01,
                                            .seconds = {0, 1, 1, 1, 5}};
    if (!servelog_run(&settings, &seen, &rig))
        return;
    size_t ones = 0;
    for (size_t v = 0; v < seen.updates; v++) {
        uint32_t rows = 0;
        for (size_t i = 0; i < seen.update[v].pushes; i++)
            rows += seen.update[v].push[i].rows;
        CHECK_MSG(rows > 0, "update %zu is made of no examples", v + 1);
        ones += exrig_rows(&rig, v + 1) == 1;
    }
    CHECK(seen.updates == 40 && ones > 0);
    exrig_close(&rig);
}

/* ---- epochs that are cut short ------------------------------------------------------------------------- */

struct course {
    struct servelog *log;
    uint64_t epochs, next; /* to be given */
    uint64_t epoch;        /* of the next */
    double ended[8];       /* when each had enough */
};

static uint64_t taken(const struct servelog *log, uint64_t epoch) {
    uint64_t count = 0;
    for (size_t v = 0; v < log->updates; v++)
        count += (log->update[v].push[0].batch - 1) / 10 == epoch;
    return count;
}

static bool all_returned(void *self) {
    const struct exrig *r = self;
    size_t held = 0;
    for (uint16_t rank = 1; rank < r->settings.nodes; rank++)
        held += rt_coordinator_held(r->node[0].coordinator, rank);
    return held == 0;
}

/* Tickets of an epoch of ten batches to whoever is free, until it has enough; then those of the next. */
static void give_epochs(void *user, struct exrig *r) {
    struct course *course = user;
    struct exrig_node *master = &r->node[0];
    const uint64_t enough = rt_rules_cut_after(&r->options, 10);
    struct rt_error err;
    struct rt_done done;
    while (course->epoch < course->epochs) {
        rt_engine_enter(master->engine);
        for (uint16_t rank = 1; rank < r->settings.nodes; rank++) {
            while (rt_coordinator_take(master->coordinator, rank, &done))
                ;
            if (course->next <= 10 * (course->epoch + 1) &&
                rt_coordinator_give(master->coordinator, rank, course->next))
                course->next++;
        }
        if (taken(course->log, course->epoch) >= enough) {
            course->ended[course->epoch++] = rt_engine_now(master->engine);
            course->next = 10 * course->epoch + 1;
        }
        rt_engine_leave(master->engine);
        if (rt_engine_wait(master->engine, NULL, NULL, rt_engine_now(master->engine) + 0.01, &err) != RT_OK)
            return;
    }
    rt_engine_wait(master->engine, all_returned, r, INFINITY, &err);
}

static void note_update(void *user, struct exrig *r, uint16_t server, uint64_t version, size_t pushes,
                        const struct rt_push *const *push) {
    const struct course *course = user;
    (void)server, (void)version, (void)pushes;
    struct log_update *update = &course->log->update[course->log->updates++];
    update->at = rt_endpoint_now(r->node[0].endpoint);
    update->push[0] = (struct log_push){push[0]->worker, push[0]->batch, push[0]->base, push[0]->rows};
    update->pushes = 1;
}

static double four_epochs(const char *options, size_t *updates, size_t *dropped) {
    struct exrig_settings settings = slow_settings("ps-cut", options);
    struct course course = {.log = &seen, .epochs = 4, .next = 1};
    struct rt_error err;
    memset(&seen, 0, sizeof seen);
    settings.updated = note_update;
    if (exrig_open(&settings, &rig, &err) != RT_OK || exrig_run(&rig, give_epochs, &course, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return 0;
    }
    for (size_t i = 0; i < settings.nodes; i++)
        CHECK_MSG(rig.node[i].status == RT_OK, "node %zu: %s", i, rig.node[i].error.text);
    const uint64_t enough = rt_rules_cut_after(&rig.options, 10);
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        CHECK_MSG(taken(&seen, epoch) == enough, "epoch %d: %d", (int)epoch, (int)taken(&seen, epoch));
    servelog_check(&rig, &seen);
    *updates = seen.updates;
    *dropped = rig.node[0].counts.dropped;
    exrig_close(&rig);
    return course.ended[3];
}

TEST(an_epoch_ends_without_its_stragglers) {
    size_t all, cut, none, some;
    const double whole = four_epochs("{dedicated: true, base: async, cut: 1}", &all, &none);
    const double early = four_epochs("{dedicated: true, base: async}", &cut, &some);
    printf("one of 4 workers is 5 times slower: 4 epochs of 10 batches take %.1f s, cut to 8 batches %.1f s "
           "(%zu dropped)\n",
           whole, early, some);
    CHECK(all == 40 && none == 0 && cut == 32 && some > 0);
    CHECK_MSG(early < 0.75 * whole, "%g s and %g s", early, whole);
    const double bounded = four_epochs("{dedicated: true, base: ssp, s: 3}", &cut, &some);
    CHECK_MSG(bounded < whole, "%g s and %g s", bounded, whole);
}

static void note_pushes(void *user, struct exrig *r, uint16_t server, uint64_t version, size_t pushes,
                        const struct rt_push *const *push) {
    for (size_t i = 0; i < pushes; i++)
        note_update(user, r, server, version, 1, &push[i]);
}

/* Rounds of whole clocks go on when the gradient of one who is behind is dropped, however tight the bound. */
TEST(a_gradient_that_is_dropped_holds_up_no_round) {
    for (int s = 0; s <= 1; s++) {
        struct exrig_settings settings =
            slow_settings("ps-cut", s ? "{base: ssp, s: 1, step: clock, dedicated: true}"
                                      : "{base: ssp, s: 0, step: clock, dedicated: true}");
        struct course course = {.log = &seen, .epochs = 4, .next = 1};
        struct rt_error err;
        memset(&seen, 0, sizeof seen);
        settings.updated = note_pushes;
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, give_epochs, &course, &err));
        for (size_t i = 0; i < settings.nodes; i++)
            CHECK_MSG(rig.node[i].status == RT_OK, "s %d, node %zu: %s", s, i, rig.node[i].error.text);
        CHECK(course.epoch == 4 && rig.node[0].counts.dropped > 0);
        exrig_close(&rig);
    }
}

/* Batches for a few at a time: the others rest, and come back. */
static void come_and_go(void *user, struct exrig *r) {
    struct rt_error err;
    (void)user;
    for (uint64_t i = 0; i < 60 && exrig_train(r, 1 + i % 7); i++)
        if (rt_engine_wait(r->node[0].engine, NULL, NULL,
                           rt_engine_now(r->node[0].engine) + 0.02 * (double)(i % 5), &err) != RT_OK)
            return;
    exrig_settle(r);
}

/* A server that thinks for a while about each gradient: meanwhile others come back. */
static enum rt_verdict judge_slowly(struct rt_server_view *view, const struct rt_push *push) {
    struct rt_endpoint *endpoint = rig.node[0].endpoint;
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 0.03);
    return rt_rules_ssp.judge(view, push);
}

static struct rt_rules thoughtful;
static const struct rt_rules *thoughtful_rules(const struct rt_exchange_options *options) {
    (void)options;
    return &thoughtful;
}

/* Who comes back while the last gradient of a whole clock waits to be applied is not ahead of it. */
TEST(rounds_of_whole_clocks_with_those_who_rest) {
    static const char *const options[] = {"{s: 0, step: clock, dedicated: true}", "{s: 1, step: clock}"};
    struct rt_exchange_strategy strategy = *rt_exchange_strategy_find("ps-ssp");
    thoughtful = rt_rules_ssp;
    thoughtful.judge = judge_slowly;
    strategy.rules = thoughtful_rules;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct exrig_settings settings = {.own = &strategy,
                                                .options = options[seed % 2],
                                                .nodes = 4,
                                                .latency = 0.001,
                                                .random_delay = 0.03,
                                                .seed = seed,
                                                .seconds = {0.01, 0.01, 0.02, 0.03}};
        struct rt_error err;
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, come_and_go, NULL, &err));
        for (size_t i = 0; i < settings.nodes; i++)
            CHECK_MSG(rig.node[i].status == RT_OK, "seed %d, node %zu: %s", (int)seed, i,
                      rig.node[i].error.text);
        CHECK_MSG(rig.results == 234, "%d results", (int)rig.results);
        exrig_close(&rig);
    }
}

TEST(an_epoch_that_is_not_cut_is_its_base) {
    const struct exrig_settings settings = slow_settings("ps-cut", "{dedicated: true, base: async, cut: 1}");
    const struct exrig_settings base = slow_settings("ps-async", "{dedicated: true}");
    if (!servelog_run(&settings, &seen, &rig))
        return;
    if (servelog_run(&base, &plain, &other)) {
        CHECK(memcmp(&seen, &plain, sizeof seen) == 0);
        CHECK(memcmp(rig.node[0].shelf, other.node[0].shelf, 24 * sizeof(float)) == 0);
        exrig_close(&other);
    }
    exrig_close(&rig);
}

/* ---- schedules ----------------------------------------------------------------------------------------- */

static bool with_schedule(const char *strategy, const char *options, size_t nodes, uint64_t batches,
                          struct exrig *r) {
    const struct exrig_settings settings = {.strategy = strategy,
                                            .options = options,
                                            .nodes = nodes,
                                            .updates = batches,
                                            .seconds = {0.1, 0.1, 0.1}};
    struct rt_error err;
    if (exrig_open(&settings, r, &err) != RT_OK)
        return false;
    r->schedule = (struct rt_schedule){.kind = RT_SCHEDULE_STEP, .every = 1, .factor = 0};
    CHECK(exrig_run(r, NULL, NULL, &err) == RT_OK);
    for (size_t i = 0; i < nodes; i++)
        CHECK_MSG(r->node[i].status == RT_OK, "%s: %s", strategy, r->node[i].error.text);
    return true;
}

/* The rate falls to zero after an epoch of ten batches, however many of them make an update. */
TEST(a_schedule_goes_by_batches) {
    static const struct {
        const char *strategy, *options;
        size_t nodes;
    } cases[] = {{"ps-async", "{dedicated: true}", 2},
                 {"ps-ssp", "{s: 0, step: clock, dedicated: true}", 3},
                 {"downpour", "{n_push: 5, n_fetch: 5, warm_start: 0, dedicated: true}", 2},
                 {"downpour", "{n_push: 1, n_fetch: 5, warm_start: 0, dedicated: true}", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!with_schedule(cases[i].strategy, cases[i].options, cases[i].nodes, 10, &rig))
            return;
        if (with_schedule(cases[i].strategy, cases[i].options, cases[i].nodes, 40, &other)) {
            float start[24] = {0};
            CHECK(exrig_distance(&rig, rig.node[0].shelf, start) > 0.01);
            CHECK_MSG(memcmp(rig.node[0].shelf, other.node[0].shelf, sizeof start) == 0, "%s %s: %g away",
                      cases[i].strategy, cases[i].options,
                      exrig_distance(&rig, rig.node[0].shelf, other.node[0].shelf));
            exrig_close(&other);
        }
        exrig_close(&rig);
    }
}

/* ---- steps of one's own -------------------------------------------------------------------------------- */

TEST(one_downpour_worker_is_one_device) {
    static const char *const options[] = {"{dedicated: true}", "{warm_start: 0}", "{n_fetch: 4}",
                                          "{n_fetch: 3, dedicated: true, wfbp: off}"};
    for (size_t i = 0; i < 4; i++) {
        const struct exrig_settings settings = {.strategy = "downpour",
                                                .options = options[i],
                                                .optimizer = "{sgd: {lr: 0.1, weight_decay: 0.01}}",
                                                .nodes = i % 3 ? 1 : 2,
                                                .updates = 21,
                                                .latency = 0.01};
        float params[24] = {0};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        exrig_serial(&rig, 1, 21, 1, params, NULL);
        CHECK(seen.updates == 21);
        CHECK_MSG(memcmp(params, rig.node[0].shelf, sizeof params) == 0, "%s: %g away", options[i],
                  exrig_distance(&rig, params, rig.node[0].shelf));
        exrig_close(&rig);
    }
}

/* The server gets the sum of several gradients, each made with the worker's own parameters of the time. */
TEST(sums_of_gradients_are_pushed) {
    static const char *const options[] = {"{n_push: 3, n_fetch: 3}", "{n_push: 5, n_fetch: 10}"};
    for (size_t i = 0; i < 2; i++) {
        const struct exrig_settings settings = {.strategy = "downpour",
                                                .options = options[i],
                                                .optimizer = "{sgd: {lr: 0.1}}",
                                                .nodes = 1,
                                                .updates = 23};
        float params[24] = {0};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        exrig_serial(&rig, 1, 23, 1, params, NULL);
        CHECK(seen.updates == (i ? 5 : 8));
        CHECK(seen.update[0].push[0].rows == (i ? 60 : 36));
        CHECK(exrig_distance(&rig, params, rig.node[0].shelf) < 1e-6);
        exrig_close(&rig);
    }
    /* Parameters that are fetched more often than gradients are pushed lack the worker's own steps. */
    const struct exrig_settings settings = {.strategy = "downpour",
                                            .options = "{n_push: 2, n_fetch: 1}",
                                            .optimizer = "{sgd: {lr: 0.1}}",
                                            .nodes = 1,
                                            .updates = 2};
    float w[24] = {0}, g1[24], g2[24];
    if (!servelog_run(&settings, &seen, &rig))
        return;
    exrig_gradient(&rig, 1, 0, 12, w, g1);
    exrig_gradient(&rig, 2, 0, 12, w, g2);
    for (size_t j = 0; j < 24; j++)
        CHECK(rig.node[0].shelf[j] == 0 - 0.1f * (g1[j] + g2[j]));
    exrig_close(&rig);
}

TEST(downpour_converges) {
    static const char *const options[] = {"{k: 1}", "{k: 3, n_push: 2, n_fetch: 4}",
                                          "{k: 2, n_push: 4, n_fetch: 2, dedicated: true}"};
    for (size_t i = 0; i < 3; i++) {
        const struct exrig_settings settings = {.strategy = "downpour",
                                                .options = options[i],
                                                .optimizer = "{adagrad: {lr: 0.03}}",
                                                .nodes = 6,
                                                .updates = 240,
                                                .seed = 5 + i,
                                                .latency = 0.01,
                                                .random_delay = 0.2,
                                                .seconds = {0.1, 0.2, 0.3, 0.1, 0.2, 0.5}};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        float params[24], start[24] = {0};
        for (size_t s = 0; s < rig.roles.servers; s++) {
            size_t first, end;
            rt_collective_part(24, rig.roles.servers, s, &first, &end);
            memcpy(params + first, rig.node[s].shelf + first, (end - first) * sizeof *params);
        }
        const double before = exrig_excess(&rig, start), after = exrig_excess(&rig, params);
        CHECK_MSG(after < 0.1 * before, "%s: %g, then %g", options[i], before, after);
        exrig_close(&rig);
    }
}

TEST_MAIN()
