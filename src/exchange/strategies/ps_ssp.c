/* The parameter server with a bound on delay (stale synchronous parallel): as ps-async, but a worker that is
 * more than s gradients ahead of the slowest waits. */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

static const struct rt_option options[] = {RT_STRATEGY_BOUND, RT_STRATEGY_STEP, RT_STRATEGY_SERVER_OPTIONS};

static const struct rt_rules *ps_ssp_rules(const struct rt_exchange_options *given) {
    (void)given;
    return &rt_rules_ssp;
}

static double ps_ssp_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_requests(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_ssp = {
    .name = "ps-ssp",
    .help = "ps-async in which no worker may be more than s gradients ahead of the slowest",
    .place = {"data", "central", "bounded by delay", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_NOT,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .rules = ps_ssp_rules,
    .delay = ps_ssp_delay,
};
