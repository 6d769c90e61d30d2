/* Forming a ring again in the middle of a run, without the devices that are lost: the members are called
 * again, the plan is made for those that answer, and another view of the run is formed. */
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <math.h>

/* What a recovery works with. */
struct recovery {
    const struct rt_ring_past *past;
    const struct rt_ring_setup_settings *settings;
    struct rt_ring_setup *setup;
    bool too_few; /* the model does not fit on the devices that are there */
};

/* Seconds after which the devices that are there are called again, while others are waited for: they wait
 * longer than that, and may be lost themselves. With one among them that offers too little, or nobody to wait
 * for, it is they who may change. */
#define RECOVERY_RECALL 10.0
#define RECOVERY_CHANGE 1.0

/* ---- the version that the view begins with ---- */

/* What a device says that it holds. */
static size_t recovery_holdings(const struct recovery *recovery, const struct rt_ring_setup *setup,
                                size_t device, const struct rt_holding **holding) {
    const struct rt_member *member = device ? rt_cluster_member(setup->who.cluster, device - 1) : NULL;
    *holding = member ? member->welcome.holding : recovery->past->holding;
    return member ? member->welcome.holdings : recovery->past->holdings;
}

static bool recovery_device_holds(const struct recovery *recovery, const struct rt_ring_setup *setup,
                                  size_t device, uint64_t version, size_t layer) {
    const struct rt_holding *holding;
    const size_t count = recovery_holdings(recovery, setup, device, &holding);
    for (size_t i = 0; i < count; i++)
        if (holding[i].version == version && layer >= holding[i].first &&
            layer - holding[i].first < holding[i].count)
            return true;
    return false;
}

/* The node of the plan that has the layer. */
static size_t recovery_owner(const struct rt_plan *plan, size_t layer) {
    for (size_t i = 1; i < plan->nodes; i++)
        if (layer >= plan->node[i].first && layer < plan->node[i].first + plan->node[i].count)
            return i;
    return 0;
}

/* Whether the nodes of the plan have all layers of that version; if so, who has which: the owner itself if it
 * does. */
static bool recovery_covers(const struct recovery *recovery, struct rt_ring_setup *setup, uint64_t version) {
    const struct rt_plan *plan = setup->plan;
    for (size_t layer = 0; layer < plan->layers; layer++) {
        size_t node = recovery_owner(plan, layer);
        if (!recovery_device_holds(recovery, setup, plan->node[node].device, version, layer))
            for (node = 0; node < plan->nodes; node++)
                if (recovery_device_holds(recovery, setup, plan->node[node].device, version, layer))
                    break;
        if (node == plan->nodes)
            return false;
        setup->holder[layer] = (uint16_t)node;
    }
    return true;
}

static uint64_t recovery_version(const struct recovery *recovery, struct rt_ring_setup *setup) {
    const struct rt_versions *known = recovery->past->known;
    for (size_t i = 0; i < known->count; i++)
        if (recovery_covers(recovery, setup, known->version[i]))
            return known->version[i];
    return 0;
}

/* ---- the plan ---- */

/* The planner's answer for the devices that are still there. */
static rt_status recovery_make_plan(struct rt_ring_setup *setup, bool keep_all, struct rt_error *err) {
    struct rt_plan *plan;
    rt_ring_setup_look_again(setup);
    RT_TRY(rt_ring_setup_replan(setup, keep_all, &plan, err));
    plan->alone = -1;
    rt_plan_destroy(setup->plan);
    setup->plan = plan;
    return RT_OK;
}

/* A device that is better left out may be the only one that has some of the state: then it stays. */
static rt_status recovery_plan(const struct recovery *recovery, struct rt_ring_setup *setup,
                               struct rt_error *err) {
    struct rt_error ignored;
    RT_TRY(recovery_make_plan(setup, false, err));
    setup->version = recovery_version(recovery, setup);
    if (setup->version > 0 || setup->plan->left_out_count == 0)
        return RT_OK;
    if (recovery_make_plan(setup, true, &ignored) == RT_OK)
        setup->version = recovery_version(recovery, setup);
    return setup->version > 0 ? RT_OK : recovery_make_plan(setup, false, err);
}

/* One more view, of those that answer. */
static rt_status recovery_form(void *user, struct rt_error *err) {
    struct recovery *recovery = user;
    struct rt_ring_setup *setup = recovery->setup;
    rt_ring_setup_close_links(setup); /* of an attempt before */
    const rt_status status = recovery_plan(recovery, setup, err);
    recovery->too_few = status == RT_BAD_INPUT; /* the planner's answer */
    if (status != RT_OK)
        return status;
    rt_ring_setup_share_cores(setup, recovery->settings->spec, 1);
    RT_TRY(rt_ring_setup_count_memory(recovery->settings, setup, err));
    return rt_ring_setup_assign(recovery->settings, setup, err);
}

/* ---- too few devices are left ---------------------------------------------------------------------------
 */

static void recovery_tell_waits(const struct recovery *recovery, const struct rt_error *why) {
    const struct rt_ring_setup_settings *settings = recovery->settings;
    struct rt_error told;
    rt_fail(&told, RT_OK,
            "too few devices are left: %.400s; a device that is lost is waited for, for %g s "
            "(cluster.wait_device)",
            why->text, settings->spec->cluster.wait_device);
    if (settings->warn)
        settings->warn(settings->warn_user, told.text);
}

static double recovery_pause(const struct recovery *recovery) {
    return rt_membership_can_return(&recovery->setup->who, recovery->past->gone) ? RECOVERY_RECALL
                                                                                 : RECOVERY_CHANGE;
}

/* For a device to come back, as long as the plan says that those that are there do not suffice. */
static rt_status recovery_wait(struct recovery *recovery, const struct rt_reform *reform,
                               struct rt_error *err) {
    struct rt_membership *who = &recovery->setup->who;
    bool *gone = recovery->past->gone;
    const double seconds = recovery->settings->spec->cluster.wait_device;
    const double until = rt_endpoint_now(who->endpoint) + seconds;
    const bool waits = seconds > 0 && rt_membership_can_return(who, gone);
    rt_status status = RT_BAD_INPUT;
    if (waits)
        recovery_tell_waits(recovery, err);
    for (double now = until - seconds; status == RT_BAD_INPUT && recovery->too_few && waits && now < until;
         now = rt_endpoint_now(who->endpoint)) {
        RT_TRY(rt_membership_await(who, gone, fmin(until, now + recovery_pause(recovery)),
                                   recovery->settings->stop, err));
        status = rt_membership_reform(who, gone, reform, err);
    }
    if (status != RT_BAD_INPUT || !recovery->too_few)
        return status;
    const struct rt_error why = *err;
    rt_fail(err, RT_LOST, "too few devices are left: %.600s", why.text);
    return waits ? rt_fail_more(err, RT_LOST, "; no other has come back for %g s", seconds) : RT_LOST;
}

rt_status rt_ring_setup_recover(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                                const struct rt_ring_past *past, struct rt_recovered *recovered,
                                struct rt_error *err) {
    struct recovery recovery = {.past = past, .settings = settings, .setup = setup};
    const struct rt_reform reform = {.form = recovery_form, .user = &recovery, .recovered = recovered};
    rt_ring_setup_close_links(setup);
    if (!setup->holder)
        RT_TRY(rt_alloc(settings->network->model->count, sizeof *setup->holder, "the layers", &setup->holder,
                        err));
    rt_status status = rt_membership_reform(&setup->who, past->gone, &reform, err);
    if (status == RT_BAD_INPUT && recovery.too_few) {
        status = recovery_wait(&recovery, &reform, err);
        recovered->too_few = status == RT_LOST;
    }
    return status;
}

rt_status rt_ring_setup_begin(const struct rt_ring_setup_settings *settings, struct rt_ring_setup *setup,
                              struct rt_error *err) {
    static const struct rt_versions none = {.count = 0};
    const struct rt_ring_past past = {.gone = settings->start.gone, .known = &none};
    struct recovery recovery = {.past = &past, .settings = settings, .setup = setup};
    const rt_status status = rt_ring_setup_assign(settings, setup, err);
    return rt_membership_start_without(&setup->who, &settings->start, recovery_form, &recovery, status, err);
}
