/*
 * Recursive doubling: pairs at distance 1, then 2, 4, ... tell each other all they have, and each adds what
 * it hears. The fewest messages, and the most bytes. Both of a pair add the same two terms, so both have the
 * same bits, and the sum is the binary tree over the places, or over the slices of which they have subtrees.
 */
#include "exchange/collective/build.h"

static rt_status doubling_reduce(const struct rt_team *core, size_t first, size_t count,
                                 struct rt_collective *collective, struct rt_error *err) {
    for (size_t distance = 1; distance < core->count && core->place < core->count; distance *= 2) {
        const size_t other = core->place ^ distance;
        RT_TRY(rt_collective_send(collective, core, other, RT_BUFFER_GRADIENT, first, count, err));
        RT_TRY(rt_collective_sum(collective, core, other, RT_BUFFER_GRADIENT, first, count, err));
    }
    return RT_OK;
}

rt_status rt_collective_doubling(const struct rt_team *team, size_t first, size_t count,
                                 struct rt_collective *collective, struct rt_error *err) {
    struct rt_core core;
    if (team->place >= team->count)
        return RT_OK;
    RT_TRY(rt_core_enter(team, first, count, collective, &core, err));
    rt_status status = doubling_reduce(&core.team, first, count, collective, err);
    if (status == RT_OK)
        status = rt_core_leave(&core, team, first, count, collective, err);
    rt_core_deinit(&core);
    return status;
}
