/* A session that is lent to an inner role and taken back. */
#include "run/role_part.h"

struct outer {
    void *user, *role;
};

static struct outer role_part_enter(struct rt_role_part *part, struct rt_session *session) {
    const struct outer outer = {session->user, session->role};
    session->user = part->role.user;
    session->role = part->own;
    return outer;
}

static void role_part_leave(struct rt_role_part *part, struct rt_session *session, struct outer outer) {
    part->own = session->role;
    session->role = outer.role;
    session->user = outer.user;
}

rt_status rt_role_part_profile(struct rt_role_part *part, struct rt_session *session,
                               const struct rt_profile *asked, struct rt_profiled *profiled,
                               struct rt_error *err) {
    const struct outer outer = role_part_enter(part, session);
    rt_status status = part->role.profile(session, asked, profiled, err);
    role_part_leave(part, session, outer);
    return status;
}

rt_status rt_role_part_assign(struct rt_role_part *part, struct rt_session *session,
                              const struct rt_assign *asked, uint64_t *memory, struct rt_error *err) {
    const struct outer outer = role_part_enter(part, session);
    rt_status status = part->role.assign(session, asked, memory, err);
    role_part_leave(part, session, outer);
    return status;
}

rt_status rt_role_part_run(struct rt_role_part *part, struct rt_session *session, struct rt_error *err) {
    const struct outer outer = role_part_enter(part, session);
    rt_status status = part->role.run(session, err);
    role_part_leave(part, session, outer);
    return status;
}

size_t rt_role_part_holdings(struct rt_role_part *part, struct rt_session *session,
                             struct rt_holding holdings[RT_MAX_HOLDINGS]) {
    if (!part->role.holdings)
        return 0;
    const struct outer outer = role_part_enter(part, session);
    const size_t count = part->role.holdings(session, holdings);
    role_part_leave(part, session, outer);
    return count;
}

void rt_role_part_end(struct rt_role_part *part, struct rt_session *session) {
    if (!part->role.end)
        return;
    const struct outer outer = role_part_enter(part, session);
    part->role.end(session);
    role_part_leave(part, session, outer);
}
