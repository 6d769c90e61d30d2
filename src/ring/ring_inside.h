/* The inside of struct rt_ring, for the files that implement it. */
#ifndef RT_RING_RING_INSIDE_H
#define RT_RING_RING_INSIDE_H

#include "control/coordinator.h"
#include "ring/flow.h"
#include "ring/ring.h"

struct rt_ring {
    struct rt_ring_settings settings;
    const struct rt_job *job;
    struct rt_flow flow;
    struct rt_stage *head, *tail; /* tail NULL: the master has only the first layers */
    size_t tensors;               /* state tensors that every stage has */
    uint64_t moved; /* floats that came from other nodes or were stored there, collecting apart */

    /* Updates that have begun: update u is updates[u % room]. */
    struct rt_ring_update *updates;
    size_t room;
    uint64_t begun, returned; /* how many */
    const uint32_t *examples; /* of the one that begun last */
    uint32_t epoch;
    struct rt_inflight **micros; /* micro-batch m of those under way is in micros[m % head in-flight slots] */
    bool stepping, draining;
    double last_end; /* of the update returned last */

    uint16_t marker;      /* SNAPSHOT, STOP or PULL, to be sent; 0: none */
    bool rests;           /* a PULL has been all round */
    size_t snapshots_out; /* that have not been all round yet */

    struct {                                /* an evaluation under way */
        const struct rt_forward_pass *pass; /* NULL: none */
        size_t examples, started, done;
        rt_status status;
        struct rt_error error;
    } evaluation;

    struct rt_communicator comm;        /* the master, and all other nodes as one */
    struct rt_coordinator *coordinator; /* NULL: the master is alone */
    struct {                            /* state tensors that are collected */
        bool active;
        size_t tensor, end;
        size_t node; /* whose floats of the tensor are under way; 0: it begins */
        rt_state_write write;
        void *user;
        rt_status status;
        struct rt_error error;
    } collect;
    struct { /* rt_ring_wait */
        bool (*test)(void *user);
        void *user;
        double until;
    } wait;
    float *scratch; /* RT_STATE_PIECE */

    struct rt_metrics_row *rows;
    struct rt_metrics_row own_row; /* the master's, as of the question */
    bool rows_here, rows_asked;    /* rows are those that came last; new ones are on their way */
    double rows_when;
    bool stopped;
};

/* Runs the engine; when a link was lost, finds the node that caused it. */
rt_status rt_ring_run(struct rt_ring *ring, bool (*done)(void *ring), struct rt_error *err);
bool rt_ring_stop_asked(const struct rt_ring *ring);
/* RT_OK when no update is under way. */
rt_status rt_ring_check_quiet(const struct rt_ring *ring, struct rt_error *err);

/* ---- ring_pass.c ---- */
rt_status rt_ring_start_evaluation(struct rt_ring *ring, struct rt_inflight *inflight, bool *started);
rt_status rt_ring_take_output(void *self, const struct rt_message *message, size_t rows, const float *y,
                              struct rt_error *err);

/* Takes the rows that have come, if they have. */
void rt_ring_take_metrics(struct rt_ring *ring);

/* ---- ring_state.c ---- */
/* Floats of a state tensor that a node holds; *first: the first of them in the whole model. */
size_t rt_ring_held(const struct rt_ring *ring, size_t tensor, size_t node, size_t *first);
/* Carries out an order, and waits for it. */
rt_status rt_ring_carry_out(struct rt_ring *ring, const struct rt_state_order *order, struct rt_error *err);
/* What was stored is the state after so many updates, here and on all other nodes. stored: [nodes] floats on
 * each.
 */
rt_status rt_ring_declare(struct rt_ring *ring, uint64_t update, const size_t *stored, struct rt_error *err);
/* Goes on collecting, if there is anything to collect. */
void rt_ring_collect_go_on(struct rt_ring *ring);

#endif
