/*
 * Rings that go at their own pace: the node of ring 0 is the server of its place, and the nodes of all rings
 * there are its workers. The optimizer's state is that of ring 0's stage, where it is saved from; the
 * server's parameters are its own, because the stage computes with older ones meanwhile.
 *
 * Places do not know of one another. Where a server looks at who has which parameters (rounds, a bound on
 * values), a ring asks for them only when its batch arrives at the place: otherwise one ring could be waited
 * for here while it waits elsewhere for another that waits for it.
 */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include "run/hybrid/part_pipeline.h"
#include <stdlib.h>
#include <string.h>

static struct rt_stage *stage_of(const struct rt_group *group) {
    return group->stages[0].stage;
}

static bool is_shared(const struct rt_group *group) {
    return !rt_exchange_is_asynchronous(group->settings.strategy, group->settings.options);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* On all threads of the device: the server works on the thread that computes. */
static void apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                  const float *gradient) {
    const struct rt_group *group = user;
    const struct rt_stage *stage = stage_of(group);
    (void)first, (void)count; /* it has the whole stage */
    rt_gradient_apply(stage->device, stage->job->optim, step, stage->model->param_count, gradient,
                      group->with_servers.params, stage->state);
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
    struct rt_replica *replica = &group->with_servers.replica;
    rt_status status = rt_alloc(model->count, sizeof *group->with_servers.spans, "the exchange",
                                &group->with_servers.spans, err);
    if (status != RT_OK)
        return status;
    *replica = (struct rt_replica){.params = stage->blocks.params,
                                   .gradient = stage->slices.blocks[0],
                                   .param_count = model->param_count,
                                   .spans = group->with_servers.spans};
    for (size_t layer = 0; layer < model->count; layer++)
        if (model->layers[layer]->param_count > 0)
            group->with_servers.spans[replica->span_count++] =
                (struct rt_span){model->param_at[layer], model->layers[layer]->param_count};
    return RT_OK;
}

static rt_status make_server(struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    const struct rt_replica *replica = &group->with_servers.replica;
    const uint64_t batch = (uint64_t)stage_of(group)->job->batch, count = own->examples;
    const struct rt_server_settings settings = {
        .strategy = own->strategy,
        .rules = rt_exchange_rules(own->strategy, own->options),
        .options = own->options,
        .roles = &group->roles,
        .comm = &group->comm,
        .spans = replica->spans,
        .span_count = replica->span_count,
        .count = replica->param_count,
        .param_count = replica->param_count,
        .params = group->with_servers.params,
        .learning = learning_of(group),
        .batch_rows = batch < count ? batch : count,
        .last_rows = batch < count ? (count % batch ? count % batch : batch) : count,
        .numbered = (count + batch - 1) / batch,
        .updated = own->updated,
        .judged = own->judged,
        .user = own->user,
    };
    return rt_server_create(&settings, &group->with_servers.server, err);
}

static rt_status open_served(struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    if (group->stage_count != 1 || own->examples == 0)
        return rt_fail(err, RT_BAD_INPUT,
                       "rings that exchange by %s have one run of layers at each place, and examples",
                       own->strategy->name);
    rt_status status = list_spans(group, err);
    if (status != RT_OK || group->with_servers.replica.span_count == 0)
        return status;
    if (own->ring == 0) {
        status = rt_floats_create(group->with_servers.replica.param_count, "a server's parameters",
                                  &group->with_servers.params, err);
        if (status == RT_OK)
            status = make_server(group, err);
    }
    if (status != RT_OK)
        return status;
    const struct rt_rules *rules = rt_exchange_rules(own->strategy, own->options);
    const struct rt_ps_client_settings settings = {.strategy = own->strategy,
                                                   .options = own->options,
                                                   .roles = &group->roles,
                                                   .comm = &group->comm,
                                                   .replica = &group->with_servers.replica,
                                                   .local = group->with_servers.server,
                                                   .learning = learning_of(group),
                                                   .lazy = !rules->asynchronous || rules->keeps_versions};
    return rt_ps_client_create(&settings, &group->with_servers.client, err);
}

static void close_served(struct rt_group *group) {
    rt_ps_client_destroy(group->with_servers.client);
    rt_server_destroy(group->with_servers.server);
    free(group->with_servers.spans);
    free(group->with_servers.params);
}

static void start(struct rt_group *group) {
    if (group->with_servers.started)
        return;
    group->with_servers.started = true;
    if (!group->with_servers.server)
        return;
    memcpy(group->with_servers.params, stage_of(group)->blocks.params,
           group->with_servers.replica.param_count * sizeof(float));
    rt_server_set_version(group->with_servers.server, stage_of(group)->update);
}

/* ---- a worker's steps ---------------------------------------------------------------------------------- */

void rt_group_client_begin(struct rt_group *group, uint64_t update, size_t rows) {
    group->with_servers.unready = group->with_servers.replica.span_count;
    group->with_servers.rows =
        is_shared(group) ? rt_hybrid_rows(rows, group->comm.rank, group->comm.count) : rows;
    if (group->with_servers.client)
        rt_ps_client_begin(group->with_servers.client, update);
}

bool rt_group_client_has(struct rt_group *group) {
    if (group->with_servers.client && !rt_ps_client_asks(group->with_servers.client))
        return false;
    for (size_t i = 0; group->with_servers.client && i < group->with_servers.replica.span_count; i++)
        if (!rt_ps_client_has(group->with_servers.client, i))
            return false;
    return true;
}

static void take_ready(struct rt_group *group, size_t stage, size_t layer) {
    const size_t from = stage_of(group)->model->param_at[layer];
    const struct rt_span *spans = group->with_servers.spans;
    (void)stage; /* there is one */
    while (group->with_servers.unready > 0 && spans[group->with_servers.unready - 1].first >= from)
        rt_ps_client_ready(group->with_servers.client, --group->with_servers.unready);
    if (layer > 0)
        return;
    group->with_servers.ended++;
    if (group->with_servers.client)
        rt_ps_client_end(group->with_servers.client, group->with_servers.rows);
}

bool rt_group_client_rest(struct rt_group *group, bool anew) {
    return !group->with_servers.client || rt_ps_client_rest(group->with_servers.client, anew);
}

/* ---- the server ---------------------------------------------------------------------------------------- */

const struct rt_server *rt_group_server(const struct rt_group *group) {
    return group->with_servers.server;
}

bool rt_group_can_serve(const struct rt_group *group) {
    return group->with_servers.server && group->with_servers.started &&
           rt_server_has_work(group->with_servers.server);
}

bool rt_group_serve(struct rt_group *group) {
    rt_status status = RT_OK;
    struct rt_error none;
    const struct rt_engine_part part = rt_server_part(group->with_servers.server);
    return part.work(part.self, &status, &none);
}

static bool take_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                       struct rt_error *err) {
    if (group->with_servers.server) {
        const struct rt_engine_part part = rt_server_part(group->with_servers.server);
        if (part.event(part.self, event, status, err))
            return true;
    }
    if (!group->with_servers.client)
        return false;
    const struct rt_engine_part part = rt_ps_client_part(group->with_servers.client);
    return part.event(part.self, event, status, err);
}

static bool part_waits_for(struct rt_engine_part part, uint16_t ring) {
    return part.waits_for(part.self) == ring;
}

/* A server for gradients, a client for an answer of its server. */
static bool waits_for(const struct rt_group *group, uint16_t ring) {
    return (group->with_servers.server && part_waits_for(rt_server_part(group->with_servers.server), ring)) ||
           (group->with_servers.client &&
            part_waits_for(rt_ps_client_part(group->with_servers.client), ring));
}

/* The updates that were made here; elsewhere those that gradients were pushed for. */
static void tell(const struct rt_group *group, struct rt_metrics_row *row) {
    row->updates = group->with_servers.server ? rt_server_version(group->with_servers.server)
                                              : group->with_servers.ended;
    if (!group->with_servers.server)
        return;
    const struct rt_server_counts *counts = rt_server_counts(group->with_servers.server);
    row->staleness_sum = counts->staleness_sum;
    row->staleness_max = counts->staleness_max;
}

const struct rt_group_means rt_group_servers = {.open = open_served,
                                                .close = close_served,
                                                .start = start,
                                                .event = take_event,
                                                .waits_for = waits_for,
                                                .ready = take_ready,
                                                .tell = tell};
