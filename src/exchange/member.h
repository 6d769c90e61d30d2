/*
 * One rank's part in an exchange, made as its strategy decides: the exchange of its worker, and its server. A
 * device that trains in an exchange is a member (run/exchange/exchanger.h), and so is a place of rings side
 * by side, whose worker is a stage (run/hybrid/group.h).
 */
#ifndef RT_EXCHANGE_MEMBER_H
#define RT_EXCHANGE_MEMBER_H

#include "exchange/collective/collective_exchange.h"
#include "exchange/nested.h"
#include "exchange/server/client.h"

/* What it points at is borrowed, and outlives the member. */
struct rt_exchange_member_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    const struct rt_roles *roles;   /* of all */
    const struct rt_roles *clients; /* as servers see them: a group is one worker, by its proxy */
    const struct rt_team *team;     /* the workers that share our batches */
    const struct rt_communicator *comm;
    struct rt_link_cost cost;
    const struct rt_replica *replica;
    /* Called by the thread that computes where the strategy is replicated, otherwise by the one that takes
     * the events. */
    struct rt_updater updater;
    struct rt_states *clock; /* of the thread that computes; NULL: none is kept */
    float *server_params;    /* a server's own; NULL: the replica's, which no worker uses */
    size_t examples, batch;  /* of the run, and in a batch */
    bool sums;               /* see exchange/collective/collective_exchange.h */
    bool lazy;               /* see exchange/server/client.h */
    /* Told what became of gradients (exchange/server/server.h); may be NULL. */
    void (*updated)(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push);
    void (*judged)(void *user, const struct rt_push *push, enum rt_verdict verdict);
    void *user;
};

struct rt_exchange_member {
    struct rt_exchange_member_settings settings;
    struct rt_exchange exchange; /* self NULL: a server without a worker, where gradients are pushed */
    struct rt_server *server;    /* NULL: none */
    struct rt_collective_exchange *collective;
    struct rt_ps_client *client; /* of a worker with which servers talk */
    struct rt_nested *nested;    /* of a member of a group */
};

/* member must stay where it is. deinit also after a failure, and of zeros; only when the links are closed. */
rt_status rt_exchange_member_init(struct rt_exchange_member *member,
                                  const struct rt_exchange_member_settings *settings, struct rt_error *err);
void rt_exchange_member_deinit(struct rt_exchange_member *member);

/* Its parts for an engine, in the order in which they must come: returns how many, at most two. */
/* Begins to receive; before that a member can be given up while its links are open. */
void rt_exchange_member_start(struct rt_exchange_member *member);
size_t rt_exchange_member_parts(const struct rt_exchange_member *member, struct rt_engine_part parts[2]);

/* Inside the engine: parameters and state were loaded as those after so many updates. At rest. */
void rt_exchange_member_loaded(struct rt_exchange_member *member, uint64_t update);

#endif
