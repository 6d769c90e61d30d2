/* A node's ring, its position in it, and the job of that ring. */
#include "run/hybrid/position.h"

#include "base/memory.h"
#include "exchange/strategies/strategies.h"
#include "learn/batches.h"
#include "wire/message.h"
#include <stdlib.h>

/* ---- strategies between rings ---- */

rt_status rt_hybrid_strategy(const struct rt_exchange_options *hybrid,
                             const struct rt_exchange_strategy **strategy,
                             struct rt_exchange_options *options, struct rt_error *err) {
    *strategy = rt_exchange_inner(&rt_strategy_hybrid, hybrid);
    *options = *hybrid;
    if (rt_hybrid_has_servers(*strategy, options) && options->servers < 0)
        options->servers = 1; /* at each position */
    return rt_exchange_check(*strategy, options, (size_t)hybrid->rings, 0, err);
}

bool rt_hybrid_has_servers(const struct rt_exchange_strategy *strategy,
                           const struct rt_exchange_options *options) {
    return rt_exchange_rules(strategy, options) != NULL;
}

bool rt_hybrid_shares(const struct rt_exchange_strategy *strategy,
                      const struct rt_exchange_options *options) {
    return !rt_exchange_is_asynchronous(strategy, options);
}

struct rt_hybrid_numbering rt_hybrid_numbering(const struct rt_position *position) {
    const struct rt_job *job = position->job;
    if (position->with_servers)
        return (struct rt_hybrid_numbering){0};
    return (struct rt_hybrid_numbering){
        .per_epoch = (uint64_t)job->per_epoch,
        .batches = rt_batches_count((uint64_t)job->data.examples, (uint64_t)job->batch, job->data.drop_last)};
}

/* ---- a position ---- */

static rt_status position_check_inter_ring(const struct rt_exchange_section *inter_ring, uint16_t rings,
                                           struct rt_error *err) {
    const struct rt_exchange_strategy *strategy = inter_ring->strategy;
    const struct rt_exchange_options *options = &inter_ring->options;
    if (strategy->inner || options->dedicated)
        return rt_fail(err, RT_BAD_INPUT, "rings cannot exchange gradients by %s%s", strategy->name,
                       options->dedicated ? ", dedicated" : "");
    RT_TRY(rt_exchange_check(strategy, options, rings, 0, err));
    if (rt_hybrid_has_servers(strategy, options) && rt_exchange_servers(strategy, options, rings) != 1)
        return rt_fail(err, RT_BAD_INPUT, "rings that exchange by %s have one server at each place",
                       strategy->name);
    return RT_OK;
}

static rt_status position_read(struct rt_position *position, const struct rt_tree *tree, size_t nodes,
                               struct rt_error *err) {
    struct rt_tree *copy;
    RT_TRY(rt_tree_copy(tree, &copy, err));
    RT_TRY(rt_job_create(copy, &position->job, err));
    const struct rt_job *job = position->job;
    if (job->learner != RT_JOB_HYBRID)
        return rt_fail(err, RT_BAD_INPUT, "the job is not for several rings");
    if (nodes < 2 || nodes > RT_MAX_NODES || nodes % (size_t)job->rings != 0 || position->index >= nodes)
        return rt_fail(err, RT_BAD_INPUT, "%lld rings cannot be made of %zu nodes", (long long)job->rings,
                       nodes);
    position->rings = (uint16_t)job->rings;
    position->ring_size = (uint16_t)(nodes / position->rings);
    position->ring = (uint16_t)(position->index / position->ring_size);
    position->ring_position = (uint16_t)(position->index % position->ring_size);
    struct rt_exchange_section *inter_ring = &position->inter_ring;
    RT_TRY(rt_exchange_section_read(job, inter_ring, err));
    RT_TRY(position_check_inter_ring(inter_ring, position->rings, err));
    position->with_servers = rt_hybrid_has_servers(inter_ring->strategy, &inter_ring->options);
    const bool shares = rt_hybrid_shares(inter_ring->strategy, &inter_ring->options);
    /* Parts and servers follow from the strategy; the fields of the message are not trusted. */
    struct rt_job ring = *job;
    ring.learner = RT_JOB_RING;
    ring.rings = 1;
    ring.ring.with_servers = position->with_servers;
    ring.ring.part = shares ? position->ring : 0;
    ring.ring.parts = shares ? position->rings : 1;
    return rt_job_write(&ring, &position->ring_job, err);
}

rt_status rt_position_create(const struct rt_tree *tree, uint16_t index, size_t nodes,
                             struct rt_position **position, struct rt_error *err) {
    struct rt_position *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the job", &made, err));
    made->index = index;
    RT_FINISH_CREATE(position_read(made, tree, nodes, err), made, rt_position_destroy, position);
}

void rt_position_destroy(struct rt_position *position) {
    if (!position)
        return;
    rt_job_destroy(position->ring_job);
    rt_job_destroy(position->job);
    free(position);
}
