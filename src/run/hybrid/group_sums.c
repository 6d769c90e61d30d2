/* Rings that stay together: the gradients of equal layers are added up, and every node applies the sum. */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* ---- loads --------------------------------------------------------------------------------------------- */

/* The sum goes back where parameters would. */
static void give_sums(struct rt_collective *collective) {
    size_t kept = 0;
    for (size_t i = 0; i < collective->count; i++) {
        struct rt_collective_op op = collective->list[i];
        if (op.kind == RT_OP_APPLY)
            continue;
        if (op.buffer == RT_BUFFER_PARAMS)
            op.buffer = RT_BUFFER_GRADIENT;
        collective->list[kept++] = op;
    }
    collective->count = kept;
}

static rt_status make_load(const struct rt_group *group, const struct rt_group_load *load,
                           struct rt_load_settings *settings, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    const struct rt_stage *stage = group->stages[load->stage].stage;
    const struct rt_span span = {.count = stage->model->layers[load->layer]->param_count};
    *settings = (struct rt_load_settings){
        .gradient = stage->slices.blocks[0] + stage->model->param_at[load->layer], .count = span.count};
    rt_status status = own->strategy->collective(own->options, &group->roles, own->ring, &span, span.count,
                                                 &own->cost, &settings->collective, err);
    if (status == RT_OK)
        give_sums(&settings->collective);
    return status;
}

/* In the order in which gradients become complete: from the loss on. */
static rt_status list_loads(struct rt_group *group, struct rt_error *err) {
    size_t layers = 0;
    for (size_t i = 0; i < group->stage_count; i++)
        layers += group->stages[i].stage->model->count;
    rt_status status = rt_alloc(layers, sizeof *group->loads, "the exchange", &group->loads, err);
    for (size_t i = group->stage_count; i-- > 0 && status == RT_OK;) {
        struct rt_group_stage *stage = &group->stages[i];
        const struct rt_model *model = stage->stage->model;
        stage->first = group->load_count;
        for (size_t layer = model->count; layer-- > 0;)
            if (model->layers[layer]->param_count > 0)
                group->loads[group->load_count++] = (struct rt_group_load){i, layer};
        stage->count = group->load_count - stage->first;
    }
    return status;
}

static rt_status make_carrier(struct rt_group *group, struct rt_error *err) {
    struct rt_load_settings *loads;
    rt_status status = rt_alloc(group->load_count, sizeof *loads, "the exchange", &loads, err);
    size_t made = 0;
    while (status == RT_OK && made < group->load_count) {
        status = make_load(group, &group->loads[made], &loads[made], err);
        made++;
    }
    if (status == RT_OK) {
        const struct rt_executor_settings settings = {
            .comm = &group->comm, .loads = loads, .load_count = group->load_count};
        status = rt_executor_create(&settings, &group->executor, err);
    } else {
        for (size_t i = 0; i < made; i++)
            rt_collective_deinit(&loads[i].collective);
    }
    free(loads);
    return status;
}

static rt_status open_sums(struct rt_group *group, struct rt_error *err) {
    rt_status status = list_loads(group, err);
    return status == RT_OK && group->load_count > 0 ? make_carrier(group, err) : status;
}

static void close_sums(struct rt_group *group) {
    rt_executor_destroy(group->executor);
    free(group->loads);
}

/* ---- the exchange -------------------------------------------------------------------------------------- */

/* Loads are started in their order. */
static void start_loads(struct rt_group *group) {
    for (;;) {
        const uint64_t next = rt_executor_started(group->executor), update = next / group->load_count;
        const size_t load = (size_t)(next % group->load_count);
        const struct rt_group_stage *stage = &group->stages[group->loads[load].stage];
        if (stage->ready <= update * stage->count + (load - stage->first))
            return;
        rt_executor_start(group->executor);
    }
}

static void take_ready(struct rt_group *group, size_t number, size_t layer) {
    struct rt_group_stage *stage = &group->stages[number];
    size_t loads = 0;
    while (loads < stage->count && group->loads[stage->first + loads].layer >= layer)
        loads++;
    stage->ready = stage->updates * stage->count + loads;
    stage->updates += layer == 0 ? 1 : 0;
    if (group->executor)
        start_loads(group);
}

static bool is_done(const struct rt_group *group, size_t number) {
    const struct rt_group_stage *stage = &group->stages[number];
    if (stage->count == 0)
        return true;
    return rt_executor_done(group->executor) >=
           (stage->updates - 1) * group->load_count + stage->first + stage->count;
}

static bool take_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                       struct rt_error *err) {
    return group->executor && rt_executor_event(group->executor, event, status, err);
}

static bool waits_for(const struct rt_group *group, uint16_t ring) {
    return group->executor && rt_executor_waits_for(group->executor) == ring;
}

const struct rt_group_means rt_group_sums = {.open = open_sums,
                                             .close = close_sums,
                                             .event = take_event,
                                             .waits_for = waits_for,
                                             .ready = take_ready,
                                             .is_done = is_done};
