/*
 * A strategy of exchange: what it decides. There is one worker loop, one server loop and one set of
 * collectives for all of them; a strategy is a small file in exchange/strategies/ with the decisions, and a
 * line in the registry.
 */
#ifndef RT_EXCHANGE_STRATEGY_H
#define RT_EXCHANGE_STRATEGY_H

#include "base/option.h"
#include "exchange/collective/collective.h"
#include "exchange/delay.h"
#include "exchange/exchange.h"
#include "optim/optim.h"

/* The place of a strategy in the taxonomy. */
struct rt_taxonomy {
    const char *parallelism;  /* "data", "model", "data and model" */
    const char *optimization; /* "central", "replicated", "local" */
    const char *scheduling;   /* "synchronous", "asynchronous", "bounded by delay", ... */
    const char *exchange;     /* "star", "ring", "binomial tree", ... */
    const char *topology;     /* "one server", "k servers", "servers on the workers", "none", ... */
};

enum { RT_MAX_DAMP = 8 };
enum { RT_ORDER_DOWN, RT_ORDER_UP };
enum { RT_MEAN, RT_SUM };
enum { RT_PRIO_ARRIVAL, RT_PRIO_STALE };
enum { RT_NORM_MAX, RT_NORM_TWO };
enum { RT_BASE_SYNC, RT_BASE_ASYNC, RT_BASE_SSP };
enum { RT_EXCHANGE_NAIVE, RT_EXCHANGE_BINOMIAL, RT_EXCHANGE_SCATTER };
enum { RT_ALIGN_NONE, RT_ALIGN_LAYER };
enum { RT_SHARES_AUTO, RT_SHARES_EQUAL };

/* All options that a strategy may offer; each lists its own, with its defaults. The others are zero. */
struct rt_exchange_options {
    int wfbp;        /* not 0: a span's exchange starts when its gradient is there */
    int order;       /* with it: RT_ORDER_DOWN, RT_ORDER_UP */
    int64_t bucket;  /* KiB: smaller spans are joined; -1: a good size */
    int reduce;      /* RT_MEAN: of all examples of the update; RT_SUM: of the workers' means */
    int exchange;    /* of ps-sync: RT_EXCHANGE_NAIVE, ... */
    int64_t servers; /* k; -1: up to 4, as many as there can be */
    int align;       /* RT_ALIGN_LAYER: a span belongs to one server */
    int shares;      /* of a batch's slices: RT_SHARES_AUTO, by speed; RT_SHARES_EQUAL */
    bool dedicated;  /* a server's device has no worker */
    int64_t degree;  /* of a d-ary tree */
    int64_t depth;   /* levels of groups and server; -1: 2 */
    int64_t group;   /* members of a group; -1: as many as give that depth */
    int64_t bound;   /* clocks that a worker may be ahead of the slowest; -1: without bound */
    int whole_clock; /* a bound by delay: the server gathers a full clock before it steps */
    double delta;    /* value bound; 0: adaptive, INFINITY: none */
    double factor;   /* of the adaptive one */
    int norm;        /* of it: RT_NORM_MAX, RT_NORM_TWO */
    int64_t backups; /* workers that need not be waited for; -1: max(1, 5 %) */
    double quorum;   /* part of the workers that suffices */
    double cut;      /* part of an epoch after which the batch scheduler goes on to the next */
    int base;        /* what a cut, several servers, or one over groups are made to: RT_BASE_SYNC, ... */
    int prio;        /* which of several waiting gradients is next */
    double damp;     /* power p of 1/(1+staleness)^p on the rate, a whole number; -1: see rt_exchange_suit */
    double compensate; /* lambda of the delay compensation; 0: off */
    int64_t push_every, fetch_every;
    double warm_start; /* part of the first epoch in which one worker trains alone */
    int64_t rings;     /* of hybrid; -1: see rt_exchange_rings */
    int inter_ring; /* of hybrid: place in rt_exchange_strategies() of the strategy between equal positions */
};

/* Which nodes are servers. */
enum rt_servers {
    RT_SERVERS_NONE,  /* every worker has the optimizer and its whole state: replicated */
    RT_SERVERS_ONE,   /* rank 0 */
    RT_SERVERS_SOME,  /* as many as the options say */
    RT_SERVERS_EVERY, /* every node a part */
};

/* How a run with the default options compares with one device that learns from the same batches. The tests
 * over all strategies go by it. */
enum rt_exactness {
    RT_EXACT_ROUNDED, /* the same sums, added in another order: the same result but for rounding */
    RT_EXACT_BITS,    /* the same bits, where train.shards is the number of workers, a power of two */
    RT_EXACT_NOT,     /* another result: gradients are stale, dropped, or not all of them are exchanged */
};

struct rt_rules; /* exchange/server/server.h */

/* An option that does not apply in a certain context, and why: the end of a sentence. */
struct rt_exchange_without {
    const char *option, *why;
};

struct rt_exchange_strategy {
    const char *name;
    const char *help;
    struct rt_taxonomy place;
    const struct rt_option *options; /* into struct rt_exchange_options */
    size_t option_count;
    const char *optimizer; /* as in a run file, taken where that names none; NULL: as on one device */

    enum rt_exactness exact;
    /* Why rings cannot exchange by it (hybrid), the end of a sentence that begins with its name; NULL: they
     * can. */
    const char *no_rings;

    enum rt_servers servers;
    /* A gradient is applied where all of it is known (one server, or every worker), so its norm can be
     * computed before a parameter changes. False for strategies with several servers, even if there is only
     * one. */
    bool can_clip;
    /* Its collective adds the slices of train.shards in their tree, whatever number of them each worker has.
     */
    bool slices;
    /* Which links are used is known only during the run: every worker has one with every other. */
    bool mesh;

    /* Of a strategy that joins groups of several nodes (rings) by another strategy: that one, which the
     * option `exchange` names. Its options are options here too, but for those in `without`; where both have
     * a name, it means this one's. NULL: it goes by itself. */
    const struct rt_exchange_strategy *(*inner)(const struct rt_exchange_options *options);
    const struct rt_exchange_without *without; /* ends with a NULL */

    /* Refuses invalid values (a quorum above 1, ...) before anything starts, in a sentence that begins with
     * the option. What concerns servers and workers has been checked. May be NULL. */
    rt_status (*check)(const struct rt_exchange_options *options, size_t nodes, struct rt_error *err);

    /* Of a strategy by collectives: the operations of one span for the communicator's `rank`. NULL: always by
     * servers. */
    rt_status (*collective)(const struct rt_exchange_options *options, const struct rt_roles *roles,
                            uint16_t rank, const struct rt_span *span, size_t params,
                            const struct rt_link_cost *cost, struct rt_collective *collective,
                            struct rt_error *err);
    /* Of a strategy by servers, which may depend on the options: NULL there means by collectives after all.
     */
    const struct rt_rules *(*rules)(const struct rt_exchange_options *options);
    /* Where it has rules its workers form groups, each of which is one worker to the server
     * (exchange/nested.h): members of a group, of so many workers. NULL: there are no groups. */
    size_t (*group)(const struct rt_exchange_options *options, size_t workers);
    /* Seconds that the exchange of an update takes at least (exchange/delay.h). Of a strategy that joins
     * rings NULL: its inner one's counts. */
    double (*delay)(const struct rt_exchange_options *options, const struct rt_delay_terms *terms);
};

const struct rt_exchange_strategy *const *rt_exchange_strategies(void); /* NULL-terminated */
const struct rt_exchange_strategy *rt_exchange_strategy_find(const char *name);

/* The strategy by which gradients are exchanged: that between rings, else the strategy itself. Both have the
 * same options. */
const struct rt_exchange_strategy *rt_exchange_inner(const struct rt_exchange_strategy *strategy,
                                                     const struct rt_exchange_options *options);

/* All options of a strategy, with those of the one inside, which options->inter_ring names. Returns how many.
 */
enum { RT_STRATEGY_MOST_OPTIONS = 32 };
size_t rt_exchange_table(const struct rt_exchange_strategy *strategy,
                         const struct rt_exchange_options *options,
                         struct rt_option table[RT_STRATEGY_MOST_OPTIONS]);
/* Options of a strategy from a map, as in a run file; NULL: the defaults. And back, in full, to be sent to
 * nodes; *tree is to be destroyed, and borrows nothing. */
rt_status rt_exchange_options_read(const struct rt_exchange_strategy *strategy, const struct rt_tree *tree,
                                   struct rt_exchange_options *options, struct rt_error *err);
rt_status rt_exchange_options_write(const struct rt_exchange_strategy *strategy,
                                    const struct rt_exchange_options *options, struct rt_tree **tree,
                                    struct rt_error *err);

/* Checks that the strategy can run with these options on so many nodes, with so many parameters (0: not known
 * yet). The error begins with the option. */
rt_status rt_exchange_check(const struct rt_exchange_strategy *strategy,
                            const struct rt_exchange_options *options, size_t nodes, size_t params,
                            struct rt_error *err);

/* Where devices were lost: a number of servers or of spare workers that so few nodes cannot have becomes the
 * largest that they can. */
void rt_exchange_shrink(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                        size_t nodes);

/* Whether rings can exchange by the strategy: refuses one that has no_rings. */
rt_status rt_exchange_check_rings(const struct rt_exchange_strategy *strategy, struct rt_error *err);

/* The rules of a strategy with its options, or of the one inside; NULL: it goes by collectives. */
const struct rt_rules *rt_exchange_rules(const struct rt_exchange_strategy *strategy,
                                         const struct rt_exchange_options *options);
/* Whether every update is one worker's gradient of a whole batch, or one group's; otherwise all workers share
 * each batch. */
bool rt_exchange_is_asynchronous(const struct rt_exchange_strategy *strategy,
                                 const struct rt_exchange_options *options);
/* Whether every worker has the optimizer and its whole state. */
bool rt_exchange_is_replicated(const struct rt_exchange_strategy *strategy);

/* Whether workers may have any number of a batch's slices each, and the sum still has one device's bits. */
bool rt_exchange_takes_slices(const struct rt_exchange_strategy *strategy,
                              const struct rt_exchange_options *options);
/* The part of a batch of so many shards that a rank computes: by the roles' runs, or an equal one among those
 * who share it. No slices: it is not a worker. */
struct rt_slice_part rt_exchange_part(const struct rt_exchange_strategy *strategy,
                                      const struct rt_exchange_options *options, const struct rt_roles *roles,
                                      size_t shards, uint16_t rank);

/* Whether workers make the gradients of their spans, and exchange them, from the first up. */
bool rt_exchange_is_rising(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options);

/* The number of rings of hybrid. Default: 2 if the number of nodes is even, else 1. */
size_t rt_exchange_rings(const struct rt_exchange_options *options, size_t nodes);
/* What `auto` stands for when the parameters are known: no more servers than there are of them. */
void rt_exchange_fit(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                     size_t nodes, size_t params);
/* What it stands for when the optimizer is known: the damping that suits it, none where nothing is stale. */
void rt_exchange_suit(const struct rt_exchange_strategy *strategy, struct rt_exchange_options *options,
                      const struct rt_optim *optim);
/* How many nodes serve. */
size_t rt_exchange_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options, size_t nodes);
/* Gives the roles: ranks 0 .. servers-1 serve; with `dedicated` the others work, otherwise all do. worker:
 * [nodes], to be filled. Checks first, as rt_exchange_check without parameters. */
rt_status rt_exchange_roles(const struct rt_exchange_strategy *strategy,
                            const struct rt_exchange_options *options, size_t nodes, uint16_t *worker,
                            struct rt_roles *roles, struct rt_error *err);

/* Whether workers form groups, each of which is one worker to the server. */
bool rt_exchange_is_nested(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options);
/* The workers that share each batch with a rank: all, its group, or only itself. Place 0 of a group is its
 * proxy. A rank that is not a worker has the team's size as its place; the size is 1 where batches are not
 * shared by all. */
struct rt_team rt_exchange_team(const struct rt_exchange_strategy *strategy,
                                const struct rt_exchange_options *options, const struct rt_roles *roles,
                                uint16_t rank);
/* The roles as a server sees them: its workers are the groups, by their proxies, or simply the workers.
 * proxy: [workers], to be filled; NULL: they are only counted. */
struct rt_roles rt_exchange_clients(const struct rt_exchange_strategy *strategy,
                                    const struct rt_exchange_options *options, const struct rt_roles *roles,
                                    uint16_t *proxy);

/* Whether two nodes need a link between them; every node has one with the master. */
bool rt_exchange_links(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options,
                       const struct rt_roles *roles, uint16_t a, uint16_t b);

/* The part of a span that a rank's optimizer owns; all of it where replicated and the rank works. */
struct rt_span rt_exchange_owned_part(const struct rt_exchange_strategy *strategy,
                                      const struct rt_exchange_options *options, const struct rt_roles *roles,
                                      uint16_t rank, const struct rt_span *span, size_t params);
/* The same for the whole block: parts that touch are joined, so there is one range, except in ps-peer, where
 * every worker has a part of every span. Returns how many there are; at most RT_MAX_OWNED are given. */
enum { RT_MAX_OWNED = 4096 };
size_t rt_exchange_owned(const struct rt_exchange_strategy *strategy,
                         const struct rt_exchange_options *options, const struct rt_roles *roles,
                         uint16_t rank, const struct rt_span *spans, size_t span_count, size_t params,
                         struct rt_span owned[RT_MAX_OWNED]);

#endif
