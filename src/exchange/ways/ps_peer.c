/*
 * Every node is a worker and the server of an n-th of the parameters: gradients are added part by part where
 * the part's optimizer is, and the new parameters are gathered from there. Nobody holds the whole state of
 * the optimizer.
 */
#include "exchange/ways/ways.h"

static const struct rt_option options[] = {RT_WAY_CARRIED};

static rt_status moves_of(const struct rt_way_options *given, const struct rt_roles *roles, uint16_t rank,
                          const struct rt_span *span, size_t params, const struct rt_link_cost *cost,
                          struct rt_moves *moves, struct rt_error *err) {
    (void)cost;
    const struct rt_team team = {
        .ranks = roles->worker, .count = roles->workers, .place = rt_roles_place(roles, rank)};
    rt_status status = rt_moves_reduce_scatter(&team, 0, span->count, RT_BUFFER_GRADIENT, moves, err);
    const struct rt_span own = rt_way_owned_part(&rt_way_ps_peer, given, roles, rank, span, params);
    const struct rt_move apply = {.kind = RT_MOVE_APPLY,
                                  .buffer = RT_BUFFER_GRADIENT,
                                  .first = own.count ? own.first - span->first : 0,
                                  .count = own.count};
    if (status == RT_OK)
        status = rt_moves_add(moves, apply, err);
    if (status == RT_OK)
        status = rt_moves_all_gather(&team, 0, span->count, RT_BUFFER_PARAMS, moves, err);
    return status;
}

const struct rt_way rt_way_ps_peer = {
    .name = "ps-peer",
    .help = "every node works, and serves an equal part of the parameters and of the optimizer's state",
    .place = {"data", "central", "synchronous", "scatter-reduce and all-gather", "servers on all workers"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_EVERY,
    .moves = moves_of,
};
