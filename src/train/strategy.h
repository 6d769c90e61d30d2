/*
 * The ways to distribute a training, by name. One strategy is one line in the registry: its options, a help
 * text, and the function that opens a learner of its kind.
 */
#ifndef RT_TRAIN_STRATEGY_H
#define RT_TRAIN_STRATEGY_H

#include "train/learner.h"

struct rt_strategy {
    const char *name;
    const char *help; /* one line */
    const struct rt_option *options;
    size_t option_count;
    size_t settings_bytes;
    bool alone;   /* trains on one device only */
    bool single;  /* an update is one example, whatever train.batch says */
    bool streams; /* learns from a stream */
    bool flows;   /* never drains: neither shards nor clipping are possible */
    rt_status (*open)(const struct rt_lesson *lesson, struct rt_learner *learner, struct rt_error *err);
};

const struct rt_strategy *const *rt_strategies(void); /* NULL-terminated */

/* What a run file asks for. */
struct rt_strategy_choice {
    const struct rt_strategy *strategy;
    void *settings;        /* as its options say; owned */
    struct rt_tree *words; /* the tree that settings may borrow from; owned */
};

/* cluster.strategy: "ring", "ring,schedule=1f1b" or {ring: {schedule: 1f1b}}; absent: ring-stream for a
 * stream, else ring where there are several devices, else sgd. */
rt_status rt_strategy_read(const struct rt_spec *spec, struct rt_strategy_choice *choice,
                           struct rt_error *err);
void rt_strategy_choice_deinit(struct rt_strategy_choice *choice); /* a zeroed one is fine */

/* What the strategies of the ring share. */
struct rt_ring_options {
    int schedule;  /* 0: split, 1: 1f1b */
    int64_t damp;  /* ring-flow: power of the damping of stale gradients */
    int64_t slots; /* micro-batches that a node holds at a time; -1: the planner chooses */
};

#endif
