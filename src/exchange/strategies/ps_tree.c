/* The synchronous parameter server at the root of a binomial tree: sums go up it, parameters come down. */
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_SHARES, RT_STRATEGY_DEDICATED,
                                           RT_STRATEGY_COLLECTIVE_OPTIONS};

static rt_status ps_tree_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                    uint16_t rank, const struct rt_span *span, size_t params,
                                    const struct rt_link_cost *cost, struct rt_collective *collective,
                                    struct rt_error *err) {
    (void)given, (void)params, (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_BINOMIAL};
    return rt_synchronous_server(form, roles, 0, rank, 0, span->count, collective, err);
}

static double ps_tree_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_binomial(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_tree = {
    .name = "ps-tree",
    .help = "ps-sync along a binomial tree: the server talks to few, whatever the number of workers",
    .place = {"data", "central", "synchronous", "binomial tree", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_BITS,
    .slices = true,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .collective = ps_tree_collective,
    .delay = ps_tree_delay,
};
