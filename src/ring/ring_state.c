/*
 * The model's state, which the master of a ring saves to files and loads from them, in layer order: its own
 * first layers, those of the other nodes, and its own last layers. State transfer round the ring moves the
 * state of the other nodes (control/state_transfer.h).
 */
#include "ring/ring_inside.h"

#include "base/memory.h"
#include <stdlib.h>

size_t rt_ring_held(const struct rt_ring *ring, size_t tensor, size_t node, size_t *first) {
    const struct rt_plan_node *held = &ring->settings.plan->node[node];
    const struct rt_state_map *map = &ring->flow.state_map;
    *first = rt_state_map_at(map, tensor, held->first);
    return rt_state_map_at(map, tensor, held->first + held->count) - *first;
}

static struct rt_state_order ring_order(struct rt_ring *ring, enum rt_state_order_kind kind, size_t tensor,
                                        size_t node) {
    struct rt_state_order order = {.kind = kind, .node = (uint16_t)node, .tensor = tensor, .user = ring};
    order.count = rt_ring_held(ring, tensor, node, &order.first);
    return order;
}

/* All other nodes are reached by the one route. */
static void ring_begin_order(struct rt_ring *ring, const struct rt_state_order *order) {
    struct rt_error ignored; /* a failure stays */
    rt_coordinator_order(ring->coordinator, 1, *order);
    (void)ring->flow.control.turn(ring->coordinator, &ignored);
}

static bool ring_is_transferred(void *self) {
    const struct rt_ring *ring = self;
    return !ring->coordinator || rt_coordinator_idle(ring->coordinator);
}

/* ---- collecting ---------------------------------------------------------------------------------------- */

/* A failure to write ends the collecting, not the ring: the rest is dropped as it comes. */
static rt_status ring_collect_take(void *user, size_t tensor, size_t count, const float *floats,
                                   struct rt_error *err) {
    struct rt_ring *ring = user;
    (void)err;
    if (ring->collect.status == RT_OK && count)
        ring->collect.status =
            ring->collect.write(ring->collect.user, tensor, count, floats, &ring->collect.error);
    return RT_OK;
}

static void ring_collect_own(struct rt_ring *ring, const struct rt_stage *stage) {
    const size_t tensor = ring->collect.tensor, all = stage ? rt_stage_state_floats(stage, tensor) : 0;
    struct rt_error ignored;
    for (size_t at = 0, count; at < all; at += count) {
        count = all - at < RT_STATE_PIECE ? all - at : RT_STATE_PIECE;
        rt_stage_state_read(stage, tensor, at, count, ring->scratch);
        ring_collect_take(ring, tensor, count, ring->scratch, &ignored);
    }
}

/* The next node's floats are asked for when those of the one before are here. A node that the snapshot has
 * not reached yet gives them when it has. Where every stage has a server each counts its own updates, and
 * the snapshot has been all round already. */
void rt_ring_collect_go_on(struct rt_ring *ring) {
    const size_t nodes = ring->settings.plan->nodes;
    while (ring->collect.active && ring_is_transferred(ring)) {
        if (ring->collect.node == 0)
            ring_collect_own(ring, ring->head);
        if (++ring->collect.node < nodes) {
            struct rt_state_order order =
                ring_order(ring, RT_STATE_FETCH, ring->collect.tensor, ring->collect.node);
            order.version = ring->job->ring.with_servers ? RT_VERSION_NOW : ring->head->image_update;
            order.take = ring_collect_take;
            if (order.count > 0)
                ring_begin_order(ring, &order);
            continue;
        }
        ring_collect_own(ring, ring->tail);
        ring->collect.node = 0;
        ring->collect.active = ++ring->collect.tensor < ring->collect.end;
    }
}

rt_status rt_ring_collect_begin(struct rt_ring *ring, size_t first, size_t tensors, rt_state_write write,
                                void *user, struct rt_error *err) {
    if (ring->flow.status != RT_OK)
        return rt_flow_say(&ring->flow, err);
    if (ring->collect.active)
        return rt_fail(err, RT_BAD_INPUT, "a snapshot is being collected already");
    if (!ring->head->image_taken)
        return rt_fail(err, RT_BAD_INPUT, "there is no snapshot to collect");
    if (first > ring->tensors || tensors > ring->tensors - first)
        return rt_fail(err, RT_BAD_INPUT, "there are %zu state tensors, not %zu from %zu on", ring->tensors,
                       tensors, first);
    ring->collect.tensor = first;
    ring->collect.end = first + tensors;
    ring->collect.node = 0;
    ring->collect.write = write;
    ring->collect.user = user;
    ring->collect.status = RT_OK;
    ring->collect.active = tensors > 0;
    rt_ring_collect_go_on(ring);
    return RT_OK;
}

bool rt_ring_collect_done(const struct rt_ring *ring) {
    return !ring->collect.active;
}

static bool ring_is_collected(void *self) {
    struct rt_ring *ring = self;
    rt_ring_collect_go_on(ring);
    return !ring->collect.active;
}

rt_status rt_ring_collect_finish(struct rt_ring *ring, struct rt_error *err) {
    RT_TRY(rt_ring_run(ring, ring_is_collected, err));
    return ring->collect.status == RT_OK ? RT_OK
                                         : rt_fail(err, ring->collect.status, "%s", ring->collect.error.text);
}

/* ---- loading ------------------------------------------------------------------------------------------- */

rt_status rt_ring_carry_out(struct rt_ring *ring, const struct rt_state_order *order, struct rt_error *err) {
    ring_begin_order(ring, order);
    RT_TRY(rt_ring_run(ring, ring_is_transferred, err));
    ring->moved += order->kind == RT_STATE_DECLARE ? 0 : order->count;
    return rt_coordinator_order_result(ring->coordinator, err);
}

static rt_status ring_load_own(struct rt_ring *ring, struct rt_stage *stage, size_t tensor,
                               rt_state_read read, void *user, struct rt_error *err) {
    const size_t all = stage ? rt_stage_state_floats(stage, tensor) : 0;
    for (size_t at = 0, count; at < all; at += count) {
        count = all - at < RT_STATE_PIECE ? all - at : RT_STATE_PIECE;
        RT_TRY(read(user, tensor, count, ring->scratch, err));
        rt_stage_state_write(stage, tensor, at, count, ring->scratch);
    }
    return RT_OK;
}

static rt_status ring_load_tensor(struct rt_ring *ring, size_t tensor, uint64_t update, rt_state_read read,
                                  void *user, struct rt_error *err) {
    RT_TRY(ring_load_own(ring, ring->head, tensor, read, user, err));
    for (size_t node = 1; node < ring->settings.plan->nodes; node++) {
        struct rt_state_order order = ring_order(ring, RT_STATE_STORE, tensor, node);
        order.version = update;
        order.give = read;
        order.user = user;
        if (order.count > 0)
            RT_TRY(rt_ring_carry_out(ring, &order, err));
    }
    return ring_load_own(ring, ring->tail, tensor, read, user, err);
}

static bool ring_are_snapshots_back(void *self) {
    return ((const struct rt_ring *)self)->snapshots_out == 0;
}

rt_status rt_ring_snapshot_finish(struct rt_ring *ring, struct rt_error *err) {
    return rt_ring_run(ring, ring_are_snapshots_back, err);
}

rt_status rt_ring_declare(struct rt_ring *ring, uint64_t update, const size_t *stored, struct rt_error *err) {
    for (size_t node = 1; node < ring->settings.plan->nodes; node++) {
        const struct rt_state_order order = {
            .kind = RT_STATE_DECLARE, .node = (uint16_t)node, .version = update, .count = stored[node]};
        RT_TRY(rt_ring_carry_out(ring, &order, err));
    }
    for (size_t i = 0; i < ring->flow.segment_count; i++)
        rt_segment_set_update(&ring->flow.segments[i], update);
    ring->begun = ring->returned = update;
    return RT_OK;
}

rt_status rt_ring_load(struct rt_ring *ring, size_t tensors, uint64_t update, rt_state_read read, void *user,
                       struct rt_error *err) {
    const size_t nodes = ring->settings.plan->nodes;
    size_t *stored, first;
    if (tensors == 0 || tensors > ring->tensors)
        return rt_fail(err, RT_BAD_INPUT, "there are %zu state tensors, not %zu", ring->tensors, tensors);
    /* When a snapshot has passed all nodes, they all have applied the last update, and no message in flight
     * belongs to older parameters. */
    if (ring->begun || ring->flow.segments[0].arrived)
        RT_TRY(rt_ring_snapshot(ring, err));
    RT_TRY(rt_ring_snapshot_finish(ring, err));
    for (size_t tensor = 0; tensor < tensors; tensor++)
        RT_TRY(ring_load_tensor(ring, tensor, update, read, user, err));
    RT_TRY(rt_alloc(nodes, sizeof *stored, "the nodes", &stored, err));
    for (size_t node = 1; node < nodes; node++)
        for (size_t tensor = 0; tensor < tensors; tensor++)
            stored[node] += rt_ring_held(ring, tensor, node, &first);
    const rt_status status = rt_ring_declare(ring, update, stored, err);
    free(stored);
    return status;
}
