/* What the files of a crew share; see crew.h. */
#ifndef RT_EXCHANGE_CREW_INSIDE_H
#define RT_EXCHANGE_CREW_INSIDE_H

#include "exchange/crew.h"

/* Numbers that are asked for or told, in pieces, two of them under way at a time. */
enum { RT_CREW_WINDOW = 2 };
enum rt_order_kind { RT_ORDER_NONE, RT_ORDER_ASK, RT_ORDER_TELL, RT_ORDER_UPDATE };

struct rt_order {
    enum rt_order_kind kind;
    size_t word, first, count;
    float *into;
    const float *from;
    uint64_t update;
    size_t begun, ended; /* pieces, ever rising; piece n uses place n % RT_CREW_WINDOW */
    struct rt_receive receive[RT_CREW_WINDOW];
    struct rt_send send[RT_CREW_WINDOW];
    bool sending[RT_CREW_WINDOW];
};

/* Examples on their way to a node, in pieces: crate n is crates[n % RT_CREW_AHEAD]. */
struct rt_shipment {
    struct {
        uint64_t batch;
        const float *floats;
        size_t count;
    } crates[RT_CREW_AHEAD];
    uint64_t packed, shipped; /* ever rising */
    size_t at;                /* floats of the next one that have been sent */
    struct rt_send send[RT_CREW_WINDOW];
    bool sending[RT_CREW_WINDOW];
};

/* One node, as the master knows it. */
struct rt_desk {
    uint16_t rank;
    struct rt_link *link;
    struct rt_talk *talk;
    /* Tickets, ever rising; ticket n is of batch[n % RT_CREW_AHEAD]. taken <= done <= sent <= given. */
    uint64_t given, sent, done, taken;
    uint64_t batch[RT_CREW_AHEAD];
    struct rt_done results[RT_CREW_RESULTS];
    uint64_t debt;         /* a number that rises: when it began to owe what it owes, or was last heard of */
    bool ask, asked, told; /* its row: the question is to be sent, was sent, is answered */
    struct rt_metrics_row row;
    uint64_t tally[RT_TALLIES], next_tally[RT_TALLIES]; /* of that row; of the one that is coming */
    struct rt_order order;
    struct rt_shipment shipment;
    bool stop, stopped, goodbye; /* STOP is to be sent, was sent, is answered */
    bool tell;                   /* why the run ends is to be told */
};

struct rt_crew {
    const struct rt_party *party;
    struct rt_desk *desks; /* [party->count]; that of the master itself is not used */
    uint64_t debts;
    uint16_t lost;
    rt_status status; /* why the run ends */
    char sentence[RT_MAX_TEXT + 1];
};

/* crew.c: whether a node owes something; sends what is to be sent. */
bool rt_desk_owes(const struct rt_desk *desk);
void rt_desk_send(struct rt_crew *crew, struct rt_desk *desk);

/* crew_numbers.c: goes on with a desk's order; takes an event of its bulk channel. */
void rt_order_go_on(const struct rt_crew *crew, struct rt_desk *desk);
rt_status rt_order_event(struct rt_crew *crew, struct rt_desk *desk, const struct rt_event *event,
                         struct rt_error *err);

/* crew_examples.c: sends on what can be sent; whether an event of the bulk channel was one of its own. */
void rt_shipment_go_on(const struct rt_crew *crew, struct rt_desk *desk);
bool rt_shipment_event(const struct rt_crew *crew, struct rt_desk *desk, const struct rt_event *event);

#endif
