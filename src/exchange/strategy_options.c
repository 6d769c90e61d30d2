/* The options of strategies: value names shared by several tables, parsing, and writing them for the nodes.
 */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

#include <math.h>
#include <string.h>

const char *const rt_exchange_off_on[] = {"off", "on", NULL};
const char *const rt_exchange_orders[] = {"down", "up", NULL};
const char *const rt_exchange_mean_sum[] = {"mean", "sum", NULL};
const char *const rt_exchange_prios[] = {"arrival", "stale", NULL};
const char *const rt_exchange_bases[] = {"sync", "async", "ssp", NULL};
const char *const rt_exchange_shares[] = {"auto", "equal", NULL};
const char *const rt_exchange_steps[] = {"push", "clock", NULL};

rt_status rt_exchange_check_base(const struct rt_exchange_options *given, struct rt_error *err) {
    const bool sync = given->base == RT_BASE_SYNC, ssp = given->base == RT_BASE_SSP;
    const struct {
        const char *option;
        bool set, read;
        const char *by;
    } all[] = {
        {"s", given->bound != RT_STRATEGY_USUAL_BOUND, ssp, "ssp"},
        {"step", given->whole_clock, ssp, "ssp"},
        {"prio", given->prio != RT_PRIO_ARRIVAL, !sync, "async or base=ssp"},
        {"damp", given->damp > 0, !sync, "async or base=ssp"},
        {"dc", given->compensate > 0, !sync, "async or base=ssp"},
        {"order", given->order != RT_ORDER_UP, sync, "sync"},
        {"reduce", given->reduce != RT_MEAN, sync, "sync"},
        {"shares", given->shares != RT_SHARES_AUTO, sync, "sync"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].set && !all[i].read)
            return rt_fail(err, RT_BAD_INPUT, "%s: is for base=%s and does nothing with base=%s",
                           all[i].option, all[i].by, rt_exchange_bases[given->base]);
    return RT_OK;
}

const struct rt_rules *rt_exchange_base_rules(const struct rt_exchange_options *given) {
    return given->base == RT_BASE_SYNC    ? NULL
           : given->base == RT_BASE_ASYNC ? &rt_rules_async
                                          : &rt_rules_ssp;
}

/* ---- tables ---- */

static bool strategy_offers(const struct rt_exchange_strategy *strategy, const char *option) {
    size_t i = 0;
    while (i < strategy->option_count && strcmp(strategy->options[i].name, option) != 0)
        i++;
    return i < strategy->option_count;
}

/* Why the options of the strategy inside are without this one; NULL: they are not. */
static const char *strategy_why_without(const struct rt_exchange_strategy *strategy, const char *option) {
    for (const struct rt_exchange_without *one = strategy->without; one && one->option; one++)
        if (strcmp(one->option, option) == 0)
            return one->why;
    return NULL;
}

size_t rt_exchange_table(const struct rt_exchange_strategy *strategy,
                         const struct rt_exchange_options *options,
                         struct rt_option table[RT_STRATEGY_MOST_OPTIONS]) {
    const struct rt_exchange_strategy *inner = rt_exchange_inner(strategy, options);
    size_t count = 0;
    for (size_t i = 0; i < strategy->option_count && count < RT_STRATEGY_MOST_OPTIONS; i++)
        table[count++] = strategy->options[i];
    for (size_t i = 0; inner != strategy && i < inner->option_count && count < RT_STRATEGY_MOST_OPTIONS;
         i++) {
        const char *name = inner->options[i].name;
        if (!strategy_offers(strategy, name) && !strategy_why_without(strategy, name))
            table[count++] = inner->options[i];
    }
    return count;
}

/* ---- reading ---- */

/* Those of the strategy itself, which say what others there are; those are left alone. */
static rt_status strategy_read_own(const struct rt_exchange_strategy *strategy, const struct rt_tree *tree,
                                   struct rt_exchange_options *options, struct rt_error *err) {
    struct rt_tree *kept[RT_STRATEGY_MOST_OPTIONS], own = {0};
    const bool map = tree && tree->kind == RT_TREE_MAP;
    if (map) {
        own = *tree;
        own.items = kept;
        own.count = 0;
        for (size_t i = 0; i < tree->count && own.count < RT_STRATEGY_MOST_OPTIONS; i++)
            if (strategy_offers(strategy, tree->items[i]->key))
                kept[own.count++] = tree->items[i];
    }
    return rt_options_read(strategy->options, strategy->option_count, NULL, map ? &own : tree, strategy->name,
                           options, err);
}

/* The option exists but does not apply here: says why, instead of guessing a misspelling. */
static rt_status strategy_refuse_foreign(const struct rt_exchange_strategy *strategy,
                                         const struct rt_exchange_strategy *inner,
                                         const struct rt_tree *given, struct rt_error *err) {
    const char *option = given->key, *why = strategy_why_without(strategy, option);
    if (strategy_offers(strategy, option))
        return RT_OK;
    if (why)
        return rt_tree_fail(given, err, "%s: %s: %s", strategy->name, option, why);
    if (strategy_offers(inner, option))
        return RT_OK;
    for (const struct rt_exchange_strategy *const *other = rt_exchange_strategies(); *other; other++)
        if (strategy_offers(*other, option))
            return rt_tree_fail(given, err, "%s: %s: exchange=%s has no such option", strategy->name, option,
                                inner->name);
    return RT_OK;
}

/* Of a strategy with another one inside: first which that is, then everything by the table of both. */
static rt_status strategy_read_both(const struct rt_exchange_strategy *strategy, const struct rt_tree *tree,
                                    struct rt_exchange_options *options, struct rt_error *err) {
    rt_status status = strategy_read_own(strategy, tree, options, err);
    if (status != RT_OK)
        return status;
    const struct rt_exchange_strategy *inner = strategy->inner(options);
    for (size_t i = 0; tree && i < tree->count && status == RT_OK; i++)
        status = strategy_refuse_foreign(strategy, inner, tree->items[i], err);
    /* Those that cannot be given here have their defaults too. */
    if (status == RT_OK)
        status = rt_options_read(inner->options, inner->option_count, NULL, NULL, inner->name, options, err);
    if (status != RT_OK)
        return status;
    struct rt_option table[RT_STRATEGY_MOST_OPTIONS];
    const size_t count = rt_exchange_table(strategy, options, table);
    char what[80];
    snprintf(what, sizeof what, "%s,exchange=%s", strategy->name, inner->name);
    return rt_options_read(table, count, NULL, tree, what, options, err);
}

rt_status rt_exchange_options_read(const struct rt_exchange_strategy *strategy, const struct rt_tree *tree,
                                   struct rt_exchange_options *options, struct rt_error *err) {
    *options = (struct rt_exchange_options){0};
    rt_status status = strategy->inner ? strategy_read_both(strategy, tree, options, err)
                                       : rt_options_read(strategy->options, strategy->option_count, NULL,
                                                         tree, strategy->name, options, err);
    /* "inf" is a word of the table, which reads as -1. */
    if (status == RT_OK && options->delta < 0)
        options->delta = (double)INFINITY;
    return status;
}

/* ---- writing ---- */

rt_status rt_exchange_options_write(const struct rt_exchange_strategy *strategy,
                                    const struct rt_exchange_options *options, struct rt_tree **tree,
                                    struct rt_error *err) {
    struct rt_option table[RT_STRATEGY_MOST_OPTIONS];
    const size_t count = rt_exchange_table(strategy, options, table);
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
