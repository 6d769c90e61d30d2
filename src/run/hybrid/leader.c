/* The leader of a ring, before the run: its part of the job, its data, the memory that it takes. */
#include "run/hybrid/leader_inside.h"

#include "base/memory.h"
#include "run/job_data.h"
#include <stdlib.h>

/* ---- before the run ------------------------------------------------------------------------------------ */

static rt_status leader_make_network(const struct rt_leader_context *context, struct leader *leader,
                                     struct rt_error *err) {
    const struct rt_ring_device *device = &context->device->ring;
    const struct rt_job *job = leader->ring_job;
    const struct rt_computing computing = {.math = (enum rt_math)job->math,
                                           .kernels = device->kernels ? device->kernels : "auto",
                                           .threads = device->threads};
    return rt_network_describe(job->input, job->layers, job->loss, &computing, &leader->network, err);
}

static rt_status leader_make_plan(struct leader *leader, const struct rt_assign *asked,
                                  struct rt_error *err) {
    const size_t nodes = asked->nodes, layers = leader->network.model->count;
    struct rt_plan *plan = &leader->plan;
    rt_status status = rt_alloc(nodes, sizeof *plan->node, "the plan", &plan->node, err);
    size_t next = 0;
    bool fits = true;
    for (size_t i = 0; status == RT_OK && i < nodes; i++) {
        const struct rt_assigned_node *node = &asked->node[i];
        plan->node[i] = (struct rt_plan_node){
            .device = i, .first = node->first, .count = node->count, .slots = node->slots};
        fits =
            fits && node->first == next && node->count > 0 && node->slots > 0 && node->count <= layers - next;
        next += fits ? node->count : 0;
    }
    if (status != RT_OK)
        return status;
    if (!fits || (nodes == 1 && next != layers))
        return rt_fail(err, RT_BAD_INPUT, "the assignment does not divide the model's %zu layers", layers);
    plan->nodes = nodes;
    plan->tail = layers - next;
    plan->layers = layers;
    plan->micro_batch = rt_job_micro_rows(leader->ring_job);
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status leader_check_memory(const struct rt_session *session, const struct leader *leader,
                                     uint64_t *memory, struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const struct rt_plan *plan = &leader->plan;
    const struct rt_kernels *kernels = leader->network.device.kernels;
    const size_t slots = plan->node[0].slots;
    double bytes = 0;
    rt_status status =
        rt_worker_add_bytes(leader->ring_job, kernels, 0, plan->node[0].count, slots, &bytes, err);
    if (status == RT_OK && plan->tail)
        status = rt_worker_add_bytes(leader->ring_job, kernels, plan->layers - plan->tail, plan->tail, slots,
                                     &bytes, err);
    if (status != RT_OK)
        return status;
    *memory = bytes < 0x1p62 ? (uint64_t)bytes : UINT64_MAX;
    if (!node || node->memory == 0 || bytes <= (double)node->memory)
        return RT_OK;
    return rt_fail(err, RT_NO_MEMORY,
                   "the leader of a ring needs %.1f MiB besides the data, and it offers %.1f MiB",
                   bytes / 0x1p20, (double)node->memory / 0x1p20);
}

static rt_status leader_make_receiver(struct leader *leader, struct rt_error *err) {
    const struct rt_job_ring *ring = &leader->ring_job->ring;
    const size_t examples = (size_t)leader->position->job->data.examples,
                 batch = leader->config.settings.batch;
    const struct rt_sample_layout layout = {
        .examples = examples,
        .batch = batch < examples ? batch : examples,
        .part = rt_slices_equal_part(1, (size_t)ring->parts, (size_t)ring->part),
        .drop_last = leader->config.settings.drop_last,
        .inputs = leader->network.inputs,
        .outputs = leader->network.outputs,
        .target = leader->config.target,
        .loss = leader->network.loss};
    return rt_sample_receiver_create(&layout, &leader->samples, err);
}

static rt_status leader_open_data(const struct rt_session *session, struct leader *leader,
                                  struct rt_error *err) {
    const struct rt_leader_context *context = session->user;
    const struct rt_job *job = leader->position->job;
    struct rt_data_wish wish;
    rt_status status = rt_datasets_wish(&job->data.set, &leader->network, &wish, err);
    if (status != RT_OK)
        return status;
    leader->config = (struct rt_training_config){
        .network = &leader->network,
        .set = &leader->datasets.train,
        .scaling = &leader->scaling,
        .target = wish.target,
        .settings = {.seed = (uint64_t)job->seed,
                     .batch = (size_t)job->batch,
                     .shuffle = job->data.set.shuffle,
                     .drop_last = job->data.drop_last},
    };
    if (job->data.set.send)
        return leader_make_receiver(leader, err);
    return rt_job_data_open(job, &leader->network, context->device->data, context->device->cache,
                            session->stop, &leader->datasets, &leader->scaling, err);
}

static void leader_end(struct rt_session *session) {
    struct leader *leader = session->role;
    if (!leader)
        return;
    rt_sample_receiver_destroy(leader->samples);
    rt_datasets_close(&leader->datasets);
    rt_scaling_deinit(&leader->scaling);
    rt_network_destroy(&leader->network);
    free(leader->plan.node);
    free(leader->rows);
    free(leader);
    session->role = NULL;
}

static rt_status leader_assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                               struct rt_error *err) {
    const struct rt_leader_context *context = session->user;
    struct leader *leader;
    rt_status status = rt_alloc(1, sizeof *leader, "the leader of a ring", &leader, err);
    if (status != RT_OK)
        return status;
    session->role = leader;
    leader->position = context->position;
    leader->ring_job = context->position->ring_job;
    atomic_init(&leader->halt, 0);
    status = leader_make_network(context, leader, err);
    if (status == RT_OK)
        status = leader_make_plan(leader, asked, err);
    if (status == RT_OK)
        status = leader_check_memory(session, leader, memory, err);
    if (status == RT_OK)
        status = leader_open_data(session, leader, err);
    if (status == RT_OK)
        status = rt_alloc(asked->nodes, sizeof *leader->rows, "the metrics", &leader->rows, err);
    return status;
}

struct rt_role rt_leader_role(struct rt_leader_context *context) {
    return (struct rt_role){
        .assign = leader_assign, .run = rt_leader_run, .end = leader_end, .user = context};
}
