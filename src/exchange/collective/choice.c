/*
 * What each all-reduce is expected to take, and the choice by it. T is the time of the whole range on a link,
 * R the time to add it, L the latency of a message: the formulas are in docs/collectives.md.
 */
#include "exchange/collective/build.h"

#include <math.h>

enum { BINARY = 2 };

static size_t choice_tree_degree(size_t degree) {
    return degree > 0 ? degree : BINARY;
}

/* Levels below the root of a tree of this degree. */
static size_t choice_tree_depth(size_t n, size_t degree) {
    size_t depth = 0, last = n - 1;
    for (; last > 0; last = (last - 1) / degree)
        depth++;
    return depth;
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
    const double T = (double)count * sizeof(float) / assumed.bandwidth;
    const double R = (double)count * assumed.adding, L = assumed.latency;
    const double others = (double)(n - 1);
    const size_t core = rt_power_below(n);
    const double rounds = rt_power_log(core);
    /* Those beyond a power of two are taken in, and told the result. */
    const double around = core < n ? 2 * (L + T) + R : 0;
    const double halves = (double)(core - 1) / (double)core;
    const size_t d = choice_tree_degree(degree), depth = choice_tree_depth(n, d);
    const double children = (double)(d < n - 1 ? d : n - 1);
    switch (how) {
    case RT_REDUCE_RING:
        return 2 * others * L + others / (double)n * (2 * T + R);
    case RT_REDUCE_DOUBLING:
        return around + rounds * (L + T + R);
    case RT_REDUCE_HALVING:
        return around + 2 * rounds * L + halves * (2 * T + R);
    case RT_REDUCE_TREE:
        return 2 * (double)depth * L + (double)depth * children * (2 * T + R);
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
