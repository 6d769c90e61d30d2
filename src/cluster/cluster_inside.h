/* Inside the master's side of a cluster: cluster.c has its life, greet.c the greetings at its beginning,
 * reopen.c those in the middle of a run, return.c calls those that were gone, door.c has those that join,
 * form.c makes the links, view.c says which a ring or a mesh has, local.c has the nodes on this machine. */
#ifndef RT_CLUSTER_CLUSTER_INSIDE_H
#define RT_CLUSTER_CLUSTER_INSIDE_H

#include "cluster/cluster.h"
#include "cluster/door.h"
#include "cluster/guest.h"
#include "cluster/local.h"
#include "cluster/node.h"

/* A member that comes back. */
struct rt_return {
    double call_at;    /* when it is called the next time while it is gone */
    double at, pause;  /* when it came back last, and seconds for which it would not be called after that */
    bool in_this_view; /* it came back for the view that is being formed */
};

struct rt_cluster {
    struct rt_endpoint *endpoint;
    const atomic_int *stop;
    uint32_t run, view;
    uint8_t token[RT_TOKEN_BYTES];
    uint8_t answer[32];
    bool exact; /* nodes with another answer are refused */
    double timeout, work_timeout;
    struct rt_member *members;
    size_t count;
    bool *joined;        /* [count]: has a place */
    struct rt_dial dial; /* one of the master's own links at a time */

    /* The caller owns the master's links with the nodes, but we watch them until the caller takes events. */
    const struct rt_link **own; /* [own_count] */
    size_t own_count;
    struct rt_error lost; /* one of them was; text "": not */

    struct rt_local *locals; /* [local_count], members are in the same order, from first_local on */
    size_t local_count, first_local;
    struct rt_door *door;      /* NULL: the master accepts no connections */
    double looked;             /* when they were looked at last */
    struct rt_return *returns; /* [count]; see return.c */
    bool calls;                /* some have been called since the view was formed */
    size_t fault;              /* the member whose answer was missing or a refusal, last; SIZE_MAX: none */
    size_t fault_peer;         /* whom it could not reach, if that was it; else SIZE_MAX */
};

/* Takes one event, or returns after a moment, at the latest at the given time. RT_INTERRUPTED: stop is set.
 * RT_FAILED: a node on this machine has ended. */
rt_status rt_cluster_pump(struct rt_cluster *cluster, double until, struct rt_error *err);

/* Waits for one answer until the given time; timeout: what to call that in a sentence. */
rt_status rt_cluster_await(struct rt_cluster *cluster, size_t member, uint16_t answer, double until,
                           double timeout, struct rt_error *err);

/* After a failure: where a node on this machine has ended, that is the reason, and err says how. */
rt_status rt_cluster_explain(struct rt_cluster *cluster, rt_status status, struct rt_error *err);

/* A member as people know it: its name, once it has said it, and its address. */
const char *rt_cluster_call(const struct rt_member *member, char who[200]);
/* Its link is lost: who, and why. */
rt_status rt_cluster_fail_lost(const struct rt_member *member, struct rt_error *err);

/* ---- greet.c ---- */

/* Our greeting on a link with this label; from is 0. */
struct rt_hello rt_cluster_hello(const struct rt_cluster *cluster, uint16_t label);
/* Greets a member; its link is to be there by the given time, and nothing is waited for after `refused` where
 * nothing listens (rt_endpoint_call). */
rt_status rt_cluster_greet(struct rt_cluster *cluster, struct rt_member *member, double refused, double until,
                           struct rt_error *err);
/* Whether what it has answered means that it was too busy to hear us, and there is time to call it again. */
bool rt_cluster_is_put_off(const struct rt_cluster *cluster, const struct rt_member *member, double until);
#define RT_CLUSTER_CALL_PAUSE 0.2 /* seconds before that */
/* A node that waits to join takes a free seat, and is greeted; RT_FAILED where there is none. */
rt_status rt_cluster_seat(struct rt_cluster *cluster, struct rt_guest *guest, size_t *member,
                          struct rt_error *err);
void rt_cluster_free_seat(struct rt_member *member);     /* nobody is in it any longer */
bool rt_cluster_is_free(const struct rt_member *member); /* a seat that nobody is in */
/* Whether a member can be called: one that joins must have connected. */
bool rt_cluster_can_call(struct rt_cluster *cluster, const struct rt_member *member);
/* Takes in what it has answered. */
rt_status rt_cluster_check_welcome(struct rt_cluster *cluster, struct rt_member *member,
                                   struct rt_error *err);
/* All members, when the cluster is opened. */
rt_status rt_cluster_greet_all(struct rt_cluster *cluster, const struct rt_cluster_settings *settings,
                               struct rt_error *err);

#endif
