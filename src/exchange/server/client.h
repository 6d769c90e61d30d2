/*
 * The exchange by servers, as a worker sees it: gradients are pushed, parameters are fetched, at its own
 * pace.
 *
 * A gradient goes to each server portion by portion, with `wfbp` as soon as a portion exists; the last one
 * also asks for the parameters of the next step, so that no round trip is lost, and what comes is received in
 * place, the first layers first. push_every and fetch_every: gradients are added up and pushed every so many
 * steps; between two fetches the worker takes plain steps of its own.
 *
 * A worker without a ticket must come to rest, also one that never had any: it then says so, and no server
 * waits for it (exchange/server/server.h).
 */
#ifndef RT_EXCHANGE_SERVER_CLIENT_H
#define RT_EXCHANGE_SERVER_CLIENT_H

#include "exchange/server/server.h"

struct rt_ps_client_settings {
    const struct rt_exchange_strategy *strategy;
    const struct rt_exchange_options *options;
    const struct rt_roles *roles;
    const struct rt_communicator *comm;
    const struct rt_replica *replica;
    struct rt_server *local;   /* the server in this process; NULL: none */
    struct rt_updater updater; /* for steps between two fetches: the rate, weight decay and schedule */
    struct rt_states *clock;   /* of the thread that computes; NULL: none is kept */
    /* Parameters are asked for when a batch begins, and not with the gradient before: for workers that never
     * wait, and on which a server must not count for a batch that they cannot begin yet. */
    bool lazy;
};

struct rt_ps_client;

/* The replica's spans become ready from the last down: the first one completes a push. */
rt_status rt_ps_client_create(const struct rt_ps_client_settings *settings, struct rt_ps_client **client,
                              struct rt_error *err);
void rt_ps_client_destroy(struct rt_ps_client *client);
/* With a server in the same process its part comes behind the server's: it goes on with the answers. */
struct rt_exchange rt_ps_client_exchange(struct rt_ps_client *client);

/* Largest difference of version between the servers in one read. */
uint64_t rt_ps_client_spread(const struct rt_ps_client *client);

#endif
