/*
 * Every node is a worker and the server of an n-th of the parameters: gradients are added part by part at the
 * node that has the part's optimizer, and the new parameters are gathered from there. No node holds the whole
 * state of the optimizer.
 */
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_COLLECTIVE_OPTIONS};

static rt_status ps_peer_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                    uint16_t rank, const struct rt_span *span, size_t params,
                                    const struct rt_link_cost *cost, struct rt_collective *collective,
                                    struct rt_error *err) {
    (void)cost;
    const struct rt_span own = rt_exchange_owned_part(&rt_strategy_ps_peer, given, roles, rank, span, params);
    return rt_synchronous_peers(roles, rank, span->count, own.count ? own.first - span->first : 0, own.count,
                                collective, err);
}

static double ps_peer_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_peers(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_peer = {
    .name = "ps-peer",
    .help = "every node works, and serves an equal part of the parameters and of the optimizer's state",
    .place = {"data", "central", "synchronous", "scatter-reduce and all-gather", "servers on all workers"},
    RT_STRATEGY_OPTIONS(options),
    .servers = RT_SERVERS_EVERY,
    .collective = ps_peer_collective,
    .delay = ps_peer_delay,
};
