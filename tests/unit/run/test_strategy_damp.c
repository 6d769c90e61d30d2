/* What damp=auto stands for: it goes by the optimizer of the run file, unless somebody says how much. */
#include "run/strategy.h"
#include "support/test.h"
#include <string.h>

static const struct {
    const char *strategy, *optimizer;
    bool stale;
    int damp;
} cases[] = {
    {"ps-async", "{sgd: {lr: 0.1}}", true, 0},
    {"ps-async", "adagrad", true, 0},
    {"ps-async", "momentum", true, 2},
    {"ps-async", "{momentum: {momentum: 0}}", true, 0}, /* which is plain descent */
    {"ps-async", "nesterov", true, 2},
    {"ps-async", "adam", true, 1},
    {"ps-async", "adamw", true, 1},
    {"'ps-async,damp=auto'", "momentum", true, 2},
    {"'ps-async,damp=0'", "momentum", true, 0},
    {"{ps-async: {damp: 3}}", "sgd", true, 3},
    {"'ps-ssp,s=inf'", "momentum", true, 2},
    {"ps-vap", "momentum", true, 2},
    {"'ps-cut,base=async'", "momentum", true, 2},
    {"'ps-shard,base=ssp'", "momentum", true, 2},
    {"as:dc-asgd", "momentum", true, 2},
    {"downpour", "momentum", true, 2},
    {"downpour", NULL, true, 0}, /* has adagrad then */
    {"ps-async", NULL, true, 0},
    {"ring-flow", "momentum", true, 2},
    {"ring-flow", "sgd", true, 0},
    {"'ring-flow,damp=1'", "momentum", true, 1},
    {"ring", "momentum", false, 0},
    {"ps-sync", "momentum", false, 0},
    {"allreduce-ring", "momentum", false, 0},
    {"'hybrid,exchange=ps-async'", "momentum", true, 2},
    {"'hybrid,exchange=ps-ssp,damp=1'", "momentum", true, 1},
    {"{hybrid: {exchange: ps-shard, base: ssp}}", "adam", true, 1},
    {"{hybrid: {exchange: downpour}}", "momentum", true, 2},
    {"{hybrid: {exchange: downpour}}", NULL, true, 0}, /* adagrad here too */
    {"'hybrid,exchange=ps-backup'", "momentum", false, 0},
    {"'hybrid,exchange=ps-cut'", "momentum", false, 0},
    {"hybrid", "momentum", false, 0},
};

TEST(auto_damping_suits_the_optimizer) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *optimizer = cases[i].optimizer;
        struct rt_strategy_choice choice = {0};
        struct rt_spec *spec = NULL;
        struct rt_error err = {0};
        char text[300];
        snprintf(text, sizeof text, "cluster: {nodes: 4, strategy: %s}\n%s%s%s", cases[i].strategy,
                 optimizer ? "train: {optimizer: " : "", optimizer ? optimizer : "", optimizer ? "}\n" : "");
        CHECK_OK(rt_spec_parse(text, strlen(text), "test", NULL, 0, &spec, &err));
        CHECK_OK(rt_strategy_read(spec, &choice, &err));
        if (choice.strategy) {
            int damp = -1;
            const bool stale = rt_strategy_is_stale(&choice, &damp);
            CHECK_MSG(stale == cases[i].stale && damp == cases[i].damp, "%s with %s: damp %d",
                      cases[i].strategy, optimizer ? optimizer : "its own", damp);
        }
        rt_strategy_choice_deinit(&choice);
        rt_spec_destroy(spec);
    }
}

/* What is sent to nodes is the number. */
TEST(nodes_are_told_the_number) {
    const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find("ps-ssp");
    const struct rt_optim optim = {.type = rt_optim_type_find("adam")};
    struct rt_exchange_options options, again = {0};
    struct rt_tree *tree = NULL;
    struct rt_error err = {0};
    CHECK_OK(rt_exchange_options_read(strategy, NULL, &options, &err));
    CHECK(options.damp < 0);
    rt_exchange_suit(strategy, &options, &optim);
    CHECK_OK(rt_exchange_options_write(strategy, &options, &tree, &err));
    CHECK_OK(rt_exchange_options_read(strategy, tree, &again, &err));
    CHECK(options.damp == 1 && again.damp == 1);
    rt_tree_destroy(tree);
}

TEST(an_optimizer_that_there_is_not_is_named) {
    static const char text[] = "cluster: {nodes: 4, strategy: ps-async}\ntrain: {optimizer: momentun}\n";
    struct rt_strategy_choice choice = {0};
    struct rt_spec *spec = NULL;
    struct rt_error err = {0};
    CHECK_OK(rt_spec_parse(text, sizeof text - 1, "test", NULL, 0, &spec, &err));
    CHECK(rt_strategy_read(spec, &choice, &err) != RT_OK);
    CHECK_MSG(strstr(err.text, "momentum"), "%s", err.text);
    rt_spec_destroy(spec);
}

TEST_MAIN()
