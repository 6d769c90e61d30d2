/* Several parameter servers, each with a range of the parameters and the optimizer's state for it; workers
 * talk with all of them at the same time. */
#include "exchange/ways/ways.h"

static const char *const aligns[] = {"none", "layer", NULL};

static const struct rt_option options[] = {
    {"k", RT_OPTION_INT, RT_WAY_AT(servers), "auto", 1, RT_WAY_COUNT_MAX, .auto_word = "auto",
     .help = "servers; auto: 4, or as many as there are nodes and parameters for"},
    {"base", RT_OPTION_CHOICE, RT_WAY_AT(base), "sync", .choices = rt_way_bases,
     .help = "what each server does"},
    {"align", RT_OPTION_CHOICE, RT_WAY_AT(align), "none", .choices = aligns,
     .help = "equal ranges, or ranges of whole layers"},
    RT_WAY_BOUND,
    RT_WAY_STEP,
    RT_WAY_ORDER,
    RT_WAY_REDUCE,
    RT_WAY_SERVED,
};

static rt_status moves_of(const struct rt_way_options *given, const struct rt_roles *roles, uint16_t rank,
                          const struct rt_span *span, size_t params, const struct rt_link_cost *cost,
                          struct rt_moves *moves, struct rt_error *err) {
    (void)cost;
    const struct rt_tree_form form = {.shape = RT_SHAPE_STAR};
    rt_status status = RT_OK;
    for (size_t server = 0; server < roles->servers && status == RT_OK; server++) {
        const struct rt_span part =
            rt_way_owned_part(&rt_way_ps_shard, given, roles, (uint16_t)server, span, params);
        if (part.count > 0)
            status = rt_way_moves_server(form, roles, (uint16_t)server, rank, part.first - span->first,
                                         part.count, moves, err);
    }
    return status;
}

static rt_status check(const struct rt_way_options *given, size_t nodes, struct rt_error *err) {
    (void)nodes;
    return rt_way_check_base(given, err);
}

const struct rt_way rt_way_ps_shard = {
    .name = "ps-shard",
    .help = "k servers, each with a range of the parameters; workers talk with all of them at once",
    .place = {"data", "central", "as its base", "each with every server", "k servers"},
    RT_WAY_OPTIONS(options),
    .servers = RT_SERVERS_SOME,
    .check = check,
    .moves = moves_of,
    .rules = rt_way_base_rules,
};
