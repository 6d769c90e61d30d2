/*
 * Rings that go at their own pace: the node of ring 0 is the server of its place, and the nodes of all rings
 * there are its workers. The optimizer's state is that of ring 0's stage, where it is saved from; the
 * server's parameters are its own, because the stage computes with older ones meanwhile.
 *
 * Places do not know of one another. Where a server looks at who has which parameters (rounds, a bound on
 * values), a ring asks for them only when its batch arrives at the place: otherwise one ring could be waited
 * for here while it waits elsewhere for another that waits for it.
 */
#include "train/hybrid/group_inside.h"

#include "base/memory.h"
#include "train/hybrid/feed.h"
#include <stdlib.h>
#include <string.h>

static struct rt_stage *stage_of(const struct rt_group *group) {
    return group->stages[0].stage;
}

static bool is_shared(const struct rt_group *group) {
    return !rt_way_is_asynchronous(group->settings.way, group->settings.options);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* On all threads of the device: the server works on the thread that computes. */
static void apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient) {
    const struct rt_group *group = user;
    const struct rt_stage *stage = stage_of(group);
    (void)first, (void)count; /* it has the whole stage */
    rt_gradient_apply(stage->device, stage->job->optim, step, stage->model->param_count, gradient,
                      group->served.params, stage->state);
}

static struct rt_learning learning_of(struct rt_group *group) {
    const struct rt_stage *stage = stage_of(group);
    const struct rt_job *job = stage->job;
    return (struct rt_learning){.optim = job->optim,
                                .schedule = &job->lr_schedule,
                                .updates = (uint64_t)job->updates,
                                .per_epoch = (uint64_t)job->per_epoch,
                                .state = stage->state,
                                .apply = apply,
                                .user = group};
}

static rt_status list_spans(struct rt_group *group, struct rt_error *err) {
    const struct rt_stage *stage = stage_of(group);
    const struct rt_model *model = stage->model;
    struct rt_replica *replica = &group->served.replica;
    rt_status status =
        rt_alloc(model->count, sizeof *group->served.spans, "the exchange", &group->served.spans, err);
    if (status != RT_OK)
        return status;
    *replica = (struct rt_replica){.params = stage->blocks.params,
                                   .gradient = stage->slices.blocks[0],
                                   .param_count = model->param_count,
                                   .spans = group->served.spans};
    for (size_t layer = 0; layer < model->count; layer++)
        if (model->layers[layer]->param_count > 0)
            group->served.spans[replica->span_count++] =
                (struct rt_span){model->param_at[layer], model->layers[layer]->param_count};
    return RT_OK;
}

static rt_status make_server(struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    const struct rt_replica *replica = &group->served.replica;
    const uint64_t batch = (uint64_t)stage_of(group)->job->batch, count = own->examples;
    const struct rt_server_settings settings = {
        .way = own->way,
        .rules = rt_way_rules(own->way, own->options),
        .options = own->options,
        .roles = &group->roles,
        .party = &group->party,
        .spans = replica->spans,
        .span_count = replica->span_count,
        .count = replica->param_count,
        .param_count = replica->param_count,
        .params = group->served.params,
        .learning = learning_of(group),
        .batch_rows = batch < count ? batch : count,
        .last_rows = batch < count ? (count % batch ? count % batch : batch) : count,
        .numbered = (count + batch - 1) / batch,
        .updated = own->updated,
        .judged = own->judged,
        .user = own->user,
    };
    return rt_server_create(&settings, &group->served.server, err);
}

static rt_status open_served(struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    if (group->stage_count != 1 || own->examples == 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "rings that exchange by %s have one run of layers at each place, and examples",
                       own->way->name);
    rt_status status = list_spans(group, err);
    if (status != RT_OK || group->served.replica.span_count == 0)
        return status;
    if (own->ring == 0) {
        status = rt_floats_create(group->served.replica.param_count, "a server's parameters",
                                  &group->served.params, err);
        if (status == RT_OK)
            status = make_server(group, err);
    }
    if (status != RT_OK)
        return status;
    const struct rt_rules *rules = rt_way_rules(own->way, own->options);
    const struct rt_served_settings settings = {.way = own->way,
                                                .options = own->options,
                                                .roles = &group->roles,
                                                .party = &group->party,
                                                .replica = &group->served.replica,
                                                .local = group->served.server,
                                                .learning = learning_of(group),
                                                .lazy = !rules->asynchronous || rules->keeps_versions};
    return rt_served_create(&settings, &group->served.client, err);
}

static void close_served(struct rt_group *group) {
    rt_served_destroy(group->served.client);
    rt_server_destroy(group->served.server);
    free(group->served.spans);
    free(group->served.params);
}

static void start(struct rt_group *group) {
    if (group->served.started)
        return;
    group->served.started = true;
    if (!group->served.server)
        return;
    memcpy(group->served.params, stage_of(group)->blocks.params,
           group->served.replica.param_count * sizeof(float));
    rt_server_set_version(group->served.server, stage_of(group)->update);
}

/* ---- a worker's steps ---------------------------------------------------------------------------------- */

void rt_group_served_begin(struct rt_group *group, uint64_t update, size_t rows) {
    group->served.unready = group->served.replica.span_count;
    group->served.rows =
        is_shared(group) ? rt_hybrid_rows(rows, group->party.rank, group->party.count) : rows;
    if (group->served.client)
        rt_served_begin(group->served.client, update);
}

bool rt_group_served_has(struct rt_group *group) {
    if (group->served.client && !rt_served_asks(group->served.client))
        return false;
    for (size_t i = 0; group->served.client && i < group->served.replica.span_count; i++)
        if (!rt_served_has(group->served.client, i))
            return false;
    return true;
}

static void take_ready(struct rt_group *group, size_t stage, size_t layer) {
    const size_t from = stage_of(group)->model->param_at[layer];
    const struct rt_span *spans = group->served.spans;
    (void)stage; /* there is one */
    while (group->served.unready > 0 && spans[group->served.unready - 1].first >= from)
        rt_served_ready(group->served.client, --group->served.unready);
    if (layer > 0)
        return;
    group->served.ended++;
    if (group->served.client)
        rt_served_end(group->served.client, group->served.rows);
}

bool rt_group_served_rest(struct rt_group *group, bool anew) {
    return !group->served.client || rt_served_rest(group->served.client, anew);
}

/* ---- the server ---------------------------------------------------------------------------------------- */

const struct rt_server *rt_group_server(const struct rt_group *group) {
    return group->served.server;
}

bool rt_group_can_serve(const struct rt_group *group) {
    return group->served.server && group->served.started && rt_server_has_work(group->served.server);
}

bool rt_group_serve(struct rt_group *group) {
    rt_status status = RT_OK;
    struct rt_error none;
    const struct rt_engine_part part = rt_server_part(group->served.server);
    return part.work(part.self, &status, &none);
}

static bool take_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                       struct rt_error *err) {
    if (group->served.server) {
        const struct rt_engine_part part = rt_server_part(group->served.server);
        if (part.event(part.self, event, status, err))
            return true;
    }
    if (!group->served.client)
        return false;
    const struct rt_engine_part part = rt_served_part(group->served.client);
    return part.event(part.self, event, status, err);
}

static bool part_waits_for(struct rt_engine_part part, uint16_t ring) {
    return part.waits_for(part.self) == ring;
}

/* A server for gradients, a client for an answer of its server. */
static bool waits_for(const struct rt_group *group, uint16_t ring) {
    return (group->served.server && part_waits_for(rt_server_part(group->served.server), ring)) ||
           (group->served.client && part_waits_for(rt_served_part(group->served.client), ring));
}

/* The updates that were made here; elsewhere those that gradients were pushed for. */
static void tell(const struct rt_group *group, struct rt_metrics_row *row) {
    row->updates = group->served.server ? rt_server_version(group->served.server) : group->served.ended;
    if (!group->served.server)
        return;
    const struct rt_server_counts *counts = rt_server_counts(group->served.server);
    row->staleness_sum = counts->staleness_sum;
    row->staleness_max = counts->staleness_max;
}

const struct rt_group_means rt_group_served = {.open = open_served,
                                               .close = close_served,
                                               .start = start,
                                               .event = take_event,
                                               .waits_for = waits_for,
                                               .ready = take_ready,
                                               .tell = tell};
