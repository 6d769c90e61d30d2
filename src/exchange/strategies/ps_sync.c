/*
 * The synchronous parameter server: for every update the server waits for the gradients of all workers, adds
 * them in the order of the workers, steps, and sends the new parameters to all workers.
 */
#include "exchange/strategies/strategies.h"

static const char *const exchanges[] = {"naive", "binom", "scatter", NULL};

static const struct rt_option options[] = {
    {"exchange", RT_OPTION_CHOICE, RT_STRATEGY_AT(exchange), "naive", .choices = exchanges,
     .help = "directly, as ps-tree, or as ps-scatter"},
    RT_STRATEGY_SHARES,
    RT_STRATEGY_DEDICATED,
    RT_STRATEGY_COLLECTIVE_OPTIONS,
};

static rt_status ps_sync_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                    uint16_t rank, const struct rt_span *span, size_t params,
                                    const struct rt_link_cost *cost, struct rt_collective *collective,
                                    struct rt_error *err) {
    (void)params, (void)cost;
    if (given->exchange == RT_EXCHANGE_SCATTER)
        return rt_synchronous_scatter(roles, 0, rank, span->count, collective, err);
    const struct rt_tree_form form = {.shape = given->exchange == RT_EXCHANGE_BINOMIAL ? RT_SHAPE_BINOMIAL
                                                                                       : RT_SHAPE_STAR};
    return rt_synchronous_server(form, roles, 0, rank, 0, span->count, collective, err);
}

static double ps_sync_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    return given->exchange == RT_EXCHANGE_BINOMIAL  ? rt_delay_binomial(terms)
           : given->exchange == RT_EXCHANGE_SCATTER ? rt_delay_scatter(terms)
                                                    : rt_delay_star(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_sync = {
    .name = "ps-sync",
    .help = "a server steps with the mean of all workers' gradients; all workers wait for one another",
    .place = {"data", "central", "synchronous", "each with the server", "one server"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_BITS,
    .slices = true,
    .servers = RT_SERVERS_ONE,
    .can_clip = true,
    .collective = ps_sync_collective,
    .delay = ps_sync_delay,
};
