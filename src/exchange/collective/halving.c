/*
 * Halving and doubling: pairs at distance 1, then 2, 4, ... split what they have in two, each gives the other
 * one half and adds the half it gets; so each ends with one part of the sum. Then the same way back, with
 * complete parts. As few bytes as the ring, in as few rounds as twice recursive doubling.
 *
 * The nearest come first, so that every float is summed in the binary tree over the places.
 */
#include "exchange/collective/build.h"

struct range {
    size_t first, count;
};

/* The half that an index of the core keeps at this distance: the lower index keeps the first half. */
static struct range halving_half(struct range whole, bool upper) {
    size_t from, end;
    rt_collective_part(whole.count, 2, upper, &from, &end);
    return (struct range){whole.first + from, end - from};
}

/* The range of an index of the core after halving at all distances below this one. */
static struct range halving_range_at(struct range whole, size_t inflight, size_t distance) {
    for (size_t d = 1; d < distance; d *= 2)
        whole = halving_half(whole, (inflight & d) != 0);
    return whole;
}

static rt_status halving_reduce(const struct rt_team *core, struct range whole,
                                struct rt_collective *collective, struct rt_error *err) {
    for (size_t distance = 1; distance < core->count; distance *= 2) {
        const size_t other = core->place ^ distance;
        const bool upper = (core->place & distance) != 0;
        const struct range given = halving_half(whole, !upper);
        whole = halving_half(whole, upper);
        RT_TRY(
            rt_collective_send(collective, core, other, RT_BUFFER_GRADIENT, given.first, given.count, err));
        RT_TRY(rt_collective_sum(collective, core, other, RT_BUFFER_GRADIENT, whole.first, whole.count, err));
    }
    return RT_OK;
}

static rt_status halving_collect(const struct rt_team *core, struct range whole,
                                 struct rt_collective *collective, struct rt_error *err) {
    for (size_t distance = core->count / 2; distance > 0; distance /= 2) {
        const size_t other = core->place ^ distance;
        const bool upper = (core->place & distance) != 0;
        const struct range both = halving_range_at(whole, core->place, distance);
        const struct range mine = halving_half(both, upper), others = halving_half(both, !upper);
        RT_TRY(rt_collective_send(collective, core, other, RT_BUFFER_GRADIENT, mine.first, mine.count, err));
        RT_TRY(
            rt_collective_take(collective, core, other, RT_BUFFER_GRADIENT, others.first, others.count, err));
    }
    return RT_OK;
}

rt_status rt_collective_halving(const struct rt_team *team, size_t first, size_t count,
                                struct rt_collective *collective, struct rt_error *err) {
    struct rt_core core;
    if (team->place >= team->count)
        return RT_OK;
    RT_TRY(rt_core_enter(team, first, count, collective, &core, err));
    const struct range whole = {first, count};
    rt_status status = RT_OK;
    if (core.team.place < core.team.count) {
        status = halving_reduce(&core.team, whole, collective, err);
        if (status == RT_OK)
            status = halving_collect(&core.team, whole, collective, err);
    }
    if (status == RT_OK)
        status = rt_core_leave(&core, team, first, count, collective, err);
    rt_core_deinit(&core);
    return status;
}
