/*
 * What each all-reduce is expected to take, and the choice by it: the bounds of exchange/delay.h, and what
 * our algorithms add to them where the workers are no power of two.
 */
#include "exchange/collective/build.h"
#include "exchange/delay.h"

#include <math.h>

enum { BINARY = 2 };

static size_t choice_tree_degree(size_t degree) {
    return degree > 0 ? degree : BINARY;
}

/* Where nothing was measured: a local network of 1 Gbit/s, and a small processor. */
static struct rt_link_cost choice_assume(const struct rt_link_cost *cost) {
    struct rt_link_cost assumed = *cost;
    assumed.latency = cost->latency > 0 ? cost->latency : 1e-4;
    assumed.bandwidth = cost->bandwidth > 0 ? cost->bandwidth : 1.25e8;
    assumed.adding = cost->adding > 0 ? cost->adding : 1e-9;
    return assumed;
}

double rt_reduction_seconds(enum rt_reduction how, size_t n, size_t count, size_t degree,
                            const struct rt_link_cost *cost) {
    if (n < 2)
        return 0;
    const struct rt_link_cost assumed = choice_assume(cost);
    const struct rt_delay_terms all = {.workers = n,
                                       .transfer = (double)count * sizeof(float) / assumed.bandwidth,
                                       .adding = (double)count * assumed.adding,
                                       .latency = assumed.latency};
    struct rt_delay_terms core = all;
    core.workers = rt_power_below(n);
    /* Those beyond a power of two are taken in, and told the result. */
    const double around = core.workers < n ? 2 * (all.latency + all.transfer) + all.adding : 0;
    switch (how) {
    case RT_REDUCE_RING:
        return rt_delay_ring(&all);
    case RT_REDUCE_DOUBLING:
        return around + rt_delay_doubling(&core);
    case RT_REDUCE_HALVING:
        return around + rt_delay_halving(&core);
    case RT_REDUCE_TREE:
        return rt_delay_tree(&all, choice_tree_degree(degree));
    case RT_REDUCE_AUTO:
        break;
    }
    return rt_reduction_seconds(rt_reduction_choose(n, count, degree, cost), n, count, degree, cost);
}

enum rt_reduction rt_reduction_choose(size_t n, size_t count, size_t degree,
                                      const struct rt_link_cost *cost) {
    /* In this order: of equal ones the first, and of those the first two keep the binary tree. */
    static const enum rt_reduction all[] = {RT_REDUCE_DOUBLING, RT_REDUCE_HALVING, RT_REDUCE_RING,
                                            RT_REDUCE_TREE};
    enum rt_reduction best = all[0];
    double least = INFINITY;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const double seconds = rt_reduction_seconds(all[i], n, count, degree, cost);
        if (seconds < least) {
            least = seconds;
            best = all[i];
        }
    }
    return best;
}

rt_status rt_collective_reduce_all(enum rt_reduction how, const struct rt_team *team, size_t degree,
                                   size_t first, size_t count, const struct rt_link_cost *cost,
                                   struct rt_collective *collective, struct rt_error *err) {
    const struct rt_tree_form form = {
        .shape = RT_SHAPE_ARY, .degree = choice_tree_degree(degree), .root_contributes = true};
    rt_status status;
    if (how == RT_REDUCE_AUTO)
        how = rt_reduction_choose(team->count, count, degree, cost);
    switch (how) {
    case RT_REDUCE_RING:
        return rt_collective_ring(team, first, count, collective, err);
    case RT_REDUCE_HALVING:
        return rt_collective_halving(team, first, count, collective, err);
    case RT_REDUCE_TREE:
        status = rt_collective_reduce(team, &form, first, count, collective, err);
        if (status == RT_OK)
            status = rt_collective_broadcast(team, &form, first, count, RT_BUFFER_GRADIENT, collective, err);
        return status;
    case RT_REDUCE_AUTO:
    case RT_REDUCE_DOUBLING:
        break;
    }
    return rt_collective_doubling(team, first, count, collective, err);
}
