/* What leader.c and leader_run.c share; see leader.h. */
#ifndef RT_RUN_HYBRID_LEADER_INSIDE_H
#define RT_RUN_HYBRID_LEADER_INSIDE_H

#include "control/agent.h"
#include "run/exchange/samples.h"
#include "run/hybrid/leader.h"
#include "run/hybrid/part_pipeline.h"
#include "run/ring/input_pipeline.h"

struct leader {
    const struct rt_position *position; /* borrowed */
    const struct rt_job *ring_job;      /* of it */
    struct rt_plan plan;
    struct rt_network network;
    struct rt_datasets datasets;
    struct rt_scaling scaling;
    struct rt_training_config config; /* as far as the supply needs one */

    struct rt_talk talk; /* with the master */
    struct rt_communicator comm;
    struct rt_agent *agent;
    uint64_t expected;                  /* the ticket that comes next if the rings stay together; 0: any */
    struct rt_sample_receiver *samples; /* data.send: the rows of the ring; NULL: it has its own data */
    struct rt_input_pipeline pipeline;
    struct rt_part_pipeline part_pipeline;
    struct rt_ring *ring;
    struct rt_metrics_row *rows;
    const atomic_int *stop; /* of the node */
    atomic_int halt;        /* the ring is to return before it begins with another batch */
    bool resting;           /* the master has been told that the ring rests */
    bool left;              /* goodbye has been said */
    bool stalled;           /* after a failure: this node did not run for a while, and was given up */
    uint16_t lost;          /* after a failure: the node that caused it; RT_NODE_NONE: none known */
};

/* leader_run.c: the run, from GO to the end. */
rt_status rt_leader_run(struct rt_session *session, struct rt_error *err);

#endif
