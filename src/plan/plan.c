/* Making a plan: checks the question, chooses the size of a micro-batch, and fills in the answer. */
#include "plan/plan.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "plan/planner.h"
#include <math.h>
#include <stdlib.h>

/* Among sizes of micro-batch whose predicted speed is within this of the best, the largest is taken: it has
 * the fewest messages. Messages below MESSAGE_BYTES cost more than the simulation knows. */
#define AS_GOOD       0.99
#define NEARLY_GOOD   0.97
#define MESSAGE_BYTES (16 << 10)

/* ---- the question ---- */

static rt_status plan_check_question(const struct rt_plan_question *q, struct rt_error *err) {
    const size_t layers = q->model->count, least = rt_plan_least(q->model);
    if (q->count == 0 || q->count > RT_MAX_NODES || layers > RT_MAX_LAYERS)
        return rt_fail(err, RT_BAD_INPUT, "a plan is for 1 to %d devices and at most %d layers", RT_MAX_NODES,
                       RT_MAX_LAYERS);
    if (q->rows == 0 || (q->more_rows && q->more_rows <= q->rows))
        return rt_fail(err, RT_BAD_INPUT, "a plan needs the times of layers for at least one row");
    if (!(q->master_inputs >= 0 && q->master_inputs < INFINITY && q->master_loss >= 0 &&
          q->master_loss < INFINITY))
        return rt_fail(err, RT_BAD_INPUT, "a time of the master's own work is negative or not finite");
    if (q->master_tail >= layers)
        return rt_fail(
            err, RT_BAD_INPUT,
            "cluster.master_tail is %zu, but the model has only %s: some must come before the tail",
            q->master_tail, RT_COUNTED(layers, "layer"));
    if (q->count == 1)
        return RT_OK;
    if (least > layers)
        return rt_fail(err, RT_BAD_INPUT,
                       "no layer of this model has parameters, so there is nothing to train on %s",
                       RT_COUNTED(q->count, "node"));
    /* The master keeps the layers up to the first with parameters; every other node has at least one. */
    const size_t chain = layers - q->master_tail, most = chain < least ? 1 : chain - least + 1;
    if (q->count <= most)
        return RT_OK;
    char tail[64] = "";
    if (q->master_tail)
        snprintf(tail, sizeof tail, " and the last %zu", q->master_tail);
    return rt_fail(err, RT_BAD_INPUT,
                   "%zu nodes are more than this model has parts for: of its %s the master keeps the first "
                   "%zu%s, every other node needs one, so at most %s can take part",
                   q->count, RT_COUNTED(layers, "layer"), least, tail, RT_COUNTED(most, "node"));
}

static size_t plan_slice_rows(const struct rt_job *job) {
    return ((size_t)job->batch + (size_t)job->shards - 1) / (size_t)job->shards;
}

void rt_plan_rows(const struct rt_job *job, size_t devices, size_t *rows, size_t *more_rows) {
    *more_rows = 0;
    *rows = rt_job_micro_rows(job);
    if (job->micro_batch > 0)
        return;
    /* Near four micro-batches per device, which is the likely choice. */
    const size_t slice = plan_slice_rows(job), usual = (size_t)job->batch / (4 * devices);
    *rows = usual / 4 ? usual / 4 : 1;
    *rows = *rows < slice ? *rows : slice;
    const size_t more = 2 * usual > 4 ? 2 * usual : 4;
    *more_rows = more < slice ? more : slice;
    if (*more_rows <= *rows)
        *more_rows = 0;
}

/* ---- the answer ---- */

static double plan_smallest_message(const struct rt_planner *planner, const struct rt_draft *draft) {
    double smallest = -1;
    for (size_t k = 0; k + 1 < draft->cut.nodes; k++) {
        const double bytes = planner->bytes[draft->cut.end[k]] / (double)planner->micros;
        smallest = smallest < 0 || bytes < smallest ? bytes : smallest;
    }
    return smallest < 0 ? MESSAGE_BYTES : smallest;
}

static rt_status plan_list_left_out(const struct rt_planner *planner, const struct rt_draft *draft,
                                    struct rt_plan *plan, struct rt_error *err) {
    const size_t devices = planner->devices;
    rt_status status = rt_alloc(devices, sizeof *plan->left_out, "the plan", &plan->left_out, err);
    if (status == RT_OK)
        status = rt_alloc(devices, sizeof *plan->left_out_needs, "the plan", &plan->left_out_needs, err);
    for (size_t d = 0, k = 0; status == RT_OK && d < devices; d++) {
        if (k < draft->cut.nodes && draft->cut.device[k] == d) {
            k++;
            continue;
        }
        const double needs = planner->lacking[d];
        plan->left_out_needs[plan->left_out_count] = needs < 0x1p63 ? (uint64_t)needs : UINT64_MAX;
        plan->left_out[plan->left_out_count++] = d;
    }
    return status;
}

static rt_status plan_fill_node(struct rt_planner *planner, const struct rt_draft *draft, size_t k,
                                struct rt_plan_node *node, struct rt_error *err) {
    const struct rt_cut *cut = &draft->cut;
    const bool alone = cut->nodes == 1;
    *node = (struct rt_plan_node){.device = cut->device[k],
                                  .first = k ? cut->end[k - 1] : 0,
                                  .slots = draft->slots[k],
                                  .busy = draft->busy[k]};
    node->count = (alone ? planner->layers : cut->end[k]) - node->first;
    if (draft->update > 0)
        node->idle_fraction = 1 - node->busy / draft->update;
    if (node->idle_fraction < 0)
        node->idle_fraction = 0;
    if (!alone) {
        const size_t next = cut->device[(k + 1) % cut->nodes], n = planner->devices;
        const double there = planner->link[node->device * n + next];
        const double back = planner->link[next * n + node->device];
        const double bytes = planner->bytes[cut->end[k]];
        const bool both = !planner->job.evaluate_only;
        node->link_bytes = (uint64_t)(both ? 2 * bytes : bytes);
        node->link_seconds = bytes * (both && back > there ? back : there);
    }
    double bytes;
    rt_status status = rt_planner_node_bytes(planner, node->device, node->first, cut->end[k], alone,
                                             node->slots, &bytes, err);
    if (status == RT_OK)
        node->memory = bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
    return status;
}

static rt_status plan_fill(struct rt_planner *planner, const struct rt_draft *draft, double all_rate,
                           struct rt_plan *plan, struct rt_error *err) {
    const size_t nodes = draft->cut.nodes;
    rt_status status = rt_alloc(nodes, sizeof *plan->node, "the plan", &plan->node, err);
    if (status == RT_OK)
        status = plan_list_left_out(planner, draft, plan, err);
    plan->nodes = nodes;
    plan->layers = planner->layers;
    plan->tail = nodes > 1 ? planner->layers - planner->chain : 0;
    plan->micro_batch = (size_t)planner->job.micro_batch;
    plan->micros = planner->micros;
    plan->samples_per_s = draft->rate;
    plan->too_large = planner->too_large;
    plan->alone = -1;
    for (size_t k = 0; status == RT_OK && k < nodes; k++) {
        status = plan_fill_node(planner, draft, k, &plan->node[k], err);
        plan->idle_fraction += plan->node[k].idle_fraction / (double)nodes;
    }
    if (plan->left_out_count) {
        plan->without_them = draft->rate;
        plan->with_them = all_rate;
    }
    return status;
}

/* ---- micro-batches ---- */

struct trial {
    size_t micro_batch;
    double rate, all_rate; /* samples/s of the best plan, and of the best with all devices */
    double message;        /* the smallest between two nodes, in bytes */
};

static rt_status plan_try_size(const struct rt_plan_question *q, const double *lacking, struct trial *trial,
                               struct rt_error *err) {
    struct rt_planner planner;
    struct rt_draft draft = {0};
    trial->rate = trial->all_rate = 0;
    rt_status status = rt_planner_init(q, trial->micro_batch, &planner, err);
    if (status != RT_OK)
        return status;
    planner.lacking = lacking;
    status = rt_draft_create(q->count, &draft, err);
    if (status == RT_OK)
        status = rt_draft_choose(&planner, &draft, &trial->all_rate, err);
    if (status == RT_OK && draft.cut.nodes) {
        trial->rate = draft.rate;
        trial->message = plan_smallest_message(&planner, &draft);
    }
    rt_draft_destroy(&draft);
    rt_planner_deinit(&planner);
    return status;
}

/* The whole slice, its halves, and powers of two, the largest first. */
static size_t plan_list_sizes(size_t slice, struct trial trials[128]) {
    size_t count = 0, half = slice, power = 1;
    while (power * 2 <= slice)
        power *= 2;
    while (half > 0 || power > 0) {
        const size_t size = half > power ? half : power;
        trials[count++].micro_batch = size;
        if (half == size)
            half = half > 1 ? (half + 1) / 2 : 0;
        if (power == size)
            power /= 2;
    }
    return count;
}

static rt_status plan_choose_size(const struct rt_plan_question *q, const double *lacking,
                                  size_t *micro_batch, double *all_rate, struct rt_error *err) {
    struct trial trials[128];
    const size_t slice = plan_slice_rows(q->job);
    *micro_batch = slice;
    if (rt_model_measures_batch(q->model))
        return RT_OK;
    const size_t count = plan_list_sizes(slice, trials);
    double best = 0;
    for (size_t i = 0; i < count; i++) {
        rt_status status = plan_try_size(q, lacking, &trials[i], err);
        if (status != RT_OK)
            return status;
        best = trials[i].rate > best ? trials[i].rate : best;
        *all_rate = trials[i].all_rate > *all_rate ? trials[i].all_rate : *all_rate;
    }
    /* Nothing fits: the message is about the smallest. */
    *micro_batch = 1;
    size_t chosen = count;
    for (size_t i = 0; i < count && best > 0 && chosen == count; i++)
        if (trials[i].rate >= AS_GOOD * best)
            chosen = i;
    if (chosen == count)
        return RT_OK;
    /* Larger, if its messages would be small otherwise. */
    while (chosen > 0 && trials[chosen].message < MESSAGE_BYTES &&
           trials[chosen - 1].rate >= NEARLY_GOOD * best)
        chosen--;
    *micro_batch = trials[chosen].micro_batch;
    return RT_OK;
}

/* Devices without room for any part at any size of micro-batch: the smallest takes the least memory. */
static rt_status plan_find_lacking(const struct rt_plan_question *q, double *lacking, struct rt_error *err) {
    const size_t smallest = q->job->micro_batch > 0             ? rt_job_micro_rows(q->job)
                            : rt_model_measures_batch(q->model) ? plan_slice_rows(q->job)
                                                                : 1;
    struct rt_planner planner;
    rt_status status = rt_planner_init(q, smallest, &planner, err);
    if (status == RT_OK) {
        status = rt_planner_lacking(&planner, lacking, err);
        rt_planner_deinit(&planner);
    }
    return status;
}

static rt_status plan_create(const struct rt_plan_question *question, const double *lacking,
                             struct rt_plan **plan, struct rt_error *err) {
    rt_status status = RT_OK;
    size_t micro_batch = rt_job_micro_rows(question->job);
    double all_rate = 0, elsewhere = 0; /* with all devices; with another size of micro-batch */
    if (question->job->micro_batch <= 0)
        status = plan_choose_size(question, lacking, &micro_batch, &elsewhere, err);
    if (status != RT_OK)
        return status;
    struct rt_planner planner;
    status = rt_planner_init(question, micro_batch, &planner, err);
    if (status != RT_OK)
        return status;
    planner.lacking = lacking;
    struct rt_draft draft = {0};
    struct rt_plan *made = NULL;
    status = rt_draft_create(question->count, &draft, err);
    if (status == RT_OK)
        status = rt_draft_choose(&planner, &draft, &all_rate, err);
    if (status == RT_OK && draft.cut.nodes == 0)
        status = rt_planner_explain(&planner, err);
    if (status == RT_OK)
        status = rt_draft_trim(&planner, &draft, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *made, "the plan", &made, err);
    if (status == RT_OK)
        status = plan_fill(&planner, &draft, elsewhere > all_rate ? elsewhere : all_rate, made, err);
    rt_draft_destroy(&draft);
    rt_planner_deinit(&planner);
    if (status == RT_OK)
        *plan = made;
    else
        rt_plan_destroy(made);
    return status;
}

rt_status rt_plan_create(const struct rt_plan_question *question, struct rt_plan **plan,
                         struct rt_error *err) {
    double *lacking = NULL;
    rt_status status = plan_check_question(question, err);
    if (status == RT_OK)
        status = rt_alloc(question->count, sizeof *lacking, "the planner", &lacking, err);
    if (status != RT_OK)
        return status;
    if (!question->keep_all && !question->even)
        status = plan_find_lacking(question, lacking, err);
    if (status == RT_OK)
        status = plan_create(question, lacking, plan, err);
    free(lacking);
    return status;
}

rt_status rt_plan_alone(const struct rt_plan_question *question, double *rate, struct rt_error *err) {
    struct rt_plan_question own = *question;
    struct rt_plan *plan;
    struct rt_error why;
    own.count = 1;
    own.master_tail = 0;
    *rate = 0;
    rt_status status = rt_plan_create(&own, &plan, &why);
    if (status == RT_OK) {
        *rate = plan->samples_per_s;
        rt_plan_destroy(plan);
    }
    return status == RT_OK || status == RT_BAD_INPUT ? RT_OK : rt_fail(err, status, "%s", why.text);
}

static rt_status plan_simulate(const struct rt_planner *planner, const struct rt_plan *plan,
                               const size_t *device, double *rate, struct rt_error *err) {
    struct rt_draft draft;
    RT_TRY(rt_draft_create(plan->nodes, &draft, err));
    draft.cut.nodes = plan->nodes;
    for (size_t k = 0; k < plan->nodes; k++) {
        const struct rt_plan_node *node = &plan->node[k];
        draft.cut.device[k] = device[k];
        draft.cut.end[k] = plan->nodes == 1 ? planner->chain : node->first + node->count;
        draft.slots[k] = node->slots;
    }
    const rt_status status = rt_draft_simulate(planner, &draft, err);
    *rate = draft.rate;
    rt_draft_destroy(&draft);
    return status;
}

rt_status rt_plan_rate(const struct rt_plan_question *question, const struct rt_plan *plan,
                       const size_t *device, double *rate, struct rt_error *err) {
    struct rt_planner planner;
    RT_TRY(plan_check_question(question, err));
    RT_TRY(rt_planner_init(question, plan->micro_batch, &planner, err));
    const rt_status status = plan_simulate(&planner, plan, device, rate, err);
    rt_planner_deinit(&planner);
    return status;
}

void rt_plan_destroy(struct rt_plan *plan) {
    if (!plan)
        return;
    free(plan->node);
    free(plan->left_out);
    free(plan->left_out_needs);
    free(plan);
}
