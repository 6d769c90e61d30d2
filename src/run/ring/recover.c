/* Forming a ring again in the middle of a run, without the devices that are lost: the members are called
 * again, the plan is made for those that answer, and another view of the run is formed. */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* Seconds in which the network makes a link with a device that is there: a second one may be gone too. */
#define LINK_SECONDS 1.0

/* What a recovery works with, by device. */
struct recovery {
    bool *without; /* lost, or in the way of forming a view */
    size_t *there; /* those that answered, in their order */
};

/* The planner's answer for the devices that are still there, in the numbers of all. */
static rt_status recovery_plan(const struct recovery *recovery, struct rt_ring_setup *setup,
                               struct rt_error *err) {
    struct rt_plan_question question = setup->question;
    struct rt_plan_device *device;
    struct rt_plan *plan;
    RT_TRY(rt_alloc(setup->who.devices, sizeof *device, "the devices", &device, err));
    question.count = 0;
    for (size_t i = 0; i < setup->who.devices; i++) {
        const struct rt_member *member = i ? rt_cluster_member(setup->who.cluster, i - 1) : NULL;
        if (member && member->gone)
            continue;
        if (member) /* one that was started again may offer less */
            setup->device[i].memory = member->welcome.memory;
        device[question.count] = setup->device[i];
        recovery->there[question.count++] = i;
    }
    question.devices = device;
    const rt_status status = rt_plan_create(&question, &plan, err);
    free(device);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < plan->nodes; i++)
        plan->node[i].device = recovery->there[plan->node[i].device];
    for (size_t i = 0; i < plan->left_out_count; i++)
        plan->left_out[i] = recovery->there[plan->left_out[i]];
    plan->alone = -1;
    rt_plan_destroy(setup->plan);
    setup->plan = plan;
    return RT_OK;
}

/* One more view, of those that answer. */
static rt_status recovery_form(const struct recovery *recovery, const struct rt_ring_setup_settings *settings,
                               struct rt_ring_setup *setup, struct rt_error *err) {
    const struct rt_reopen_settings again = {.view = rt_cluster_view(setup->who.cluster) + 1,
                                             .lost = recovery->without + 1,
                                             .link_timeout = LINK_SECONDS};
    rt_link_close(setup->next);
    rt_link_close(setup->previous);
    setup->next = setup->previous = NULL;
    RT_TRY(rt_cluster_reopen(setup->who.cluster, &again, err));
    RT_TRY(recovery_plan(recovery, setup, err));
    rt_ring_setup_share_cores(setup, settings->spec, 1);
    RT_TRY(rt_ring_setup_count_memory(settings, setup, err));
    return rt_ring_setup_assign(settings, setup, err);
}

/* Another device may be lost while the view is formed, and does not answer the next time; or one answers the
 * master and is in the way all the same: it cannot reach its neighbour, or refuses its part. Then it is left
 * out. */
static rt_status recovery_run(const struct recovery *recovery, const struct rt_ring_setup_settings *settings,
                              struct rt_ring_setup *setup, struct rt_error *err) {
    rt_status status = RT_FAILED;
    for (size_t i = 0; i < 2 * setup->who.devices; i++) {
        status = recovery_form(recovery, settings, setup, err);
        const size_t fault = setup->who.cluster ? rt_cluster_fault(setup->who.cluster) : SIZE_MAX;
        const bool again = fault != SIZE_MAX || status == RT_FAILED || status == RT_IO;
        if (status == RT_OK || status == RT_INTERRUPTED || !again)
            return status;
        if (fault != SIZE_MAX && i > 0)
            recovery->without[fault + 1] = true;
    }
    return status;
}

rt_status rt_ring_setup_recover(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                const bool *lost, struct rt_error *err) {
    const size_t devices = setup->who.devices;
    struct recovery recovery = {NULL, NULL};
    rt_status status = rt_alloc(devices, sizeof *recovery.without, "the devices", &recovery.without, err);
    if (status == RT_OK)
        status = rt_alloc(devices, sizeof *recovery.there, "the devices", &recovery.there, err);
    if (status == RT_OK) {
        memcpy(recovery.without, lost, devices * sizeof *lost);
        status = recovery_run(&recovery, settings, setup, err);
    }
    free(recovery.without);
    free(recovery.there);
    return status;
}
