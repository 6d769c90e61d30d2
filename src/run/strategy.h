/*
 * The strategies to distribute a training, by name. One strategy is one line in the registry: its options, a
 * help text, and the function that opens a learner of its kind. The strategies of the ring are written down
 * here; each strategy of exchange (exchange/strategy.h) is a strategy as well.
 */
#ifndef RT_RUN_STRATEGY_H
#define RT_RUN_STRATEGY_H

#include "exchange/strategy.h"
#include "run/learner.h"

struct rt_strategy {
    const char *name;
    const char *help; /* one line; NULL, as are place and options: those of the exchange strategy */
    struct rt_taxonomy place;
    const struct rt_option *options;
    size_t option_count;
    size_t settings_bytes;
    const struct rt_exchange_strategy *exchange; /* gradients or parameters are exchanged; NULL: not */
    bool rings;                                  /* there are rings after all, several of them */
    bool alone;                                  /* trains on one device only */
    bool single;                                 /* an update is one example, whatever train.batch says */
    bool streams;                                /* learns from a stream */
    bool flows;                                  /* never drains: neither shards nor clipping are possible */
    rt_status (*open)(const struct rt_training_config *config, struct rt_learner *learner,
                      struct rt_error *err);
};

const struct rt_strategy *const *rt_strategies(void); /* NULL-terminated */
const struct rt_strategy *rt_strategy_find(const char *name);
const char *rt_strategy_help(const struct rt_strategy *strategy);
const struct rt_taxonomy *rt_strategy_place(const struct rt_strategy *strategy);
const struct rt_option *rt_strategy_options(const struct rt_strategy *strategy, size_t *count);

/* A system of the literature, and the strategy that trains as it does: `--strategy as:NAME`. */
struct rt_system {
    const char *name;
    const char *strategy;
    const char *options; /* "k=4,base=async", or "" */
    const char *without; /* what of it is not reproduced, a few words; NULL: nothing that matters here */
};
const struct rt_system *rt_systems(size_t *count);
/* By its name, whatever the capitals, with '-', '_' or a blank between words; NULL: not there. */
const struct rt_system *rt_system_find(const char *name);

/* The strategy that a run file asks for. With `hybrid`, settings also hold the options of the exchange
 * between the rings. */
struct rt_strategy_choice {
    const struct rt_strategy *strategy;
    void *settings;        /* as its options say (an exchange's: struct rt_exchange_options); owned */
    struct rt_tree *words; /* the tree that settings may borrow from; owned */
    const struct rt_system *system; /* that it was asked for by; NULL: by its own name */
};

/* cluster.strategy: "ring", "ring,schedule=1f1b", {ring: {schedule: 1f1b}}, or "as:horovod" for a system of
 * the literature; absent: ring-stream for a stream, else ring where there are several devices, else sgd.
 * Refuses what cannot be, as far as it can be told without the network and the data. damp: auto is the number
 * that suits the optimizer. */
rt_status rt_strategy_read(const struct rt_spec *spec, struct rt_strategy_choice *choice,
                           struct rt_error *err);
void rt_strategy_choice_deinit(struct rt_strategy_choice *choice); /* a zeroed one is fine */

/* The rest of it, when the network is known: its parameters, and its buffers (statistics of batchnorm). What
 * `auto` stands for is settled too. */
rt_status rt_strategy_fits(const struct rt_strategy_choice *choice, const struct rt_spec *spec, size_t params,
                           size_t buffers, struct rt_error *err);

/* Every option as it is used on so many devices, as "s=3,damp=0": what can stand behind the strategy's name
 * and a comma. To be freed; NULL: memory is short. */
char *rt_strategy_text(const struct rt_strategy_choice *choice, size_t nodes);
/* What a system of the literature was taken for, with the options that were given, and what of it is left
 * out. To be freed; NULL: it was none, or memory is short. */
char *rt_strategy_explain(const struct rt_strategy_choice *choice);

/* The largest number of workers or rings that share a batch; 1: batches are not shared. */
size_t rt_strategy_sharers(const struct rt_strategy_choice *choice, const struct rt_spec *spec);
/* The strategy by which gradients are exchanged, between workers or between rings; NULL: they are not. */
const struct rt_exchange_strategy *rt_strategy_exchange(const struct rt_strategy_choice *choice);
/* Whether train.clip_norm can be. */
bool rt_strategy_clips(const struct rt_strategy_choice *choice, const struct rt_spec *spec);
/* Whether gradients may be stale where it has several devices. *damp: the power by which they are damped. */
bool rt_strategy_is_stale(const struct rt_strategy_choice *choice, int *damp);

/* What the strategies of the ring share. */
struct rt_ring_options {
    int schedule;  /* 0: split, 1: 1f1b */
    int64_t damp;  /* ring-flow: power of the damping of stale gradients; -1: what suits the optimizer */
    int64_t slots; /* micro-batches that a node holds at a time; -1: the planner chooses */
};

#endif
