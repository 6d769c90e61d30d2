/*
 * The schedule of the ring, simulated event by event: how long updates take and how busy each node is, when
 * every node always does the first ready operation of: loss (the master), B, F, W. The planner runs it
 * hundreds of times, so it takes a fraction of a millisecond for a ring of usual size.
 */
#ifndef RT_PLAN_SCHEDULE_H
#define RT_PLAN_SCHEDULE_H

#include "wire/message.h"

/* A node and its link to the next one; the last one's leads to node 0. Seconds per micro-batch, update: per
 * update. A message occupies the port of the node that sends it, whatever the direction, and arrives a
 * latency after it has left. */
struct rt_schedule_node {
    double forward, input, weights, update;
    double hop_forward;  /* activations, from this node to the next */
    double hop_backward; /* gradients, from the next node to this one */
    double latency;      /* of the link, in both directions */
    size_t slots; /* taken when the input begins to travel to the node (node 0: with F), free again after W */
};

struct rt_schedule_settings {
    const struct rt_schedule_node *nodes; /* [count] */
    size_t count, micros, updates;
    double loss; /* seconds of the loss of a micro-batch, on node 0 */
    bool split;  /* separate B and W; false: 1f1b, in one */
    bool clip;   /* an update waits for the norm of the whole gradient to go round */
    bool flow;   /* an update after each micro-batch, nothing is drained: ring-flow */
};

struct rt_schedule_result {
    double seconds;            /* for all updates, from the first F to the end of the last update */
    double update_seconds;     /* one update in a long run: without the time to fill the ring and drain it */
    double busy[RT_MAX_NODES]; /* for all updates */
};

/* RT_BAD_INPUT when a count is 0 or a time is negative or not finite. */
rt_status rt_schedule_simulate(const struct rt_schedule_settings *settings, struct rt_schedule_result *result,
                               struct rt_error *err);

#endif
