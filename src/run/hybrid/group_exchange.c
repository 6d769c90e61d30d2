/*
 * The exchange of the stages at one position of the rings: a member of an exchange (exchange/member.h), with
 * the stages as its worker.
 *
 * Rings that stay together exchange sums. Where a strategy has servers that apply the sum and give parameters
 * back, here the sum itself is returned, and every node applies it to its own parameters. So all rings have
 * the whole state, and the norm of the whole gradient can still be taken round the ring.
 *
 * Rings that go at their own pace: the node of ring 0 is the server of its position, and the nodes of all
 * rings there are its workers. The optimizer's state is that of ring 0's stage, where it is saved from; the
 * server's parameters are its own, because the stage computes with older ones meanwhile. Positions do not
 * know of one another. Where a server's rules depend on the versions that the workers have (rounds, a bound
 * on values), a ring asks for parameters only when its batch arrives at the position. Otherwise two rings
 * could wait for each other at different positions: a deadlock.
 */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static struct rt_stage *group_first_stage(const struct rt_group *group) {
    return group->stages[0].stage;
}

/* On all threads of the device: the server works on the thread that computes. */
static void group_apply(void *user, const struct rt_optim_step *step, size_t first, size_t count,
                        const float *gradient) {
    const struct rt_group *group = user;
    const struct rt_stage *stage = group_first_stage(group);
    (void)first, (void)count; /* it has the whole stage */
    rt_gradient_apply(stage->device, stage->job->optim, step, stage->model->param_count, gradient,
                      group->server_params, stage->state);
}

static struct rt_updater group_updater(struct rt_group *group) {
    const struct rt_stage *stage = group_first_stage(group);
    const struct rt_job *job = stage->job;
    return (struct rt_updater){.optim = job->optim,
                               .schedule = &job->lr_schedule,
                               .updates = (uint64_t)job->updates,
                               .per_epoch = (uint64_t)job->per_epoch,
                               .state = stage->state,
                               .apply = group_apply,
                               .user = group};
}

/* A layer with parameters is a span, so the order of additions does not depend on where the rings are cut. */
static rt_status group_list_spans(struct rt_group *group, struct rt_error *err) {
    struct rt_replica *replica = &group->replica;
    size_t layers = 0;
    for (size_t i = 0; i < group->stage_count; i++)
        layers += group->stages[i].stage->model->count;
    RT_TRY(rt_alloc(layers, sizeof *group->spans, "the exchange", &group->spans, err));
    RT_TRY(rt_alloc(layers, sizeof *group->gradients, "the exchange", &group->gradients, err));
    *replica = (struct rt_replica){.params = group_first_stage(group)->blocks.params,
                                   .gradient = group_first_stage(group)->slices.blocks[0],
                                   .spans = group->spans,
                                   .gradients = group->gradients};
    for (size_t i = 0; i < group->stage_count; i++) {
        const struct rt_stage *stage = group->stages[i].stage;
        const struct rt_model *model = stage->model;
        for (size_t layer = 0; layer < model->count; layer++) {
            const size_t at = model->param_at[layer], count = model->layers[layer]->param_count;
            if (count == 0)
                continue;
            group->spans[replica->span_count] = (struct rt_span){replica->param_count + at, count};
            group->gradients[replica->span_count++] = stage->slices.blocks[0] + at;
        }
        replica->param_count += model->param_count;
    }
    return RT_OK;
}

rt_status rt_group_exchange_init(struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    if (group->rules && (group->stage_count != 1 || own->examples == 0))
        return rt_fail(err, RT_BAD_INPUT,
                       "rings that exchange by %s have one run of layers at each place, and examples",
                       own->strategy->name);
    RT_TRY(group_list_spans(group, err));
    if (group->replica.span_count == 0)
        return RT_OK;
    if (group->rules && own->ring == 0)
        RT_TRY(rt_floats_create(group->replica.param_count, "a server's parameters", &group->server_params,
                                err));
    const struct rt_exchange_member_settings settings = {
        .strategy = own->strategy,
        .options = own->options,
        .roles = &group->roles,
        .clients = &group->roles,
        .comm = &group->comm,
        .cost = own->cost,
        .replica = &group->replica,
        .updater = group_updater(group),
        .server_params = group->server_params,
        .examples = (size_t)own->examples,
        .batch = (size_t)group_first_stage(group)->job->batch,
        .sums = true,
        .lazy = group->rules && (!group->rules->asynchronous || group->rules->keeps_versions),
        .updated = own->updated,
        .judged = own->judged,
        .user = own->user};
    RT_TRY(rt_exchange_member_init(&group->member, &settings, err));
    rt_exchange_member_start(&group->member);
    return RT_OK;
}

void rt_group_exchange_deinit(struct rt_group *group) {
    rt_exchange_member_deinit(&group->member);
    free(group->spans);
    free(group->gradients);
    free(group->server_params);
}

void rt_group_exchange_start(struct rt_group *group) {
    const struct rt_stage *stage = group_first_stage(group);
    if (group->started)
        return;
    group->started = true;
    if (!group->server_params)
        return;
    memcpy(group->server_params, stage->blocks.params, group->replica.param_count * sizeof(float));
    rt_exchange_member_loaded(&group->member, stage->update);
}
