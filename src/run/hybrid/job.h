/*
 * The job of a node of rings that stand side by side: the ring's (job/job.h), and that of an exchange
 * (run/exchange/job.h), which says how gradients are exchanged and what the heads of rings learn from. A
 * tree with the key `rings` is one of these.
 */
#ifndef RT_RUN_HYBRID_JOB_H
#define RT_RUN_HYBRID_JOB_H

#include "run/exchange/job.h"
#include "run/hybrid/part_pipeline.h"

/* The keys of the tree: rings (how many), ring (the job of a ring; its part is the node's own business),
 * across (the job of an exchange). */
struct rt_hybrid_job {
    struct rt_tree *ring;               /* owned */
    struct rt_exchange_job *inter_ring; /* owned */
    uint16_t rings, places;             /* and how long each is */
    uint16_t index;                     /* of ring, place: the node's own */
    uint16_t ours, place;
    bool with_servers; /* the rings do not stay together: they have servers, and batches or rounds of their
                          own */
};

/* Whether such rings have servers, and whether they share each batch. */
bool rt_hybrid_has_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options);
bool rt_hybrid_shares(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options);

/* How updates that rings make together are numbered: zeros where the servers' rules do it. */
struct rt_hybrid_numbering rt_hybrid_numbering(const struct rt_hybrid_job *job);

/* How gradients are exchanged: the strategy that hybrid's options name, and its own options. */
rt_status rt_hybrid_strategy(const struct rt_exchange_options *hybrid,
                             const struct rt_exchange_strategy **strategy,
                             struct rt_exchange_options *options, struct rt_error *err);

/* The training configuration is that of the run; ring: the job of a ring, which is copied. */
rt_status rt_hybrid_job_tree(const struct rt_training_config *config, const char *fingerprint,
                             const struct rt_link_cost *cost, const struct rt_tree *ring,
                             struct rt_tree **tree, struct rt_error *err);

/* For node `index` of so many. tree is copied. */
rt_status rt_hybrid_job_create(const struct rt_tree *tree, uint16_t index, size_t nodes,
                               struct rt_hybrid_job **job, struct rt_error *err);
void rt_hybrid_job_destroy(struct rt_hybrid_job *job); /* NULL is fine */

bool rt_hybrid_job_is(const struct rt_tree *tree);

#endif
