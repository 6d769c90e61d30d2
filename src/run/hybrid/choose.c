/*
 * How many rings the devices that are there form, in the middle of a run. A run that shares each batch keeps
 * its sums, and so its bits, with as many rings as it began with, of fewer devices each; and where its sums
 * are the fixed tree over the slices of a batch, with any number of rings that divides the slices. Among
 * those the fastest is taken, by the planner's prediction; with cluster.keep_all the one of most devices.
 * Where none of them can be (fewer devices than rings, too little memory) another number of rings adds in
 * another order.
 */
#include "run/hybrid/inside.h"
#include "run/ring/setup_inside.h"

#include "base/memory.h"
#include <stdlib.h>

void rt_rings_choice_deinit(struct rt_rings_choice *choice) {
    rt_rings_destroy(choice->rings);
    rt_ring_places_deinit(&choice->places);
    rt_plan_destroy(choice->plan);
    rt_job_destroy(choice->job);
    *choice = (struct rt_rings_choice){0};
}

/* Two rings add two numbers, in whatever order. */
static bool choose_keeps_bits(const struct rt_rings *rings, size_t count) {
    const bool tree = rings->strategy->exact == RT_EXACT_BITS || rings->most <= 2;
    if (count == rings->most || !rings->shares)
        return true;
    return tree && rings->exchange_options.reduce != RT_SUM && rings->slices % (int64_t)count == 0 &&
           (rings->slices & (rings->slices - 1)) == 0;
}

/* ---- devices ---- */

static double choose_seconds(const struct rt_ring_setup *setup, size_t device) {
    double seconds = 0;
    for (size_t i = 0; i < setup->question.model->count; i++) {
        const struct rt_layer_times *times = &setup->device[device].layers[i];
        seconds += times->forward + times->input + times->weights + times->update;
    }
    return seconds * setup->slower[device];
}

/* The slowest is left out, but for the master. */
static void choose_drop_slowest(const struct rt_ring_setup *setup, size_t *device, size_t count) {
    size_t slowest = count - 1;
    for (size_t i = count - 1; i > 0; i--)
        if (choose_seconds(setup, device[i]) > choose_seconds(setup, device[slowest]))
            slowest = i;
    for (size_t i = slowest; i + 1 < count; i++)
        device[i] = device[i + 1];
}

/* Those that are there, in their order; at most so many. */
static size_t choose_devices(const struct rt_ring_setup *setup, size_t most, size_t *device) {
    size_t count = 0;
    for (size_t i = 0; i < setup->who.devices; i++)
        if (rt_ring_setup_is_there(setup, i))
            device[count++] = i;
    for (; count > most; count--)
        choose_drop_slowest(setup, device, count);
    return count;
}

/* ---- one choice ---- */

int64_t rt_rings_shards(const struct rt_rings *rings) {
    const bool is_tree = (rings->slices & (rings->slices - 1)) == 0;
    return is_tree && rings->count != rings->most ? rings->slices : (int64_t)rings->config.settings.shards;
}

/* The job that is planned: one ring's part of each batch, in micro-batches of the size that they have. */
static rt_status choose_make_job(const struct rt_rings *rings, const struct rt_ring_setup *setup,
                                 struct rt_job **job, struct rt_error *err) {
    const int64_t parts = rings->shares ? rings->count : 1;
    struct rt_job values = *setup->job;
    values.ring.parts = 1;
    values.batch = (values.batch + parts - 1) / parts;
    const int64_t shards = rt_rings_shards(rings);
    values.shards = shards % parts ? 1 : shards / parts;
    values.micro_batch = values.micro_batch > values.batch ? values.batch : values.micro_batch;
    return rt_job_write(&values, job, err);
}

static rt_status choose_plan(const struct rt_ring_setup *setup, struct rt_rings_choice *choice,
                             struct rt_error *err) {
    struct rt_rings *rings = choice->rings;
    struct rt_plan_question question = setup->question;
    question.job = choice->job;
    question.devices = choice->places.device;
    question.count = choice->places.count;
    question.keep_all = rings->count > 1 || rings->config.spec->cluster.keep_all;
    question.master_inputs *= setup->slower[0];
    question.master_loss *= setup->slower[0];
    RT_TRY(rt_plan_create(&question, &choice->plan, err));
    choice->plan->rings = rings->count;
    choice->plan->alone = -1;
    choice->plan->samples_per_s *= rings->count;
    rings->ring_size = (uint16_t)choice->plan->nodes; /* of one ring some may be left out */
    RT_TRY(rt_rings_add_exchange(rings, (double)setup->job->batch, choice->plan, err));
    rings->rate = choice->plan->samples_per_s;
    return RT_OK;
}

/* Whether the rings can have all their links: of two devices that nobody can connect to, none. */
static bool choose_can_link(const struct rt_ring_setup *setup, const struct rt_rings_choice *choice) {
    const struct rt_ring_places *places = &choice->places;
    const size_t nodes = choice->plan->nodes;
    for (size_t ring = 0; ring < places->rings; ring++)
        for (size_t i = 0; i < nodes; i++) {
            const size_t place = choice->plan->node[i].device,
                         next = choice->plan->node[(i + 1) % nodes].device;
            const size_t device = places->number[ring * places->count + place];
            if (nodes > 1 &&
                !rt_membership_can_link(&setup->who, device, places->number[ring * places->count + next]))
                return false;
            for (size_t other = ring + 1; other < places->rings; other++)
                if (!rt_membership_can_link(&setup->who, device,
                                            places->number[other * places->count + place]))
                    return false;
        }
    return true;
}

/* So many rings. deinit also on failure. */
static rt_status choose_make(const struct rt_rings *before, const struct rt_ring_setup *setup,
                             const size_t *device, size_t places, size_t count,
                             struct rt_rings_choice *choice, struct rt_error *err) {
    *choice = (struct rt_rings_choice){.keeps_bits = choose_keeps_bits(before, count)};
    RT_TRY(rt_rings_create_again(before, count, places, &choice->rings, err));
    RT_TRY(rt_ring_places_init(setup, device, count, places, &choice->places, err));
    RT_TRY(choose_make_job(choice->rings, setup, &choice->job, err));
    RT_TRY(choose_plan(setup, choice, err));
    if (!choose_can_link(setup, choice))
        return rt_fail(err, RT_BAD_INPUT,
                       "several rings need links between devices that only connect to others (node --join)");
    return RT_OK;
}

static size_t choose_nodes(const struct rt_rings *rings) {
    return (size_t)rings->count * rings->ring_size;
}

static bool choose_is_better(const struct rt_rings_choice *choice, const struct rt_rings_choice *best) {
    const struct rt_rings *rings = choice->rings, *other = best->rings;
    if (!other || choice->keeps_bits != best->keeps_bits)
        return !other || choice->keeps_bits;
    if (rings->config.spec->cluster.keep_all && choose_nodes(rings) != choose_nodes(other))
        return choose_nodes(rings) > choose_nodes(other);
    return rings->rate > other->rate;
}

/* As many rings as the run began with, or fewer. err: why one of them cannot be, if none can. */
static rt_status choose_best(const struct rt_rings *before, const struct rt_ring_setup *setup, size_t *device,
                             struct rt_rings_choice *best, struct rt_error *err) {
    const size_t layers = setup->question.model->count;
    struct rt_rings_choice choice;
    rt_status status = RT_FAILED;
    for (size_t count = before->most; count > 0; count--) {
        const size_t devices = choose_devices(setup, count * layers, device);
        if (devices < count)
            continue;
        choose_devices(setup, devices - devices % count, device);
        status = choose_make(before, setup, device, devices / count, count, &choice, err);
        if (status == RT_OK && choose_is_better(&choice, best)) {
            rt_rings_choice_deinit(best);
            *best = choice;
        } else {
            rt_rings_choice_deinit(&choice);
        }
    }
    return best->rings ? RT_OK : status;
}

rt_status rt_rings_choose(const struct rt_rings *rings, const struct rt_ring_setup *setup,
                          struct rt_rings_choice *choice, struct rt_error *err) {
    size_t *device;
    *choice = (struct rt_rings_choice){0};
    RT_TRY(rt_alloc(setup->who.devices, sizeof *device, "the devices", &device, err));
    const rt_status status = choose_best(rings, setup, device, choice, err);
    free(device);
    return status;
}

rt_status rt_rings_gain(const struct rt_rings *rings, const struct rt_ring_setup *setup, double *gain,
                        bool *more, struct rt_error *err) {
    struct rt_rings_choice choice;
    const rt_status status = rt_rings_choose(rings, setup, &choice, err);
    if (status == RT_OK) {
        *more = choose_nodes(choice.rings) > choose_nodes(rings);
        *gain = rings->rate > 0 ? choice.rings->rate / rings->rate : 1;
    }
    rt_rings_choice_deinit(&choice);
    return status;
}
