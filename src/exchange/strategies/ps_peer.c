/*
 * Every node is a worker and the server of an n-th of the parameters: gradients are added part by part where
 * the part's optimizer is, and the new parameters are gathered from there. Nobody holds the whole state of
 * the optimizer.
 */
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_CARRIED};

static rt_status moves_of(const struct rt_exchange_options *given, const struct rt_roles *roles,
                          uint16_t rank, const struct rt_span *span, size_t params,
                          const struct rt_link_cost *cost, struct rt_collective *collective,
                          struct rt_error *err) {
    (void)cost;
    const struct rt_team team = {
        .ranks = roles->worker, .count = roles->workers, .place = rt_roles_place(roles, rank)};
    rt_status status =
        rt_collective_reduce_scatter(&team, 0, span->count, RT_BUFFER_GRADIENT, collective, err);
    const struct rt_span own = rt_exchange_owned_part(&rt_strategy_ps_peer, given, roles, rank, span, params);
    const struct rt_collective_op apply = {.kind = RT_OP_APPLY,
                                           .buffer = RT_BUFFER_GRADIENT,
                                           .first = own.count ? own.first - span->first : 0,
                                           .count = own.count};
    if (status == RT_OK)
        status = rt_collective_add(collective, apply, err);
    if (status == RT_OK)
        status = rt_collective_all_gather(&team, 0, span->count, RT_BUFFER_PARAMS, collective, err);
    return status;
}

const struct rt_exchange_strategy rt_strategy_ps_peer = {
    .name = "ps-peer",
    .help = "every node works, and serves an equal part of the parameters and of the optimizer's state",
    .place = {"data", "central", "synchronous", "scatter-reduce and all-gather", "servers on all workers"},
    RT_STRATEGY_OPTIONS(options),
    .servers = RT_SERVERS_EVERY,
    .collective = moves_of,
};
