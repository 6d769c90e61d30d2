/*
 * Rings side by side, model and data parallel at once: every ring holds the whole network, cut in the same
 * way, and learns from its part of a batch; devices at the same position of their rings hold the same layers
 * and exchange gradients by any other way.
 */
#include "exchange/ways/ways.h"

#define NAME(symbol, name) name,
static const char *const names[] = {RT_WAY_LIST(NAME) NULL};
#undef NAME

static const struct rt_option table[] = {
    {"rings", RT_OPTION_INT, RT_WAY_AT(rings), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "rings side by side; auto: 2 if the nodes can be divided so, else 1"},
    {"exchange", RT_OPTION_CHOICE, RT_WAY_AT(across), "allreduce-rd", .choices = names,
     .help = "how equal positions exchange gradients"},
    RT_WAY_WFBP,
    RT_WAY_REDUCE,
};

size_t rt_way_rings(const struct rt_way_options *options, size_t nodes) {
    return options->rings > 0 ? (size_t)options->rings : nodes % 2 ? 1 : 2;
}

static rt_status check(const struct rt_way_options *given, size_t nodes, struct rt_error *err) {
    const size_t rings = rt_way_rings(given, nodes);
    if (rings > nodes || nodes % rings != 0)
        return rt_fail(err, RT_BAD_INPUT, "rings: %zu node%s cannot be %zu rings of equal length", nodes,
                       nodes == 1 ? "" : "s", rings);
    const struct rt_way *across = rt_ways()[given->across];
    struct rt_way_options its;
    rt_status status = rt_way_options_read(across, NULL, &its, err);
    if (status == RT_OK && (!across->moves || rt_way_rules(across, &its)))
        return rt_fail(
            err, RT_BAD_INPUT,
            "exchange: rings stay together, so they exchange gradients by a synchronous way, which "
            "%s is not",
            across->name);
    return status == RT_OK ? rt_way_check(across, &its, rings, 0, err) : status;
}

const struct rt_way rt_way_hybrid = {
    .name = "hybrid",
    .help = "rings side by side, each with the whole network; equal positions exchange gradients",
    .place = {"data and model", "replicated across rings", "synchronous",
              "activations in a ring, gradients across rings", "rings side by side"},
    RT_WAY_OPTIONS(table),
    .can_clip = true,
    .check = check,
};
