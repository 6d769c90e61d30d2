/*
 * All-reduce: every worker ends with the same sum of all gradients and takes the same step with an optimizer
 * of its own. There is no server. The strategies differ in the collective that makes the sum.
 */
#include "exchange/strategies/strategies.h"

/* The default number of children of a node in a tree. */
enum { USUAL_DEGREE = 2 };

static const struct rt_option options[] = {RT_STRATEGY_COLLECTIVE_OPTIONS};
static const struct rt_option slices_options[] = {RT_STRATEGY_SHARES, RT_STRATEGY_COLLECTIVE_OPTIONS};
static const struct rt_option tree_options[] = {
    {"degree", RT_OPTION_INT, RT_STRATEGY_AT(degree), "2", 1, RT_STRATEGY_COUNT_MAX,
     .help = "workers that send their sums to one above them"},
    RT_STRATEGY_COLLECTIVE_OPTIONS,
};

static rt_status allreduce_select(enum rt_reduction how, const struct rt_exchange_options *given,
                                  const struct rt_roles *roles, uint16_t rank, const struct rt_span *span,
                                  const struct rt_link_cost *cost, struct rt_collective *collective,
                                  struct rt_error *err) {
    const struct rt_team workers = {.ranks = roles->worker,
                                    .count = roles->workers,
                                    .place = rt_roles_place(roles, rank),
                                    .runs = roles->runs};
    const size_t degree = given->degree > 0 ? (size_t)given->degree : USUAL_DEGREE;
    return rt_collective_reduce_all(how, &workers, degree, 0, span->count, cost, collective, err);
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
};

const struct rt_exchange_strategy rt_strategy_allreduce_ring = {
    .name = "allreduce-ring",
    .help = "workers add their gradients round a ring, a part each; for large models",
    .place = PLACE("ring all-reduce"),
    RT_STRATEGY_OPTIONS(options),
    .can_clip = true,
    .collective = allreduce_ring,
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
};

const struct rt_exchange_strategy rt_strategy_allreduce_tree = {
    .name = "allreduce-tree",
    .help = "workers add their gradients up a tree, and the sum comes down it",
    .place = PLACE("tree all-reduce"),
    RT_STRATEGY_OPTIONS(tree_options),
    .can_clip = true,
    .collective = allreduce_tree,
};
