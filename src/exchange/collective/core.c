/* The places that a recursive algorithm works on, and how the others take part. */
#include "exchange/collective/build.h"

#include "base/memory.h"
#include <stdlib.h>

void rt_core_deinit(struct rt_core *core) {
    free(core->ranks);
    *core = (struct rt_core){0};
}

static size_t core_extra(const struct rt_team *team) {
    return team->count - rt_power_below(team->count);
}

/* ---- without runs: neighbours ---- */

static void core_choose_places(const struct rt_team *team, struct rt_core *core, size_t *keeper) {
    const size_t extra = core_extra(team);
    core->team.count = team->count - extra;
    for (size_t i = 0; i < core->team.count; i++)
        keeper[i] = i < extra ? 2 * i : i + extra;
}

/* The place that takes part through ours, or that ours takes part through: *out says which. */
static bool core_has_neighbour(const struct rt_team *team, bool *out) {
    *out = team->place % 2 == 1;
    return team->place < 2 * core_extra(team);
}

static rt_status core_include_neighbour(const struct rt_team *team, size_t first, size_t count,
                                        struct rt_collective *collective, struct rt_error *err) {
    bool out;
    if (!core_has_neighbour(team, &out))
        return RT_OK;
    return out ? rt_collective_send(collective, team, team->place - 1, RT_BUFFER_GRADIENT, first, count, err)
               : rt_collective_sum(collective, team, team->place + 1, RT_BUFFER_GRADIENT, first, count, err);
}

static rt_status core_tell_neighbour(const struct rt_team *team, size_t first, size_t count,
                                     struct rt_collective *collective, struct rt_error *err) {
    bool out;
    if (!core_has_neighbour(team, &out))
        return RT_OK;
    return out ? rt_collective_take(collective, team, team->place - 1, RT_BUFFER_GRADIENT, first, count, err)
               : rt_collective_send(collective, team, team->place + 1, RT_BUFFER_GRADIENT, first, count, err);
}

/* ---- with runs: the places that are not in the core, in their order, get the result from one in it each
 * ---- */

static bool core_has(const struct rt_core *core, uint16_t rank) {
    for (size_t i = 0; i < core->team.count; i++)
        if (core->ranks[i] == rank)
            return true;
    return false;
}

static rt_status core_tell_others(const struct rt_core *core, const struct rt_team *team, size_t first,
                                  size_t count, struct rt_collective *collective, struct rt_error *err) {
    const bool inside = core->team.place < core->team.count;
    size_t others = 0;
    for (size_t i = 0; i < team->count; i++) {
        if (core_has(core, team->ranks[i]))
            continue;
        const size_t teller = others++ % core->team.count;
        if (inside && teller == core->team.place)
            RT_TRY(rt_collective_send(collective, team, i, RT_BUFFER_GRADIENT, first, count, err));
        if (i == team->place)
            RT_TRY(
                rt_collective_take(collective, &core->team, teller, RT_BUFFER_GRADIENT, first, count, err));
    }
    return RT_OK;
}

/* ---- both ---- */

static rt_status core_fill(const struct rt_team *team, size_t *keeper, size_t first, size_t count,
                           struct rt_collective *collective, struct rt_core *core, struct rt_error *err) {
    RT_TRY(rt_alloc(rt_power_below(team->count), sizeof *core->ranks, "the members of an exchange",
                    &core->ranks, err));
    if (team->runs)
        core->team.count = rt_pieces_choose_core(team, keeper);
    else
        core_choose_places(team, core, keeper);
    core->team.ranks = core->ranks;
    core->team.place = core->team.count;
    for (size_t i = 0; i < core->team.count; i++) {
        core->ranks[i] = team->ranks[keeper[i]];
        if (keeper[i] == team->place)
            core->team.place = i;
    }
    return team->runs ? rt_pieces_reduce(team, keeper, core->team.count, first, count, collective, err)
                      : core_include_neighbour(team, first, count, collective, err);
}

rt_status rt_core_enter(const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_core *core, struct rt_error *err) {
    size_t *keeper;
    *core = (struct rt_core){0};
    RT_TRY(rt_alloc(rt_power_below(team->count), sizeof *keeper, "the members of an exchange", &keeper, err));
    rt_status status = core_fill(team, keeper, first, count, collective, core, err);
    free(keeper);
    if (status != RT_OK)
        rt_core_deinit(core);
    return status;
}

rt_status rt_core_leave(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_error *err) {
    return team->runs ? core_tell_others(core, team, first, count, collective, err)
                      : core_tell_neighbour(team, first, count, collective, err);
}
