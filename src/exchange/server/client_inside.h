/*
 * Inside a worker's exchange with servers: its talk with each of them (client_connection.c), and its steps
 * (client.c). All of it is touched inside the engine, but for the sum of gradients, which the thread that
 * computes makes when the exchange has no more use for it.
 */
#ifndef RT_EXCHANGE_SERVER_CLIENT_INSIDE_H
#define RT_EXCHANGE_SERVER_CLIENT_INSIDE_H

#include "exchange/server/client.h"
#include "exchange/server/portions.h"

/* What a group of messages to a server says. */
enum rt_server_request { RT_REQUEST_NONE, RT_REQUEST_PUSH, RT_REQUEST_PULL, RT_REQUEST_REST };

/* A server, as a worker sees it. */
struct rt_server_connection {
    struct rt_ps_client *client;
    uint16_t rank;
    struct rt_link *link; /* NULL: in this process */
    size_t first;         /* of its range */
    struct rt_portion *portions;
    size_t count;
    struct rt_send *sends;       /* [count] */
    struct rt_receive *receives; /* [count] */
    bool *kept;                  /* [count] the portion's gradient has to stay as it is: it is to be sent */
    enum rt_server_request request, next; /* under way; to begin when its messages have been sent */
    size_t left;                          /* messages of the request that are not on their way */
    size_t sending;
    size_t came;              /* portions of the parameters that were asked for */
    bool asking;              /* they have not all come */
    uint64_t version, coming; /* of the parameters: had, on their way */
    uint64_t pushes;
};

struct rt_ps_client {
    struct rt_ps_client_settings settings;
    struct rt_server_connection *connections; /* [connection_count] */
    size_t connection_count;
    size_t *missing; /* [span_count] portions that were asked for and have not come */
    float *sum;      /* of the gradients of several steps; NULL: push_every is 1 */
    uint64_t batch;  /* of the gradient that is pushed */
    uint32_t rows;   /* it is made of */
    bool complete;   /* its step has ended: the last portion may go */
    bool asks;       /* with it parameters are asked for */

    uint64_t ticket;
    bool begun;    /* has asked for parameters since it last rested */
    bool wants;    /* is to ask for them as soon as it can */
    bool settles;  /* is to come to rest */
    bool resting;  /* has said that it rests */
    size_t step;   /* since then */
    size_t summed; /* steps in sum */
    uint32_t due;  /* rows that were not pushed */

    uint64_t spread;
};

/* The floats that are pushed, of the whole block. */
static inline const float *rt_ps_client_source(const struct rt_ps_client *client) {
    return client->sum ? client->sum : client->settings.replica->gradient;
}

/* All of these inside the engine, on its thread. */

/* Sends what can be sent. */
void rt_server_connection_go(struct rt_server_connection *connection);
bool rt_server_connection_event(struct rt_server_connection *connection, const struct rt_event *event,
                                rt_status *status, struct rt_error *err);
/* From here on parameters are asked for: none of them may be used until they have come. */
void rt_server_connection_expect(struct rt_server_connection *connection);
struct rt_server_local rt_server_connection_local(struct rt_server_connection *connection);

#endif
