/*
 * Several rings go on when a device is lost, also before they have begun, or comes back: the devices that are
 * there form rings anew, as many as are best (choose.c), from what was measured at the start. Nothing of the
 * view before is used. Ring 0 gets the state from the image that the run keeps on the master
 * (run/replicate.c), or from the checkpoint, and the other rings get it from ring 0 before their first
 * update, as at the start of a run.
 */
#include "run/hybrid/inside.h"
#include "run/ring/setup_inside.h"

#include "base/sentence.h"
#include <stdio.h>

struct again {
    struct rt_rings **rings;
    const struct rt_ring_setup_settings *settings;
    struct rt_ring_setup *setup;
    bool keeps_bits;
};

/* ---- the plan ---- */

/* Of the whole batch, in the micro-batches and slices that it has. */
static rt_status again_make_job(const struct rt_rings *rings, const struct rt_job *before,
                                struct rt_job **job, struct rt_error *err) {
    struct rt_job values = *before;
    values.shards = rt_rings_shards(rings);
    values.ring.parts = rings->shares ? rings->count : 1;
    return rt_job_write(&values, job, err);
}

/* Takes over what was chosen; the job is that of a part until again_settle. */
static void again_take(struct again *again, struct rt_rings_choice *choice, struct rt_job *part) {
    struct rt_ring_setup *setup = again->setup;
    rt_rings_destroy(*again->rings);
    rt_ring_places_deinit(&setup->places);
    rt_plan_destroy(setup->plan);
    *again->rings = choice->rings;
    again->keeps_bits = choice->keeps_bits;
    setup->places = choice->places;
    setup->plan = choice->plan;
    setup->job = part;
    setup->question.job = part;
    setup->question.devices = setup->places.device;
    setup->question.count = setup->places.count;
    *choice = (struct rt_rings_choice){0};
}

static void again_settle(struct rt_ring_setup *setup, struct rt_job *job) {
    rt_job_destroy(setup->job);
    setup->job = job;
    setup->question.job = job;
}

static rt_status again_count(const struct again *again, struct rt_error *err) {
    rt_ring_setup_share_cores(again->setup, again->settings->spec, (*again->rings)->count);
    return rt_ring_setup_count_memory(again->settings, again->setup, err);
}

static rt_status again_plan(struct again *again, struct rt_error *err) {
    struct rt_ring_setup *setup = again->setup;
    struct rt_rings_choice choice;
    struct rt_job *whole = NULL, *part;
    rt_ring_setup_look_again(setup);
    rt_status status = rt_rings_choose(*again->rings, setup, &choice, err);
    if (status == RT_OK)
        status = again_make_job(choice.rings, setup->job, &whole, err);
    if (status != RT_OK) {
        rt_rings_choice_deinit(&choice);
        return status;
    }
    part = choice.job;
    rt_job_destroy(setup->job);
    again_take(again, &choice, part);
    status = again_count(again, err);
    again_settle(setup, whole);
    return status;
}

/* ---- the view ---- */

/* One more view, of those that answer. */
static rt_status again_form(void *user, struct rt_error *err) {
    struct again *again = user;
    struct rt_ring_setup_settings wanted = *again->settings;
    rt_ring_setup_close_links(again->setup); /* of an attempt before */
    rt_rings_leave(*again->rings);
    RT_TRY(again_plan(again, err));
    struct rt_rings *rings = *again->rings;
    rt_rings_shape(rings, &wanted);
    if (rings->count * rings->ring_size == 1) {
        rt_cluster_go_alone(again->setup->who.cluster);
        return RT_OK;
    }
    RT_TRY(rt_ring_setup_form_planned(&wanted, again->setup, err));
    return rt_rings_assign(rings, again->setup, err);
}

/* Whether all devices are there that the rings were planned for. */
static bool again_is_complete(const struct rt_ring_setup *setup, const struct rt_rings *rings) {
    bool complete = true;
    for (size_t i = 1; i < (size_t)rings->count * rings->ring_size; i++)
        complete &= rt_ring_setup_is_there(setup, i);
    return complete;
}

rt_status rt_rings_begin(struct rt_rings **rings, const struct rt_ring_setup_settings *settings,
                         struct rt_ring_setup *setup, struct rt_error *err) {
    struct again again = {.rings = rings, .settings = settings, .setup = setup, .keeps_bits = true};
    const size_t planned = rt_rings_count(*rings);
    const rt_status status =
        again_is_complete(setup, *rings) ? rt_rings_assign(*rings, setup, err) : again_form(&again, err);
    RT_TRY(rt_membership_start_without(&setup->who, &settings->start, again_form, &again, status, err));
    if (!again.keeps_bits) {
        char sentence[200];
        snprintf(sentence, sizeof sentence,
                 "now %s, in place of %zu, which adds in another order: the result differs by rounding",
                 RT_COUNTED((*rings)->count, "ring"), planned);
        settings->start.warn(settings->start.user, sentence);
    }
    return RT_OK;
}

rt_status rt_rings_form_again(struct rt_rings **rings, const struct rt_ring_setup_settings *settings,
                              struct rt_ring_setup *setup, bool *gone, struct rt_recovered *recovered,
                              struct rt_error *err) {
    struct again again = {.rings = rings, .settings = settings, .setup = setup};
    const struct rt_reform reform = {.form = again_form, .user = &again, .recovered = recovered};
    rt_ring_setup_close_links(setup);
    RT_TRY(rt_membership_reform(&setup->who, gone, &reform, err));
    snprintf(recovered->taken, sizeof recovered->taken, "now %s of %s%s", RT_COUNTED((*rings)->count, "ring"),
             RT_COUNTED((*rings)->ring_size, "device"),
             again.keeps_bits ? "" : ", which add in another order than before");
    return RT_OK;
}
