/*
 * Rings side by side, model and data parallel at once: every ring holds the whole network, cut in the same
 * way, and learns from its part of a batch; devices at the same position of their rings hold the same layers
 * and exchange gradients by any other way.
 */
#include "exchange/ways/ways.h"

#define NAME(symbol, name) name,
static const char *const names[] = {RT_WAY_LIST(NAME) NULL};
#undef NAME

static const struct rt_option options[] = {
    {"rings", RT_OPTION_INT, RT_WAY_AT(rings), "2", 1, RT_WAY_COUNT_MAX, .help = "rings side by side"},
    {"exchange", RT_OPTION_CHOICE, RT_WAY_AT(across), "allreduce-ring", .choices = names,
     .help = "how equal positions exchange gradients"},
    RT_WAY_CARRIED,
};

static rt_status check(const struct rt_way_options *given, size_t nodes, struct rt_error *err) {
    if ((uint64_t)given->rings > nodes || nodes % (size_t)given->rings != 0)
        return rt_fail(err, RT_BAD_INPUT, "rings: %zu node%s cannot be %lld rings of equal length", nodes,
                       nodes == 1 ? "" : "s", (long long)given->rings);
    return RT_OK;
}

const struct rt_way rt_way_hybrid = {
    .name = "hybrid",
    .help = "rings side by side, each with the whole network; equal positions exchange gradients",
    .place = {"data and model", "as its exchange", "synchronous",
              "activations in a ring, gradients across rings", "rings side by side"},
    RT_WAY_OPTIONS(options),
    .check = check,
};
