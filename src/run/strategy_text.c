/* A strategy in words: its options as they are used, and what a system of the literature was taken for. */
#include "run/strategy.h"

#include <stdlib.h>

/* Numbers that `auto` stands for as soon as the devices are counted. */
static void strategy_settle(const struct rt_strategy *strategy, struct rt_exchange_options *options,
                            size_t nodes) {
    const struct rt_exchange_strategy *inner = rt_exchange_inner(strategy->exchange, options);
    const size_t parties = strategy->rings ? rt_exchange_rings(options, nodes) : nodes;
    if (strategy->rings)
        options->rings = (int64_t)parties;
    if (inner->servers == RT_SERVERS_SOME && options->servers < 0)
        options->servers = (int64_t)rt_exchange_servers(inner, options, parties);
}

char *rt_strategy_text(const struct rt_strategy_choice *choice, size_t nodes) {
    const struct rt_strategy *strategy = choice->strategy;
    struct rt_option table[RT_STRATEGY_MOST_OPTIONS];
    struct rt_exchange_options settled;
    const struct rt_option *options = strategy->options;
    const void *settings = choice->settings;
    size_t count = strategy->option_count, bytes;
    if (strategy->exchange) {
        settled = *(const struct rt_exchange_options *)choice->settings;
        strategy_settle(strategy, &settled, nodes);
        count = rt_exchange_table(strategy->exchange, &settled, table);
        options = table;
        settings = &settled;
    }
    char *text = NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        char value[RT_OPTION_TEXT_ROOM];
        fprintf(out, "%s%s=%s", i ? "," : "", options[i].name, rt_option_text(&options[i], settings, value));
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

char *rt_strategy_explain(const struct rt_strategy_choice *choice) {
    const struct rt_system *system = choice->system;
    char *text = NULL;
    size_t bytes;
    FILE *out = system ? open_memstream(&text, &bytes) : NULL;
    if (!out)
        return NULL;
    fprintf(out, "as:%s trains as %s", system->name, system->strategy);
    for (size_t i = 0; i < choice->words->count; i++)
        fprintf(out, ",%s=%s", choice->words->items[i]->key, choice->words->items[i]->text);
    fprintf(out, " does%s%s", system->without ? "; it leaves out: " : "",
            system->without ? system->without : "");
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
