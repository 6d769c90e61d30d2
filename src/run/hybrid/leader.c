/* What the head of a ring does: one ticket after another, until the master says that the run is over. */
#include "run/hybrid/leader.h"

#include "base/memory.h"
#include "run/hybrid/part_pipeline.h"
#include "run/hybrid/samples.h"
#include "run/hybrid/talk.h"
#include <math.h>
#include <stdlib.h>

/* Seconds that a head whose ring has failed waits until the master has heard why. */
static const double reason_seconds = 5;

struct leader {
    const struct rt_hybrid_job *job; /* borrowed */
    struct rt_job *ring_job;
    struct rt_plan plan;
    struct rt_network network;
    struct rt_datasets datasets;
    struct rt_scaling scaling;
    struct rt_training_config config; /* as far as the supply needs one */

    struct rt_leader talk; /* with the master */
    struct rt_ring_sample_receiver
        *sample_receiver; /* data.send: for the rows of the ring; NULL: it has its own data */
    struct rt_input_pipeline pipeline;
    struct rt_part_pipeline part_pipeline;
    struct rt_ring *ring;
    struct rt_metrics_row *rows;
    const atomic_int *stop; /* of the node */
    atomic_int halt;        /* the ring is to return before it begins with another batch */
    bool resting;           /* it has been told that the ring rests */
};

/* ---- before the run ------------------------------------------------------------------------------------ */

static rt_status make_network(const struct rt_leader_place *place, struct leader *leader,
                              struct rt_error *err) {
    const struct rt_ring_device *device = &place->device->ring;
    const struct rt_spec *spec = leader->job->inter_ring->spec;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = device->kernels ? device->kernels : "auto",
                                           .threads = device->threads};
    struct rt_tree *copy;
    rt_status status = rt_tree_copy(leader->job->ring, &copy, err);
    if (status == RT_OK)
        status = rt_job_create(copy, &leader->ring_job, err);
    if (status == RT_OK)
        status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss, &computing,
                                     &leader->network, err);
    if (status == RT_OK && leader->ring_job->layers->count != leader->network.model->count)
        status = rt_fail(err, RT_BAD_INPUT, "the model of the ring is not that of the run");
    return status;
}

static rt_status make_plan(struct leader *leader, const struct rt_assign *asked, struct rt_error *err) {
    const size_t places = asked->nodes, layers = leader->network.model->count;
    struct rt_plan *plan = &leader->plan;
    rt_status status = rt_alloc(places, sizeof *plan->node, "the plan", &plan->node, err);
    size_t next = 0;
    bool fits = true;
    for (size_t i = 0; status == RT_OK && i < places; i++) {
        const struct rt_assigned_node *node = &asked->node[i];
        plan->node[i] = (struct rt_plan_node){
            .device = i, .first = node->first, .count = node->count, .slots = node->slots};
        fits =
            fits && node->first == next && node->count > 0 && node->slots > 0 && node->count <= layers - next;
        next += fits ? node->count : 0;
    }
    if (status != RT_OK)
        return status;
    if (!fits || (places == 1 && next != layers))
        return rt_fail(err, RT_BAD_INPUT, "the assignment does not divide the model's %zu layers", layers);
    plan->nodes = places;
    plan->tail = layers - next;
    plan->layers = layers;
    plan->micro_batch = rt_job_micro_rows(leader->ring_job);
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status check_memory(const struct rt_session *session, const struct leader *leader, uint64_t *memory,
                              struct rt_error *err) {
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
                   "to be the head of a ring needs %.1f MiB besides the data, and it offers %.1f MiB",
                   bytes / 0x1p20, (double)node->memory / 0x1p20);
}

static rt_status make_mailbox(struct leader *leader, struct rt_error *err) {
    const struct rt_hybrid_job *job = leader->job;
    const size_t examples = (size_t)job->inter_ring->examples, batch = leader->config.settings.batch;
    const struct rt_sample_layout parting = {.examples = examples,
                                             .batch = batch < examples ? batch : examples,
                                             .parts = (size_t)leader->ring_job->parts,
                                             .drop_last = leader->config.settings.drop_last,
                                             .inputs = leader->network.inputs,
                                             .outputs = leader->network.outputs,
                                             .target = leader->config.target,
                                             .loss = leader->network.loss};
    return rt_ring_sample_receiver_create(&parting, (size_t)leader->ring_job->part, &leader->sample_receiver,
                                          err);
}

static rt_status open_data(const struct rt_session *session, struct leader *leader, struct rt_error *err) {
    const struct rt_leader_place *place = session->user;
    const struct rt_spec *spec = leader->job->inter_ring->spec;
    struct rt_data_wish wish;
    rt_status status = rt_datasets_wish(spec, &leader->network, &wish, err);
    if (status != RT_OK)
        return status;
    leader->config = (struct rt_training_config){
        .spec = spec,
        .network = &leader->network,
        .set = &leader->datasets.train,
        .scaling = &leader->scaling,
        .target = wish.target,
        .settings = {.seed = (uint64_t)spec->train.seed,
                     .batch = (size_t)spec->train.batch,
                     .shuffle = spec->data.shuffle,
                     .drop_last = spec->train.drop_last},
    };
    if (spec->data.send)
        return make_mailbox(leader, err);
    return rt_exchange_job_open_data(leader->job->inter_ring, &leader->network, place->device->data,
                                     place->device->cache, session->stop, &leader->datasets, &leader->scaling,
                                     err);
}

static void end(struct rt_session *session) {
    struct leader *leader = session->role;
    if (!leader)
        return;
    rt_ring_sample_receiver_destroy(leader->sample_receiver);
    rt_datasets_close(&leader->datasets);
    rt_scaling_deinit(&leader->scaling);
    rt_network_destroy(&leader->network);
    rt_job_destroy(leader->ring_job);
    free(leader->plan.node);
    free(leader->rows);
    free(leader);
    session->role = NULL;
}

static rt_status assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                        struct rt_error *err) {
    const struct rt_leader_place *place = session->user;
    struct leader *leader;
    rt_status status = rt_alloc(1, sizeof *leader, "the head of a ring", &leader, err);
    if (status != RT_OK)
        return status;
    session->role = leader;
    leader->job = place->job;
    atomic_init(&leader->halt, 0);
    status = make_network(place, leader, err);
    if (status == RT_OK)
        status = make_plan(leader, asked, err);
    if (status == RT_OK)
        status = check_memory(session, leader, memory, err);
    if (status == RT_OK)
        status = open_data(session, leader, err);
    if (status == RT_OK)
        status = rt_alloc(asked->nodes, sizeof *leader->rows, "the metrics", &leader->rows, err);
    return status;
}

/* ---- the talk ------------------------------------------------------------------------------------------ */

static void stray(void *user, const struct rt_event *event) {
    struct rt_session *session = user;
    if (session->node)
        rt_node_stray(session, event);
}

/* Asked before an update begins, again and again while there is no ticket. */
static bool may_begin(void *user, uint64_t batch) {
    const struct leader *leader = user;
    return leader->talk.tickets[0] == batch &&
           (!leader->sample_receiver || rt_ring_sample_receiver_has(leader->sample_receiver, batch));
}

/* The talk, as the group sees it: what is not the next ticket makes the ring return. */
static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct leader *leader = self;
    const struct rt_group_talk talk = rt_leader_talk(&leader->talk);
    const bool taken = (leader->sample_receiver &&
                        rt_ring_sample_receiver_event(leader->sample_receiver, event, status, err)) ||
                       talk.event(talk.self, event, lost, status, err);
    if (leader->talk.attention)
        atomic_store(&leader->halt, 1);
    return taken;
}

/* A ring that has no batch waits for the master of the run, which may validate meanwhile. */
static bool waits_for(const void *self, uint16_t ring) {
    const struct leader *leader = self;
    const uint64_t next = leader->talk.tickets[0];
    return ring == 0 && !(next && may_begin((void *)(uintptr_t)leader, next));
}

static bool may_leave(void *self) {
    const struct rt_group_talk talk = rt_leader_talk(&((struct leader *)self)->talk);
    return talk.may_leave(talk.self);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static rt_status open_ring(struct leader *leader, struct rt_session *session, struct rt_error *err) {
    const struct rt_hybrid_job *job = leader->job;
    const struct rt_leader_place *place = session->user;
    const size_t micro = leader->plan.micro_batch;
    rt_status status;
    if (leader->sample_receiver) {
        const struct rt_pipeline_rows rows = rt_ring_sample_receiver_rows(leader->sample_receiver);
        rt_ring_sample_receiver_open(leader->sample_receiver, session->run, place->links[0],
                                     rt_hybrid_channel(job->with_servers));
        status = rt_input_pipeline_open_rows(&leader->config, micro, &rows, &leader->pipeline, err);
    } else {
        status = rt_input_pipeline_open(&leader->config, micro, session->endpoint, &leader->pipeline, err);
    }
    if (status != RT_OK)
        return status;
    leader->part_pipeline = (struct rt_part_pipeline){.whole = rt_input_pipeline_source(&leader->pipeline),
                                                      .part = (size_t)leader->ring_job->part,
                                                      .parts = (size_t)leader->ring_job->parts,
                                                      .sum = job->inter_ring->options.reduce == RT_SUM,
                                                      .numbering = rt_hybrid_numbering(job),
                                                      .may_begin = may_begin,
                                                      .user = leader};
    rt_group_set_talk(place->group, (struct rt_group_talk){.self = leader,
                                                           .event = take_event,
                                                           .waits_for = waits_for,
                                                           .may_leave = may_leave});
    const struct rt_ring_settings settings = {.job = leader->ring_job,
                                              .plan = &leader->plan,
                                              .device = &leader->network.device,
                                              .endpoint = session->endpoint,
                                              .next = session->next,
                                              .previous = session->previous,
                                              .run = session->run,
                                              .source = rt_part_pipeline_source(&leader->part_pipeline),
                                              .pace = &place->device->ring.pace,
                                              .timeout = job->inter_ring->timeout,
                                              .stop = &leader->halt,
                                              .abandon = session->stop,
                                              .stray = stray,
                                              .user = session,
                                              .inter_ring = rt_group_inter_ring(place->group)};
    session->next = session->previous = NULL;
    return rt_ring_create(&settings, &leader->ring, err);
}

static rt_status answer_metrics(struct leader *leader, struct rt_error *err) {
    const uint16_t places = leader->job->places;
    rt_status status = rt_ring_metrics(leader->ring, leader->rows, err);
    for (uint16_t i = 0; i < places; i++)
        leader->rows[i].node = (uint16_t)(leader->job->index + i);
    if (status == RT_OK)
        rt_leader_metrics(&leader->talk, leader->rows, places);
    return status;
}

/* What else there is between two batches. */
static rt_status attend(struct leader *leader, struct rt_error *err) {
    struct rt_leader *talk = &leader->talk;
    atomic_store(&leader->halt, 0);
    talk->attention = false;
    if (leader->stop && atomic_load(leader->stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    return talk->asked ? answer_metrics(leader, err) : RT_OK;
}

/* One update; what came of it is told. */
static rt_status step(struct leader *leader, struct rt_error *err) {
    const struct rt_part_pipeline *part_pipeline = &leader->part_pipeline;
    struct rt_ring_update update;
    rt_status status = rt_ring_step(leader->ring, &update, err);
    if (status != RT_OK)
        return status;
    const struct rt_done done = {.batch = update.update,
                                 .rows =
                                     rt_hybrid_rows(update.rows, part_pipeline->part, part_pipeline->parts),
                                 .correct = update.correct,
                                 .loss = update.loss};
    rt_leader_done(&leader->talk, &done);
    return RT_OK;
}

/* Of rings that stay together: the tickets follow one another, and the ring waits for them by itself. */
static rt_status learn_together(struct leader *leader, struct rt_error *err) {
    const struct rt_leader *talk = &leader->talk;
    rt_status status = RT_OK;
    while (status == RT_OK && !(talk->stopped && !talk->tickets[0])) {
        status = step(leader, err);
        if (status != RT_INTERRUPTED)
            continue;
        status = attend(leader, err);
        if (status == RT_OK && talk->tickets[0] && talk->last && talk->tickets[0] != talk->last + 1)
            status = rt_fail(err, RT_FAILED, "a ticket of batch %llu came behind batch %llu",
                             (unsigned long long)talk->tickets[0], (unsigned long long)talk->last);
        if (status == RT_OK && talk->tickets[0] && !talk->last)
            rt_ring_follow(leader->ring, talk->tickets[0] - 1);
    }
    return status;
}

static bool has_news(void *user) {
    const struct leader *leader = user;
    const struct rt_leader *talk = &leader->talk;
    return talk->asked || talk->stopped || (talk->begun && !talk->tickets[0] && !leader->resting) ||
           (talk->tickets[0] && may_begin(user, talk->tickets[0])) ||
           (leader->stop && atomic_load(leader->stop));
}

/* Seconds that a ring waits for another batch before it rests: the next ticket may be on its way. */
static const double moment = 0.02;

static bool has_ticket(void *user) {
    const struct rt_leader *talk = &((const struct leader *)user)->talk;
    return talk->tickets[0] || talk->stopped;
}

static rt_status rest(struct leader *leader, struct rt_error *err) {
    const double until = rt_endpoint_now(leader->talk.endpoint) + moment;
    rt_status status = rt_ring_wait(leader->ring, has_ticket, leader, until, err);
    if (status != RT_OK || has_ticket(leader))
        return status;
    status = rt_ring_rest(leader->ring, err);
    if (status != RT_OK)
        return status;
    leader->resting = true;
    rt_leader_rests(&leader->talk);
    return RT_OK;
}

/* Of a ring that has its own batches: while it has none it rests, so that nobody waits for it. */
static rt_status learn_alone(struct leader *leader, struct rt_error *err) {
    const struct rt_leader *talk = &leader->talk;
    rt_status status = RT_OK;
    while (status == RT_OK && !(talk->stopped && !talk->tickets[0])) {
        status = attend(leader, err);
        if (status == RT_OK && talk->tickets[0] && may_begin(leader, talk->tickets[0])) {
            leader->resting = false;
            rt_ring_follow(leader->ring, talk->tickets[0] - 1);
            status = step(leader, err);
        } else if (status == RT_OK && talk->begun && !talk->tickets[0] && !leader->resting) {
            status = rest(leader, err);
        } else if (status == RT_OK) {
            status = rt_ring_wait(leader->ring, has_news, leader, (double)INFINITY, err);
        }
    }
    return status;
}

static void tell_why(struct leader *leader, struct rt_session *session, rt_status status,
                     const struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const uint16_t lost = leader->ring ? (uint16_t)rt_ring_lost(leader->ring) : 0;
    struct rt_error told = *err;
    /* Whose fault it is, if it is not the training's nor another's. */
    if (lost == 0 && status != RT_FAILED && status != RT_DIVERGED)
        rt_fail_prefix(&told, status, "node %u%s%s%s", leader->job->index, node && node->name ? " (" : "",
                       node && node->name ? node->name : "", node && node->name ? ")" : "");
    rt_leader_fail(&leader->talk, status, lost, told.text, reason_seconds, stray, session);
}

static rt_status work(struct leader *leader, struct rt_session *session, struct rt_error *err) {
    rt_status status = open_ring(leader, session, err);
    if (status == RT_OK)
        status = leader->job->with_servers ? learn_alone(leader, err) : learn_together(leader, err);
    if (status == RT_OK)
        status = rt_ring_stop(leader->ring, err);
    if (status != RT_OK)
        tell_why(leader, session, status, err);
    return status;
}

static rt_status run(struct rt_session *session, struct rt_error *err) {
    const struct rt_leader_place *place = session->user;
    struct leader *leader = session->role;
    leader->stop = session->stop;
    rt_status status = rt_leader_open(&leader->talk, session->endpoint, session->run, leader->job->index,
                                      place->links[0], err);
    if (status != RT_OK)
        return status;
    status = work(leader, session, err);
    rt_leader_close(&leader->talk);
    place->links[0] = NULL;
    /* Before the ring's memory goes: until then these may write to it. */
    rt_group_hang_up(place->group);
    rt_ring_destroy(leader->ring);
    rt_input_pipeline_close(&leader->pipeline);
    return status;
}

struct rt_role rt_leader_role(struct rt_leader_place *place) {
    return (struct rt_role){.assign = assign, .run = run, .end = end, .user = place};
}
