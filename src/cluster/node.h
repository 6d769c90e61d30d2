/*
 * A node: a device that offers itself. It serves one run after another; a master that goes away ends its run
 * and nothing else. What a node does in a run (a stage of a ring, a worker or a server of another strategy)
 * is its role, which is given to it: this file knows nothing of layers.
 */
#ifndef RT_CLUSTER_NODE_H
#define RT_CLUSTER_NODE_H

#include "cluster/node_names.h"
#include "cluster/talk.h"
#include <stdatomic.h>

struct rt_node;

/* A run as the node sees it, from the greeting of its master to its end. A run has one view after another;
 * most have one only. */
struct rt_session {
    struct rt_node *node;
    struct rt_endpoint *endpoint;
    uint32_t run;
    uint8_t token[RT_TOKEN_BYTES]; /* of the run, which its master and its nodes know it by */
    uint32_t view;                 /* that is formed, or worked in: its number, from 1 */
    uint64_t version;           /* updates applied to the state with which it begins, as of the last ASSIGN */
    uint16_t index, count;      /* its place in the view; the master is 0 */
    struct rt_node_names names; /* of all nodes of the view, from assign() on until the next one or end() has
                                   returned */
    /* The links are all there when run() is called. From then on they are the role's, which closes them there
     * or in end(). */
    struct rt_link *next, *previous; /* of a ring; NULL: it has none, or not yet */
    struct rt_link **links;          /* of a mesh: [count], by index; NULL entries: none with that one. NULL
                                        where the node has no such link at all. The array is the node's, good
                                        until end() has returned. */
    const atomic_int *stop;          /* the node is to end: events should be left soon after it is set */
    /* The role's: seconds for which the session outlives a view that a failure of run() has ended. Within
     * them the master may form another view, for which assign() (several times, where views cannot be formed)
     * and run() are called again, and `role` is as run() has left it. Such a role sets the links that it has
     * closed to NULL: the node closes the others, and frees the array. 0: the session ends too. */
    double keep;
    bool orphaned;      /* the role's: run() has failed, and the master is gone: */
    double wait_master; /* likewise: seconds for which it is waited for then, and no other run has the node */
    atomic_bool recalled; /* while run() works: the master waits for it to return, and to form another view */
    void *user;           /* the role's, see there */
    void *role;           /* the role's own in this run; NULL at first */
};

/* After a failure of run() through the loss of a node (RT_NODE_NONE: through none that is known): whether the
 * master may form another view. over: it has said so. */
bool rt_session_may_go_on(const struct rt_session *session, uint16_t lost, bool over);

/* For threads that watch a node: whether it works for a run, and how many of the links are left that the work
 * needs. Works with none left: the master is gone, and the node has yet to notice. */
struct rt_node_work {
    atomic_bool works;
    atomic_int links;
};

static inline bool rt_node_is_orphaned(const struct rt_node_work *work) {
    return atomic_load(&work->works) && atomic_load(&work->links) <= 0;
}

struct rt_role {
    rt_status (*profile)(struct rt_session *session, const struct rt_profile *profile,
                         struct rt_profiled *profiled, struct rt_error *err);
    /* Takes the memory the work needs; refuses with a sentence. */
    rt_status (*assign)(struct rt_session *session, const struct rt_assign *assign, uint64_t *memory,
                        struct rt_error *err);
    /* The work, after GO, until the run or its view ends; events that are not of the role's links go to
     * rt_node_stray. */
    rt_status (*run)(struct rt_session *session, struct rt_error *err);
    /* What the session holds of the model's state, between two views; returns how many. NULL: nothing. */
    size_t (*holdings)(struct rt_session *session, struct rt_holding holdings[RT_MAX_HOLDINGS]);
    /* Releases what the others took, once in a session; also after one that never got as far as run. */
    void (*end)(struct rt_session *session);
    void *user; /* becomes the sessions' */
};

struct rt_node_settings {
    const char *name; /* for messages; NULL: the host's */
    const char *join; /* a master that it offers itself to, "HOST:PORT"; NULL: masters connect to it */
    const char *kernels;
    uint32_t cores, threads;
    uint64_t memory; /* bytes it offers; 0: no limit */
    uint8_t answer[32];
    double timeout; /* seconds that a master may be quiet while a view is formed; 0: 60 */
    /* Told of what happens, one sentence at a time: a session begins, ends, was refused. May be NULL. */
    void (*tell)(void *user, const char *sentence);
    void *user;
    struct rt_node_work *work; /* kept up to date; may be NULL */
};

/* Serves until stop is not 0. The endpoint listens already. */
rt_status rt_node_serve(const struct rt_node_settings *settings, struct rt_endpoint *endpoint,
                        const struct rt_role *role, const atomic_int *stop, struct rt_error *err);

const struct rt_node_settings *rt_node_settings(const struct rt_node *node);

/* An event that came while a role ran and is not of its links: another master connected (it is told which
 * master the node is busy with) or its own one (the session is recalled), a link that was let go, ... Called
 * by one thread at a time, before run() returns. */
void rt_node_stray(struct rt_session *session, const struct rt_event *event);

#endif
