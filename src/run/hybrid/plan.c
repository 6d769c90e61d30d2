/* The plan of several rings: adds the exchange between them to the plan of one. */
#include "run/hybrid/inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include "run/image.h"
#include "run/resilience.h"
#include <stdio.h>
#include <stdlib.h>

/* Floats of a frame and frames of a lane that an executor keeps, about. */
enum { FRAME_FLOATS = 128 << 10, FRAMES = 4 };

/* What one node needs for one exchange of its layers, in floats: kept beside them, sent, received, added. */
struct needs {
    double kept, sent, received, added;
    size_t *frame; /* [rings]: the largest frame that comes from there and waits for its turn */
};

static void rings_add_move(const struct rt_collective_op *op, struct needs *needs) {
    const bool waits = op->kind == RT_OP_ADD || (op->kind == RT_OP_TAKE && op->buffer >= RT_BUFFER_SPARE);
    const size_t frame = op->count < FRAME_FLOATS ? op->count : FRAME_FLOATS;
    const double count = (double)op->count;
    needs->sent += op->kind == RT_OP_SEND ? count : 0;
    needs->received += op->kind == RT_OP_TAKE || op->kind == RT_OP_ADD ? count : 0;
    needs->added += op->kind == RT_OP_ADD || op->kind == RT_OP_MERGE ? count : 0;
    if (waits && frame > needs->frame[op->peer])
        needs->frame[op->peer] = frame;
}

static rt_status rings_add_layer(const struct rt_rings *rings, const struct rt_roles *roles, uint16_t ring,
                                 size_t params, struct needs *needs, struct rt_error *err) {
    const struct rt_span span = {.count = params};
    struct rt_collective collective = {0};
    rt_status status = rings->strategy->collective(&rings->exchange_options, roles, ring, &span, params,
                                                   &rings->cost, &collective, err);
    needs->kept += (double)collective.spares * (double)params;
    for (size_t i = 0; status == RT_OK && i < collective.count; i++)
        rings_add_move(&collective.list[i], needs);
    rt_collective_deinit(&collective);
    return status;
}

/* A server, on the node of ring 0, has its own parameters, and for each ring a gradient and parameters on
 * their way; while one ring makes an update, those of all of them pass. */
static void rings_add_served(const struct rt_rings *rings, uint16_t ring, size_t params,
                             struct needs *needs) {
    const double block = (double)params, others = (double)(rings->count - 1);
    const bool compensates = rings->exchange_options.compensate > 0;
    needs->kept += ring == 0 ? block + 2 * block * (double)rings->count : 0;
    needs->kept += ring == 0 && compensates ? block + block * (double)rings->count : 0;
    needs->kept += rings->exchange_options.push_every > 1 ? block : 0;
    needs->sent += ring == 0 ? others * block : block;
    needs->received += ring == 0 ? others * block : block;
    needs->added += ring == 0 ? block * (double)rings->count : 0;
}

/* For one position of a ring: its layers, and those of the tail. */
static rt_status rings_count_needs(const struct rt_rings *rings, const struct rt_roles *roles, uint16_t ring,
                                   const struct rt_plan_node *node, size_t tail, struct needs *needs,
                                   struct rt_error *err) {
    const struct rt_model *model = rings->config.network->model;
    *needs = (struct needs){0};
    rt_status status = rt_alloc(rings->count, sizeof *needs->frame, "the plan", &needs->frame, err);
    for (size_t i = 0; status == RT_OK && i < model->count; i++) {
        const bool ours = (i >= node->first && i < node->first + node->count) || i + tail >= model->count;
        if (ours && rings->with_servers)
            rings_add_served(rings, ring, model->layers[i]->param_count, needs);
        else if (ours && model->layers[i]->param_count > 0)
            status = rings_add_layer(rings, roles, ring, model->layers[i]->param_count, needs, err);
    }
    for (uint16_t i = 0; status == RT_OK && i < rings->count; i++)
        needs->kept += (double)FRAMES * (double)needs->frame[i];
    free(needs->frame);
    return status;
}

static double rings_seconds_of(const struct rt_link_cost *cost, const struct needs *needs) {
    const double busier = needs->sent > needs->received ? needs->sent : needs->received;
    return busier * sizeof(float) / cost->bandwidth + needs->added * cost->adding;
}

/* The one that needs most decides. */
static rt_status rings_plan_position(const struct rt_rings *rings, const struct rt_roles *roles,
                                     size_t position, struct rt_plan *plan, double *seconds,
                                     struct rt_error *err) {
    double kept = 0;
    for (uint16_t ring = 0; ring < rings->count; ring++) {
        struct needs needs;
        rt_status status = rings_count_needs(rings, roles, ring, &plan->node[position],
                                             position ? 0 : plan->tail, &needs, err);
        if (status != RT_OK)
            return status;
        const double own = rings_seconds_of(&rings->cost, &needs);
        kept = needs.kept > kept ? needs.kept : kept;
        *seconds = own > *seconds ? own : *seconds;
    }
    if (kept < 0x1p60)
        plan->node[position].memory += (uint64_t)kept * sizeof(float);
    return RT_OK;
}

rt_status rt_rings_add_exchange(struct rt_rings *rings, double batch, struct rt_plan *plan,
                                struct rt_error *err) {
    const double examples =
        batch * (rings->shares ? 1 : (double)rings->count); /* of an update of each ring */
    struct rt_roles roles;
    uint16_t *worker;
    RT_TRY(rt_alloc(rings->count, sizeof *worker, "the plan", &worker, err));
    rt_status status =
        rt_exchange_roles(rings->strategy, &rings->exchange_options, rings->count, worker, &roles, err);
    rings->exchange_seconds = 0;
    for (size_t i = 0; status == RT_OK && i < plan->nodes; i++)
        status = rings_plan_position(rings, &roles, i, plan, &rings->exchange_seconds, err);
    if (status == RT_OK && plan->samples_per_s > 0)
        plan->samples_per_s = examples / (examples / plan->samples_per_s + rings->exchange_seconds);
    free(worker);
    return status;
}

/* Where no link between rings was measured they are taken for the slowest of the others. */
static void rings_assume_cost(struct rt_rings *rings, const struct rt_ring_setup *setup) {
    if (rings->cost.bandwidth > 0)
        return;
    for (size_t i = 0; i < setup->who.devices; i++)
        rt_rings_count_cost(rings, &(struct rt_edge){setup->device[i].latency, setup->device[i].bandwidth});
    if (!(rings->cost.bandwidth > 0))
        rings->cost.bandwidth = 1e9;
}

rt_status rt_rings_planned(struct rt_rings *rings, struct rt_ring_setup *setup, struct rt_error *err) {
    rings_assume_cost(rings, setup);
    RT_TRY(rt_rings_add_exchange(rings, (double)setup->job->batch, setup->plan, err));
    rings->rate = setup->plan->samples_per_s;
    return RT_OK;
}

static size_t rings_image_bytes(const struct rt_rings *rings, const struct rt_ring_setup *setup) {
    return rt_image_bytes(rings->config.network->model, setup->job->optim);
}

bool rt_rings_image_is_on_disk(const struct rt_rings *rings, const struct rt_ring_setup *setup) {
    return rt_image_is_on_disk(&rings->config.spec->cluster, rings_image_bytes(rings, setup),
                               (double)setup->plan->node[0].memory);
}

char *rt_rings_print(const struct rt_rings *rings, const struct rt_ring_setup *setup) {
    char *plan = rt_ring_setup_print(setup), *text = NULL;
    size_t bytes;
    FILE *out = plan ? open_memstream(&text, &bytes) : NULL;
    if (out) {
        fprintf(out,
                "%s of %s %s; equal places exchange gradients by %s%s, about %.3g ms "
                "an update. The first ring, and how all are cut:\n%s",
                RT_COUNTED(rings->count, "ring"), RT_COUNTED(rings->ring_size, "node"),
                rings->shares ? "share each batch" : "have batches of their own", rings->strategy->name,
                rings->with_servers ? ", with a server on the first ring's node" : "",
                1e3 * rings->exchange_seconds, plan);
        rt_resilience_print_image(rings->config.spec, rings_image_bytes(rings, setup),
                                  rt_rings_image_is_on_disk(rings, setup) ? "in a file" : "of memory", out);
        if (fclose(out) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(plan);
    return text;
}
