/* The collectives one by one: as the library has them, or as a way of exchange composes them. */
#include "support/collective.h"

#include "exchange/strategy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

/* For `auto`: few floats go by doubling, many by halving or the ring. */
static const struct rt_link_cost cost = {.latency = 1e-4, .bandwidth = 1e8, .adding = 1e-9};

static rt_status make_all(const struct collective *this, const struct rt_team *team, size_t count,
                          struct rt_collective *collective, struct rt_error *err) {
    return rt_collective_reduce_all(this->how, team, this->degree, 0, count, &cost, collective, err);
}

/* A sum at place 0, which makes parameters of it that all get. */
static rt_status make_client(const struct collective *this, const struct rt_team *team, size_t count,
                             struct rt_collective *collective, struct rt_error *err) {
    const struct rt_collective_op apply = {.kind = RT_OP_APPLY, .buffer = RT_BUFFER_GRADIENT, .count = count};
    rt_status status = rt_collective_reduce(team, &this->form, 0, count, collective, err);
    if (status == RT_OK && team->place == 0)
        status = rt_collective_add(collective, apply, err);
    if (status == RT_OK)
        status = rt_collective_broadcast(team, &this->form, 0, count, RT_BUFFER_PARAMS, collective, err);
    return status;
}

static rt_status make_broadcast(const struct collective *this, const struct rt_team *team, size_t count,
                                struct rt_collective *collective, struct rt_error *err) {
    return rt_collective_broadcast(team, &this->form, 0, count, RT_BUFFER_GRADIENT, collective, err);
}

static rt_status make_reduce_scatter(const struct collective *this, const struct rt_team *team, size_t count,
                                     struct rt_collective *collective, struct rt_error *err) {
    (void)this;
    return rt_collective_reduce_scatter(team, 0, count, RT_BUFFER_GRADIENT, collective, err);
}

static rt_status make_all_gather(const struct collective *this, const struct rt_team *team, size_t count,
                                 struct rt_collective *collective, struct rt_error *err) {
    (void)this;
    return rt_collective_all_gather(team, 0, count, RT_BUFFER_GRADIENT, collective, err);
}

/* The way's own moves for a span; with a server that does not work where place 0 puts nothing in. */
static rt_status make_way(const struct collective *this, const struct rt_team *team, size_t count,
                          struct rt_collective *collective, struct rt_error *err) {
    const struct rt_exchange_strategy *strategy = rt_exchange_strategy_find(this->strategy);
    const struct rt_span span = {0, count};
    struct rt_exchange_options options;
    struct rt_roles roles;
    uint16_t worker[MOST];
    if (team->count > MOST)
        return rt_fail(err, RT_FAILED, "no more than %d places", MOST);
    rt_status status = rt_exchange_options_read(strategy, NULL, &options, err);
    if (status != RT_OK)
        return status;
    options.dedicated = this->given == WHOSE_OTHERS;
    status = rt_exchange_roles(strategy, &options, team->count, worker, &roles, err);
    return status == RT_OK ? strategy->collective(&options, &roles, (uint16_t)team->place, &span, count,
                                                  &cost, collective, err)
                           : status;
}

#define SERVED(name_, shape_, degree_, works_)                                                               \
    {                                                                                                        \
        .name = name_, .make = make_client,                                                                  \
        .form = {.shape = shape_, .degree = degree_, .root_contributes = works_},                            \
        .given = works_ ? WHOSE_ALL : WHOSE_OTHERS, .applied = true                                          \
    }

const struct collective collectives[] = {
    {.name = "ring", .make = make_all, .how = RT_REDUCE_RING},
    {.name = "doubling", .make = make_all, .how = RT_REDUCE_DOUBLING},
    {.name = "halving", .make = make_all, .how = RT_REDUCE_HALVING},
    {.name = "tree", .make = make_all, .how = RT_REDUCE_TREE},
    {.name = "tree of degree 3", .make = make_all, .how = RT_REDUCE_TREE, .degree = 3},
    {.name = "auto", .make = make_all, .how = RT_REDUCE_AUTO},
    {.name = "reduce-scatter", .make = make_reduce_scatter, .had = WHOSE_PARTS},
    {.name = "all-gather", .make = make_all_gather, .given = WHOSE_PARTS},
    {.name = "broadcast", .make = make_broadcast, .form = {.shape = RT_SHAPE_BINOMIAL}, .given = WHOSE_FIRST},
    {.name = "ps-peer", .make = make_way, .strategy = "ps-peer", .applied = true},
    {.name = "ps-scatter", .make = make_way, .strategy = "ps-scatter", .applied = true},
    {.name = "ps-scatter with a server",
     .make = make_way,
     .strategy = "ps-scatter",
     .given = WHOSE_OTHERS,
     .applied = true},
    SERVED("star", RT_SHAPE_STAR, 0, true),
    SERVED("binomial", RT_SHAPE_BINOMIAL, 0, true),
    SERVED("groups", RT_SHAPE_GROUPS, 3, true),
    SERVED("star round a server", RT_SHAPE_STAR, 0, false),
    SERVED("binomial below a server", RT_SHAPE_BINOMIAL, 0, false),
    SERVED("groups below a server", RT_SHAPE_GROUPS, 2, false),
};
const size_t collective_count = sizeof collectives / sizeof *collectives;

const struct collective *collective_find(const char *name) {
    for (size_t k = 0; k < collective_count; k++)
        if (strcmp(collectives[k].name, name) == 0)
            return &collectives[k];
    fprintf(stderr, "there is no collective '%s'\n", name);
    exit(1);
}

rt_status collective_moves(const struct collective *this, const struct rt_team *team, size_t count,
                           struct rt_collective *collective, struct rt_error *err) {
    return this->make(this, team, count, collective, err);
}

void collective_range(enum collective_whose whose, size_t n, size_t place, size_t count, size_t *first,
                      size_t *end) {
    *first = 0;
    *end = count;
    if (whose == WHOSE_PARTS)
        rt_collective_part(count, n, place, first, end);
    else if ((whose == WHOSE_FIRST && place > 0) || (whose == WHOSE_OTHERS && place == 0))
        *end = 0;
}

bool collective_is_possible(const struct collective *this, size_t n) {
    return n > 1 || this->given != WHOSE_OTHERS;
}
