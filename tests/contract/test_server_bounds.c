/* Bounds on how far workers may drift apart: by delay (ssp) and by value (vap). */
#include "base/rng.h"
#include "support/servelog.h"
#include "support/test.h"
#include <math.h>

enum { WORKERS = 4, NODES = WORKERS + 1 };

static struct servelog seen, plain;
static struct exrig rig, other;

/* A server and four workers, each as slow as the seed says, and messages that take as long as they like. */
static struct exrig_settings random_settings(const char *strategy, const char *options, uint64_t seed) {
    struct exrig_settings settings = {.strategy = strategy,
                                      .options = options,
                                      .nodes = NODES,
                                      .updates = 60,
                                      .seed = seed,
                                      .latency = 0.001,
                                      .random_delay = 0.2};
    for (size_t i = 1; i < NODES; i++) {
        uint32_t words[4];
        rt_rng_block(seed, RT_PURPOSE_INIT, 0, i, 0, words);
        settings.seconds[i] = 0.05 + 2 * (double)rt_rng_unit(words[0]);
    }
    return settings;
}

/* What a read at clock t may have of another worker's gradients: all up to clock t - s - 1, none from t + s
 * on; of its own: all. A worker that has no more to push may have stopped being waited for. */
static void check_delays(const struct servelog *log, uint64_t bound, const char *options, uint64_t seed) {
    size_t total[WORKERS], clock[WORKERS] = {0};
    for (size_t j = 0; j < WORKERS; j++)
        total[j] = servelog_count(log, log->updates, j);
    for (size_t v = 0; v < log->updates; v++) {
        const struct log_push *push = &log->update[v].push[0];
        const uint64_t t = clock[push->worker]++;
        for (size_t j = 0; j < WORKERS; j++) {
            const uint64_t has = servelog_count(log, push->base, j);
            if (j == push->worker)
                CHECK_MSG(has == t, "its own: %d of %d", (int)has, (int)t);
            else
                CHECK_MSG((has + bound >= t || has == total[j]) && has <= t + bound,
                          "%s, seed %d: at clock %d worker %zu read %d gradients of worker %zu", options,
                          (int)seed, (int)t, push->worker, (int)has, j);
        }
    }
}

TEST(no_read_breaks_the_bound_on_delay) {
    static const char *const options[] = {"{dedicated: true, s: 0}", "{dedicated: true, s: 1}",
                                          "{dedicated: true, s: 3}"};
    static const uint64_t bounds[] = {0, 1, 3};
    uint64_t held = 0;
    for (size_t o = 0; o < 3; o++)
        for (uint64_t seed = 1; seed <= 25; seed++) {
            const struct exrig_settings settings = random_settings("ps-ssp", options[o], seed);
            if (!servelog_run(&settings, &seen, &rig))
                return;
            CHECK(seen.updates == 60);
            check_delays(&seen, bounds[o], options[o], seed);
            servelog_check(&rig, &seen);
            held += rig.node[0].counts.held;
            exrig_close(&rig);
        }
    CHECK(held > 0);
    printf("75 runs of 60 updates, %d waits\n", (int)held);
}

/* Computing takes no time, so some have pushed before others have read for the first time. */
TEST(nobody_reads_too_much_at_the_start) {
    static const char *const options[] = {"{dedicated: true, s: 0}", "{dedicated: true, s: 1}"};
    for (uint64_t bound = 0; bound < 2; bound++)
        for (uint64_t seed = 1; seed <= 60; seed++) {
            struct exrig_settings settings = random_settings("ps-ssp", options[bound], seed);
            memset(settings.seconds, 0, sizeof settings.seconds);
            settings.random_delay = 0.04; /* so that no ticket is late, and nobody rests */
            settings.spans = 1;
            settings.updates = 8;
            if (!servelog_run(&settings, &seen, &rig))
                return;
            check_delays(&seen, bound, options[bound], seed);
            exrig_close(&rig);
        }
}

struct arrivals {
    size_t worker[13];
    double at[13];
};

static void note_arrival(void *user, struct exrig *r, uint16_t server, uint64_t version, size_t pushes,
                         const struct rt_push *const *push) {
    struct arrivals *arrivals = user;
    (void)server, (void)pushes;
    if (version > 13)
        return;
    arrivals->worker[version - 1] = push[0]->worker;
    arrivals->at[version - 1] = rt_endpoint_now(r->node[0].endpoint);
}

static void train_one_then_all(void *user, struct exrig *r) {
    (void)user;
    for (int i = 0; i < 5; i++)
        exrig_train(r, 1);
    exrig_train(r, 8);
}

/* The first worker learns five batches alone. Whoever joins then is not five behind: all eight further ones
 * are learnt in two rounds. */
TEST(who_comes_later_is_not_behind) {
    struct arrivals arrivals = {.at = {0}};
    const struct exrig_settings settings = {.strategy = "ps-ssp",
                                            .options = "{dedicated: true, s: 0}",
                                            .nodes = NODES,
                                            .latency = 0.001,
                                            .seconds = {0, 1, 1, 1, 1},
                                            .updated = note_arrival};
    struct rt_error err;
    CHECK_OK(exrig_open(&settings, &rig, &err));
    CHECK_OK(exrig_run(&rig, train_one_then_all, &arrivals, &err));
    for (size_t i = 0; i < NODES; i++)
        CHECK_MSG(rig.node[i].status == RT_OK, "node %zu: %s", i, rig.node[i].error.text);
    for (size_t v = 0; v < 5; v++)
        CHECK(arrivals.worker[v] == 0);
    const double seconds = arrivals.at[12] - arrivals.at[4];
    CHECK_MSG(seconds > 1.9 && seconds < 2.5, "%g seconds", seconds);
    exrig_close(&rig);
}

/* The same test must find fault with no bound at all. */
TEST(without_a_bound_workers_drift_apart) {
    size_t apart = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const struct exrig_settings settings = random_settings("ps-ssp", "{dedicated: true, s: inf}", seed);
        if (!servelog_run(&settings, &seen, &rig))
            return;
        for (size_t v = 0; v < seen.updates; v++) {
            const struct log_push *push = &seen.update[v].push[0];
            for (size_t j = 0; j < WORKERS; j++)
                apart += servelog_count(&seen, push->base, j) + 3 < servelog_count(&seen, v, push->worker);
        }
        exrig_close(&rig);
    }
    CHECK(apart > 0);
}

static void check_same(const char *strategy, const char *options) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const struct exrig_settings settings = random_settings(strategy, options, seed);
        const struct exrig_settings async = random_settings("ps-async", "{dedicated: true}", seed);
        if (!servelog_run(&settings, &seen, &rig))
            return;
        if (servelog_run(&async, &plain, &other)) {
            CHECK(memcmp(&seen, &plain, sizeof seen) == 0);
            CHECK(memcmp(rig.node[0].shelf, other.node[0].shelf, 24 * sizeof(float)) == 0);
            exrig_close(&other);
        }
        CHECK(rig.node[0].counts.held == 0 && rig.node[0].counts.forced == 0);
        exrig_close(&rig);
    }
}

TEST(no_bound_is_asynchronous) {
    check_same("ps-ssp", "{dedicated: true, s: inf}");
    check_same("ps-vap", "{dedicated: true, delta: inf}");
}

/* The sum of four workers' means with rate 0.1 is the mean of a batch four times as large with rate 0.4. */
static double from_synchronous(const char *options, const char *optimizer, const char *sync_optimizer,
                               uint64_t seed) {
    struct exrig_settings settings = random_settings("ps-ssp", options, seed);
    struct exrig_settings sync = random_settings("ps-sync", "{dedicated: true}", seed);
    double away = INFINITY;
    /* Slow enough for every ticket to be there in time. */
    for (size_t i = 1; i < NODES; i++)
        settings.seconds[i] += 0.5;
    settings.optimizer = optimizer;
    sync.optimizer = sync_optimizer;
    sync.updates = 15;
    sync.batch = 48;
    if (!servelog_run(&settings, &seen, &rig))
        return away;
    if (exrig_succeeds(&sync, &other)) {
        away = exrig_distance(&rig, rig.node[0].shelf, other.node[0].params);
        exrig_close(&other);
    }
    exrig_close(&rig);
    return away;
}

TEST(without_delay_it_is_the_synchronous_sum) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const double away =
            from_synchronous("{dedicated: true, s: 0}", "{sgd: {lr: 0.1}}", "{sgd: {lr: 0.4}}", seed);
        CHECK_MSG(away < 1e-6, "seed %d: %g away", (int)seed, away);
        CHECK(seen.updates == 60);
    }
}

TEST(a_whole_clock_is_one_update) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const double away =
            from_synchronous("{dedicated: true, s: 0, step: clock}", "{momentum: {lr: 0.02, momentum: 0.9}}",
                             "{momentum: {lr: 0.08, momentum: 0.9}}", seed);
        CHECK_MSG(away < 1e-5, "seed %d: %g away", (int)seed, away);
        CHECK(seen.updates == 15 && seen.update[0].pushes == WORKERS);
    }
    /* With some delay too every gradient is in an update, once. */
    const struct exrig_settings settings =
        random_settings("ps-ssp", "{dedicated: true, s: 2, step: clock}", 3);
    if (!servelog_run(&settings, &seen, &rig))
        return;
    size_t pushes = 0;
    for (size_t v = 0; v < seen.updates; v++)
        pushes += seen.update[v].pushes;
    CHECK_MSG(pushes == 60, "%zu", pushes);
    exrig_close(&rig);
}

/* ---- by value ------------------------------------------------------------------------------------------ */

/* Updates that take the parameters further than delta from those that another worker computes with, which are
 * those of its next gradient. */
static size_t find_violations(double delta, bool two) {
    const size_t n = rig.settings.params;
    float *versions = servelog_replay(&rig, &seen);
    size_t found = 0;
    for (size_t v = 0; v < seen.updates; v++) {
        double most = 0;
        for (size_t j = 0; j < WORKERS; j++) {
            size_t next = v + 1;
            while (next < seen.updates && seen.update[next].push[0].worker != j)
                next++;
            if (j == seen.update[v].push[0].worker || next == seen.updates)
                continue;
            /* Who reads only after this update has nothing yet that it could be far from. */
            if (seen.update[next].push[0].base > v)
                continue;
            const float *has = versions + seen.update[next].push[0].base * n, *made = versions + (v + 1) * n;
            double largest = 0, squares = 0;
            for (size_t p = 0; p < n; p++) {
                const double d = fabs((double)made[p] - (double)has[p]);
                largest = fmax(largest, d);
                squares += d * d;
            }
            most = fmax(most, two ? sqrt(squares) : largest);
        }
        found += most < delta ? 0 : 1;
    }
    free(versions);
    return found;
}

TEST(no_update_breaks_the_bound_on_value_unless_forced) {
    static const double deltas[] = {0.02, 0.05, 0.1, 0.3};
    uint64_t forced = 0, held = 0;
    size_t violations = 0;
    for (size_t d = 0; d < 4; d++)
        for (int two = 0; two < 2; two++)
            for (uint64_t seed = 1; seed <= 6; seed++) {
                char options[80];
                snprintf(options, sizeof options, "{dedicated: true, delta: %g, norm: %s}", deltas[d],
                         two ? "two" : "max");
                const struct exrig_settings settings = random_settings("ps-vap", options, seed);
                if (!servelog_run(&settings, &seen, &rig))
                    return;
                const size_t found = find_violations(deltas[d], two);
                CHECK_MSG(found <= rig.node[0].counts.forced, "%s, seed %d: %zu violations, %d forced",
                          options, (int)seed, found, (int)rig.node[0].counts.forced);
                CHECK(seen.updates == 60);
                violations += found;
                forced += rig.node[0].counts.forced;
                held += rig.node[0].counts.held;
                exrig_close(&rig);
            }
    CHECK(forced > 0 && held > 0);
    printf("48 runs of 60 updates: %zu violations, %d forced, %d held\n", violations, (int)forced, (int)held);
}

/* Without the bound the same runs have violations that nobody counts. */
TEST(the_bound_on_value_is_needed) {
    size_t found = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const struct exrig_settings settings = random_settings("ps-async", "{dedicated: true}", seed);
        if (!servelog_run(&settings, &seen, &rig))
            return;
        found += find_violations(0.05, false);
        exrig_close(&rig);
    }
    CHECK(found > 0);
}

TEST(the_adaptive_bound_on_value) {
    static const char *const options[] = {"{dedicated: true, factor: 1.5}", "{dedicated: true, factor: 3}",
                                          "{dedicated: true, factor: 100000}"};
    uint64_t held[3] = {0};
    for (size_t o = 0; o < 3; o++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct exrig_settings settings = random_settings("ps-vap", options[o], seed);
            settings.optimizer = "{momentum: {lr: 0.02}}";
            if (!servelog_run(&settings, &seen, &rig))
                return;
            CHECK(seen.updates == 60);
            held[o] += rig.node[0].counts.held;
            exrig_close(&rig);
        }
    CHECK_MSG(held[0] > held[1] && held[1] > held[2], "held: %d, %d, %d", (int)held[0], (int)held[1],
              (int)held[2]);
}

TEST_MAIN()
