/*
 * The schedule of a node: it does the first of these operations that is possible:
 *
 *   the end of the ring   forward of the tail, the loss: all nodes wait for the gradient
 *   B                     the gradient at the input: the node before waits for it
 *   F                     the next forward
 *   W                     weight gradients: no other node waits for them, so they fill the remaining time
 *
 * An update is applied as soon as its last weight gradient is in, or, with clipping, when the factor is here.
 * A forward of update t+1 waits for update t of its own node and for nothing else: the order of the messages
 * is all the synchronisation there is. In ring-flow it does not even wait for that. Where there are other
 * rings, an update waits until its gradient has been added to theirs (ring/flow_exchange.c).
 */
#include "ring/flow.h"

struct rt_inflight *rt_segment_inflight(const struct rt_segment *segment, uint64_t number) {
    return &segment->window[number % segment->count];
}

struct rt_send_buffer *rt_segment_send_buffer(struct rt_segment *segment) {
    for (size_t i = 0; i < segment->buffer_count; i++)
        if (!segment->buffers[i].sending)
            return &segment->buffers[i];
    return NULL;
}

void rt_segment_apply(struct rt_flow *flow, struct rt_segment *segment, float factor) {
    rt_flow_enter(flow, RT_STATE_UPDATE);
    rt_stage_apply(segment->stage, factor);
    rt_flow_leave(flow);
    segment->complete = false;
}

/* All weight gradients of an update are in. */
static void flow_segment_complete(struct rt_flow *flow, struct rt_segment *segment) {
    if (flow->job->ring.with_servers) { /* the next forward waits for the parameters that this leads to */
        rt_segment_give(flow, segment, 0);
        rt_stage_leave_to_server(segment->stage);
        return;
    }
    segment->complete = true;
    if (flow->settings.inter_ring.self) {
        segment->exchanging = true;
        rt_segment_give(flow, segment, 0);
    } else if (flow->job->clip_norm == 0) {
        rt_segment_apply(flow, segment, 1);
    }
}

/* A layer's gradient is complete while those before it are still computed. */
struct early {
    struct rt_flow *flow;
    struct rt_segment *segment;
};

static void flow_segment_give_early(void *self, size_t layer) {
    const struct early *early = self;
    if (layer == 0) /* with the first one all are */
        return;
    rt_flow_leave(early->flow);
    rt_segment_give(early->flow, early->segment, layer);
    rt_flow_enter(early->flow, RT_STATE_WEIGHT);
}

/* Lets go of in-flight slots that are done, and passes over those that have no backward. */
static void flow_segment_settle(struct rt_segment *segment, const struct rt_job *job) {
    uint64_t *const counts[] = {&segment->gradient, &segment->back, &segment->weights};
    const uint64_t *const ahead[] = {&segment->forward, &segment->gradient, &segment->back};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        while (*counts[i] < *ahead[i] &&
               rt_segment_inflight(segment, *counts[i])->message.type != RT_MESSAGE_FORWARD)
            ++*counts[i];
    while (segment->oldest < segment->weights) {
        struct rt_inflight *inflight = rt_segment_inflight(segment, segment->oldest);
        if (inflight->state != RT_INFLIGHT_DONE || inflight->sending)
            break;
        inflight->state = RT_INFLIGHT_EMPTY;
        segment->oldest++;
    }
    rt_segment_post(segment, job);
}

/* ---- F ------------------------------------------------------------------------------------------------- */

/* Nothing goes back where there are no layers: the loss's own gradient leaves at once. */
static void flow_segment_pass_over(struct rt_segment *segment, struct rt_inflight *inflight) {
    inflight->state = RT_INFLIGHT_DONE;
    segment->gradient = segment->back = segment->weights = segment->forward;
}

static rt_status flow_segment_compute_loss(struct rt_flow *flow, struct rt_segment *segment,
                                           struct rt_inflight *inflight, const float *y,
                                           struct rt_error *err) {
    struct rt_send_buffer *buffer = segment->stage ? NULL : rt_segment_send_buffer(segment);
    const struct rt_flow_ends *ends = &flow->settings.ends;
    rt_flow_enter(flow, RT_STATE_FORWARD);
    rt_status status = ends->loss(ends->self, &inflight->message, inflight->rows, y,
                                  buffer ? buffer->floats : inflight->slot->dy, err);
    rt_flow_leave(flow);
    if (status != RT_OK)
        return status;
    if (buffer) {
        rt_segment_send_back(flow, segment, inflight, buffer);
        flow_segment_pass_over(segment, inflight);
    } else {
        inflight->state = RT_INFLIGHT_GRADIENT;
        segment->gradient++;
    }
    return RT_OK;
}

static rt_status flow_segment_forward(struct rt_flow *flow, struct rt_segment *segment,
                                      struct rt_inflight *inflight, struct rt_error *err) {
    const bool training = inflight->message.type == RT_MESSAGE_FORWARD;
    const struct rt_flow_ends *ends = &flow->settings.ends;
    const float *y = inflight->x;
    if (training)
        rt_flow_train(flow, inflight->message.update + 1);
    if (segment->stage) {
        const bool apart = flow->states.is_apart;
        rt_states_set_apart(&flow->states, !training || apart, false);
        rt_flow_enter(flow, RT_STATE_FORWARD);
        rt_stage_forward(segment->stage, inflight->slot, training);
        rt_flow_leave(flow);
        rt_states_set_apart(&flow->states, apart, false);
        y = inflight->slot->y;
    }
    segment->forward++;
    if (training && !segment->out)
        return flow_segment_compute_loss(flow, segment, inflight, y, err);
    if (training) {
        inflight->state = RT_INFLIGHT_FORWARDED;
        rt_segment_post_gradient(segment, inflight);
    } else {
        inflight->state = RT_INFLIGHT_DONE;
    }
    if (!segment->out)
        return ends->output(ends->self, &inflight->message, inflight->rows, y, err);
    rt_segment_send(flow, segment, inflight, y);
    return RT_OK;
}

/* SNAPSHOT, STOP or PULL. The master has kept its own images when it sent the SNAPSHOT. */
static rt_status flow_segment_pass_on(struct rt_flow *flow, struct rt_segment *segment,
                                      struct rt_inflight *inflight, struct rt_error *err) {
    const bool snapshot = inflight->message.type == RT_MESSAGE_SNAPSHOT;
    if (flow->settings.index > 0 && snapshot) {
        rt_flow_enter(flow, RT_STATE_ENCODE);
        rt_status status = rt_flow_snapshot(flow, inflight->message.complete, err);
        rt_flow_leave(flow);
        if (status != RT_OK)
            return status;
    }
    segment->forward++;
    inflight->state = RT_INFLIGHT_DONE;
    flow->ending |= inflight->message.type == RT_MESSAGE_STOP;
    if (!segment->out) {
        flow->settings.ends.back(flow->settings.ends.self, &inflight->message);
        return RT_OK;
    }
    rt_segment_send(flow, segment, inflight, NULL);
    return RT_OK;
}

static bool flow_segment_can_forward(const struct rt_flow *flow, struct rt_segment *segment) {
    if (segment->forward == segment->arrived)
        return false;
    const struct rt_inflight *inflight = rt_segment_inflight(segment, segment->forward);
    switch (inflight->message.type) {
    case RT_MESSAGE_FORWARD:
        if (!segment->stage)
            return rt_segment_send_buffer(segment);
        if (segment->complete || !rt_segment_has_parameters(flow, segment, &inflight->message))
            return false; /* an update that waits for the norm: in ring-flow, with one slot nothing is stale
                           */
        return flow->job->ring.with_servers || flow->job->ring.mode == RT_RING_FLOW ||
               segment->stage->update == inflight->message.update;
    case RT_MESSAGE_PULL:
        return rt_segment_rests(segment);
    case RT_MESSAGE_STOP: /* behind all work, of the bulk channel too */
        return segment->oldest == segment->forward && !segment->complete &&
               (!flow->agent || rt_agent_is_transferred(flow->agent));
    default: /* of the parameters as they are now: nothing may be under way that changes them */
        return segment->weights == segment->forward && !segment->complete;
    }
}

static rt_status flow_segment_try_forward(struct rt_flow *flow, struct rt_segment *segment, bool *worked,
                                          struct rt_error *err) {
    if (!segment->in && segment->arrived < segment->oldest + segment->count &&
        segment->forward == segment->arrived) {
        bool started = false;
        rt_status status = flow->settings.ends.start(
            flow->settings.ends.self, rt_segment_inflight(segment, segment->arrived), &started, err);
        if (status != RT_OK)
            return status;
        segment->arrived += started ? 1 : 0;
        segment->posted = segment->arrived;
    }
    rt_segment_prepare_forward(flow, segment);
    if (!flow_segment_can_forward(flow, segment))
        return RT_OK;
    *worked = true;
    struct rt_inflight *inflight = rt_segment_inflight(segment, segment->forward);
    if (inflight->message.type == RT_MESSAGE_FORWARD || inflight->message.type == RT_MESSAGE_EVALUATE)
        return flow_segment_forward(flow, segment, inflight, err);
    return flow_segment_pass_on(flow, segment, inflight, err);
}

/* ---- B and W ------------------------------------------------------------------------------------------- */

/* How many of the weight gradients that wait are done at once. One costs at least a passage of the whole
 * gradient through memory, so a few with together FEW_ROWS rows cost little more than one; any more would
 * make a gradient that comes meanwhile wait. When no more can come for this slice there is nothing to wait
 * for, but with more than MANY_ROWS rows the activations themselves pass through memory again and again. */
static size_t flow_segment_weights_at_once(const struct rt_segment *segment) {
    enum { FEW_ROWS = 32, MANY_ROWS = 512 };
    const bool all_here = rt_segment_inflight(segment, segment->back - 1)->slot->part.last_of_slice;
    const size_t most = all_here ? MANY_ROWS : FEW_ROWS;
    size_t count = 0, rows = 0;
    for (uint64_t at = segment->weights; at < segment->back && count < RT_MAX_WAITING; at++) {
        const struct rt_inflight *inflight = rt_segment_inflight(segment, at);
        rows += inflight->rows;
        if (count > 0 && rows > most)
            break;
        count++;
        if (inflight->slot->part.last_of_slice)
            break;
    }
    return count;
}

static bool flow_segment_try_weights(struct rt_flow *flow, struct rt_segment *segment) {
    struct rt_inflight *inflight = rt_segment_inflight(segment, segment->weights);
    if (segment->weights == segment->back || segment->complete || inflight->state != RT_INFLIGHT_RETURNED)
        return false;
    struct rt_slot *slots[RT_MAX_WAITING];
    const size_t count = flow_segment_weights_at_once(segment);
    for (size_t i = 0; i < count; i++)
        slots[i] = rt_segment_inflight(segment, segment->weights + i)->slot;
    const bool last = rt_segment_inflight(segment, segment->weights + count - 1)->last;
    struct early early = {flow, segment};
    const struct rt_layer_watch watch = {.self = &early, .after = flow_segment_give_early};
    rt_flow_enter(flow, RT_STATE_WEIGHT);
    rt_stage_backward_weights(segment->stage, slots, count, last,
                              flow->settings.inter_ring.early ? &watch : NULL);
    rt_flow_leave(flow);
    for (size_t i = 0; i < count; i++) {
        inflight = rt_segment_inflight(segment, segment->weights++);
        inflight->state = RT_INFLIGHT_DONE;
        flow->samples += segment == &flow->segments[0] ? inflight->rows : 0;
    }
    if (last)
        flow_segment_complete(flow, segment);
    return true;
}

static bool flow_segment_try_back(struct rt_flow *flow, struct rt_segment *segment) {
    struct rt_send_buffer *buffer = segment->in ? rt_segment_send_buffer(segment) : NULL;
    struct rt_inflight *inflight = rt_segment_inflight(segment, segment->back);
    if (segment->back == segment->gradient || inflight->state != RT_INFLIGHT_GRADIENT ||
        (segment->in && !buffer))
        return false;
    rt_flow_enter(flow, RT_STATE_BACKWARD);
    rt_stage_backward_input(segment->stage, inflight->slot, buffer ? buffer->floats : NULL);
    rt_flow_leave(flow);
    if (buffer)
        rt_segment_send_back(flow, segment, inflight, buffer);
    inflight->state = RT_INFLIGHT_RETURNED;
    segment->back++;
    if (flow->job->ring.order == RT_RING_1F1B)
        flow_segment_try_weights(flow, segment);
    return true;
}

rt_status rt_flow_work(struct rt_flow *flow, bool *worked, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < flow->segment_count; i++)
        flow_segment_settle(&flow->segments[i], flow->job);
    /* The last segment is the one nearer to the loss. */
    for (size_t i = flow->segment_count; status == RT_OK && !*worked && i-- > 1;)
        status = flow_segment_try_forward(flow, &flow->segments[i], worked, err);
    for (size_t i = flow->segment_count; status == RT_OK && !*worked && i-- > 0;)
        *worked = flow_segment_try_back(flow, &flow->segments[i]);
    if (status == RT_OK && !*worked)
        status = flow_segment_try_forward(flow, &flow->segments[0], worked, err);
    for (size_t i = flow->segment_count; status == RT_OK && !*worked && i-- > 0;)
        *worked = flow_segment_try_weights(flow, &flow->segments[i]);
    for (size_t i = 0; *worked && i < flow->segment_count; i++)
        flow_segment_settle(&flow->segments[i], flow->job);
    return status;
}
