/* Several parameter servers, each with a range of the parameters and the optimizer's state for it; workers
 * talk with all of them at the same time. */
#include "exchange/strategies/strategies.h"

static const char *const aligns[] = {"none", "layer", NULL};

static const struct rt_option options[] = {
    {"k", RT_OPTION_INT, RT_STRATEGY_AT(servers), "auto", 1, RT_STRATEGY_COUNT_MAX, .auto_word = "auto",
     .help = "servers; auto: 4, or as many as there are nodes and parameters for"},
    {"base", RT_OPTION_CHOICE, RT_STRATEGY_AT(base), "sync", .choices = rt_exchange_bases,
     .help = "what each server does"},
    {"align", RT_OPTION_CHOICE, RT_STRATEGY_AT(align), "none", .choices = aligns,
     .help = "equal ranges, or ranges of whole layers"},
    RT_STRATEGY_SHARES,
    RT_STRATEGY_BOUND,
    RT_STRATEGY_STEP,
    RT_STRATEGY_ORDER,
    RT_STRATEGY_REDUCE,
    RT_STRATEGY_SERVER_OPTIONS,
};

static rt_status ps_shard_collective(const struct rt_exchange_options *given, const struct rt_roles *roles,
                                     uint16_t rank, const struct rt_span *span, size_t params,
                                     const struct rt_link_cost *cost, struct rt_collective *collective,
                                     struct rt_error *err) {
    (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_STAR};
    rt_status status = RT_OK;
    for (size_t server = 0; server < roles->servers && status == RT_OK; server++) {
        const struct rt_span part =
            rt_exchange_owned_part(&rt_strategy_ps_shard, given, roles, (uint16_t)server, span, params);
        if (part.count > 0)
            status = rt_synchronous_server(form, roles, (uint16_t)server, rank, part.first - span->first,
                                           part.count, collective, err);
    }
    return status;
}

static rt_status ps_shard_check(const struct rt_exchange_options *given, size_t nodes, struct rt_error *err) {
    (void)nodes;
    return rt_exchange_check_base(given, err);
}

static double ps_shard_delay(const struct rt_exchange_options *given, const struct rt_delay_terms *terms) {
    return given->base == RT_BASE_SYNC ? rt_delay_star(terms) : rt_delay_requests(terms);
}

const struct rt_exchange_strategy rt_strategy_ps_shard = {
    .name = "ps-shard",
    .help = "k servers, each with a range of the parameters; workers talk with all of them at once",
    .place = {"data", "central", "as its base", "each with every server", "k servers"},
    RT_STRATEGY_OPTIONS(options),
    .exact = RT_EXACT_BITS,
    .slices = true,
    .servers = RT_SERVERS_SOME,
    .check = ps_shard_check,
    .collective = ps_shard_collective,
    .rules = rt_exchange_base_rules,
    .delay = ps_shard_delay,
};
