/*
 * The exchange by servers, as a worker sees it: gradients are pushed, parameters are fetched, at its own
 * pace.
 *
 * A gradient goes to each server portion by portion, with `wfbp` as soon as a portion exists; the last one
 * also asks for the parameters of the next step, so that no round trip is lost, and what comes is received in
 * place, the first layers first. push_every and fetch_every: gradients are added up and pushed every so many
 * steps; between two fetches the worker takes plain steps of its own.
 *
 * A worker without a ticket must settle, also one that never had any: it then rests, and no server waits for
 * it (exchange/server/server.h).
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
    struct rt_server *local;     /* the server in this process; NULL: none */
    struct rt_learning learning; /* for steps between two fetches: the rate, weight decay and schedule */
    /* Parameters are asked for when a batch begins, and not with the gradient before: for workers who never
     * wait (below), and whom a server must not count on for a batch that they cannot begin yet. */
    bool lazy;
};

struct rt_ps_client;

/* The replica's spans become ready from the last down: the first one completes a push. */
rt_status rt_ps_client_create(const struct rt_ps_client_settings *settings, struct rt_ps_client **client,
                              struct rt_error *err);
void rt_ps_client_destroy(struct rt_ps_client *client);
struct rt_engine_part rt_ps_client_part(struct rt_ps_client *client);
void rt_ps_client_attach(struct rt_ps_client *client, struct rt_engine *engine);
struct rt_exchange rt_ps_client_face(struct rt_ps_client *client);

/* The steps that the exchange is made of, for a worker who never waits: it has no engine, hands the part's
 * events on itself, and asks whether it can go on. The spans of a batch become ready between begin and end.
 */
void rt_ps_client_begin(struct rt_ps_client *client, uint64_t batch);
/* Whether the batch's parameters have been asked for: where that is done lazily, when nothing of the batch
 * before is under way. */
bool rt_ps_client_asks(struct rt_ps_client *client);
/* Whether the span's parameters may be used, and its gradient be written. */
bool rt_ps_client_has(const struct rt_ps_client *client, size_t span);
void rt_ps_client_ready(struct rt_ps_client *client, size_t span);
void rt_ps_client_end(struct rt_ps_client *client, size_t rows);
/* There is no ticket: a step towards rest, to be asked for until it says that the worker rests. anew: also if
 * it rests already, so that its parameters are the newest. */
bool rt_ps_client_rest(struct rt_ps_client *client, bool anew);

/* Largest difference of version between the servers in one read. */
uint64_t rt_ps_client_spread(const struct rt_ps_client *client);

#endif
