/* The synchronous parameter server with proxies: the first of each group adds its group's gradients, and only
 * the sums go on: to the first of a group of such firsts, where there are more levels, and to the server;
 * parameters fan out the same way. */
#include "exchange/ways/ways.h"

static const struct rt_option options[] = {
    {"depth", RT_OPTION_INT, RT_WAY_AT(depth), "2", 1, 16,
     .help = "hops from a worker to the server; 1: without proxies, as ps-sync"},
    {"group", RT_OPTION_INT, RT_WAY_AT(group), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "members of a group; auto: as few as reach all workers at that depth"},
    RT_WAY_DEDICATED,
    RT_WAY_CARRIED,
};

static bool suffices(size_t group, size_t depth, size_t workers) {
    size_t reached = 1;
    for (size_t level = 0; level < depth && reached < workers; level++)
        reached *= group;
    return reached >= workers;
}

static size_t group_of(const struct rt_way_options *given, const struct rt_roles *roles) {
    size_t group = given->group > 0 ? (size_t)given->group : 1;
    while (given->group <= 0 && !suffices(group, (size_t)given->depth, roles->workers))
        group++;
    return group;
}

static rt_status moves_of(const struct rt_way_options *given, const struct rt_roles *roles, uint16_t rank,
                          const struct rt_span *span, size_t params, const struct rt_link_cost *cost,
                          struct rt_moves *moves, struct rt_error *err) {
    (void)params, (void)cost;
    const struct rt_tree_form form = {
        .shape = RT_SHAPE_GROUPS, .degree = group_of(given, roles), .depth = (size_t)given->depth};
    return rt_way_moves_server(form, roles, 0, rank, 0, span->count, moves, err);
}

const struct rt_way rt_way_ps_hier = {
    .name = "ps-hier",
    .help = "ps-sync through proxies: each adds the gradients of its group and passes parameters on",
    .place = {"data", "central", "synchronous", "each with its proxy, proxies with the server",
              "one server over groups"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .moves = moves_of,
};
