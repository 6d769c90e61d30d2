/*
 * Which node is stuck? One rule for all who wait for a node during a run: neighbours in a ring, equal places
 * of several rings, and those who exchange gradients.
 *
 * When one node hangs, soon everybody waits, each for another. But a node that waits still takes steps: it
 * looks whether something has come. A node that computes takes one at the end of each operation. Heartbeats
 * tell the peers how long ago the last step was (rt_endpoint_step), whatever the node's working thread does.
 * So who has waited for the timeout asks the heartbeat of the one it waits for:
 *
 *   no step for the timeout   it is stuck, and is named
 *   steps are taken           it waits itself, or works: somebody else is stuck, and somebody else waits for
 *                             that one
 *
 * Every chain of those who wait for one another ends so at a node that is stuck, and the one before it in the
 * chain names it: within the timeout, of the first who waits for it, and a second at most.
 *
 * The master is never named: it runs where the user is, may take as long as it likes between two operations
 * (a validation, a callback), and its link says when it is gone.
 *
 * If all take steps, and wait in a circle, there is an error in the program. It is found by counting: the
 * note that goes with a step says through how many others a node waits at least, one more than the smallest
 * note among those it waits for. Where all wait in circles the notes grow without end.
 */
#ifndef RT_CLUSTER_LIVENESS_H
#define RT_CLUSTER_LIVENESS_H

#include "net/transport.h"

/* Somebody who is waited for. */
struct rt_wait {
    uint16_t node; /* UINT16_MAX: nobody */
    double since;
};

/* Seconds for which `node` has been waited for and not heard of; 0 for nobody. heard: when it last was. */
double rt_wait_seconds(struct rt_wait *wait, uint16_t node, double heard, double now);

/* Whether `node`, one of `nodes`, is to be named. waited: as above; last: its heartbeat. */
bool rt_liveness_is_stuck(uint16_t node, size_t nodes, double waited, double timeout,
                          const struct rt_heartbeat *last);

/* The note of a node that has waited so long for another one, or for any of several: *note is the smallest so
 * far, of UINT16_MAX at first. Below half of the timeout it is 0: waits that short are part of the work, and
 * come and go faster than heartbeats. */
void rt_liveness_count(double waited, double timeout, const struct rt_heartbeat *last, uint16_t *note);

#endif
