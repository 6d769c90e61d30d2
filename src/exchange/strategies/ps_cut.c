/* A parameter server that ends an epoch early: when most of its examples have been learnt from, gradients
 * still in flight are given up and the next epoch begins. */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {
    {"cut", RT_OPTION_REAL, RT_STRATEGY_AT(cut), "0.75", 0, 1,
     .help = "the part of an epoch that suffices, above 0"},
    {"base", RT_OPTION_CHOICE, RT_STRATEGY_AT(base), "sync", .choices = rt_exchange_bases,
     .help = "what it does otherwise"},
    RT_STRATEGY_SHARES,
    RT_STRATEGY_BOUND,
    RT_STRATEGY_STEP,
    RT_STRATEGY_ORDER,
    RT_STRATEGY_REDUCE,
    RT_STRATEGY_SERVER_OPTIONS,
};

static rt_status ps_cut_check(const struct rt_exchange_options *given, size_t nodes, struct rt_error *err) {
    (void)nodes;
    if (!(given->cut > 0))
        return rt_fail(err, RT_BAD_INPUT, "cut: must be above 0 and at most 1, not %g", given->cut);
    return rt_exchange_check_base(given, err);
}

static rt_status ps_cut_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                   uint16_t rank, const struct rt_span *span, size_t params,
                                   const struct rt_link_cost *cost, struct rt_collective *collective,
                                   struct rt_error *err) {
    (void)given, (void)params, (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_STAR};
    return rt_synchronous_server(form, roles, 0, rank, 0, span->count, collective, err);
}

static const struct rt_rules *ps_cut_rules(const struct rt_exchange_options *given) {
    return given->base == RT_BASE_SYNC ? NULL : &rt_rules_cut;
}

static double ps_cut_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    return given->base == RT_BASE_SYNC ? rt_delay_star(terms) : rt_delay_requests(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_cut = {
    .name = "ps-cut",
    .help = "a server whose epochs end when most of their examples have been learnt from",
    .place = {"data", "central", "as its base, epochs cut short", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .slices = true,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .check = ps_cut_check,
    .collective = ps_cut_collective,
    .rules = ps_cut_rules,
    .delay = ps_cut_delay,
};
