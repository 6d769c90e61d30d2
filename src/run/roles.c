/* A node's roles behind one: each sees the session as if it were alone. */
#include "run/roles.h"

#include "base/memory.h"
#include "job/job.h"
#include "run/role_part.h"
#include <stdlib.h>

/* The job says which learner it is for. */
static rt_status roles_choose_role(const struct rt_session *session, const struct rt_tree *job,
                                   struct rt_role *role, struct rt_error *err) {
    const struct rt_node_device *device = session->user;
    enum rt_job_learner learner;
    RT_TRY(rt_job_learner_of(job, &learner, err));
    if (learner == RT_JOB_RING) {
        *role = rt_ring_role(&device->ring);
    } else {
        *role = learner == RT_JOB_HYBRID ? rt_hybrid_node_role : rt_exchange_node_role;
        role->user = session->user;
    }
    return RT_OK;
}

static rt_status roles_profile(struct rt_session *session, const struct rt_profile *asked,
                               struct rt_profiled *profiled, struct rt_error *err) {
    struct rt_role_part part = {.own = NULL};
    RT_TRY(roles_choose_role(session, asked->job, &part.role, err));
    if (!part.role.profile)
        return rt_fail(err, RT_BAD_INPUT, "the layers of an exchange are not measured");
    return rt_role_part_profile(&part, session, asked, profiled, err);
}

static void roles_end(struct rt_session *session) {
    struct rt_role_part *part = session->role;
    if (!part)
        return;
    if (session->endpoint)
        rt_endpoint_set_silence(session->endpoint, 0, 0);
    rt_role_part_end(part, session);
    session->role = NULL;
    free(part);
}

static rt_status roles_assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                              struct rt_error *err) {
    struct rt_role_part *part = session->role;
    struct rt_role role;
    double most, least;
    RT_TRY(roles_choose_role(session, asked->job, &role, err));
    RT_TRY(rt_job_silence_of(asked->job, &most, &least, err));
    RT_TRY(rt_job_wait_of(asked->job, &session->wait_master, err));
    if (session->endpoint)
        rt_endpoint_set_silence(session->endpoint, most, least);
    if (part && part->role.assign != role.assign) {
        roles_end(session);
        part = NULL;
    }
    if (!part)
        RT_TRY(rt_alloc(1, sizeof *part, "a node's part", &part, err));
    part->role = role;
    session->role = part;
    return rt_role_part_assign(part, session, asked, memory, err);
}

static size_t roles_holdings(struct rt_session *session, struct rt_holding holdings[RT_MAX_HOLDINGS]) {
    struct rt_role_part *part = session->role;
    return part ? rt_role_part_holdings(part, session, holdings) : 0;
}

static rt_status roles_run(struct rt_session *session, struct rt_error *err) {
    return rt_role_part_run(session->role, session, err);
}

struct rt_role rt_node_roles(const struct rt_node_device *device) {
    return (struct rt_role){.profile = roles_profile,
                            .assign = roles_assign,
                            .run = roles_run,
                            .end = roles_end,
                            .holdings = roles_holdings,
                            .user = (void *)(uintptr_t)device};
}
