/*
 * The master's side of the control plane: its conversations with the nodes of a run. Tickets go out and
 * results come back; metrics, the model's state and the end of the run are asked for here too. A node is a
 * worker or a server of an exchange, or the leader of a ring, which answers for the other nodes of its ring:
 * the messages and both state machines are the same (control/agent.h is the other one). So they are where the
 * master is itself in a ring: its nodes are then one connection, on a route that goes round
 * (control/route.h).
 *
 * Passive: a part of whatever takes the master's events. Control messages on the links from the master to
 * each node; state (control/state_transfer.h) and examples on RT_CHANNEL_BULK of the same links.
 */
#ifndef RT_CONTROL_COORDINATOR_H
#define RT_CONTROL_COORDINATOR_H

#include "control/batch.h"
#include "control/engine.h"
#include "control/route.h"
#include "control/state_transfer.h"

struct rt_coordinator;

enum {
    RT_TICKETS_AHEAD = 3,   /* tickets that a node may hold at a time */
    RT_TICKET_RESULTS = 64, /* results of a node that may wait to be taken */
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

struct rt_coordinator_settings {
    const struct rt_communicator *comm; /* the master's; on each of its links there is a talk already */
    size_t ahead; /* tickets that a node may hold; 0: RT_TICKETS_AHEAD, which is the most */
    size_t rows;  /* of metrics that each node answers with; 0: its own */
    /* The route round the ring, if the master is in one; `in` NULL: it is not. The communicator of a ring has
     * the master and one rank for all other nodes, without links; `rows` is the number of those nodes. */
    struct rt_route ring;
    size_t nodes; /* of the run, numbers that an ERROR may name; 0: those of the communicator */
    bool finite;  /* state that is not finite is refused */
    /* A message that the coordinator does not know; NULL: it is refused. Inside the engine. */
    rt_status (*message)(void *user, const struct rt_message *message, struct rt_error *err);
    void *user;
};

rt_status rt_coordinator_create(const struct rt_coordinator_settings *settings,
                                struct rt_coordinator **coordinator, struct rt_error *err);
void rt_coordinator_destroy(struct rt_coordinator *coordinator); /* when the links are closed; NULL is fine */
struct rt_engine_part rt_coordinator_part(struct rt_coordinator *coordinator);

/* All of the following inside the engine (rt_engine_enter), and never wait. What is to be sent goes out when
 * the part has its turn. */

/* Gives a ticket; false: the node holds all that it may, or too many of its results were not taken. A server
 * without a worker gets tickets too where the exchange goes by collectives: it takes part in every update,
 * and its result is of 0 rows. */
bool rt_coordinator_give(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch);
size_t rt_coordinator_held(const struct rt_coordinator *coordinator,
                           uint16_t rank); /* tickets given and not done */
size_t rt_coordinator_waiting(const struct rt_coordinator *coordinator,
                              uint16_t rank); /* results that were not taken */
/* The oldest result that came from a node; false: none. */
bool rt_coordinator_take(struct rt_coordinator *coordinator, uint16_t rank, struct rt_done *done);

/* For rings that have their own batches. Updates begin: from now on a ring without a ticket may rest. The
 * others say whether all rest with no ticket left, and whether the master waits for that. */
void rt_coordinator_begin(struct rt_coordinator *coordinator);
bool rt_coordinator_all_rest(const struct rt_coordinator *coordinator);
void rt_coordinator_expect_rest(struct rt_coordinator *coordinator, bool expect);

/* Examples of a ticket (data.send), while there is room: those of RT_TICKETS_AHEAD tickets may be on their
 * way. The floats stay where they are until they have been sent. */
bool rt_coordinator_has_sample_room(const struct rt_coordinator *coordinator, uint16_t rank);
void rt_coordinator_send_samples(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch,
                                 const float *floats, size_t count);

/* Asks every node for its rows; rows: those of all nodes of the run, of which rank 0's are left alone. */
void rt_coordinator_ask_metrics(struct rt_coordinator *coordinator);
bool rt_coordinator_metrics(const struct rt_coordinator *coordinator,
                            struct rt_metrics_row *rows); /* false: some are still missing */
/* The counts that came with the last row: [RT_TALLIES]; zeros for a node without a server. */
const uint64_t *rt_coordinator_tally(const struct rt_coordinator *coordinator, uint16_t rank);

/* Model state, while no node holds a ticket, one order at a time. fetch: node `rank` gives floats
 * first..first+count of a state tensor into `into`. send: the node takes them from `from`. set_update: what
 * was sent is the state after `update` updates. idle: the order has been carried out. */
void rt_coordinator_fetch_state(struct rt_coordinator *coordinator, uint16_t rank, size_t tensor,
                                size_t first, size_t count, float *into);
void rt_coordinator_send_state(struct rt_coordinator *coordinator, uint16_t rank, size_t tensor, size_t first,
                               size_t count, const float *from);
void rt_coordinator_set_update(struct rt_coordinator *coordinator, uint16_t rank, uint64_t update);
bool rt_coordinator_idle(const struct rt_coordinator *coordinator);
/* Any order, for the holder order->node, which is reached by the route to `rank`; links are filled in. */
void rt_coordinator_order(struct rt_coordinator *coordinator, uint16_t rank, struct rt_state_order order);
/* Of the last order: whether what it took or gave went well. */
rt_status rt_coordinator_order_result(const struct rt_coordinator *coordinator, struct rt_error *err);
/* The order is given up: the memory that it speaks of is not touched any more. */
void rt_coordinator_cancel(struct rt_coordinator *coordinator);

/* Whether the node has yet to answer the master. */
bool rt_coordinator_is_owed(const struct rt_coordinator *coordinator, uint16_t rank);
/* After a failure of the part: the number of the node that caused it; UINT16_MAX: none known. */
uint16_t rt_coordinator_lost(const struct rt_coordinator *coordinator);

/* Orderly shutdown: a node lets go of its links, says goodbye, and waits until the master closes the
 * connection, so that no node sees a closed link before it knows that the run is over. After
 * rt_engine_let_go. */
void rt_coordinator_stop(struct rt_coordinator *coordinator);
bool rt_coordinator_gone(
    const struct rt_coordinator *coordinator); /* all nodes have said goodbye, or hung up */
bool rt_coordinator_has_left(const struct rt_coordinator *coordinator, uint16_t rank); /* said goodbye */
/* Ends the run with an error, which is sent to all nodes; they close their links. For rt_engine_linger. */
void rt_coordinator_fail(struct rt_coordinator *coordinator, rt_status status, const char *sentence);
/* The same where the run goes on: the master ends the view, and forms another one. */
void rt_coordinator_end_view(struct rt_coordinator *coordinator, const char *sentence);

#endif
