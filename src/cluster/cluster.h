/*
 * The master's side of a cluster: its members, and the links between them.
 *
 * Life: open (start local nodes or connect to running ones, exchange greetings), ask (any request that has
 * one answer: profile, assign), join (the nodes connect to one another), go (the direct links to the
 * nodes are closed: from then on nodes talk to neighbours only), close. In the middle of a run: reopen (the
 * nodes are called again, those that are gone are found), and then as before from ask on.
 */
#ifndef RT_CLUSTER_CLUSTER_H
#define RT_CLUSTER_CLUSTER_H

#include "cluster/local.h"
#include "cluster/talk.h"
#include "metrics/pace.h"
#include <stdatomic.h>

struct rt_cluster_settings {
    const char *const *addresses; /* of running nodes, "HOST:PORT" or "HOST" (port RT_NODE_PORT) */
    size_t address_count;
    size_t local_nodes;   /* to be started on this machine, besides the addresses */
    const char *listen;   /* where nodes may join, "HOST:PORT"; NULL: the master accepts no connections */
    size_t wait_nodes;    /* of those, how many are waited for; only with listen */
    const char *program;  /* the ringtmp command, for them; NULL: "ringtmp" on the PATH */
    size_t local_threads; /* threads of each; 0: cores / (local_nodes + 1), at least 1 */
    const struct rt_pace *pace; /* [local_nodes]: of devices to be emulated; NULL: none is */
    const struct rt_emulated_link *emulated_links; /* [local_nodes]: their network; NULL: as it is */
    uint64_t local_memory;                         /* bytes that each local node may use; 0: no limit */
    /* Files handed to local nodes, NULL: none. The endpoint has its own copy. */
    const char *key_file;
    const char *certificate, *private_key, *authority;
    const char *cache;    /* where local nodes keep converted data; NULL: the default place */
    uint8_t answer[32];   /* of our kernels */
    const uint8_t *token; /* of the run: see struct rt_hello; NULL: a new one */
    bool exact;           /* a node with another answer is refused, with its name */
    double timeout;       /* seconds for an answer; 0: 10 */
    double work_timeout;  /* the same where the node has to work for it: PROFILE, ASSIGN; 0: timeout */
    /* Told once of each address that has not answered for a second; may be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
};

enum { RT_NODE_PORT = 7117 };
enum { RT_SPARE_SEATS = 16 }; /* for nodes that join besides those that are waited for */

struct rt_member {
    char address[RT_MAX_TEXT + 1];
    /* Its name for all nodes: "local 2", or what it was named with `ringtmp node --name`; its address where
     * several have one name. "": it has not said it yet. */
    char name[RT_MAX_TEXT + 1];
    struct rt_welcome welcome;
    bool local;
    bool joins;  /* it connects to the master: a seat, which is free while the name is "" and it is gone */
    bool hidden; /* nobody can connect to it */
    bool fresh;  /* it has joined since this was last set to false; for whoever keeps things by member */
    uint8_t own[RT_TOKEN_BYTES]; /* of one that joins: what it is known by */
    bool gone; /* it was not there when the cluster was reopened last: nothing can be asked of it */
    struct rt_error lost; /* why: a sentence that names it */
    struct rt_pace pace;  /* of a local one, where it is emulated */
    struct rt_talk talk;
};

/* What a link can do, as measured when it was made; 0: not measured. */
struct rt_edge {
    double latency, bandwidth;
};

struct rt_cluster;

/* A new one, that nobody can guess. */
rt_status rt_cluster_draw_token(uint8_t token[RT_TOKEN_BYTES], struct rt_error *err);

/* The endpoint is borrowed; nothing else may take events from it while the cluster is being formed. stop:
 * looked at while waiting; may be NULL. */
rt_status rt_cluster_open(const struct rt_cluster_settings *settings, struct rt_endpoint *endpoint,
                          const atomic_int *stop, struct rt_cluster **cluster, struct rt_error *err);

size_t rt_cluster_count(const struct rt_cluster *cluster); /* members, the master not counted */
struct rt_member *rt_cluster_member(struct rt_cluster *cluster, size_t i);
uint32_t rt_cluster_run(const struct rt_cluster *cluster);  /* the number of this run */
uint32_t rt_cluster_view(const struct rt_cluster *cluster); /* of the view that is formed, or was last */

/* One request, one answer. body: as encoded. The answer is in the member's talk until rt_talk_next. An ERROR
 * from the node, a lost link or no answer in time fail with a sentence that names the node. */
rt_status rt_cluster_ask(struct rt_cluster *cluster, size_t member, uint16_t type, const uint8_t *body,
                         size_t body_bytes, uint16_t answer, struct rt_error *err);
/* The two halves of it, to ask several at a time. */
rt_status rt_cluster_request(struct rt_cluster *cluster, size_t member, uint16_t type, const uint8_t *body,
                             size_t body_bytes, struct rt_error *err);
rt_status rt_cluster_answer(struct rt_cluster *cluster, size_t member, uint16_t answer, struct rt_error *err);

/* Joins master and members in a view of that number, at least that of the view before: node 0 is the master,
 * node i is members[order[i - 1]]. The links are those listed: node `from` connects to node `to`, never to 0;
 * label: enum rt_label. A node has at most one link of each label with another, and one next and one previous
 * node. links: [wanted_count], those of node 0, on which the neighbour has been greeted; they are the
 * caller's, the others are NULL. edges: likewise, of all; measured when probe_bytes is not 0. Nothing may be
 * posted on the links before rt_cluster_go. May be called again; the nodes then drop their old links, and the
 * caller closes its own. cluster/view.h has the lists of rings and meshes. */
struct rt_wanted_link {
    uint16_t from, to, label;
};
rt_status rt_cluster_join(struct rt_cluster *cluster, uint32_t view, const size_t *order, size_t count,
                          const struct rt_wanted_link *wanted, size_t wanted_count, uint32_t probe_bytes,
                          struct rt_link **links, struct rt_edge *edges, struct rt_error *err);

/* Tells the nodes that were joined that all is there, so that they begin to work; closes the direct links to
 * all nodes, which frees those that were left out. Fails when one of the master's links has been lost by
 * then. */
rt_status rt_cluster_go(struct rt_cluster *cluster, struct rt_error *err);
/* The master goes on by itself: all nodes are free, those as well that a view was formed of; they may come
 * back. */
void rt_cluster_go_alone(struct rt_cluster *cluster);

/* In the middle of a run, when a view is over: calls the members again, for a view that has yet to be formed.
 * Afterwards each is there, with what it held in the view of its welcome (0: with nothing, as one that has
 * been started anew), or gone. The master's links of the view before are closed by then. RT_OK also when all
 * are gone; may be called again, with a higher number, when forming the view fails. */
struct rt_reopen_settings {
    uint32_t view;    /* its number: higher than all before */
    const bool *lost; /* [members] those that are not called, but gone; NULL: all are called */
    /* Seconds for a link with a member, which its network makes whatever the node does, and for its answer,
     * which it gives when its role has returned. 0: the cluster's timeout; a link takes no longer than an
     * answer. */
    double link_timeout, timeout;
};
rt_status rt_cluster_reopen(struct rt_cluster *cluster, const struct rt_reopen_settings *settings,
                            struct rt_error *err);

/* While a view works: calls members that are gone, each now and then, and nodes that have come to join,
 * without waiting for them. Returns one that has answered, and so can be in the next view; SIZE_MAX: none. It
 * is returned once: from then on it is no longer gone, and waits to be called. */
size_t rt_cluster_call_gone(struct rt_cluster *cluster);
/* Whether it has come back for the view that is being formed. */
bool rt_cluster_is_back(const struct rt_cluster *cluster, size_t member);
/* An event which is not of the links of the caller: of such a call, or a connection, which is refused. */
void rt_cluster_stray(struct rt_cluster *cluster, const struct rt_event *event);

/* After a failure to form a view: the member whose answer was missing, or a refusal; SIZE_MAX: none is known.
 */
size_t rt_cluster_fault(const struct rt_cluster *cluster);
/* The member that it could not reach, and which may be at fault in its place; SIZE_MAX: it was not that. */
size_t rt_cluster_fault_peer(const struct rt_cluster *cluster);

/* Whether a member on this machine has ended by itself, and how: "was ended by signal 9 (Killed)". Looks for
 * a moment. */
bool rt_cluster_ended(struct rt_cluster *cluster, size_t member, char how[RT_HOW_ROOM]);

/* Whether nodes may join. */
bool rt_cluster_listens(const struct rt_cluster *cluster);
/* Whether two members, one of which nobody can connect to, can have a link; true for others. SIZE_MAX: the
 * master. */
bool rt_cluster_can_link(const struct rt_cluster *cluster, size_t a, size_t b);

/* Whether an address is one of this machine only: "127.0.0.1:7117", "[::1]:7117". */
bool rt_cluster_is_loopback(const char *address);

/* Local nodes are ended. NULL is fine. */
void rt_cluster_close(struct rt_cluster *cluster);

/* "HOST" with the port that nodes listen at by default; "HOST:PORT" and "[IPV6]:PORT" as they are. */
rt_status rt_cluster_address(const char *given, char address[RT_MAX_TEXT + 1], struct rt_error *err);

#endif
