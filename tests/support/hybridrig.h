/*
 * Rings side by side over the network in memory, with the roles that real nodes have. Heads get their
 * examples from the master (data.send), so that nothing is read from files. Rings of two nodes, where one
 * node is both neighbours, are left to the tests of processes.
 */
#ifndef RT_TESTS_HYBRIDRIG_H
#define RT_TESTS_HYBRIDRIG_H

#include "run/hybrid/inside.h"
#include "support/mesh.h"
#include "support/ringrig.h"

enum hybrid_fault { NONE, SLEEPS, FREEZES, HANGS_UP, TALKS_NONSENSE, IS_STOPPED };

/* Zeros mean: allreduce-rd, sgd, no tail, no clipping, timeout 60. */
struct hybrid_shape {
    const char *model; /* NULL: the one above */
    size_t rings, places, tail;
    const char *strategy, *options; /* of the way, as in a run file; NULL: none */
    bool late;                      /* wfbp=off */
    size_t examples, batch, micro_batch, shards, updates;
    const char *optimizer;
    double clip_norm;
    size_t begin; /* ring 0 is loaded with the numbers after so many updates */
    double timeout;
    enum hybrid_fault fault;
    uint16_t who;          /* it is */
    double freezes, thaws; /* FREEZES: from one time to another */
    double pauses;         /* seconds for which the master does something else, when all rings are at rest */
    double again;          /* and so many seconds later again; 0: once */
    bool pretends;         /* its heartbeats say that it takes steps, with this note */
    uint16_t note;
};

struct hybrid_run {
    struct hybrid_shape shape;
    struct rig rig; /* one device, the data, and the plan of a ring */
    struct rt_spec *spec;
    struct rt_exchange_options options;
    struct rt_training_config config;
    struct rt_job *job; /* of ring 0 */
    struct rt_job *all; /* what every node gets */
    float *floats;      /* as gathered from ring 0 */
    double loss;
    size_t correct, nodes;
    struct rt_metrics_row rows[MESH_MOST];
    bool counted; /* there is a server on the master: */
    struct rt_exchange_counts counts;
    size_t lost; /* the node that the master blames; RT_NODE_NONE: none */
    atomic_int stop;
    rt_status status[MESH_MOST];
    struct rt_error errors[MESH_MOST];
    double ended[MESH_MOST];
};

rt_status hybrid_open(const struct hybrid_shape *shape, struct hybrid_run *run, struct rt_error *err);
void hybrid_close(struct hybrid_run *run);
/* What every communicator does: for mesh_in_memory, whose user is the run. */
void hybrid_attend(void *user, struct rt_communicator *comm);

#endif
