/* The asynchronous parameter server: every gradient becomes an update on arrival, and its worker gets the
 * parameters of that moment. No worker waits for another; gradients are as stale as other workers are
 * fast. */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_SERVER_OPTIONS};

static const struct rt_rules *ps_async_rules(const struct rt_exchange_options *given) {
    (void)given;
    return &rt_rules_async;
}

static double ps_async_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_requests(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_async = {
    .name = "ps-async",
    .help = "a server steps with every gradient as it comes; no worker waits for another",
    .place = {"data", "central", "asynchronous", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_NOT,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .rules = ps_async_rules,
    .delay = ps_async_delay,
};
