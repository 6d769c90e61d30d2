/* What the files of an agent share; see agent.h. */
#ifndef RT_CONTROL_AGENT_INSIDE_H
#define RT_CONTROL_AGENT_INSIDE_H

#include "control/agent.h"
#include "control/coordinator.h"

/* All but settings and talk is guarded by the engine. */
struct rt_agent {
    struct rt_agent_settings settings;
    struct rt_route route;
    /* Tickets, ever rising; ticket n is of batch[n % RT_TICKETS_AHEAD]. told <= finished <= taken <= arrived.
     */
    uint64_t arrived, taken, finished, told;
    uint64_t batch[RT_TICKETS_AHEAD], last;
    struct rt_done done[RT_TICKETS_AHEAD];
    uint64_t last_done;
    bool begun;                  /* updates of rings that have their own batches */
    bool rests;                  /* that this ring does is to be said */
    bool asked, answer;          /* for our rows; they are there */
    struct rt_metrics_row *rows; /* [before + settings.rows] */
    size_t before;               /* rows of the nodes before this one in a ring */
    uint64_t tally[RT_TALLIES];  /* what goes ahead of them; 0: was sent, or need not be */
    bool at_rest;                /* nothing is under way: state may be read and set */
    struct rt_state_holder holder;
    enum {
        RT_NO_LOAD,
        RT_LOAD_DUE,
        RT_LOAD_NOTED
    } load;          /* the state was set: the owner is to be told, or knows */
    uint64_t loaded; /* the updates that it is of */
    bool stopped;    /* STOP came */
    bool goodbye;    /* and is to be answered */
    bool ended;      /* another node, or the master, said why the run ends, */
    bool view_over;  /* or only the view */
    bool orphaned;   /* a node next to the master has lost it */
    uint16_t lost;
    bool tell; /* we are to say so: */
    rt_status status;
    uint16_t about;
    char sentence[RT_MAX_TEXT + 1];
};

/* agent_state.c: the node's state is to be read and written by the master. */
rt_status rt_agent_hold_state(struct rt_agent *agent, struct rt_error *err);

#endif
