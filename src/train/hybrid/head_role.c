/* What the head of a ring does: one ticket after another, until the master says that the run is over. */
#include "train/hybrid/head_role.h"

#include "base/memory.h"
#include "train/hybrid/examples.h"
#include "train/hybrid/feed.h"
#include "train/hybrid/talk.h"
#include <math.h>
#include <stdlib.h>

/* Seconds that a head whose ring has failed waits until the master has heard why. */
static const double reason_seconds = 5;

struct head {
    const struct rt_hybrid_job *job; /* borrowed */
    struct rt_job *ring_job;
    struct rt_plan plan;
    struct rt_network network;
    struct rt_materials materials;
    struct rt_scaling scaling;
    struct rt_lesson lesson; /* as far as the supply needs one */

    struct rt_head talk;        /* with the master */
    struct rt_mailbox *mailbox; /* data.send: for the rows of the ring; NULL: it has its own data */
    struct rt_supply supply;
    struct rt_hybrid_feed feed;
    struct rt_ring *ring;
    struct rt_metrics_row *rows;
    const atomic_int *stop; /* of the node */
    atomic_int halt;        /* the ring is to return before it begins with another batch */
    bool resting;           /* it has been told that the ring rests */
};

/* ---- before the run ------------------------------------------------------------------------------------ */

static rt_status make_network(const struct rt_head_place *place, struct head *head, struct rt_error *err) {
    const struct rt_ring_device *device = &place->device->ring;
    const struct rt_spec *spec = head->job->across->spec;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = device->kernels ? device->kernels : "auto",
                                           .threads = device->threads};
    struct rt_tree *copy;
    rt_status status = rt_tree_copy(head->job->ring, &copy, err);
    if (status == RT_OK)
        status = rt_job_create(copy, &head->ring_job, err);
    if (status == RT_OK)
        status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss, &computing,
                                     &head->network, err);
    if (status == RT_OK && head->ring_job->layers->count != head->network.model->count)
        status = rt_fail(err, RT_BAD_INPUT, "the model of the ring is not that of the run");
    return status;
}

static rt_status make_plan(struct head *head, const struct rt_assign *asked, struct rt_error *err) {
    const size_t places = asked->nodes, layers = head->network.model->count;
    struct rt_plan *plan = &head->plan;
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
    plan->micro_batch = rt_job_micro_rows(head->ring_job);
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status check_memory(const struct rt_session *session, const struct head *head, uint64_t *memory,
                              struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const struct rt_plan *plan = &head->plan;
    const struct rt_kernels *kernels = head->network.device.kernels;
    const size_t slots = plan->node[0].slots;
    double bytes = 0;
    rt_status status =
        rt_worker_add_bytes(head->ring_job, kernels, 0, plan->node[0].count, slots, &bytes, err);
    if (status == RT_OK && plan->tail)
        status = rt_worker_add_bytes(head->ring_job, kernels, plan->layers - plan->tail, plan->tail, slots,
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

static rt_status make_mailbox(struct head *head, struct rt_error *err) {
    const struct rt_hybrid_job *job = head->job;
    const size_t examples = (size_t)job->across->examples, batch = head->lesson.settings.batch;
    const struct rt_parting parting = {.examples = examples,
                                       .batch = batch < examples ? batch : examples,
                                       .parts = (size_t)head->ring_job->parts,
                                       .drop_last = head->lesson.settings.drop_last,
                                       .inputs = head->network.inputs,
                                       .outputs = head->network.outputs,
                                       .target = head->lesson.target,
                                       .loss = head->network.loss};
    return rt_mailbox_create(&parting, (size_t)head->ring_job->part, &head->mailbox, err);
}

static rt_status open_data(const struct rt_session *session, struct head *head, struct rt_error *err) {
    const struct rt_head_place *place = session->user;
    const struct rt_spec *spec = head->job->across->spec;
    struct rt_data_wish wish;
    rt_status status = rt_materials_wish(spec, &head->network, &wish, err);
    if (status != RT_OK)
        return status;
    head->lesson = (struct rt_lesson){
        .spec = spec,
        .network = &head->network,
        .set = &head->materials.train,
        .scaling = &head->scaling,
        .target = wish.target,
        .settings = {.seed = (uint64_t)spec->train.seed,
                     .batch = (size_t)spec->train.batch,
                     .shuffle = spec->data.shuffle,
                     .drop_last = spec->train.drop_last},
    };
    if (spec->data.send)
        return make_mailbox(head, err);
    return rt_exchange_job_open_data(head->job->across, &head->network, place->device->data,
                                     place->device->cache, session->stop, &head->materials, &head->scaling,
                                     err);
}

static void end(struct rt_session *session) {
    struct head *head = session->role;
    if (!head)
        return;
    rt_mailbox_destroy(head->mailbox);
    rt_materials_close(&head->materials);
    rt_scaling_deinit(&head->scaling);
    rt_network_destroy(&head->network);
    rt_job_destroy(head->ring_job);
    free(head->plan.node);
    free(head->rows);
    free(head);
    session->role = NULL;
}

static rt_status assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                        struct rt_error *err) {
    const struct rt_head_place *place = session->user;
    struct head *head;
    rt_status status = rt_alloc(1, sizeof *head, "the head of a ring", &head, err);
    if (status != RT_OK)
        return status;
    session->role = head;
    head->job = place->job;
    atomic_init(&head->halt, 0);
    status = make_network(place, head, err);
    if (status == RT_OK)
        status = make_plan(head, asked, err);
    if (status == RT_OK)
        status = check_memory(session, head, memory, err);
    if (status == RT_OK)
        status = open_data(session, head, err);
    if (status == RT_OK)
        status = rt_alloc(asked->nodes, sizeof *head->rows, "the metrics", &head->rows, err);
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
    const struct head *head = user;
    return head->talk.tickets[0] == batch && (!head->mailbox || rt_mailbox_has(head->mailbox, batch));
}

/* The talk, as the group sees it: what is not the next ticket makes the ring return. */
static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct head *head = self;
    const struct rt_group_talk talk = rt_head_talk(&head->talk);
    const bool taken = (head->mailbox && rt_mailbox_event(head->mailbox, event, status, err)) ||
                       talk.event(talk.self, event, lost, status, err);
    if (head->talk.attention)
        atomic_store(&head->halt, 1);
    return taken;
}

/* A ring that has no batch waits for the master of the run, which may validate meanwhile. */
static bool waits_for(const void *self, uint16_t ring) {
    const struct head *head = self;
    const uint64_t next = head->talk.tickets[0];
    return ring == 0 && !(next && may_begin((void *)(uintptr_t)head, next));
}

static bool may_leave(void *self) {
    const struct rt_group_talk talk = rt_head_talk(&((struct head *)self)->talk);
    return talk.may_leave(talk.self);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static rt_status open_ring(struct head *head, struct rt_session *session, struct rt_error *err) {
    const struct rt_hybrid_job *job = head->job;
    const struct rt_head_place *place = session->user;
    const size_t micro = head->plan.micro_batch;
    rt_status status;
    if (head->mailbox) {
        const struct rt_supply_rows rows = rt_mailbox_rows(head->mailbox);
        rt_mailbox_open(head->mailbox, session->run, place->links[0], rt_hybrid_channel(job->served));
        status = rt_supply_open_rows(&head->lesson, micro, &rows, &head->supply, err);
    } else {
        status = rt_supply_open(&head->lesson, micro, session->endpoint, &head->supply, err);
    }
    if (status != RT_OK)
        return status;
    head->feed = (struct rt_hybrid_feed){.whole = rt_supply_source(&head->supply),
                                         .part = (size_t)head->ring_job->part,
                                         .parts = (size_t)head->ring_job->parts,
                                         .sum = job->across->options.reduce == RT_SUM,
                                         .numbering = rt_hybrid_numbering(job),
                                         .may_begin = may_begin,
                                         .user = head};
    rt_group_set_talk(place->group,
                      (struct rt_group_talk){
                          .self = head, .event = take_event, .waits_for = waits_for, .may_leave = may_leave});
    const struct rt_ring_settings settings = {.job = head->ring_job,
                                              .plan = &head->plan,
                                              .device = &head->network.device,
                                              .endpoint = session->endpoint,
                                              .next = session->next,
                                              .previous = session->previous,
                                              .run = session->run,
                                              .source = rt_hybrid_feed_source(&head->feed),
                                              .pace = &place->device->ring.pace,
                                              .patience = job->across->patience,
                                              .stop = &head->halt,
                                              .abandon = session->stop,
                                              .stray = stray,
                                              .user = session,
                                              .across = rt_group_across(place->group)};
    session->next = session->previous = NULL;
    return rt_ring_create(&settings, &head->ring, err);
}

static rt_status answer_metrics(struct head *head, struct rt_error *err) {
    const uint16_t places = head->job->places;
    rt_status status = rt_ring_metrics(head->ring, head->rows, err);
    for (uint16_t i = 0; i < places; i++)
        head->rows[i].node = (uint16_t)(head->job->index + i);
    if (status == RT_OK)
        rt_head_metrics(&head->talk, head->rows, places);
    return status;
}

/* What else there is between two batches. */
static rt_status attend(struct head *head, struct rt_error *err) {
    struct rt_head *talk = &head->talk;
    atomic_store(&head->halt, 0);
    talk->attention = false;
    if (head->stop && atomic_load(head->stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    return talk->asked ? answer_metrics(head, err) : RT_OK;
}

/* One update; what came of it is told. */
static rt_status step(struct head *head, struct rt_error *err) {
    const struct rt_hybrid_feed *feed = &head->feed;
    struct rt_ring_update update;
    rt_status status = rt_ring_step(head->ring, &update, err);
    if (status != RT_OK)
        return status;
    const struct rt_done done = {.batch = update.update,
                                 .rows = rt_hybrid_rows(update.rows, feed->part, feed->parts),
                                 .correct = update.correct,
                                 .loss = update.loss};
    rt_head_done(&head->talk, &done);
    return RT_OK;
}

/* Of rings that stay together: the tickets follow one another, and the ring waits for them by itself. */
static rt_status learn_together(struct head *head, struct rt_error *err) {
    const struct rt_head *talk = &head->talk;
    rt_status status = RT_OK;
    while (status == RT_OK && !(talk->stopped && !talk->tickets[0])) {
        status = step(head, err);
        if (status != RT_INTERRUPTED)
            continue;
        status = attend(head, err);
        if (status == RT_OK && talk->tickets[0] && talk->last && talk->tickets[0] != talk->last + 1)
            status = rt_fail(err, RT_FAILED, "a ticket of batch %llu came behind batch %llu",
                             (unsigned long long)talk->tickets[0], (unsigned long long)talk->last);
        if (status == RT_OK && talk->tickets[0] && !talk->last)
            rt_ring_follow(head->ring, talk->tickets[0] - 1);
    }
    return status;
}

static bool has_news(void *user) {
    const struct head *head = user;
    const struct rt_head *talk = &head->talk;
    return talk->asked || talk->stopped || (talk->begun && !talk->tickets[0] && !head->resting) ||
           (talk->tickets[0] && may_begin(user, talk->tickets[0])) || (head->stop && atomic_load(head->stop));
}

/* Seconds that a ring waits for another batch before it rests: the next ticket may be on its way. */
static const double moment = 0.02;

static bool has_ticket(void *user) {
    const struct rt_head *talk = &((const struct head *)user)->talk;
    return talk->tickets[0] || talk->stopped;
}

static rt_status rest(struct head *head, struct rt_error *err) {
    const double until = rt_endpoint_now(head->talk.endpoint) + moment;
    rt_status status = rt_ring_wait(head->ring, has_ticket, head, until, err);
    if (status != RT_OK || has_ticket(head))
        return status;
    status = rt_ring_rest(head->ring, err);
    if (status != RT_OK)
        return status;
    head->resting = true;
    rt_head_rests(&head->talk);
    return RT_OK;
}

/* Of a ring that has its own batches: while it has none it rests, so that nobody waits for it. */
static rt_status learn_alone(struct head *head, struct rt_error *err) {
    const struct rt_head *talk = &head->talk;
    rt_status status = RT_OK;
    while (status == RT_OK && !(talk->stopped && !talk->tickets[0])) {
        status = attend(head, err);
        if (status == RT_OK && talk->tickets[0] && may_begin(head, talk->tickets[0])) {
            head->resting = false;
            rt_ring_follow(head->ring, talk->tickets[0] - 1);
            status = step(head, err);
        } else if (status == RT_OK && talk->begun && !talk->tickets[0] && !head->resting) {
            status = rest(head, err);
        } else if (status == RT_OK) {
            status = rt_ring_wait(head->ring, has_news, head, (double)INFINITY, err);
        }
    }
    return status;
}

static void tell_why(struct head *head, struct rt_session *session, rt_status status,
                     const struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const uint16_t lost = head->ring ? (uint16_t)rt_ring_lost(head->ring) : 0;
    struct rt_error told = *err;
    /* Whose fault it is, if it is not the training's nor another's. */
    if (lost == 0 && status != RT_FAILED && status != RT_DIVERGED)
        rt_fail_prefix(&told, status, "node %u%s%s%s", head->job->index, node && node->name ? " (" : "",
                       node && node->name ? node->name : "", node && node->name ? ")" : "");
    rt_head_fail(&head->talk, status, lost, told.text, reason_seconds, stray, session);
}

static rt_status work(struct head *head, struct rt_session *session, struct rt_error *err) {
    rt_status status = open_ring(head, session, err);
    if (status == RT_OK)
        status = head->job->served ? learn_alone(head, err) : learn_together(head, err);
    if (status == RT_OK)
        status = rt_ring_stop(head->ring, err);
    if (status != RT_OK)
        tell_why(head, session, status, err);
    return status;
}

static rt_status run(struct rt_session *session, struct rt_error *err) {
    const struct rt_head_place *place = session->user;
    struct head *head = session->role;
    head->stop = session->stop;
    rt_status status =
        rt_head_open(&head->talk, session->endpoint, session->run, head->job->index, place->links[0], err);
    if (status != RT_OK)
        return status;
    status = work(head, session, err);
    rt_head_close(&head->talk);
    place->links[0] = NULL;
    /* Before the ring's memory goes: until then these may write to it. */
    rt_group_hang_up(place->group);
    rt_ring_destroy(head->ring);
    rt_supply_close(&head->supply);
    return status;
}

struct rt_role rt_head_role(struct rt_head_place *place) {
    return (struct rt_role){.assign = assign, .run = run, .end = end, .user = place};
}
