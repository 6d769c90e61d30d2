/*
 * What the master of a ring does besides its layers: it brings examples into the form of inputs and computes
 * the loss. Measured, so that the plan can give it that much less of the layers.
 */
#ifndef RT_RUN_RING_MASTER_WORK_H
#define RT_RUN_RING_MASTER_WORK_H

#include "data/dataset.h"
#include "learn/network.h"

struct rt_master_work {
    double inputs, loss; /* seconds per example */
};

/* Takes a few milliseconds. set: the examples of the run; NULL or empty where they are not at hand: then
 * made-up ones, of floats. outputs: made-up ones. scaling may be NULL then. rows: of a micro-batch, about. */
rt_status rt_master_work_measure(const struct rt_network *network, const struct rt_dataset *set,
                                 const struct rt_scaling *scaling, enum rt_target target, size_t rows,
                                 struct rt_master_work *work, struct rt_error *err);

#endif
