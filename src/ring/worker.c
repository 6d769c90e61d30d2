/*
 * A worker: opens its device, takes its layers, and lets the engine (ring/flow.h) run until STOP comes or
 * something goes wrong.
 *
 * How a run ends. In good order: STOP comes behind all work; it is passed on, and the node stays until the
 * next one has hung up, so that what it sent has arrived. With a failure: the node that finds it sends ERROR
 * both ways and stays until its neighbours have heard it; they pass it on. When another node was lost the
 * session is kept (struct rt_session), and the master forms another view, for which assign and run are called
 * again.
 */
#include "ring/worker.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "base/sentence.h"
#include "plan/plan.h"
#include "ring/flow.h"
#include <stdlib.h>

/* Seconds that a node which is done waits for the next one to hang up. Where there are other rings, that
 * happens only when all of them are done: the timeout is then that of a neighbour that owes something. */
static const double goodbye = 2;

struct worker {
    struct rt_device device;
    bool device_open;
    struct rt_job *job;
    struct rt_stage *stage;
    struct rt_replicas *replicas; /* they outlive the view in which they were made */
    uint16_t index, nodes;
};

static rt_status worker_open_device(const struct rt_session *session, const struct rt_job *job,
                                    struct rt_device *device, struct rt_error *err) {
    const struct rt_ring_device *ours = session->user;
    return rt_device_open((enum rt_math)job->math, ours->kernels ? ours->kernels : "auto", ours->threads,
                          device, err);
}

static rt_status worker_read_job(const struct rt_tree *tree, struct rt_job **job, struct rt_error *err) {
    struct rt_tree *copy;
    rt_status status = rt_tree_copy(tree, &copy, err);
    return status == RT_OK ? rt_job_create(copy, job, err) : status;
}

/* ---- before the run ------------------------------------------------------------------------------------ */

static rt_status worker_profile(struct rt_session *session, const struct rt_profile *asked,
                                struct rt_profiled *profiled, struct rt_error *err) {
    const struct rt_ring_device *ours = session->user;
    struct rt_device device;
    struct rt_job *job;
    struct rt_layer_times *layers = NULL;
    rt_status status = worker_read_job(asked->job, &job, err);
    if (status != RT_OK)
        return status;
    status = worker_open_device(session, job, &device, err);
    if (status != RT_OK) {
        rt_job_destroy(job);
        return status;
    }
    const size_t count = job->layers->count;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = rt_alloc(count, sizeof *layers, "the times of the layers", &layers, err);
    if (status == RT_OK)
        status = rt_profile_measure(job, &device, asked->rows, rt_pace_factor(&ours->pace, 1),
                                    rt_node_settings(session->node)->memory, layers, count, err);
    rt_fp_leave(&theirs);
    rt_device_close(&device);
    rt_job_destroy(job);
    if (status != RT_OK) {
        free(layers);
        return status;
    }
    *profiled = (struct rt_profiled){.count = count, .layers = layers};
    return RT_OK;
}

/* What belongs to a view. */
static void worker_leave(struct worker *worker) {
    rt_replicas_detach(worker->replicas);
    rt_stage_destroy(worker->stage);
    rt_job_destroy(worker->job);
    if (worker->device_open)
        rt_device_close(&worker->device);
    *worker = (struct worker){.replicas = worker->replicas};
}

static void worker_end(struct rt_session *session) {
    struct worker *worker = session->role;
    if (!worker)
        return;
    worker_leave(worker);
    rt_replicas_destroy(worker->replicas);
    free(worker);
    session->role = NULL;
}

rt_status rt_worker_add_bytes(const struct rt_job *job, const struct rt_kernels *kernels, size_t first,
                              size_t count, size_t slots, double *bytes, struct rt_error *err) {
    uint32_t index = 0;
    struct rt_model *model;
    rt_status status =
        rt_model_create(job->layers, &job->in, first, count, first > 0, kernels, &index, &model, err);
    if (status != RT_OK)
        return status;
    *bytes += (double)rt_stage_bytes(job, model, slots);
    rt_model_destroy(model);
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status worker_check_memory(const struct rt_session *session, const struct worker *worker,
                                     const struct rt_assigned_node *part, struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    double bytes = 0;
    if (!node || node->memory == 0)
        return RT_OK;
    rt_status status = rt_worker_add_bytes(worker->job, worker->device.kernels, part->first, part->count,
                                           part->slots, &bytes, err);
    if (status != RT_OK || bytes <= (double)node->memory)
        return status;
    return rt_fail(err, RT_NO_MEMORY, "%s from %u on, with %s, need %.1f MiB, and it offers %.1f MiB",
                   RT_COUNTED(part->count, "layer"), part->first, RT_COUNTED(part->slots, "slot"),
                   bytes / 0x1p20, (double)node->memory / 0x1p20);
}

/* What it may keep is counted beside its part. */
static bool worker_replica_is_on_disk(const struct rt_session *session, const struct worker *worker,
                                      double bytes) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const size_t part = rt_stage_bytes(worker->job, worker->stage->model, worker->stage->slot_count);
    return rt_replicas_on_disk((enum rt_replica_place)worker->job->ring.replica, (double)part, bytes,
                               node ? node->memory : 0);
}

/* The node before keeps nothing that this one has not; the master's own layers are in its checkpoint. */
static rt_status worker_take_replicas(const struct rt_session *session, struct worker *worker,
                                      const struct rt_assign *asked, struct rt_error *err) {
    const struct rt_assigned_node *previous = &asked->node[asked->index - 1];
    struct rt_replicas *before = worker->replicas;
    struct rt_replicas_settings settings = {
        .job = worker->job, .kernels = worker->device.kernels, .stage = {worker->stage}};
    if (worker->job->ring.replica == RT_REPLICA_OFF || worker->job->evaluate_only)
        return RT_OK;
    if (asked->index > 1) {
        settings.previous_first = previous->first;
        settings.previous_count = previous->count;
    }
    double bytes;
    RT_TRY(rt_replicas_bytes(&settings, &bytes, err));
    settings.on_disk = worker_replica_is_on_disk(session, worker, bytes);
    worker->replicas = NULL;
    RT_TRY(rt_replicas_create(&settings, session->version, before, &worker->replicas, err));
    rt_replicas_adopt(worker->replicas, session->version, worker->stage);
    return RT_OK;
}

static rt_status worker_take_part(struct rt_session *session, struct worker *worker,
                                  const struct rt_assign *asked, struct rt_error *err) {
    if (asked->nodes < 2 || asked->index == 0 || asked->index >= asked->nodes)
        return rt_fail(err, RT_BAD_INPUT, "the assignment is for node %u of %zu", asked->index, asked->nodes);
    const struct rt_assigned_node *part = &asked->node[asked->index];
    worker->index = asked->index;
    worker->nodes = (uint16_t)asked->nodes;
    rt_status status = worker_read_job(asked->job, &worker->job, err);
    if (status != RT_OK)
        return status;
    const size_t layers = worker->job->layers->count;
    if (part->count == 0 || part->first == 0 || part->first >= layers || part->count > layers - part->first ||
        part->slots == 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "the assignment is of %s from %u on, with %s, and the "
                       "model has %s",
                       RT_COUNTED(part->count, "layer"), part->first, RT_COUNTED(part->slots, "slot"),
                       RT_COUNTED(layers, "layer"));
    status = worker_open_device(session, worker->job, &worker->device, err);
    worker->device_open = status == RT_OK;
    if (status == RT_OK)
        status = worker_check_memory(session, worker, part, err);
    if (status == RT_OK)
        status = rt_stage_create(worker->job, &worker->device, part->first, part->count, part->slots,
                                 &worker->stage, err);
    return status == RT_OK ? worker_take_replicas(session, worker, asked, err) : status;
}

static rt_status worker_assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                               struct rt_error *err) {
    struct worker *worker = session->role;
    if (!worker)
        RT_TRY(rt_alloc(1, sizeof *worker, "a node of a ring", &worker, err));
    session->role = worker;
    worker_leave(worker); /* a second assignment takes the place of the first */
    fenv_t theirs;
    rt_fp_enter(&theirs);
    const rt_status status = worker_take_part(session, worker, asked, err);
    rt_fp_leave(&theirs);
    if (status != RT_OK) {
        worker_leave(worker);
        return status;
    }
    *memory = rt_stage_bytes(worker->job, worker->stage->model, worker->stage->slot_count);
    return RT_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static void worker_stray(void *user, const struct rt_event *event) {
    struct rt_session *session = user;
    if (session->node)
        rt_node_stray(session, event);
}

static bool worker_is_stopped(void *self) {
    const struct rt_flow *flow = self;
    const struct rt_segment *segment = &flow->segments[0];
    return flow->ending && (segment->oldest == segment->forward || flow->next.talk.dead);
}

/* Tells the others, and stays until they have heard it. */
static void worker_part_ways(struct rt_flow *flow, rt_status status) {
    if (status != RT_OK && !(flow->agent && rt_agent_is_over(flow->agent)))
        rt_flow_tell(flow);
    /* A slow neighbour must see the STOP before the link closes. */
    const double until = rt_flow_now(flow) + (status == RT_OK ? flow->settings.timeout : goodbye);
    rt_flow_linger(flow, &flow->next, until);
    if (status != RT_OK)
        rt_flow_linger(flow, &flow->previous, until);
}

static rt_status worker_run(struct rt_session *session, struct rt_error *err) {
    struct worker *worker = session->role;
    const struct rt_ring_device *ours = session->user;
    const struct rt_flow_settings settings = {
        .job = worker->job,
        .endpoint = session->endpoint,
        .next = session->next,
        .previous = session->previous,
        .run = session->run,
        .index = worker->index,
        .nodes = worker->nodes,
        .pace = &ours->pace,
        .timeout = worker->job->timeout,
        .names = session->names,
        .stray = worker_stray,
        .user = session,
        .stop = session->stop,
        .recalled = &session->recalled,
        .inter_ring = ours->inter_ring ? *ours->inter_ring : (struct rt_inter_ring){0},
        .replicas = worker->replicas,
    };
    struct rt_flow flow;
    fenv_t theirs;
    session->next = session->previous = NULL;
    if (!settings.next || !settings.previous) {
        rt_link_close(settings.next);
        rt_link_close(settings.previous);
        return rt_fail(err, RT_BAD_INPUT, "this node has no place in a ring");
    }
    rt_fp_enter(&theirs);
    rt_status status = rt_flow_init(&flow, &settings, err);
    if (status == RT_OK)
        status = rt_flow_add(&flow, worker->stage, NULL, &flow.previous, &flow.next, err);
    if (status == RT_OK)
        status = rt_flow_open_agent(&flow, err);
    if (status == RT_OK)
        status = rt_flow_open_replication(&flow, err);
    if (status == RT_OK)
        status = rt_flow_open_exchange(&flow, err);
    if (status == RT_OK)
        status = rt_flow_run(&flow, worker_is_stopped, &flow, err);
    if (status != RT_OK && flow.status == RT_OK) { /* it has not run */
        flow.status = status;
        flow.error = *err;
    }
    if (flow.next.talk.link)
        worker_part_ways(&flow, status);
    const bool over = flow.agent && rt_agent_is_view_over(flow.agent);
    session->orphaned = flow.lost == 0 || (flow.agent && rt_agent_is_orphaned(flow.agent));
    const bool again = status == RT_FAILED && rt_session_may_go_on(session, flow.lost, over);
    session->keep = again ? worker->job->keep : 0;
    rt_flow_deinit(&flow);
    worker_leave(worker);
    rt_fp_leave(&theirs);
    return status;
}

static void worker_tell_damage(const struct rt_session *session) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    if (node && node->tell)
        node->tell(node->user, RT_REPLICAS_DAMAGED);
}

static size_t worker_holdings(struct rt_session *session, struct rt_holding holdings[RT_MAX_HOLDINGS]) {
    struct worker *worker = session->role;
    size_t damaged, count;
    if (!worker)
        return 0;
    count = rt_replicas_holdings(worker->replicas, holdings, &damaged);
    if (damaged)
        worker_tell_damage(session);
    return count;
}

struct rt_role rt_ring_role(const struct rt_ring_device *device) {
    return (struct rt_role){.profile = worker_profile,
                            .assign = worker_assign,
                            .run = worker_run,
                            .end = worker_end,
                            .holdings = worker_holdings,
                            .user = (void *)(uintptr_t)device};
}
