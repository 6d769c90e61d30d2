/*
 * Clipping by the norm of all gradients. When all weight gradients of its first layers are in, the master
 * sends the sum of their squares; each node adds its own, tensor by tensor in layer order, once it has them
 * all, and passes the sum on; the master adds those of its tail. So the additions happen in the order of a
 * single device. What follows from the sum, the factor, goes round with RT_FLAG_LAST, and every node applies
 * the update with it.
 */
#include "ring/flow.h"

static bool flow_send_norm(struct rt_flow *flow, double value, bool factor) {
    if (!rt_talk_body(&flow->next.talk))
        return false;
    rt_states_catch_up(&flow->states);
    rt_talk_send(
        &flow->next.talk,
        &(struct rt_message){.type = RT_MESSAGE_NORM,
                             .flags = factor ? RT_FLAG_LAST : 0,
                             .source = (uint16_t)(flow->settings.inter_ring.first + flow->settings.index),
                             .update = flow->norm.update,
                             .norm = value},
        0);
    return true;
}

static double flow_squares(struct rt_flow *flow, struct rt_segment *segment, double sum) {
    rt_flow_enter(flow, RT_STATE_REDUCE);
    sum = rt_stage_squares(segment->stage, sum);
    rt_flow_leave(flow);
    return sum;
}

static void flow_apply_all(struct rt_flow *flow, double sum) {
    const float factor = rt_norm_clip(flow->job->clip_norm, sum);
    for (size_t i = 0; i < flow->segment_count; i++)
        if (flow->segments[i].stage)
            rt_segment_apply(flow, &flow->segments[i], factor);
}

/* The master: begins, and ends. */
static void flow_lead_norm(struct rt_flow *flow, bool *worked) {
    struct rt_segment *first = &flow->segments[0], *end = &flow->segments[flow->segment_count - 1];
    if (rt_segment_is_ready(first) && !flow->settings.next) {
        flow_apply_all(flow, flow_squares(flow, first, 0));
        *worked = true;
        return;
    }
    if (rt_segment_is_ready(first) && !flow->norm.asked && rt_talk_body(&flow->next.talk)) {
        flow->norm.update = first->stage->update;
        flow_send_norm(flow, flow_squares(flow, first, 0), false);
        *worked = flow->norm.asked = true;
    }
    if (flow->norm.here && (!end->stage || rt_segment_is_ready(end)) && rt_talk_body(&flow->next.talk)) {
        const double sum = end->stage ? flow_squares(flow, end, flow->norm.sum) : flow->norm.sum;
        flow_send_norm(flow, (double)rt_norm_clip(flow->job->clip_norm, sum), true);
        flow->norm.factors_out++;
        flow->norm.here = flow->norm.asked = false;
        flow_apply_all(flow, sum);
        *worked = true;
    }
}

static void flow_add_to_norm(struct rt_flow *flow, bool *worked) {
    struct rt_segment *segment = &flow->segments[0];
    if (!flow->norm.here || !rt_segment_is_ready(segment) || !rt_talk_body(&flow->next.talk))
        return;
    flow_send_norm(flow, flow_squares(flow, segment, flow->norm.sum), false);
    flow->norm.here = false;
    flow->norm.asked = true;
    *worked = true;
}

rt_status rt_flow_take_norm(struct rt_flow *flow, const struct rt_message *message, struct rt_error *err) {
    const bool master = flow->settings.index == 0, factor = message->flags & RT_FLAG_LAST;
    const uint64_t update = flow->segments[0].stage->update;
    bool expected = flow->job->clip_norm > 0;
    if (factor && master)
        expected &= flow->norm.factors_out > 0;
    else if (factor)
        expected &= flow->norm.asked && message->update == update;
    else if (master)
        expected &= flow->norm.asked && !flow->norm.here && message->update == update;
    else
        expected &= !flow->norm.asked && !flow->norm.here && message->update == update;
    if (!expected)
        return rt_fail(err, RT_BAD_INPUT, "a norm message of update %llu was not expected",
                       (unsigned long long)message->update);
    flow->progress = rt_flow_now(flow);
    flow->norm.update = message->update;
    if (factor && master) {
        flow->norm.factors_out--;
        flow->norm.update = update;
    } else if (factor) {
        flow_send_norm(flow, message->norm, true);
        flow->norm.asked = false;
        rt_segment_apply(flow, &flow->segments[0], (float)message->norm);
    } else {
        flow->norm.here = true;
        flow->norm.sum = message->norm;
    }
    return RT_OK;
}

void rt_flow_norm(struct rt_flow *flow, bool *worked) {
    if (flow->job->clip_norm > 0 && flow->settings.index == 0)
        flow_lead_norm(flow, worked);
    else if (flow->job->clip_norm > 0)
        flow_add_to_norm(flow, worked);
}
