/*
 * The engine that every node of a ring runs, the master too. It owns no thread and decides nothing: it takes
 * what has come over the two links, does the first thing that can be done, and sleeps when there is none.
 *
 * A segment is a run of layers with what comes in and goes out of it. A worker has one, between its two
 * links. The master has the first layers, whose inputs come from the data, and the end of the ring, which
 * turns outputs into losses; that one may have layers too (cluster.master_tail). A master that is alone has
 * one segment without links.
 *
 *                 in                                  out
 *   worker        previous                            next
 *   master [0]    the data                            next
 *   master [1]    previous                            the loss
 *   alone         the data                            the loss
 *
 * Messages. Clockwise, to `next`, all in one order on RT_CHANNEL_SECOND: FORWARD, EVALUATE, SNAPSHOT, STOP,
 * and where rings go at their own pace PULL, with RT_FLAG_REST: every node takes the newest parameters from
 * its server, and rests. Anticlockwise, to `previous`, on RT_CHANNEL_FIRST: BACKWARD. Clockwise on the
 * control channel: NORM (flow_norm.c), and what the control plane says, METRICS and ERROR, with the model's
 * state on RT_CHANNEL_BULK: a worker has an agent, the master a coordinator, on the route round the ring
 * (control/route.h).
 *
 * What a clockwise message occupies on a node is an in-flight slot: a slot of the stage, room for the input
 * and, after the forward, for the gradient that will come back. Slots are used in turn, and a receive is
 * posted for one when it is free, so the slots are the credits: a neighbour can send no more than there is
 * room for.
 */
#ifndef RT_RING_FLOW_H
#define RT_RING_FLOW_H

#include "cluster/liveness.h"
#include "cluster/node_names.h"
#include "control/agent.h"
#include "metrics/states.h"
#include "ring/inter_ring.h"
#include "ring/replication.h"
#include <stdatomic.h>

enum rt_inflight_state {
    RT_INFLIGHT_EMPTY,     /* free; where inputs come over a link its receive is posted */
    RT_INFLIGHT_FILLED,    /* a message is here */
    RT_INFLIGHT_FORWARDED, /* its output is on the way; the gradient will come */
    RT_INFLIGHT_GRADIENT,  /* the gradient is here */
    RT_INFLIGHT_RETURNED,  /* the gradient at the input is on its way */
    RT_INFLIGHT_DONE,      /* nothing is left to do; free once its output is sent */
};

struct rt_inflight {
    enum rt_inflight_state state;
    struct rt_message message;
    bool last;    /* micro-batch of its update */
    bool sending; /* its output is being sent */
    size_t rows;
    float *x;
    struct rt_slot *slot; /* NULL where there are no layers */
    struct rt_receive input, gradient;
    struct rt_send output;
};

/* A gradient on its way back. */
struct rt_send_buffer {
    float *floats;
    bool sending;
    struct rt_send send;
};

/* Which micro-batch comes next. */
struct rt_sequence {
    uint64_t micro, update, evaluation;
    size_t part, parts; /* of the update that has begun; part 0: the next begins one */
    uint32_t rows, epoch;
};

struct rt_neighbour {
    struct rt_talk talk;
    uint16_t index;  /* in the ring */
    uint16_t number; /* among all nodes of the run: the same, unless there are other rings */
};

struct rt_segment {
    struct rt_stage *stage;        /* borrowed; NULL: no layers */
    struct rt_neighbour *in, *out; /* NULL: the data, the loss */
    struct rt_shape in_shape, out_shape;
    bool indices_in, indices_out; /* whether indices of examples travel along */
    struct rt_inflight *window;
    size_t count;
    float *memory; /* of x where there are no slots */
    /* In-flight slot number n is window[n % count]. Each counter, ever rising, says how many slots have
     * passed that point: oldest <= weights <= back <= gradient <= forward <= arrived <= posted <= oldest +
     * count. */
    uint64_t oldest, weights, back, gradient, forward, arrived, posted;
    struct rt_sequence next;
    struct rt_send_buffer buffers[RT_FLOW_SEND_BUFFERS];
    size_t buffer_count;
    bool complete;   /* all weight gradients of an update are in, and it is not yet applied */
    bool exchanging; /* complete, but not yet added to those of the other rings */
    /* In an exchange with other rings: its spans, and how many of this update were not given yet. */
    size_t first_span, span_count, unready;
    /* Where parameters come from servers: the update that was begun with, the rows of its batch, and whether
     * they are waited for; the in-flight slot, counted from 1, for which the node is to rest. */
    uint64_t begun;
    size_t batch_rows;
    bool wanting;
    uint64_t rest_asked;
};

struct rt_flow;

/* What the master does where a worker has a neighbour. All are called by the engine's thread. */
struct rt_flow_ends {
    void *self;
    /* Fills the in-flight slot with the next message, if there is one. */
    rt_status (*start)(void *self, struct rt_inflight *inflight, bool *started, struct rt_error *err);
    /* The network's output: of a micro-batch, to be turned into the gradient dy; */
    rt_status (*loss)(void *self, const struct rt_message *message, size_t rows, const float *y, float *dy,
                      struct rt_error *err);
    /* of examples that are only evaluated. */
    rt_status (*output)(void *self, const struct rt_message *message, size_t rows, const float *y,
                        struct rt_error *err);
    /* A SNAPSHOT, STOP or PULL has been all round. */
    void (*back)(void *self, const struct rt_message *message);
    /* Something has come for the coordinator, and was taken in. */
    void (*heard)(void *self);
};

struct rt_flow_settings {
    const struct rt_job *job;
    struct rt_endpoint *endpoint;    /* may be NULL when alone */
    struct rt_link *next, *previous; /* NULL when alone; taken over by rt_flow_create, also on failure */
    uint32_t run;
    uint16_t index, nodes;
    struct rt_node_names names; /* of all nodes of the run */
    const struct rt_pace *pace; /* of the device; NULL: it is not emulated */
    double timeout;             /* seconds; 0: 60 */
    struct rt_flow_ends ends;   /* of the master; zeros on workers */
    /* Told of events that are not of our links; NULL: they are dropped. */
    void (*stray)(void *user, const struct rt_event *event);
    void *user;
    const atomic_int *stop;      /* the node is to end; may be NULL */
    const atomic_bool *recalled; /* the master forms another view: this one is over; may be NULL */
    struct rt_inter_ring inter_ring;
    struct rt_replicas
        *replicas; /* of this node's layers and those of the node before; NULL: there are none */
};

struct rt_flow {
    struct rt_flow_settings settings;
    const struct rt_job *job;
    struct rt_neighbour next, previous;
    struct rt_segment segments[2];
    size_t segment_count;
    /* The control plane's part on this node: of the agent that a worker has, or of the master's coordinator;
     * self NULL: alone. */
    struct rt_engine_part control;
    struct rt_communicator comm;       /* of the ring, for the agent */
    struct rt_agent *agent;            /* of a worker */
    struct rt_replication replication; /* not open: there are no replicas */
    struct rt_state_map state_map;

    struct {        /* clipping by the norm of all gradients, see flow_norm.c */
        bool asked; /* our squares are in a sum that is on its way */
        bool here;  /* a sum has come and waits for us to be ready */
        double sum;
        uint64_t update;
        size_t factors_out; /* the master: factors that are not back yet */
    } norm;

    struct rt_states states;
    bool clocked;        /* they have been started */
    bool timed;          /* training has begun, with the first forward */
    double cpu_start;    /* then */
    double apart_before; /* what had been counted apart by then */
    uint64_t samples;
    double progress;             /* when a neighbour or we ourselves last got something done */
    struct rt_wait waiting;      /* for a neighbour (cluster/liveness.h) */
    uint16_t note;               /* our own note */
    bool idle;                   /* there was nothing to do in the last turn */
    double wake;                 /* latest time that another part asked to be called at; 0: none */
    double replicates;           /* when the replication has something to do; INFINITY: at an event */
    bool starving;               /* the master: the data have nothing yet */
    bool more;                   /* the master: there is more to start than in-flight slots */
    bool ending;                 /* STOP has been sent: links may close */
    struct rt_exchange exchange; /* rings side by side: of its stages; self NULL: they have no parameters */
    uint64_t given;              /* updates that its gradient was given for */
    bool joined;                 /* the state is the one that all rings start from */
    uint16_t lost; /* the number of the node that caused the end (gone, silent, or sent invalid data);
                      RT_NODE_NONE: none known */

    rt_status status;      /* the first failure stays */
    struct rt_error error; /* the reason, without the name of the lost node */
};

/* ---- flow.c: life, events, the loop ---- */

/* flow must stay where it is. deinit also after a failure. */
rt_status rt_flow_init(struct rt_flow *flow, const struct rt_flow_settings *settings, struct rt_error *err);
void rt_flow_deinit(struct rt_flow *flow);

/* Adds a segment. stage NULL: shape is that of what comes in. */
rt_status rt_flow_add(struct rt_flow *flow, struct rt_stage *stage, const struct rt_shape *shape,
                      struct rt_neighbour *in, struct rt_neighbour *out, struct rt_error *err);

/* Works until done says so. Fails for ever once it has failed. */
rt_status rt_flow_run(struct rt_flow *flow, bool (*done)(void *self), void *self, struct rt_error *err);

/* The failure as a whole sentence. Returns flow->status. */
rt_status rt_flow_say(const struct rt_flow *flow, struct rt_error *err);

/* Handles an event after the end of the run: it goes to the talks and to the other rings only. */
void rt_flow_let_pass(struct rt_flow *flow, const struct rt_event *event);

/* Waits until the neighbour has closed its link, so that what was sent to it before has arrived, or has said
 * itself why the run ends; until then at the latest. */
void rt_flow_linger(struct rt_flow *flow, struct rt_neighbour *neighbour, double until);

/* ---- flow_clock.c: time ---- */

/* Longest sleep in seconds: the engine then checks for a stop request. */
#define RT_FLOW_MOST_SLEEP 0.5

/* Marks the beginning and end of an operation for the clocks. What is neither an operation nor waiting
 * (messages, on the master also what its driver does between updates) counts as RT_STATE_ENCODE. */
void rt_flow_enter(struct rt_flow *flow, enum rt_state state);
void rt_flow_leave(struct rt_flow *flow);
/* A forward of an update begins: what comes is training. */
void rt_flow_train(struct rt_flow *flow, uint64_t update);

/* Of a device that is emulated; else NULL. */
struct rt_states *rt_flow_emulated_clock(struct rt_flow *flow);

/* The endpoint's time; the clock's where there is none. */
double rt_flow_now(const struct rt_flow *flow);

void rt_flow_sleep_until(const struct rt_flow *flow, double until);
/* For the heartbeats: this thread is alive. */
void rt_flow_step(const struct rt_flow *flow);
/* On the thread that runs the engine. */
void rt_flow_start_clock(struct rt_flow *flow);

/* ---- hop.c: messages over one link ---- */

/* Posts what is free; checks and takes in what came. */
void rt_segment_post(struct rt_segment *segment, const struct rt_job *job);
rt_status rt_segment_arrived(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                             struct rt_error *err);
rt_status rt_segment_returned(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                              struct rt_error *err);
/* The message of the next micro-batch, and its place in its update; moves the sequence on. */
void rt_sequence_take(struct rt_sequence *next, const struct rt_job *job, const struct rt_message *message,
                      struct rt_inflight *inflight);
/* Sends inflight->message with y (and indices) to the next node. y NULL: the head alone. */
void rt_segment_send(struct rt_flow *flow, struct rt_segment *segment, struct rt_inflight *inflight,
                     const float *y);
void rt_segment_post_gradient(struct rt_segment *segment, struct rt_inflight *inflight);
void rt_segment_send_back(struct rt_flow *flow, struct rt_segment *segment,
                          const struct rt_inflight *inflight, struct rt_send_buffer *buffer);
/* Head and body into a frame; *sending is true until it has been sent. */
void rt_hop_send(struct rt_flow *flow, struct rt_neighbour *to, unsigned channel,
                 const struct rt_message *message, const void *body, size_t bytes, const void *more,
                 size_t more_bytes, struct rt_send *send, bool *sending);

/* ---- flow_work.c: what a node does ---- */

/* Does the first thing that can be done. */
rt_status rt_flow_work(struct rt_flow *flow, bool *worked, struct rt_error *err);
struct rt_inflight *rt_segment_inflight(const struct rt_segment *segment, uint64_t number);
struct rt_send_buffer *rt_segment_send_buffer(struct rt_segment *segment); /* a free one, or NULL */
/* The version of the parameters moves on. */
void rt_segment_apply(struct rt_flow *flow, struct rt_segment *segment, float factor);

/* ---- flow_exchange.c: where there are other rings ---- */

/* When all segments have been added: opens the exchange of their stages, if there are other rings. */
rt_status rt_flow_open_exchange(struct rt_flow *flow, struct rt_error *err);
/* The gradient of the layers from this one on is complete, and is exchanged. 0: of all of them, once for
 * every update, and last. */
void rt_segment_give(struct rt_flow *flow, struct rt_segment *segment, size_t layer);
/* Asks for what the next message in turn needs of the exchange; and whether it has that. */
void rt_segment_prepare_forward(struct rt_flow *flow, struct rt_segment *segment);
bool rt_segment_has_parameters(const struct rt_flow *flow, const struct rt_segment *segment,
                               const struct rt_message *message);
bool rt_segment_rests(const struct rt_segment *segment);
/* The update is complete, here and in the other rings. */
bool rt_segment_is_ready(const struct rt_segment *segment);
/* Goes on with updates whose gradients have been added to those of the other rings. */
rt_status rt_flow_exchange(struct rt_flow *flow, bool *worked, struct rt_error *err);

/* ---- flow_control.c: this node's part of the control plane ---- */
/* A worker's, when it has its segment. */
rt_status rt_flow_open_agent(struct rt_flow *flow, struct rt_error *err);
struct rt_route rt_flow_route(struct rt_flow *flow);
/* Takes in an event of the route; whether it was one. */
bool rt_flow_control_event(struct rt_flow *flow, const struct rt_event *event, rt_status *status,
                           struct rt_error *err);
/* Says and answers what there is to say. */
rt_status rt_flow_control(struct rt_flow *flow, struct rt_error *err);
void rt_flow_row(struct rt_flow *flow, struct rt_metrics_row *row);
/* A worker tells the others why it ends, unless they told it. */
void rt_flow_tell(struct rt_flow *flow);
/* Gives up a neighbour that caused the end, for the reason in err; returns RT_FAILED. */
rt_status rt_flow_lose(struct rt_flow *flow, const struct rt_neighbour *who, struct rt_error *err);

/* ---- flow_norm.c ---- */
rt_status rt_flow_take_norm(struct rt_flow *flow, const struct rt_message *message, struct rt_error *err);
/* Begins a sum, adds to one, applies what follows from it, if that can be done. */
void rt_flow_norm(struct rt_flow *flow, bool *worked);

/* ---- flow_state.c ---- */
/* When all segments have been added: replicas go to the next node and come from the one before, if there are
 * any.
 */
rt_status rt_flow_open_replication(struct rt_flow *flow, struct rt_error *err);
/* A worker's stage as a store of model state. */
struct rt_state_store rt_flow_store(struct rt_flow *flow);
/* Takes images of this node's layers, and begins to replicate them where there are replicas. complete: the
 * newest version whose replicas are all complete. RT_DIVERGED: see rt_stage_snapshot. */
rt_status rt_flow_snapshot(struct rt_flow *flow, uint64_t complete, struct rt_error *err);
/* The parameters of the segment are those after so many updates. */
void rt_segment_set_update(struct rt_segment *segment, uint64_t update);

#endif
