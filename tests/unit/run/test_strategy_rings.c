/* What rings take over from the strategy that they exchange by: who shares a batch, the optimizer where
 * nobody names one, how long an epoch is; and which keys of a run file servers at every place cannot honour.
 */
#include "run/optimizer.h"
#include "run/strategy.h"
#include "support/test.h"
#include <string.h>

/* A run file with the given settings of the cluster and of the training: NULL if it is fine, else why not. */
static const char *read_choice(const char *cluster, const char *train, struct rt_spec **spec,
                               struct rt_strategy_choice *choice, struct rt_error *err) {
    char text[300];
    *choice = (struct rt_strategy_choice){0};
    *spec = NULL;
    err->text[0] = 0;
    snprintf(text, sizeof text, "cluster: {%s}\ntrain: {%s}\n", cluster, train);
    return rt_spec_parse(text, strlen(text), "test", NULL, 0, spec, err) == RT_OK &&
                   rt_strategy_read(*spec, choice, err) == RT_OK
               ? NULL
               : err->text;
}

static void give_back(struct rt_spec *spec, struct rt_strategy_choice *choice) {
    rt_strategy_choice_deinit(choice);
    rt_spec_destroy(spec);
}

#define ASYNC "strategy: {hybrid: {exchange: ps-async}}, nodes: 4"

TEST(what_rings_can_be_asked_for) {
    static const struct {
        const char *cluster, *train, *reason; /* NULL: nothing is wrong */
    } cases[] = {
        {ASYNC, "clip_norm: 1",
         "hybrid: train.clip_norm: not with exchange=ps-async between rings: every place has a server"},
        {ASYNC ", master_tail: 1", "batch: 4",
         "hybrid: cluster.master_tail: not with exchange=ps-async between rings: "},
        {"strategy: {hybrid: {exchange: ps-backup}}, nodes: 4, master_tail: 1", "batch: 4",
         "cluster.master_tail: not with exchange=ps-backup"},
        {"strategy: {hybrid: {exchange: ps-shard, base: ssp}}, nodes: 4", "clip_norm: 1",
         "train.clip_norm: not with exchange=ps-shard"},
        /* Sums that are given back, and a ring that has nobody to exchange with. */
        {"strategy: {hybrid: {exchange: ps-shard}}, nodes: 4, master_tail: 1", "clip_norm: 1", NULL},
        {"strategy: {hybrid: {exchange: ps-cut}}, nodes: 4, master_tail: 1", "clip_norm: 1", NULL},
        {"strategy: {hybrid: {exchange: ps-peer}}, nodes: 4", "clip_norm: 1", NULL},
        {"strategy: {hybrid: {exchange: ps-sync, rings: 1}}, nodes: 4, master_tail: 1", "clip_norm: 1", NULL},
        /* Asynchronous rings have a batch each; others share one. */
        {"strategy: {hybrid: {exchange: ps-ssp, s: 1, rings: 4}}, nodes: 4", "batch: 1", NULL},
        {"strategy: {hybrid: {exchange: downpour, n_push: 4, rings: 4}}, nodes: 4", "batch: 1", NULL},
        {"strategy: {hybrid: {exchange: ps-backup, rings: 4}}, nodes: 4", "batch: 3",
         "hybrid: a batch of 3 cannot be shared by 4 rings"},
        {"strategy: {hybrid: {exchange: ps-cut, rings: 4}}, nodes: 4", "batch: 3",
         "hybrid: a batch of 3 cannot be shared by 4 rings"},
        {"strategy: {hybrid: {exchange: ps-shard, k: 3}}, nodes: 4", "batch: 4",
         "hybrid: k: 3 servers cannot be on 2 rings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_strategy_choice choice;
        struct rt_spec *spec;
        struct rt_error err = {0};
        const char *why = read_choice(cases[i].cluster, cases[i].train, &spec, &choice, &err),
                   *reason = cases[i].reason;
        CHECK_MSG(reason ? why && strstr(why, reason) : !why, "%s, %s: '%s'", cases[i].cluster,
                  cases[i].train, why ? why : "");
        give_back(spec, &choice);
    }
}

TEST(rings_follow_their_exchange) {
    static const struct {
        const char *cluster, *strategy, *optimizer; /* NULL: what one device has */
        bool clips;
        uint64_t kept; /* of 100 batches */
    } cases[] = {
        {"strategy: hybrid, nodes: 4", "allreduce-rd", NULL, true, 100},
        {"strategy: {hybrid: {exchange: downpour}}, nodes: 4", "downpour", "adagrad", false, 100},
        {"strategy: {hybrid: {exchange: ps-cut}}, nodes: 4", "ps-cut", NULL, true, 75},
        {"strategy: {hybrid: {exchange: ps-cut, cut: 0.5, base: async}}, nodes: 4", "ps-cut", NULL, false,
         50},
        {"strategy: downpour, nodes: 4", "downpour", "adagrad", false, 100},
        {"strategy: ps-async, nodes: 4", "ps-async", NULL, true, 100},
    };
    struct rt_optim *usual = NULL;
    struct rt_error err = {0};
    REQUIRE(rt_optim_create(NULL, &usual, &err) == RT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_strategy_choice choice;
        struct rt_spec *spec;
        struct rt_optim *optim = NULL;
        const char *why = read_choice(cases[i].cluster, "batch: 8", &spec, &choice, &err);
        CHECK_MSG(!why, "%s: %s", cases[i].cluster, why);
        if (!why) {
            const struct rt_exchange_strategy *strategy = rt_strategy_exchange(&choice);
            const char *wanted = cases[i].optimizer ? cases[i].optimizer : usual->type->name;
            CHECK_OK(rt_train_optimizer(&spec->train, strategy, &optim, &err));
            CHECK_MSG(strategy == rt_exchange_strategy_find(cases[i].strategy) && optim &&
                          strcmp(optim->type->name, wanted) == 0 &&
                          rt_strategy_clips(&choice, spec) == cases[i].clips &&
                          rt_exchange_per_epoch(choice.settings, 100) == cases[i].kept,
                      "%s", cases[i].cluster);
        }
        rt_optim_destroy(optim);
        give_back(spec, &choice);
    }
    rt_optim_destroy(usual);
}

TEST(a_ring_alone_exchanges_nothing) {
    struct rt_strategy_choice choice;
    struct rt_spec *spec;
    struct rt_error err = {0};
    CHECK(!read_choice("strategy: ring, nodes: 4", "batch: 8", &spec, &choice, &err));
    CHECK(!rt_strategy_exchange(&choice) && rt_strategy_clips(&choice, spec));
    give_back(spec, &choice);
    CHECK(!read_choice("strategy: ring-flow, nodes: 4", "batch: 8", &spec, &choice, &err));
    CHECK(!rt_strategy_clips(&choice, spec));
    give_back(spec, &choice);
}

TEST_MAIN()
