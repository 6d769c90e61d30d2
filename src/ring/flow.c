/* The engine's life: memory, events, clocks, and the loop; see flow.h. */
#include "ring/flow.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

/* The next event; false when none comes until then. */
static bool flow_next_event(const struct rt_flow *flow, double until, struct rt_event *event) {
    if (flow->settings.endpoint)
        return rt_endpoint_wait(flow->settings.endpoint, until, event);
    rt_flow_sleep_until(flow, until);
    return false;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

rt_status rt_flow_init(struct rt_flow *flow, const struct rt_flow_settings *settings, struct rt_error *err) {
    *flow = (struct rt_flow){.settings = *settings, .job = settings->job};
    flow->settings.timeout = settings->timeout > 0 ? settings->timeout : 60;
    flow->waiting.node = UINT16_MAX;
    flow->lost = RT_NODE_NONE;
    flow->replicates = INFINITY;
    flow->progress = rt_flow_now(flow);
    flow->next.index = (uint16_t)((settings->index + 1) % settings->nodes);
    flow->previous.index = (uint16_t)((settings->index + settings->nodes - 1) % settings->nodes);
    flow->next.number = (uint16_t)(settings->inter_ring.first + flow->next.index);
    flow->previous.number = (uint16_t)(settings->inter_ring.first + flow->previous.index);
    if (!settings->next)
        return RT_OK;
    rt_status status = rt_talk_open(settings->next, &flow->next.talk, err);
    if (status != RT_OK) {
        rt_link_close(settings->next);
        rt_link_close(settings->previous);
        return status;
    }
    status = rt_talk_open(settings->previous, &flow->previous.talk, err);
    if (status != RT_OK) {
        rt_link_close(settings->previous);
        return status;
    }
    flow->next.talk.run = flow->previous.talk.run = settings->run;
    return RT_OK;
}

void rt_flow_deinit(struct rt_flow *flow) {
    /* The links first: they may still write to the memory. */
    rt_talk_close(&flow->next.talk);
    rt_talk_close(&flow->previous.talk);
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        free(segment->window);
        free(segment->memory);
        for (size_t k = 0; k < RT_FLOW_SEND_BUFFERS; k++)
            free(segment->buffers[k].floats);
    }
    rt_agent_destroy(flow->agent);
    rt_replication_deinit(&flow->replication);
    rt_state_map_destroy(&flow->state_map);
    *flow = (struct rt_flow){0};
}

static rt_status flow_take_memory(struct rt_segment *segment, const struct rt_job *job,
                                  struct rt_error *err) {
    const size_t rows = rt_job_micro_rows(job), width = rt_shape_size(&segment->in_shape);
    const size_t floats = rows * width;
    if (width > SIZE_MAX / sizeof(float) / RT_FLOW_RETURNS / rows)
        return rt_fail(err, RT_NO_MEMORY, "%zu examples of %zu numbers are more than can be addressed", rows,
                       width);
    rt_status status = rt_alloc(segment->count, sizeof *segment->window,
                                "the in-flight slots of a ring's node", &segment->window, err);
    if (status == RT_OK && !segment->stage)
        status = rt_floats_create(segment->count * floats, "outputs that return", &segment->memory, err);
    for (size_t i = 0; status == RT_OK && i < segment->buffer_count; i++)
        status = rt_floats_create(floats, "gradients on their way", &segment->buffers[i].floats, err);
    for (size_t i = 0; status == RT_OK && i < segment->count; i++) {
        struct rt_inflight *inflight = &segment->window[i];
        inflight->slot = segment->stage ? &segment->stage->slots[i] : NULL;
        inflight->x = inflight->slot ? inflight->slot->x : segment->memory + i * floats;
    }
    return status;
}

/* The planner makes no cut where this fails; a job that was sent may. */
static rt_status flow_check_message(const struct rt_flow *flow, const struct rt_shape *shape,
                                    struct rt_error *err) {
    const size_t rows = rt_job_micro_rows(flow->job), width = rt_shape_size(shape);
    if (width < RT_MAX_TENSOR_BYTES / sizeof(float) / rows)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "a micro-batch of %zu examples of %zu numbers does not fit into a message of %d MiB", rows,
                   width, RT_MAX_TENSOR_BYTES >> 20);
}

rt_status rt_flow_add(struct rt_flow *flow, struct rt_stage *stage, const struct rt_shape *shape,
                      struct rt_neighbour *in, struct rt_neighbour *out, struct rt_error *err) {
    struct rt_segment *segment = &flow->segments[flow->segment_count++];
    *segment = (struct rt_segment){
        .stage = stage,
        .in = in,
        .out = out,
        .in_shape = stage ? stage->model->in : *shape,
        .out_shape = stage ? stage->model->out : *shape,
        .indices_in = stage && stage->needs_examples,
        .indices_out = stage && stage->sends_examples,
        .count = stage ? stage->slot_count : RT_FLOW_RETURNS,
    };
    /* No more outputs can return than the first segment has sent out. */
    if (!stage && flow->segments[0].count < segment->count)
        segment->count = flow->segments[0].count;
    if (in && !flow->job->evaluate_only)
        segment->buffer_count = segment->count < RT_FLOW_SEND_BUFFERS ? segment->count : RT_FLOW_SEND_BUFFERS;
    if (stage && !flow->state_map.layers)
        RT_TRY(rt_state_map_create(flow->job, stage->device->kernels, &flow->state_map, err));
    rt_status status = in ? flow_check_message(flow, &segment->in_shape, err) : RT_OK;
    if (status == RT_OK && out)
        status = flow_check_message(flow, &segment->out_shape, err);
    if (status == RT_OK)
        status = flow_take_memory(segment, flow->job, err);
    if (status == RT_OK)
        rt_segment_post(segment, flow->job);
    return status;
}

/* ---- events -------------------------------------------------------------------------------------------- */

static struct rt_segment *flow_segment_of(struct rt_flow *flow, const struct rt_event *event) {
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        const struct rt_neighbour *from =
            event->receive->channel == RT_CHANNEL_FIRST ? segment->out : segment->in;
        if (from && from->talk.link == event->link)
            return segment;
    }
    return NULL;
}

static rt_status flow_received(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    struct rt_segment *segment = flow_segment_of(flow, event);
    if (!segment)
        return RT_OK;
    if (event->receive->channel == RT_CHANNEL_FIRST)
        return rt_segment_returned(flow, segment, event->receive->user, err);
    return rt_segment_arrived(flow, segment, event->receive->user, err);
}

static bool flow_is_ours(const struct rt_flow *flow, const struct rt_event *event) {
    return event->link && (event->link == flow->next.talk.link || event->link == flow->previous.talk.link);
}

/* An event that is not of our links. */
static rt_status flow_take_other(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    rt_status status = RT_OK;
    if (inter_ring->self) {
        rt_flow_enter(flow, RT_STATE_REDUCE);
        const bool theirs = inter_ring->event(inter_ring->self, event, &status, err);
        rt_flow_leave(flow);
        if (status != RT_OK)
            flow->lost = inter_ring->lost(inter_ring->self);
        if (theirs)
            return status;
    }
    if (flow->settings.stray)
        flow->settings.stray(flow->settings.user, event);
    return RT_OK;
}

static rt_status flow_lose_sender(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    return rt_flow_lose(flow, event->link == flow->next.talk.link ? &flow->next : &flow->previous, err);
}

static rt_status flow_take_event(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    rt_status status = RT_OK;
    if (rt_flow_control_event(flow, event, &status, err))
        return status;
    if (!flow_is_ours(flow, event))
        return flow_take_other(flow, event, err);
    if (rt_replication_event(&flow->replication, event, &status, err))
        return status == RT_OK ? RT_OK : flow_lose_sender(flow, event, err);
    flow->progress = rt_flow_now(flow);
    if (event->kind == RT_EVENT_SENT)
        *(bool *)event->send->user = false;
    else if (event->kind == RT_EVENT_RECEIVED)
        status = flow_received(flow, event, err);
    return status == RT_OK ? RT_OK : flow_lose_sender(flow, event, err);
}

/* A link that is gone ends the run, unless the run is at its end anyway. A message that came before counts
 * first: it may say why. */
static rt_status flow_check_links(struct rt_flow *flow, struct rt_error *err) {
    struct rt_neighbour *const neighbours[] = {&flow->previous, &flow->next};
    for (size_t i = 0; i < 2; i++) {
        const struct rt_talk *talk = &neighbours[i]->talk;
        if (talk->dead && !talk->ready && !flow->ending) {
            *err = talk->error;
            return rt_flow_lose(flow, neighbours[i], err);
        }
    }
    return RT_OK;
}

static rt_status flow_take_events(struct rt_flow *flow, struct rt_error *err) {
    struct rt_event event;
    while (flow_next_event(flow, 0, &event)) {
        rt_status status = flow_take_event(flow, &event, err);
        if (status != RT_OK)
            return status;
    }
    return RT_OK;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Why there is no work, and the neighbour that we wait for. A node without work waits for the previous one,
 * also between updates, which may take the master long. */
static enum rt_state flow_reason(struct rt_flow *flow, const struct rt_neighbour **who) {
    struct rt_segment *first = &flow->segments[0], *end = &flow->segments[flow->segment_count - 1];
    *who = first->in ? first->in : end->in;
    if (flow->starving && first->oldest == first->arrived) {
        *who = NULL;
        return flow->settings.inter_ring.self ? RT_STATE_WAIT_BARRIER : RT_STATE_WAIT_DATA;
    }
    /* Those in other rings have a timeout of their own. */
    if (first->exchanging || end->exchanging || first->wanting ||
        (flow->settings.inter_ring.self && !flow->joined && first->forward < first->arrived)) {
        *who = NULL;
        return RT_STATE_WAIT_BARRIER;
    }
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        if (segment->in && segment->buffer_count && !rt_segment_send_buffer(segment) &&
            (segment->back < segment->gradient || (!segment->stage && segment->forward < segment->arrived))) {
            *who = segment->in;
            return RT_STATE_WAIT_SEND;
        }
    }
    const struct rt_inflight *oldest = rt_segment_inflight(first, first->oldest);
    if (first->oldest < first->arrived && oldest->state == RT_INFLIGHT_DONE && oldest->sending) {
        *who = first->out;
        return RT_STATE_WAIT_SEND;
    }
    if (first->complete || (flow->segment_count > 1 && end->complete))
        return RT_STATE_WAIT_BARRIER;
    const bool full = first->arrived - first->oldest == first->count;
    if (!first->in && flow->more && full)
        return RT_STATE_WAIT_WINDOW;
    if (!first->in) {
        const bool back = end->next.micro == first->next.micro;
        *who = back && first->out ? first->out : *who;
        return back ? RT_STATE_WAIT_GRADIENT : RT_STATE_WAIT_INPUT;
    }
    if (first->gradient < first->forward && (full || first->next.part == 0)) {
        *who = first->out;
        return RT_STATE_WAIT_GRADIENT;
    }
    return RT_STATE_WAIT_INPUT;
}

static struct rt_liveness_terms flow_terms_of(const struct rt_flow *flow) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    return (struct rt_liveness_terms){.self = (uint16_t)(inter_ring->first + flow->settings.index),
                                      .nodes = inter_ring->self ? inter_ring->nodes : flow->settings.nodes,
                                      .timeout = flow->settings.timeout};
}

/* Our note about waiting (cluster/liveness.h). Whichever neighbour we wait for, a message from the other one
 * would also end the wait. */
static uint16_t flow_count_waits(const struct rt_flow *flow, const struct rt_neighbour *who, double waited) {
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    const struct rt_liveness_terms terms = flow_terms_of(flow);
    const struct rt_neighbour *const neighbours[] = {&flow->next, &flow->previous};
    uint16_t note = inter_ring->self ? inter_ring->note(inter_ring->self) : RT_NOTE_NONE;
    for (size_t i = 0; i < 2 && who; i++) {
        const struct rt_heartbeat last = rt_link_heartbeat(neighbours[i]->talk.link);
        rt_liveness_count(&terms, neighbours[i]->number, waited, &last, &note);
    }
    return note == RT_NOTE_NONE ? 0 : note;
}

/* Fails when the neighbour that we wait for is stuck. */
static rt_status flow_check_neighbour(struct rt_flow *flow, const struct rt_neighbour *who, double waited,
                                      struct rt_error *err) {
    const struct rt_liveness_terms terms = flow_terms_of(flow);
    const struct rt_heartbeat last = rt_link_heartbeat(who->talk.link);
    switch (rt_liveness_judge(&terms, &flow->waiting, waited, &last, err)) {
    case RT_LIVENESS_GOOD:
        return RT_OK;
    case RT_LIVENESS_DEADLOCK:
        return RT_FAILED;
    case RT_LIVENESS_STUCK:
        break;
    }
    return rt_flow_lose(flow, who, err);
}

static rt_status flow_wait(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_neighbour *who;
    const enum rt_state state = flow_reason(flow, &who);
    const double now = rt_flow_now(flow), look_up = fmin(RT_FLOW_MOST_SLEEP, flow->settings.timeout / 4);
    const double until = fmin(now + look_up, fmin(flow->wake > 0 ? flow->wake : INFINITY, flow->replicates));
    if (!who)
        flow->progress = now;
    const double waited =
        rt_wait_look(&flow->waiting, who ? who->number : UINT16_MAX, flow->progress, true, now);
    rt_status status = who ? flow_check_neighbour(flow, who, waited, err) : RT_OK;
    if (status != RT_OK)
        return status;
    flow->idle = true;
    flow->note = flow_count_waits(flow, who, waited);
    rt_flow_step(flow);
    rt_states_enter(&flow->states, state);
    struct rt_event event;
    if (flow_next_event(flow, until, &event))
        return flow_take_event(flow, &event, err);
    return RT_OK;
}

/* Replicas are no reason to wait for a neighbour, and none to call it busy. */
static rt_status flow_replicate(struct rt_flow *flow, struct rt_error *err) {
    flow->replicates = INFINITY;
    const rt_status status =
        rt_replication_turn(&flow->replication, rt_flow_now(flow), &flow->replicates, err);
    return status == RT_OK ? RT_OK : rt_flow_lose(flow, &flow->previous, err);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static rt_status flow_turn(struct rt_flow *flow, struct rt_error *err) {
    bool worked = false;
    rt_flow_step(flow);
    rt_status status = rt_flow_control(flow, err);
    if (status == RT_OK)
        status = flow_check_links(flow, err);
    if (status == RT_OK)
        status = flow_replicate(flow, err);
    if (status == RT_OK)
        rt_flow_norm(flow, &worked);
    if (status == RT_OK && flow->settings.inter_ring.self)
        status = rt_flow_exchange(flow, &worked, err);
    bool computed = false;
    if (status == RT_OK)
        status = rt_flow_work(flow, &computed, err);
    if (computed)
        flow->progress = rt_flow_now(flow);
    if (status != RT_OK || worked || computed) {
        flow->note = 0;
        flow->idle = false;
        return status;
    }
    /* Looking for work may have sent a request to the server at this position. */
    if (flow->settings.inter_ring.self && flow->settings.inter_ring.can_serve(flow->settings.inter_ring.self))
        return RT_OK;
    if (flow->settings.stop && atomic_load(flow->settings.stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    if (flow->settings.recalled && atomic_load(flow->settings.recalled))
        return rt_fail(err, RT_FAILED, "the master forms another view");
    return flow_wait(flow, err);
}

rt_status rt_flow_run(struct rt_flow *flow, bool (*done)(void *self), void *self, struct rt_error *err) {
    if (!flow->clocked)
        rt_flow_start_clock(flow);
    while (flow->status == RT_OK) {
        flow->status = flow_take_events(flow, &flow->error);
        if (flow->status == RT_OK && done(self)) {
            rt_flow_leave(flow);
            return RT_OK;
        }
        if (flow->status == RT_OK)
            flow->status = flow_turn(flow, &flow->error);
    }
    return rt_flow_say(flow, err);
}

rt_status rt_flow_say(const struct rt_flow *flow, struct rt_error *err) {
    if (err) {
        *err = flow->error;
        err->status = flow->status;
        rt_node_names_blame(&flow->settings.names, flow->lost, err);
    }
    return flow->status;
}

void rt_flow_let_pass(struct rt_flow *flow, const struct rt_event *event) {
    const uint16_t lost = flow->lost;
    struct rt_error ignored;
    if (rt_talk_event(&flow->next.talk, event) || rt_talk_event(&flow->previous.talk, event))
        return;
    if (!flow_is_ours(flow, event))
        flow_take_other(flow, event, &ignored);
    flow->lost = lost;
}

void rt_flow_linger(struct rt_flow *flow, struct rt_neighbour *neighbour, double until) {
    struct rt_talk *talk = &neighbour->talk;
    struct rt_event event;
    while (talk->link && !talk->closed && !(talk->ready && talk->message.type == RT_MESSAGE_ERROR)) {
        const double now = rt_flow_now(flow);
        if (talk->ready)
            rt_talk_next(talk);
        else if (flow_next_event(flow, fmin(until, now + RT_FLOW_MOST_SLEEP), &event))
            rt_flow_let_pass(flow, &event);
        else if (now >= until || (flow->settings.stop && atomic_load(flow->settings.stop)))
            return;
    }
}
