/*
 * Downpour: each worker steps by itself with a copy of the parameters; every n_push steps it sends the
 * gradients accumulated since to the server, every n_fetch steps it renews its copy. At first one worker
 * trains alone.
 */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {
    {"n_push", RT_OPTION_INT, RT_STRATEGY_AT(push_every), "1", 1, 1000000,
     .help = "gradients that a worker adds up before it sends their sum"},
    {"n_fetch", RT_OPTION_INT, RT_STRATEGY_AT(fetch_every), "1", 1, 1000000,
     .help = "steps that a worker makes by itself before it renews its parameters"},
    {"warm_start", RT_OPTION_REAL, RT_STRATEGY_AT(warm_start), "0.05", 0, 1,
     .help = "part of the first epoch in which one worker trains alone"},
    {"k", RT_OPTION_INT, RT_STRATEGY_AT(servers), "1", 1, RT_STRATEGY_COUNT_MAX, .auto_word = "auto",
     .help = "servers, as in ps-shard"},
    RT_STRATEGY_DEDICATED,
    RT_STRATEGY_PRIO,
    RT_STRATEGY_DAMP,
    RT_STRATEGY_WFBP,
    RT_STRATEGY_BUCKET,
};

static const struct rt_rules *downpour_rules(const struct rt_exchange_options *given) {
    (void)given;
    return &rt_rules_async;
}

/* Per step: gradients are pushed and parameters fetched only now and then. */
static double downpour_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    const double pushes = 1 / (double)given->push_every, fetches = 1 / (double)given->fetch_every;
    return (pushes + fetches) * (terms->transfer + terms->latency);
}

const struct rt_exchange_strategy rt_strategy_downpour = {
    .name = "downpour",
    .help = "workers step by themselves, push sums of gradients and fetch parameters now and then",
    .place = {"data", "central", "asynchronous", "each with the server", "one server or k"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_NOT,
    .optimizer = "{adagrad: {lr: 0.05, eps: 1e-8}}",
    .servers = RT_SERVERS_SOME,
    .rules = downpour_rules,
    .delay = downpour_delay,
};
