/* What the head of a ring does: one ticket after another, until the master says that the run is over. */
#include "train/hybrid_head_site.h"

#include "base/memory.h"
#include "train/hybrid_feed.h"
#include "train/hybrid_talk.h"
#include "train/materials.h"
#include <stdlib.h>
#include <string.h>

/* Seconds that a head whose ring has failed waits until the master has heard why. */
static const double reason_seconds = 5;

struct rt_head_site {
    const struct rt_hybrid_job *job;
    struct rt_job *ring_job;
    struct rt_plan plan;
    struct rt_network network;
    struct rt_materials materials;
    struct rt_scaling scaling;
    struct rt_lesson lesson; /* as far as the feed needs one */

    struct rt_head head;
    struct rt_hybrid_feed feed;
    struct rt_group *group;
    struct rt_ring *ring;
    struct rt_metrics_row *rows;
    const atomic_int *stop; /* of the node */
    atomic_int halt;        /* the ring is to return before it begins with another batch */
};

/* ---- before the run -------------------------------------------------------------------------------------
 */

static rt_status make_plan(struct rt_head_site *site, const struct rt_assigned_node *nodes,
                           struct rt_error *err) {
    const size_t places = site->job->places, layers = site->network.model->count;
    struct rt_plan *plan = &site->plan;
    rt_status status = rt_alloc(places, sizeof *plan->node, "the plan", &plan->node, err);
    size_t next = 0;
    bool fits = true;
    for (size_t i = 0; status == RT_OK && i < places; i++) {
        plan->node[i] = (struct rt_plan_node){
            .device = i, .first = nodes[i].first, .count = nodes[i].count, .slots = nodes[i].slots};
        fits = fits && nodes[i].first == next && nodes[i].count > 0 && nodes[i].slots > 0 &&
               nodes[i].count <= layers - next;
        next += fits ? nodes[i].count : 0;
    }
    if (status != RT_OK)
        return status;
    if (!fits || (places == 1 && next != layers))
        return rt_fail(err, RT_BAD_INPUT, "the assignment does not divide the model's %zu layers", layers);
    plan->nodes = places;
    plan->tail = layers - next;
    plan->layers = layers;
    plan->micro_batch = rt_job_micro_rows(site->ring_job);
    return RT_OK;
}

static rt_status add_stage(const struct rt_head_site *site, size_t first, size_t count, double *bytes,
                           struct rt_error *err) {
    uint32_t index = 0;
    struct rt_model *model;
    rt_status status = rt_model_create(site->ring_job->layers, &site->ring_job->in, first, count, first > 0,
                                       site->network.device.kernels, &index, &model, err);
    if (status != RT_OK)
        return status;
    *bytes += (double)rt_stage_bytes(site->ring_job, model, site->plan.node[0].slots);
    rt_model_destroy(model);
    return RT_OK;
}

/* Refuses more than the node offers, before any of it is taken. */
static rt_status check_memory(const struct rt_session *session, const struct rt_head_site *site,
                              uint64_t *memory, struct rt_error *err) {
    const struct rt_node_settings *node = session->node ? rt_node_settings(session->node) : NULL;
    const struct rt_plan *plan = &site->plan;
    double bytes = 0;
    rt_status status = add_stage(site, 0, plan->node[0].count, &bytes, err);
    if (status == RT_OK && plan->tail)
        status = add_stage(site, plan->layers - plan->tail, plan->tail, &bytes, err);
    if (status != RT_OK)
        return status;
    *memory = bytes < 0x1p62 ? (uint64_t)bytes : UINT64_MAX;
    if (!node || node->memory == 0 || bytes <= (double)node->memory)
        return RT_OK;
    return rt_fail(err, RT_NO_MEMORY,
                   "to be the head of a ring needs %.1f MiB besides the data, and it offers %.1f MiB",
                   bytes / 0x1p20, (double)node->memory / 0x1p20);
}

static rt_status make_network(const struct rt_session *session, struct rt_head_site *site,
                              struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    const struct rt_spec *spec = site->job->across->spec;
    const struct rt_computing computing = {.math = (enum rt_math)spec->train.math,
                                           .kernels = device->ring.kernels ? device->ring.kernels : "auto",
                                           .threads = device->ring.threads};
    struct rt_tree *copy;
    rt_status status = rt_tree_copy(site->job->ring, &copy, err);
    if (status == RT_OK)
        status = rt_job_create(copy, &site->ring_job, err);
    if (status == RT_OK)
        status = rt_network_describe(spec->model.input, spec->model.layers, spec->model.loss, &computing,
                                     &site->network, err);
    return status;
}

static rt_status open_data(const struct rt_session *session, struct rt_head_site *site,
                           struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    rt_status status = rt_exchange_job_open_data(site->job->across, &site->network, device->data,
                                                 session->stop, &site->materials, &site->scaling, err);
    const struct rt_spec *spec = site->job->across->spec;
    site->lesson = (struct rt_lesson){
        .spec = spec,
        .network = &site->network,
        .set = &site->materials.train,
        .scaling = &site->scaling,
        .target = rt_materials_wish(spec, &site->network).target,
        .settings = {.seed = (uint64_t)spec->train.seed,
                     .batch = (size_t)spec->train.batch,
                     .shuffle = spec->data.shuffle},
    };
    return status;
}

rt_status rt_head_site_create(const struct rt_session *session, const struct rt_hybrid_job *job,
                              const struct rt_assigned_node *nodes, struct rt_head_site **site,
                              uint64_t *memory, struct rt_error *err) {
    struct rt_head_site *made;
    rt_status status = rt_alloc(1, sizeof *made, "the head of a ring", &made, err);
    if (status != RT_OK)
        return status;
    made->job = job;
    atomic_init(&made->halt, 0);
    status = make_network(session, made, err);
    if (status == RT_OK)
        status = make_plan(made, nodes, err);
    if (status == RT_OK)
        status = check_memory(session, made, memory, err);
    if (status == RT_OK)
        status = open_data(session, made, err);
    if (status == RT_OK)
        status = rt_alloc(job->places, sizeof *made->rows, "the metrics", &made->rows, err);
    if (status != RT_OK)
        rt_head_site_destroy(made);
    else
        *site = made;
    return status;
}

void rt_head_site_destroy(struct rt_head_site *site) {
    if (!site)
        return;
    rt_materials_close(&site->materials);
    rt_scaling_deinit(&site->scaling);
    rt_network_destroy(&site->network);
    rt_job_destroy(site->ring_job);
    free(site->plan.node);
    free(site->rows);
    free(site);
}

/* ---- the run --------------------------------------------------------------------------------------------
 */

static void stray(void *user, const struct rt_event *event) {
    struct rt_session *session = user;
    if (session->node)
        rt_node_stray(session, event);
}

/* Asked before an update begins, again and again while there is no ticket. */
static bool may_begin(void *user, uint64_t batch) {
    struct rt_head_site *site = user;
    if (site->stop && atomic_load(site->stop))
        atomic_store(&site->halt, 1);
    return site->head.ticket == batch;
}

/* The talk, as the group sees it: what is not the next ticket makes the ring return. */
static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    struct rt_head_site *site = self;
    const struct rt_group_talk talk = rt_head_talk(&site->head);
    const bool taken = talk.event(talk.self, event, lost, status, err);
    if (site->head.attention)
        atomic_store(&site->halt, 1);
    return taken;
}

static bool may_leave(void *self) {
    struct rt_head_site *site = self;
    const struct rt_group_talk talk = rt_head_talk(&site->head);
    return talk.may_leave(talk.self);
}

static rt_status open_ring(struct rt_head_site *site, struct rt_session *session, struct rt_link **links,
                           struct rt_error *err) {
    const struct rt_hybrid_job *job = site->job;
    const struct rt_node_device *device = session->user;
    const struct rt_group_settings group = {.way = job->across->way,
                                            .options = &job->across->options,
                                            .cost = job->across->cost,
                                            .endpoint = session->endpoint,
                                            .run = session->run,
                                            .ring = job->ours,
                                            .rings = job->rings,
                                            .places = job->places,
                                            .links = links,
                                            .patience = job->across->patience};
    site->feed.part = job->ours;
    site->feed.parts = job->rings;
    site->feed.sum = job->across->options.reduce == RT_SUM;
    site->feed.may_begin = may_begin;
    site->feed.user = site;
    rt_status status = rt_group_create(&group, &site->group, err);
    if (status == RT_OK)
        status =
            rt_hybrid_feed_open(&site->lesson, site->plan.micro_batch, session->endpoint, &site->feed, err);
    if (status != RT_OK)
        return status;
    rt_group_set_talk(site->group,
                      (struct rt_group_talk){.self = site, .event = take_event, .may_leave = may_leave});
    const struct rt_ring_settings settings = {.job = site->ring_job,
                                              .plan = &site->plan,
                                              .device = &site->network.device,
                                              .endpoint = session->endpoint,
                                              .next = session->next,
                                              .previous = session->previous,
                                              .run = session->run,
                                              .source = rt_hybrid_feed_source(&site->feed),
                                              .slowdown = device->ring.slowdown,
                                              .patience = job->across->patience,
                                              .stop = &site->halt,
                                              .stray = stray,
                                              .user = session,
                                              .across = rt_group_across(site->group)};
    session->next = session->previous = NULL;
    return rt_ring_create(&settings, &site->ring, err);
}

static rt_status answer_metrics(struct rt_head_site *site, struct rt_error *err) {
    const uint16_t places = site->job->places;
    rt_status status = rt_ring_metrics(site->ring, site->rows, err);
    for (uint16_t i = 0; i < places; i++)
        site->rows[i].node = (uint16_t)(site->job->index + i);
    if (status == RT_OK)
        rt_head_metrics(&site->head, site->rows, places);
    return status;
}

/* What else there is between two batches. *over: the run is. */
static rt_status attend(struct rt_head_site *site, bool *over, struct rt_error *err) {
    struct rt_head *head = &site->head;
    rt_status status = RT_OK;
    atomic_store(&site->halt, 0);
    head->attention = false;
    if (site->stop && atomic_load(site->stop))
        return rt_fail(err, RT_INTERRUPTED, "the node is stopped");
    if (head->ticket && head->last && head->ticket != head->last + 1)
        return rt_fail(err, RT_FAILED, "a ticket of batch %llu came behind batch %llu",
                       (unsigned long long)head->ticket, (unsigned long long)head->last);
    if (head->ticket && !head->last)
        rt_ring_follow(site->ring, head->ticket - 1);
    if (head->asked)
        status = answer_metrics(site, err);
    *over = head->stopped && !head->ticket;
    return status;
}

static rt_status learn(struct rt_head_site *site, struct rt_error *err) {
    rt_status status = RT_OK;
    for (bool over = false; status == RT_OK && !over;) {
        struct rt_ring_update update;
        status = rt_ring_step(site->ring, &update, err);
        if (status == RT_INTERRUPTED) {
            status = attend(site, &over, err);
            continue;
        }
        if (status != RT_OK)
            return status;
        const struct rt_done done = {.batch = update.update,
                                     .rows = rt_hybrid_rows(update.rows, site->job->ours, site->job->rings),
                                     .correct = update.correct,
                                     .loss = update.loss};
        rt_head_done(&site->head, &done);
    }
    return status;
}

rt_status rt_head_site_run(struct rt_head_site *site, struct rt_session *session, struct rt_link **links,
                           struct rt_error *err) {
    site->stop = session->stop;
    rt_status status =
        rt_head_open(&site->head, session->endpoint, session->run, site->job->index, links[0], err);
    if (status != RT_OK)
        return status;
    status = open_ring(site, session, links, err);
    if (status == RT_OK)
        status = learn(site, err);
    if (status == RT_OK)
        status = rt_ring_stop(site->ring, err);
    if (status != RT_OK)
        rt_head_fail(&site->head, status, site->ring ? (uint16_t)rt_ring_lost(site->ring) : 0, err->text,
                     reason_seconds);
    rt_ring_destroy(site->ring);
    rt_head_close(&site->head);
    links[0] = NULL;
    rt_hybrid_feed_close(&site->feed);
    return status;
}

void rt_head_site_release(struct rt_head_site *site) {
    rt_group_destroy(site->group);
    site->group = NULL;
}
