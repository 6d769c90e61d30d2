/*
 * Recursive doubling: pairs at distance 1, then 2, 4, ... tell each other all they have, and each adds what
 * it hears. The fewest messages, and the most bytes. Both of a pair add the same two terms, so both have the
 * same bits, and the sum is the binary tree over the places.
 */
#include "exchange/collective/build.h"

rt_status rt_collective_doubling(const struct rt_team *team, size_t first, size_t count,
                                 struct rt_collective *collective, struct rt_error *err) {
    if (team->place >= team->count)
        return RT_OK;
    const struct rt_core core = rt_core_of(team);
    rt_status status = rt_core_enter(&core, team, first, count, collective, err);
    for (size_t distance = 1; distance < core.size && core.inflight < core.size && status == RT_OK;
         distance *= 2) {
        const size_t other = rt_core_place(&core, core.inflight ^ distance);
        status = rt_collective_send(collective, team, other, RT_BUFFER_GRADIENT, first, count, err);
        if (status == RT_OK)
            status = rt_collective_sum(collective, team, other, RT_BUFFER_GRADIENT, first, count, err);
    }
    if (status == RT_OK)
        status = rt_core_leave(&core, team, first, count, collective, err);
    return status;
}
