/*
 * The position of a node in a run of several rings: its ring, its position there, both derived from its
 * index, and the job of its ring. Also what the strategy between the rings implies for them.
 */
#ifndef RT_RUN_HYBRID_POSITION_H
#define RT_RUN_HYBRID_POSITION_H

#include "exchange/section.h"
#include "run/hybrid/part_pipeline.h"

struct rt_position {
    struct rt_job *job;                    /* of all rings; owned */
    struct rt_job *ring_job;               /* of the node's ring, with its part of each batch; owned */
    struct rt_exchange_section inter_ring; /* how the rings exchange gradients */
    uint16_t rings, ring_size;             /* how many, and nodes of each */
    uint16_t index, ring, ring_position;   /* the node's own */
    bool with_servers; /* the rings do not stay together: they have servers, and batches or rounds of their
                          own */
};

/* Whether such rings have servers, and whether they share each batch. */
bool rt_hybrid_has_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options);
bool rt_hybrid_shares(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options);

/* How updates that rings make together are numbered: zeros where the servers' rules do it. */
struct rt_hybrid_numbering rt_hybrid_numbering(const struct rt_position *position);

/* How gradients are exchanged: the strategy that hybrid's options name, and its own options. */
rt_status rt_hybrid_strategy(const struct rt_exchange_options *hybrid,
                             const struct rt_exchange_strategy **strategy,
                             struct rt_exchange_options *options, struct rt_error *err);

/* Of node `index` of so many, by a job for a hybrid. tree is copied. */
rt_status rt_position_create(const struct rt_tree *tree, uint16_t index, size_t nodes,
                             struct rt_position **position, struct rt_error *err);
void rt_position_destroy(struct rt_position *position); /* NULL is fine */

#endif
