/* The options of ways: words that several tables share, reading, and writing them out again for nodes. */
#include "exchange/rules.h"
#include "exchange/ways/ways.h"

#include <math.h>
#include <string.h>

const char *const rt_way_off_on[] = {"off", "on", NULL};
const char *const rt_way_orders[] = {"down", "up", NULL};
const char *const rt_way_mean_sum[] = {"mean", "sum", NULL};
const char *const rt_way_prios[] = {"arrival", "stale", NULL};
const char *const rt_way_bases[] = {"sync", "async", "ssp", NULL};
const char *const rt_way_steps[] = {"push", "clock", NULL};

rt_status rt_way_check_base(const struct rt_way_options *given, struct rt_error *err) {
    const bool sync = given->base == RT_BASE_SYNC, ssp = given->base == RT_BASE_SSP;
    const struct {
        const char *option;
        bool set, read;
        const char *by;
    } all[] = {
        {"s", given->bound != RT_WAY_USUAL_BOUND, ssp, "ssp"},
        {"step", given->whole_clock, ssp, "ssp"},
        {"prio", given->prio != RT_PRIO_ARRIVAL, !sync, "async or base=ssp"},
        {"damp", given->damp > 0, !sync, "async or base=ssp"},
        {"dc", given->compensate > 0, !sync, "async or base=ssp"},
        {"order", given->order != RT_ORDER_UP, sync, "sync"},
        {"reduce", given->reduce != RT_MEAN, sync, "sync"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].set && !all[i].read)
            return rt_fail(err, RT_BAD_INPUT, "%s: is for base=%s and does nothing with base=%s",
                           all[i].option, all[i].by, rt_way_bases[given->base]);
    return RT_OK;
}

const struct rt_rules *rt_way_base_rules(const struct rt_way_options *given) {
    return given->base == RT_BASE_SYNC    ? NULL
           : given->base == RT_BASE_ASYNC ? &rt_rules_async
                                          : &rt_rules_ssp;
}

/* ---- tables ---- */

static bool offers(const struct rt_way *way, const char *option) {
    size_t i = 0;
    while (i < way->option_count && strcmp(way->options[i].name, option) != 0)
        i++;
    return i < way->option_count;
}

/* Why the options of the way inside are without this one; NULL: they are not. */
static const char *why_without(const struct rt_way *way, const char *option) {
    for (const struct rt_way_without *one = way->without; one && one->option; one++)
        if (strcmp(one->option, option) == 0)
            return one->why;
    return NULL;
}

size_t rt_way_table(const struct rt_way *way, const struct rt_way_options *options,
                    struct rt_option table[RT_WAY_MOST_OPTIONS]) {
    const struct rt_way *inner = rt_way_inner(way, options);
    size_t count = 0;
    for (size_t i = 0; i < way->option_count && count < RT_WAY_MOST_OPTIONS; i++)
        table[count++] = way->options[i];
    for (size_t i = 0; inner != way && i < inner->option_count && count < RT_WAY_MOST_OPTIONS; i++) {
        const char *name = inner->options[i].name;
        if (!offers(way, name) && !why_without(way, name))
            table[count++] = inner->options[i];
    }
    return count;
}

/* ---- reading ---- */

/* Those of the way itself, which say what others there are; those are left alone. */
static rt_status read_own(const struct rt_way *way, const struct rt_tree *tree,
                          struct rt_way_options *options, struct rt_error *err) {
    struct rt_tree *kept[RT_WAY_MOST_OPTIONS], own = {0};
    const bool map = tree && tree->kind == RT_TREE_MAP;
    if (map) {
        own = *tree;
        own.items = kept;
        own.count = 0;
        for (size_t i = 0; i < tree->count && own.count < RT_WAY_MOST_OPTIONS; i++)
            if (offers(way, tree->items[i]->key))
                kept[own.count++] = tree->items[i];
    }
    return rt_options_read(way->options, way->option_count, NULL, map ? &own : tree, way->name, options, err);
}

/* An option that there is, but not here, is no slip of the pen. */
static rt_status refuse_foreign(const struct rt_way *way, const struct rt_way *inner,
                                const struct rt_tree *given, struct rt_error *err) {
    const char *option = given->key, *why = why_without(way, option);
    if (offers(way, option))
        return RT_OK;
    if (why)
        return rt_tree_fail(given, err, "%s: %s: %s", way->name, option, why);
    if (offers(inner, option))
        return RT_OK;
    for (const struct rt_way *const *other = rt_ways(); *other; other++)
        if (offers(*other, option))
            return rt_tree_fail(given, err, "%s: %s: exchange=%s has no such option", way->name, option,
                                inner->name);
    return RT_OK;
}

/* Of a way with another one inside: first which that is, then everything by the table of both. */
static rt_status read_both(const struct rt_way *way, const struct rt_tree *tree,
                           struct rt_way_options *options, struct rt_error *err) {
    rt_status status = read_own(way, tree, options, err);
    if (status != RT_OK)
        return status;
    const struct rt_way *inner = way->inner(options);
    for (size_t i = 0; tree && i < tree->count && status == RT_OK; i++)
        status = refuse_foreign(way, inner, tree->items[i], err);
    /* Those that cannot be given here have their defaults too. */
    if (status == RT_OK)
        status = rt_options_read(inner->options, inner->option_count, NULL, NULL, inner->name, options, err);
    if (status != RT_OK)
        return status;
    struct rt_option table[RT_WAY_MOST_OPTIONS];
    const size_t count = rt_way_table(way, options, table);
    char what[80];
    snprintf(what, sizeof what, "%s,exchange=%s", way->name, inner->name);
    return rt_options_read(table, count, NULL, tree, what, options, err);
}

rt_status rt_way_options_read(const struct rt_way *way, const struct rt_tree *tree,
                              struct rt_way_options *options, struct rt_error *err) {
    *options = (struct rt_way_options){0};
    rt_status status =
        way->inner ? read_both(way, tree, options, err)
                   : rt_options_read(way->options, way->option_count, NULL, tree, way->name, options, err);
    /* "inf" is a word of the table, which reads as -1. */
    if (status == RT_OK && options->delta < 0)
        options->delta = (double)INFINITY;
    return status;
}

/* ---- writing ---- */

rt_status rt_way_options_write(const struct rt_way *way, const struct rt_way_options *options,
                               struct rt_tree **tree, struct rt_error *err) {
    struct rt_option table[RT_WAY_MOST_OPTIONS];
    const size_t count = rt_way_table(way, options, table);
    struct rt_tree *map = NULL;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "the master", 0, &map, err);
    for (size_t i = 0; i < count && status == RT_OK; i++) {
        char text[RT_OPTION_TEXT_ROOM];
        struct rt_tree *value = NULL;
        status = rt_tree_create(RT_TREE_SCALAR, rt_option_text(&table[i], options, text), "the master", 0,
                                &value, err);
        if (status == RT_OK)
            status = rt_tree_add(map, table[i].name, value, err);
        if (status != RT_OK)
            rt_tree_destroy(value);
    }
    if (status == RT_OK)
        *tree = map;
    else
        rt_tree_destroy(map);
    return status;
}
