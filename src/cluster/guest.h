/*
 * Guests: peers with which a conversation has begun that are nobody yet. A guest has to identify itself in
 * time; what it is then, its host decides: a node, or a master that accepts connections. The number of guests
 * is limited, and silent ones cannot keep others out.
 */
#ifndef RT_CLUSTER_GUEST_H
#define RT_CLUSTER_GUEST_H

#include "cluster/dial.h"
#include "cluster/tell.h"

/* Guests that are heard at a time; of more the one that has been silent for the longest is turned away. And
 * refused ones that have yet to read the reason. */
enum { RT_GUESTS_HEARD = 32, RT_GUESTS = RT_GUESTS_HEARD + 8 };

enum rt_guest_state {
    RT_GUEST_NONE,
    RT_GUEST_NEW,      /* has said nothing yet */
    RT_GUEST_OFFERING, /* a node and a master that it has connected to: waits until the master calls it */
    RT_GUEST_MASTER,
    RT_GUEST_RECALLING, /* the master of the run, for its next view, while the role works in this one */
    RT_GUEST_JOINING,   /* its link is being made into one of the run */
    RT_GUEST_LEAVING,   /* has been told why; given a moment to read it */
};

struct rt_guest {
    enum rt_guest_state state;
    struct rt_talk talk;
    double until;                  /* when the host's patience with it ends */
    uint32_t view;                 /* RECALLING: that it is about to form */
    struct rt_echo echo;           /* JOINING */
    struct rt_link **slot;         /* JOINING: where the link belongs */
    bool dialled;                  /* by us */
    uint8_t token[RT_TOKEN_BYTES]; /* OFFERING, on the master: the node's own; */
    uint16_t port;                 /* where it listens; 0: it cannot be connected to */
};

/* What only the host knows. */
struct rt_host {
    const char *name;      /* what guests know it by */
    const uint16_t *index; /* its own, in the view that it is in */
    void *user;
    void (*hello)(void *user, struct rt_guest *guest);   /* a new one has said something */
    void (*message)(void *user, struct rt_guest *guest); /* one with a state of the host's has */
    /* Its link is gone, or sent invalid data; its time is over. false: it is like any other. */
    bool (*lost)(void *user, struct rt_guest *guest);
    bool (*late)(void *user, struct rt_guest *guest);
    void (*link_lost)(void *user, const struct rt_error *why); /* that was being made */
};

struct rt_guests {
    struct rt_endpoint *endpoint;
    struct rt_teller *teller;
    struct rt_host host;
    struct rt_guest guest[RT_GUESTS];
};

void rt_guests_init(struct rt_guests *guests, struct rt_endpoint *endpoint, struct rt_teller *teller,
                    const struct rt_host *host);
void rt_guests_deinit(struct rt_guests *guests);

void rt_guests_accept(struct rt_guests *guests, struct rt_link *link);
/* One that we have connected to, or are about to, for an offer; NULL: not enough memory. */
struct rt_guest *rt_guests_dial(struct rt_guests *guests, struct rt_link *link);
struct rt_guest *rt_guests_dialled(struct rt_guests *guests);                 /* NULL: there is none */
bool rt_guests_event(struct rt_guests *guests, const struct rt_event *event); /* whether it was of one */
void rt_guests_expire(struct rt_guests *guests, double now); /* sends those away whose time is over */
double rt_guests_deadline(const struct rt_guests *guests);   /* of the most urgent; INFINITY: none */
/* The one that has been in a state for the longest; NULL: none is. All guests of a state get the same time.
 */
struct rt_guest *rt_guests_longest(struct rt_guests *guests, enum rt_guest_state state);
/* Whether one has a link that is being made into that slot. */
bool rt_guests_make(const struct rt_guests *guests, struct rt_link **slot);
void rt_guests_drop_joining(struct rt_guests *guests);

void rt_guest_drop(struct rt_guest *guest);
/* Its first message, which must be a greeting. */
rt_status rt_guest_read_hello(const struct rt_guest *guest, struct rt_hello *hello, struct rt_error *err);
/* Tells a guest why it cannot stay; dismiss keeps it from the host's own log. put_off: it may call again. */
void rt_guest_refuse(struct rt_guests *guests, struct rt_guest *guest, rt_status status, const char *format,
                     ...) RT_PRINTF(4, 5);
void rt_guest_dismiss(struct rt_guests *guests, struct rt_guest *guest, const struct rt_error *why);
void rt_guest_put_off(struct rt_guests *guests, struct rt_guest *guest, const char *sentence);
/* Its link becomes one of the run, in that slot, once it has been measured. The host has yet to welcome it.
 */
void rt_guest_join(struct rt_guests *guests, struct rt_guest *guest, uint32_t run, struct rt_link **slot);

#endif
