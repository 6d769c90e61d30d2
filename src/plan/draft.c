/*
 * Drafts of a plan: the best cut for given devices, its simulation, the devices that are better left out, and
 * how many slots are enough.
 */
#include "base/memory.h"
#include "plan/planner.h"
#include <math.h>
#include <stdlib.h>

/* A device is left out, or more memory is used, only for a gain of this much: predictions are not more
 * precise. */
#define WORTH_IT   1.01
#define SLOTS_SAVE 1.005

/* The steps by which an estimate of memory is raised, and their limit. */
#define MARGIN_STEP 1.1
#define MOST_MARGIN 2

/* The limits for slots beyond that: a factor on their number, and a share of the memory that the node takes
 * without them, or some bytes if that share is small. */
#define SLOTS_TIMES 4
#define SLOTS_SHARE 0.5
#define SLOTS_BYTES 0x1p25

enum {
    SIMULATED = 6, /* updates */
    SIMULATED_MOST =
        1 << 15,      /* micro-batches of all updates on all nodes: keeps a simulation to milliseconds */
    DROPS_TRIED = 16, /* devices that are tried to be left out in one round */
};

rt_status rt_draft_create(size_t devices, struct rt_draft *draft, struct rt_error *err) {
    struct rt_draft made = {0};
    rt_status status = rt_alloc(devices, sizeof *made.cut.device, "the planner", &made.cut.device, err);
    if (status == RT_OK)
        status = rt_alloc(devices, sizeof *made.cut.end, "the planner", &made.cut.end, err);
    if (status == RT_OK)
        status = rt_alloc(devices, sizeof *made.slots, "the planner", &made.slots, err);
    if (status == RT_OK)
        status = rt_alloc(devices, sizeof *made.busy, "the planner", &made.busy, err);
    if (status != RT_OK)
        rt_draft_destroy(&made);
    else
        *draft = made;
    return status;
}

void rt_draft_destroy(struct rt_draft *draft) {
    free(draft->cut.device);
    free(draft->cut.end);
    free(draft->slots);
    free(draft->busy);
    *draft = (struct rt_draft){0};
}

static void draft_swap(struct rt_draft *a, struct rt_draft *b) {
    const struct rt_draft kept = *a;
    *a = *b;
    *b = kept;
}

/* ---- what the simulation says ---- */

static struct rt_schedule_node draft_describe_node(const struct rt_planner *planner,
                                                   const struct rt_draft *draft, size_t k) {
    const struct rt_cut *cut = &draft->cut;
    const size_t device = cut->device[k], first = k ? cut->end[k - 1] : 0;
    const size_t next = cut->device[(k + 1) % cut->nodes], n = planner->devices;
    struct rt_schedule_node node = {.slots = draft->slots[k],
                                    .forward = rt_planner_start(planner, device, first)};
    if (k == 0)
        node.forward += planner->inputs;
    for (size_t i = first; i < planner->layers; i++) {
        const struct rt_layer_times *times = &planner->times[device * planner->layers + i];
        const bool tail = k == 0 && i >= planner->chain;
        if (i >= cut->end[k] && !tail)
            continue;
        node.forward += tail ? 0 : times->forward; /* the tail's is part of the loss */
        node.input += tail ? 0 : times->input;
        node.weights += times->weights;
        node.update += times->update;
    }
    if (cut->nodes > 1) {
        const double bytes = planner->bytes[cut->end[k]] / (double)planner->micros;
        node.hop_forward = RT_PLAN_MESSAGE_SECONDS + bytes * planner->link[device * n + next];
        node.hop_backward = RT_PLAN_MESSAGE_SECONDS + bytes * planner->link[next * n + device];
        if (planner->job.evaluate_only)
            node.hop_backward = 0;
        node.latency = planner->latency[device * n + next];
    }
    return node;
}

rt_status rt_draft_simulate(const struct rt_planner *planner, struct rt_draft *draft, struct rt_error *err) {
    const size_t nodes = draft->cut.nodes;
    struct rt_schedule_node *node;
    rt_status status = rt_alloc(nodes, sizeof *node, "the planner", &node, err);
    if (status != RT_OK)
        return status;
    struct rt_schedule_settings settings = {.nodes = node,
                                            .count = nodes,
                                            .micros = planner->micros,
                                            .updates = planner->flow ? 16 * nodes + 32 : SIMULATED,
                                            .loss = planner->loss,
                                            .split = planner->job.ring.order == RT_RING_SPLIT,
                                            .clip = planner->job.clip_norm > 0,
                                            .flow = planner->flow};
    /* An update of very many micro-batches behaves like one of many: only a part is simulated. */
    const size_t most = SIMULATED_MOST / (nodes * settings.updates) + 1;
    if (settings.micros > most)
        settings.micros = most;
    const double part = (double)settings.micros / (double)planner->micros;
    for (size_t k = 0; k < nodes; k++) {
        node[k] = draft_describe_node(planner, draft, k);
        node[k].update *= part;
    }
    struct rt_schedule_result result;
    status = rt_schedule_simulate(&settings, &result, err);
    free(node);
    if (status != RT_OK)
        return status;
    draft->update = result.update_seconds / part;
    draft->rate = draft->update > 0 ? (double)planner->job.batch / draft->update : 0;
    for (size_t k = 0; k < nodes; k++)
        draft->busy[k] = result.busy[k] / (double)settings.updates / part;
    return RT_OK;
}

/* ---- slots ---- */

/* The number of slots beyond which nothing is gained. The master's slots hold micro-batches of one update at
 * a time: a forward of the next update waits until all of them are free. At the other nodes inputs of the
 * next update arrive while weight gradients of the last are still to be done. In ring-flow, where an update
 * is one micro-batch: twice the time round the ring; a device that is alone does not wait, and more slots
 * would only add staleness. */
static size_t draft_most_slots(const struct rt_planner *planner, size_t nodes, size_t k) {
    if (planner->question->slots)
        return planner->question->slots;
    if (planner->flow)
        return nodes == 1 ? 1 : 2 * nodes;
    return k ? planner->micros + planner->micros / 2 : planner->micros;
}

static rt_status draft_slots_bytes(struct rt_planner *planner, const struct rt_cut *cut, size_t k,
                                   size_t slots, double *bytes, struct rt_error *err) {
    return rt_planner_node_bytes(planner, cut->device[k], k ? cut->end[k - 1] : 0, cut->end[k],
                                 cut->nodes == 1, slots, bytes, err);
}

/* The most slots from `least` up to `most` with which node k takes no more than so many bytes; least if even
 * those take more. */
static rt_status draft_slots_within(struct rt_planner *planner, const struct rt_cut *cut, size_t k,
                                    size_t least, size_t most, double limit, size_t *slots,
                                    struct rt_error *err) {
    rt_status status = RT_OK;
    *slots = least;
    while (status == RT_OK && *slots < most) {
        const size_t middle = *slots + (most - *slots + 1) / 2;
        double bytes;
        status = draft_slots_bytes(planner, cut, k, middle, &bytes, err);
        if (status == RT_OK && bytes <= limit)
            *slots = middle;
        else
            most = middle - 1;
    }
    return status;
}

/* As many slots as memory allows. *scarce: some node has few. */
static rt_status draft_fill_slots(struct rt_planner *planner, struct rt_draft *draft, bool *scarce,
                                  struct rt_error *err) {
    const struct rt_cut *cut = &draft->cut;
    rt_status status = RT_OK;
    *scarce = false;
    for (size_t k = 0; status == RT_OK && k < cut->nodes; k++) {
        const size_t most = draft_most_slots(planner, cut->nodes, k);
        const size_t enough = most < 4 * cut->nodes ? most : 4 * cut->nodes;
        const double offer = (double)planner->question->devices[cut->device[k]].memory;
        draft->slots[k] = most;
        if (offer > 0)
            status = draft_slots_within(planner, cut, k, 1, most, offer, &draft->slots[k], err);
        *scarce = *scarce || draft->slots[k] < enough;
    }
    return status;
}

/* Whether every node of a cut of very many layers, whose memory was estimated, has room for its part. */
static rt_status draft_check_cut(struct rt_planner *planner, const struct rt_cut *cut, bool *fits,
                                 struct rt_error *err) {
    rt_status status = RT_OK;
    *fits = true;
    for (size_t k = 0; status == RT_OK && planner->many && cut->nodes > 1 && k < cut->nodes; k++) {
        const double offer = (double)planner->question->devices[cut->device[k]].memory;
        double bytes = 0;
        if (offer > 0)
            status = draft_slots_bytes(planner, cut, k, planner->least_slots, &bytes, err);
        *fits = *fits && bytes <= offer;
    }
    return status;
}

/* The best cut; if its memory was estimated too low, the best one for a higher estimate. */
static rt_status draft_solve(struct rt_planner *planner, const struct rt_cut_problem *problem,
                             struct rt_cut *cut, struct rt_error *err) {
    bool fits = false;
    rt_status status = RT_OK;
    for (planner->margin = 1; status == RT_OK && !fits && planner->margin < MOST_MARGIN;
         planner->margin *= MARGIN_STEP) {
        status = rt_cut_solve(problem, cut, err);
        if (status == RT_OK)
            status = draft_check_cut(planner, cut, &fits, err);
    }
    if (!fits)
        cut->nodes = 0;
    return status;
}

rt_status rt_draft_make(struct rt_planner *planner, const uint8_t *use, struct rt_draft *draft,
                        struct rt_error *err) {
    const struct rt_cut_problem problem = {
        .layers = planner->chain,
        .devices = planner->devices,
        .least = planner->least,
        .points = planner->points,
        .point_count = planner->point_count,
        .work = planner->work,
        .start = planner->start,
        .extra = planner->extra,
        .bytes = planner->bytes,
        .link = planner->link,
        .port = planner->port,
        .messages = (double)planner->micros * RT_PLAN_MESSAGE_SECONDS,
        .backward = !planner->job.evaluate_only,
        .use = use,
        .fits = rt_planner_fits,
        .user = planner,
    };
    struct rt_draft trial;
    rt_status status = rt_draft_create(planner->devices, &trial, err);
    if (status != RT_OK)
        return status;
    draft->cut.nodes = 0;
    draft->rate = 0;
    /* A cut that leaves a device room for few slots may be slower than a less even one: if slots are scarce,
     * cuts that leave room for more are tried as well. */
    bool scarce = true;
    const size_t least = planner->question->slots ? planner->question->slots : 1;
    for (size_t slots = least; scarce && status == RT_OK; slots *= 2) {
        planner->least_slots = slots;
        status = draft_solve(planner, &problem, &trial.cut, err);
        if (status != RT_OK || trial.cut.nodes == 0)
            break;
        status = draft_fill_slots(planner, &trial, &scarce, err);
        if (status == RT_OK)
            status = rt_draft_simulate(planner, &trial, err);
        if (status == RT_OK && trial.rate > draft->rate)
            draft_swap(draft, &trial);
        if (planner->question->slots || slots >= draft_most_slots(planner, planner->devices, 0))
            break;
    }
    planner->least_slots = least;
    rt_draft_destroy(&trial);
    return status;
}

/* The fewest slots with which the simulation loses next to nothing. */
static rt_status draft_count_enough(struct rt_planner *planner, const struct rt_draft *draft,
                                    struct rt_draft *trial, size_t *enough, struct rt_error *err) {
    rt_status status = RT_OK;
    size_t fewer = 0;
    *enough = 1;
    for (size_t k = 0; k < draft->cut.nodes; k++) {
        trial->cut.device[k] = draft->cut.device[k];
        trial->cut.end[k] = draft->cut.end[k];
        *enough = draft->slots[k] > *enough ? draft->slots[k] : *enough;
    }
    trial->cut.nodes = draft->cut.nodes;
    while (status == RT_OK && *enough - fewer > 1) {
        const size_t middle = fewer + (*enough - fewer) / 2;
        for (size_t k = 0; k < trial->cut.nodes; k++)
            trial->slots[k] = draft->slots[k] < middle ? draft->slots[k] : middle;
        status = rt_draft_simulate(planner, trial, err);
        if (trial->update <= draft->update * SLOTS_SAVE)
            *enough = middle;
        else
            fewer = middle;
    }
    return status;
}

/* Real times vary, and a waiting slot evens that out: more slots than just enough, if they are cheap. In
 * ring-flow every slot makes gradients staler: there it stays at just enough. */
static rt_status draft_settle_slots(struct rt_planner *planner, struct rt_draft *draft, size_t k,
                                    size_t enough, struct rt_error *err) {
    const size_t most = draft->slots[k], least = enough < most ? enough : most;
    draft->slots[k] = least;
    if (planner->flow || draft->cut.nodes == 1)
        return RT_OK;
    double bytes;
    rt_status status = draft_slots_bytes(planner, &draft->cut, k, least, &bytes, err);
    if (status != RT_OK)
        return status;
    const double more = bytes * SLOTS_SHARE > SLOTS_BYTES ? bytes * SLOTS_SHARE : SLOTS_BYTES;
    const size_t several = SLOTS_TIMES * enough;
    return draft_slots_within(planner, &draft->cut, k, least, several < most ? several : most, bytes + more,
                              &draft->slots[k], err);
}

rt_status rt_draft_trim(struct rt_planner *planner, struct rt_draft *draft, struct rt_error *err) {
    if (planner->question->slots || draft->cut.nodes == 0)
        return RT_OK;
    struct rt_draft trial;
    rt_status status = rt_draft_create(planner->devices, &trial, err);
    if (status != RT_OK)
        return status;
    size_t enough;
    status = draft_count_enough(planner, draft, &trial, &enough, err);
    rt_draft_destroy(&trial);
    for (size_t k = 0; status == RT_OK && k < draft->cut.nodes; k++)
        status = draft_settle_slots(planner, draft, k, enough, err);
    return status == RT_OK ? rt_draft_simulate(planner, draft, err) : status;
}

/* ---- which devices are left out ---- */

/* The node with the least work among those not tried yet; nodes: none. The master is never tried. */
static size_t draft_least_busy(const struct rt_draft *draft, const uint8_t *tried) {
    size_t found = draft->cut.nodes;
    for (size_t k = 1; k < draft->cut.nodes; k++)
        if (!tried[draft->cut.device[k]] &&
            (found == draft->cut.nodes || draft->busy[k] < draft->busy[found]))
            found = k;
    return found;
}

/* Leaves out the one used device without which the ring is fastest, if that is worth it. */
static rt_status draft_drop_one(struct rt_planner *planner, uint8_t *use, uint8_t *tried,
                                struct rt_draft *draft, struct rt_draft *trial, bool *dropped,
                                struct rt_error *err) {
    struct rt_draft best = {0};
    rt_status status = rt_draft_create(planner->devices, &best, err);
    for (size_t d = 0; d < planner->devices; d++) {
        use[d] = RT_CUT_OUT;
        tried[d] = 0;
    }
    for (size_t k = 0; k < draft->cut.nodes; k++)
        use[draft->cut.device[k]] = RT_CUT_MUST;
    *dropped = false;
    for (size_t i = 0; status == RT_OK && i < DROPS_TRIED; i++) {
        const size_t k = draft_least_busy(draft, tried);
        if (k == draft->cut.nodes)
            break;
        const size_t device = draft->cut.device[k];
        tried[device] = 1;
        use[device] = RT_CUT_OUT;
        status = rt_draft_make(planner, use, trial, err);
        use[device] = RT_CUT_MUST;
        if (status == RT_OK && trial->cut.nodes && trial->rate > draft->rate * WORTH_IT &&
            trial->rate > best.rate) {
            draft_swap(trial, &best);
            *dropped = true;
        }
    }
    if (status == RT_OK && *dropped)
        draft_swap(draft, &best);
    rt_draft_destroy(&best);
    return status;
}

/* Uses all devices that have room for a part. */
static void draft_use_all(const struct rt_planner *planner, enum rt_cut_use how, uint8_t *use) {
    use[0] = RT_CUT_MUST;
    for (size_t d = 1; d < planner->devices; d++)
        use[d] = (uint8_t)(planner->lacking && planner->lacking[d] > 0 ? RT_CUT_OUT : how);
}

static rt_status draft_choose(struct rt_planner *planner, uint8_t *use, struct rt_draft *draft,
                              struct rt_draft *trial, double *all_rate, struct rt_error *err) {
    draft_use_all(planner, RT_CUT_MUST, use);
    rt_status status = rt_draft_make(planner, use, draft, err);
    *all_rate = status == RT_OK && draft->cut.nodes ? draft->rate : 0;
    if (status != RT_OK || planner->question->keep_all || planner->question->even || planner->devices == 1)
        return status;
    draft_use_all(planner, RT_CUT_MAY, use);
    status = rt_draft_make(planner, use, trial, err);
    if (status == RT_OK && trial->cut.nodes && trial->rate > *all_rate * WORTH_IT)
        draft_swap(draft, trial);
    /* The cut considers the busiest part only. A device may cost more than it gains by the time of its links:
     * the simulation shows that. */
    bool dropped = draft->cut.nodes > 1;
    while (status == RT_OK && dropped)
        status = draft_drop_one(planner, use, use + planner->devices, draft, trial, &dropped, err);
    return status;
}

rt_status rt_draft_choose(struct rt_planner *planner, struct rt_draft *draft, double *all_rate,
                          struct rt_error *err) {
    uint8_t *use;
    struct rt_draft trial;
    rt_status status = rt_draft_create(planner->devices, &trial, err);
    if (status != RT_OK)
        return status;
    status = rt_alloc(2 * planner->devices, sizeof *use, "the planner", &use, err);
    if (status == RT_OK) {
        status = draft_choose(planner, use, draft, &trial, all_rate, err);
        free(use);
    }
    rt_draft_destroy(&trial);
    return status;
}
