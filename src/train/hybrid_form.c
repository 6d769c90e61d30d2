/* Forming rings side by side: nodes are found, joined to rings and across them, measured, and told what to
 * do.
 */
#include "train/hybrid_inside.h"

#include "base/memory.h"
#include "train/hybrid_job.h"
#include "train/job_tree.h"
#include "train/strategy.h"
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
static void add_ring(struct web *web, size_t head, size_t places) {
    for (size_t i = 0; places > 1 && i + 1 < places; i++)
        add(web, head + i, head + i + 1, RT_LABEL_NEXT);
    if (places > 1)
        add(web, head, head + places - 1, RT_LABEL_PREVIOUS);
}

static rt_status weave(const struct rt_hybrid_learner *learner, struct web *web, struct rt_error *err) {
    const uint16_t rings = learner->rings, places = learner->places;
    const size_t most = (size_t)rings * places * (1u + rings);
    struct rt_roles roles;
    uint16_t *worker = NULL;
    rt_status status = rt_alloc(most, sizeof *web->wanted, "the links", &web->wanted, err);
    if (status == RT_OK)
        status = rt_alloc(most, sizeof *web->links, "the links", &web->links, err);
    if (status == RT_OK)
        status = rt_alloc(most, sizeof *web->edges, "the links", &web->edges, err);
    if (status == RT_OK)
        status = rt_alloc(rings, sizeof *worker, "the links", &worker, err);
    if (status == RT_OK)
        status = rt_way_roles(learner->way, &learner->way_options, rings, worker, &roles, err);
    for (size_t r = 0; r < rings && status == RT_OK; r++)
        add_ring(web, r * places, places);
    for (uint16_t a = 0; a < rings && status == RT_OK; a++)
        for (uint16_t b = (uint16_t)(a + 1); b < rings; b++)
            for (size_t p = 0; p < places; p++)
                if (rt_group_needs(learner->way, &learner->way_options, &roles, a, b))
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
static void take_links(struct rt_hybrid_learner *learner, const struct web *web, struct rt_edge *edges) {
    const size_t places = learner->places;
    for (size_t k = 0; k < web->count; k++) {
        const struct rt_wanted_link *wanted = &web->wanted[k];
        /* A ring's last link leads on from its last node, though its head has made it. */
        if (wanted->label == RT_LABEL_MESH)
            count_cost(&learner->cost, &web->edges[k]);
        else
            edges[wanted->label == RT_LABEL_NEXT ? wanted->from : wanted->to] = web->edges[k];
        if (wanted->from != 0)
            continue;
        if (wanted->label == RT_LABEL_NEXT)
            learner->formation.next = web->links[k];
        else if (wanted->label == RT_LABEL_PREVIOUS)
            learner->formation.previous = web->links[k];
        else
            learner->links[wanted->to / places] = web->links[k];
    }
    if (!(learner->cost.bandwidth > 0))
        learner->cost.bandwidth = 1e9;
}

static rt_status join(void *user, struct rt_formation *formation, struct rt_edge *edges,
                      struct rt_error *err) {
    struct rt_hybrid_learner *learner = user;
    struct web web = {0};
    size_t *order = NULL;
    const size_t others = formation->who.devices - 1;
    rt_status status = weave(learner, &web, err);
    if (status == RT_OK)
        status = rt_alloc(others, sizeof *order, "the nodes", &order, err);
    for (size_t i = 0; i < others && status == RT_OK; i++)
        order[i] = i;
    if (status == RT_OK)
        status = rt_cluster_join(formation->who.cluster, order, others, web.wanted, web.count, PROBE_BYTES,
                                 web.links, web.edges, err);
    if (status == RT_OK)
        take_links(learner, &web, edges);
    free(order);
    free(web.wanted);
    free(web.links);
    free(web.edges);
    return status;
}

/* ---- parts ----------------------------------------------------------------------------------------------
 */

static rt_status assign(struct rt_hybrid_learner *learner, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    const struct rt_plan *plan = learner->formation.plan;
    const struct rt_materials materials = {.train = *lesson->set, .target = lesson->target};
    struct rt_assign part = {.nodes = learner->formation.who.devices};
    char fingerprint[65];
    rt_materials_fingerprint(&materials, lesson->scaling, fingerprint);
    rt_status status =
        rt_hybrid_job_tree(lesson, fingerprint, &learner->cost, learner->formation.job->tree, &part.job, err);
    if (status != RT_OK)
        return status;
    status = rt_alloc(part.nodes, sizeof *part.node, "the plan", &part.node, err);
    for (size_t i = 0; status == RT_OK && i < part.nodes; i++) {
        const struct rt_plan_node *node = &plan->node[i % plan->nodes];
        part.node[i] = (struct rt_assigned_node){
            .first = (uint32_t)node->first, .count = (uint32_t)node->count, .slots = (uint32_t)node->slots};
    }
    if (status == RT_OK)
        status = rt_gathering_assign_all(&learner->formation.who, &part, err);
    free(part.node);
    rt_tree_destroy(part.job);
    return status;
}

rt_status rt_hybrid_form(struct rt_hybrid_learner *learner, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    const struct rt_ring_options ring_options = {.slots = -1};
    struct rt_lesson ring = *lesson;
    struct rt_formation_settings wanted = {.spec = lesson->spec,
                                           .network = lesson->network,
                                           .program = lesson->program,
                                           .slots = ring_options.slots,
                                           .stop = lesson->stop,
                                           .set = lesson->set,
                                           .scaling = lesson->scaling,
                                           .rings = learner->rings,
                                           .join = join,
                                           .user = learner};
    learner->cost = (struct rt_link_cost){.adding = adding};
    ring.options = &ring_options;
    rt_status status = rt_alloc(learner->rings, sizeof *learner->links, "the links", &learner->links, err);
    if (status == RT_OK)
        status = rt_job_tree(&ring, &wanted.job, err);
    if (status == RT_OK)
        status = rt_formation_plan(&wanted, &learner->formation, err);
    if (status == RT_OK && learner->formation.plan->nodes != learner->places)
        status = rt_fail(err, RT_FAILED, "the plan is not for rings of %u nodes", learner->places);
    if (status == RT_OK)
        status = assign(learner, err);
    return status == RT_OK ? rt_cluster_go(learner->formation.who.cluster, err) : status;
}
