/*
 * Several rings, model and data parallel at once: every ring holds the whole network, cut at the same layers,
 * and learns from its part of a batch, or from batches of its own; devices at the same position of their
 * rings hold the same layers and exchange gradients by any other strategy.
 */
#include "exchange/strategies/strategies.h"

#include "base/sentence.h"
#define NAME(symbol, name) name,
static const char *const names[] = {RT_STRATEGY_LIST(NAME) NULL};
#undef NAME

static const struct rt_option table[] = {
    {"rings", RT_OPTION_INT, RT_STRATEGY_AT(rings), "auto", 1, RT_STRATEGY_COUNT_MAX, .auto_word = "auto",
     .help = "rings side by side; auto: 2 if the nodes can be divided so, else 1"},
    {"exchange", RT_OPTION_CHOICE, RT_STRATEGY_AT(inter_ring), "allreduce-rd", .choices = names,
     .help = "how equal positions exchange gradients"},
};

static const struct rt_exchange_without without[] = {
    {"dedicated", "is not for rings, each of whose nodes has layers and works"},
    {"order", "is not for rings, which exchange a layer whenever its gradient is there"},
    {"shares", "is not for rings, which have equal parts of a batch"},
    {"bucket", "is not for rings, which exchange each layer by itself"},
    {NULL, NULL},
};

size_t rt_exchange_rings(const struct rt_exchange_options *options, size_t nodes) {
    return options->rings > 0 ? (size_t)options->rings : nodes % 2 ? 1 : 2;
}

static const struct rt_exchange_strategy *hybrid_inner(const struct rt_exchange_options *given) {
    return rt_exchange_strategies()[given->inter_ring];
}

rt_status rt_exchange_check_rings(const struct rt_exchange_strategy *strategy, struct rt_error *err) {
    if (!strategy->no_rings)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "exchange: %s %s", strategy->name, strategy->no_rings);
}

static rt_status hybrid_check(const struct rt_exchange_options *given, size_t nodes, struct rt_error *err) {
    const size_t rings = rt_exchange_rings(given, nodes);
    RT_TRY(rt_exchange_check_rings(hybrid_inner(given), err));
    if (rings > nodes || nodes % rings != 0)
        return rt_fail(err, RT_BAD_INPUT, "rings: %s cannot be %s of equal length", RT_COUNTED(nodes, "node"),
                       RT_COUNTED(rings, "ring"));
    if (rings == 1 && (rt_exchange_rules(hybrid_inner(given), given) || (given->cut > 0 && given->cut < 1)))
        return rt_fail(err, RT_BAD_INPUT, "exchange: %s is for several rings, and there is one of %s",
                       hybrid_inner(given)->name, RT_COUNTED(nodes, "node"));
    if (rings > 1 && given->cut > 0 && given->cut < 1 && given->base == RT_BASE_SSP && given->whole_clock)
        return rt_fail(
            err, RT_BAD_INPUT,
            "step: not clock between rings that cut epochs short: each place would drop others, and "
            "wait for them");
    if (rings > 1 && given->servers > 1 && rt_exchange_rules(hybrid_inner(given), given))
        return rt_fail(
            err, RT_BAD_INPUT,
            "k: with exchange=%s every place of the rings has one server, so that each node of the "
            "first ring is one; more are not supported",
            hybrid_inner(given)->name);
    if (rt_exchange_is_nested(hybrid_inner(given), given))
        return rt_fail(
            err, RT_BAD_INPUT,
            "base: with exchange=%s groups of rings have no pace of their own; for rings that have "
            "take exchange=ps-%s",
            hybrid_inner(given)->name, rt_exchange_bases[given->base]);
    return RT_OK;
}

const struct rt_exchange_strategy rt_strategy_hybrid = {
    .name = "hybrid",
    .help = "rings side by side, each with the whole network; equal positions exchange gradients",
    .place = {"data and model", "replicated across rings, or central", "as its exchange",
              "activations in a ring, gradients across rings", "rings side by side"},
    RT_STRATEGY_OPTIONS(table),
    .can_clip = true,
    .inner = hybrid_inner,
    .without = without,
    .check = hybrid_check,
};
