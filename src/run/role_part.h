/* A role inside another: while it is called the session is in its hands, with its own user and memory. */
#ifndef RT_RUN_ROLE_PART_H
#define RT_RUN_ROLE_PART_H

#include "cluster/node.h"

struct rt_role_part {
    struct rt_role role;
    void *own; /* what the role keeps in this run */
};

rt_status rt_role_part_profile(struct rt_role_part *part, struct rt_session *session,
                               const struct rt_profile *asked, struct rt_profiled *profiled,
                               struct rt_error *err);
rt_status rt_role_part_assign(struct rt_role_part *part, struct rt_session *session,
                              const struct rt_assign *asked, uint64_t *memory, struct rt_error *err);
rt_status rt_role_part_run(struct rt_role_part *part, struct rt_session *session, struct rt_error *err);
size_t rt_role_part_holdings(struct rt_role_part *part, struct rt_session *session,
                             struct rt_holding holdings[RT_MAX_HOLDINGS]);
void rt_role_part_end(struct rt_role_part *part, struct rt_session *session); /* a zeroed one is fine */

#endif
