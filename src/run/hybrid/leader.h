/*
 * The leader of a ring other than the first: the role of a node that is its ring's master, and follows the
 * master of the run. Its part of each batch comes from its own copy of the data, which must be the master's.
 */
#ifndef RT_RUN_HYBRID_LEADER_H
#define RT_RUN_HYBRID_LEADER_H

#include "run/hybrid/group.h"
#include "run/hybrid/position.h"
#include "run/roles.h"

/* What a leader is given; the role's user pointer. */
struct rt_leader_place {
    const struct rt_node_device *device;
    const struct rt_position *position;
    /* From the start of the run: what it does together with the leaders of other rings, and the links with
     * them, [rings], which it closes. */
    struct rt_group *group;
    struct rt_link **links;
};

/* place is borrowed. The assignment is that of its ring: the leader's part first. */
struct rt_role rt_leader_role(struct rt_leader_place *place);

#endif
