/* Who learns from which batch, and which updates a run counts: the batch scheduler of a run's master with the
 * rules of its server, over the network in memory under virtual time, with the rig's toy in place of a
 * network. */
#include "control/batch_scheduler_inside.h"
#include "run/exchange/inside.h"
#include "support/servelog.h"
#include "support/test.h"
#include "support/tiny.h"

enum { BATCHES = 10 }; /* of an epoch, as the rig's servers have it */

static struct exrig rig;

static struct course {
    struct servelog log;
    uint64_t rows;               /* that the server's updates were made of */
    uint64_t taken[LOG_UPDATES]; /* of an epoch: gradients that came to something */
    bool lost[LOG_UPDATES];      /* the gradient of a batch was dropped */
    uint64_t line[LOG_UPDATES];  /* the batches of those that were not, in their order */
    size_t lined;

    struct rt_exchange_learner learner;
    struct rt_exchanger exchanger;
    struct rt_spec spec;
    struct rt_dataset set;
    struct tiny tiny; /* for the clocks only */

    uint64_t first, last; /* updates: it stands at, to be made */
    uint64_t validate;    /* the parameters stand still after so many; 0: never */
    uint64_t counted;     /* examples, by the steps */
} course;

static void note_updated(void *user, struct exrig *r, uint16_t server, uint64_t version, size_t pushes,
                         const struct rt_push *const *push) {
    struct course *c = user;
    (void)server;
    struct log_update *update = &c->log.update[c->log.updates++];
    update->at = rt_endpoint_now(r->node[0].endpoint);
    update->pushes = pushes;
    for (size_t i = 0; i < pushes; i++) {
        update->push[i] = (struct log_push){push[i]->worker, push[i]->batch, push[i]->base, push[i]->rows};
        c->rows += push[i]->rows;
    }
    rt_exchange_updated(&c->learner, version, pushes, push);
}

static void note_judged(void *user, struct exrig *r, uint16_t server, const struct rt_push *push,
                        enum rt_verdict verdict) {
    struct course *c = user;
    (void)r, (void)server;
    c->log.dropped += verdict == RT_VERDICT_DROP;
    c->taken[(push->batch - 1) / BATCHES] += verdict != RT_VERDICT_DROP;
    c->lost[push->batch] = verdict == RT_VERDICT_DROP;
    if (verdict != RT_VERDICT_DROP)
        c->line[c->lined++] = push->batch;
    rt_exchange_judged(&c->learner, push, verdict);
}

static struct rt_engine_part part(void *user, struct exrig *r) {
    struct course *c = user;
    struct rt_error err;
    c->learner.coordinator = r->node[0].coordinator;
    if (rt_exchange_make_scheduler(&c->learner, true, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return rt_coordinator_part(c->learner.coordinator);
    }
    return rt_exchange_coordinator_part(&c->learner);
}

static void begin_site(struct course *c, struct exrig *r) {
    struct exrig_node *master = &r->node[0];
    c->exchanger.engine = master->engine;
    c->exchanger.exchange = master->exchange;
    c->exchanger.replica = &master->replica;
    c->exchanger.member.server = master->server;
    rt_scheduler_set(c->learner.scheduler, c->first);
    rt_engine_enter(master->engine);
    rt_server_set_version(master->server, c->first);
    rt_engine_leave(master->engine);
}

static void take_steps(void *user, struct exrig *r) {
    struct course *c = user;
    struct exrig_node *master = &r->node[0];
    struct rt_scheduler *scheduler = c->learner.scheduler;
    if (!scheduler)
        return;
    begin_site(c, r);
    while (scheduler->returned < c->last) {
        struct rt_done sum;
        master->status = rt_scheduler_step(scheduler, &sum, &master->error);
        if (master->status != RT_OK)
            return;
        CHECK_MSG(sum.rows > 0, "update %d is made of no examples", (int)scheduler->returned);
        CHECK_MSG(!c->exchanger.asynchronous || sum.batch == c->line[scheduler->returned - c->first - 1],
                  "update %d is of batch %d%s", (int)scheduler->returned, (int)sum.batch,
                  c->lost[sum.batch] ? ", whose gradient was dropped" : "");
        c->counted += sum.rows;
        if (c->validate && scheduler->returned % c->validate == 0) {
            CHECK_MSG(scheduler->given == scheduler->returned, "update %d is given at a rest after %d",
                      (int)scheduler->given, (int)scheduler->returned);
            exrig_settle(r);
        }
    }
    /* Whoever is still busy with a batch that nobody wants any more comes to an end. */
    float *ignored = calloc(r->settings.params, sizeof *ignored);
    for (uint16_t rank = 1; rank < r->settings.nodes && ignored; rank++)
        exrig_gather(r, rank, 0, ignored);
    free(ignored);
}

static bool open_course(const struct exrig_settings *settings, struct rt_error *err) {
    static const struct rt_trainer_settings single = {.seed = 1, .batch = 2, .micro_batch = 2, .shards = 1};
    struct exrig_settings own = *settings;
    own.updated = note_updated;
    own.judged = note_judged;
    own.part = part;
    own.examples = BATCHES * (own.batch ? own.batch : 12);
    if (exrig_open(&own, &rig, err) != RT_OK)
        return false;
    if (tiny_open("{input: 2, loss: mse, layers: [{dense: 1}]}", "sgd", 4, &(struct tiny_way){.threads = 1},
                  &single, &course.tiny, err) != RT_OK)
        return false;
    const struct rt_net_replica_settings clocks = {.network = &course.tiny.network,
                                                   .count = 4,
                                                   .batch = 2,
                                                   .part = {1, {0, 1}},
                                                   .between = RT_STATE_ENCODE};
    const struct rt_roles *roles = &rig.roles;
    course.exchanger =
        (struct rt_exchanger){.roles = *roles,
                              .clients = rig.clients,
                              .team = rig.node[0].team,
                              .grouped = rt_exchange_is_nested(rig.strategy, &rig.options),
                              .rules = rt_exchange_rules(rig.strategy, &rig.options),
                              .asynchronous = rt_exchange_is_asynchronous(rig.strategy, &rig.options),
                              .place = rt_roles_place(roles, 0),
                              .works = rt_roles_place(roles, 0) < roles->workers,
                              .serves = true};
    course.set.count = rig.settings.examples;
    course.learner = (struct rt_exchange_learner){
        .config = {.exchange = rig.strategy,
                   .spec = &course.spec,
                   .set = &course.set,
                   .per_epoch = rt_exchange_per_epoch(&rig.options, BATCHES),
                   .rests = {{course.validate}},
                   .settings = {.batch = rig.settings.batch, .updates = course.last}},
        .options = &rig.options,
        .count = (uint16_t)own.nodes,
        .exchanger = &course.exchanger,
    };
    return rt_net_replica_create(&clocks, &course.exchanger.net, err) == RT_OK;
}

static void close_course(void) {
    rt_net_replica_destroy(course.exchanger.net);
    rt_scheduler_destroy(course.learner.scheduler);
    tiny_close(&course.tiny);
    exrig_close(&rig);
}

/* Updates first+1..last; false: the test has failed, nothing is to be closed. */
static bool run_course(const struct exrig_settings *settings, uint64_t first, uint64_t last,
                       uint64_t validate) {
    struct rt_error err;
    memset(&course, 0, sizeof course);
    course.first = first;
    course.last = last;
    course.validate = validate;
    if (!open_course(settings, &err)) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return false;
    }
    bool good = exrig_run(&rig, take_steps, &course, &err) == RT_OK;
    if (!good)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    for (size_t i = 0; i < settings->nodes && good; i++)
        if (rig.node[i].status != RT_OK) {
            rt_test_fail(__FILE__, __LINE__, "%s %s, seed %d, node %zu: %s", settings->strategy,
                         settings->options, (int)settings->seed, i, rig.node[i].error.text);
            good = false;
        }
    if (!good)
        close_course();
    return good;
}

/* ---- rounds ---- */

static const char *const round_options[] = {"{backup: 1}", "{backup: 1, dedicated: true}", "{quorum: 0.5}",
                                            "{quorum: 0.4, wfbp: off, dedicated: true}", "{backup: 2}"};

/* Whatever comes late, also all of it: every round is made, of its own batch, and none is waited for in vain.
 */
TEST(every_round_is_made) {
    size_t dropped = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        const struct exrig_settings settings = {
            .strategy = "ps-backup",
            .options = round_options[seed % 5],
            .nodes = 4 + seed % 3,
            .seed = seed,
            .random_delay = 0.02 + 0.05 * (double)(seed % 4),
            .bandwidth = seed % 4 ? 0 : 1e3, /* results come first */
            .seconds = {seed % 7 ? 0.01 : 2, 0.05, 0.02, seed % 2 ? 0.3 : 0, 0.04}};
        if (!run_course(&settings, 0, 42, seed % 3 ? 7 : 0))
            return;
        CHECK_MSG(course.log.updates == 42, "seed %d: %zu updates", (int)seed, course.log.updates);
        for (size_t v = 0; v < course.log.updates; v++)
            for (size_t i = 0; i < course.log.update[v].pushes; i++)
                CHECK_MSG(course.log.update[v].push[i].batch == v + 1, "seed %d: update %zu has batch %d",
                          (int)seed, v + 1, (int)course.log.update[v].push[i].batch);
        CHECK_MSG(course.counted == course.rows, "seed %d: %d examples are counted, and %d were applied",
                  (int)seed, (int)course.counted, (int)course.rows);
        servelog_check(&rig, &course.log);
        dropped += course.log.dropped;
        close_course();
    }
    CHECK(dropped > 100);
}

/* The others do not wait for a master that takes its time. */
TEST(a_slow_master_holds_nobody_back) {
    const struct exrig_settings settings = {.strategy = "ps-backup",
                                            .options = "{backup: 1}",
                                            .nodes = 4,
                                            .latency = 0.001,
                                            .seconds = {5, 0.1, 0.1, 0.1}};
    if (!run_course(&settings, 0, 60, 0))
        return;
    const double took = course.log.update[59].at - course.log.update[0].at;
    printf("a master 50 times slower: 60 rounds in %.2f s\n", took);
    CHECK_MSG(took < 8, "%g s", took);
    servelog_check(&rig, &course.log);
    close_course();
}

/* ---- epochs that are cut short ---- */

static const char *const cut_options[] = {"{base: async}", "{base: async, dedicated: true}",
                                          "{base: ssp, s: 1}", "{base: ssp, s: 1, step: clock}"};

/* One worker is slow: epochs end without it. What it does in vain is no update, and counts for nothing. */
TEST(what_is_dropped_is_not_counted) {
    for (uint64_t seed = 0; seed < 24; seed++) {
        const struct exrig_settings settings = {.strategy = "ps-cut",
                                                .options = cut_options[seed % 4],
                                                .nodes = 5,
                                                .seed = seed,
                                                .random_delay = 0.01,
                                                .seconds = {0.1, 0.1, 0.5, 0.1, 0.1}};
        if (!run_course(&settings, 0, 32, seed % 3 ? 0 : 8))
            return;
        for (uint64_t epoch = 0; epoch < 4; epoch++)
            CHECK_MSG(course.taken[epoch] == 8, "seed %d: %d of epoch %d", (int)seed,
                      (int)course.taken[epoch], (int)epoch);
        CHECK_MSG(course.log.dropped > 0, "seed %d: nothing was dropped", (int)seed);
        CHECK_MSG(course.rows == 32 * 12 && course.counted == course.rows,
                  "seed %d: %d examples are counted, and %d were applied", (int)seed, (int)course.counted,
                  (int)course.rows);
        close_course();
    }
}

/* From the middle of an epoch on: the rest of what it needs, from the batches that have not been used. */
TEST(an_epoch_that_is_cut_short_goes_on) {
    for (uint64_t seed = 0; seed < 8; seed++) {
        const struct exrig_settings settings = {.strategy = "ps-cut",
                                                .options = cut_options[seed % 4],
                                                .nodes = 4,
                                                .seed = seed,
                                                .random_delay = 0.01,
                                                .seconds = {0.1, 0.1, 0.1, 0.1}};
        if (!run_course(&settings, 11, 24, 0))
            return;
        CHECK_MSG(course.taken[1] == 5 && course.taken[2] == 8, "seed %d: %d and %d", (int)seed,
                  (int)course.taken[1], (int)course.taken[2]);
        for (size_t v = 0; v < course.log.updates; v++)
            CHECK(course.log.update[v].push[0].batch > 13);
        CHECK(course.counted == 13 * 12);
        close_course();
    }
}

TEST(a_slow_worker_does_not_hold_up_an_epoch) {
    static const char *const options[] = {"{base: async, cut: 1}", "{base: async, cut: 0.75}"};
    double took[2];
    for (size_t i = 0; i < 2; i++) {
        const struct exrig_settings settings = {.strategy = "ps-cut",
                                                .options = options[i],
                                                .nodes = 4,
                                                .latency = 0.001,
                                                .seconds = {1, 1, 10, 1}};
        const uint64_t epoch = i ? 8 : 10;
        if (!run_course(&settings, 0, 4 * epoch, 0))
            return;
        took[i] = course.log.update[4 * epoch - 1].at / (double)(4 * epoch);
        close_course();
    }
    printf("one of 4 workers is 10 times slower: %.2f s per update, cut short %.2f s\n", took[0], took[1]);
    CHECK(took[1] < took[0]);
}

/* ---- every gradient is an update ---- */

/* Updates are counted when they have been made, in the order in which they were. */
TEST(updates_are_counted_in_their_order) {
    static const char *const strategies[][2] = {{"ps-async", "{dedicated: false}"},
                                                {"ps-async", "{dedicated: true, prio: stale}"},
                                                {"ps-ssp", "{s: 1}"},
                                                {"ps-ssp", "{s: 0, step: clock}"},
                                                {"ps-vap", "{delta: 0.02}"},
                                                {"ps-hier", "{base: async, group: 2}"},
                                                {"ps-hier", "{base: ssp, s: 1, group: 3}"},
                                                {"ps-hier", "{base: async, group: 2, dedicated: true}"}};
    for (uint64_t seed = 0; seed < 40; seed++) {
        const struct exrig_settings settings = {.strategy = strategies[seed % 8][0],
                                                .options = strategies[seed % 8][1],
                                                .nodes = 3 + seed % 5,
                                                .seed = seed,
                                                .random_delay = 0.05,
                                                .seconds = {0.1, 0.05, 0.3, 0.02, 0.1, 0.2}};
        if (!run_course(&settings, 0, 40, seed % 2 ? 0 : 8))
            return;
        CHECK_MSG(course.lined == 40 && course.counted == 40 * 12 && course.rows == 40 * 12,
                  "seed %d: %zu updates, %d examples are counted and %d were applied", (int)seed,
                  course.lined, (int)course.counted, (int)course.rows);
        close_course();
    }
}

TEST_MAIN()
