/*
 * The registry of strategies, and what follows from a strategy's decisions alone: which nodes are servers and
 * workers, which parameters each owns, and which links are needed.
 */
#include "exchange/strategy.h"

#include "base/sentence.h"
#include "exchange/server/server.h"
#include "exchange/strategies/strategies.h"
#include <string.h>

#define ENTRY(symbol, name) &rt_strategy_##symbol,
static const struct rt_exchange_strategy *const strategies[] = {RT_STRATEGY_LIST(ENTRY) NULL};
#undef ENTRY

const struct rt_exchange_strategy *const *rt_exchange_strategies(void) {
    return strategies;
}

const struct rt_exchange_strategy *rt_exchange_strategy_find(const char *name) {
    for (size_t i = 0; strategies[i]; i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    return NULL;
}

const struct rt_exchange_strategy *rt_exchange_inner(const struct rt_exchange_strategy *strategy,
                                                     const struct rt_exchange_options *options) {
    return strategy->inner ? strategy->inner(options) : strategy;
}

const struct rt_rules *rt_exchange_rules(const struct rt_exchange_strategy *strategy,
                                         const struct rt_exchange_options *options) {
    const struct rt_exchange_strategy *inner = rt_exchange_inner(strategy, options);
    return inner->rules ? inner->rules(options) : NULL;
}

bool rt_exchange_is_asynchronous(const struct rt_exchange_strategy *strategy,
                                 const struct rt_exchange_options *options) {
    const struct rt_rules *rules = rt_exchange_rules(strategy, options);
    return rules && rules->asynchronous;
}

bool rt_exchange_is_replicated(const struct rt_exchange_strategy *strategy) {
    return strategy->servers == RT_SERVERS_NONE;
}

bool rt_exchange_takes_slices(const struct rt_exchange_strategy *strategy,
                              const struct rt_exchange_options *options) {
    return strategy->slices && !rt_exchange_rules(strategy, options) && options->reduce == RT_MEAN &&
           options->exchange != RT_EXCHANGE_SCATTER;
}

bool rt_exchange_is_rising(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options) {
    return !rt_exchange_rules(strategy, options) && options->wfbp && options->order == RT_ORDER_UP;
}

/* ---- roles ---- */

/* Default number of servers that share the parameters, if there are enough nodes: as in the figures of the
 * literature. */
enum { USUAL_SERVERS = 4 };

size_t rt_exchange_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options, size_t nodes) {
    switch (strategy->servers) {
    case RT_SERVERS_NONE:
        return 0;
    case RT_SERVERS_ONE:
        return 1;
    case RT_SERVERS_EVERY:
        return nodes;
    case RT_SERVERS_SOME:
        break;
    }
    if (options->servers >= 0)
        return (size_t)options->servers;
    const size_t room = options->dedicated && nodes > 1 ? nodes - 1 : nodes;
    return room < USUAL_SERVERS ? room : USUAL_SERVERS;
}

void rt_exchange_fit(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                     size_t nodes, size_t params) {
    const struct rt_exchange_strategy *inner = rt_exchange_inner(strategy, options);
    const size_t members = strategy->inner ? rt_exchange_rings(options, nodes) : nodes;
    if (inner->servers == RT_SERVERS_SOME && options->servers < 0 && params > 0 &&
        rt_exchange_servers(inner, options, members) > params)
        options->servers = (int64_t)params;
}

void rt_exchange_suit(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                      const struct rt_optim *optim) {
    if (options->damp < 0)
        options->damp = rt_exchange_is_asynchronous(strategy, options) ? rt_optim_damp(optim) : 0;
}

void rt_exchange_shrink(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                        size_t nodes) {
    const struct rt_exchange_strategy *inner = rt_exchange_inner(strategy, options);
    const int64_t members = (int64_t)(strategy->inner ? rt_exchange_rings(options, nodes) : nodes);
    if (members == 1)
        options->dedicated = false;
    const int64_t workers = members - (options->dedicated ? 1 : 0);
    if (inner->servers == RT_SERVERS_SOME && options->servers > workers)
        options->servers = workers;
    if (options->dedicated && options->servers == members)
        options->servers = members - 1;
    if (options->backups >= workers)
        options->backups = workers - 1;
}

/* Among so many nodes or rings; noun: what one of them is called. */
static rt_status strategy_check_among(const struct rt_exchange_strategy *strategy,
                                      const struct rt_exchange_options *options, size_t nodes,
                                      const char *noun, size_t params, struct rt_error *err) {
    const size_t servers = rt_exchange_servers(strategy, options, nodes);
    const char *some = RT_COUNTED(servers, "server"), *there = RT_COUNTED(nodes, noun);
    if (nodes < 1 || nodes >= UINT16_MAX)
        return rt_fail(err, RT_BAD_INPUT, "nodes: there must be between 1 and %u, not %zu", UINT16_MAX - 1,
                       nodes);
    if (servers > nodes)
        return rt_fail(err, RT_BAD_INPUT, "k: %s cannot be on %s", some, there);
    if (options->dedicated && servers >= nodes)
        return rt_fail(err, RT_BAD_INPUT,
                       "dedicated: %s without a worker of %s own and at least 1 worker are %s, but there "
                       "%s %zu",
                       some, servers == 1 ? "its" : "their", RT_COUNTED(servers + 1, "node"),
                       nodes == 1 ? "is" : "are", nodes);
    if (strategy->servers == RT_SERVERS_SOME && params > 0 && servers > params)
        return rt_fail(err, RT_BAD_INPUT, "k: %s cannot share %s", some, RT_COUNTED(params, "parameter"));
    if (options->damp != (double)(int64_t)options->damp)
        return rt_fail(err, RT_BAD_INPUT, "damp: the power must be a whole number, not %g", options->damp);
    return strategy->check ? strategy->check(options, nodes, err) : RT_OK;
}

rt_status rt_exchange_check(const struct rt_exchange_strategy *strategy,
                            const struct rt_exchange_options *options, size_t nodes, size_t params,
                            struct rt_error *err) {
    rt_status status = strategy_check_among(strategy, options, nodes, "node", params, err);
    if (status == RT_OK && strategy->inner)
        status = strategy_check_among(strategy->inner(options), options, rt_exchange_rings(options, nodes),
                                      "ring", params, err);
    return status;
}

rt_status rt_exchange_roles(const struct rt_exchange_strategy *strategy,
                            const struct rt_exchange_options *options, size_t nodes, uint16_t *worker,
                            struct rt_roles *roles, struct rt_error *err) {
    rt_status status = rt_exchange_check(strategy, options, nodes, 0, err);
    if (status != RT_OK)
        return status;
    const size_t servers = rt_exchange_servers(strategy, options, nodes),
                 first = options->dedicated ? servers : 0;
    for (size_t rank = first; rank < nodes; rank++)
        worker[rank - first] = (uint16_t)rank;
    *roles =
        (struct rt_roles){.nodes = nodes, .servers = servers, .workers = nodes - first, .worker = worker};
    return RT_OK;
}

/* ---- ownership of parameters ---- */

static struct rt_span span_common(const struct rt_span *span, size_t first, size_t end) {
    const size_t span_end = span->first + span->count;
    first = first > span->first ? first : span->first;
    end = end < span_end ? end : span_end;
    return first < end ? (struct rt_span){first, end - first} : (struct rt_span){0};
}

/* Server j has part j of the floats; aligned, a span goes with its middle. */
static struct rt_span strategy_server_part(const struct rt_exchange_options *options,
                                           const struct rt_roles *roles, uint16_t rank,
                                           const struct rt_span *span, size_t params) {
    size_t first, end;
    if (rank >= roles->servers)
        return (struct rt_span){0};
    rt_collective_part(params, roles->servers, rank, &first, &end);
    if (options->align != RT_ALIGN_LAYER)
        return span_common(span, first, end);
    const size_t middle = span->first + span->count / 2;
    return middle >= first && middle < end ? *span : (struct rt_span){0};
}

struct rt_span rt_exchange_owned_part(const struct rt_exchange_strategy *strategy,
                                      const struct rt_exchange_options *options, const struct rt_roles *roles,
                                      uint16_t rank, const struct rt_span *span, size_t params) {
    const size_t place = rt_roles_place(roles, rank);
    size_t first, end;
    switch (strategy->servers) {
    case RT_SERVERS_NONE:
        return place < roles->workers ? *span : (struct rt_span){0};
    case RT_SERVERS_ONE:
        return rank == 0 ? *span : (struct rt_span){0};
    case RT_SERVERS_EVERY:
        if (place >= roles->workers)
            break;
        rt_collective_part(span->count, roles->workers, place, &first, &end);
        return span_common(span, span->first + first, span->first + end);
    case RT_SERVERS_SOME:
        return strategy_server_part(options, roles, rank, span, params);
    }
    return (struct rt_span){0};
}

size_t rt_exchange_owned(const struct rt_exchange_strategy *strategy,
                         const struct rt_exchange_options *options, const struct rt_roles *roles,
                         uint16_t rank, const struct rt_span *spans, size_t span_count, size_t params,
                         struct rt_span owned[RT_MAX_OWNED]) {
    size_t count = 0, end = 0;
    for (size_t i = 0; i < span_count; i++) {
        const struct rt_span part = rt_exchange_owned_part(strategy, options, roles, rank, &spans[i], params);
        if (part.count == 0)
            continue;
        if (count > 0 && part.first == end) {
            if (count <= RT_MAX_OWNED)
                owned[count - 1].count += part.count;
        } else if (count++ < RT_MAX_OWNED) {
            owned[count - 1] = part;
        }
        end = part.first + part.count;
    }
    return count;
}

/* ---- links ---- */

static bool strategy_serves(const struct rt_roles *roles, uint16_t server, uint16_t worker) {
    return server < roles->servers && rt_roles_place(roles, worker) < roles->workers;
}

/* Whether a ever sends something to b or receives from it: seen on a block that is large enough for every
 * part of it to have a float. */
static bool strategy_exchanges_between(const struct rt_exchange_strategy *strategy,
                                       const struct rt_exchange_options *options,
                                       const struct rt_roles *roles, uint16_t a, uint16_t b) {
    const struct rt_span span = {.count = 16 * roles->nodes};
    const struct rt_link_cost cost = {.bandwidth = 1};
    struct rt_collective collective = {0};
    /* Without memory for the list the link is made: one too many does no harm. */
    bool found =
        strategy->collective(options, roles, a, &span, span.count, &cost, &collective, NULL) != RT_OK;
    for (size_t i = 0; i < collective.count && !found; i++) {
        const struct rt_collective_op *op = &collective.list[i];
        found = rt_op_has_peer(op) && op->peer == b;
    }
    rt_collective_deinit(&collective);
    return found;
}

bool rt_exchange_links(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options,
                       const struct rt_roles *roles, uint16_t a, uint16_t b) {
    if (a == b)
        return false;
    if (a == 0 || b == 0)
        return true;
    if (strategy->mesh)
        return rt_roles_place(roles, a) < roles->workers && rt_roles_place(roles, b) < roles->workers;
    if (rt_exchange_is_nested(strategy, options))
        return rt_exchange_is_proxy_of(strategy, options, roles, a, b) ||
               rt_exchange_is_proxy_of(strategy, options, roles, b, a);
    if (strategy->servers == RT_SERVERS_SOME || rt_exchange_rules(strategy, options) || !strategy->collective)
        return strategy_serves(roles, a, b) || strategy_serves(roles, b, a);
    return strategy_exchanges_between(strategy, options, roles, a, b);
}
