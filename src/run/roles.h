/* The roles of a node in a run: a stage of one ring or of several, or a worker or server of an exchange. The
 * job decides. */
#ifndef RT_RUN_ROLES_H
#define RT_RUN_ROLES_H

#include "cluster/node.h"
#include "ring/worker.h"

/* What the node's device is like, and what it lets a master have. */
struct rt_node_device {
    struct rt_ring_device ring;
    const char *data;  /* the directory in which training data are looked up; NULL: a master on this machine
                          started the node, which opens the files that the master opens */
    const char *cache; /* where converted data are kept; NULL: the user's own cache directory */
};

/* device is borrowed until the last session has ended. */
struct rt_role rt_node_roles(const struct rt_node_device *device);

/* The roles of an exchange and of several rings; the session's user is the device. */
extern const struct rt_role rt_exchange_node_role, rt_hybrid_node_role;

#endif
