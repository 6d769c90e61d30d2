/*
 * Shared by the strategies: their list, and the options that several offer. The parts of synchronous
 * strategies are in exchange/server/synchronous.h.
 */
#ifndef RT_EXCHANGE_STRATEGIES_STRATEGIES_H
#define RT_EXCHANGE_STRATEGIES_STRATEGIES_H

#include "exchange/server/synchronous.h"
#include "exchange/strategy.h"
#include <stddef.h>

/* The registry, in the order of `ringtmp list strategies`: the symbol rt_strategy_..., and the name. */
#define RT_STRATEGY_LIST(X)                                                                                  \
    X(allreduce_auto, "allreduce-auto")                                                                      \
    X(allreduce_ring, "allreduce-ring")                                                                      \
    X(allreduce_rd, "allreduce-rd")                                                                          \
    X(allreduce_hd, "allreduce-hd")                                                                          \
    X(allreduce_tree, "allreduce-tree")                                                                      \
    X(ps_sync, "ps-sync")                                                                                    \
    X(ps_tree, "ps-tree")                                                                                    \
    X(ps_scatter, "ps-scatter")                                                                              \
    X(ps_hier, "ps-hier")                                                                                    \
    X(ps_peer, "ps-peer")                                                                                    \
    X(ps_shard, "ps-shard")                                                                                  \
    X(ps_async, "ps-async")                                                                                  \
    X(ps_ssp, "ps-ssp")                                                                                      \
    X(ps_vap, "ps-vap")                                                                                      \
    X(ps_backup, "ps-backup")                                                                                \
    X(ps_cut, "ps-cut")                                                                                      \
    X(downpour, "downpour")

#define RT_STRATEGY_DECLARE(symbol, name) extern const struct rt_exchange_strategy rt_strategy_##symbol;
RT_STRATEGY_LIST(RT_STRATEGY_DECLARE)
#undef RT_STRATEGY_DECLARE

/* Not in the list: it joins rings by one of these. */
extern const struct rt_exchange_strategy rt_strategy_hybrid;

/* ---- options ---- */

extern const char *const rt_exchange_off_on[];
extern const char *const rt_exchange_orders[];
extern const char *const rt_exchange_mean_sum[];
extern const char *const rt_exchange_shares[];
extern const char *const rt_exchange_prios[];
extern const char *const rt_exchange_bases[];
extern const char *const rt_exchange_steps[];

#define RT_STRATEGY_AT(field) offsetof(struct rt_exchange_options, field)
#define RT_STRATEGY_REAL_MAX  1e30
#define RT_STRATEGY_COUNT_MAX 65535

#define RT_STRATEGY_WFBP                                                                                     \
    {                                                                                                        \
        "wfbp", RT_OPTION_CHOICE, RT_STRATEGY_AT(wfbp), "on",                                                \
            .choices = rt_exchange_off_on, .help = "exchange a layer as soon as its gradient is there"       \
    }
#define RT_STRATEGY_ORDER                                                                                    \
    {                                                                                                        \
        "order", RT_OPTION_CHOICE, RT_STRATEGY_AT(order), "up",                                              \
            .choices = rt_exchange_orders, .help = "layers are exchanged from the last down or the first up" \
    }
#define RT_STRATEGY_BUCKET                                                                                   \
    {                                                                                                        \
        "bucket", RT_OPTION_INT, RT_STRATEGY_AT(bucket), "auto", 0, 4194304,                                 \
            .auto_word = "auto", .help = "KiB: neighbouring layers are exchanged together up to this size"   \
    }
#define RT_STRATEGY_REDUCE                                                                                   \
    {                                                                                                        \
        "reduce", RT_OPTION_CHOICE, RT_STRATEGY_AT(reduce), "mean",                                          \
            .choices = rt_exchange_mean_sum,                                                                 \
            .help = "the mean over the batch, or the sum of the workers' means"                              \
    }
#define RT_STRATEGY_SHARES                                                                                   \
    {                                                                                                        \
        "shares", RT_OPTION_CHOICE, RT_STRATEGY_AT(shares), "auto",                                          \
            .choices = rt_exchange_shares,                                                                   \
            .help = "slices of train.shards for each worker: by measured speed, or equal"                    \
    }
#define RT_STRATEGY_DEDICATED                                                                                \
    {                                                                                                        \
        "dedicated", RT_OPTION_BOOL, RT_STRATEGY_AT(dedicated), "false",                                     \
            .help = "a server has a node of its own, and does not work"                                      \
    }
#define RT_STRATEGY_PRIO                                                                                     \
    {                                                                                                        \
        "prio", RT_OPTION_CHOICE, RT_STRATEGY_AT(prio), "arrival",                                           \
            .choices = rt_exchange_prios, .help = "served first: the earliest, or the stalest"               \
    }
#define RT_STRATEGY_DAMP                                                                                     \
    {                                                                                                        \
        "damp", RT_OPTION_REAL, RT_STRATEGY_AT(damp), "auto", 0, RT_MAX_DAMP,                                \
            .auto_word = "auto",                                                                             \
            .help = "the rate over (1 + staleness)^damp; auto: momentum 2, adam 1, sgd 0"                    \
    }
#define RT_STRATEGY_DC                                                                                       \
    {                                                                                                        \
        "dc", RT_OPTION_REAL, RT_STRATEGY_AT(compensate), "0", 0, RT_STRATEGY_REAL_MAX,                      \
            .help = "lambda of delay compensation: g + lambda g g (w - w_read); 0: off"                      \
    }

enum { RT_STRATEGY_USUAL_BOUND = 3 };
#define RT_STRATEGY_BOUND                                                                                    \
    {                                                                                                        \
        "s", RT_OPTION_INT, RT_STRATEGY_AT(bound), "3", 0, 2e18,                                             \
            .auto_word = "inf",                                                                              \
            .help = "ssp: gradients a worker may be ahead of the slowest; inf: any number"                   \
    }
#define RT_STRATEGY_STEP                                                                                     \
    {                                                                                                        \
        "step", RT_OPTION_CHOICE, RT_STRATEGY_AT(whole_clock), "push",                                       \
            .choices = rt_exchange_steps, .help = "ssp: an update per gradient, or one for all workers'"     \
    }

/* What every synchronous strategy offers, every strategy by collectives, and every strategy by servers that
 * judge one gradient at a time. */
#define RT_STRATEGY_SYNCHRONOUS_OPTIONS RT_STRATEGY_WFBP, RT_STRATEGY_BUCKET, RT_STRATEGY_REDUCE
#define RT_STRATEGY_COLLECTIVE_OPTIONS                                                                       \
    RT_STRATEGY_WFBP, RT_STRATEGY_ORDER, RT_STRATEGY_BUCKET, RT_STRATEGY_REDUCE
#define RT_STRATEGY_SERVER_OPTIONS                                                                           \
    RT_STRATEGY_DEDICATED, RT_STRATEGY_PRIO, RT_STRATEGY_DAMP, RT_STRATEGY_DC, RT_STRATEGY_WFBP,             \
        RT_STRATEGY_BUCKET

#define RT_STRATEGY_OPTIONS(table) .options = table, .option_count = sizeof(table) / sizeof *(table)

/* Refuses an option that the chosen base of a strategy does not read. */
rt_status rt_exchange_check_base(const struct rt_exchange_options *given, struct rt_error *err);

/* The rules of such a base; NULL: it uses collectives. */
const struct rt_rules *rt_exchange_base_rules(const struct rt_exchange_options *given);

/* ---- groups (strategy_groups.c) ---- */

/* Whether b is a member of the group whose proxy is a. */
bool rt_exchange_is_proxy_of(const struct rt_exchange_strategy *strategy,
                             const struct rt_exchange_options *options, const struct rt_roles *roles,
                             uint16_t a, uint16_t b);

#endif
