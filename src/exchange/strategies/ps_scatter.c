/* The synchronous parameter server with the adding spread over the workers: each sums a part of the gradient,
 * the server gets the finished parts, and the new parameters return the same way. */
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_DEDICATED, RT_STRATEGY_COLLECTIVE_OPTIONS};

static rt_status ps_scatter_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                       uint16_t rank, const struct rt_span *span, size_t params,
                                       const struct rt_link_cost *cost, struct rt_collective *collective,
                                       struct rt_error *err) {
    (void)given, (void)params, (void)cost;
    return rt_synchronous_scatter(roles, 0, rank, span->count, collective, err);
}

static double ps_scatter_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_scatter(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_scatter = {
    .name = "ps-scatter",
    .help = "ps-sync with the adding spread over the workers: the server gets each part summed, once",
    .place = {"data", "central", "synchronous", "scatter-reduce and gather", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .collective = ps_scatter_collective,
    .delay = ps_scatter_delay,
};
