/*
 * The leader of a ring other than the first: a node that is the master of its ring, and follows the master of
 * the run. Its part of each batch comes from its own copy of the data, which must be the master's.
 */
#ifndef RT_RUN_HYBRID_LEADER_H
#define RT_RUN_HYBRID_LEADER_H

#include "run/hybrid/group.h"
#include "run/hybrid/position.h"
#include "run/roles.h"

/* What a leader is given; the role's user pointer. */
struct rt_leader_context {
    const struct rt_node_device *device;
    const struct rt_position *position;
    /* From the start of the run: the group of the leaders of all rings, and the links with them, [rings],
     * which it closes. */
    struct rt_group *group;
    struct rt_link **links;
};

/* context is borrowed. The assignment is that of its ring: the leader's part first. */
struct rt_role rt_leader_role(struct rt_leader_context *context);

#endif
