/* Stale gradients and optimizers that keep their direction: no strategy that has them swings up with its
 * defaults. Under virtual time, so that staleness is what the test says. */
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

static struct exrig rig;

enum { UPDATES = 400 };

/* Four workers of nearly the same speed: a staleness of 3. The loss has a curvature of 1, so that one device
 * could take a rate of 3.8. Returns how far the parameters are from the best. */
static double left_over(const char *strategy, const char *options, const char *optimizer) {
    const struct exrig_settings settings = {.strategy = strategy,
                                            .options = options,
                                            .optimizer = optimizer,
                                            .nodes = 4,
                                            .updates = UPDATES,
                                            .latency = 0.001,
                                            .seconds = {1, 1.01, 1.02, 1.03}};
    if (!exrig_succeeds(&settings, &rig)) {
        rt_test_fail(__FILE__, __LINE__, "%s %s", strategy, options ? options : "");
        return (double)NAN;
    }
    const double excess = exrig_excess(&rig, rig.node[rig.worker[0]].params);
    exrig_close(&rig);
    return excess;
}

static const struct {
    const char *strategy, *options;
} cases[] = {
    {"ps-async", NULL},
    {"ps-async", "{prio: stale}"},
    {"ps-ssp", NULL},
    {"ps-ssp", "{s: inf}"},
    {"ps-vap", NULL},
    {"ps-hier", "{base: async}"},
    {"ps-hier", "{base: ssp, group: 1}"},
    {"ps-shard", "{base: async}"},
    {"ps-shard", "{base: ssp}"},
    {"ps-cut", "{base: async}"},
    {"ps-cut", "{base: ssp}"},
    {"downpour", NULL},
};

TEST(every_asynchronous_strategy_holds_with_its_defaults) {
    static const char *const optimizers[] = {"{momentum: {lr: 0.2}}", "{nesterov: {lr: 0.2}}",
                                             "{adam: {lr: 0.01}}", "{sgd: {lr: 0.2}}"};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const double excess = left_over(cases[i].strategy, cases[i].options, optimizers[o]);
            CHECK_MSG(excess < 0.05, "%s %s with %s: %g above the best", cases[i].strategy,
                      cases[i].options ? cases[i].options : "", optimizers[o], excess);
        }
}

/* What the default is for: without it the same training blows up. */
TEST(momentum_without_damping_swings_up) {
    const double excess = left_over("ps-async", "{damp: 0}", "{momentum: {lr: 0.2}}");
    CHECK_MSG(excess > 10, "%g above the best", excess);
}

TEST_MAIN()
