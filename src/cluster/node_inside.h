/*
 * Inside a node. Whoever connects is a guest until he has said who he is: a master, whom the node then serves
 * (node_session.c), a neighbour in the ring, or somebody to be refused (node_guest.c). node.c takes the
 * events and keeps the time.
 */
#ifndef RT_CLUSTER_NODE_INSIDE_H
#define RT_CLUSTER_NODE_INSIDE_H

#include "cluster/dial.h"
#include "cluster/node.h"

enum rt_guest_state {
    RT_GUEST_NONE,
    RT_GUEST_NEW, /* has said nothing yet */
    RT_GUEST_MASTER,
    RT_GUEST_NEIGHBOUR, /* its link is being made into one of the ring */
    RT_GUEST_LEAVING,   /* has been told why; given a moment to read it */
};

struct rt_guest {
    enum rt_guest_state state;
    struct rt_talk talk;
    double until;        /* when the node's patience with it ends */
    struct rt_echo echo; /* NEIGHBOUR */
    bool is_next;        /* NEIGHBOUR: the link becomes session->next, otherwise session->previous */
};

struct rt_node {
    const struct rt_node_settings *settings;
    struct rt_endpoint *endpoint;
    const struct rt_role *role;
    const atomic_int *stop;
    char name[65];
    struct rt_guest guests[RT_NODE_LINKS];

    bool serving; /* there is a session: */
    struct rt_session session;
    struct rt_guest *master; /* NULL from the beginning of the work on */
    char master_peer[80];
    bool assigned;        /* there is work to do */
    bool placed;          /* a join has come */
    struct rt_dial dial;  /* to the next node */
    bool go;              /* and so has go */
    struct rt_error lost; /* of a link of the ring, before the work began; text "": none */
};

/* ---- node.c ---- */
void rt_node_tell(struct rt_node *node, const char *format, ...) RT_PRINTF(2, 3);

/* ---- node_guest.c ---- */
void rt_guest_accept(struct rt_node *node, struct rt_link *link);
bool rt_guest_event(struct rt_node *node, const struct rt_event *event); /* whether it was of a guest */
void rt_guest_expire(struct rt_node *node, double now); /* sends those away whose time is over */
double rt_guest_deadline(const struct rt_node *node);   /* of the most urgent; INFINITY: none */
void rt_guest_drop(struct rt_guest *guest);
/* Tells a guest why it cannot stay; dismiss keeps it from the node's own log. */
void rt_guest_refuse(struct rt_node *node, struct rt_guest *guest, rt_status status, const char *format, ...)
    RT_PRINTF(4, 5);
void rt_guest_dismiss(struct rt_node *node, struct rt_guest *guest, const struct rt_error *why);
void rt_guest_welcome(struct rt_node *node, struct rt_guest *guest);

/* ---- node_session.c ---- */
void rt_session_begin(struct rt_node *node, struct rt_guest *master, uint32_t run);
void rt_session_message(struct rt_node *node);                             /* the master has said something */
bool rt_session_event(struct rt_node *node, const struct rt_event *event); /* of the links it makes or has */
void rt_session_check(struct rt_node *node); /* what has become possible, or too late */
void rt_session_end(struct rt_node *node, const struct rt_error *why); /* why NULL: as it should */

#endif
