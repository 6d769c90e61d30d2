/* The synchronous parameter server with the adding spread over the workers: each sums a part of the gradient,
 * the server gets the finished parts, and the new parameters return the same way. */
#include "exchange/ways/ways.h"

static const struct rt_option options[] = {RT_WAY_DEDICATED, RT_WAY_CARRIED};

static rt_status moves_of(const struct rt_way_options *given, const struct rt_roles *roles, uint16_t rank,
                          const struct rt_span *span, size_t params, const struct rt_link_cost *cost,
                          struct rt_moves *moves, struct rt_error *err) {
    (void)given, (void)params, (void)cost;
    return rt_way_moves_scatter(roles, 0, rank, span->count, moves, err);
}

const struct rt_way rt_way_ps_scatter = {
    .name = "ps-scatter",
    .help = "ps-sync with the adding spread over the workers: the server gets each part summed, once",
    .place = {"data", "central", "synchronous", "scatter-reduce and gather", "one server"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .moves = moves_of,
};
