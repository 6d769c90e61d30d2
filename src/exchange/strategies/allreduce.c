/*
 * All-reduce: every worker ends with the same sum of all gradients and takes the same step with an optimizer
 * of its own. There is no server. The strategies differ in the collective that makes the sum.
 */
#include "exchange/strategies/strategies.h"

#include <math.h>

/* The default number of children of a node in a tree. */
enum { USUAL_DEGREE = 2 };

static const struct rt_option options[] = {RT_STRATEGY_COLLECTIVE_OPTIONS};
static const struct rt_option slices_options[] = {RT_STRATEGY_SHARES, RT_STRATEGY_COLLECTIVE_OPTIONS};
static const struct rt_option tree_options[] = {
    {"degree", RT_OPTION_INT, RT_STRATEGY_AT(degree), "2", 1, RT_STRATEGY_COUNT_MAX,
     .help = "workers that send their sums to one above them"},
    RT_STRATEGY_COLLECTIVE_OPTIONS,
};

static size_t allreduce_degree(const struct rt_exchange_options *given) {
    return given->degree > 0 ? (size_t)given->degree : USUAL_DEGREE;
}

static rt_status allreduce_select(enum rt_reduction how, const struct rt_exchange_options *given,
                                  const struct rt_roles *roles, uint16_t rank, const struct rt_span *span,
                                  const struct rt_link_cost *cost, struct rt_collective *collective,
                                  struct rt_error *err) {
    const struct rt_team workers = {.ranks = roles->worker,
                                    .count = roles->workers,
                                    .place = rt_roles_place(roles, rank),
                                    .runs = roles->runs};
    return rt_collective_reduce_all(how, &workers, allreduce_degree(given), 0, span->count, cost, collective,
                                    err);
}

#define ALLREDUCE(function, how)                                                                             \
    static rt_status function(const struct rt_exchange_options *given, const struct rt_roles *roles,         \
                              uint16_t rank, const struct rt_span *span, size_t params,                      \
                              const struct rt_link_cost *cost, struct rt_collective *collective,             \
                              struct rt_error *err) {                                                        \
        (void)params;                                                                                        \
        return allreduce_select(how, given, roles, rank, span, cost, collective, err);                       \
    }

ALLREDUCE(allreduce_auto, RT_REDUCE_AUTO)
ALLREDUCE(allreduce_ring, RT_REDUCE_RING)
ALLREDUCE(allreduce_doubling, RT_REDUCE_DOUBLING)
ALLREDUCE(allreduce_halving, RT_REDUCE_HALVING)
ALLREDUCE(allreduce_tree, RT_REDUCE_TREE)

static double allreduce_ring_delay(const struct rt_exchange_options *given,
                                   const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_ring(terms);
}

static double allreduce_rd_delay(const struct rt_exchange_options *given,
                                 const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_doubling(terms);
}

static double allreduce_hd_delay(const struct rt_exchange_options *given,
                                 const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_halving(terms);
}

static double allreduce_tree_delay(const struct rt_exchange_options *given,
                                   const struct rt_delay_terms *terms) {
    return rt_delay_tree(terms, allreduce_degree(given));
}

static double allreduce_auto_delay(const struct rt_exchange_options *given,
                                   const struct rt_delay_terms *terms) {
    const double large = fmin(rt_delay_ring(terms), rt_delay_halving(terms));
    return fmin(large, fmin(rt_delay_doubling(terms), rt_delay_tree(terms, allreduce_degree(given))));
}

#define PLACE(how)                                                                                           \
    { "data", "replicated", "synchronous", how, "no server" }

const struct rt_exchange_strategy rt_strategy_allreduce_auto = {
    .name = "allreduce-auto",
    .help = "workers add their gradients in whichever of these is fastest, for each span",
    .place = PLACE("all-reduce chosen by predicted time"),
    RT_STRATEGY_OPTIONS(options),
    .can_clip = true,
    .mesh = true,
    .collective = allreduce_auto,
    .delay = allreduce_auto_delay,
};

const struct rt_exchange_strategy rt_strategy_allreduce_ring = {
    .name = "allreduce-ring",
    .help = "workers add their gradients round a ring, a part each; for large models",
    .place = PLACE("ring all-reduce"),
    RT_STRATEGY_OPTIONS(options),
    .can_clip = true,
    .collective = allreduce_ring,
    .delay = allreduce_ring_delay,
};

const struct rt_exchange_strategy rt_strategy_allreduce_rd = {
    .name = "allreduce-rd",
    .help = "workers add whole gradients in pairs, by recursive doubling; for small models",
    .place = PLACE("recursive doubling"),
    RT_STRATEGY_OPTIONS(slices_options),
    .exact = RT_EXACT_BITS,
    .slices = true,
    .can_clip = true,
    .collective = allreduce_doubling,
    .delay = allreduce_rd_delay,
};

const struct rt_exchange_strategy rt_strategy_allreduce_hd = {
    .name = "allreduce-hd",
    .help = "workers add gradients in pairs, half of what is left each time; few messages and bytes",
    .place = PLACE("halving and doubling"),
    RT_STRATEGY_OPTIONS(slices_options),
    .exact = RT_EXACT_BITS,
    .slices = true,
    .can_clip = true,
    .collective = allreduce_halving,
    .delay = allreduce_hd_delay,
};

const struct rt_exchange_strategy rt_strategy_allreduce_tree = {
    .name = "allreduce-tree",
    .help = "workers add their gradients up a tree, and the sum comes down it",
    .place = PLACE("tree all-reduce"),
    RT_STRATEGY_OPTIONS(tree_options),
    .can_clip = true,
    .collective = allreduce_tree,
    .delay = allreduce_tree_delay,
};
