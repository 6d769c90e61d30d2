/* How a strategy is asked for: its name and options, or the system that it is to train as; and what is
 * refused before anything starts. */
#include "run/strategy.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "data/stream.h"
#include "run/optimizer.h"
#include <stdlib.h>
#include <string.h>

static const char as_prefix[] = "as:";
enum { AS_LENGTH = sizeof as_prefix - 1, MOST_NAMES = 127 };

/* ---- names ---- */

static void strategy_list_strategies(const char *names[MOST_NAMES + 1]) {
    size_t count = 0;
    for (; rt_strategies()[count] && count < MOST_NAMES; count++)
        names[count] = rt_strategies()[count]->name;
    names[count] = NULL;
}

static rt_status strategy_unknown_strategy(const struct rt_tree *place, const char *name,
                                           struct rt_error *err) {
    const char *names[MOST_NAMES + 1];
    strategy_list_strategies(names);
    const struct rt_system *system = rt_system_find(name);
    if (system)
        return rt_tree_fail(
            place, err, "cluster.strategy: there is no '%.60s'; to train as that system did, write '%s%s'",
            name, as_prefix, system->name);
    const char *near = rt_nearest(name, names);
    if (near)
        return rt_tree_fail(place, err, "cluster.strategy: there is no '%.60s'; did you mean '%s'?", name,
                            near);
    /* "ps-ssp s=3" */
    const size_t length = strcspn(name, " ;:");
    for (size_t i = 0; names[i]; i++)
        if (name[length] && strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return rt_tree_fail(place, err,
                                "cluster.strategy: there is no '%.60s'; options follow a comma: did you mean "
                                "'%s,%.60s'?",
                                name, names[i], name + length + strspn(name + length, " ;:"));
    return rt_tree_fail(place, err, "cluster.strategy: there is no '%.60s'; there are %s", name,
                        RT_LISTED(names));
}

static rt_status strategy_unknown_system(const struct rt_tree *place, const char *name,
                                         struct rt_error *err) {
    const char *names[MOST_NAMES + 1] = {NULL}, *strategies[MOST_NAMES + 1];
    size_t count;
    const struct rt_system *systems = rt_systems(&count);
    for (size_t i = 0; i < count && i < MOST_NAMES; i++)
        names[i] = systems[i].name;
    strategy_list_strategies(strategies);
    const char *near = rt_nearest(name, names), *strategy = rt_nearest(name, strategies);
    if (near)
        return rt_tree_fail(place, err, "cluster.strategy: there is no system '%.60s'; did you mean '%s%s'?",
                            name, as_prefix, near);
    if (strategy)
        return rt_tree_fail(place, err,
                            "cluster.strategy: there is no system '%.60s'; did you mean the strategy '%s'?",
                            name, strategy);
    return rt_tree_fail(place, err, "cluster.strategy: there is no system '%.60s'; there are %s", name,
                        RT_LISTED(names));
}

/* *system: NULL where the name is that of a strategy. */
static rt_status find(const struct rt_tree *place, const char *name, const struct rt_strategy **strategy,
                      const struct rt_system **system, struct rt_error *err) {
    *system = NULL;
    if (strncmp(name, as_prefix, AS_LENGTH) == 0) {
        *system = rt_system_find(name + AS_LENGTH);
        if (!*system)
            return strategy_unknown_system(place, name + AS_LENGTH, err);
        name = (*system)->strategy;
    }
    *strategy = rt_strategy_find(name);
    return *strategy ? RT_OK : strategy_unknown_strategy(place, name, err);
}

/* ---- words ---- */

/* Adds "option=value,..." to a map of options; one that is there already stays where `yields`. text is
 * changed. */
static rt_status strategy_add_words(const struct rt_tree *place, char *text, bool yields,
                                    struct rt_tree *options, struct rt_error *err) {
    rt_status status = RT_OK;
    for (char *word = text, *next; status == RT_OK && word; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = 0;
        char *equals = strchr(word, '=');
        if (!equals || equals == word)
            return rt_tree_fail(place, err, "cluster.strategy: '%.60s' is not of the form option=value",
                                word);
        *equals = 0;
        if (yields && rt_tree_get(options, word))
            continue;
        struct rt_tree *value = NULL;
        status = rt_tree_create(RT_TREE_SCALAR, equals + 1, place->file, place->line, &value, err);
        if (status == RT_OK)
            status = rt_tree_add(options, word, value, err);
        if (status != RT_OK)
            rt_tree_destroy(value);
    }
    return status;
}

static rt_status strategy_no_memory(struct rt_error *err) {
    return rt_fail(err, RT_NO_MEMORY, "not enough memory to read cluster.strategy");
}

/* The options of "name,option=value,...": choice->words. text: a copy, cut after the name. */
static rt_status strategy_read_text(const struct rt_tree *tree, char *text, struct rt_strategy_choice *choice,
                                    struct rt_error *err) {
    char *comma = strchr(text, ',');
    if (comma)
        *comma = 0;
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, tree->file, tree->line, &choice->words, err);
    if (status == RT_OK && comma)
        status = strategy_add_words(tree, comma + 1, false, choice->words, err);
    if (status == RT_OK)
        status = find(tree, text, &choice->strategy, &choice->system, err);
    return status;
}

/* The options of {name: {option: value}}: a copy, to which those of a system can be added. */
static rt_status strategy_read_map(const struct rt_tree *tree, struct rt_strategy_choice *choice,
                                   struct rt_error *err) {
    const struct rt_tree *given = tree->items[0];
    rt_status status = find(given, given->key, &choice->strategy, &choice->system, err);
    if (status != RT_OK)
        return status;
    if (given->kind == RT_TREE_SCALAR && !*given->text)
        return rt_tree_create(RT_TREE_MAP, NULL, given->file, given->line, &choice->words, err);
    return rt_tree_copy(given, &choice->words, err);
}

static rt_status strategy_read_words(const struct rt_tree *tree, struct rt_strategy_choice *choice,
                                     struct rt_error *err) {
    rt_status status;
    if (tree->kind == RT_TREE_SCALAR) {
        char *text = strdup(tree->text);
        status = text ? strategy_read_text(tree, text, choice, err) : strategy_no_memory(err);
        free(text);
    } else if (tree->kind == RT_TREE_MAP && tree->count == 1) {
        status = strategy_read_map(tree, choice, err);
    } else {
        status = rt_tree_fail(tree, err, "cluster.strategy is a name, or {NAME: {option: value}}");
    }
    if (status == RT_OK && choice->system && *choice->system->options && choice->words->kind == RT_TREE_MAP) {
        char *text = strdup(choice->system->options);
        status = text ? strategy_add_words(tree, text, true, choice->words, err) : strategy_no_memory(err);
        free(text);
    }
    return status;
}

/* ---- what cannot be ---- */

/* The place of the strategy for a message; without one the whole file. */
static const struct rt_tree *strategy_place_of(const struct rt_spec *spec) {
    return spec->cluster.strategy ? spec->cluster.strategy : spec->tree;
}

static rt_status strategy_check_exchange(const struct rt_strategy *strategy,
                                         const struct rt_exchange_options *options,
                                         const struct rt_spec *spec, size_t params, struct rt_error *err) {
    struct rt_error reason = {0};
    const size_t nodes = rt_spec_devices(spec);
    if (rt_exchange_check(strategy->exchange, options, nodes, params, &reason) == RT_OK)
        return RT_OK;
    return rt_tree_fail(strategy_place_of(spec), err, "%s: %s", strategy->name, reason.text);
}

static size_t strategy_worker_count(const struct rt_strategy *strategy,
                                    const struct rt_exchange_options *options, size_t nodes) {
    return nodes - (options->dedicated ? rt_exchange_servers(strategy->exchange, options, nodes) : 0);
}

/* The most workers or rings that share a batch. */
static size_t strategy_sharer_count(const struct rt_strategy *strategy,
                                    const struct rt_exchange_options *options, size_t nodes) {
    const struct rt_exchange_strategy *exchange = strategy->exchange;
    const size_t workers =
        strategy->rings ? rt_exchange_rings(options, nodes) : strategy_worker_count(strategy, options, nodes);
    if (!rt_exchange_is_asynchronous(exchange, options))
        return workers;
    const size_t group = rt_exchange_is_nested(exchange, options) ? exchange->group(options, workers) : 1;
    return group < workers ? group : workers;
}

/* Whether rings exchange by servers with rules: then every place of the rings has servers of its own. */
static bool strategy_has_served_places(const struct rt_strategy *strategy,
                                       const struct rt_exchange_options *options,
                                       const struct rt_spec *spec) {
    return strategy->rings && rt_exchange_rings(options, rt_spec_devices(spec)) > 1 &&
           rt_exchange_rules(strategy->exchange, options);
}

/* Keys that such servers cannot honour. */
static rt_status strategy_check_served_places(const struct rt_strategy *strategy,
                                              const struct rt_exchange_options *options,
                                              const struct rt_spec *spec, struct rt_error *err) {
    const char *between = rt_exchange_inner(strategy->exchange, options)->name;
    if (spec->train.clip_norm > 0)
        return rt_tree_fail(strategy_place_of(spec), err,
                            "%s: train.clip_norm: not with exchange=%s between rings: every place has a "
                            "server of its own, and none knows the norm of the whole gradient",
                            strategy->name, between);
    if (spec->cluster.master_tail > 0)
        return rt_tree_fail(strategy_place_of(spec), err,
                            "%s: cluster.master_tail: not with exchange=%s between rings: the first layers "
                            "of a ring's leader and its last would need a server each",
                            strategy->name, between);
    return RT_OK;
}

/* Keys of the run file that a strategy of exchange cannot honour. */
static rt_status strategy_check_keys(const struct rt_strategy *strategy,
                                     const struct rt_exchange_options *options, const struct rt_spec *spec,
                                     struct rt_error *err) {
    const struct rt_tree *place = strategy_place_of(spec);
    if (strategy_has_served_places(strategy, options, spec)) {
        rt_status status = strategy_check_served_places(strategy, options, spec, err);
        if (status != RT_OK)
            return status;
    }
    if (!strategy->rings && spec->cluster.master_tail > 0)
        return rt_tree_fail(place, err,
                            "%s: cluster.master_tail is for rings: here every worker has all layers",
                            strategy->name);
    if (!strategy->rings && spec->cluster.plan != 0)
        return rt_tree_fail(place, err, "%s: cluster.plan is for rings: here every worker has all layers",
                            strategy->name);
    if (spec->train.clip_norm > 0 && !strategy->exchange->can_clip)
        return rt_tree_fail(place, err,
                            "%s cannot clip: the norm of the whole gradient is nowhere to be had; take "
                            "train.clip_norm: 0",
                            strategy->name);
    const size_t sharers = strategy_sharer_count(strategy, options, rt_spec_devices(spec));
    if ((uint64_t)spec->train.batch < sharers)
        return rt_tree_fail(
            place, err, "%s: a batch of %lld cannot be shared by %zu %s; take a larger train.batch",
            strategy->name, (long long)spec->train.batch, sharers, strategy->rings ? "rings" : "workers");
    return RT_OK;
}

static rt_status strategy_check(const struct rt_strategy *strategy, const void *settings,
                                const struct rt_spec *spec, struct rt_error *err) {
    const size_t nodes = rt_spec_devices(spec);
    if (strategy->alone && nodes > 1)
        return rt_tree_fail(strategy_place_of(spec), err, "cluster.strategy: %s trains on 1 node, not on %zu",
                            strategy->name, nodes);
    if (spec->data.send && !strategy->exchange)
        return rt_tree_fail(strategy_place_of(spec), err,
                            "data.send is for strategies whose workers compute from examples of their own, "
                            "which %s is not",
                            strategy->name);
    if (!strategy->exchange)
        return RT_OK;
    rt_status status = strategy_check_exchange(strategy, settings, spec, 0, err);
    return status == RT_OK ? strategy_check_keys(strategy, settings, spec, err) : status;
}

rt_status rt_strategy_fits(const struct rt_strategy_choice *choice, const struct rt_spec *spec, size_t params,
                           size_t buffers, struct rt_error *err) {
    const struct rt_strategy *strategy = choice->strategy;
    if (!strategy->exchange)
        return RT_OK;
    struct rt_exchange_options *options = choice->settings;
    rt_exchange_fit(strategy->exchange, options, rt_spec_devices(spec), params);
    if (buffers > 0 && options->dedicated)
        return rt_tree_fail(strategy_place_of(spec), err,
                            "%s: dedicated: the statistics of batchnorm that are saved are those of the "
                            "master's worker, and then it has none",
                            strategy->name);
    return strategy_check_exchange(strategy, choice->settings, spec, params, err);
}

size_t rt_strategy_sharers(const struct rt_strategy_choice *choice, const struct rt_spec *spec) {
    const struct rt_strategy *strategy = choice->strategy;
    return strategy->exchange ? strategy_sharer_count(strategy, choice->settings, rt_spec_devices(spec)) : 1;
}

const struct rt_exchange_strategy *rt_strategy_exchange(const struct rt_strategy_choice *choice) {
    return choice->strategy->exchange ? rt_exchange_inner(choice->strategy->exchange, choice->settings)
                                      : NULL;
}

bool rt_strategy_clips(const struct rt_strategy_choice *choice, const struct rt_spec *spec) {
    const struct rt_strategy *strategy = choice->strategy;
    return strategy->exchange
               ? strategy->exchange->can_clip && !strategy_has_served_places(strategy, choice->settings, spec)
               : !strategy->flows;
}

bool rt_strategy_is_stale(const struct rt_strategy_choice *choice, int *damp) {
    const struct rt_strategy *strategy = choice->strategy;
    const struct rt_exchange_options *options = choice->settings;
    const struct rt_ring_options *flow = choice->settings;
    *damp = strategy->exchange ? (int)options->damp : strategy->flows ? (int)flow->damp : 0;
    return strategy->exchange ? rt_exchange_is_asynchronous(strategy->exchange, options) : strategy->flows;
}

/* ---- the choice ---- */

static rt_status strategy_read_settings(struct rt_strategy_choice *choice, struct rt_error *err) {
    const struct rt_strategy *strategy = choice->strategy;
    rt_status status =
        rt_alloc(1, strategy->settings_bytes + 1, "the options of the strategy", &choice->settings, err);
    if (status != RT_OK)
        return status;
    if (strategy->exchange)
        return rt_exchange_options_read(strategy->exchange, choice->words, choice->settings, err);
    return rt_options_read(strategy->options, strategy->option_count, NULL, choice->words, strategy->name,
                           choice->settings, err);
}

/* What `auto` stands for, as far as the optimizer decides it. */
static rt_status strategy_suit_optimizer(const struct rt_strategy_choice *choice, const struct rt_spec *spec,
                                         struct rt_error *err) {
    const struct rt_strategy *strategy = choice->strategy;
    struct rt_ring_options *flow = choice->settings;
    struct rt_optim *optim;
    if (!strategy->exchange && !strategy->flows)
        return RT_OK;
    rt_status status = rt_train_optimizer(&spec->train, rt_strategy_exchange(choice), &optim, err);
    if (status != RT_OK)
        return status;
    if (strategy->exchange)
        rt_exchange_suit(strategy->exchange, choice->settings, optim);
    else if (flow->damp < 0)
        flow->damp = (int64_t)rt_optim_damp(optim);
    rt_optim_destroy(optim);
    return RT_OK;
}

rt_status rt_strategy_read(const struct rt_spec *spec, struct rt_strategy_choice *choice,
                           struct rt_error *err) {
    struct rt_strategy_choice made = {0};
    rt_status status = RT_OK;
    if (spec->cluster.strategy)
        status = strategy_read_words(spec->cluster.strategy, &made, err);
    else
        made.strategy = rt_strategy_find(rt_stream_named(spec->data.train)                   ? "ring-stream"
                                         : rt_spec_devices(spec) > 1 || spec->cluster.listen ? "ring"
                                                                                             : "sgd");
    if (status == RT_OK)
        status = strategy_read_settings(&made, err);
    if (status == RT_OK)
        status = strategy_check(made.strategy, made.settings, spec, err);
    if (status == RT_OK)
        status = strategy_suit_optimizer(&made, spec, err);
    if (status != RT_OK)
        rt_strategy_choice_deinit(&made);
    else
        *choice = made;
    return status;
}

void rt_strategy_choice_deinit(struct rt_strategy_choice *choice) {
    free(choice->settings);
    rt_tree_destroy(choice->words);
    *choice = (struct rt_strategy_choice){0};
}
