/* A node's roles behind one: each sees the session as if it were alone. */
#include "run/roles.h"

#include "base/memory.h"
#include "run/hybrid/job.h"
#include "run/role_part.h"
#include <stdlib.h>

static struct rt_role role_of(const struct rt_session *session, const struct rt_tree *job) {
    const struct rt_node_device *device = session->user;
    struct rt_role role = rt_hybrid_job_is(job) ? rt_hybrid_node_role : rt_exchange_node_role;
    if (!rt_hybrid_job_is(job) && !rt_exchange_job_is(job))
        return rt_ring_role(&device->ring);
    role.user = session->user;
    return role;
}

static rt_status profile(struct rt_session *session, const struct rt_profile *asked,
                         struct rt_profiled *profiled, struct rt_error *err) {
    struct rt_role_part part = {.role = role_of(session, asked->job)};
    if (!part.role.profile)
        return rt_fail(err, RT_BAD_INPUT, "the layers of an exchange are not measured");
    return rt_role_part_profile(&part, session, asked, profiled, err);
}

static void end(struct rt_session *session) {
    struct rt_role_part *part = session->role;
    if (!part)
        return;
    rt_role_part_end(part, session);
    session->role = NULL;
    free(part);
}

static rt_status assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                        struct rt_error *err) {
    struct rt_role_part *part;
    end(session); /* a second assignment takes the place of the first */
    rt_status status = rt_alloc(1, sizeof *part, "a node's part", &part, err);
    if (status != RT_OK)
        return status;
    part->role = role_of(session, asked->job);
    session->role = part;
    return rt_role_part_assign(part, session, asked, memory, err);
}

static rt_status run(struct rt_session *session, struct rt_error *err) {
    return rt_role_part_run(session->role, session, err);
}

struct rt_role rt_node_roles(const struct rt_node_device *device) {
    return (struct rt_role){
        .profile = profile, .assign = assign, .run = run, .end = end, .user = (void *)(uintptr_t)device};
}
