/*
 * A node of several rings. In its own ring it is a worker (ring/worker.h), or the ring's master, called its
 * leader (run/hybrid/leader.h). This role adds the group of the nodes at the same position of the other
 * rings, with which it sums gradients.
 */
#include "run/roles.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "run/hybrid/leader.h"
#include "run/role_part.h"
#include <stdlib.h>

struct node {
    struct rt_position *position;
    struct rt_role_part part; /* in its ring */
    struct rt_leader_context leader;
    struct rt_ring_device worker;
    struct rt_inter_ring inter_ring;
    struct rt_link **links; /* [rings] with the nodes at our position */
};

/* ---- before the run ------------------------------------------------------------------------------------ */

static void node_end(struct rt_session *session) {
    struct node *node = session->role;
    if (!node)
        return;
    rt_role_part_end(&node->part, session);
    rt_position_destroy(node->position);
    free(node->links);
    free(node);
    session->role = NULL;
}

static rt_status node_take_part(struct rt_session *session, struct node *node, const struct rt_assign *asked,
                                uint64_t *memory, struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    if (asked->index == 0)
        return rt_fail(err, RT_BAD_INPUT, "the assignment is the master's");
    rt_status status = rt_position_create(asked->job, asked->index, asked->nodes, &node->position, err);
    if (status == RT_OK)
        status = rt_alloc(node->position->rings, sizeof *node->links, "the links", &node->links, err);
    if (status != RT_OK)
        return status;
    const struct rt_position *position = node->position;
    const struct rt_assign part = {.index = position->ring_position,
                                   .nodes = position->ring_size,
                                   .node = asked->node + (size_t)position->ring * position->ring_size,
                                   .job = position->ring_job->tree};
    node->leader = (struct rt_leader_context){.device = device, .position = position, .links = node->links};
    node->worker = device->ring;
    node->part.role = position->ring_position ? rt_ring_role(&node->worker) : rt_leader_role(&node->leader);
    return rt_role_part_assign(&node->part, session, &part, memory, err);
}

static rt_status node_assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                             struct rt_error *err) {
    struct node *node;
    node_end(session); /* a second assignment takes the place of the first */
    rt_status status = rt_alloc(1, sizeof *node, "a node of several rings", &node, err);
    if (status != RT_OK)
        return status;
    session->role = node;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = node_take_part(session, node, asked, memory, err);
    rt_fp_leave(&theirs);
    if (status != RT_OK)
        node_end(session);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

/* Takes over the links with the nodes at our position; there should be no others. */
static rt_status node_take_links(struct rt_session *session, struct node *node, struct rt_error *err) {
    const struct rt_position *position = node->position;
    const bool has_peers = position->rings > 1;
    if (has_peers != (session->links != NULL) || session->count != position->rings * position->ring_size)
        return rt_fail(err, RT_FAILED, "the links of the run are not those of its assignment");
    for (uint16_t i = 0; has_peers && i < session->count; i++) {
        if (i % position->ring_size == position->ring_position)
            node->links[i / position->ring_size] = session->links[i];
        else
            rt_link_close(session->links[i]);
        session->links[i] = NULL;
    }
    return RT_OK;
}

static rt_status node_work(struct rt_session *session, struct node *node, struct rt_error *err) {
    const struct rt_position *position = node->position;
    const struct rt_group_settings settings = {.strategy = position->inter_ring.strategy,
                                               .options = &position->inter_ring.options,
                                               .cost = position->inter_ring.cost,
                                               .endpoint = session->endpoint,
                                               .run = session->run,
                                               .names = session->names,
                                               .ring = position->ring,
                                               .rings = position->rings,
                                               .ring_position = position->ring_position,
                                               .ring_size = position->ring_size,
                                               .links = node->links,
                                               .timeout = position->job->timeout,
                                               .examples = (uint64_t)position->job->data.examples};
    struct rt_group *group;
    rt_status status = node_take_links(session, node, err);
    if (status == RT_OK)
        status = rt_group_create(&settings, &group, err);
    if (status != RT_OK)
        return status;
    node->inter_ring = rt_group_inter_ring(group);
    node->worker.inter_ring = &node->inter_ring;
    node->leader.group = group;
    status = rt_role_part_run(&node->part, session, err);
    rt_group_destroy(group);
    return status;
}

static rt_status node_run(struct rt_session *session, struct rt_error *err) {
    struct node *node = session->role;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    rt_status status = node_work(session, node, err);
    for (uint16_t i = 0; i < node->position->rings; i++)
        rt_link_close(node->links[i]);
    rt_link_close(session->next);
    rt_link_close(session->previous);
    session->next = session->previous = NULL;
    rt_fp_leave(&theirs);
    return status;
}

/* Before the plan is made, nodes measure layers as for one ring. */
const struct rt_role rt_hybrid_node_role = {.assign = node_assign, .run = node_run, .end = node_end};
