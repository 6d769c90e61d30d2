/* The synchronous parameter server at the root of a binomial tree: sums go up it, parameters come down. */
#include "exchange/ways/ways.h"

static const struct rt_option options[] = {RT_WAY_DEDICATED, RT_WAY_CARRIED};

static rt_status moves_of(const struct rt_way_options *given, const struct rt_roles *roles, uint16_t rank,
                          const struct rt_span *span, size_t params, const struct rt_link_cost *cost,
                          struct rt_moves *moves, struct rt_error *err) {
    (void)given, (void)params, (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_BINOMIAL};
    return rt_way_moves_server(form, roles, 0, rank, 0, span->count, moves, err);
}

const struct rt_way rt_way_ps_tree = {
    .name = "ps-tree",
    .help = "ps-sync along a binomial tree: the server talks to few, whatever the number of workers",
    .place = {"data", "central", "synchronous", "binomial tree", "one server"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .moves = moves_of,
};
