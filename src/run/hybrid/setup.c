/* Forms several rings: the links in rings and between them, and the assignment of each node. */
#include "run/hybrid/inside.h"

#include "base/memory.h"
#include "run/job_write.h"
#include <stdlib.h>

/* Seconds to add two floats, for the choice of a collective: a core of a small board. */
static const double adding = 5e-10;

/* ---- links ---- */

static rt_status rings_add_inter_ring(const struct rt_rings *rings, const struct rt_roles *roles,
                                      struct rt_view *view, struct rt_error *err) {
    const size_t ring_size = rings->ring_size;
    for (uint16_t a = 0; a < rings->count; a++)
        for (uint16_t b = (uint16_t)(a + 1); b < rings->count; b++)
            for (size_t p = 0; p < ring_size; p++)
                if (rt_group_needs(rings->strategy, &rings->exchange_options, roles, a, b))
                    RT_TRY(rt_view_add_link(view, a * ring_size + p, b * ring_size + p, RT_LABEL_MESH, err));
    return RT_OK;
}

/* The links within all rings, and between equal positions of them. */
static rt_status rings_add_links(void *user, struct rt_view *view, struct rt_error *err) {
    const struct rt_rings *rings = user;
    struct rt_roles roles;
    uint16_t *worker;
    for (size_t r = 0; r < rings->count; r++)
        RT_TRY(rt_view_add_ring(view, r * rings->ring_size, rings->ring_size, err));
    RT_TRY(rt_alloc(rings->count, sizeof *worker, "the links", &worker, err));
    rt_status status =
        rt_exchange_roles(rings->strategy, &rings->exchange_options, rings->count, worker, &roles, err);
    if (status == RT_OK)
        status = rings_add_inter_ring(rings, &roles, view, err);
    free(worker);
    return status;
}

/* The slowest link between rings decides, and all nodes must be told the same. */
void rt_rings_count_cost(struct rt_rings *rings, const struct rt_edge *edge) {
    struct rt_link_cost *cost = &rings->cost;
    if (!(edge->bandwidth > 0))
        return;
    if (edge->latency > cost->latency)
        cost->latency = edge->latency;
    if (!(cost->bandwidth > 0) || edge->bandwidth < cost->bandwidth)
        cost->bandwidth = edge->bandwidth;
}

static void rings_joined(void *user, struct rt_view *view) {
    struct rt_rings *rings = user;
    for (size_t k = 0; k < view->link_count; k++)
        if (view->wanted[k].label == RT_LABEL_MESH)
            rt_rings_count_cost(rings, &view->edges[k]);
    for (size_t r = 1; r < rings->count; r++) {
        rt_link_close(rings->links[r]); /* of a view that was formed before */
        rings->links[r] = rt_view_take_link(view, r * rings->ring_size, RT_LABEL_MESH);
    }
}

/* ---- parts ---- */

rt_status rt_rings_assign(struct rt_rings *rings, struct rt_ring_setup *setup, struct rt_error *err) {
    const struct rt_training_config *config = &rings->config;
    const struct rt_datasets datasets = {.train = *config->set, .target = config->target};
    struct rt_job *job;
    if (setup->plan->nodes != rings->ring_size)
        return rt_fail(err, RT_FAILED, "the plan is not for rings of %u nodes", rings->ring_size);
    if (!rings->fingerprint[0])
        rt_datasets_fingerprint(&datasets, config->scaling, rings->fingerprint);
    const struct rt_job_facts facts = {.fingerprint = rings->fingerprint,
                                       .cost = rings->cost,
                                       .strategy = rings->strategy,
                                       .options = &rings->exchange_options,
                                       .rings = rings->count};
    RT_TRY(rt_job_write_training(config, setup->job, &facts, &job, err));
    const rt_status status = rt_ring_setup_tell(setup, job, err);
    rt_job_destroy(job);
    return status;
}

void rt_rings_shape(struct rt_rings *rings, struct rt_ring_setup_settings *wanted) {
    wanted->shape = rings_add_links;
    wanted->joined = rings_joined;
    wanted->user = rings;
}

void rt_rings_want(struct rt_rings *rings, struct rt_ring_setup_settings *wanted) {
    rings->cost = (struct rt_link_cost){.adding = adding};
    wanted->rings = rings->count;
    wanted->parts = rings->shares ? rings->count : 1;
    wanted->with_servers = rings->with_servers;
    rt_rings_shape(rings, wanted);
}
