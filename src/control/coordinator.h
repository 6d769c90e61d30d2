/*
 * The master's talks with the nodes of an exchange: tickets go out, results come back; metrics, saved numbers
 * and the end of the run are asked for here too. Passive: a part of the master's engine. Control messages
 * only, on the links from the master to each node; numbers on RT_CHANNEL_BULK of the same links.
 */
#ifndef RT_CONTROL_COORDINATOR_H
#define RT_CONTROL_COORDINATOR_H

#include "cluster/talk.h"
#include "control/batch.h"
#include "control/engine.h"

struct rt_coordinator;

enum {
    RT_TICKETS_AHEAD = 3,        /* tickets that a node may hold at a time */
    RT_TICKET_RESULTS = 64,      /* results of a node that may wait to be taken */
    RT_TRANSFER_PIECE = 1 << 16, /* floats of saved or set numbers in one message */
};

/* Counts of a server elsewhere, which come with its row: gradients by staleness, then these. */
enum {
    RT_TALLY_APPLIED = RT_STALENESS_BINS,
    RT_TALLY_DROPPED,
    RT_TALLY_FORCED,
    RT_TALLY_HELD,
    RT_TALLY_SPREAD,
    RT_TALLIES
};

/* The communicator is the master's; on each of its links there is a talk already. */
rt_status rt_coordinator_create(const struct rt_communicator *comm, struct rt_coordinator **coordinator,
                                struct rt_error *err);
void rt_coordinator_destroy(struct rt_coordinator *coordinator); /* NULL is fine; the links stay */
struct rt_engine_part rt_coordinator_part(struct rt_coordinator *coordinator);

/* All of the following inside the engine (rt_engine_enter), and never wait. */

/* Sends a ticket; false: the node holds RT_TICKETS_AHEAD already, or too many of its results were not taken.
 * A server without a worker gets tickets too where the exchange goes by collectives: it takes part in every
 * update, and its result is of 0 rows. */
bool rt_coordinator_give(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch);
size_t rt_coordinator_held(const struct rt_coordinator *coordinator,
                           uint16_t rank); /* tickets given and not done */
size_t rt_coordinator_waiting(const struct rt_coordinator *coordinator,
                              uint16_t rank); /* results that were not taken */
/* The oldest result that came from a node; false: none. */
bool rt_coordinator_take(struct rt_coordinator *coordinator, uint16_t rank, struct rt_done *done);

/* The examples of the ticket that the node was given last (data.send). The floats stay where they are until
 * it is done. */
void rt_coordinator_send_samples(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch,
                                 const float *floats, size_t count);

/* Asks every node for its row; rows: [count], that of rank 0 is left alone. */
void rt_coordinator_ask_metrics(struct rt_coordinator *coordinator);
bool rt_coordinator_metrics(struct rt_coordinator *coordinator,
                            struct rt_metrics_row *rows); /* false: some are still missing */
/* What came with the last row: [RT_TALLIES], zeros of one that serves nobody. */
const uint64_t *rt_coordinator_tally(const struct rt_coordinator *coordinator, uint16_t rank);

/* Numbers, while nobody holds a ticket. ask: node `rank` gives floats first..first+count of a word (0: the
 * parameters, w > 0: word w-1 of the optimizer's state; both in the order of the parameter block) into
 * `into`. tell: the node takes them from `from`. One such order per node at a time; idle: it has been carried
 * out. */
void rt_coordinator_fetch_state(struct rt_coordinator *coordinator, uint16_t rank, size_t word, size_t first,
                                size_t count, float *into);
void rt_coordinator_send_state(struct rt_coordinator *coordinator, uint16_t rank, size_t word, size_t first,
                               size_t count, const float *from);
bool rt_coordinator_idle(const struct rt_coordinator *coordinator, uint16_t rank);
/* What was told are the numbers after `update` updates. */
void rt_coordinator_set_update(struct rt_coordinator *coordinator, uint16_t rank, uint64_t update);

/* The end, in good order: a node lets go of its links, says goodbye, and waits until the master hangs up, so
 * that none hangs up on another who does not know yet. After rt_engine_let_go. */
void rt_coordinator_stop(struct rt_coordinator *coordinator);
bool rt_coordinator_gone(
    const struct rt_coordinator *coordinator); /* all nodes have said goodbye, or hung up */
/* The end of the run for a reason, told to all; they hang up. For rt_engine_linger. */
void rt_coordinator_fail(struct rt_coordinator *coordinator, rt_status status, const char *sentence);

#endif
