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

struct rt_group;

/* How gradients are exchanged: added up (group_sums.c), or pushed to a server (group_served.c). */
struct rt_group_means {
    rt_status (*open)(struct rt_group *group, struct rt_error *err); /* the stages are known */
    void (*close)(struct rt_group *group);                           /* also of one that was not opened */
    void (*start)(struct rt_group *group); /* all have the same numbers; may be NULL, may come again */
    bool (*event)(struct rt_group *group, const struct rt_event *event, rt_status *status,
                  struct rt_error *err);
    bool (*waits_for)(const struct rt_group *group, uint16_t ring);    /* whether that ring owes something */
    void (*ready)(struct rt_group *group, size_t stage, size_t layer); /* see ring/inter_ring.h */
    bool (*is_done)(const struct rt_group *group, size_t stage);       /* NULL: nobody waits for sums */
    void (*tell)(const struct rt_group *group, struct rt_metrics_row *row); /* may be NULL */
};
extern const struct rt_group_means rt_group_sums, rt_group_servers;

/* A layer with parameters: a load of the executor. */
struct rt_group_load {
    size_t stage, layer;
};

/* What a stage has of them. */
struct rt_group_stage {
    struct rt_stage *stage;
    size_t first, count; /* its loads */
    uint64_t updates;    /* whose gradient is complete */
    uint64_t ready;      /* loads, ever rising */
};

struct rt_group {
    struct rt_group_settings settings;
    struct rt_communicator comm;
    struct rt_roles roles;
    uint16_t *worker;
    struct rt_group_stage stages[RT_GROUP_STAGES];
    size_t stage_count;
    const struct rt_group_means *means;

    /* Of those who stay together. */
    struct rt_executor *executor; /* NULL: no layer here has parameters */
    struct rt_group_load *loads;  /* in the executor's order */
    size_t load_count;

    struct {                         /* of those who have a server, see group_served.c */
        struct rt_ps_client *client; /* NULL: no layer here has parameters */
        struct rt_server *server;    /* of ring 0 */
        struct rt_replica replica;
        struct rt_span *spans; /* a layer with parameters each */
        float *params;         /* the server's */
        bool started;          /* it has those that all start from */
        size_t unready;        /* spans of this update whose gradient is not there yet */
        size_t rows;           /* that the gradient is made of */
        uint64_t ended;        /* updates that this node has given its gradient for */
    } with_servers;

    struct { /* what all start from, see initial_state.c */
        enum rt_initial_phase phase;
        struct rt_state_holder holder;       /* of rings 1 and up */
        struct rt_state_initiator initiator; /* of ring 0: */
        uint16_t ring;                       /* whom it gives to */
        size_t tensor, at;                   /* what is next: state tensor, and float of it */
        uint64_t update;                     /* that it is of, once it is here */
    } initial;

    struct rt_group_talk talk;
    double *heard;         /* [rings]: when something last came from there */
    struct rt_wait *waits; /* [rings]: for the node there */
    uint16_t note;         /* what we say of them */
    uint16_t gone;         /* the ring whose link was lost first; UINT16_MAX: none */
    double gone_at;
    struct rt_error why;
    uint16_t lost;
};

/* The number of the node that has our place in a ring. */
uint16_t rt_group_number(const struct rt_group *group, uint16_t ring);

/* ---- group_served.c: see ring/inter_ring.h ---- */
void rt_group_client_begin(struct rt_group *group, uint64_t update, size_t rows);
bool rt_group_client_has(struct rt_group *group);
bool rt_group_client_rest(struct rt_group *group, bool anew);
bool rt_group_can_serve(const struct rt_group *group);
bool rt_group_serve(struct rt_group *group);

/* ---- initial_state.c ---- */
rt_status rt_group_initial_init(struct rt_group *group, struct rt_error *err);
void rt_group_initial_deinit(struct rt_group *group);
/* Goes on giving, or begins to wait; whether all have the same state. */
bool rt_group_initial_go_on(struct rt_group *group);
/* The ring that holds this up; UINT16_MAX: none does. */
uint16_t rt_group_initial_wait_for(const struct rt_group *group);
/* Whether the event is about it; examples come on the same channel. */
bool rt_group_initial_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err);

#endif
