/* Forming a ring again in the middle of a run, without the devices that are lost: the members are called
 * again, the plan is made for those that answer, and another view of the run is formed. */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* The planner's answer for the devices that are still there, in the numbers of all. */
static rt_status ring_setup_plan_again(struct rt_ring_setup *setup, size_t *there, struct rt_error *err) {
    struct rt_plan_question question = setup->question;
    struct rt_plan_device *device;
    struct rt_plan *plan;
    RT_TRY(rt_alloc(setup->who.devices, sizeof *device, "the devices", &device, err));
    question.count = 0;
    for (size_t i = 0; i < setup->who.devices; i++)
        if (i == 0 || !rt_cluster_member(setup->who.cluster, i - 1)->gone) {
            device[question.count] = setup->device[i];
            there[question.count++] = i;
        }
    question.devices = device;
    const rt_status status = rt_plan_create(&question, &plan, err);
    free(device);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < plan->nodes; i++)
        plan->node[i].device = there[plan->node[i].device];
    for (size_t i = 0; i < plan->left_out_count; i++)
        plan->left_out[i] = there[plan->left_out[i]];
    plan->alone = -1;
    rt_plan_destroy(setup->plan);
    setup->plan = plan;
    return RT_OK;
}

/* Seconds in which the network makes a link with a device that is there: a second one may be gone too. */
#define LINK_SECONDS 1.0

/* One more view, of those that answer. */
static rt_status ring_setup_form_again(const struct rt_ring_setup_settings *settings,
                                       struct rt_ring_setup *setup, const bool *lost, size_t *there,
                                       struct rt_error *err) {
    const struct rt_reopen_settings again = {
        .view = rt_cluster_view(setup->who.cluster) + 1, .lost = lost + 1, .link_timeout = LINK_SECONDS};
    rt_link_close(setup->next);
    rt_link_close(setup->previous);
    setup->next = setup->previous = NULL;
    RT_TRY(rt_cluster_reopen(setup->who.cluster, &again, err));
    RT_TRY(ring_setup_plan_again(setup, there, err));
    rt_ring_setup_share_cores(setup, settings->spec, 1);
    RT_TRY(rt_ring_setup_count_memory(settings, setup, err));
    return rt_ring_setup_assign(settings, setup, err);
}

rt_status rt_ring_setup_recover(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                const bool *lost, struct rt_error *err) {
    size_t *there;
    RT_TRY(rt_alloc(setup->who.devices, sizeof *there, "the devices", &there, err));
    rt_status status = RT_FAILED;
    /* Another device may be lost while the view is formed: it does not answer the next time. */
    for (size_t i = 0; i < setup->who.devices && (status == RT_FAILED || status == RT_IO); i++)
        status = ring_setup_form_again(settings, setup, lost, there, err);
    free(there);
    return status;
}
