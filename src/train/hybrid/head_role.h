/*
 * The head of a ring other than the first: the role of a node that is its ring's master, and follows the
 * master of the run. Its part of each batch comes from its own copy of the data, which must be the master's.
 */
#ifndef RT_TRAIN_HYBRID_HEAD_ROLE_H
#define RT_TRAIN_HYBRID_HEAD_ROLE_H

#include "train/hybrid/group.h"
#include "train/hybrid/job.h"
#include "train/roles.h"

/* What a head is given; the role's user pointer. */
struct rt_head_place {
    const struct rt_node_device *device;
    const struct rt_hybrid_job *job;
    /* From the start of the run: what it does together with the heads of other rings, and the links with
     * them, [rings], which it closes. */
    struct rt_group *group;
    struct rt_link **links;
};

/* place is borrowed. The assignment is that of its ring: the head's part first. */
struct rt_role rt_head_role(struct rt_head_place *place);

#endif
