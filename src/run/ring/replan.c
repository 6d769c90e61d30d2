/*
 * Planning again in the middle of a run: for the devices that are there, with the times and links that were
 * measured at the start. A device that has become slower or faster since then is so in all its layers alike.
 */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>

struct replan {
    struct rt_plan_question question;
    struct rt_ring_places places; /* those that are there */
};

/* One that has joined in the middle of a run has yet to be measured. */
bool rt_ring_setup_is_there(const struct rt_ring_setup *setup, size_t device) {
    const struct rt_member *member = device ? rt_cluster_member(setup->who.cluster, device - 1) : NULL;
    return !member || (!member->gone && !member->fresh);
}

void rt_ring_setup_look_again(struct rt_ring_setup *setup) {
    for (size_t i = 1; i < setup->who.devices; i++)
        if (rt_ring_setup_is_there(setup, i)) {
            setup->device[i].memory = rt_cluster_member(setup->who.cluster, i - 1)->welcome.memory;
            setup->device[i].hidden = rt_cluster_member(setup->who.cluster, i - 1)->hidden;
        }
}

/* deinit also on failure. */
static rt_status replan_init(const struct rt_ring_setup *setup, bool keep_all, struct replan *replan,
                             struct rt_error *err) {
    size_t *there;
    *replan = (struct replan){.question = setup->question};
    RT_TRY(rt_alloc(setup->who.devices, sizeof *there, "the devices", &there, err));
    const size_t count = rt_ring_setup_order(setup, there);
    const rt_status status = rt_ring_places_init(setup, there, 1, count, &replan->places, err);
    free(there);
    replan->question.count = count;
    replan->question.devices = replan->places.device;
    replan->question.keep_all |= keep_all;
    replan->question.master_inputs *= setup->slower[0];
    replan->question.master_loss *= setup->slower[0];
    return status;
}

static rt_status replan_make(const struct replan *replan, struct rt_plan **plan, struct rt_error *err) {
    struct rt_plan *made;
    RT_TRY(rt_plan_create(&replan->question, &made, err));
    for (size_t i = 0; i < made->nodes; i++)
        made->node[i].device = replan->places.number[made->node[i].device];
    for (size_t i = 0; i < made->left_out_count; i++)
        made->left_out[i] = replan->places.number[made->left_out[i]];
    *plan = made;
    return RT_OK;
}

rt_status rt_ring_setup_replan(const struct rt_ring_setup *setup, bool keep_all, struct rt_plan **plan,
                               struct rt_error *err) {
    struct replan replan;
    rt_status status = replan_init(setup, keep_all, &replan, err);
    if (status == RT_OK)
        status = replan_make(&replan, plan, err);
    rt_ring_places_deinit(&replan.places);
    return status;
}

static rt_status replan_rate(const struct rt_ring_setup *setup, const struct replan *replan, double *rate,
                             struct rt_error *err) {
    const struct rt_plan *plan = setup->plan;
    size_t *device;
    RT_TRY(rt_alloc(plan->nodes, sizeof *device, "the nodes", &device, err));
    for (size_t node = 0; node < plan->nodes; node++)
        for (size_t i = 0; i < replan->question.count; i++)
            if (replan->places.number[i] == plan->node[node].device)
                device[node] = i;
    const rt_status status = rt_plan_rate(&replan->question, plan, device, rate, err);
    free(device);
    return status;
}

rt_status rt_ring_setup_rate(const struct rt_ring_setup *setup, double *rate, struct rt_error *err) {
    struct replan replan;
    rt_status status = replan_init(setup, false, &replan, err);
    if (status == RT_OK)
        status = replan_rate(setup, &replan, rate, err);
    rt_ring_places_deinit(&replan.places);
    return status;
}
