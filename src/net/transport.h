/*
 * Moving bytes between machines. Nothing here knows what the bytes mean.
 *
 * An endpoint is one program's place on the network; a link joins two endpoints. A link carries frames: a
 * small head and a body, on one of a few channels. The endpoint's owner posts sends and receives and takes
 * events; the bodies are sent from and received into the owner's memory, and nothing is copied or allocated
 * on the way. Whatever is behind it (TCP, memory under virtual time, MPI) obeys the same rules, which
 * tests/contract/test_transport.c checks for each of them:
 *
 *   - frames of one channel arrive in the order they were sent, each into the receive that was posted
 *     first on that channel; a frame is never lost while the link lives;
 *   - a frame travels only when the other side has posted a receive for it, so a channel whose reader is
 *     slow holds up nothing but itself, and memory is bounded by what is posted;
 *   - of the frames that could travel, those of the lowest channel go first;
 *   - a peer that dies, falls silent or breaks the rules closes the link, within a bounded time, with a
 *     sentence that says why; the endpoint and its other links go on;
 *   - waiting sleeps; nothing spins.
 *
 * An endpoint and its links belong to one thread. Only rt_endpoint_wake and rt_endpoint_step may be
 * called by others.
 */
#ifndef RT_NET_TRANSPORT_H
#define RT_NET_TRANSPORT_H

#include "base/status.h"
#include <stdatomic.h>
#include <stdint.h>

enum {
    RT_CHANNEL_CONTROL, /* small and urgent; over TCP it has a connection of its own, with the heartbeats */
    RT_CHANNEL_FIRST,   /* the others share one, the lower before the higher */
    RT_CHANNEL_SECOND,
    RT_CHANNEL_BULK,
    RT_CHANNEL_REPLICA, /* what may always wait */
    RT_CHANNELS
};

enum { RT_HEAD_ROOM = 96, RT_PIECES = 2, RT_MAX_BODY = 1 << 30 };

struct rt_piece {
    const void *data;
    size_t bytes;
};

/* A frame to be sent. The owner fills in the first part, and must not change it or the body until
 * RT_EVENT_SENT gives it back. */
struct rt_send {
    unsigned channel;
    size_t head_bytes;
    uint8_t head[RT_HEAD_ROOM];
    struct rt_piece body[RT_PIECES]; /* sent one after the other; bytes 0: no such piece */
    void *user;

    struct rt_send *next; /* the transport's */
};

/* Bytes of its body. */
static inline size_t rt_send_body(const struct rt_send *send) {
    size_t bytes = 0;
    for (size_t i = 0; i < RT_PIECES; i++)
        bytes += send->body[i].bytes;
    return bytes;
}

/* Room for a frame. The owner must not change it until RT_EVENT_RECEIVED gives it back filled. A frame whose
 * body is larger than the room closes the link. */
struct rt_receive {
    unsigned channel;
    void *body;
    size_t body_room;
    void *user;

    size_t head_bytes, body_bytes; /* of the frame that came */
    uint8_t head[RT_HEAD_ROOM];

    struct rt_receive *next; /* the transport's */
    double at;               /* the transport's: when the frame that is on its way arrives */
};

/* What a link has carried, heads and bodies without the transport's own framing. */
struct rt_link_counts {
    uint64_t frames_sent[RT_CHANNELS], frames_received[RT_CHANNELS];
    uint64_t bytes_sent[RT_CHANNELS], bytes_received[RT_CHANNELS];
    uint64_t wire_sent, wire_received; /* everything that passed over the network: framing, heartbeats and
                                          encryption too, but no body that was read where it lies */
};

struct rt_endpoint;

struct rt_link {
    struct rt_endpoint *endpoint;
    void *user;                    /* the owner's */
    char peer[80];                 /* the address of the other end, for messages: "10.0.0.2:7117" */
    struct rt_link_counts counts;  /* as of the last event that was taken from the endpoint */
    struct rt_link_counts formed;  /* set by the code that made the link: what forming it had carried */
    _Atomic(atomic_int *) counted; /* see rt_link_count */
};

enum rt_event_kind {
    RT_EVENT_ACCEPTED,  /* link: new, made by a peer that connected */
    RT_EVENT_CONNECTED, /* link: of rt_endpoint_connect, now usable */
    RT_EVENT_SENT,      /* send: may be used again */
    RT_EVENT_RECEIVED,  /* receive: holds a frame */
    RT_EVENT_CLOSED,    /* link: is dead, for the reason in error, which does not name the peer: the owner
                           knows its name. What was posted on it is the owner's again and brings no events.
                           The owner still closes the link. */
    RT_EVENT_WOKEN,     /* rt_endpoint_wake was called */
    RT_EVENT_REFUSED,   /* a connection was refused before there was a link, for the reason
                           in error: a line for the log; nothing to be done */
};

struct rt_event {
    enum rt_event_kind kind;
    struct rt_link *link; /* NULL for RT_EVENT_WOKEN and RT_EVENT_REFUSED */
    struct rt_send *send;
    struct rt_receive *receive;
    struct rt_error error;
};

/* What the peer's last heartbeat said about its working thread. */
struct rt_heartbeat {
    bool known; /* one has come */
    uint16_t note;
    double age; /* seconds since its last step, when the heartbeat was sent; INFINITY: it has taken none */
    double ago; /* seconds since the heartbeat came */
};

struct rt_transport {
    const char *name;
    bool one_thread; /* a program has one thread, which takes the events whenever it waits */
    void (*destroy)(struct rt_endpoint *endpoint);
    rt_status (*listen)(struct rt_endpoint *endpoint, const char *address, struct rt_error *err);
    rt_status (*connect)(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                         struct rt_link **link, struct rt_error *err);
    void (*close)(struct rt_link *link);
    void (*send)(struct rt_link *link, struct rt_send *send);
    void (*receive)(struct rt_link *link, struct rt_receive *receive);
    bool (*wait)(struct rt_endpoint *endpoint, double until, struct rt_event *event);
    void (*wake)(struct rt_endpoint *endpoint);
    void (*attend)(struct rt_endpoint *endpoint, bool attends); /* NULL: makes no difference */
    double (*now)(struct rt_endpoint *endpoint);
    void (*sleep)(struct rt_endpoint *endpoint, double until);
    struct rt_heartbeat (*heartbeat)(const struct rt_link *link);
};

struct rt_endpoint {
    const struct rt_transport *transport;
    char address[80]; /* where it listens, as others may connect to it: "127.0.0.1:40123"; "": nowhere */
    atomic_uint_least64_t step; /* when the owner took its last step, and its note; see transport.c */
    /* In milliseconds of the endpoint's time: when this program was found not to have run for so long that
     * peers may have given it up, and for how long. 0: never. */
    atomic_uint_least64_t stall_found, stall_length;
    /* Milliseconds, `most` above 32 bits of `least`, as the owner wants them; 0: as it was made. */
    atomic_uint_least64_t silence;
};

void rt_endpoint_destroy(struct rt_endpoint *endpoint); /* closes its links; NULL is fine */

/* Accepts connections from now on: they arrive as RT_EVENT_ACCEPTED. address: "HOST:PORT"; port 0: any free
 * port, see endpoint->address. */
rt_status rt_endpoint_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err);

/* Begins to connect; RT_EVENT_CONNECTED or RT_EVENT_CLOSED follows, the latter at `until` at the latest.
 * Receives and sends may be posted at once. Fails at once for an invalid address. */
rt_status rt_endpoint_connect(struct rt_endpoint *endpoint, const char *address, double until,
                              struct rt_link **link, struct rt_error *err);

/* The same, to a program that listens all the time if it is there: where the host answers that nothing
 * listens there, it is over at `refused`. A network that knows no such answer makes no difference. */
rt_status rt_endpoint_call(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                           struct rt_link **link, struct rt_error *err);

/* Ends a link and frees it. The owner gets back what it had posted; frames not yet sent may be lost. No more
 * events of this link follow. */
void rt_link_close(struct rt_link *link); /* NULL is fine */

/* Adds 1 to *alive until the link is dead or closed: then the network itself subtracts it, whatever the
 * owner's thread is doing, so that others can see it. NULL: no longer counted. link may be NULL. */
void rt_link_count(struct rt_link *link, atomic_int *alive);

void rt_link_send(struct rt_link *link, struct rt_send *send);
void rt_link_receive(struct rt_link *link, struct rt_receive *receive);

/* The next event; sleeps until there is one, at most until the given time (one in the past: does not sleep).
 * false: there was none. */
bool rt_endpoint_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event);

/* Ends a wait with RT_EVENT_WOKEN; the next one if none is under way. From any thread. */
void rt_endpoint_wake(struct rt_endpoint *endpoint);

/* From now on the owner's thread is in rt_endpoint_wait nearly all the time, or no longer so. While it is, it
 * may move the bytes itself, which saves two thread switches per frame; if it stays away for long, nothing
 * moves and peers may take it for dead. */
void rt_endpoint_attend(struct rt_endpoint *endpoint, bool attends);

/* The owner's working thread takes a step: it begins or ends an operation, or looks for new events.
 * Heartbeats go on while that thread hangs, but they say how long ago its last step was: so peers can tell a
 * thread that hangs from one that waits. note: a number for the peers to read. */
void rt_endpoint_step(struct rt_endpoint *endpoint, uint16_t note);
struct rt_heartbeat rt_link_heartbeat(const struct rt_link *link); /* of the peer */

/* For transports: the content of a heartbeat sent at time `now`; and the report that this program did not run
 * for a while, so that its owner could take no step. */
struct rt_heartbeat rt_endpoint_heartbeat(const struct rt_endpoint *endpoint, double now);
void rt_endpoint_excuse(struct rt_endpoint *endpoint, double seconds);
/* And that it was so long that peers may have given it up; see rt_endpoint_stalled. */
void rt_endpoint_stall(struct rt_endpoint *endpoint, double seconds);

/* Seconds for which this program itself did not run (stopped by a signal, or asleep with its machine), so
 * that peers may have given it up without being at fault. 0: none found within the last 3 s. A peer that
 * has given it up by then has closed its links, which is seen at once. */
double rt_endpoint_stalled(struct rt_endpoint *endpoint);

/* From its next heartbeat on a peer that is silent for `most` seconds is gone, or, where `least` is not 0,
 * for a time that adapts and is between the two (net/silence.h). Both 0: as the endpoint was made. A
 * simulated network has one rule for all, and does not listen. */
void rt_endpoint_set_silence(struct rt_endpoint *endpoint, double most, double least);

/* The endpoint's time in seconds: rt_clock_wall over a real network, virtual time in a simulated one. */
double rt_endpoint_now(struct rt_endpoint *endpoint);
void rt_endpoint_sleep(struct rt_endpoint *endpoint, double until);

#endif
