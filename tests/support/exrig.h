/*
 * Exchanges for tests: nodes with a toy to learn, over the network in memory under virtual time, or as
 * threads over TCP on this machine.
 *
 * The toy: example i is a point in the space of the parameters; its loss is half the mean of the squared
 * distances to it, number by number. So the gradient of a batch is the mean of (parameters - point), the best
 * parameters are the mean of all points, and stale parameters give another gradient than fresh ones.
 *
 * The master of the run gives the tickets and, unless it is a dedicated server, works as well. A test gives
 * it a program made of the functions below; the one that is taken otherwise trains and settles.
 */
#ifndef RT_TEST_EXRIG_H
#define RT_TEST_EXRIG_H

#include "control/agent.h"
#include "control/coordinator.h"
#include "exchange/blocking.h"
#include "exchange/collective/collective_exchange.h"
#include "exchange/nested.h"
#include "exchange/server/client.h"
#include "sim/network.h"
#include <pthread.h>

enum { EXRIG_NODES = 16, EXRIG_SPANS = 8 };

struct exrig;

/* Zeros mean: sgd with rate 0.1, 4 spans of 24 parameters in all, 60 examples, batches of 12, no delays,
 * computing takes no time. */
struct exrig_settings {
    const char *strategy;                   /* by name */
    const char *options;                    /* "{wfbp: off}"; NULL: the defaults */
    const struct rt_exchange_strategy *own; /* instead of `strategy`: one of the test's */
    const char *optimizer;                  /* "{momentum: {lr: 0.1}}" */
    size_t nodes;
    size_t params, spans; /* the spans get longer: parts of 1 + 2 + 3 + ... */
    size_t examples, batch;
    bool uneven;      /* batch b has b % 3 rows less, and every seventh just one */
    bool send;        /* the master sends the examples with the tickets */
    size_t shards;    /* slices of a batch, added in a binary tree; 0: one for each worker */
    uint64_t updates; /* batches that the usual program gives out */
    double clip_norm;
    size_t segment_floats;
    double seconds[EXRIG_NODES]; /* that a batch takes to compute; half forward, half backward */

    bool tcp;      /* threads over TCP, in real time, with a thread for each engine */
    uint64_t seed; /* of the network in memory: */
    double latency, random_delay, bandwidth, silence;
    double timeout; /* 0: 60 */
    double limit;   /* of virtual time; 0: an hour */

    /* What one node does instead of its part; NULL: nothing else. links: by rank, connected; the node closes
     * them. */
    size_t other;
    void (*behave)(void *user, struct exrig *rig, struct rt_endpoint *endpoint, struct rt_link **links);
    /* A server's updates, as rt_server_settings has them; may be NULL. */
    void (*updated)(void *user, struct exrig *rig, uint16_t server, uint64_t version, size_t pushes,
                    const struct rt_push *const *push);
    void (*judged)(void *user, struct exrig *rig, uint16_t server, const struct rt_push *push,
                   enum rt_verdict verdict);
    /* What the master's engine has in place of its coordinator, which rig->node[0] has: something with
     * tickets of its own. NULL: the coordinator. */
    struct rt_engine_part (*part)(void *user, struct exrig *rig);
    double apply_seconds; /* that a server's update takes */
    /* A worker has what it needs for a batch: its parameters as the gradient will be made with. May fail it.
     */
    rt_status (*reads)(void *user, struct exrig *rig, uint16_t rank, uint64_t batch, struct rt_error *err);
    /* The same when it begins with a batch, before it has them. */
    rt_status (*begins)(void *user, struct exrig *rig, uint16_t rank, uint64_t batch, struct rt_error *err);
};

/* A member of the exchange. Results are for the test. */
struct exrig_node {
    struct exrig *rig;
    uint16_t rank;
    struct rt_endpoint *endpoint;
    struct rt_communicator comm;
    struct rt_link *links[EXRIG_NODES];
    struct rt_talk talks[EXRIG_NODES];
    struct rt_replica replica;
    float *params, *gradient, *state, *slices;
    float *shelf; /* a server's parameters; the range it owns */
    float *sent;  /* examples that came from the master; of the master: those on their way */
    uint64_t got_batch[RT_TICKETS_AHEAD]; /* whose examples they are, */
    size_t got[RT_TICKETS_AHEAD];         /* and how many floats have come */
    uint64_t batch;                       /* that is computed */
    struct rt_collective_exchange *collective;
    struct rt_server *server;    /* with a way by servers, */
    struct rt_ps_client *client; /* and their worker, */
    struct rt_nested *nested;    /* perhaps in a group */
    struct rt_exchange inner;    /* of a proxy, with the servers */
    struct rt_blocking_exchange exchange;
    struct rt_engine *engine;
    struct rt_agent *agent;
    struct rt_coordinator *coordinator; /* of the master */
    bool works;
    size_t part, parts;
    struct rt_team team; /* the members that share its batches */

    rt_status status; /* how its run ended, */
    struct rt_error error;
    uint16_t lost;                  /* whose fault a failure is; UINT16_MAX: none known */
    double ended;                   /* and when */
    uint64_t batches;               /* computed */
    uint64_t loaded;                /* what it was told by rt_coordinator_set_update */
    struct rt_server_counts counts; /* of its server */
};

struct exrig {
    struct exrig_settings settings;
    const struct rt_exchange_strategy *strategy;
    struct rt_exchange_options options;
    struct rt_roles roles;
    uint16_t worker[EXRIG_NODES];
    struct rt_roles clients; /* the same as servers see them */
    uint16_t proxy[EXRIG_NODES];
    struct rt_span span[EXRIG_SPANS];
    float *points; /* [examples][params] */
    struct rt_optim *optim;
    struct rt_schedule schedule;
    struct rt_memnet *net;
    uint32_t run;
    atomic_int stop;
    void (*program)(void *user, struct exrig *rig);
    void *user;
    struct exrig_node node[EXRIG_NODES];

    /* Of the master's program. */
    uint64_t given, results; /* batches; results of a whole or a part of one */
    size_t out;              /* tickets that the nodes held when it last looked */
    double loss;             /* the sum over all results */
    uint64_t rows;
    uint64_t by[EXRIG_NODES]; /* results of each node */

    pthread_barrier_t barrier; /* of threads over TCP */
    char address[EXRIG_NODES][80];
};

rt_status exrig_open(const struct exrig_settings *settings, struct exrig *rig, struct rt_error *err);
void exrig_close(struct exrig *rig);

/* Runs it. program: the master's; NULL: exrig_train with the settings' updates, then exrig_settle. Fails only
 * when the network does: how each node ended is in rig->node. */
rt_status exrig_run(struct exrig *rig, void (*program)(void *user, struct exrig *rig), void *user,
                    struct rt_error *err);

/* The whole of it, for tests that want it to succeed: open, run with the usual program, every node ended
 * well. The caller closes. false: the test has failed, nothing is to be closed. */
bool exrig_succeeds(const struct exrig_settings *settings, struct exrig *rig);

/* ---- for the master's program; false after a failure, which is in rig->node[0] ---- */

/* Gives so many further batches, to all workers or each to one, and takes part; returns when the last result
 * is in. */
bool exrig_train(struct exrig *rig, uint64_t batches);
/* Nothing is under way any more. */
bool exrig_settle(struct exrig *rig);
bool exrig_metrics(struct exrig *rig, struct rt_metrics_row rows[EXRIG_NODES]);
/* A tensor of a node's numbers, the master's own too; and setting all of a node's from those of another rig
 * or another time: [1 + state_tensors][params] floats. */
bool exrig_gather(struct exrig *rig, uint16_t rank, size_t tensor, float *floats);
bool exrig_load(struct exrig *rig, uint16_t rank, const float *floats, uint64_t update);

/* ---- the toy ---- */

size_t exrig_rows(const struct exrig *rig, uint64_t batch);
/* The gradient of rows first..end of a batch, divided by all its rows; returns the sum of the losses. */
double exrig_gradient(const struct exrig *rig, uint64_t batch, size_t first, size_t end, const float *params,
                      float *gradient);
/* What one device makes of batches first..last (from 1), from parameters and state on: slices (0: as many as
 * there are workers) added in a binary tree. */
void exrig_serial(const struct exrig *rig, uint64_t first, uint64_t last, size_t slices, float *params,
                  float *state);
size_t exrig_floats(const struct exrig *rig); /* (1 + state_tensors) * params */
/* The largest difference between two blocks of parameters. */
double exrig_distance(const struct exrig *rig, const float *a, const float *b);
/* How far parameters are from the best: the mean over all examples of the loss, less that of the best. */
double exrig_excess(const struct exrig *rig, const float *params);

#endif
