/*
 * Inside a node. A peer that connects is a guest until it has identified itself: as a master, which the node
 * then serves (node_session.c; node_wait.c between two views of its run), or as another node of the run, to
 * which a link is made (node_links.c). Others are refused (node_guest.c; guest.c has what is true of the
 * guests of a master as well). node.c takes the events and keeps the time.
 */
#ifndef RT_CLUSTER_NODE_INSIDE_H
#define RT_CLUSTER_NODE_INSIDE_H

#include "cluster/guest.h"
#include "cluster/node.h"

struct rt_node {
    const struct rt_node_settings *settings;
    struct rt_endpoint *endpoint;
    const struct rt_role *role;
    const atomic_int *stop;
    char name[RT_NODE_NAME + 1];
    struct rt_teller teller;
    struct rt_offer {
        uint8_t token[RT_TOKEN_BYTES]; /* that the master knows this node by */
        bool made;                     /* there is a conversation with the master */
        bool told;                     /* that there is none */
        double at, pause;              /* when the next one is begun; seconds before the one after it */
    } offer;
    struct rt_guests guests;

    bool serving; /* there is a session: */
    struct rt_session session;
    uint32_t worked;         /* the last of its views that the role has worked in; 0: none */
    struct rt_guest *master; /* while a view is formed; NULL: the role works, or: */
    bool waits;              /* the view is over, and the next one is waited for: */
    double waits_since, waits_until;
    char master_peer[80];
    uint32_t assigned;                   /* the view that there is work to do in; 0: none */
    struct rt_settle place;              /* the links that it will have; none: it has no place yet */
    struct rt_dial dial;                 /* to another node, one at a time, */
    char dialled[RT_NODE_NAME + 1];      /* which is called so */
    char (*names)[RT_NODE_NAME + 1];     /* of the session */
    struct rt_link **slot;               /* of the dial: where the link belongs */
    bool go;                             /* the work can begin when all links are there */
    struct rt_error lost;                /* of a link, before the work began; text "": none */
    struct rt_node_work *work, own_work; /* what other threads may see of it */
};

static inline bool rt_node_is_working(const struct rt_node *node) {
    return node->serving && !node->master && !node->waits;
}

/* ---- node_guest.c ---- */
struct rt_host rt_node_host(struct rt_node *node); /* what a node is to its guests */
void rt_guest_welcome(struct rt_node *node, struct rt_guest *guest);
void rt_guest_recall(struct rt_node *node); /* the role has returned: hears a master that waits for it */

/* ---- node_offer.c: a node that masters cannot connect to, or need not ---- */
rt_status rt_offer_init(struct rt_node *node, struct rt_error *err);
void rt_offer_check(struct rt_node *node);      /* makes one when there is none, and it is time */
double rt_offer_deadline(struct rt_node *node); /* when that is; INFINITY: not before something happens */
void rt_offer_again(struct rt_node *node);      /* at once: this node has worked */
bool rt_offer_lost(struct rt_node *node, struct rt_guest *guest); /* whether it was one that was not taken */
bool rt_offer_message(struct rt_node *node, struct rt_guest *guest); /* whether it was refused */

/* ---- node_links.c ---- */
/* Where a link with that node belongs; NULL: none is expected, or it is there or being made. */
struct rt_link **rt_links_slot(struct rt_node *node, uint16_t peer, uint16_t label);
rt_status rt_links_settle(struct rt_node *node, struct rt_settle *place,
                          struct rt_error *err); /* taken over */
rt_status rt_links_join(struct rt_node *node, const struct rt_join *join, struct rt_error *err);
bool rt_links_event(struct rt_node *node, const struct rt_event *event); /* whether it was of a link */
bool rt_links_complete(struct rt_node *node);
void rt_links_drop(struct rt_node *node);   /* all of them, and the place */
void rt_links_forget(struct rt_node *node); /* leaves them to the role, which closes them */
void rt_links_count(struct rt_node *node);  /* those that the work is for, from now on */

/* ---- node_session.c ---- */
void rt_session_begin(struct rt_node *node, struct rt_guest *master, uint32_t run,
                      const struct rt_hello *hello);
void rt_session_message(struct rt_node *node); /* the master has said something */
void rt_session_check(struct rt_node *node);   /* what has become possible, or too late */
void rt_session_end(struct rt_node *node, const struct rt_error *why); /* why NULL: in good order */
void rt_session_serve(struct rt_node *node, struct rt_guest *master);  /* forms a view with it from now on */
void rt_session_release(struct rt_node *node, struct rt_guest *master, const struct rt_error *why);

/* ---- node_wait.c ---- */
/* The view is over for that reason: the session waits for the next one, or ends. */
void rt_session_leave(struct rt_node *node, const struct rt_error *why);
void rt_session_resume(struct rt_node *node, struct rt_guest *master, uint32_t view);
void rt_session_expire(struct rt_node *node, double now); /* ends one that has waited for too long */
double rt_session_deadline(const struct rt_node *node);   /* when that is; INFINITY: it does not wait */
/* Seconds for which it waits for a master that is gone, and serves no other run. */
double rt_session_waits_for_master(const struct rt_node *node);

#endif
