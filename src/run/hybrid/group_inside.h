/* What the files of a group share; see group.h. */
#ifndef RT_RUN_HYBRID_GROUP_INSIDE_H
#define RT_RUN_HYBRID_GROUP_INSIDE_H

#include "cluster/liveness.h"
#include "control/state_transfer.h"
#include "run/hybrid/group.h"

/* A node has one run of layers; the master of a ring may have the last layers as well. */
enum { RT_GROUP_STAGES = 2 };

enum rt_initial_phase {
    RT_INITIAL_IDLE,    /* the ring has not asked for it */
    RT_INITIAL_WAITING, /* for that of ring 0 */
    RT_INITIAL_HERE,    /* it has come */
    RT_INITIAL_GIVING,  /* ring 0 */
    RT_INITIAL_SAME,    /* all have the same */
};

/* What initial_state.c goes through. */
struct rt_group_stage {
    struct rt_stage *stage;
};

/* What ring 0 gives to one other ring. */
struct rt_initial_giving {
    struct rt_group *group;
    struct rt_state_initiator initiator;
    size_t tensor, at; /* what is next: state tensor, and float of it */
    bool declared;     /* all of it has been stored, and the version is to be declared last */
};

struct rt_group {
    struct rt_group_settings settings;
    struct rt_communicator comm;
    struct rt_roles roles;
    uint16_t *worker;
    struct rt_group_stage stages[RT_GROUP_STAGES];
    size_t stage_count;

    /* The exchange: its worker is the ring's engine. */
    const struct rt_rules
        *rules;                /* of a server; NULL: gradients are added up, and every node applies the sum */
    struct rt_replica replica; /* a span for each layer with parameters, from the data to the loss */
    struct rt_span *spans;
    float **gradients;                /* [spans] */
    float *server_params;             /* of the server here; NULL: none */
    struct rt_exchange_member member; /* zeros: no layer here has parameters */
    bool started;                     /* the server has the state that all start from */

    struct { /* what all start from, see initial_state.c */
        enum rt_initial_phase phase;
        struct rt_state_holder holder;    /* of rings 1 and up */
        struct rt_initial_giving *giving; /* of ring 0: [comm.count], to every other ring */
        uint64_t update;                  /* that it is of, once it is here */
    } initial;

    struct rt_group_talk talk;
    double *heard;         /* [rings]: when something last came from there */
    struct rt_wait *waits; /* [rings]: for the node there */
    uint16_t note;         /* our note about these waits */
    uint16_t gone;         /* the ring whose link was lost first; UINT16_MAX: none */
    double gone_at;
    struct rt_error why;
    uint16_t lost;
};

/* The number of the node at our position in a ring. */
uint16_t rt_group_number(const struct rt_group *group, uint16_t ring);

/* ---- group_exchange.c ---- */
/* Makes the exchange of the group's stages. */
rt_status rt_group_exchange_init(struct rt_group *group, struct rt_error *err);
void rt_group_exchange_deinit(struct rt_group *group); /* also of one that was not made */
/* All have the same state: so has the server. May come again. */
void rt_group_exchange_start(struct rt_group *group);

/* ---- initial_state.c ---- */
rt_status rt_group_initial_init(struct rt_group *group, struct rt_error *err);
void rt_group_initial_deinit(struct rt_group *group);
/* Goes on giving, or begins to wait; whether all have the same state. */
bool rt_group_initial_go_on(struct rt_group *group);
/* Whether that ring holds this up. */
bool rt_group_initial_waits_for(const struct rt_group *group, uint16_t ring);
/* Whether the event is about it; examples come on the same channel. */
bool rt_group_initial_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err);

#endif
