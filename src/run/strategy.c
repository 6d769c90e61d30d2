/* The registry of strategies. */
#include "run/strategy.h"

#include "exchange/strategies/strategies.h"
#include <string.h>

static const char *const schedules[] = {"split", "1f1b", NULL};

#define AT(field) offsetof(struct rt_ring_options, field)
static const struct rt_option ring_options[] = {
    {"schedule", RT_OPTION_CHOICE, AT(schedule), "split", .choices = schedules,
     .help = "a backward is two operations, the urgent first, or one"},
    {"slots", RT_OPTION_INT, AT(slots), "auto", 1, 65536, .auto_word = "auto",
     .help = "micro-batches that a node holds at a time"},
};
static const struct rt_option flow_options[] = {
    {"slots", RT_OPTION_INT, AT(slots), "auto", 1, 65536, .auto_word = "auto",
     .help = "batches that a node holds at a time; staleness is at most one less"},
    {"damp", RT_OPTION_INT, AT(damp), "auto", 0, RT_MAX_DAMP, .auto_word = "auto",
     .help = "the rate over (1 + staleness)^damp; auto: momentum 2, adam 1, sgd 0"},
    {"schedule", RT_OPTION_CHOICE, AT(schedule), "split", .choices = schedules,
     .help = "a backward is two operations, the urgent first, or one"},
};
#undef AT
enum {
    RING_OPTIONS = sizeof ring_options / sizeof *ring_options,
    FLOW_OPTIONS = sizeof flow_options / sizeof *flow_options
};

static const struct rt_strategy sgd = {
    .name = "sgd",
    .help = "one device does everything",
    .place = {"none", "one optimizer", "one after another", "nothing", "one device"},
    .alone = true,
    .open = rt_learner_local,
};

static const struct rt_strategy ring = {
    .name = "ring",
    .help = "each device holds a run of layers; the same result as one device, bit for bit",
    .place = {"model", "local, each its layers", "synchronous, timed by neighbours",
              "activations and their gradients", "closed ring"},
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_one = {
    .name = "ring-one",
    .help = "the ring with a single example in flight and an update after each",
    .place = {"model", "local, each its layers", "one example at a time", "activations and their gradients",
              "closed ring"},
    .single = true,
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_flow = {
    .name = "ring-flow",
    .help = "the ring without a pause: an update per batch, with slightly older parameters",
    .place = {"model", "local, each its layers", "bounded by delay", "activations and their gradients",
              "closed ring"},
    .flows = true,
    .options = flow_options,
    .option_count = FLOW_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .open = rt_learner_ring,
};

static const struct rt_strategy ring_stream = {
    .name = "ring-stream",
    .help = "the ring on examples that arrive from outside and are used once",
    .place = {"model", "local, each its layers", "synchronous, timed by neighbours",
              "activations and their gradients", "closed ring"},
    .options = ring_options,
    .option_count = RING_OPTIONS,
    .settings_bytes = sizeof(struct rt_ring_options),
    .streams = true,
    .open = rt_learner_ring,
};

#define EXCHANGE_STRATEGY(symbol, text)                                                                      \
    static const struct rt_strategy symbol = {.name = text,                                                  \
                                              .exchange = &rt_strategy_##symbol,                             \
                                              .settings_bytes = sizeof(struct rt_exchange_options),          \
                                              .open = rt_learner_exchange};
RT_STRATEGY_LIST(EXCHANGE_STRATEGY)
#undef EXCHANGE_STRATEGY

static const struct rt_strategy hybrid = {
    .name = "hybrid",
    .exchange = &rt_strategy_hybrid,
    .rings = true,
    .settings_bytes = sizeof(struct rt_exchange_options),
    .open = rt_learner_hybrid,
};

#define ENTRY(symbol, text) &symbol,
static const struct rt_strategy *const strategies[] = {
    &sgd, &ring, &ring_one, &ring_flow, &ring_stream, RT_STRATEGY_LIST(ENTRY) & hybrid, NULL};
#undef ENTRY

const struct rt_strategy *const *rt_strategies(void) {
    return strategies;
}

const char *rt_strategy_help(const struct rt_strategy *strategy) {
    return strategy->exchange ? strategy->exchange->help : strategy->help;
}

const struct rt_taxonomy *rt_strategy_place(const struct rt_strategy *strategy) {
    return strategy->exchange ? &strategy->exchange->place : &strategy->place;
}

const struct rt_option *rt_strategy_options(const struct rt_strategy *strategy, size_t *count) {
    *count = strategy->exchange ? strategy->exchange->option_count : strategy->option_count;
    return strategy->exchange ? strategy->exchange->options : strategy->options;
}

const struct rt_strategy *rt_strategy_find(const char *name) {
    for (size_t i = 0; strategies[i]; i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    return NULL;
}
