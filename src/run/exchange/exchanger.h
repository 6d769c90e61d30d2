/*
 * One device in an exchange: what the master and the nodes have in common. It joins a network and its data
 * (run/exchange/replica.h) with a strategy of exchange: collectives, or servers and their workers, whatever
 * the strategy decides this rank to be.
 */
#ifndef RT_RUN_EXCHANGE_EXCHANGER_H
#define RT_RUN_EXCHANGE_EXCHANGER_H

#include "control/engine.h"
#include "exchange/blocking.h"
#include "exchange/member.h"
#include "run/exchange/replica.h"

struct rt_exchanger_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    struct rt_link_cost cost;
    struct rt_communicator comm;
    const struct rt_optim *optim;
    const struct rt_schedule *schedule;
    uint64_t updates, per_epoch; /* planned */
    double clip_norm;
    size_t shards; /* of a batch */
    /* [workers] which of them each worker has, where the strategy takes slices; NULL: equal parts */
    const struct rt_slice_run *runs;
    /* network (allocated) and data; part, sum, bucket and computes are filled in. */
    struct rt_net_replica_settings replica;
    /* Of the server here, if there is one: see exchange/server/server.h. May be NULL. */
    void (*updated)(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
    void (*judged)(void *user, const struct rt_push *push, enum rt_verdict verdict);
    void *user;
};

struct rt_exchanger {
    struct rt_exchanger_settings settings;
    uint16_t *worker, *proxy;
    struct rt_roles roles;
    struct rt_roles clients; /* as servers see them: a group is one worker, by its proxy */
    struct rt_team team; /* the workers that share its batches; place: ours among them, if it is a worker */
    const struct rt_rules *rules; /* NULL: by collectives */
    bool asynchronous, grouped;
    size_t place; /* among the workers; roles.workers: it does not work */
    bool works, serves;

    struct rt_net_replica *net;
    const struct rt_replica *replica;
    float *state;         /* the optimizer's tensors, each of all parameters; only what is owned is used */
    float *server_params; /* of a server; NULL: none, or those of the network */
    struct rt_norm norm;
    struct rt_device single; /* one thread: for the one that takes the events */
    bool single_open;

    struct rt_exchange_member member;
    struct rt_blocking_exchange exchange; /* of the worker */
    struct rt_engine *engine;             /* NULL: not started */
    struct rt_states events; /* the clock of the thread that takes the events, where there is one */
    double cpu_start;
};

/* Everything it is given is borrowed, the links too: they are closed by their owner, after halt and before
 * destroy. */
rt_status rt_exchanger_create(const struct rt_exchanger_settings *settings, struct rt_exchanger **exchanger,
                              struct rt_error *err);
/* Begins to take events, for itself and for those parts. */
struct rt_exchanger_run {
    const struct rt_engine_part *parts;
    size_t part_count;
    void (*stray)(void *user, const struct rt_event *event); /* may be NULL */
    void *user;
    const atomic_int *stop; /* may be NULL */
    bool finishes;          /* what has begun, before it stops (control/engine.h) */
};
rt_status rt_exchanger_start(struct rt_exchanger *exchanger, const struct rt_exchanger_run *run,
                             struct rt_error *err);
void rt_exchanger_halt(struct rt_exchanger *exchanger); /* takes no more events; NULL is fine */
void rt_exchanger_destroy(struct rt_exchanger *exchanger);

/* Whether it takes part in batches: not a server without a worker, to which gradients are pushed. */
bool rt_exchanger_takes_tickets(const struct rt_exchanger *exchanger);
/* As the worker of this device, or as a server without one that takes part in collectives: learns from its
 * part of a batch; waits until nothing is under way (at once where it takes no tickets). By the thread that
 * computes. */
rt_status rt_exchanger_learn(struct rt_exchanger *exchanger, uint64_t batch, struct rt_done *done,
                             struct rt_error *err);
rt_status rt_exchanger_settle(struct rt_exchanger *exchanger, struct rt_error *err);

/* State tensor 0, the parameters, or one of the optimizer's, as this device has it: a server's own. NULL:
 * there is no such tensor. Those of a worker are settled only after rt_exchanger_settle. */
float *rt_exchanger_state(struct rt_exchanger *exchanger, size_t tensor);
/* State tensors were changed, all parameters among them: they are those after so many updates. */
void rt_exchanger_loaded(struct rt_exchanger *exchanger, uint64_t update);
/* Brings the part of the parameters that a server here owns to where the network has them. At rest. */
void rt_exchanger_publish(struct rt_exchanger *exchanger);

/* What it did with its time and its links so far. */
void rt_exchanger_metrics(struct rt_exchanger *exchanger, struct rt_metrics_row *row);

/* The counts of the server here, [RT_TALLIES] of control/coordinator.h; zeros: there is none. */
void rt_exchanger_tally(struct rt_exchanger *exchanger, uint64_t *tally);

/* "master", "worker", "server", "server+worker" */
const char *rt_exchanger_role(const struct rt_roles *roles, uint16_t rank);

/* Bytes that it takes besides the network's own, about. SIZE_MAX: more than there can be. */
size_t rt_exchanger_bytes(const struct rt_exchanger_settings *settings, const struct rt_roles *roles,
                          const struct rt_model *model);

/* Refuses a part in the run that takes more than `limit` bytes (0: no limit) besides the data, before any of
 * it is taken. memory: what it takes, the program itself included. */
rt_status rt_exchanger_check_memory(const struct rt_exchanger_settings *settings,
                                    const struct rt_roles *roles, const struct rt_model *model,
                                    uint64_t limit, uint64_t *memory, struct rt_error *err);

#endif
