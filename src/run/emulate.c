/*
 * cluster.slowdown is a factor for all local processes; or a list: a factor for each, or none, and behind
 * them changes on the way, as {node: 2, from_update: 500, factor: 4}.
 */
#include "run/emulate.h"

#include "base/memory.h"
#include "base/option.h"
#include "base/sentence.h"
#include <stddef.h>
#include <stdlib.h>

struct change {
    int64_t node, from_update;
    double factor;
};

#define AT(field) offsetof(struct change, field)
static const struct rt_option change_options[] = {
    {"node", RT_OPTION_INT, AT(node), NULL, 0, 1023, .help = "the local process; the master is 0"},
    {"from_update", RT_OPTION_INT, AT(from_update), NULL, 1, 1e15, .help = "the update it begins with"},
    {"factor", RT_OPTION_REAL, AT(factor), NULL, 1, 1e6, .help = "how many times slower"},
};
#undef AT

static rt_status emulate_read_factor(const struct rt_tree *item, double *factor, struct rt_error *err) {
    if (item->kind == RT_TREE_SCALAR && rt_parse_real(item->text, factor) && rt_pace_is_factor(*factor))
        return RT_OK;
    return rt_tree_fail(item, err, "cluster.slowdown: a factor is a number from 1 to 1000000");
}

static rt_status emulate_read_change(const struct rt_tree *item, struct rt_pace *paces, size_t nodes,
                                     struct rt_error *err) {
    struct change change;
    struct rt_error own;
    rt_status status = rt_options_read(change_options, sizeof change_options / sizeof *change_options, NULL,
                                       item, "cluster.slowdown", &change, err);
    if (status != RT_OK)
        return status;
    if ((size_t)change.node >= nodes)
        return rt_tree_fail(item, err, "cluster.slowdown: there is no local process %lld: they are 0 to %zu",
                            (long long)change.node, nodes - 1);
    if (rt_pace_add(&paces[change.node], (uint64_t)change.from_update, change.factor, &own) != RT_OK)
        return rt_tree_fail(item, err, "cluster.slowdown of process %lld %s", (long long)change.node,
                            own.text);
    return RT_OK;
}

rt_status rt_emulate_paces(const struct rt_spec *spec, struct rt_pace *paces, struct rt_error *err) {
    const struct rt_tree *tree = spec->cluster.slowdown;
    const size_t nodes = (size_t)spec->cluster.nodes;
    for (size_t i = 0; i < nodes; i++)
        paces[i] = (struct rt_pace){.first = 1};
    if (!tree)
        return RT_OK;
    rt_status status = RT_OK;
    if (tree->kind == RT_TREE_SCALAR)
        status = emulate_read_factor(tree, &paces[0].first, err);
    for (size_t i = 1; tree->kind == RT_TREE_SCALAR && i < nodes; i++)
        paces[i].first = paces[0].first;
    size_t factors = 0;
    while (tree->kind == RT_TREE_LIST && factors < tree->count && tree->items[factors]->kind != RT_TREE_MAP)
        factors++;
    if (tree->kind == RT_TREE_MAP || (factors != nodes && factors > 0) ||
        (tree->kind == RT_TREE_LIST && tree->count == 0))
        return rt_tree_fail(tree, err,
                            "cluster.slowdown is a factor, or a list of %s, %s, which changes such "
                            "as {node: %zu, from_update: 500, factor: 4} may follow",
                            RT_COUNTED(nodes, "factor"),
                            nodes == 1 ? "for the one process" : "one for each local process", nodes - 1);
    for (size_t i = 0; status == RT_OK && i < factors; i++)
        status = emulate_read_factor(tree->items[i], &paces[i].first, err);
    for (size_t i = factors; status == RT_OK && tree->kind == RT_TREE_LIST && i < tree->count; i++)
        status = emulate_read_change(tree->items[i], paces, nodes, err);
    return status;
}

static const struct rt_tree *emulate_of_process(const struct rt_tree *tree, size_t process) {
    return tree->kind == RT_TREE_LIST ? tree->items[process] : tree;
}

/* One value for all local processes, or a list with one for each. */
static rt_status emulate_read_link_values(const struct rt_tree *tree, size_t nodes, const char *key,
                                          const char *form, bool (*parse)(const char *text, double *value),
                                          struct rt_error *err) {
    double value;
    if (tree->kind == RT_TREE_LIST && tree->count != nodes)
        return rt_tree_fail(
            tree, err, "cluster.%s is one value, or a list of %zu, one for each local process", key, nodes);
    for (size_t i = 0; i < nodes; i++) {
        const struct rt_tree *item = emulate_of_process(tree, i);
        if (item->kind != RT_TREE_SCALAR || !parse(item->text, &value))
            return rt_tree_fail(item, err, "cluster.%s must be %s%s%.100s%s", key, form,
                                item->kind == RT_TREE_SCALAR ? "; not '" : "",
                                item->kind == RT_TREE_SCALAR ? item->text : "",
                                item->kind == RT_TREE_SCALAR ? "'" : "");
    }
    return RT_OK;
}

rt_status rt_emulate_links(const struct rt_spec *spec, struct rt_emulated_link *links, struct rt_error *err) {
    const struct rt_tree *bandwidth = spec->cluster.bandwidth, *latency = spec->cluster.latency;
    const size_t nodes = (size_t)spec->cluster.nodes;
    rt_status status = RT_OK;
    if (bandwidth)
        status = emulate_read_link_values(bandwidth, nodes, "bandwidth", RT_BANDWIDTH_FORM,
                                          rt_bandwidth_parse, err);
    if (status == RT_OK && latency)
        status = emulate_read_link_values(latency, nodes, "latency", RT_LATENCY_FORM, rt_latency_parse, err);
    for (size_t i = 0; status == RT_OK && i < nodes; i++)
        links[i] =
            (struct rt_emulated_link){.bandwidth = bandwidth ? emulate_of_process(bandwidth, i)->text : NULL,
                                      .latency = latency ? emulate_of_process(latency, i)->text : NULL};
    return status;
}

rt_status rt_emulate_master(const struct rt_spec *spec, struct rt_pace *pace, struct rt_error *err) {
    const size_t nodes = (size_t)spec->cluster.nodes;
    struct rt_pace *paces = NULL;
    struct rt_emulated_link *links = NULL;
    rt_status status = rt_alloc(nodes, sizeof *paces, "the nodes", &paces, err);
    if (status == RT_OK)
        status = rt_alloc(nodes, sizeof *links, "the nodes", &links, err);
    if (status == RT_OK)
        status = rt_emulate_paces(spec, paces, err);
    if (status == RT_OK)
        status = rt_emulate_links(spec, links, err);
    if (status == RT_OK)
        *pace = paces[0];
    free(paces);
    free(links);
    return status;
}
