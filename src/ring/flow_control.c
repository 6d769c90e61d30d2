/*
 * What goes round the ring beside the tensors, on the control channel, clockwise but for ERROR.
 *
 * NORM, where gradients are clipped by the norm of all of them. When all weight gradients of its first layers
 * are in, the master sends the sum of their squares; each node adds its own, tensor by tensor in layer order,
 * once it has them all, and passes the sum on; the master adds those of its tail. So the additions happen in
 * the order of a single device. What follows from the sum, the factor, goes round with RT_FLAG_LAST, and
 * everybody applies the update with it.
 *
 * METRICS: the master sends its own row, each node adds one.
 *
 * ERROR: the end of the run. From the node that found the reason, both ways, because one of its neighbours
 * may be the reason; passed on by the others, up to the master. Whoever passed it on is done. Its status is
 * RT_IO when another node was lost: which, it says.
 */
#include "ring/flow.h"

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/traffic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the norm ------------------------------------------------------------------------------------------ */

static bool flow_send_norm(struct rt_flow *flow, double value, bool factor) {
    if (!rt_talk_body(&flow->next.talk))
        return false;
    rt_states_catch_up(&flow->states);
    rt_talk_send(&flow->next.talk,
                 &(struct rt_message){.type = RT_MESSAGE_NORM,
                                      .flags = factor ? RT_FLAG_LAST : 0,
                                      .source = flow->settings.index,
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

static rt_status flow_take_norm(struct rt_flow *flow, const struct rt_message *message,
                                struct rt_error *err) {
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

/* ---- metrics ------------------------------------------------------------------------------------------- */

void rt_flow_row(struct rt_flow *flow, struct rt_metrics_row *row) {
    const struct rt_segment *first = &flow->segments[0];
    *row = (struct rt_metrics_row){.node = flow->settings.index, .samples = flow->samples};
    if (flow->timed) {
        rt_states_read(&flow->states, row->state);
        row->seconds = rt_states_elapsed(&flow->states);
        row->cpu_seconds = rt_clock_process() - flow->cpu_start;
        row->validation = flow->states.apart - flow->apart_before;
    }
    row->updates = flow->job->ring.with_servers ? flow->given : first->stage->update;
    row->queue = (uint32_t)(first->arrived - first->forward + first->gradient - first->back);
    row->staleness_sum = (double)first->stage->staleness_sum;
    row->staleness_max = first->stage->staleness_max;
    row->peak_memory = rt_memory_peak();
    const struct rt_neighbour *const neighbours[] = {&flow->next, &flow->previous};
    for (size_t i = 0; i < 2; i++)
        if (neighbours[i]->talk.link)
            rt_traffic_add(neighbours[i]->talk.link, &neighbours[i]->talk.link->counts, i, row);
    if (flow->settings.inter_ring.self)
        flow->settings.inter_ring.tell(flow->settings.inter_ring.self, row);
}

static void flow_send_rows(struct rt_flow *flow, struct rt_metrics_row *rows, size_t count) {
    uint8_t *body = rt_talk_body(&flow->next.talk);
    const size_t bytes =
        rt_metrics_encode(&(struct rt_metrics){.count = count, .rows = rows}, body, RT_MAX_CONTROL);
    rt_talk_send(&flow->next.talk,
                 &(struct rt_message){.type = RT_MESSAGE_METRICS, .source = flow->settings.index}, bytes);
}

bool rt_flow_ask_metrics(struct rt_flow *flow) {
    struct rt_metrics_row row;
    if (!rt_talk_body(&flow->next.talk))
        return false;
    rt_flow_row(flow, &row);
    flow_send_rows(flow, &row, 1);
    return true;
}

static rt_status flow_take_metrics(struct rt_flow *flow, const struct rt_talk *talk, struct rt_error *err) {
    struct rt_metrics metrics = {.room = flow->settings.nodes, .rows = flow->rows};
    RT_TRY(rt_metrics_decode(talk->body, talk->body_bytes, &metrics, err));
    const size_t expected = flow->settings.index ? flow->settings.index : flow->settings.nodes;
    for (size_t i = 0; i < metrics.count; i++)
        if (metrics.rows[i].node != i)
            return rt_fail(err, RT_BAD_INPUT, "a metrics message has its rows in the wrong order");
    if (metrics.count != expected)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message has %zu rows instead of %zu", metrics.count,
                       expected);
    if (flow->settings.index == 0) {
        flow->settings.ends.metrics(flow->settings.ends.self, flow->rows);
        return RT_OK;
    }
    rt_flow_row(flow, &flow->rows[expected]);
    flow_send_rows(flow, flow->rows, expected + 1);
    return RT_OK;
}

/* ---- errors -------------------------------------------------------------------------------------------- */

rt_status rt_flow_lose(struct rt_flow *flow, const struct rt_neighbour *who) {
    flow->lost = who->number;
    flow->gave_up = true;
    return RT_FAILED;
}

void rt_flow_tell(struct rt_flow *flow, rt_status status, const char *sentence) {
    struct rt_neighbour *const neighbours[] = {&flow->next, &flow->previous};
    /* A node that gave up the master cannot report the master as lost. It reports itself instead. */
    const uint16_t self = (uint16_t)(flow->settings.inter_ring.first + flow->settings.index);
    for (size_t i = 0; i < 2; i++)
        if (neighbours[i]->talk.link && !neighbours[i]->talk.closed)
            rt_talk_refuse(&neighbours[i]->talk, flow->lost || flow->gave_up ? RT_IO : status,
                           flow->lost ? flow->lost : self, sentence);
}

/* Passed on as it is, the way it went. Always fails: this run is over. */
static rt_status flow_take_error(struct rt_flow *flow, const struct rt_neighbour *from,
                                 struct rt_neighbour *to, struct rt_error *err) {
    struct rt_error_message error;
    char who[32];
    if (rt_error_decode(from->talk.body, from->talk.body_bytes, &error, err) != RT_OK)
        return rt_fail_prefix(err, rt_flow_lose(flow, from), "%s (%s)", rt_neighbour_name(from, who),
                              from->talk.link->peer);
    if (flow->settings.index > 0)
        rt_talk_refuse(&to->talk, (rt_status)error.status, error.node, error.text);
    flow->told = true;
    /* A node that ends is lost to the others as well, unless it says that the training has diverged. */
    if (error.status != RT_DIVERGED)
        flow->lost = error.node ? error.node : from->number;
    return rt_fail(err, error.status == RT_DIVERGED ? RT_DIVERGED : RT_FAILED, "%s", error.text);
}

static rt_status flow_take_message(struct rt_flow *flow, struct rt_talk *talk, struct rt_error *err) {
    switch (talk->message.type) {
    case RT_MESSAGE_NORM:
        return flow_take_norm(flow, &talk->message, err);
    case RT_MESSAGE_METRICS:
        return flow_take_metrics(flow, talk, err);
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected",
                       rt_message_name(talk->message.type));
    }
}

rt_status rt_flow_control(struct rt_flow *flow, bool *worked, struct rt_error *err) {
    struct rt_talk *talk = &flow->previous.talk;
    char who[32];
    if (talk->ready && talk->message.type == RT_MESSAGE_ERROR)
        return flow_take_error(flow, &flow->previous, &flow->next, err);
    if (flow->next.talk.ready && flow->next.talk.message.type == RT_MESSAGE_ERROR)
        return flow_take_error(flow, &flow->next, &flow->previous, err);
    if (flow->next.talk.ready)
        return rt_fail(err, rt_flow_lose(flow, &flow->next), "%s (%s): a %s message came from the wrong side",
                       rt_neighbour_name(&flow->next, who), flow->next.talk.link->peer,
                       rt_message_name(flow->next.talk.message.type));
    /* What comes next may have to be passed on, so it waits until that can be done. */
    if (talk->ready && rt_talk_body(&flow->next.talk)) {
        rt_status status = flow_take_message(flow, talk, err);
        if (status != RT_OK)
            return rt_fail_prefix(err, rt_flow_lose(flow, &flow->previous), "%s (%s)",
                                  rt_neighbour_name(&flow->previous, who), talk->link->peer);
        if (talk->message.type != RT_MESSAGE_METRICS)
            flow->progress = rt_flow_now(flow);
        rt_talk_next(talk);
        *worked = true;
    }
    if (flow->job->clip_norm > 0 && flow->settings.index == 0)
        flow_lead_norm(flow, worked);
    else if (flow->job->clip_norm > 0)
        flow_add_to_norm(flow, worked);
    return RT_OK;
}
