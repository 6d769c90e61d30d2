/* The parameter server with a bound on value: as ps-async, but a gradient is held back while it would take
 * the parameters too far from those that another worker computes with. */
#include "exchange/server/rules.h"
#include "exchange/strategies/strategies.h"

enum { USUAL_FACTOR = 10 };

static const char *const norms[] = {"max", "two", NULL};

static const struct rt_option options[] = {
    {"delta", RT_OPTION_REAL, RT_STRATEGY_AT(delta), "0", 0, RT_STRATEGY_REAL_MAX, .auto_word = "inf",
     .help = "how far from a worker's parameters; 0: factor times the usual step"},
    {"factor", RT_OPTION_REAL, RT_STRATEGY_AT(factor), "10" /* USUAL_FACTOR */, 0, RT_STRATEGY_REAL_MAX,
     .help = "the bound in usual steps, where delta is 0"},
    {"norm", RT_OPTION_CHOICE, RT_STRATEGY_AT(norm), "max", .choices = norms,
     .help = "the largest difference, or the root of the sum of squares"},
    RT_STRATEGY_SERVER_OPTIONS,
};

static rt_status ps_vap_check(const struct rt_exchange_options *given, size_t nodes, struct rt_error *err) {
    (void)nodes;
    if (given->delta == 0 && !(given->factor > 0))
        return rt_fail(err, RT_BAD_INPUT, "factor: must be above 0 where delta is 0");
    if (given->delta > 0 && given->factor != USUAL_FACTOR)
        return rt_fail(err, RT_BAD_INPUT, "factor: does nothing where delta is given");
    return RT_OK;
}

static const struct rt_rules *ps_vap_rules(const struct rt_exchange_options *given) {
    (void)given;
    return &rt_rules_vap;
}

static double ps_vap_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    (void)given;
    return rt_delay_requests(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_vap = {
    .name = "ps-vap",
    .help = "ps-async that holds a gradient back while it would move parameters too far from others'",
    .place = {"data", "central", "bounded by value", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_NOT,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .check = ps_vap_check,
    .rules = ps_vap_rules,
    .delay = ps_vap_delay,
};
