/* What a master does with a ring between updates: evaluations, snapshots, metrics, the end. */
#include "ring/ring_inside.h"

#include <string.h>

/* ---- evaluation ---------------------------------------------------------------------------------------- */

/* A failure of the caller's own functions ends the evaluation, not the ring: what is under way still comes
 * back, and is dropped. */
rt_status rt_ring_start_evaluation(struct rt_ring *ring, struct rt_inflight *inflight, bool *started) {
    struct rt_segment *first = &ring->flow.segments[0];
    const size_t left = ring->evaluation.examples - ring->evaluation.started;
    const size_t most = rt_job_micro_rows(ring->job), rows = left < most ? left : most;
    if (rows == 0 || ring->evaluation.status != RT_OK || rt_ring_stop_asked(ring))
        return RT_OK;
    rt_flow_enter(&ring->flow, RT_STATE_FORWARD);
    ring->evaluation.status = ring->evaluation.pass->inputs(
        ring->evaluation.pass->user, ring->evaluation.started, rows, inflight->x, &ring->evaluation.error);
    rt_flow_leave(&ring->flow);
    if (ring->evaluation.status != RT_OK)
        return RT_OK;
    inflight->message = (struct rt_message){
        .type = RT_MESSAGE_EVALUATE, .micro = first->next.evaluation++, .update = first->next.update};
    inflight->rows = inflight->slot->rows = inflight->slot->batch_rows = rows;
    inflight->slot->part = (struct rt_micro){.rows = rows};
    ring->evaluation.started += rows;
    *started = true;
    return RT_OK;
}

rt_status rt_ring_take_output(void *self, const struct rt_message *message, size_t rows, const float *y,
                              struct rt_error *err) {
    (void)message;
    struct rt_ring *ring = self;
    if (!ring->evaluation.pass || rows > ring->evaluation.started - ring->evaluation.done) {
        ring->flow.lost = ring->flow.previous.number;
        return rt_fail(err, RT_FAILED, "%zu outputs were not asked for", rows);
    }
    if (ring->evaluation.status == RT_OK)
        ring->evaluation.status = ring->evaluation.pass->outputs(
            ring->evaluation.pass->user, ring->evaluation.done, rows, y, &ring->evaluation.error);
    ring->evaluation.done += rows;
    return RT_OK;
}

static bool ring_is_evaluation_done(void *self) {
    struct rt_ring *ring = self;
    const bool all = ring->evaluation.started == ring->evaluation.examples ||
                     ring->evaluation.status != RT_OK || rt_ring_stop_asked(ring);
    ring->flow.more = !all;
    return all && ring->evaluation.done == ring->evaluation.started;
}

rt_status rt_ring_evaluate(struct rt_ring *ring, size_t examples, const struct rt_forward_pass *pass,
                           struct rt_error *err) {
    rt_status status = rt_ring_check_quiet(ring, err);
    if (status != RT_OK)
        return status;
    memset(&ring->evaluation, 0, sizeof ring->evaluation);
    ring->evaluation.pass = pass;
    ring->evaluation.examples = examples;
    ring->flow.starving = false;
    status = rt_ring_run(ring, ring_is_evaluation_done, err);
    ring->evaluation.pass = NULL;
    ring->flow.more = false;
    if (status != RT_OK)
        return status;
    if (ring->evaluation.status != RT_OK)
        return rt_fail(err, ring->evaluation.status, "%s", ring->evaluation.error.text);
    if (ring->evaluation.done < examples)
        return rt_fail(err, RT_INTERRUPTED, "stopped while evaluating");
    return RT_OK;
}

/* ---- messages in order with the micro-batches ---------------------------------------------------------- */

static bool ring_is_marker_sent(void *self) {
    const struct rt_ring *ring = self;
    const struct rt_segment *first = &ring->flow.segments[0];
    return !ring->marker && first->forward == first->arrived;
}

/* Where other rings go on, a server may change what is not kept yet. */
static bool ring_is_snapshot_taken(void *self) {
    const struct rt_ring *ring = self;
    return ring_is_marker_sent(self) && (!ring->job->ring.with_servers || ring->snapshots_out == 0);
}

rt_status rt_ring_snapshot(struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_ring_check_quiet(ring, err);
    /* There is one image: the one that is being gathered must be complete. */
    if (status == RT_OK && ring->collect.active)
        status = rt_ring_collect_finish(ring, err);
    if (status == RT_OK)
        status = rt_flow_snapshot(&ring->flow, rt_ring_replicated(ring), err);
    if (status != RT_OK)
        return status;
    ring->marker = RT_MESSAGE_SNAPSHOT;
    ring->snapshots_out++;
    return rt_ring_run(ring, ring_is_snapshot_taken, err);
}

bool rt_ring_is_imaged(const struct rt_ring *ring) {
    return ring->flow.replication.open && ring->head->image_taken && ring->begun == ring->returned &&
           ring->head->image_update == ring->returned;
}

static bool ring_is_resting(void *self) {
    return ((struct rt_ring *)self)->rests;
}

rt_status rt_ring_rest(struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_ring_check_quiet(ring, err);
    if (status != RT_OK)
        return status;
    ring->rests = false;
    ring->marker = RT_MESSAGE_PULL;
    return rt_ring_run(ring, ring_is_resting, err);
}

static bool ring_is_stopped(void *self) {
    const struct rt_ring *ring = self;
    return ring->stopped || (ring->flow.ending && ring->flow.previous.talk.dead);
}

rt_status rt_ring_stop(struct rt_ring *ring, struct rt_error *err) {
    rt_status status = rt_ring_check_quiet(ring, err);
    if (status == RT_OK && ring->collect.active)
        status = rt_ring_collect_finish(ring, err);
    if (status != RT_OK)
        return status;
    struct rt_flow *flow = &ring->flow;
    ring->marker = RT_MESSAGE_STOP;
    status = rt_ring_run(ring, ring_is_stopped, err);
    if (status == RT_OK && !ring->stopped) {
        char name[RT_NAME_ROOM];
        status = rt_fail(err, RT_FAILED, "%s: %s",
                         rt_node_name(&flow->settings.names, flow->previous.number, name),
                         flow->previous.talk.error.text);
    }
    /* What a node has sent to another ring must arrive. */
    const struct rt_inter_ring *inter_ring = &flow->settings.inter_ring;
    if (status == RT_OK && inter_ring->self)
        status = rt_ring_wait(ring, inter_ring->may_leave, inter_ring->self,
                              rt_flow_now(flow) + flow->settings.timeout, err);
    /* The last node waits for this before it ends, the one before it for that, and so on. */
    rt_talk_close(&flow->next.talk);
    rt_talk_close(&flow->previous.talk);
    if (flow->status == RT_OK) /* the first failure stays */
        flow->status = rt_fail(&flow->error, RT_FAILED, "the ring has been stopped");
    return status;
}

/* Seconds that the neighbours have to hear why. */
static const double moment = 1;

static void ring_linger(struct rt_flow *flow) {
    const double until = rt_flow_now(flow) + moment;
    rt_flow_linger(flow, &flow->next, until);
    rt_flow_linger(flow, &flow->previous, until);
}

void rt_ring_give_up(struct rt_ring *ring) {
    struct rt_flow *flow = &ring->flow;
    const struct rt_route route = rt_flow_route(flow);
    if (!ring->coordinator)
        return;
    rt_route_end_view(&route, flow->status == RT_OK ? "another view is formed" : flow->error.text);
    ring_linger(flow);
}

void rt_ring_abandon(struct rt_ring *ring) {
    struct rt_flow *flow = &ring->flow;
    const struct rt_route route = rt_flow_route(flow);
    if (!ring->coordinator)
        return;
    rt_route_refuse(&route, RT_INTERRUPTED, 0, "the master has ended the run");
    ring_linger(flow);
}

/* ---- metrics ------------------------------------------------------------------------------------------- */

void rt_ring_take_metrics(struct rt_ring *ring) {
    if (!ring->rows_asked || (ring->coordinator && !rt_coordinator_metrics(ring->coordinator, ring->rows)))
        return;
    ring->rows[0] = ring->own_row;
    ring->rows_here = true;
    ring->rows_asked = false;
}

static void ring_ask(struct rt_ring *ring) {
    ring->rows_when = rt_flow_now(&ring->flow);
    rt_flow_row(&ring->flow, &ring->own_row);
    ring->rows_asked = true;
    if (ring->coordinator)
        rt_coordinator_ask_metrics(ring->coordinator);
    rt_ring_take_metrics(ring);
}

static bool ring_are_metrics_here(void *self) {
    struct rt_ring *ring = self;
    if (!ring->rows_asked && !ring->rows_here)
        ring_ask(ring);
    return ring->rows_here;
}

static bool ring_is_nothing_asked(void *self) {
    return !((struct rt_ring *)self)->rows_asked;
}

rt_status rt_ring_metrics(struct rt_ring *ring, struct rt_metrics_row *rows, struct rt_error *err) {
    /* What was asked for before may be old by now. */
    rt_status status = rt_ring_run(ring, ring_is_nothing_asked, err);
    ring->rows_here = false;
    if (status == RT_OK)
        status = rt_ring_run(ring, ring_are_metrics_here, err);
    if (status == RT_OK)
        memcpy(rows, ring->rows, ring->settings.plan->nodes * sizeof *rows);
    return status;
}

bool rt_ring_metrics_recent(struct rt_ring *ring, struct rt_metrics_row *rows) {
    const double now = rt_flow_now(&ring->flow);
    if (!ring->rows_asked && ring->flow.status == RT_OK && (!ring->rows_here || now >= ring->rows_when + 1))
        ring_ask(ring);
    if (ring->rows_here)
        memcpy(rows, ring->rows, ring->settings.plan->nodes * sizeof *rows);
    return ring->rows_here;
}
