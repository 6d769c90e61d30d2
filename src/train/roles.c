/* A node's roles behind one: each sees the session as if it were alone. */
#include "train/roles.h"

#include "base/memory.h"
#include "train/hybrid_job.h"
#include <stdlib.h>

/* What a session is in the end. */
struct part {
    struct rt_role role;
    void *own; /* the role's */
};

static struct rt_role role_of(const struct rt_session *session, const struct rt_tree *job) {
    const struct rt_node_device *device = session->user;
    struct rt_role role = rt_hybrid_job_is(job) ? rt_hybrid_role : rt_exchange_role;
    if (!rt_hybrid_job_is(job) && !rt_exchange_job_is(job))
        return rt_ring_role(&device->ring);
    role.user = session->user;
    return role;
}

/* The session in the hands of a role, until leave. */
static const void *enter(struct rt_session *session, struct part *part) {
    const void *device = session->user;
    session->user = part->role.user;
    session->role = part->own;
    return device;
}

static void leave(struct rt_session *session, struct part *part, const void *device) {
    part->own = session->role;
    session->role = part;
    session->user = (void *)(uintptr_t)device;
}

static rt_status profile(struct rt_session *session, const struct rt_profile *asked,
                         struct rt_profiled *profiled, struct rt_error *err) {
    const struct rt_role role = role_of(session, asked->job);
    struct part part = {.role = role};
    void *before = session->role;
    if (!role.profile)
        return rt_fail(err, RT_BAD_INPUT, "the layers of an exchange are not measured");
    const void *device = enter(session, &part);
    rt_status status = role.profile(session, asked, profiled, err);
    leave(session, &part, device);
    session->role = before;
    return status;
}

static void end(struct rt_session *session) {
    struct part *part = session->role;
    if (!part)
        return;
    const void *device = enter(session, part);
    part->role.end(session);
    leave(session, part, device);
    session->role = NULL;
    free(part);
}

static rt_status assign(struct rt_session *session, const struct rt_assign *asked, uint64_t *memory,
                        struct rt_error *err) {
    struct part *part;
    end(session); /* a second assignment takes the place of the first */
    rt_status status = rt_alloc(1, sizeof *part, "a node's part", &part, err);
    if (status != RT_OK)
        return status;
    part->role = role_of(session, asked->job);
    const void *device = enter(session, part);
    status = part->role.assign(session, asked, memory, err);
    leave(session, part, device);
    return status;
}

static rt_status run(struct rt_session *session, struct rt_error *err) {
    struct part *part = session->role;
    const void *device = enter(session, part);
    rt_status status = part->role.run(session, err);
    leave(session, part, device);
    return status;
}

struct rt_role rt_node_roles(const struct rt_node_device *device) {
    return (struct rt_role){
        .profile = profile, .assign = assign, .run = run, .end = end, .user = (void *)(uintptr_t)device};
}
