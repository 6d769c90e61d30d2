/*
 * Inside the network in memory. Its state is touched only by the one program that runs (it has the baton), so
 * it needs no lock; the exception is rt_endpoint_wake.
 *
 * The parts: an agenda of what happens when (agenda.c); links (link.c), on which frames wait,
 * leave and arrive (frame.c); what no longer gets through, and when that is noticed (outage.c); hosts that
 * are killed, stopped and started again (host.c); lists of such faults (fault.c); the baton, which advances
 * time when all wait (baton.c); endpoints and their events (network.c).
 */
#ifndef RT_SIM_NETWORK_INSIDE_H
#define RT_SIM_NETWORK_INSIDE_H

#include "net/silence.h"
#include "sim/network.h"
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* ---- the agenda ---- */

enum rt_mem_kind {
    RT_MEM_TIMER,   /* a wait or sleep of a node is over */
    RT_MEM_LEAVE,   /* the frame that occupies a side's link has left */
    RT_MEM_ARRIVE,  /* the first frame on its way to a side, on a channel, is there */
    RT_MEM_OPEN,    /* the request to connect, or the answer to it, is there */
    RT_MEM_CLOSE,   /* the news that the link is dead is there */
    RT_MEM_GIVE_UP, /* connecting has taken too long */
    RT_MEM_SILENCE, /* the peer has not been heard of for too long */
    RT_MEM_RESUME,  /* what the peer sends again after an outage gets through */
    RT_MEM_THAW,    /* the pause of a node is over */
    RT_MEM_START,   /* a program begins in place of one that was killed */
    RT_MEM_FAULT,   /* a fault of a list begins, */
    RT_MEM_REPAIR   /* and ends */
};

/* A future event. It is part of its object, so the agenda needs no memory of its own but one pointer each. */
struct rt_mem_item {
    double at;
    uint64_t sequence; /* decides between items of the same time: the first noted comes first */
    size_t slot;       /* its index in the agenda, from 1; 0: not on it */
    enum rt_mem_kind kind;
    unsigned channel;
    void *owner; /* the node, side or fault it happens to */
};

struct rt_mem_agenda {
    struct rt_mem_item **items; /* a binary heap; items[0] is not used */
    size_t count, promised, room;
    uint64_t sequence;
};

/* Reserves room for so many more items, until they are given back: adding then cannot fail. */
rt_status rt_mem_agenda_promise(struct rt_mem_agenda *agenda, size_t items, struct rt_error *err);
void rt_mem_agenda_release(struct rt_mem_agenda *agenda, size_t items);
void rt_mem_agenda_add(struct rt_mem_agenda *agenda, struct rt_mem_item *item, double at); /* or moves it */
void rt_mem_agenda_remove(struct rt_mem_agenda *agenda, struct rt_mem_item *item); /* not on it: fine */

static inline struct rt_mem_item *rt_mem_agenda_first(const struct rt_mem_agenda *agenda) {
    return agenda->count ? agenda->items[1] : NULL;
}

/* ---- links ---- */

struct rt_mem_sends {
    struct rt_send *first, *last;
};

struct rt_mem_receives {
    struct rt_receive *first, *last;
};

struct rt_mem_channel {
    struct rt_mem_sends waiting;    /* to leave */
    struct rt_mem_receives posted;  /* for frames that have not begun to travel */
    struct rt_mem_receives unheard; /* the same, but an outage keeps the peer from knowing of them */
    struct rt_mem_receives coming;  /* they hold frames that have left and not arrived */
    struct rt_mem_item arrival;     /* of the first of these */
    double last;                    /* the arrival of the last of them: no frame may overtake it */
};

enum rt_mem_state {
    RT_MEM_HIDDEN,     /* the request to connect has not arrived: this side does not know of the link yet */
    RT_MEM_CALLING,    /* it has arrived, and the program does not listen yet */
    RT_MEM_CONNECTING, /* asked, not answered */
    RT_MEM_LIVE,
    RT_MEM_DEAD /* CLOSED was said; the owner has yet to close */
};

/* One side of a link; the other is its peer. */
struct rt_mem_side {
    struct rt_link link; /* first: a link is its side */
    struct rt_mem_node *node;
    size_t to;                /* the index of the other endpoint */
    struct rt_mem_side *peer; /* NULL once that is freed */
    enum rt_mem_state state;
    struct rt_mem_channel channels[RT_CHANNELS];
    struct rt_send *leaving; /* the frame that occupies the link */
    struct rt_receive *into; /* of the peer, for that frame; NULL when the peer is dead */
    double travel;           /* from leaving to arriving, of that frame */
    struct rt_mem_item leave, opening, closing, giving_up, silence, resume;
    struct rt_error why; /* it closes */
    double opened;       /* when it was opened, and asked for before that */
    /* Outages (outage.c). */
    double deaf_from;         /* from then on nothing more comes from the peer; INFINITY: all does */
    double outage;            /* when that began; INFINITY: there is none */
    bool answered;            /* the answer to the request to connect is held up, */
    bool untold;              /* and so is the news that the peer has ended the link */
    size_t held;              /* bytes that are held up, or that a stopped peer has not read */
    bool quiet;               /* the peer's heartbeats have stopped: */
    double heard;             /* when the last one came, */
    double bound;             /* how long that may last, */
    struct rt_heartbeat last; /* and what it said */
    struct rt_mem_side *before, *after; /* in a list of the node */
};

/* ---- endpoints and the net ---- */

struct rt_mem_event {
    enum rt_event_kind kind;
    struct rt_mem_side *side;
    void *operation; /* the send or receive */
};

enum rt_mem_node_state {
    RT_MEM_IDLE, /* outside a run */
    RT_MEM_READY,
    RT_MEM_RUNNING,
    RT_MEM_WAITING,
    RT_MEM_SLEEPING,
    RT_MEM_UNBORN, /* its program is still to begin, in place of one that was killed */
    RT_MEM_ENDED   /* its program has returned */
};

struct rt_mem_node {
    struct rt_endpoint endpoint; /* first: an endpoint is its node */
    struct rt_memnet *net;
    size_t index; /* of its host */
    size_t slot;  /* among all nodes */
    enum rt_mem_node_state state;
    bool listening, over; /* over: killed, or the run has failed */
    bool threaded;        /* its thread is to be joined */
    bool again;           /* in place of one that was killed */
    bool attended;        /* see rt_endpoint_attend */
    bool paused;          /* nothing of it runs, */
    double shortest;      /* for which it might be silent then */
    double paused_at;     /* since then */
    double late, late_at; /* how late its heartbeats were, and when */
    double measures;      /* since when it knows its round trips: it may have been stopped before */
    struct rt_mem_item thaw, start;
    double ahead;               /* its own time, once it is over */
    double computed;            /* by its processor's clock */
    double freezes, thaws;      /* when its program hangs; 0: it does not */
    double freezes_every;       /* and again so many seconds later; 0: once */
    double pretends;            /* since when its heartbeats lie; 0: they do not */
    uint16_t note;              /* that they carry */
    struct rt_mem_item timer;   /* of its wait or sleep */
    struct rt_mem_side *sides;  /* its links */
    struct rt_mem_side *calls;  /* links to be, for when it listens */
    struct rt_mem_event *queue; /* a ring of events not taken; room is a power of two */
    size_t first, count, room;
    atomic_bool woken;
    sem_t turn; /* posted when it gets the baton */
    pthread_t thread;
};

struct rt_mem_fault;

struct rt_memnet {
    struct rt_memnet_settings settings;
    struct rt_silence_terms silence;
    size_t count;               /* hosts */
    struct rt_mem_node **hosts; /* the node at each now */
    struct rt_mem_node **nodes; /* all, those that were killed too */
    size_t node_count, node_room;
    uint16_t *cuts;              /* count x count: reasons why nothing passes from one to another */
    struct rt_mem_fault *faults; /* that were given as lists */
    double now, limit;
    struct rt_mem_agenda agenda;
    uint64_t drawn;              /* random delays drawn so far */
    struct rt_mem_node *running; /* the one with the baton; NULL outside a run */
    atomic_bool wakes;           /* some node was woken since this was last looked at */
    bool failed;
    struct rt_error error;            /* why */
    sem_t done;                       /* posted when the last program has returned */
    rt_memnet_program program, again; /* again: of hosts that are started again */
    void *user, *again_user;
};

/* network.c */
void rt_mem_push(struct rt_mem_node *node, enum rt_event_kind kind, struct rt_mem_side *side,
                 void *operation);
bool rt_mem_take(struct rt_mem_node *node, struct rt_event *event);
void rt_mem_forget(struct rt_mem_node *node, const struct rt_mem_side *side); /* its events */

rt_status rt_mem_make_node(struct rt_memnet *net, size_t index, struct rt_mem_node **made,
                           struct rt_error *err);
struct rt_heartbeat rt_mem_heartbeat_of(const struct rt_mem_node *node);

/* baton.c */
void rt_mem_fail(struct rt_memnet *net, rt_status status, const char *format, ...) RT_PRINTF(3, 4);
void rt_mem_over(struct rt_mem_node *node, const char *why);
void rt_mem_rouse(struct rt_mem_node *node); /* it waits or sleeps no longer */
bool rt_mem_start_thread(struct rt_mem_node *node);
bool rt_mem_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event);
void rt_mem_sleep(struct rt_endpoint *endpoint, double until);
void rt_mem_wake(struct rt_endpoint *endpoint);
double rt_mem_now(struct rt_endpoint *endpoint);

/* link.c */
rt_status rt_mem_connect(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                         struct rt_link **link, struct rt_error *err);
void rt_mem_close(struct rt_link *link);
void rt_mem_answer_calls(struct rt_mem_node *node); /* it listens now */
void rt_mem_hand_calls(struct rt_mem_node *from, struct rt_mem_node *to);
void rt_mem_ask_again(struct rt_mem_side *near); /* to connect; the way is open again */
void rt_mem_die(struct rt_mem_side *side, const char *format, ...) RT_PRINTF(2, 3);
void rt_mem_tell(struct rt_mem_side *side, const char *what); /* the peer learns of its end: "closed ..." */
void rt_mem_happen(struct rt_mem_item *item);                 /* to a side; the item is off the agenda */

static inline bool rt_mem_is_unknown(const struct rt_mem_side *side) {
    return side->state == RT_MEM_HIDDEN || side->state == RT_MEM_CALLING;
}

/* outage.c */
void rt_mem_hush(struct rt_mem_side *side, double last); /* its peer sends no heartbeat after that */
void rt_mem_hear(struct rt_mem_side *side);              /* its peer does so again */
void rt_mem_resume(struct rt_mem_side *side);
void rt_mem_silent(struct rt_mem_side *side);                /* for longer than it may be */
void rt_mem_wake_up(struct rt_mem_side *side, bool stalled); /* its own program runs again */
double rt_mem_shortest_bound(const struct rt_mem_node *node, double at);

/* host.c */
void rt_mem_thaw(struct rt_mem_node *node);
void rt_mem_start(struct rt_mem_node *node);

/* fault.c */
void rt_mem_fault(struct rt_mem_fault *fault, bool begins);
void rt_mem_free_faults(struct rt_memnet *net);

/* frame.c */
void rt_mem_send(struct rt_link *link, struct rt_send *send);
void rt_mem_receive(struct rt_link *link, struct rt_receive *receive);
void rt_mem_transmit(struct rt_mem_side *side); /* lets frames begin to leave while the link is free */
void rt_mem_leave(struct rt_mem_side *side);    /* the one that occupied the link has left */
void rt_mem_arrive(struct rt_mem_side *side, struct rt_mem_channel *channel);
void rt_mem_release(struct rt_mem_side *side); /* what was held up is on its way to it */
/* How long something takes from one host to another, without random delay. */
double rt_mem_latency(const struct rt_memnet *net, size_t from, size_t to, double at, double *bandwidth,
                      double *random_delay);
/* How long something takes to the peer, after it has left, and the speed at which it leaves. */
double rt_mem_draw_travel(const struct rt_mem_side *side, double *bandwidth);

static inline struct rt_memnet *rt_mem_net_of(const struct rt_mem_side *side) {
    return side->node->net;
}

static inline void rt_mem_plan(struct rt_mem_side *side, struct rt_mem_item *item, double at) {
    rt_mem_agenda_add(&rt_mem_net_of(side)->agenda, item, at);
}

static inline void rt_mem_unplan(struct rt_mem_side *side, struct rt_mem_item *item) {
    rt_mem_agenda_remove(&rt_mem_net_of(side)->agenda, item);
}

/* Whether nothing passes, in this direction, or in one of the two. */
static inline bool rt_mem_is_cut(const struct rt_memnet *net, size_t from, size_t to) {
    return net->cuts[from * net->count + to] > 0;
}

static inline bool rt_mem_is_parted(const struct rt_mem_side *side) {
    const struct rt_memnet *net = rt_mem_net_of(side);
    return rt_mem_is_cut(net, side->node->index, side->to) || rt_mem_is_cut(net, side->to, side->node->index);
}

static inline bool rt_mem_is_deaf(const struct rt_mem_side *side) {
    return rt_mem_net_of(side)->now >= side->deaf_from;
}

enum {
    RT_MEM_WINDOW = 256 << 10
}; /* bytes that the systems of two hosts take for a program that does not read */

/* Whether what this side sends is held by the systems of the two hosts at present. */
static inline bool rt_mem_is_held(const struct rt_mem_side *side) {
    return rt_mem_is_deaf(side->peer) || side->peer->node->paused;
}

static inline bool rt_mem_is_alive(const struct rt_mem_side *side) {
    return side && (side->state == RT_MEM_LIVE || side->state == RT_MEM_CONNECTING);
}

#endif
