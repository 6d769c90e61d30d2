/*
 * The state of an older version, back from where it is kept (ring/replicas.h), in a ring that has just been
 * formed. Every node has taken what it holds itself of its layers. The rest goes through the master, run of
 * layers by run of layers, hop by hop round the ring: it is fetched from the node that keeps it, and stored
 * on the one that needs it.
 */
#include "ring/ring_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct restore {
    struct rt_ring *ring;
    const uint16_t *holder; /* [layers] */
    size_t *stored;         /* [nodes] floats */
    float *piece;           /* the floats that are under way, */
    size_t at;              /* and how many of them have been taken or given */
};

enum { RESTORE_PIECE = 1 << 20 }; /* floats: large, since each is a way round the ring */

static rt_status restore_take(void *user, size_t tensor, size_t count, const float *floats,
                              struct rt_error *err) {
    struct restore *restore = user;
    (void)tensor, (void)err;
    memcpy(restore->piece + restore->at, floats, count * sizeof *floats);
    restore->at += count;
    return RT_OK;
}

static rt_status restore_give(void *user, size_t tensor, size_t count, float *floats, struct rt_error *err) {
    struct restore *restore = user;
    (void)tensor, (void)err;
    memcpy(floats, restore->piece + restore->at, count * sizeof *floats);
    restore->at += count;
    return RT_OK;
}

static rt_status restore_fetch(struct restore *restore, uint16_t holder, const struct rt_state_range *range,
                               struct rt_error *err) {
    const struct rt_state_order order = {.kind = RT_STATE_FETCH,
                                         .node = holder,
                                         .tensor = range->tensor,
                                         .first = range->first,
                                         .count = range->count,
                                         .version = range->version,
                                         .take = restore_take,
                                         .user = restore};
    restore->at = 0;
    if (holder > 0)
        return rt_ring_carry_out(restore->ring, &order, err);
    if (rt_replicas_read(*restore->ring->settings.replicas, range, restore->piece))
        return RT_OK;
    return rt_fail(err, RT_FAILED, "the state of update %llu is not here",
                   (unsigned long long)range->version);
}

static rt_status restore_store(struct restore *restore, uint16_t node, const struct rt_state_range *range,
                               struct rt_error *err) {
    const struct rt_state_order order = {.kind = RT_STATE_STORE,
                                         .node = node,
                                         .tensor = range->tensor,
                                         .first = range->first,
                                         .count = range->count,
                                         .version = range->version,
                                         .give = restore_give,
                                         .user = restore};
    restore->at = 0;
    restore->stored[node] += range->count;
    return rt_ring_carry_out(restore->ring, &order, err);
}

/* The stage of the master that has the layer; NULL: another node has it. */
static struct rt_stage *restore_own_stage(const struct rt_ring *ring, size_t layer) {
    if (layer < ring->head->model->count)
        return ring->head;
    return ring->tail && layer >= ring->tail->model->first ? ring->tail : NULL;
}

static rt_status restore_move(struct restore *restore, uint16_t node, uint16_t holder, size_t layer,
                              const struct rt_state_range *range, struct rt_error *err) {
    struct rt_stage *own = node == 0 ? restore_own_stage(restore->ring, layer) : NULL;
    RT_TRY(restore_fetch(restore, holder, range, err));
    if (!own)
        return restore_store(restore, node, range, err);
    const size_t begin = rt_state_map_at(&restore->ring->flow.state_map, range->tensor, own->model->first);
    rt_stage_state_write(own, range->tensor, range->first - begin, range->count, restore->piece);
    return RT_OK;
}

/* Layers first..end of one node, which another one keeps. */
static rt_status restore_layers(struct restore *restore, uint16_t node, size_t first, size_t end,
                                struct rt_error *err) {
    const struct rt_ring *ring = restore->ring;
    const struct rt_state_map *map = &ring->flow.state_map;
    struct rt_state_range range = {.version = ring->settings.version};
    for (; range.tensor < ring->tensors; range.tensor++) {
        const size_t stop = rt_state_map_at(map, range.tensor, end);
        for (range.first = rt_state_map_at(map, range.tensor, first); range.first < stop;
             range.first += range.count) {
            range.count = stop - range.first < RESTORE_PIECE ? stop - range.first : RESTORE_PIECE;
            RT_TRY(restore_move(restore, node, restore->holder[first], first, &range, err));
        }
    }
    return RT_OK;
}

static rt_status restore_run(struct restore *restore, uint16_t node, size_t first, size_t count,
                             struct rt_error *err) {
    for (size_t at = first, end; at < first + count; at = end) {
        for (end = at + 1; end < first + count && restore->holder[end] == restore->holder[at]; end++)
            ;
        if (restore->holder[at] != node)
            RT_TRY(restore_layers(restore, node, at, end, err));
    }
    return RT_OK;
}

static rt_status restore_all(struct restore *restore, struct rt_error *err) {
    const struct rt_ring *ring = restore->ring;
    const struct rt_plan *plan = ring->settings.plan;
    RT_TRY(rt_alloc(plan->nodes, sizeof *restore->stored, "the nodes", &restore->stored, err));
    RT_TRY(rt_floats_create(RESTORE_PIECE, "state in transfer", &restore->piece, err));
    RT_TRY(restore_run(restore, 0, 0, ring->head->model->count, err));
    for (size_t node = 1; node < plan->nodes; node++)
        RT_TRY(restore_run(restore, (uint16_t)node, plan->node[node].first, plan->node[node].count, err));
    if (ring->tail)
        RT_TRY(restore_run(restore, 0, ring->tail->model->first, ring->tail->model->count, err));
    return rt_ring_declare(restore->ring, ring->settings.version, restore->stored, err);
}

rt_status rt_ring_restore(struct rt_ring *ring, const uint16_t *holder, struct rt_error *err) {
    struct restore restore = {.ring = ring, .holder = holder};
    const rt_status status = restore_all(&restore, err);
    free(restore.stored);
    free(restore.piece);
    return status;
}

uint64_t rt_ring_moved(const struct rt_ring *ring) {
    return ring->moved * sizeof(float);
}

uint64_t rt_ring_replicated(const struct rt_ring *ring) {
    return ring->coordinator ? ring->flow.replication.complete : rt_ring_version(ring);
}
