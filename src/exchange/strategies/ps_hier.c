/*
 * The parameter server with proxies: the proxy of each group adds its group's gradients, and only the sums go
 * on: to the proxy of a group of proxies, if there are more levels, and to the server; parameters fan out the
 * same way. The members of a group wait for one another. Above the groups the base decides: all groups wait
 * for one another, or each group goes at its own pace, with batches of its own, as a worker of ps-async or
 * ps-ssp does.
 */
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {
    {"depth", RT_OPTION_INT, RT_STRATEGY_AT(depth), "2", 1, 16,
     .help = "hops from a worker to the server; 1: without proxies, as ps-sync"},
    {"group", RT_OPTION_INT, RT_STRATEGY_AT(group), "auto", 1, RT_STRATEGY_COUNT_MAX, .auto_word = "auto",
     .help = "members of a group; auto: as few as reach all workers at that depth"},
    {"base", RT_OPTION_CHOICE, RT_STRATEGY_AT(base), "sync", .choices = rt_exchange_bases,
     .help = "how groups meet at the server; but for sync each has batches of its own"},
    RT_STRATEGY_BOUND,
    RT_STRATEGY_STEP,
    RT_STRATEGY_ORDER,
    RT_STRATEGY_REDUCE,
    RT_STRATEGY_SERVER_OPTIONS,
};

static bool ps_hier_suffices(size_t group, size_t depth, size_t workers) {
    size_t reached = 1;
    for (size_t level = 0; level < depth && reached < workers; level++)
        reached *= group;
    return reached >= workers;
}

static size_t ps_hier_group(const struct rt_exchange_options *given, size_t workers) {
    size_t group = given->group > 0 ? (size_t)given->group : 1;
    while (given->group <= 0 && !ps_hier_suffices(group, (size_t)given->depth, workers))
        group++;
    return group;
}

static rt_status ps_hier_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                    uint16_t rank, const struct rt_span *span, size_t params,
                                    const struct rt_link_cost *cost, struct rt_collective *collective,
                                    struct rt_error *err) {
    (void)params, (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_GROUPS,
                                      .degree = ps_hier_group(given, roles->workers),
                                      .depth = (size_t)given->depth};
    return rt_synchronous_server(form, roles, 0, rank, 0, span->count, collective, err);
}

static rt_status ps_hier_check(const struct rt_exchange_options *given, size_t nodes, struct rt_error *err) {
    (void)nodes;
    if (given->base != RT_BASE_SYNC && given->depth != 2)
        return rt_fail(err, RT_BAD_INPUT,
                       "depth: with base=%s there are the proxies and the server, which is a depth of 2, not "
                       "%lld",
                       rt_exchange_bases[given->base], (long long)given->depth);
    return rt_exchange_check_base(given, err);
}

static double ps_hier_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    const size_t group = ps_hier_group(given, terms->workers);
    if (given->base == RT_BASE_SYNC)
        return rt_delay_groups(terms, group, (size_t)given->depth);
    struct rt_delay_terms inside = *terms, above = *terms;
    inside.workers = group;
    inside.step = 0;
    above.workers = (terms->workers + group - 1) / group;
    return rt_delay_star(&inside) + rt_delay_requests(&above);
}

const struct rt_exchange_strategy rt_strategy_ps_hier = {
    .name = "ps-hier",
    .help = "a server with proxies: each adds the gradients of its group and passes parameters on",
    .place = {"data", "central", "synchronous in a group, as its base above",
              "each with its proxy, proxies with the server", "one server over groups"},
    RT_STRATEGY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .check = ps_hier_check,
    .collective = ps_hier_collective,
    .rules = rt_exchange_base_rules,
    .group = ps_hier_group,
    .delay = ps_hier_delay,
};
