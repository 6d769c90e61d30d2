/* The engine's life: memory, events, clocks, and the loop; see flow.h. */
#include "ring/flow.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds after which a sleeper looks up, to see whether it is to stop. */
static const double look_up = 0.5;

const char *rt_neighbour_name(const struct rt_neighbour *neighbour, char text[32]) {
    if (neighbour->number == 0)
        snprintf(text, 32, "the master");
    else
        snprintf(text, 32, "node %u", neighbour->number);
    return text;
}

double rt_flow_now(const struct rt_flow *flow) {
    return flow->settings.endpoint ? rt_endpoint_now(flow->settings.endpoint) : rt_clock_wall();
}

static void sleep_until(const struct rt_flow *flow, double until) {
    if (flow->settings.endpoint) {
        rt_endpoint_sleep(flow->settings.endpoint, until);
        return;
    }
    const double left = until - rt_clock_wall();
    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)}, NULL);
}

/* The next event; false when none comes until then. */
static bool next_event(const struct rt_flow *flow, double until, struct rt_event *event) {
    if (flow->settings.endpoint)
        return rt_endpoint_wait(flow->settings.endpoint, until, event);
    sleep_until(flow, until);
    return false;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

rt_status rt_flow_init(struct rt_flow *flow, const struct rt_flow_settings *settings, struct rt_error *err) {
    *flow = (struct rt_flow){.settings = *settings, .job = settings->job};
    flow->settings.patience = settings->patience > 0 ? settings->patience : 60;
    flow->progress = rt_flow_now(flow);
    flow->next.index = (uint16_t)((settings->index + 1) % settings->nodes);
    flow->previous.index = (uint16_t)((settings->index + settings->nodes - 1) % settings->nodes);
    flow->next.number = (uint16_t)(settings->across.first + flow->next.index);
    flow->previous.number = (uint16_t)(settings->across.first + flow->previous.index);
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
    return rt_bulk_init(flow, err);
}

void rt_flow_deinit(struct rt_flow *flow) {
    /* The links first: they may still write to the memory. */
    rt_talk_close(&flow->next.talk);
    rt_talk_close(&flow->previous.talk);
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        free(segment->seats);
        free(segment->memory);
        for (size_t k = 0; k < RT_FLOW_PARCELS; k++)
            free(segment->parcels[k].floats);
    }
    free(flow->bulk.memory);
    *flow = (struct rt_flow){0};
}

static rt_status take_memory(struct rt_segment *segment, const struct rt_job *job, struct rt_error *err) {
    const size_t rows = rt_job_micro_rows(job), width = rt_shape_size(&segment->in_shape);
    const size_t floats = rows * width;
    if (width > SIZE_MAX / sizeof(float) / RT_FLOW_RETURNS / rows)
        return rt_fail(err, RT_NO_MEMORY, "%zu examples of %zu numbers are more than can be addressed", rows,
                       width);
    rt_status status =
        rt_alloc(segment->count, sizeof *segment->seats, "the seats of a ring's node", &segment->seats, err);
    if (status == RT_OK && !segment->stage)
        status = rt_floats_create(segment->count * floats, "outputs that return", &segment->memory, err);
    for (size_t i = 0; status == RT_OK && i < segment->parcel_count; i++)
        status = rt_floats_create(floats, "gradients on their way", &segment->parcels[i].floats, err);
    for (size_t i = 0; status == RT_OK && i < segment->count; i++) {
        struct rt_seat *seat = &segment->seats[i];
        seat->slot = segment->stage ? &segment->stage->slots[i] : NULL;
        seat->x = seat->slot ? seat->slot->x : segment->memory + i * floats;
    }
    return status;
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
        segment->parcel_count = segment->count < RT_FLOW_PARCELS ? segment->count : RT_FLOW_PARCELS;
    rt_status status = take_memory(segment, flow->job, err);
    if (status == RT_OK)
        rt_segment_post(segment, flow->job);
    return status;
}

/* ---- clocks -------------------------------------------------------------------------------------------- */

void rt_flow_enter(struct rt_flow *flow, enum rt_state state) {
    if (flow->timed) {
        rt_states_enter(&flow->states, state);
    } else if (state == RT_STATE_FORWARD) {
        flow->timed = true;
        flow->cpu_start = rt_clock_process();
        rt_states_start(&flow->states, state);
    }
    if (flow->settings.slowdown > 1) {
        /* A sleep ends a little late; what follows at once begins when it should have ended. */
        flow->since_now = flow->due > 0 ? flow->due : rt_flow_now(flow);
        flow->since_cpu = rt_clock_thread();
    }
}

/* Makes the operation last as long as it would on the device that is emulated. */
static void dilate(struct rt_flow *flow) {
    const double cpu = rt_clock_thread() - flow->since_cpu;
    if (flow->timed)
        rt_states_enter(&flow->states, flow->states.now);
    flow->due = flow->since_now + flow->settings.slowdown * cpu;
    sleep_until(flow, flow->due);
    if (!flow->timed)
        return;
    /* The weaker device would have been busy while this one slept. */
    const double wall = rt_clock_wall();
    flow->states.seconds[flow->states.now] += wall - flow->states.since_wall;
    flow->states.since_wall = wall;
    flow->states.since_cpu = rt_clock_thread();
}

void rt_flow_leave(struct rt_flow *flow) {
    if (flow->settings.slowdown > 1)
        dilate(flow);
    if (flow->timed)
        rt_states_enter(&flow->states, RT_STATE_ENCODE);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static struct rt_segment *segment_of(struct rt_flow *flow, const struct rt_event *event) {
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        const struct rt_neighbour *from =
            event->receive->channel == RT_CHANNEL_FIRST ? segment->out : segment->in;
        if (from && from->talk.link == event->link)
            return segment;
    }
    return NULL;
}

static rt_status received(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    if (event->receive->channel == RT_CHANNEL_BULK)
        return rt_bulk_arrived(flow, event->receive->user, err);
    struct rt_segment *segment = segment_of(flow, event);
    if (!segment)
        return RT_OK;
    if (event->receive->channel == RT_CHANNEL_FIRST)
        return rt_segment_returned(flow, segment, event->receive->user, err);
    return rt_segment_arrived(flow, segment, event->receive->user, err);
}

static bool is_ours(const struct rt_flow *flow, const struct rt_event *event) {
    return event->link && (event->link == flow->next.talk.link || event->link == flow->previous.talk.link);
}

/* An event that is not of our links. */
static rt_status take_other(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    const struct rt_across *across = &flow->settings.across;
    rt_status status = RT_OK;
    if (across->self) {
        rt_flow_enter(flow, RT_STATE_REDUCE);
        const bool theirs = across->event(across->self, event, &status, err);
        rt_flow_leave(flow);
        if (status != RT_OK)
            flow->lost = across->lost(across->self);
        if (theirs)
            return status;
    }
    if (flow->settings.stray)
        flow->settings.stray(flow->settings.user, event);
    return RT_OK;
}

static rt_status take_event(struct rt_flow *flow, const struct rt_event *event, struct rt_error *err) {
    if (rt_talk_event(&flow->next.talk, event) || rt_talk_event(&flow->previous.talk, event))
        return RT_OK;
    if (!is_ours(flow, event))
        return take_other(flow, event, err);
    flow->progress = rt_flow_now(flow);
    if (event->kind == RT_EVENT_SENT) {
        bool *sending = event->send->user;
        *sending = false;
        return RT_OK;
    }
    if (event->kind != RT_EVENT_RECEIVED)
        return RT_OK;
    rt_status status = received(flow, event, err);
    if (status == RT_OK)
        return RT_OK;
    char name[32];
    const struct rt_neighbour *who = event->link == flow->next.talk.link ? &flow->next : &flow->previous;
    return rt_fail_prefix(err, rt_flow_lose(flow, who), "%s (%s)", rt_neighbour_name(who, name),
                          event->link->peer);
}

/* A link that is gone ends the run, unless the run is at its end anyway. A message that came before counts
 * first: it may say why. */
static rt_status check_links(struct rt_flow *flow, struct rt_error *err) {
    struct rt_neighbour *const neighbours[] = {&flow->previous, &flow->next};
    for (size_t i = 0; i < 2; i++) {
        const struct rt_talk *talk = &neighbours[i]->talk;
        char who[32];
        if (talk->dead && !talk->ready && !flow->ending)
            return rt_fail(err, rt_flow_lose(flow, neighbours[i]), "%s: %s",
                           rt_neighbour_name(neighbours[i], who), rt_link_reason(talk->link, &talk->error));
    }
    return RT_OK;
}

static rt_status take_events(struct rt_flow *flow, struct rt_error *err) {
    struct rt_event event;
    while (next_event(flow, 0, &event)) {
        rt_status status = take_event(flow, &event, err);
        if (status != RT_OK)
            return status;
    }
    return RT_OK;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Why there is nothing to do, whom we wait for, and whether he owes us anything. */
static enum rt_state reason(struct rt_flow *flow, const struct rt_neighbour **who) {
    struct rt_segment *first = &flow->segments[0], *end = &flow->segments[flow->segment_count - 1];
    *who = first->in ? first->in : end->in;
    if (flow->starving && first->oldest == first->arrived) {
        *who = NULL;
        return flow->settings.across.self ? RT_STATE_WAIT_BARRIER : RT_STATE_WAIT_DATA;
    }
    /* Those in other rings have a patience of their own. */
    if (first->exchanging || end->exchanging || first->wanting ||
        (flow->settings.across.self && !flow->joined && first->forward < first->arrived)) {
        *who = NULL;
        return RT_STATE_WAIT_BARRIER;
    }
    for (size_t i = 0; i < flow->segment_count; i++) {
        struct rt_segment *segment = &flow->segments[i];
        if (segment->in && segment->parcel_count && !rt_segment_parcel(segment) &&
            (segment->back < segment->gradient || (!segment->stage && segment->forward < segment->arrived))) {
            *who = segment->in;
            return RT_STATE_WAIT_SEND;
        }
    }
    const struct rt_seat *oldest = rt_segment_seat(first, first->oldest);
    if (first->oldest < first->arrived && oldest->state == RT_SEAT_DONE && oldest->sending) {
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
    if (first->oldest == first->arrived && rt_bulk_idle(flow))
        *who = NULL; /* between updates a master may take its time */
    return RT_STATE_WAIT_INPUT;
}

/* A neighbour who waits for numbers from another ring before his first update loses patience himself, and
 * knows with whom: so he has more time. So he has where a server may have to let him wait for other rings. */
static double patience_of(const struct rt_flow *flow) {
    const bool excused = flow->job->served || !flow->updated;
    return flow->settings.patience * (flow->settings.across.self && excused ? 3 : 1);
}

static rt_status wait(struct rt_flow *flow, struct rt_error *err) {
    const struct rt_neighbour *who;
    const enum rt_state state = reason(flow, &who);
    const double now = rt_flow_now(flow);
    double until = flow->wake > 0 ? fmin(now + look_up, flow->wake) : now + look_up;
    /* Time in which this thread did not run does not count. */
    if (rt_clock_overslept(flow->look, now, patience_of(flow)))
        flow->progress = fmin(now, flow->progress + now - flow->look);
    if (who) {
        const double limit = flow->progress + patience_of(flow);
        char name[32];
        if (now >= limit)
            return rt_fail(err, rt_flow_lose(flow, who), "%s: nothing came from it for %g seconds (%s)",
                           rt_neighbour_name(who, name), patience_of(flow), rt_state_name(state));
        until = until < limit ? until : limit;
    } else {
        flow->progress = now;
    }
    if (flow->timed)
        rt_states_enter(&flow->states, state);
    flow->due = 0;
    flow->look = until;
    struct rt_event event;
    if (next_event(flow, until, &event))
        return take_event(flow, &event, err);
    return RT_OK;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static rt_status turn(struct rt_flow *flow, struct rt_error *err) {
    bool worked = false;
    rt_status status = rt_flow_control(flow, &worked, err);
    if (status == RT_OK)
        status = check_links(flow, err);
    if (status == RT_OK && flow->settings.across.self)
        status = rt_flow_across(flow, &worked, err);
    if (status == RT_OK && flow->settings.next)
        status = rt_bulk_work(flow, &worked, err);
    bool computed = false;
    if (status == RT_OK)
        status = rt_flow_work(flow, &computed, err);
    if (computed)
        flow->progress = rt_flow_now(flow);
    if (status != RT_OK || worked || computed)
        return status;
    /* Looking for work may have asked the server of this place for something. */
    if (flow->job->served && flow->settings.across.can_serve(flow->settings.across.self))
        return RT_OK;
    if (flow->settings.stop && atomic_load(flow->settings.stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    return wait(flow, err);
}

rt_status rt_flow_run(struct rt_flow *flow, bool (*done)(void *self), void *self, struct rt_error *err) {
    while (flow->status == RT_OK) {
        flow->status = take_events(flow, &flow->error);
        if (flow->status == RT_OK && done(self)) {
            flow->due = 0;
            if (flow->timed)
                rt_states_enter(&flow->states, RT_STATE_ENCODE);
            return RT_OK;
        }
        if (flow->status == RT_OK)
            flow->status = turn(flow, &flow->error);
    }
    return rt_fail(err, flow->status, "%s", flow->error.text);
}

void rt_flow_let_pass(struct rt_flow *flow, const struct rt_event *event) {
    const uint16_t lost = flow->lost;
    struct rt_error ignored;
    if (rt_talk_event(&flow->next.talk, event) || rt_talk_event(&flow->previous.talk, event))
        return;
    if (!is_ours(flow, event))
        take_other(flow, event, &ignored);
    flow->lost = lost;
}

void rt_flow_linger(struct rt_flow *flow, struct rt_neighbour *neighbour, double seconds) {
    const double until = rt_flow_now(flow) + seconds;
    struct rt_event event;
    while (neighbour->talk.link && !neighbour->talk.closed && next_event(flow, until, &event))
        rt_flow_let_pass(flow, &event);
}
