/*
 * Groups of workers that share a batch; a server sees each group as one worker. A group consists of
 * neighbouring workers; the last one may be smaller.
 */
#include "exchange/strategies/strategies.h"

bool rt_exchange_is_nested(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options) {
    return strategy->group && rt_exchange_is_asynchronous(strategy, options);
}

static struct rt_team strategy_group_of(const struct rt_roles *roles, size_t size, size_t place) {
    const size_t first = place / size * size, left = roles->workers - first;
    return (struct rt_team){
        .ranks = roles->worker + first, .count = left < size ? left : size, .place = place - first};
}

struct rt_team rt_exchange_team(const struct rt_exchange_strategy *strategy,
                                const struct rt_exchange_options *options, const struct rt_roles *roles,
                                uint16_t rank) {
    const size_t place = rt_roles_place(roles, rank);
    if (!rt_exchange_is_asynchronous(strategy, options))
        return (struct rt_team){.ranks = roles->worker, .count = roles->workers, .place = place};
    if (place == roles->workers)
        return (struct rt_team){.ranks = roles->worker, .count = 1, .place = 1};
    return strategy_group_of(
        roles, rt_exchange_is_nested(strategy, options) ? strategy->group(options, roles->workers) : 1,
        place);
}

struct rt_slice_part rt_exchange_part(const struct rt_exchange_strategy *strategy,
                                      const struct rt_exchange_options *options, const struct rt_roles *roles,
                                      size_t shards, uint16_t rank) {
    const struct rt_team team = rt_exchange_team(strategy, options, roles, rank);
    if (team.place == team.count)
        return (struct rt_slice_part){.all = 1};
    if (roles->runs)
        return (struct rt_slice_part){(uint32_t)shards, roles->runs[team.place]};
    return rt_slices_equal_part(shards, team.count, team.place);
}

struct rt_roles rt_exchange_clients(const struct rt_exchange_strategy *strategy,
                                    const struct rt_exchange_options *options, const struct rt_roles *roles,
                                    uint16_t *proxy) {
    struct rt_roles clients = *roles;
    const size_t step =
        rt_exchange_is_nested(strategy, options) ? strategy->group(options, roles->workers) : 1;
    clients.workers = 0;
    clients.worker = proxy;
    for (size_t place = 0; place < roles->workers; place += step, clients.workers++)
        if (proxy)
            proxy[clients.workers] = roles->worker[place];
    return clients;
}

bool rt_exchange_is_proxy_of(const struct rt_exchange_strategy *strategy,
                             const struct rt_exchange_options *options, const struct rt_roles *roles,
                             uint16_t a, uint16_t b) {
    const struct rt_team team = rt_exchange_team(strategy, options, roles, b);
    return team.place > 0 && team.place < team.count && team.ranks[0] == a;
}
