/* A strategy with another one inside, which is hybrid: whose options it reads, what follows from the one
 * inside, and what is refused between rings. */
#include "exchange/strategies/strategies.h"
#include "formats/yaml.h"
#include "support/test.h"
#include <math.h>
#include <string.h>

static const struct rt_exchange_strategy *const hybrid = &rt_strategy_hybrid;

/* text: "exchange: ps-ssp, s: 1" */
static rt_status read_options(const char *text, struct rt_exchange_options *options, struct rt_error *err) {
    struct rt_tree *tree = NULL;
    char map[200];
    snprintf(map, sizeof map, "{%s}", text);
    rt_status status = rt_yaml_value(map, "test", &tree, err);
    if (status == RT_OK)
        status = rt_exchange_options_read(hybrid, tree, options, err);
    rt_tree_destroy(tree);
    return status;
}

TEST(options_of_the_exchange_stand_beside_its_own) {
    struct rt_exchange_options options;
    struct rt_error err = {0};
    CHECK_OK(rt_exchange_options_read(hybrid, NULL, &options, &err));
    CHECK(options.rings == -1 &&
          rt_exchange_strategies()[options.inter_ring] == rt_exchange_strategy_find("allreduce-rd"));
    CHECK(options.wfbp && options.reduce == RT_MEAN);
    CHECK_OK(read_options("s: 1, rings: 2, damp: 2, exchange: ps-ssp", &options, &err));
    CHECK(options.rings == 2 && options.bound == 1 && options.damp == 2);
    CHECK_OK(read_options("exchange: downpour, n_push: 4", &options, &err));
    CHECK(options.push_every == 4 && options.fetch_every == 1 && options.warm_start == 0.05);
    CHECK(options.servers == 1 && options.damp == -1);
    CHECK_OK(read_options("exchange: ps-vap, delta: inf", &options, &err));
    CHECK(isinf(options.delta));
    CHECK_OK(read_options("exchange: ps-shard, base: async, wfbp: 'off'", &options, &err));
    CHECK(options.servers == -1 && options.base == RT_BASE_ASYNC && !options.wfbp);
    CHECK_OK(read_options("exchange: ps-cut, cut: 0.5, reduce: sum", &options, &err));
    CHECK(options.cut == 0.5 && options.reduce == RT_SUM);
    CHECK_OK(read_options("exchange: ps-hier, depth: 3, group: 2", &options, &err));
    CHECK(options.depth == 3 && options.group == 2);
    CHECK_OK(read_options("exchange: allreduce-tree, degree: 5", &options, &err));
    CHECK(options.degree == 5);
}

/* A name that both have is hybrid's; options that cannot be given have the defaults of the strategy inside.
 */
TEST(what_cannot_be_given_has_its_default) {
    struct rt_exchange_options options;
    struct rt_error err = {0};
    CHECK_OK(read_options("exchange: ps-sync", &options, &err));
    CHECK(rt_exchange_inner(hybrid, &options) == rt_exchange_strategy_find("ps-sync") &&
          options.exchange == RT_EXCHANGE_NAIVE);
    CHECK(options.order == RT_ORDER_UP && options.bucket == -1 && !options.dedicated);
}

TEST(options_survive_being_written) {
    for (const struct rt_exchange_strategy *const *strategy = rt_exchange_strategies(); *strategy;
         strategy++) {
        if ((*strategy)->no_rings)
            continue;
        struct rt_exchange_options options, again;
        struct rt_option table[RT_STRATEGY_MOST_OPTIONS];
        struct rt_tree *tree = NULL, *twice = NULL;
        struct rt_error err = {0};
        char text[80], *first = NULL, *second = NULL;
        snprintf(text, sizeof text, "rings: 4, exchange: %s, wfbp: 'off'", (*strategy)->name);
        CHECK_OK(read_options(text, &options, &err));
        CHECK_OK(rt_exchange_options_write(hybrid, &options, &tree, &err));
        CHECK_OK(rt_exchange_options_read(hybrid, tree, &again, &err));
        CHECK(tree && tree->count == rt_exchange_table(hybrid, &options, table));
        CHECK_OK(rt_exchange_options_write(hybrid, &again, &twice, &err));
        CHECK_OK(rt_tree_json(tree, &first, &err));
        CHECK_OK(rt_tree_json(twice, &second, &err));
        CHECK_MSG(first && second && strcmp(first, second) == 0 && !again.wfbp && again.rings == 4 &&
                      options.order == again.order && options.bucket == again.bucket && !again.dedicated,
                  "%s", (*strategy)->name);
        free(first);
        free(second);
        rt_tree_destroy(tree);
        rt_tree_destroy(twice);
        /* There is room for all of them. */
        CHECK(hybrid->option_count + (*strategy)->option_count <= RT_STRATEGY_MOST_OPTIONS);
    }
}

/* ---- what follows ---- */

TEST(rings_go_by_the_rules_of_the_strategy_inside) {
    static const struct {
        const char *name, *more;
        bool asynchronous;
    } cases[] = {
        {"allreduce-ring", "", false},
        {"ps-sync", "", false},
        {"ps-async", "", true},
        {"ps-ssp", "", true},
        {"ps-vap", "", true},
        {"ps-backup", "", false},
        {"ps-cut", "", false},
        {"ps-cut", ", base: async", true},
        {"ps-cut", ", base: ssp", true},
        {"ps-shard", "", false},
        {"ps-shard", ", base: async", true},
        {"ps-shard", ", base: ssp", true},
        {"downpour", "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find(cases[i].name);
        struct rt_exchange_options options = {0};
        struct rt_error err = {0};
        char text[100];
        snprintf(text, sizeof text, "exchange: %s%s", cases[i].name, cases[i].more);
        CHECK_OK(read_options(text, &options, &err));
        CHECK_MSG(rt_exchange_inner(hybrid, &options) == strategy &&
                      rt_exchange_inner(strategy, &options) == strategy &&
                      rt_exchange_rules(hybrid, &options) == rt_exchange_rules(strategy, &options) &&
                      rt_exchange_is_asynchronous(hybrid, &options) == cases[i].asynchronous,
                  "%s", text);
    }
    struct rt_exchange_options options;
    struct rt_error err = {0};
    CHECK_OK(read_options("exchange: ps-backup", &options, &err));
    CHECK(rt_exchange_rules(hybrid, &options)); /* though it is synchronous */
}

/* As many servers as there are rings and parameters for. */
TEST(auto_servers_are_on_rings) {
    static const struct {
        const char *text;
        size_t nodes, rings, params, servers;
    } cases[] = {
        {"exchange: ps-shard", 8, 2, 1, 1},
        {"exchange: ps-shard", 8, 2, 1000, 2},
        {"exchange: ps-shard, rings: 8", 8, 8, 1000, 4},
        {"exchange: ps-shard, rings: 8", 8, 8, 3, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_exchange_options options;
        struct rt_error err = {0};
        CHECK_OK(read_options(cases[i].text, &options, &err));
        rt_exchange_fit(hybrid, &options, cases[i].nodes, cases[i].params);
        const size_t servers =
            rt_exchange_servers(rt_exchange_inner(hybrid, &options), &options, cases[i].rings);
        CHECK_MSG(servers == cases[i].servers, "%s: %zu servers", cases[i].text, servers);
        CHECK_OK(rt_exchange_check(hybrid, &options, cases[i].nodes, cases[i].params, &err));
    }
}

/* ---- what cannot be ---- */

TEST(what_cannot_be_is_refused) {
    static const struct {
        const char *text;
        size_t nodes, params;
        const char *reason;
    } cases[] = {
        {"s: 1", 4, 0, "hybrid: s: exchange=allreduce-rd has no such option"},
        {"exchange: ps-ssp, order: down", 4, 0, "hybrid: order: is not for rings"},
        {"exchange: ps-sync, dedicated: true", 4, 0, "hybrid: dedicated: is not for rings"},
        {"bucket: 64", 4, 0, "hybrid: bucket: is not for rings"},
        {"exchange: ps-ssp, dampp: 1", 4, 0,
         "unknown key 'dampp' in hybrid,exchange=ps-ssp; did you mean 'damp'?"},
        {"exchange: ps-ssp, ring: 2", 4, 0, "did you mean 'rings'?"},
        {"frobnicate: 2", 4, 0, "the keys are rings, exchange, wfbp, reduce"},
        {"exchange: ps-ssp, s: -1", 4, 0, "hybrid,exchange=ps-ssp: s must be at least 0 or 'inf'"},
        {"exchange: ps-ssp, damp: 0.5", 4, 0, "damp: the power must be a whole number"},
        {"exchange: hybrid", 4, 0, "ps-cut, downpour, not 'hybrid'"},
        {"rings: 0", 4, 0, "hybrid: rings must be"},
        {"exchange: ps-async, rings: 2", 5, 0, "rings: 5 nodes cannot be 2 rings of equal length"},
        {"exchange: downpour, k: 2", 4, 0,
         "k: with exchange=downpour every place of the rings has one server"},
        {"exchange: ps-cut, base: ssp, step: clock", 4, 0, "step: not clock between rings"},
        {"exchange: ps-async, rings: 1", 4, 0, "exchange: ps-async is for several rings"},
        {"exchange: ps-cut", 3, 0, "exchange: ps-cut is for several rings, and there is one of 3 nodes"},
        {"exchange: ps-shard, k: 3", 4, 0, "k: 3 servers cannot be on 2 rings"},
        {"exchange: ps-shard, k: 2, rings: 1", 4, 0, "k: 2 servers cannot be on 1 ring"},
        {"exchange: ps-shard, k: 4, rings: 4", 4, 3, "k: 4 servers cannot share 3 parameters"},
        {"exchange: ps-backup, backup: 2", 6, 0, "backup: 2 of 2 workers cannot be spare"},
        {"exchange: ps-hier, base: async", 4, 0, "base: with exchange=ps-hier groups of rings have no pace"},
        {"exchange: ps-shard, damp: 2", 4, 0, "damp: is for base=async or base=ssp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_exchange_options options;
        struct rt_error err = {0};
        rt_status status = read_options(cases[i].text, &options, &err);
        if (status == RT_OK)
            status = rt_exchange_check(hybrid, &options, cases[i].nodes, cases[i].params, &err);
        CHECK_MSG(status != RT_OK && strstr(err.text, cases[i].reason), "%s: '%s' and not '%s'",
                  cases[i].text, err.text, cases[i].reason);
    }
    struct rt_tree *list = NULL;
    struct rt_exchange_options options;
    struct rt_error err = {0};
    CHECK_OK(rt_yaml_value("[rings]", "test", &list, &err));
    CHECK(rt_exchange_options_read(hybrid, list, &options, &err) != RT_OK);
    CHECK_MSG(strstr(err.text, "hybrid takes its options as a map, like {rings: ...}"), "%s", err.text);
    rt_tree_destroy(list);
}

/* A strategy says itself that rings cannot exchange by it. */
TEST(a_strategy_can_refuse_rings) {
    struct rt_exchange_strategy strategy = *rt_exchange_strategy_find("ps-sync");
    struct rt_error err = {0};
    CHECK_OK(rt_exchange_check_rings(&strategy, &err));
    strategy.no_rings = "averages parameters, and rings exchange gradients";
    CHECK(rt_exchange_check_rings(&strategy, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "exchange: ps-sync averages parameters, and rings exchange gradients") == 0,
              "%s", err.text);
}

TEST_MAIN()
