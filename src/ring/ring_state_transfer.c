/* The master's side of parameters on their way (ring/flow_state_transfer.c): it writes what comes in, in
 * layer order, its own first layers before and its last layers behind the others', and it sends out what is
 * loaded. */
#include "ring/ring_inside.h"

/* Floats of a word that the other nodes have together. */
static size_t others(const struct rt_ring *ring, size_t word) {
    return word == 0 ? ring->other_floats : ring->other_params;
}

/* ---- gathering ----------------------------------------------------------------------------------------- */

/* A failure to write ends the gathering, not the ring: the rest is dropped as it comes. */
static void put(struct rt_ring *ring, const float *floats, size_t count) {
    if (ring->collect.status == RT_OK && count)
        ring->collect.status =
            ring->collect.write(ring->collect.user, ring->collect.word, count, floats, &ring->collect.error);
}

static void write_own(struct rt_ring *ring, const struct rt_stage *stage) {
    const size_t all = stage ? rt_stage_state_floats(stage, ring->collect.word) : 0;
    for (size_t at = 0, count; at < all; at += count) {
        count = all - at < RT_BULK_FLOATS ? all - at : RT_BULK_FLOATS;
        rt_stage_state_read(stage, ring->collect.word, at, count, ring->scratch);
        put(ring, ring->scratch, count);
    }
}

/* Our first layers' floats of the next word, and the question for the others'. */
static void begin_word(struct rt_ring *ring) {
    ring->collect.active = ring->collect.word < ring->collect.end;
    if (!ring->collect.active)
        return;
    ring->collect.got = 0;
    write_own(ring, ring->head);
    ring->collect.unsent = true;
    rt_ring_continue_collect(ring);
}

void rt_ring_continue_collect(struct rt_ring *ring) {
    if (!ring->collect.unsent)
        return;
    struct rt_bulk_buffer *own = rt_bulk_own(&ring->flow);
    if (!own)
        return;
    rt_bulk_send(&ring->flow, own, RT_MESSAGE_COLLECT, ring->collect.word, ring->head->image_update, 0,
                 false);
    ring->collect.unsent = false;
}

static rt_status take_collected(struct rt_ring *ring, const struct rt_message *message, const float *floats,
                                size_t count, struct rt_error *err) {
    const size_t left = ring->collect.active ? others(ring, ring->collect.word) - ring->collect.got : 0;
    const bool marker = message->type == RT_MESSAGE_COLLECT;
    if (!ring->collect.active || message->micro != ring->collect.word ||
        message->update != ring->head->image_update || (marker ? left != 0 : count > left)) {
        ring->flow.lost = ring->flow.previous.number;
        return rt_fail(err, RT_FAILED, "node %u: %zu floats of word %llu at update %llu were not expected",
                       message->source, count, (unsigned long long)message->micro,
                       (unsigned long long)message->update);
    }
    ring->collect.got += count;
    put(ring, floats, count);
    if (marker) {
        write_own(ring, ring->tail);
        ring->collect.word++;
        begin_word(ring);
    }
    return RT_OK;
}

rt_status rt_ring_take_bulk(void *self, const struct rt_message *message, const float *floats, size_t count,
                            struct rt_error *err) {
    struct rt_ring *ring = self;
    if (message->type != RT_MESSAGE_LOAD)
        return take_collected(ring, message, floats, count, err);
    ring->loads_back++;
    return RT_OK;
}

rt_status rt_ring_collect_begin(struct rt_ring *ring, size_t first, size_t words, rt_state_write write,
                                void *user, struct rt_error *err) {
    if (ring->flow.status != RT_OK)
        return rt_fail(err, ring->flow.status, "%s", ring->flow.error.text);
    if (ring->collect.active)
        return rt_fail(err, RT_BAD_INPUT, "a snapshot is being gathered already");
    if (!ring->head->image_taken)
        return rt_fail(err, RT_BAD_INPUT, "there is no snapshot to be gathered");
    if (first > ring->words || words > ring->words - first)
        return rt_fail(err, RT_BAD_INPUT, "there are %zu words, not %zu from %zu on", ring->words, words,
                       first);
    ring->collect.word = first;
    ring->collect.end = first + words;
    ring->collect.write = write;
    ring->collect.user = user;
    ring->collect.status = RT_OK;
    if (ring->settings.plan->nodes > 1) {
        begin_word(ring);
        return RT_OK;
    }
    for (; ring->collect.word < ring->collect.end; ring->collect.word++)
        write_own(ring, ring->head);
    return RT_OK;
}

bool rt_ring_collect_done(const struct rt_ring *ring) {
    return !ring->collect.active;
}

static bool is_collected(void *self) {
    struct rt_ring *ring = self;
    rt_ring_continue_collect(ring);
    return !ring->collect.active;
}

rt_status rt_ring_collect_finish(struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_ring_run(ring, is_collected, err);
    if (status == RT_OK && ring->collect.status != RT_OK)
        status = rt_fail(err, ring->collect.status, "%s", ring->collect.error.text);
    return status;
}

/* ---- loading ------------------------------------------------------------------------------------------- */

static bool can_send(void *self) {
    return rt_bulk_own(&((struct rt_ring *)self)->flow);
}

static rt_status load_own(struct rt_ring *ring, struct rt_stage *stage, size_t word, rt_state_read read,
                          void *user, struct rt_error *err) {
    const size_t all = stage ? rt_stage_state_floats(stage, word) : 0;
    rt_status status = RT_OK;
    for (size_t at = 0, count; status == RT_OK && at < all; at += count) {
        count = all - at < RT_BULK_FLOATS ? all - at : RT_BULK_FLOATS;
        status = read(user, word, count, ring->scratch, err);
        if (status == RT_OK)
            rt_stage_state_write(stage, word, at, count, ring->scratch);
    }
    return status;
}

static rt_status load_others(struct rt_ring *ring, size_t word, uint64_t update, rt_state_read read,
                             void *user, struct rt_error *err) {
    const size_t all = others(ring, word);
    for (size_t at = 0, count;; at += count) {
        count = all - at < RT_BULK_FLOATS ? all - at : RT_BULK_FLOATS;
        rt_status status = rt_ring_run(ring, can_send, err);
        if (status != RT_OK)
            return status;
        struct rt_bulk_buffer *own = rt_bulk_own(&ring->flow);
        if (count == 0) {
            rt_bulk_send(&ring->flow, own, RT_MESSAGE_LOAD, word, update, 0, false);
            return RT_OK;
        }
        status = read(user, word, count, own->floats, err);
        if (status != RT_OK)
            return status;
        rt_bulk_send(&ring->flow, own, RT_MESSAGE_PART, word, update, count, at + count == all);
    }
}

static bool are_loads_back(void *self) {
    const struct rt_ring *ring = self;
    return ring->loads_back == ring->words;
}

static bool are_snapshots_back(void *self) {
    return ((const struct rt_ring *)self)->snapshots_out == 0;
}

rt_status rt_ring_load(struct rt_ring *ring, size_t words, uint64_t update, rt_state_read read, void *user,
                       struct rt_error *err) {
    rt_status status = RT_OK;
    if (words == 0 || words > ring->words)
        return rt_fail(err, RT_BAD_INPUT, "there are %zu words, not %zu", ring->words, words);
    /* When a snapshot has been all round, everybody has applied the last update, and nothing is on its way
     * that is of the parameters before. */
    if (ring->begun || ring->flow.segments[0].arrived)
        status = rt_ring_snapshot(ring, err);
    if (status == RT_OK)
        status = rt_ring_run(ring, are_snapshots_back, err);
    const bool alone = ring->settings.plan->nodes == 1;
    ring->loads_back = 0;
    for (size_t word = 0; status == RT_OK && word < words; word++) {
        status = load_own(ring, ring->head, word, read, user, err);
        if (status == RT_OK && !alone)
            status = load_others(ring, word, update, read, user, err);
        if (status == RT_OK)
            status = load_own(ring, ring->tail, word, read, user, err);
    }
    ring->loads_back += ring->words - words;
    if (status == RT_OK && !alone)
        status = rt_ring_run(ring, are_loads_back, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < ring->flow.segment_count; i++) {
        struct rt_segment *segment = &ring->flow.segments[i];
        segment->next.update = update;
        if (segment->stage) {
            segment->stage->update = update;
            segment->stage->image_taken = false;
        }
    }
    ring->begun = ring->returned = update;
    return RT_OK;
}
