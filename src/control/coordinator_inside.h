/* What the files of a coordinator share; see coordinator.h. */
#ifndef RT_CONTROL_COORDINATOR_INSIDE_H
#define RT_CONTROL_COORDINATOR_INSIDE_H

#include "control/coordinator.h"

/* Examples on their way to a node, in pieces: batch n is batches[n % RT_TICKETS_AHEAD]. */
struct rt_sample_queue {
    struct {
        uint64_t batch;
        const float *floats;
        size_t count;
    } batches[RT_TICKETS_AHEAD];
    uint64_t queued, sent; /* batches, ever rising */
    size_t at;             /* floats of the next one that have been sent */
    struct rt_send send[RT_STATE_WINDOW];
    bool sending[RT_STATE_WINDOW];
    uint64_t part_of[RT_STATE_WINDOW]; /* the batch, counted as above, that is being sent */
};

/* One node, as the master knows it, or all others of its ring. */
struct rt_worker_connection {
    uint16_t rank;
    struct rt_route route;
    /* Tickets, ever rising; ticket n is of batch[n % RT_TICKETS_AHEAD]. taken <= done <= sent <= given. */
    uint64_t given, sent, done, taken;
    uint64_t batch[RT_TICKETS_AHEAD];
    struct rt_done results[RT_TICKET_RESULTS];
    bool resting;          /* it has said so after its last ticket, or has had none */
    uint64_t debt;         /* rising number: when its oldest debt began, or when it was last heard from */
    bool begin;            /* it is to be told that updates begin */
    bool ask, asked, told; /* its rows: the question is to be sent, was sent, is answered */
    struct rt_metrics_row *rows;
    size_t first_row;                                   /* the node of the first */
    uint64_t tally[RT_TALLIES], next_tally[RT_TALLIES]; /* of those rows; of those that are coming */
    struct rt_sample_queue samples;
    size_t stored;               /* floats of state that were sent since the last set_update */
    bool stop, stopped, goodbye; /* STOP is to be sent, was sent, is answered */
    bool tell;                   /* why the run ends is to be told */
};

struct rt_coordinator {
    struct rt_coordinator_settings settings;
    const struct rt_communicator *comm;
    struct rt_worker_connection *connections; /* [comm->count]; that of the master itself is not used */
    struct rt_metrics_row *rows;              /* [comm->count * settings.rows], by connections */
    struct rt_metrics_row *decoded;           /* [settings.rows] of an answer that is looked at */
    struct rt_state_initiator initiator;
    uint16_t ordered;  /* the connection of its order */
    float *into;       /* of a fetch: where the next floats go */
    const float *from; /* of a store: where they come from */
    bool expects_rest;
    uint64_t debts;
    uint16_t lost;
    rt_status status; /* why the run ends, */
    bool goes_on;     /* or only the view */
    char sentence[RT_MAX_TEXT + 1];
};

/* coordinator_samples.c: sends on what can be sent; whether an event of the bulk channel was one of its own.
 */
void rt_sample_queue_go_on(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection);
bool rt_sample_queue_event(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                           const struct rt_event *event);

/* coordinator_receive.c */
rt_status rt_worker_connection_receive(struct rt_coordinator *coordinator,
                                       struct rt_worker_connection *connection, struct rt_error *err);
/* Attributes a failure to the node that sent the transfer or message. */
rt_status rt_worker_connection_blame(struct rt_coordinator *coordinator,
                                     const struct rt_worker_connection *connection, struct rt_error *err);

/* To be called when a node owes something it did not owe before, or has just been heard of. */
void rt_worker_connection_stamp(struct rt_coordinator *coordinator, struct rt_worker_connection *connection);

#endif
