/*
 * A ring whose stages have an exchange with the stages at the same position of other rings
 * (ring/inter_ring.h). The engine never waits: it tells the exchange which gradients are ready, and checks
 * that the result is there before it goes on.
 *
 * Rings that stay together: the exchange gives sums back, and a stage applies its update when it has the sums
 * of all its layers. Rings with servers: a stage begins an update by asking for parameters, when the update
 * before is complete, and its forward waits for them.
 */
#include "ring/flow.h"

rt_status rt_flow_open_exchange(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    struct rt_stage *stages[2];
    size_t count = 0, spans = 0;
    if (!inter_ring->self)
        return RT_OK;
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        if (!segment->stage)
            continue;
        stages[count++] = segment->stage;
        segment->first_span = spans;
        for (size_t layer = 0; layer < segment->stage->model->count; layer++)
            segment->span_count += segment->stage->model->layers[layer]->param_count > 0;
        segment->unready = segment->span_count;
        spans += segment->span_count;
    }
    return inter_ring->open(inter_ring->self, stages, count, rt_flow_emulated_clock(flow), &flow->exchange,
                            err);
}

/* After a call that changes something: what can be sent now is. */
static void flow_turn_exchange(struct rt_flow *flow) {
    struct rt_error none;
    (void)flow->exchange.part.turn(flow->exchange.part.self, &none);
}

/* Whether the exchange is done with all spans of the segment. */
static bool flow_segment_has_spans(const struct rt_flow *flow, const struct rt_segment *segment) {
    const struct rt_exchange *exchange = &flow->exchange;
    for (size_t i = 0; i < segment->span_count; i++)
        if (!exchange->has(exchange->self, segment->first_span + i))
            return false;
    return true;
}

/* ---- giving gradients ---------------------------------------------------------------------------------- */

void rt_segment_give(struct rt_flow *flow, struct rt_segment *segment, size_t layer) {
    const struct rt_exchange *exchange = &flow->exchange;
    size_t before = 0; /* spans of the layers before this one */
    for (size_t i = 0; i < layer; i++)
        before += segment->stage->model->layers[i]->param_count > 0;
    rt_states_catch_up(&flow->states); /* the device has come so far */
    while (segment->unready > before) {
        const size_t span = segment->first_span + --segment->unready;
        if (!exchange->give || exchange->give(exchange->self, span))
            exchange->ready(exchange->self, span);
    }
    if (layer == 0)
        segment->unready = segment->span_count;
    if (layer == 0 && segment == &flow->segments[0]) { /* whose gradient is the last to be complete */
        const int64_t rows = (int64_t)segment->batch_rows, part = flow->job->ring.part,
                      parts = flow->job->ring.parts;
        const struct rt_done done = {.batch = segment->begun,
                                     .rows = (uint64_t)((part + 1) * rows / parts - part * rows / parts)};
        flow->given++;
        if (exchange->self)
            exchange->end(exchange->self, &done);
    }
    if (exchange->self)
        flow_turn_exchange(flow);
}

/* ---- taking what comes of them ------------------------------------------------------------------------- */

/* Whether the state that all rings start from is here. */
static bool flow_join(struct rt_flow *flow) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    flow->joined = flow->joined || inter_ring->start(inter_ring->self);
    return flow->joined;
}

/* Parameters for the update of this forward. */
static void flow_segment_ask(struct rt_flow *flow, struct rt_segment *segment,
                             const struct rt_message *message) {
    const struct rt_exchange *exchange = &flow->exchange;
    const uint64_t update = message->update + 1;
    if (segment->begun != update) {
        if (segment->weights != segment->forward)
            return;
        segment->begun = update;
        segment->batch_rows = message->rows;
        segment->wanting = true;
        if (exchange->self) {
            exchange->begin(exchange->self, &(struct rt_ticket){.batch = update, .parts = 1});
            flow_turn_exchange(flow);
        }
    }
    if (segment->wanting && flow_segment_has_spans(flow, segment)) {
        segment->wanting = false;
        rt_stage_renewed(segment->stage, message->update);
    }
}

/* A ring without a batch: this node comes to rest, and takes the newest parameters. */
static void flow_segment_rest(struct rt_flow *flow, struct rt_segment *segment) {
    const struct rt_exchange *exchange = &flow->exchange;
    if (segment->rest_asked != segment->forward + 1) {
        segment->rest_asked = segment->forward + 1;
        segment->wanting = true;
        if (exchange->rest) {
            exchange->rest(exchange->self, true);
            flow_turn_exchange(flow);
        }
    }
    if (segment->wanting && (!exchange->self || exchange->rests(exchange->self))) {
        segment->wanting = false;
        rt_stage_renewed(segment->stage, segment->stage->update);
    }
}

void rt_segment_prepare_forward(struct rt_flow *flow, struct rt_segment *segment) {
    if (!flow->settings.inter_ring.self || !segment->stage || segment->forward == segment->arrived)
        return;
    const struct rt_message *message = &rt_segment_inflight(segment, segment->forward)->message;
    if (message->type == RT_MESSAGE_FORWARD && !segment->complete && flow_join(flow) &&
        flow->job->ring.with_servers)
        flow_segment_ask(flow, segment, message);
    if (message->type == RT_MESSAGE_PULL && segment->weights == segment->forward && flow_join(flow))
        flow_segment_rest(flow, segment);
}

bool rt_segment_has_parameters(const struct rt_flow *flow, const struct rt_segment *segment,
                               const struct rt_message *message) {
    if (flow->settings.inter_ring.self && !flow->joined)
        return false;
    return !flow->job->ring.with_servers || (segment->begun == message->update + 1 && !segment->wanting);
}

bool rt_segment_rests(const struct rt_segment *segment) {
    return !segment->stage || /* the end of a ring: its first segment does */
           (segment->rest_asked == segment->forward + 1 && !segment->wanting);
}

bool rt_segment_is_ready(const struct rt_segment *segment) {
    return segment->complete && !segment->exchanging;
}

/* ---- every turn ---------------------------------------------------------------------------------------- */

rt_status rt_flow_exchange(struct rt_flow *flow, bool *worked, struct rt_error *err) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    if (!flow->ending) {
        rt_status status = inter_ring->check(inter_ring->self, flow->idle, err);
        if (status != RT_OK) {
            flow->lost = inter_ring->lost(inter_ring->self);
            return status;
        }
    }
    if (inter_ring->can_serve(inter_ring->self)) {
        rt_flow_enter(flow, RT_STATE_UPDATE);
        *worked |= inter_ring->serve(inter_ring->self);
        rt_flow_leave(flow);
    }
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        if (!segment->exchanging || !flow_segment_has_spans(flow, segment))
            continue;
        segment->exchanging = false;
        *worked = true;
        if (flow->job->clip_norm == 0)
            rt_segment_apply(flow, segment, 1);
    }
    return RT_OK;
}
