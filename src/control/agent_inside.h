/* What the files of a agent share; see agent.h. */
#ifndef RT_CONTROL_AGENT_INSIDE_H
#define RT_CONTROL_AGENT_INSIDE_H

#include "control/agent.h"
#include "control/coordinator.h"

enum { RT_TRANSFER_WINDOW_IN = 2 };

struct rt_piece_buffer {
    float *floats; /* [RT_TRANSFER_PIECE] */
    struct rt_message message;
    struct rt_receive receive;
    struct rt_send send;
    bool sending;
};

/* Numbers that the master asks for or sets. */
struct rt_agent_transfer {
    float *memory;
    struct rt_piece_buffer in[RT_TRANSFER_WINDOW_IN], out[RT_TRANSFER_WINDOW_IN];
    uint64_t posted, arrived, taken; /* frames, ever rising; frame n is in[n % RT_TRANSFER_WINDOW_IN] */
    enum {
        RT_NO_LOAD,
        RT_LOAD_DUE,
        RT_LOAD_TOLD
    } load; /* a LOAD is next: the owner is to be told, or knows */
};

/* All but settings and talk is guarded by the engine. */
struct rt_agent {
    struct rt_agent_settings settings;
    struct rt_link *link; /* with the master */
    struct rt_talk *talk;
    struct rt_engine *engine; /* NULL: the work has not begun */
    /* Tickets, ever rising; ticket n is of batch[n % RT_TICKETS_AHEAD]. told <= finished <= taken <= arrived.
     */
    uint64_t arrived, taken, finished, told;
    uint64_t batch[RT_TICKETS_AHEAD], last;
    struct rt_done done[RT_TICKETS_AHEAD];
    bool asked, answer; /* for our row; it is there */
    struct rt_metrics_row row;
    uint64_t tally[RT_TALLIES]; /* what goes ahead of it; 0: was sent, or need not be */
    bool at_rest;               /* nothing is under way: numbers may be read and set */
    struct rt_agent_transfer transfer;
    bool stopped; /* STOP came */
    bool goodbye; /* and is to be answered */
    bool ended;   /* the master said why the run ends */
    bool tell;    /* we are to say so: */
    rt_status status;
    uint16_t about;
    char sentence[RT_MAX_TEXT + 1];
};

/* duty_numbers.c */
rt_status rt_agent_transfer_init(struct rt_agent *agent, struct rt_error *err);
rt_status rt_agent_transfer_event(struct rt_agent *agent, const struct rt_event *event, struct rt_error *err);
/* Does what can be done; frames wait until nothing is under way. */
rt_status rt_agent_transfer_go_on(struct rt_agent *agent, struct rt_error *err);
/* The updates that the LOAD which is due speaks of. */
uint64_t rt_agent_transfer_update(const struct rt_agent *agent);

#endif
