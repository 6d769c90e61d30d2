/* The master of a ring: its life, and updates. Micro-batches are started as in-flight slots become free; what
 * happens to them after that is the engine's (ring/flow.h), which calls back for inputs and losses. */
#include "ring/ring_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool rt_ring_stop_asked(const struct rt_ring *ring) {
    return ring->settings.stop && atomic_load(ring->settings.stop);
}

/* ---- what the engine asks for -------------------------------------------------------------------------- */

/* Updates applied by all layers of the master. */
static uint64_t ring_applied(const struct rt_ring *ring) {
    const uint64_t head = ring->head->update;
    return ring->tail && ring->tail->update < head ? ring->tail->update : head;
}

/* Whether an update may begin now. */
static bool ring_may_begin(const struct rt_ring *ring) {
    if (ring->job->ring.mode == RT_RING_FLOW)
        return !ring->draining && ring->begun < rt_periods_next(&ring->settings.rests, ring->returned + 1,
                                                                (uint64_t)ring->job->updates);
    return ring->begun == ring->returned &&
           (ring->job->ring.with_servers || ring_applied(ring) == ring->begun);
}

/* Whether nothing is under way, nothing more is there, and nothing more shall be. */
static bool ring_is_dry(const struct rt_ring *ring) {
    const struct rt_segment *first = &ring->flow.segments[0];
    return ring->flow.starving && rt_ring_stop_asked(ring) && first->oldest == first->arrived;
}

static rt_status ring_begin(struct rt_ring *ring, bool *begun, struct rt_error *err) {
    const struct rt_ring_source *source = &ring->settings.source;
    const uint64_t number = ring->begun + 1;
    size_t rows = 0;
    rt_status status = source->batch(source->self, number, &rows, &ring->epoch, &ring->examples, err);
    if (status != RT_OK)
        return status;
    if (rows > (size_t)ring->job->batch)
        return rt_fail(err, RT_BAD_INPUT, "update %llu has %zu examples, where a batch has %lld",
                       (unsigned long long)number, rows, (long long)ring->job->batch);
    ring->flow.starving = rows == 0;
    *begun = rows > 0;
    if (rows == 0) {
        /* A source that has ended has just asked us to stop: wake up at once, so that the request is seen. */
        if (ring_is_dry(ring) && ring->settings.endpoint)
            rt_endpoint_wake(ring->settings.endpoint);
        return RT_OK;
    }
    ring->begun = number;
    ring->updates[number % ring->room] =
        (struct rt_ring_update){.update = number, .rows = rows, .start = rt_clock_wall()};
    return RT_OK;
}

static rt_status ring_start_micro(struct rt_ring *ring, struct rt_inflight *inflight, bool *started,
                                  struct rt_error *err) {
    struct rt_segment *first = &ring->flow.segments[0];
    const struct rt_ring_source *source = &ring->settings.source;
    if (first->next.part == 0) {
        rt_status status = ring_may_begin(ring) ? ring_begin(ring, started, err) : RT_OK;
        if (status != RT_OK || !*started)
            return status;
    }
    const size_t batch_rows = ring->updates[ring->begun % ring->room].rows;
    const struct rt_micro part = rt_job_micro(ring->job, batch_rows, first->next.part);
    const struct rt_message message = {.type = RT_MESSAGE_FORWARD,
                                       .micro = first->next.micro,
                                       .update = ring->begun - 1,
                                       .epoch = ring->epoch,
                                       .rows = (uint32_t)batch_rows};
    const uint32_t *examples = ring->examples + part.first;
    rt_flow_train(&ring->flow, ring->begun);
    rt_flow_enter(&ring->flow, RT_STATE_FORWARD);
    if (part.rows > 0)
        source->inputs(source->self, examples, part.rows, inflight->x);
    memcpy(inflight->x + part.rows * rt_shape_size(&first->in_shape), examples, part.rows * sizeof *examples);
    rt_flow_leave(&ring->flow);
    ring->micros[message.micro % first->count] = inflight;
    rt_sequence_take(&first->next, ring->job, &message, inflight);
    *started = true;
    return RT_OK;
}

static rt_status start(void *self, struct rt_inflight *inflight, bool *started, struct rt_error *err) {
    struct rt_ring *ring = self;
    rt_status status = RT_OK;
    ring->flow.starving = false;
    rt_ring_collect_go_on(ring);
    if (ring->marker) {
        inflight->message = (struct rt_message){.type = ring->marker,
                                                .flags = ring->marker == RT_MESSAGE_PULL ? RT_FLAG_REST : 0,
                                                .update = ring->flow.segments[0].next.update};
        if (ring->marker == RT_MESSAGE_SNAPSHOT)
            inflight->message.complete = rt_ring_replicated(ring);
        ring->marker = 0;
        *started = true;
    } else if (ring->evaluation.pass) {
        status = rt_ring_start_evaluation(ring, inflight, started);
    } else if (ring->stepping) {
        status = ring_start_micro(ring, inflight, started, err);
    } else {
        ring->flow.starving = ring->wait.test;
    }
    if (*started)
        inflight->state = RT_INFLIGHT_FILLED;
    return status;
}

static rt_status ring_compute_loss(void *self, const struct rt_message *message, size_t rows, const float *y,
                                   float *dy, struct rt_error *err) {
    struct rt_ring *ring = self;
    const struct rt_ring_source *source = &ring->settings.source;
    const struct rt_segment *first = &ring->flow.segments[0];
    struct rt_ring_update *update = &ring->updates[(message->update + 1) % ring->room];
    const struct rt_inflight *inflight = ring->micros[message->micro % first->count];
    /* A message is accepted only if it matches the one that was sent: it selects the labels. */
    if (!inflight || inflight->message.type != RT_MESSAGE_FORWARD ||
        inflight->message.micro != message->micro || inflight->message.rows != message->rows ||
        inflight->rows != rows) {
        ring->flow.lost = ring->flow.previous.number;
        return rt_fail(err, RT_FAILED, "outputs of micro-batch %llu, of %u examples, were not asked for",
                       (unsigned long long)message->micro, message->rows);
    }
    const float *behind = inflight->x + rows * rt_shape_size(&first->in_shape);
    if (rows > 0)
        source->loss(source->self, (const uint32_t *)(const void *)behind, rows, update->rows, y, dy,
                     &update->loss, &update->correct);
    /* Before anything is sent back: no node can complete this update, so none applies it. */
    if (!isfinite(update->loss))
        return rt_fail(err, RT_DIVERGED, "the loss is not finite at update %llu (epoch %u)",
                       (unsigned long long)update->update, message->epoch + 1);
    return RT_OK;
}

static void ring_take_back(void *self, const struct rt_message *message) {
    struct rt_ring *ring = self;
    if (message->type == RT_MESSAGE_STOP)
        ring->stopped = true;
    else if (message->type == RT_MESSAGE_PULL)
        ring->rests = true;
    else if (ring->snapshots_out)
        ring->snapshots_out--;
}

/* An unexpected connection. */
static void ring_turn_away(void *user, const struct rt_event *event) {
    (void)user;
    if (event->kind == RT_EVENT_ACCEPTED)
        rt_link_close(event->link);
}

/* ---- life ---------------------------------------------------------------------------------------------- */

/* The shape of the last node's output; no memory is taken for the layers of the others. */
static rt_status ring_describe_others(const struct rt_ring *ring, struct rt_shape *out,
                                      struct rt_error *err) {
    const struct rt_plan *plan = ring->settings.plan;
    const size_t first = plan->node[0].count;
    if (plan->nodes == 1)
        return RT_OK;
    if (first + plan->tail >= plan->layers)
        return rt_fail(err, RT_BAD_INPUT, "the plan leaves no layers to the other nodes");
    uint32_t index = 0;
    struct rt_model *model;
    RT_TRY(rt_model_create(ring->job->layers, &ring->job->in, first, plan->layers - plan->tail - first, true,
                           ring->settings.device->kernels, &index, &model, err));
    *out = model->out;
    rt_model_destroy(model);
    return RT_OK;
}

static rt_status ring_make_stages(struct rt_ring *ring, struct rt_error *err) {
    const struct rt_plan *plan = ring->settings.plan;
    const size_t slots = plan->node[0].slots, layers = plan->nodes == 1 ? plan->layers : plan->node[0].count;
    rt_status status = rt_stage_create(ring->job, ring->settings.device, 0, layers, slots, &ring->head, err);
    if (status == RT_OK && plan->nodes > 1 && plan->tail)
        status = rt_stage_create(ring->job, ring->settings.device, plan->layers - plan->tail, plan->tail,
                                 slots, &ring->tail, err);
    if (status == RT_OK)
        ring->tensors = rt_stage_state_count(ring->head);
    return status;
}

/* Those of the last node are kept here. */
static rt_status ring_make_replicas(struct rt_ring *ring, struct rt_error *err) {
    const struct rt_plan *plan = ring->settings.plan;
    const struct rt_plan_node *last = &plan->node[plan->nodes - 1];
    struct rt_replicas **replicas = ring->settings.replicas, *before = *replicas;
    const struct rt_replicas_settings settings = {.job = ring->job,
                                                  .kernels = ring->settings.device->kernels,
                                                  .stage = {ring->head, ring->tail},
                                                  .previous_first = plan->nodes > 1 ? last->first : 0,
                                                  .previous_count = plan->nodes > 1 ? last->count : 0,
                                                  .on_disk = ring->settings.replicas_on_disk};
    *replicas = NULL;
    RT_TRY(rt_replicas_create(&settings, ring->settings.version, before, replicas, err));
    rt_replicas_adopt(*replicas, ring->settings.version, ring->head);
    if (ring->tail)
        rt_replicas_adopt(*replicas, ring->settings.version, ring->tail);
    return RT_OK;
}

static rt_status ring_take_memory(struct rt_ring *ring, struct rt_error *err) {
    const size_t slots = ring->head->slot_count;
    ring->room = slots + 2;
    rt_status status = rt_alloc(ring->room, sizeof *ring->updates, "the updates", &ring->updates, err);
    if (status == RT_OK)
        status = rt_alloc(slots, sizeof(struct rt_inflight *), "the micro-batches", &ring->micros, err);
    if (status == RT_OK)
        status = rt_floats_create(RT_STATE_PIECE, "state in transfer", &ring->scratch, err);
    if (status == RT_OK)
        status = rt_alloc(ring->settings.plan->nodes, sizeof *ring->rows, "the metrics", &ring->rows, err);
    return status;
}

static void ring_hear(void *self) {
    struct rt_ring *ring = self;
    rt_ring_take_metrics(ring);
    rt_ring_collect_go_on(ring);
}

static rt_status ring_take_message(void *user, const struct rt_message *message, struct rt_error *err) {
    struct rt_ring *ring = user;
    if (message->type == RT_MESSAGE_NORM)
        return rt_flow_take_norm(&ring->flow, message, err);
    return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
}

static rt_status ring_open_coordinator(struct rt_ring *ring, struct rt_error *err) {
    const struct rt_ring_settings *settings = &ring->settings;
    const size_t nodes = settings->plan->nodes;
    ring->comm = (struct rt_communicator){
        .endpoint = settings->endpoint, .run = settings->run, .count = 2, .names = settings->names};
    const struct rt_coordinator_settings wanted = {
        .comm = &ring->comm,
        .rows = nodes - 1,
        .ring = rt_flow_route(&ring->flow),
        .nodes = settings->inter_ring.self ? settings->inter_ring.nodes : nodes,
        .finite = true,
        .message = ring_take_message,
        .user = ring};
    RT_TRY(rt_coordinator_create(&wanted, &ring->coordinator, err));
    ring->flow.control = rt_coordinator_part(ring->coordinator);
    return RT_OK;
}

static rt_status ring_make_flow(struct rt_ring *ring, const struct rt_shape *out, struct rt_error *err) {
    const struct rt_ring_settings *settings = &ring->settings;
    struct rt_flow *flow = &ring->flow;
    const bool alone = settings->plan->nodes == 1;
    const struct rt_flow_settings flow_settings = {
        .job = ring->job,
        .endpoint = settings->endpoint,
        .next = settings->next,
        .previous = settings->previous,
        .run = settings->run,
        .nodes = (uint16_t)settings->plan->nodes,
        .pace = settings->pace,
        .timeout = settings->timeout,
        .names = settings->names,
        .ends = {.self = ring,
                 .start = start,
                 .loss = ring_compute_loss,
                 .output = rt_ring_take_output,
                 .back = ring_take_back,
                 .heard = ring_hear},
        .stray = settings->stray ? settings->stray : ring_turn_away,
        .user = settings->user,
        .stop = settings->abandon,
        .recalled = settings->recalled,
        .inter_ring = settings->inter_ring,
        .replicas = settings->replicas ? *settings->replicas : NULL,
    };
    ring->settings.next = ring->settings.previous = NULL;
    rt_status status = rt_flow_init(flow, &flow_settings, err);
    if (status == RT_OK)
        status = rt_flow_add(flow, ring->head, NULL, NULL, alone ? NULL : &flow->next, err);
    if (status == RT_OK && !alone)
        status = rt_flow_add(flow, ring->tail, out, &flow->previous, NULL, err);
    if (status == RT_OK && !alone)
        status = ring_open_coordinator(ring, err);
    if (status == RT_OK && !alone)
        status = rt_flow_open_replication(flow, err);
    return status == RT_OK ? rt_flow_open_exchange(flow, err) : status;
}

rt_status rt_ring_create(const struct rt_ring_settings *settings, struct rt_ring **ring,
                         struct rt_error *err) {
    struct rt_ring *made = NULL;
    struct rt_shape out = {0};
    rt_status status = rt_alloc(1, sizeof *made, "the ring", &made, err);
    if (status == RT_OK) {
        made->settings = *settings;
        made->job = settings->job;
        status = ring_make_stages(made, err);
    }
    if (status == RT_OK && settings->replicas)
        status = ring_make_replicas(made, err);
    if (status == RT_OK)
        status = ring_describe_others(made, &out, err);
    if (status == RT_OK)
        status = ring_take_memory(made, err);
    if (status == RT_OK) {
        status = ring_make_flow(made, &out, err);
    } else {
        rt_link_close(settings->next);
        rt_link_close(settings->previous);
    }
    if (status != RT_OK) {
        rt_ring_destroy(made);
        return status;
    }
    *ring = made;
    return RT_OK;
}

void rt_ring_destroy(struct rt_ring *ring) {
    if (!ring)
        return;
    rt_flow_deinit(&ring->flow);
    if (ring->settings.replicas)
        rt_replicas_detach(*ring->settings.replicas);
    rt_stage_destroy(ring->head);
    rt_stage_destroy(ring->tail);
    free(ring->updates);
    free(ring->micros);
    free(ring->scratch);
    rt_coordinator_destroy(ring->coordinator);
    free(ring->rows);
    free(ring);
}

void rt_ring_set_apart(struct rt_ring *ring, bool is_apart) {
    if (ring->flow.timed)
        rt_states_set_apart(&ring->flow.states, is_apart, true);
}

uint64_t rt_ring_version(const struct rt_ring *ring) {
    return ring_applied(ring);
}

/* ---- running ------------------------------------------------------------------------------------------- */

uint16_t rt_ring_lost(const struct rt_ring *ring, struct rt_error *why) {
    const struct rt_flow *flow = &ring->flow;
    if (flow->status == RT_OK || flow->lost == RT_NODE_NONE)
        return RT_NODE_NONE;
    if (why)
        *why = flow->error;
    return flow->lost;
}

rt_status rt_ring_run(struct rt_ring *ring, bool (*done)(void *ring), struct rt_error *err) {
    struct rt_flow *flow = &ring->flow;
    flow->progress = rt_flow_now(flow);
    return rt_flow_run(flow, done, ring, err);
}

static bool ring_has_come(void *self) {
    struct rt_ring *ring = self;
    return ring->wait.test(ring->wait.user) || rt_flow_now(&ring->flow) >= ring->wait.until;
}

rt_status rt_ring_wait(struct rt_ring *ring, bool (*test)(void *user), void *user, double until,
                       struct rt_error *err) {
    ring->wait.test = test;
    ring->wait.user = user;
    ring->wait.until = until;
    ring->flow.wake = until;
    rt_status status = rt_ring_run(ring, ring_has_come, err);
    ring->flow.wake = 0;
    ring->wait.test = NULL;
    ring->flow.starving = false;
    return status;
}

/* ---- updates ------------------------------------------------------------------------------------------- */

static bool ring_is_step_done(void *self) {
    struct rt_ring *ring = self;
    const struct rt_segment *first = &ring->flow.segments[0];
    ring->flow.more = first->next.part != 0 || ring->job->ring.mode == RT_RING_FLOW;
    return ring_is_dry(ring) || ring_applied(ring) > ring->returned;
}

rt_status rt_ring_step(struct rt_ring *ring, struct rt_ring_update *update, struct rt_error *err) {
    if (ring->job->evaluate_only)
        return rt_fail(err, RT_BAD_INPUT, "this ring only evaluates");
    if (ring->draining && ring->begun == ring->returned)
        ring->draining = false;
    /* Where each ring has its own batches, the batch scheduler decides when there are no more. */
    if (!ring->draining && !ring->job->ring.with_servers && rt_ring_stop_asked(ring))
        return rt_fail(err, RT_INTERRUPTED, "stopped after update %llu", (unsigned long long)ring->returned);
    ring->stepping = true;
    ring->flow.starving = false;
    rt_status status = rt_ring_run(ring, ring_is_step_done, err);
    ring->stepping = ring->flow.more = false;
    if (status != RT_OK)
        return status;
    if (ring_applied(ring) == ring->returned)
        return rt_fail(err, RT_INTERRUPTED, "stopped after update %llu", (unsigned long long)ring->returned);
    ring->returned++;
    struct rt_ring_update *record = &ring->updates[ring->returned % ring->room];
    /* Updates that overlap share the time between them: together they take no longer than the clock says. */
    record->start = record->start > ring->last_end ? record->start : ring->last_end;
    record->end = ring->last_end = rt_clock_wall();
    *update = *record;
    return RT_OK;
}

bool rt_ring_drain(struct rt_ring *ring) {
    ring->draining = ring->job->ring.mode == RT_RING_FLOW;
    return ring->begun == ring->returned;
}

void rt_ring_follow(struct rt_ring *ring, uint64_t update) {
    ring->begun = ring->returned = update;
    for (size_t i = 0; i < ring->flow.segment_count; i++) {
        ring->flow.segments[i].next.update = update;
        if (ring->flow.segments[i].stage && !ring->job->ring.with_servers) /* else with the parameters */
            ring->flow.segments[i].stage->update = update;
    }
}

bool rt_ring_is_busy(const struct rt_ring *ring) {
    return ring->begun != ring->returned;
}

rt_status rt_ring_check_quiet(const struct rt_ring *ring, struct rt_error *err) {
    if (ring->begun == ring->returned)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "updates are under way: the ring must be drained first");
}
