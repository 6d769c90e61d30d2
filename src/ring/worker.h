/* A worker of a ring: the role of a node that holds a run of layers. */
#ifndef RT_RING_WORKER_H
#define RT_RING_WORKER_H

#include "cluster/node.h"
#include "metrics/pace.h"
#include "ring/inter_ring.h"
#include <stddef.h>

/* What the node's device is like, beyond what the cluster knows; the role's user pointer. */
struct rt_ring_device {
    const char *kernels; /* "auto" or an instruction set */
    size_t threads;
    struct rt_pace pace; /* of the device that is emulated */
    const struct rt_inter_ring
        *inter_ring; /* of several rings, from the start of the run; NULL: there is one ring */
};

/* Adds what a run of layers with so many slots takes: see rt_stage_bytes. */
rt_status rt_worker_add_bytes(const struct rt_job *job, const struct rt_kernels *kernels, size_t first,
                              size_t count, size_t slots, double *bytes, struct rt_error *err);

/* device is borrowed until the last session has ended. */
struct rt_role rt_ring_role(const struct rt_ring_device *device);

#endif
