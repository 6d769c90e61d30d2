/*
 * Recursive doubling: pairs at distance 1, then 2, 4, ... tell each other all they have, and each adds what
 * it hears. The fewest messages, and the most bytes. Both of a pair add the same two terms, so both have the
 * same bits, and the sum is the binary tree over the places.
 */
#include "exchange/moves_make.h"

rt_status rt_moves_doubling(const struct rt_team *team, size_t first, size_t count, struct rt_moves *moves,
                            struct rt_error *err) {
    if (team->place >= team->count)
        return RT_OK;
    const struct rt_core core = rt_core_of(team);
    rt_status status = rt_core_enter(&core, team, first, count, moves, err);
    for (size_t distance = 1; distance < core.size && core.seat < core.size && status == RT_OK;
         distance *= 2) {
        const size_t other = rt_core_place(&core, core.seat ^ distance);
        status = rt_moves_send(moves, team, other, RT_BUFFER_GRADIENT, first, count, err);
        if (status == RT_OK)
            status = rt_moves_sum(moves, team, other, RT_BUFFER_GRADIENT, first, count, err);
    }
    if (status == RT_OK)
        status = rt_core_leave(&core, team, first, count, moves, err);
    return status;
}
