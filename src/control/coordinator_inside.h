/* What the files of a coordinator share; see coordinator.h. */
#ifndef RT_CONTROL_COORDINATOR_INSIDE_H
#define RT_CONTROL_COORDINATOR_INSIDE_H

#include "control/coordinator.h"

/* Numbers that are asked for or told, in pieces, two of them under way at a time. */
enum { RT_TRANSFER_WINDOW = 2 };
enum rt_transfer_kind { RT_TRANSFER_NONE, RT_TRANSFER_FETCH, RT_TRANSFER_SEND, RT_TRANSFER_VERSION };

struct rt_state_transfer {
    enum rt_transfer_kind kind;
    size_t word, first, count;
    float *into;
    const float *from;
    uint64_t update;
    size_t begun, ended; /* pieces, ever rising; piece n uses place n % RT_TRANSFER_WINDOW */
    struct rt_receive receive[RT_TRANSFER_WINDOW];
    struct rt_send send[RT_TRANSFER_WINDOW];
    bool sending[RT_TRANSFER_WINDOW];
};

/* Examples on their way to a node, in pieces: crate n is crates[n % RT_TICKETS_AHEAD]. */
struct rt_sample_queue {
    struct {
        uint64_t batch;
        const float *floats;
        size_t count;
    } batches[RT_TICKETS_AHEAD];
    uint64_t packed, shipped; /* ever rising */
    size_t at;                /* floats of the next one that have been sent */
    struct rt_send send[RT_TRANSFER_WINDOW];
    bool sending[RT_TRANSFER_WINDOW];
};

/* One node, as the master knows it. */
struct rt_worker_connection {
    uint16_t rank;
    struct rt_link *link;
    struct rt_talk *talk;
    /* Tickets, ever rising; ticket n is of batch[n % RT_TICKETS_AHEAD]. taken <= done <= sent <= given. */
    uint64_t given, sent, done, taken;
    uint64_t batch[RT_TICKETS_AHEAD];
    struct rt_done results[RT_TICKET_RESULTS];
    uint64_t debt;         /* a number that rises: when it began to owe what it owes, or was last heard of */
    bool ask, asked, told; /* its row: the question is to be sent, was sent, is answered */
    struct rt_metrics_row row;
    uint64_t tally[RT_TALLIES], next_tally[RT_TALLIES]; /* of that row; of the one that is coming */
    struct rt_state_transfer transfer;
    struct rt_sample_queue samples;
    bool stop, stopped, goodbye; /* STOP is to be sent, was sent, is answered */
    bool tell;                   /* why the run ends is to be told */
};

struct rt_coordinator {
    const struct rt_communicator *comm;
    struct rt_worker_connection
        *connections; /* [communicator->count]; that of the master itself is not used */
    uint64_t debts;
    uint16_t lost;
    rt_status status; /* why the run ends */
    char sentence[RT_MAX_TEXT + 1];
};

/* coordinator.c: whether a node owes something; sends what is to be sent. */
bool rt_worker_connection_owes(const struct rt_worker_connection *connection);
void rt_worker_connection_send(struct rt_coordinator *coordinator, struct rt_worker_connection *connection);

/* crew_numbers.c: goes on with a worker connection's order; takes an event of its bulk channel. */
void rt_state_transfer_go_on(const struct rt_coordinator *coordinator,
                             struct rt_worker_connection *connection);
rt_status rt_state_transfer_event(struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                                  const struct rt_event *event, struct rt_error *err);

/* crew_examples.c: sends on what can be sent; whether an event of the bulk channel was one of its own. */
void rt_sample_queue_go_on(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection);
bool rt_sample_queue_event(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                           const struct rt_event *event);

#endif
