/*
 * The parts of the TCP transport, shared by its own files only.
 *
 * Threads: the owner's thread and the network thread share only the fields marked "shared", under the
 * endpoint's mutex, which is held briefly; all else of a link and its connections belongs to the network
 * thread. The owner posts, and wakes the network thread through a pipe; the network thread hands back what
 * is done, and wakes the owner through a condition. While the owner attends (rt_endpoint_attend) the
 * network thread stands aside, and the owner may use its fields.
 */
#ifndef RT_NET_TCP_PARTS_H
#define RT_NET_TCP_PARTS_H

#include "net/frame.h"
#include "net/silence.h"
#include "net/tcp.h"
#include "net/tcp_owner.h"
#include "net/tcp_resolve.h"
#include "net/tcp_stream.h"
#include "net/tls.h"
#include <poll.h>
#include <pthread.h>

/* A link is two connections. */
enum rt_lane { RT_LANE_CONTROL, RT_LANE_DATA, RT_LANES };

enum {
    RT_HALF_OPEN =
        64, /* connections that have not identified their link yet; above this the oldest is closed */
    RT_LINGERING = 256,   /* connections that are ending; beyond, they end abruptly */
    RT_FEW_LINGERING = 8, /* of more it is looked only now and then whether they have ended */
    RT_CHUNK = 256 << 10, /* bytes per system call: they stay in the cache
                             between the checksum and the copy */
    RT_BUDGET = 1 << 20,  /* bytes moved by one connection before the others have their turn */
    RT_IN_ROOM = 512,     /* read ahead: starts of frames, small frames */
    RT_REFUSALS_KEPT = 8, /* refusals that the owner has not heard of yet; further ones go untold */
    /* frames of our own at once: credits and returns for each channel, a heartbeat and the answer to
     * others, what is about cross-memory attach
     */
    RT_OWN_BYTES = (2 * RT_CHANNELS + 4) * RT_FRAME_BYTES + RT_OFFER_BYTES + RT_FRAME_TAIL_BYTES,
    RT_FRONT_BYTES = RT_FRAME_BYTES + RT_HEAD_ROOM + RT_CMA_OFFER_BYTES,
};

struct rt_send_queue {
    struct rt_send *first, *last;
};

struct rt_receive_queue {
    struct rt_receive *first, *last;
};

enum rt_connection_state {
    RT_CONNECTION_CONNECTING,
    RT_CONNECTION_SECURING, /* the TLS handshake */
    RT_CONNECTION_GREETING, /* preambles */
    RT_CONNECTION_GREETED,  /* waits for the link's other connection */
    RT_CONNECTION_OPEN,
    RT_CONNECTION_LINGERING, /* we have said all; waits for the other side to close, so that it hears it */
    RT_CONNECTION_DEAD,      /* freed at the end of the round */
};

/* What is being written: one frame with a body, or a few small ones of our own. */
struct rt_tcp_output {
    struct rt_send *send; /* NULL: ours */
    bool lent;            /* the send is done when the loan is returned */
    uint8_t front[RT_OWN_BYTES > RT_FRONT_BYTES ? RT_OWN_BYTES : RT_FRONT_BYTES];
    uint8_t tail[RT_FRAME_TAIL_BYTES];
    struct iovec parts[RT_PIECES + 2];
    size_t total, sent; /* total 0: nothing */
    size_t sealed;      /* bytes that the checksum has seen; total: it is complete */
    uint32_t crc;
    bool blocked; /* the system takes no more; poll tells when */
    bool broken;  /* nor ever again; what is still to be read tells why */
};

/* What is being read. */
struct rt_tcp_input {
    uint8_t ahead[RT_IN_ROOM];
    size_t from, to; /* the part of it that holds bytes */
    bool in_frame;
    struct rt_frame frame;
    struct rt_receive *receive;
    size_t done;    /* of head, body or loan, and tail */
    size_t fetched; /* of a body that is lent */
    uint32_t crc;
    uint8_t offer[RT_CMA_OFFER_BYTES];
    uint8_t tail[RT_FRAME_TAIL_BYTES];
    double began; /* when the frame's first byte came, where a slower network is emulated */
    bool more;    /* stopped for the budget */
};

struct rt_connection {
    struct rt_tcp *tcp;
    struct rt_tcp_link *link;   /* NULL: not yet part of one */
    struct rt_connection *next; /* of the list it is in */
    enum rt_connection_state state;
    enum rt_lane lane;
    bool initiator;
    bool greeted_out; /* our preamble is on its way */
    bool ended;       /* there is nothing more to be read */
    int connect_error;
    double deadline; /* until it is open; for lingering */
    uint8_t token[RT_TOKEN_BYTES];
    char peer[80];
    struct rt_stream stream;
    struct rt_tcp_output out;
    struct rt_tcp_input in;
};

enum rt_link_state {
    RT_LINK_RESOLVING,
    RT_LINK_TRYING,
    RT_LINK_PAUSING, /* between two attempts to connect */
    RT_LINK_UP,
    RT_LINK_ENDING, /* the peer has ended it; what is still in the connections is read first */
    RT_LINK_DEAD
};

/* For an emulated network, see tcp_shape.c. */
struct rt_tcp_shape {
    double bandwidth, latency;
    double out_free, in_free; /* when what was sent has left, and what was received has arrived */
    bool pressed;             /* something waits for out_free */
    struct rt_tcp_link *last; /* the last that wrote; may be gone */
};

enum { RT_LATE_CREDITS = 32 };
struct rt_late_credits {
    struct rt_late_credit {
        double at;
        uint32_t count;
    } entry[RT_LATE_CREDITS];
    size_t first, count;
    uint32_t sum;
};

/* Lent and borrowed memory of a link; the network thread's. */
struct rt_cma_state {
    bool willing;                       /* the peer is on this machine, and so on */
    struct rt_owner owner;              /* of the other end of the control connection */
    bool begins;                        /* makes the first offer */
    bool offer_due, agree_due;          /* frames to be sent */
    bool offered, answered;             /* we have made our offer; the peer has */
    bool borrows, lends;                /* we can read its memory; it can read ours */
    struct rt_offer ours, peer;         /* ours.challenge is what it has to answer */
    uint8_t answer[RT_CHALLENGE_BYTES]; /* to its challenge: the peer reads this, and discards what it read if
                                           it is no longer there */
    struct rt_receive room;             /* for an offer */
    struct rt_send_queue
        waiting[RT_CHANNELS];  /* the first is lent; behind it other loans, and frames that were sent */
    size_t offers, lent_bytes; /* not yet returned */
    uint32_t lent_count[RT_CHANNELS], given_back[RT_CHANNELS]; /* by the peer */
    uint32_t taken[RT_CHANNELS], said[RT_LANES][RT_CHANNELS];  /* by us; as told on each connection */
};

struct rt_tcp_link {
    struct rt_link base;

    /* shared */
    struct rt_send_queue posted_sends, done_sends;
    struct rt_receive_queue posted_receives, done_receives;
    bool asked_to_close, gone; /* by the owner; the network thread has forgotten it */
    bool over;                 /* the owner is told that it is closed: posts are of no use */
    const char *misuse;        /* a post of the owner's that cannot be; NULL: none */
    bool tell_open, tell_closed, ready;
    enum rt_event_kind open_kind;
    struct rt_error reason;
    uint64_t wire_sent, wire_received;
    /* The peer's last heartbeat: 1, its note, its age, in 16, 16 and 32 bits; 0: none. And its arrival, in
     * milliseconds of the clock: written after the heartbeat and read before it, so it is never too
     * recent. */
    atomic_uint_least64_t heartbeat, heartbeat_at;
    struct rt_tcp_link *next_ready;

    /* the network thread's */
    struct rt_tcp_link *next;
    enum rt_link_state state;
    struct rt_connection *lanes[RT_LANES];
    struct rt_send_queue sends[RT_CHANNELS];
    struct rt_receive_queue receives[RT_CHANNELS];
    uint32_t credits[RT_CHANNELS]; /* frames that the peer has room for */
    uint32_t granted[RT_CHANNELS]; /* frames that the peer may send */
    uint32_t to_grant[RT_CHANNELS];
    bool lost[RT_CHANNELS]; /* a frame; later ones were not sent either, and are not reported */
    bool ping_due, echo_due;
    bool timing;    /* the answer to one heartbeat is awaited: */
    uint32_t timed; /* its number, and when it was sent */
    double timed_at;
    uint32_t pings_sent, pings_heard, echoed; /* echoed: the last that the peer has answered */
    struct rt_silence silence;                /* how long the peer may be silent */
    bool closing;                             /* asked_to_close and misuse, as of the last look */
    bool pushed_out;                          /* before the owner was told of it: it never is */
    const char *wrong;
    double heard; /* when the last byte came */
    double ending_until;
    uint64_t closed_sent, closed_received; /* by connections that are gone */
    struct rt_cma_state cma;
    struct { /* what is here and has not arrived yet */
        struct rt_receive_queue receives[RT_LANES];
        struct rt_late_credits credits[RT_CHANNELS];
    } late;

    /* while connecting */
    struct rt_resolve *resolve;
    const struct addrinfo *address;
    double until, retry_at, pause;
    double refused;       /* until then it is tried again where nothing listens */
    bool refuses;         /* every address that was tried in this round has said so */
    struct rt_error last; /* why the last attempt failed */
};

/* The owner of an entry of the list for poll(). */
struct rt_tcp_polled {
    struct rt_connection *connection;
};

/* Connections refused for the same reason, when there are many: the owner is told of the first at once, and
 * of later ones together. */
struct rt_tcp_crowd {
    double again; /* when the next report may be made */
    size_t untold;
    struct rt_error last; /* the message about the last of them */
};

struct rt_tcp {
    struct rt_endpoint base;
    struct rt_silence_terms made; /* with these, */
    size_t max_links;
    bool insecure, own_user;
    enum rt_cma cma;
    struct rt_tls *tls; /* NULL: not encrypted */
    pthread_t thread;
    int wake[2];

    /* shared */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for the owner */
    pthread_cond_t resumed; /* for the network thread, when the owner no longer attends */
    bool attended;          /* the owner's thread does what is the network thread's */
    bool parked;            /* which stands aside for it */
    bool orders, asleep;    /* there is something for the network thread; it is in poll() */
    bool stop, woken;
    int new_listener; /* -1: none */
    struct rt_tcp_link *new_links;
    struct rt_tcp_link *first_ready, *last_ready;
    struct rt_error refusals[RT_REFUSALS_KEPT];
    size_t first_refusal, refusal_count;

    /* the network thread's */
    int listener;
    double listen_again; /* when the system had no room for another connection */
    struct rt_tcp_link *links;
    size_t link_count;
    struct rt_connection *half_open, *lingering, *dead;
    size_t half_open_count, lingering_count, connection_count;
    double linger_look;                   /* the next look at connections that are ending */
    struct rt_tcp_crowd pushed_out, late; /* half-open ones closed for lack of room; for lateness */
    struct pollfd *polled;
    struct rt_tcp_polled *polled_whose;
    size_t poll_room;
    struct rt_silence_terms silence; /* and these hold now */
    double next_beat;
    double served;         /* when the sockets were last looked at */
    double lateness;       /* of our heartbeats of late, see net/silence.h */
    double shortest_bound; /* of all links, as of the last heartbeat */
    bool stalled;          /* this program did not run for a while; not yet taken into account */
    double awake_by; /* when it wanted to be awake again, on the clock that counts sleep as well; 0: never */
    double owner_cpu,
        owner_cpu_at; /* the CPU time of the owner's thread while it attends, and when it was read */
    struct rt_tcp_shape shape;
};

static inline void rt_send_push(struct rt_send_queue *queue, struct rt_send *send) {
    send->next = NULL;
    if (queue->first)
        queue->last->next = send;
    else
        queue->first = send;
    queue->last = send;
}

static inline struct rt_send *rt_send_pop(struct rt_send_queue *queue) {
    struct rt_send *send = queue->first;
    queue->first = send->next;
    return send;
}

static inline void rt_receive_push(struct rt_receive_queue *queue, struct rt_receive *receive) {
    receive->next = NULL;
    if (queue->first)
        queue->last->next = receive;
    else
        queue->first = receive;
    queue->last = receive;
}

static inline struct rt_receive *rt_receive_pop(struct rt_receive_queue *queue) {
    struct rt_receive *receive = queue->first;
    queue->first = receive->next;
    return receive;
}

/* ---- tcp_events.c: from the network thread to the owner ---- */
/* Detects that this program did not run when it should have. That time is not held against the owner's
 * thread; and if it was so long that peers may have given us up, the owner can know why links are closed. So
 * this precedes every heartbeat and every event. */
void rt_tcp_look_for_stall(struct rt_tcp *tcp);
/* A round on the owner's thread, which attends. */
void rt_tcp_round_by_owner(struct rt_tcp *tcp, double until);
void rt_tcp_tell_open(struct rt_tcp_link *link, enum rt_event_kind kind);
void rt_tcp_tell_sent(struct rt_tcp_link *link, struct rt_send *send);
void rt_tcp_tell_received(struct rt_tcp_link *link, struct rt_receive *receive);
void rt_tcp_tell_closed(struct rt_tcp_link *link, const struct rt_error *reason);
void rt_tcp_tell_refused(struct rt_tcp *tcp, const struct rt_error *reason);
bool rt_tcp_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event);
/* With the mutex held: drops the events of this link that the owner has not taken. */
void rt_tcp_untell(struct rt_tcp_link *link);

/* ---- tcp_connection.c: one connection, from its socket to its end ---- */
/* Takes ownership of the socket, also on failure. */
rt_status rt_connection_create(struct rt_tcp *tcp, int fd, bool initiator, enum rt_lane lane,
                               struct rt_connection **connection, struct rt_error *err);
/* Continues until the preambles are exchanged; RT_STREAM_OK: they are. */
enum rt_stream_result rt_connection_greet(struct rt_connection *connection, struct rt_error *err);
/* Sends a refusal and ends. */
void rt_connection_refuse(struct rt_connection *connection, enum rt_refusal refusal);
/* Ends it: bytes written before still arrive. The connection must be in no other list. */
void rt_connection_end(struct rt_connection *connection);
void rt_connection_linger(struct rt_connection *connection, double now); /* for a lingering one: a look */
void rt_connection_kill(struct rt_connection *connection);               /* ends a lingering one */
void rt_connection_bury(struct rt_tcp *tcp);                             /* frees the dead */

/* ---- tcp_output.c, tcp_input.c: frames to bytes and back ---- */
void rt_tcp_output_begin(struct rt_tcp_output *out, struct rt_send *send, enum rt_frame_body body);
void rt_tcp_output_begin_own(struct rt_tcp_output *out, const uint8_t *bytes, size_t count);
/* Writes what it can; RT_STREAM_OK: everything. */
enum rt_stream_result rt_tcp_output_write(struct rt_connection *connection, size_t *budget,
                                          struct rt_error *err);
/* Reads and handles frames until no bytes are left, or the budget is spent. */
enum rt_stream_result rt_tcp_input_read(struct rt_connection *connection, struct rt_error *err);

/* ---- tcp_link.c: the rules of a link ---- */
rt_status rt_tcp_link_create(struct rt_tcp *tcp, const char *peer, struct rt_tcp_link **link,
                             struct rt_error *err);
void rt_tcp_link_take_posts(struct rt_tcp_link *link); /* with the mutex held */
void rt_tcp_link_up(struct rt_tcp_link *link, enum rt_event_kind kind);
void rt_tcp_link_write(struct rt_tcp_link *link);
void rt_tcp_link_read(struct rt_tcp_link *link, enum rt_lane lane);
bool rt_tcp_link_has_output(const struct rt_tcp_link *link, enum rt_lane lane);
/* Called while reading: the destination of a frame, a complete frame, credit, a heartbeat. */
rt_status rt_tcp_link_frame(struct rt_connection *connection, const struct rt_frame *frame,
                            struct rt_receive **receive, struct rt_error *err);
/* A frame will not come: the peer has ended the link. Frames sent before on other channels still arrive. */
void rt_tcp_link_lose(struct rt_tcp_link *link, unsigned channel, const struct rt_error *reason);
/* Ends it and tells the owner why, without naming the peer; end reports nothing. */
void rt_tcp_link_fail(struct rt_tcp_link *link, const struct rt_error *reason);
void rt_tcp_link_end(struct rt_tcp_link *link);
void rt_tcp_link_drop_lanes(struct rt_tcp_link *link);        /* ends its connections */
void rt_tcp_link_check(struct rt_tcp_link *link, double now); /* silence, and the end of ending */
struct rt_heartbeat rt_tcp_heartbeat(const struct rt_link *link);

/* ---- tcp_cma.c: bodies read from the sender's memory ---- */
void rt_cma_begin(struct rt_tcp_link *link, bool initiator); /* the link is up */
void rt_cma_end(struct rt_tcp_link *link);                   /* nothing more is lent, nor was */
bool rt_cma_suits(const struct rt_tcp_link *link, const struct rt_send *send);
bool rt_cma_is_full(const struct rt_tcp_link *link); /* no further loan until one is returned */
/* A frame was written: reports it as sent, now or when its loan is returned. */
void rt_cma_written(struct rt_tcp_link *link, struct rt_send *send, bool lent);
bool rt_cma_has_frames(const struct rt_tcp_link *link, enum rt_lane lane);
size_t rt_cma_frames(struct rt_tcp_link *link, enum rt_lane lane, uint8_t *bytes);
/* Called while reading: a frame about cross-memory attach, an offer, a body to be fetched. */
rt_status rt_cma_frame(struct rt_tcp_link *link, const struct rt_frame *frame, struct rt_error *err);
rt_status rt_cma_offered(struct rt_tcp_link *link, struct rt_error *err);
/* Fetches as much as the budget allows; fetched: so far. RT_IO: the peer has ended the link. */
rt_status rt_cma_fetch(struct rt_tcp_link *link, const uint8_t offer[RT_CMA_OFFER_BYTES],
                       struct rt_receive *receive, uint32_t bytes, size_t *fetched, size_t *budget,
                       struct rt_error *err);

/* ---- tcp_shape.c: a slower network ---- */
bool rt_tcp_is_shaped(const struct rt_tcp *tcp);
bool rt_shape_is_shut(const struct rt_tcp *tcp, enum rt_lane lane, double now); /* nothing can be written */
size_t rt_shape_room(const struct rt_connection *connection); /* bytes that may be written now */
void rt_shape_wrote(struct rt_connection *connection, size_t bytes);
double rt_shape_next_write(const struct rt_tcp *tcp, double now); /* when it can be; INFINITY: now */
/* A frame is complete: reports it to the owner, now or at its emulated arrival. */
void rt_shape_received(struct rt_connection *connection, struct rt_receive *receive, double began);
/* false: it takes effect at once. */
bool rt_shape_credit(struct rt_tcp_link *link, unsigned channel, uint32_t count);
uint32_t rt_shape_credits_coming(const struct rt_tcp_link *link, unsigned channel);
/* Releases what has arrived by now; returns the next arrival. INFINITY: releases everything. */
double rt_shape_release(struct rt_tcp_link *link, double now);
void rt_shape_write_links(struct rt_tcp *tcp); /* all links, in turns */

/* ---- tcp_connect.c, tcp_accept.c: making links ---- */
rt_status rt_tcp_connect(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                         struct rt_link **link, struct rt_error *err);
/* Continues connecting; returns the time of the next call. */
double rt_tcp_connect_step(struct rt_tcp_link *link, double now);
void rt_tcp_connect_serve(struct rt_connection *connection); /* poll has something for it */

rt_status rt_tcp_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err);
void rt_tcp_accept(struct rt_tcp *tcp, double now);
void rt_tcp_accept_serve(struct rt_connection *connection);
double rt_tcp_accept_check(struct rt_tcp *tcp,
                           double now); /* drops those that are late; returns the time of the next call */
/* Makes room for one more link when there are max_links: drops the oldest that the owner has not been told
 * of. false: the owner knows them all. */
bool rt_tcp_make_room(struct rt_tcp *tcp);

/* ---- tcp_thread.c ---- */
void *rt_tcp_thread(void *tcp);
/* One round, which ends when the owner has events, at `until` at the latest; false: stop. */
bool rt_tcp_round(struct rt_tcp *tcp, double until);
void rt_tcp_order(struct rt_tcp *tcp); /* with the mutex held: wakes the network thread */
/* Room in the list for poll() for one more connection; without it no connection is made. */
rt_status rt_tcp_reserve(struct rt_tcp *tcp, struct rt_error *err);

/* Starts a thread that takes no signals: they belong to the program. */
int rt_tcp_start_thread(pthread_t *thread, bool detached, void *(*body)(void *), void *argument);

#endif
