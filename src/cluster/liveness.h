/*
 * Which node is stuck? One rule for all waits for a node during a run: between neighbours in a ring, equal
 * positions of several rings, and the ranks of an exchange.
 *
 * When one node hangs, soon all nodes wait, each for another. But a node that waits still takes steps: it
 * checks for new events. A node that computes takes one at the end of each operation. Heartbeats tell the
 * peers how long ago the last step was (rt_endpoint_step), whatever the node's working thread does, and carry
 * a note that says what the node does:
 *
 *   0                it works, or has waited for less than half of the timeout
 *   k                it waits, and the chain of waiting nodes ends after k of them at a node that works
 *   RT_NOTE_MASTER   it waits, and the chain ends at the master
 *
 * Where a node waits for one of several, a chain to the master is the best reason and then the shortest one:
 * in a ring either neighbour would do, so most waiting nodes say RT_NOTE_MASTER.
 *
 * The waiting node judges the other one by its heartbeat:
 *
 * (1) No step for the timeout: it is stuck, and is named.
 *
 * (2) It waits for the master: it is waited for. The master runs where the user is, and may take as long as
 * it likes between two operations (a validation, a callback); its link says when it is gone. For the same
 * reason the master is never named.
 *
 * (3) Its note has been k for 10 + k times the timeout: whatever it says of itself, nothing comes from it,
 * and it is named. The node next to the faulty one gives up first, a whole timeout before the others, so a
 * node that lies cannot have an honest node blamed for it. A note that changes means that a node further on
 * has delivered, or has only now begun to wait: the count begins anew.
 *
 * So a node that hangs is named within the timeout of the first node that waits for it, plus at most a
 * second. A node that runs but delivers nothing is named after 10 times the timeout.
 *
 * If all nodes wait in a cycle, there is an error in the program, or a node sends false notes. The master,
 * which knows that it owes nothing, ends the run after 10 times the timeout plus 4 times the timeout for each
 * node. It names no node: a note is evidence against its sender only.
 */
#ifndef RT_CLUSTER_LIVENESS_H
#define RT_CLUSTER_LIVENESS_H

#include "net/transport.h"

enum { RT_NOTE_MASTER = 0x8000, RT_NOTE_NONE = UINT16_MAX }; /* NONE: not sent, see rt_liveness_count */

/* The node that is waited for. */
struct rt_wait {
    uint16_t node; /* UINT16_MAX: none */
    double since;
    double looked;  /* the last time at which rt_wait_look was called */
    double idle;    /* seconds of this wait without other work */
    double excused; /* how many of them the node had a good reason for */
    uint16_t note;  /* that it gave last */
};

/* Call it periodically. `node` is waited for (UINT16_MAX: none) and was last heard from at `heard`. idle:
 * there is no other work meanwhile. Returns the seconds of waiting since it was last heard from. */
double rt_wait_look(struct rt_wait *wait, uint16_t node, double heard, bool idle, double now);

enum rt_liveness {
    RT_LIVENESS_GOOD,
    RT_LIVENESS_STUCK,    /* the node is to be named */
    RT_LIVENESS_DEADLOCK, /* no node is, but waiting is useless: returned to the master only */
};

/* The context of a judgement. */
struct rt_liveness_terms {
    uint16_t self;  /* the number of the node that waits; 0: the master */
    uint16_t nodes; /* of the run */
    double timeout;
};

/* Judges wait->node, which has been waited for so long (see above) and whose heartbeat was `last`. err:
 * unless it is good, what is wrong, without a name. */
enum rt_liveness rt_liveness_judge(const struct rt_liveness_terms *terms, struct rt_wait *wait, double waited,
                                   const struct rt_heartbeat *last, struct rt_error *err);

/* The note of a node that has waited so long for another one, or for any of several: *note is that of those
 * before, RT_NOTE_NONE at first. Waits of less than half of the timeout are part of the work, and come and go
 * faster than heartbeats. */
void rt_liveness_count(const struct rt_liveness_terms *terms, uint16_t node, double waited,
                       const struct rt_heartbeat *last, uint16_t *note);

#endif
