/*
 * A node of rings that stand side by side: a stage of its ring, as in one ring alone, that adds up gradients
 * with its likes in the others; or the head of a ring.
 */
#include "train/roles.h"

#include "base/fpenv.h"
#include "base/memory.h"
#include "train/hybrid_group.h"
#include "train/hybrid_head_site.h"
#include <stdlib.h>

struct node {
    struct rt_hybrid_job *job;
    struct rt_head_site *site; /* of a head */

    /* Of another: the role in its ring, what is its own in it, and the device as it sees it. */
    struct rt_role role;
    void *own;
    struct rt_ring_device device;
    struct rt_across across;
};

/* ---- before the run -------------------------------------------------------------------------------------
 */

/* The session in the hands of the ring's role, until leave. */
static void *enter(struct rt_session *session, struct node *node) {
    void *device = session->user;
    session->user = &node->device;
    session->role = node->own;
    return device;
}

static void leave(struct rt_session *session, struct node *node, void *device) {
    node->own = session->role;
    session->role = node;
    session->user = device;
}

static void end(struct rt_session *session) {
    struct node *node = session->role;
    if (!node)
        return;
    if (node->role.end) {
        void *device = enter(session, node);
        node->role.end(session);
        leave(session, node, device);
    }
    rt_head_site_destroy(node->site);
    rt_hybrid_job_destroy(node->job);
    free(node);
    session->role = NULL;
}

static rt_status take_stage(struct rt_session *session, struct node *node, const struct rt_assign *asked,
                            uint64_t *memory, struct rt_error *err) {
    const struct rt_node_device *ours = session->user;
    const struct rt_hybrid_job *job = node->job;
    const struct rt_assign part = {.index = job->place,
                                   .nodes = job->places,
                                   .node = asked->node + (size_t)job->ours * job->places,
                                   .job = job->ring};
    node->device = ours->ring;
    node->role = rt_ring_role(&node->device);
    void *device = enter(session, node);
    rt_status status = node->role.assign(session, &part, memory, err);
    leave(session, node, device);
    return status;
}

static rt_status assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                        struct rt_error *err) {
    struct node *node;
    end(session); /* a second assignment takes the place of the first */
    rt_status status = rt_alloc(1, sizeof *node, "a node of several rings", &node, err);
    if (status != RT_OK)
        return status;
    session->role = node;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = asked->index > 0 ? rt_hybrid_job_create(asked->job, asked->index, asked->nodes, &node->job, err)
                              : rt_fail(err, RT_BAD_INPUT, "the assignment is the master's");
    if (status == RT_OK && node->job->place == 0)
        status =
            rt_head_site_create(session, node->job, asked->node + asked->index, &node->site, memory, err);
    else if (status == RT_OK)
        status = take_stage(session, node, asked, memory, err);
    rt_fp_leave(&theirs);
    if (status != RT_OK)
        end(session);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------------------
 */

static rt_status run_stage(struct rt_session *session, struct node *node, struct rt_link **links,
                           struct rt_group **group, struct rt_error *err) {
    const struct rt_hybrid_job *job = node->job;
    const struct rt_group_settings settings = {.way = job->across->way,
                                               .options = &job->across->options,
                                               .cost = job->across->cost,
                                               .endpoint = session->endpoint,
                                               .run = session->run,
                                               .ring = job->ours,
                                               .rings = job->rings,
                                               .place = job->place,
                                               .places = job->places,
                                               .links = links,
                                               .patience = job->across->patience};
    rt_status status = rt_group_create(&settings, group, err);
    if (status != RT_OK)
        return status;
    node->across = rt_group_across(*group);
    node->device.across = &node->across;
    void *device = enter(session, node);
    status = node->role.run(session, err);
    leave(session, node, device);
    return status;
}

/* The links with those at our place; the others are nobody's. */
static rt_status find_links(const struct rt_session *session, const struct rt_hybrid_job *job,
                            struct rt_link **links, struct rt_error *err) {
    bool there = session->links && session->count == job->rings * job->places;
    for (uint16_t i = 0; there && i < job->rings; i++)
        links[i] = session->links[(size_t)i * job->places + job->place];
    there = there && links[job->ours ? 0 : 1];
    return there ? RT_OK : rt_fail(err, RT_FAILED, "the links of the run are not those of its assignment");
}

static rt_status run(struct rt_session *session, struct rt_error *err) {
    struct node *node = session->role;
    const struct rt_hybrid_job *job = node->job;
    struct rt_link **links;
    struct rt_group *group = NULL;
    rt_status status = rt_alloc(job->rings, sizeof(struct rt_link *), "the links", &links, err);
    if (status != RT_OK)
        return status;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    status = find_links(session, job, links, err);
    const bool found = status == RT_OK;
    if (found && node->site)
        status = rt_head_site_run(node->site, session, links, err);
    else if (found)
        status = run_stage(session, node, links, &group, err);
    for (uint16_t i = 0; found && i < job->rings; i++) {
        rt_link_close(links[i]);
        session->links[(size_t)i * job->places + job->place] = NULL;
    }
    rt_link_close(session->next);
    rt_link_close(session->previous);
    session->next = session->previous = NULL;
    if (node->site)
        rt_head_site_release(node->site);
    rt_group_destroy(group);
    rt_fp_leave(&theirs);
    free(links);
    return status;
}

/* Before the plan is made, nodes measure layers as for one ring. */
const struct rt_role rt_hybrid_role = {.assign = assign, .run = run, .end = end};
