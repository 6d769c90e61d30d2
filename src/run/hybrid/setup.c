/* Forming rings side by side: their links, in rings and across them, and what each node is told. */
#include "run/hybrid/inside.h"

#include "base/memory.h"
#include "run/job_write.h"
#include <stdlib.h>

/* Bytes that a link is measured with. */
enum { PROBE_BYTES = 256 << 10 };

/* Seconds to add two floats, for the choice of a collective: a core of a small board. */
static const double adding = 5e-10;

/* ---- links ----------------------------------------------------------------------------------------------
 */

/* The links of all rings and groups, and what came of each. */
struct web {
    size_t count;
    struct rt_wanted_link *wanted;
    struct rt_link **links;
    struct rt_edge *edges;
};

static void add(struct web *web, size_t from, size_t to, uint16_t label) {
    web->wanted[web->count++] = (struct rt_wanted_link){(uint16_t)from, (uint16_t)to, label};
}

/* The last link of a ring is made by its head too: the master does not listen. */
static void add_ring(struct web *web, size_t leader, size_t places) {
    for (size_t i = 0; places > 1 && i + 1 < places; i++)
        add(web, leader + i, leader + i + 1, RT_LABEL_NEXT);
    if (places > 1)
        add(web, leader, leader + places - 1, RT_LABEL_PREVIOUS);
}

static rt_status weave(const struct rt_rings *rings, struct web *web, struct rt_error *err) {
    const uint16_t count = rings->count, places = rings->places;
    const size_t most = (size_t)count * places * (1u + count);
    struct rt_roles roles;
    uint16_t *worker = NULL;
    rt_status status = rt_alloc(most, sizeof *web->wanted, "the links", &web->wanted, err);
    if (status == RT_OK)
        status = rt_alloc(most, sizeof *web->links, "the links", &web->links, err);
    if (status == RT_OK)
        status = rt_alloc(most, sizeof *web->edges, "the links", &web->edges, err);
    if (status == RT_OK)
        status = rt_alloc(count, sizeof *worker, "the links", &worker, err);
    if (status == RT_OK)
        status = rt_exchange_roles(rings->strategy, &rings->exchange_options, count, worker, &roles, err);
    for (size_t r = 0; r < count && status == RT_OK; r++)
        add_ring(web, r * places, places);
    for (uint16_t a = 0; a < count && status == RT_OK; a++)
        for (uint16_t b = (uint16_t)(a + 1); b < count; b++)
            for (size_t p = 0; p < places; p++)
                if (rt_group_needs(rings->strategy, &rings->exchange_options, &roles, a, b))
                    add(web, (size_t)a * places + p, (size_t)b * places + p, RT_LABEL_MESH);
    free(worker);
    return status;
}

/* The slowest link across rings decides, and all nodes must be told the same. */
static void count_cost(struct rt_link_cost *cost, const struct rt_edge *edge) {
    if (!(edge->bandwidth > 0))
        return;
    if (edge->latency > cost->latency)
        cost->latency = edge->latency;
    if (!(cost->bandwidth > 0) || edge->bandwidth < cost->bandwidth)
        cost->bandwidth = edge->bandwidth;
}

/* Sorts out what has been made. */
static void take_links(struct rt_rings *rings, const struct web *web, struct rt_ring_setup *setup,
                       struct rt_edge *edges) {
    const size_t places = rings->places;
    for (size_t k = 0; k < web->count; k++) {
        const struct rt_wanted_link *wanted = &web->wanted[k];
        /* A ring's last link leads on from its last node, though its head has made it. */
        if (wanted->label == RT_LABEL_MESH)
            count_cost(&rings->cost, &web->edges[k]);
        else
            edges[wanted->label == RT_LABEL_NEXT ? wanted->from : wanted->to] = web->edges[k];
        if (wanted->from != 0)
            continue;
        if (wanted->label == RT_LABEL_NEXT)
            setup->next = web->links[k];
        else if (wanted->label == RT_LABEL_PREVIOUS)
            setup->previous = web->links[k];
        else
            rings->links[wanted->to / places] = web->links[k];
    }
    if (!(rings->cost.bandwidth > 0))
        rings->cost.bandwidth = 1e9;
}

static rt_status join(void *user, struct rt_ring_setup *setup, struct rt_edge *edges, struct rt_error *err) {
    struct rt_rings *rings = user;
    struct web web = {0};
    size_t *order = NULL;
    const size_t others = setup->who.devices - 1;
    rt_status status = weave(rings, &web, err);
    if (status == RT_OK)
        status = rt_alloc(others, sizeof *order, "the nodes", &order, err);
    for (size_t i = 0; i < others && status == RT_OK; i++)
        order[i] = i;
    if (status == RT_OK)
        status = rt_cluster_join(setup->who.cluster, order, others, web.wanted, web.count, PROBE_BYTES,
                                 web.links, web.edges, err);
    if (status == RT_OK)
        take_links(rings, &web, setup, edges);
    free(order);
    free(web.wanted);
    free(web.links);
    free(web.edges);
    return status;
}

/* ---- parts ----------------------------------------------------------------------------------------------
 */

rt_status rt_rings_assign(struct rt_rings *rings, struct rt_ring_setup *setup, struct rt_error *err) {
    const struct rt_training_config *config = &rings->config;
    const struct rt_plan *plan = setup->plan;
    const struct rt_datasets datasets = {.train = *config->set, .target = config->target};
    struct rt_assign part = {.nodes = setup->who.devices};
    struct rt_job *job;
    char fingerprint[65];
    if (plan->nodes != rings->places)
        return rt_fail(err, RT_FAILED, "the plan is not for rings of %u nodes", rings->places);
    rt_datasets_fingerprint(&datasets, config->scaling, fingerprint);
    const struct rt_job_facts facts = {.fingerprint = fingerprint,
                                       .cost = rings->cost,
                                       .strategy = rings->strategy,
                                       .options = &rings->exchange_options,
                                       .rings = rings->count};
    RT_TRY(rt_job_write_training(config, setup->job, &facts, &job, err));
    part.job = job->tree;
    rt_status status = rt_alloc(part.nodes, sizeof *part.node, "the plan", &part.node, err);
    for (size_t i = 0; status == RT_OK && i < part.nodes; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        part.node[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
    }
    if (status == RT_OK)
        status = rt_membership_assign_all(&setup->who, &part, err);
    free(part.node);
    rt_job_destroy(job);
    return status == RT_OK ? rt_cluster_go(setup->who.cluster, err) : status;
}

void rt_rings_want(struct rt_rings *rings, struct rt_ring_setup_settings *wanted) {
    rings->cost = (struct rt_link_cost){.adding = adding};
    wanted->rings = rings->count;
    wanted->parts = rings->shares ? rings->count : 1;
    wanted->with_servers = rings->with_servers;
    wanted->join = join;
    wanted->user = rings;
}
