/* Rings for tests: nodes with real stages over the network in memory, and one device to compare with. */
#ifndef RT_TEST_RINGRIG_H
#define RT_TEST_RINGRIG_H

#include "learn/batches.h"
#include "ring/ring.h"
#include "ring/worker.h"
#include "sim/network.h"
#include "support/tiny.h"

enum { RIG_NODES = 16 };

/* Zeros mean: sgd, one slot per node, no delays, no tail, exact, split. */
struct rig_settings {
    const char *model;     /* "{input: ..., layers: [...], loss: ...}" */
    const char *optimizer; /* as in a run file */
    size_t nodes, tail, slots;
    size_t examples, batch, micro_batch, shards, updates;
    double clip_norm;
    bool flow, together; /* together: the backward in one piece */
    uint64_t seed;       /* of the network */
    double latency, random_delay, bandwidth, silence;
    double slowdown; /* of node i: 1 + 8 i times this; 0: computing takes no virtual time */
    size_t hungry;   /* times that the data have nothing yet, at update 2 */
    double timeout;
    struct rt_node_names names; /* of the nodes */
    /* Node `frozen` hangs from one time to another; 0 and 0: none does. */
    size_t frozen;
    double freezes, thaws;
    double again;  /* seconds from one such time to the next; 0: once */
    bool pretends; /* meanwhile its heartbeats say that it takes steps, with this note */
    uint16_t note;
    double limit; /* of virtual time; 0: an hour */
    /* What endpoint i does instead of its part in the ring; NULL: nothing else. It connects to the next
     * endpoint, and the one before connects to it. */
    size_t other;
    void (*behave)(void *user, struct rt_endpoint *endpoint, struct rt_link *next, struct rt_link *previous);
};

struct rig {
    struct rig_settings settings;
    struct tiny tiny; /* one device, and the data */
    struct rt_batches batches;
    struct rt_device device; /* the master's */
    struct rt_job *job;
    struct rt_plan plan;
    struct rt_plan_node plan_nodes[RIG_NODES];
    struct rt_memnet *net;
    atomic_int stop;
    size_t batches_given, refusals; /* answers of the source */

    void (*program)(void *user, struct rig *rig, struct rt_ring *ring);
    void *user;
    uint32_t run;
    /* How each node's run ended. The master's is its program's. */
    rt_status status[RIG_NODES];
    struct rt_error errors[RIG_NODES];
    double ended[RIG_NODES];
    size_t lost;         /* the node that the master blames; RT_NODE_NONE: none */
    struct rt_error why; /* the reason, where it does */
};

rt_status rig_open(const struct rig_settings *settings, struct rig *rig, struct rt_error *err);
void rig_close(struct rig *rig);

/* Runs all nodes, and the program as the master's. The ring is stopped after it if no node has failed; the
 * program may have done so itself. */
rt_status rig_run(struct rig *rig, void (*program)(void *user, struct rig *rig, struct rt_ring *ring),
                  void *user, struct rt_error *err);

/* So many updates; the first failure goes to rig->status[0]. */
bool rig_steps(struct rig *rig, struct rt_ring *ring, size_t updates);

/* All words, one after another: as gathered (room for rig_floats), and of the one device. */
size_t rig_floats(const struct rig *rig);
struct rig_words {
    float *floats;
    size_t count;
};
rt_status rig_write(void *words, size_t word, size_t count, const float *floats, struct rt_error *err);
rt_status rig_read(void *words, size_t word, size_t count, float *floats, struct rt_error *err);
void rig_single(const struct rig *rig, float *floats);
/* Snapshot and all words. */
rt_status rig_gather(struct rig *rig, struct rt_ring *ring, float *floats, struct rt_error *err);

/* Makes the links that join endpoint i to the one after and the one before it. */
bool rig_join(struct rig *rig, size_t i, struct rt_endpoint *endpoint, struct rt_link **next,
              struct rt_link **previous);

#endif
