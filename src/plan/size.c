/*
 * The memory of a run of layers. To know it exactly the run is described as a model of its own, which takes
 * time for long models; so that is done only if a bound does not decide: layers that fit with separate memory
 * for each also fit together.
 */
#include "base/memory.h"
#include "learn/stage.h"
#include "plan/planner.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANY_SLOTS = 1 << 15 }; /* the smallest possible slots, of 64 bytes, fill a page of 2 MiB */

const char *rt_plan_bytes_text(double bytes, char *text) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (bytes /= 1024; bytes >= 1000 && unit < 3; unit++)
        bytes /= 1024;
    if (bytes < 1e6)
        snprintf(text, 32, "%.1f %s", bytes, units[unit]);
    else
        snprintf(text, 32, "too many bytes");
    return text;
}

/* From the layers' descriptions alone: the model starts at layer `first`, so earlier layers need not be made
 * again. The names of its tensors would be wrong; its sizes are right. */
static rt_status size_describe(const struct rt_planner *planner, size_t first, size_t end,
                               struct rt_model **model, struct rt_error *err) {
    const struct rt_model *whole = planner->question->model;
    struct rt_tree list = *planner->job.layers;
    list.items += first;
    list.count = end - first;
    uint32_t index = 0;
    const bool gradient = first > 0 && !planner->job.evaluate_only;
    return rt_model_create(&list, &whole->layers[first]->in, 0, SIZE_MAX, gradient,
                           whole->layers[first]->kernels, &index, model, err);
}

static double size_stage_bytes(const struct rt_job *job, const struct rt_model *model, size_t slots) {
    const size_t bytes = rt_stage_bytes(job, model, slots);
    return bytes == SIZE_MAX ? INFINITY : (double)bytes;
}

/* The size of a block as allocated: large ones in whole pages. */
static double size_block_bytes(double bytes) {
    if (!(bytes < (double)(SIZE_MAX / 2)))
        return INFINITY;
    return (double)rt_floats_bytes((size_t)bytes / sizeof(float));
}

static double size_run_memory(const struct rt_run_bytes *run, size_t slots) {
    const double versions = slots > 1 ? (double)slots * run->version : 0;
    return run->fixed + size_block_bytes((double)slots * run->slot) + versions;
}

/* The slots of a stage lie in one block in whole pages, so one more slot may seem to cost nothing, or far too
 * much: the cost of a slot is computed from so many that they fill whole pages. */
static rt_status size_measure(const struct rt_planner *planner, size_t first, size_t end,
                              struct rt_run_bytes *bytes, struct rt_error *err) {
    struct rt_model *model;
    struct rt_job still = planner->job; /* no versions */
    still.ring.mode = RT_RING_EXACT;
    rt_status status = size_describe(planner, first, end, &model, err);
    if (status != RT_OK)
        return status;
    const double some = size_stage_bytes(&still, model, MANY_SLOTS),
                 more = size_stage_bytes(&still, model, 2 * MANY_SLOTS);
    const double two = size_stage_bytes(&planner->job, model, 2);
    if (isinf(more) || isinf(two)) {
        *bytes = (struct rt_run_bytes){.fixed = INFINITY};
    } else {
        bytes->slot = (more - some) / MANY_SLOTS;
        bytes->fixed = some - MANY_SLOTS * bytes->slot;
        bytes->version = (two - size_stage_bytes(&still, model, 2)) / 2;
    }
    rt_model_destroy(model);
    return RT_OK;
}

rt_status rt_planner_bytes(struct rt_planner *planner, size_t first, size_t end, struct rt_run_bytes *bytes,
                           struct rt_error *err) {
    rt_status status = RT_OK;
    if (!planner->runs[first]) {
        const size_t count = planner->layers - first;
        status = rt_alloc(count, sizeof **planner->runs, "the planner", &planner->runs[first], err);
        for (size_t i = 0; status == RT_OK && i < count; i++)
            planner->runs[first][i].fixed = -1;
    }
    if (status != RT_OK)
        return status;
    struct rt_run_bytes *known = &planner->runs[first][end - first - 1];
    if (known->fixed < 0)
        status = size_measure(planner, first, end, known, err);
    if (status == RT_OK)
        *bytes = *known;
    return status;
}

/* Memory of the messages themselves, beyond the slots: gradients on their way back, and on the master the
 * returning outputs unless layers of its own take them. */
static double size_message_bytes(const struct rt_planner *planner, size_t device, size_t first) {
    const struct rt_model *model = planner->question->model;
    const size_t cut = device ? first : planner->chain;
    const struct rt_shape *shape = cut < planner->layers ? &model->layers[cut]->in : &model->out;
    double messages = planner->job.evaluate_only ? 0 : RT_FLOW_SEND_BUFFERS;
    if (device == 0 && cut == planner->layers)
        messages += RT_FLOW_RETURNS;
    return messages * sizeof(float) * (double)rt_job_micro_rows(&planner->job) * (double)rt_shape_size(shape);
}

rt_status rt_planner_node_bytes(struct rt_planner *planner, size_t device, size_t first, size_t end,
                                bool alone, size_t slots, double *bytes, struct rt_error *err) {
    struct rt_run_bytes run, tail;
    const bool has_tail = !alone && device == 0 && planner->chain < planner->layers;
    rt_status status = rt_planner_bytes(planner, first, alone ? planner->layers : end, &run, err);
    if (status == RT_OK && has_tail)
        status = rt_planner_bytes(planner, planner->chain, planner->layers, &tail, err);
    if (status == RT_OK)
        *bytes = RT_PLAN_PROGRAM_BYTES + size_run_memory(&run, slots) +
                 (has_tail ? size_run_memory(&tail, slots) : 0) +
                 (alone ? 0 : size_message_bytes(planner, device, first));
    return status;
}

/* For a model of very many layers: what those up to each point take together. */
static rt_status size_sum_points(struct rt_planner *planner, struct rt_error *err) {
    rt_status status = rt_planner_bytes(planner, 0, planner->layers, &planner->alone[planner->layers], err);
    for (size_t i = 0; status == RT_OK && i < planner->point_count; i++) {
        const size_t end = planner->points[i];
        status = rt_planner_bytes(planner, 0, end, &planner->alone[end], err);
    }
    return status;
}

/* The sums of what layers take alone; computed on first use. */
static rt_status size_sum_alone(struct rt_planner *planner, struct rt_error *err) {
    struct rt_run_bytes *sum = planner->alone;
    rt_status status = RT_OK;
    if (planner->many)
        return size_sum_points(planner, err);
    for (size_t i = 0; status == RT_OK && i < planner->layers; i++) {
        struct rt_run_bytes one;
        status = rt_planner_bytes(planner, i, i + 1, &one, err);
        if (status == RT_OK)
            sum[i + 1] = (struct rt_run_bytes){sum[i].fixed + one.fixed, sum[i].slot + one.slot,
                                               sum[i].version + one.version};
    }
    return status;
}

/* The most that layers first..end can take together; of very many layers about what they take. */
static double size_most_memory(const struct rt_planner *planner, size_t first, size_t end, size_t slots) {
    const struct rt_run_bytes *from = &planner->alone[first], *to = &planner->alone[end];
    return size_run_memory(
        &(struct rt_run_bytes){to->fixed - from->fixed, to->slot - from->slot, to->version - from->version},
        slots);
}

rt_status rt_planner_fits(void *user, size_t device, size_t first, size_t end, bool alone, bool *yes,
                          struct rt_error *err) {
    struct rt_planner *planner = user;
    const double offer = (double)planner->question->devices[device].memory;
    const size_t slots = planner->least_slots;
    *yes = true;
    if (offer <= 0)
        return RT_OK;
    rt_status status = planner->alone[planner->layers].fixed > 0 ? RT_OK : size_sum_alone(planner, err);
    if (status != RT_OK)
        return status;
    double most = size_most_memory(planner, first, end, slots);
    if (device == 0 && planner->chain < planner->layers)
        most += size_most_memory(planner, planner->chain, planner->layers, slots);
    most = RT_PLAN_PROGRAM_BYTES + planner->margin * most +
           (alone ? 0 : size_message_bytes(planner, device, first));
    if (most <= offer && !(alone && planner->many))
        return RT_OK;
    /* Describing every run of very many layers would take minutes; a cut is checked when it is made. */
    if (planner->many && !alone) {
        *yes = false;
        return RT_OK;
    }
    double bytes;
    status = rt_planner_node_bytes(planner, device, first, end, alone, slots, &bytes, err);
    if (status == RT_OK)
        *yes = bytes <= offer;
    return status;
}

/* ---- why nothing fits ---- */

/* Every device but the master needs the same for the same layer. */
static rt_status size_smallest_part(struct rt_planner *planner, double *smallest, struct rt_error *err) {
    const size_t slots = planner->question->slots ? planner->question->slots : 1;
    rt_status status = RT_OK;
    *smallest = INFINITY;
    for (size_t i = planner->least; status == RT_OK && i < planner->chain; i++) {
        double bytes;
        status = rt_planner_node_bytes(planner, 1, i, i + 1, false, slots, &bytes, err);
        if (status == RT_OK)
            *smallest = fmin(*smallest, bytes);
    }
    return status;
}

rt_status rt_planner_lacking(struct rt_planner *planner, double *lacking, struct rt_error *err) {
    const struct rt_plan_device *devices = planner->question->devices;
    double smallest = -1; /* not known */
    for (size_t d = 0; d < planner->devices; d++) {
        lacking[d] = 0;
        if (d == 0 || devices[d].memory == 0)
            continue;
        if (smallest < 0) {
            rt_status status = size_smallest_part(planner, &smallest, err);
            if (status != RT_OK)
                return status;
        }
        if ((double)devices[d].memory < smallest)
            lacking[d] = smallest;
    }
    return RT_OK;
}

/* If every device must hold a part: one that can hold none. RT_OK: there is no such device. */
static rt_status size_explain_device(struct rt_planner *planner, struct rt_error *err) {
    const struct rt_plan_device *devices = planner->question->devices;
    double *lacking;
    rt_status status = rt_alloc(planner->devices, sizeof *lacking, "the planner", &lacking, err);
    if (status != RT_OK)
        return status;
    status = rt_planner_lacking(planner, lacking, err);
    size_t first = 0, others = 0;
    for (size_t d = 1; status == RT_OK && d < planner->devices; d++) {
        others += first && lacking[d] > 0;
        first = !first && lacking[d] > 0 ? d : first;
    }
    if (first) {
        char needs[32], offers[32], also[64] = "";
        if (others)
            snprintf(also, sizeof also, "; %zu other%s too little as well", others,
                     others > 1 ? "s offer" : " offers");
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "every device must hold a part (cluster.%s), and the smallest needs %s in "
                    "micro-batches of %zu, more than the %s offered by %.80s%s",
                    planner->question->keep_all ? "keep_all" : "plan is even",
                    rt_plan_bytes_text(lacking[first], needs), rt_job_micro_rows(&planner->job),
                    rt_plan_bytes_text((double)devices[first].memory, offers), devices[first].name, also);
    }
    free(lacking);
    return status;
}

static rt_status size_explain_layer(struct rt_planner *planner, size_t layer, struct rt_error *err) {
    const struct rt_plan_device *devices = planner->question->devices;
    struct rt_run_bytes bytes;
    rt_status status = rt_planner_bytes(planner, layer, layer + 1, &bytes, err);
    size_t largest = 0;
    for (size_t d = 0; d < planner->devices; d++) {
        if (devices[d].memory == 0)
            return status;
        largest = devices[d].memory > devices[largest].memory ? d : largest;
    }
    const double need =
        status == RT_OK ? RT_PLAN_PROGRAM_BYTES + size_run_memory(&bytes, planner->least_slots) : 0;
    if (status != RT_OK || need <= (double)devices[largest].memory)
        return status;
    char needs[32], offers[32];
    return rt_tree_fail(planner->job.layers->items[layer], err,
                        "layer %zu (%s) needs %s to be trained in micro-batches of %zu, more than any device "
                        "offers: the largest offer is %s, from %s",
                        layer, planner->question->model->layers[layer]->type->name,
                        rt_plan_bytes_text(need, needs), rt_job_micro_rows(&planner->job),
                        rt_plan_bytes_text((double)devices[largest].memory, offers), devices[largest].name);
}

/* Over the cuts that messages would have to pass: the smallest message, or that of the output. */
static rt_status size_explain_message(const struct rt_planner *planner, struct rt_error *err) {
    double smallest = INFINITY;
    size_t cut = planner->least;
    for (size_t i = planner->least; i < planner->chain; i++)
        if (rt_planner_message(planner, i) < smallest)
            smallest = rt_planner_message(planner, i), cut = i;
    if (smallest <= RT_MAX_TENSOR_BYTES)
        smallest = rt_planner_message(planner, planner->chain), cut = planner->chain;
    char bytes[32], limit[32];
    return rt_fail(err, RT_BAD_INPUT,
                   "this model cannot be cut: what would pass from one node to the next%s is %s in "
                   "micro-batches of %zu, and a message holds %s; take a smaller train.micro_batch",
                   cut == planner->chain ? ", its output," : "", rt_plan_bytes_text(smallest, bytes),
                   rt_job_micro_rows(&planner->job), rt_plan_bytes_text(RT_MAX_TENSOR_BYTES, limit));
}

rt_status rt_planner_explain(struct rt_planner *planner, struct rt_error *err) {
    const struct rt_plan_question *q = planner->question;
    const size_t slots = planner->least_slots;
    rt_status status = RT_OK;
    if (planner->too_large && planner->devices > 1)
        return size_explain_message(planner, err);
    for (size_t i = 0; status == RT_OK && i < planner->layers; i++)
        status = size_explain_layer(planner, i, err);
    if (status != RT_OK)
        return status;
    char needs[32], offers[32];
    struct rt_run_bytes bytes;
    if (q->devices[0].memory > 0 && planner->devices > 1 && planner->least < planner->chain) {
        double need;
        status = rt_planner_node_bytes(planner, 0, 0, planner->least, false, slots, &need, err);
        if (status != RT_OK)
            return status;
        if (need > (double)q->devices[0].memory)
            return rt_fail(err, RT_BAD_INPUT,
                           "the master offers %s, but what it must hold itself (%zu of the first layers, so "
                           "that inputs never leave it, and %zu of the last) needs %s",
                           rt_plan_bytes_text((double)q->devices[0].memory, offers), planner->least,
                           planner->layers - planner->chain, rt_plan_bytes_text(need, needs));
    }
    if (q->keep_all || q->even) {
        status = size_explain_device(planner, err);
        if (status != RT_OK)
            return status;
    }
    double offer = 0;
    for (size_t d = 0; d < planner->devices; d++)
        offer += (double)q->devices[d].memory;
    status = rt_planner_bytes(planner, 0, planner->layers, &bytes, err);
    if (status != RT_OK)
        return status;
    return rt_fail(err, RT_BAD_INPUT,
                   "the model does not fit on %s: in micro-batches of %zu it needs about %s in all, and "
                   "there is no cut whose parts fit into the %s offered%s",
                   planner->devices > 1 ? "these devices" : "this device", rt_job_micro_rows(&planner->job),
                   rt_plan_bytes_text(size_run_memory(&bytes, slots), needs),
                   rt_plan_bytes_text(offer, offers),
                   q->keep_all || q->even ? " while every device must hold a part" : "");
}
