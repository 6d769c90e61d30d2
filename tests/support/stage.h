/*
 * A stage for tests of whatever runs over a transport: two endpoints that listen, with a program each, once
 * over every transport there is. A new transport is one more row in stage.c.
 */
#ifndef RT_TEST_STAGE_H
#define RT_TEST_STAGE_H

#include "net/transport.h"

enum { STAGE_ENDPOINTS = 2 };

struct stage;
struct rt_memnet;

/* Runs on a thread of its own. Threads talk only through the transport: where time is virtual, one that
 * waits for another in any other way stops both. */
typedef void (*stage_program)(struct stage *stage, size_t i, struct rt_endpoint *endpoint);

struct stage {
    const char *transport;
    bool attended; /* the programs attend to their endpoints, see rt_endpoint_attend */
    bool lends;    /* large bodies do not pass over the network */
    bool exact;    /* under virtual time: what is only likely over a real network must happen */
    struct rt_endpoint *endpoints[STAGE_ENDPOINTS];
    char nowhere[80]; /* an address where no program listens */
    stage_program program;
    double heartbeat, silence, least; /* of the endpoints; 0: as they are */
    struct rt_memnet *net;            /* NULL: a real network */
};

void stage_over_each(stage_program program);
/* Heartbeats and the bound on silence as in the settings of the endpoints. */
void stage_over_each_with(stage_program program, double heartbeat, double silence, double least);

/* Program i has its endpoint do nothing for so long: it sends no heartbeat and reads nothing. */
void stage_stop(struct stage *stage, size_t i, double seconds);

/* Bytes that tell frames and places apart: those of frame n from a place on. */
enum { STAGE_LARGEST = 8 << 20, STAGE_FRAMES = 1000 };
void stage_write(unsigned frame, size_t from, size_t count, uint8_t *bytes);
bool stage_match(unsigned frame, const void *bytes, size_t count);

void *stage_room(size_t bytes); /* malloc, or the end of the test */

/* A program's in-flight slot: what it has seen so far, on all its links together. */
struct inflight {
    struct stage *stage;
    struct rt_endpoint *endpoint;
    unsigned sent[RT_CHANNELS], received[RT_CHANNELS], accepted, connected, closed, woken;
    unsigned arrivals, first_arrival[RT_CHANNELS]; /* how many frames came before the first of a channel */
    struct rt_event event;                         /* the last one */
};

bool seat_take(struct inflight *inflight); /* the next event; a failure when none comes for long */
bool seat_reach(struct inflight *inflight, const unsigned *count,
                unsigned enough); /* takes events until then */
bool seat_hears_nothing(struct inflight *inflight, double seconds);

struct rt_link *seat_call(struct inflight *inflight, const char *address); /* begins to connect */

/* The link between the two, made by endpoint 0. Sets up the in-flight slot. NULL: failed. */
struct rt_link *seat_open(struct inflight *inflight, struct stage *stage, size_t i,
                          struct rt_endpoint *endpoint);

/* An empty frame on the control channel, by which the two go on together. */
bool seat_signal(struct inflight *inflight, struct rt_link *link);
bool seat_await(struct inflight *inflight, struct rt_link *link);

#endif
