/* The registry of strategies, and how they are asked for. */
#include "train/strategy.h"

#include "base/memory.h"
#include "data/stream.h"
#include <stdlib.h>
#include <string.h>

static const char *const schedules[] = {"split", "1f1b", NULL};

#define AT(field) offsetof(struct rt_ring_options, field)
static const struct rt_option ring_options[] = {
    {"schedule", RT_OPTION_CHOICE, AT(schedule), "split", .choices = schedules,
     .help = "split: a backward is two operations, the urgent one first; 1f1b: it is one"},
    {"slots", RT_OPTION_INT, AT(slots), "auto", 1, 65536, .auto_word = "auto",
     .help = "micro-batches that a node holds at a time"},
};
static const struct rt_option flow_options[] = {
    {"slots", RT_OPTION_INT, AT(slots), "auto", 1, 65536, .auto_word = "auto",
     .help = "batches that a node holds at a time: parameters may be one less than that many updates old"},
    {"damp", RT_OPTION_INT, AT(damp), "2", 0, 8,
     .help = "the learning rate of a stale gradient is divided by (1 + staleness) to this power; 0: never"},
    {"schedule", RT_OPTION_CHOICE, AT(schedule), "split", .choices = schedules,
     .help = "split: a backward is two operations, the urgent one first; 1f1b: it is one"},
};
#undef AT
enum {
    RING_OPTIONS = sizeof ring_options / sizeof *ring_options,
    FLOW_OPTIONS = sizeof flow_options / sizeof *flow_options
};

static const struct rt_strategy sgd = {
    .name = "sgd",
    .help = "one device does everything",
    .alone = true,
    .open = rt_learner_local,
};

static const struct rt_strategy ring = {
    .name = "ring",
    .help = "each device holds a run of layers; the same result as one device, bit for bit",
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_one = {
    .name = "ring-one",
    .help = "the ring with a single example in flight and an update after each",
    .single = true,
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_flow = {
    .name = "ring-flow",
    .help = "the ring without a pause between updates: an update per batch, with slightly older parameters",
    .flows = true,
    .options = flow_options,
    .option_count = FLOW_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_stream = {
    .name = "ring-stream",
    .help = "the ring on examples that arrive from outside and are used once",
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .streams = true,
    .open = rt_learner_ring,
};

static const struct rt_strategy *const strategies[] = {&sgd,       &ring,        &ring_one,
                                                       &ring_flow, &ring_stream, NULL};

const struct rt_strategy *const *rt_strategies(void) {
    return strategies;
}

static rt_status find(const struct rt_tree *place, const char *name, const struct rt_strategy **found,
                      struct rt_error *err) {
    enum { MOST = 63 };
    const char *names[MOST + 1] = {NULL};
    char all[300] = "";
    for (size_t i = 0; strategies[i] && i < MOST; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            *found = strategies[i];
            return RT_OK;
        }
        names[i] = strategies[i]->name;
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = rt_nearest(name, names);
    if (near)
        return rt_tree_fail(place, err, "cluster.strategy: there is no '%.60s'; did you mean '%s'?", name,
                            near);
    return rt_tree_fail(place, err, "cluster.strategy: there is no '%.60s'; there are: %s", name, all);
}

/* "name,option=value,..." as a map of the options. */
static rt_status split_words(const struct rt_tree *scalar, char *text, struct rt_tree **options,
                             struct rt_error *err) {
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, scalar->file, scalar->line, options, err);
    for (char *word = strchr(text, ','); status == RT_OK && word;) {
        *word++ = 0;
        char *next = strchr(word, ','), *equals = strchr(word, '=');
        if (next)
            *next = 0;
        if (!equals || equals == word)
            return rt_tree_fail(scalar, err, "cluster.strategy: '%.60s' is not of the form option=value",
                                word);
        *equals = 0;
        struct rt_tree *value;
        status = rt_tree_create(RT_TREE_SCALAR, equals + 1, scalar->file, scalar->line, &value, err);
        if (status == RT_OK) {
            status = rt_tree_add(*options, word, value, err);
            if (status != RT_OK)
                rt_tree_destroy(value);
        }
        if (next)
            *next = ',';
        word = next;
    }
    return status;
}

static rt_status read_choice(const struct rt_spec *spec, struct rt_strategy_choice *choice,
                             struct rt_error *err) {
    const struct rt_tree *tree = spec->cluster.strategy;
    const size_t nodes = rt_spec_devices(spec);
    const struct rt_tree *options = NULL;
    rt_status status = RT_OK;
    if (!tree) {
        choice->strategy = rt_stream_named(spec->data.train) ? &ring_stream : nodes > 1 ? &ring : &sgd;
    } else if (tree->kind == RT_TREE_SCALAR) {
        char *text = strdup(tree->text);
        if (!text)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory to read cluster.strategy");
        status = split_words(tree, text, &choice->words, err);
        if (status == RT_OK)
            status = find(tree, text, &choice->strategy, err);
        options = choice->words;
        free(text);
    } else if (tree->kind == RT_TREE_MAP && tree->count == 1) {
        status = find(tree, tree->items[0]->key, &choice->strategy, err);
        options = tree->items[0];
    } else {
        status = rt_tree_fail(tree, err, "cluster.strategy is a name, or {NAME: {option: value}}");
    }
    if (status != RT_OK)
        return status;
    const struct rt_strategy *strategy = choice->strategy;
    if (strategy->alone && nodes > 1)
        return rt_tree_fail(tree, err, "cluster.strategy: %s trains on 1 node, not on %zu", strategy->name,
                            nodes);
    status = rt_alloc(1, strategy->settings_bytes + 1, "the options of the strategy", &choice->settings, err);
    if (status != RT_OK)
        return status;
    return rt_options_read(strategy->options, strategy->option_count, NULL, options, strategy->name,
                           choice->settings, err);
}

rt_status rt_strategy_read(const struct rt_spec *spec, struct rt_strategy_choice *choice,
                           struct rt_error *err) {
    struct rt_strategy_choice made = {0};
    rt_status status = read_choice(spec, &made, err);
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
