/*
 * Rings side by side, model and data parallel at once: every ring holds the whole network, cut in the same
 * way, and learns from its part of a batch; devices at the same position of their rings hold the same layers
 * and exchange gradients by any other way that keeps them together.
 */
#include "exchange/ways/ways.h"

#include <string.h>

#define NAME(symbol, name) name,
static const char *const names[] = {RT_WAY_LIST_CARRIED(NAME) NULL};
#undef NAME

static const struct rt_option table[] = {
    {"rings", RT_OPTION_INT, RT_WAY_AT(rings), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "rings side by side; auto: 2 if the nodes can be divided so, else 1"},
    {"exchange", RT_OPTION_CHOICE, RT_WAY_AT(across), "allreduce-rd", .choices = names,
     .help = "how equal positions exchange gradients"},
    {"k", RT_OPTION_INT, RT_WAY_AT(servers), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "of exchange=ps-shard"},
    {"depth", RT_OPTION_INT, RT_WAY_AT(depth), "auto", 1, 16, .auto_word = "auto",
     .help = "of exchange=ps-hier"},
    {"group", RT_OPTION_INT, RT_WAY_AT(group), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "of exchange=ps-hier"},
    {"degree", RT_OPTION_INT, RT_WAY_AT(degree), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "of exchange=allreduce-tree"},
    RT_WAY_WFBP,
    RT_WAY_REDUCE,
};

size_t rt_way_rings(const struct rt_way_options *options, size_t nodes) {
    return options->rings > 0 ? (size_t)options->rings : nodes % 2 ? 1 : 2;
}

static bool offers(const struct rt_way *way, const char *option) {
    size_t i = 0;
    while (i < way->option_count && strcmp(way->options[i].name, option) != 0)
        i++;
    return i < way->option_count;
}

rt_status rt_way_across(const struct rt_way_options *hybrid, const struct rt_way **way,
                        struct rt_way_options *options, struct rt_error *err) {
    *way = rt_ways()[hybrid->across];
    rt_status status = rt_way_options_read(*way, NULL, options, err);
    if (status != RT_OK)
        return status;
    options->reduce = hybrid->reduce;
    options->wfbp = hybrid->wfbp;
    const struct {
        const char *option;
        int64_t given, *its;
    } passed[] = {{"k", hybrid->servers, &options->servers},
                  {"depth", hybrid->depth, &options->depth},
                  {"group", hybrid->group, &options->group},
                  {"degree", hybrid->degree, &options->degree}};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (passed[i].given < 0)
            continue;
        if (!offers(*way, passed[i].option))
            return rt_fail(err, RT_BAD_INPUT, "%s: exchange=%s has no such option", passed[i].option,
                           (*way)->name);
        *passed[i].its = passed[i].given;
    }
    return RT_OK;
}

static rt_status check(const struct rt_way_options *given, size_t nodes, struct rt_error *err) {
    const size_t rings = rt_way_rings(given, nodes);
    if (rings > nodes || nodes % rings != 0)
        return rt_fail(err, RT_BAD_INPUT, "rings: %zu node%s cannot be %zu rings of equal length", nodes,
                       nodes == 1 ? "" : "s", rings);
    const struct rt_way *across;
    struct rt_way_options its;
    rt_status status = rt_way_across(given, &across, &its, err);
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
