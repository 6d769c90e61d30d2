/*
 * A node's side of the control plane: its conversation with the master of the run, the other side of
 * control/coordinator.h. Tickets come in and results go out; the agent answers questions for metrics, lets
 * the master read and write the model's state here (control/state_transfer.h), and ends when the master says
 * so. On a link with the master or round a ring (control/route.h): there every node adds its row of metrics
 * to those of the nodes before it, passes on the state that is for others, and passes on why the run ends.
 *
 * Passive: a part of whatever takes the node's events. What trains drives it: rt_agent_run for a worker or
 * server of an exchange, the loop of a ring's leader in run/hybrid, the engine of a ring's worker
 * (ring/flow.h).
 */
#ifndef RT_CONTROL_AGENT_H
#define RT_CONTROL_AGENT_H

#include "control/batch.h"
#include "control/engine.h"
#include "control/route.h"
#include "control/state_transfer.h"

struct rt_agent_settings {
    const struct rt_communicator *comm; /* the node's */
    struct rt_route route; /* in NULL: the communicator's link with the master, on which there is a talk */
    bool learns;           /* tickets are expected; false: a server without a worker */
    size_t ahead;          /* tickets that it holds at a time; 0: RT_TICKETS_AHEAD */
    size_t rows;           /* of metrics that it answers with; 0: its own */
    /* The model's state, for the master to save or to set. Either as blocks: state tensor `tensor` (see
     * control/state_transfer.h), read and written while the agent is at rest. Or as a store of the owner's,
     * which says itself when it may be read and written. Both NULL: the node has none. */
    float *(*state)(void *user, size_t tensor);
    size_t state_tensors, param_count;
    const struct rt_state_store *store; /* copied */
    bool finite;                        /* state that is not finite is refused */
    /* Examples that the master sends for a ticket (data.send): floats of those of a batch, from float `first`
     * on, in order, perhaps before the ticket itself. Inside the engine. NULL: the node has its own data. */
    rt_status (*examples)(void *user, uint64_t batch, uint64_t first, const float *floats, size_t count,
                          struct rt_error *err);
    /* A message that the agent does not know, when there is room to pass something on; NULL: it is refused.
     * Inside the engine. */
    rt_status (*message)(void *user, const struct rt_message *message, struct rt_error *err);
    void *user;
};

struct rt_agent;

rt_status rt_agent_create(const struct rt_agent_settings *settings, struct rt_agent **agent,
                          struct rt_error *err);
void rt_agent_destroy(struct rt_agent *agent); /* only when the links are closed; NULL is fine */
struct rt_engine_part rt_agent_part(struct rt_agent *agent);

/* ---- inside the engine; what is to be said goes out when the part has its turn ---- */

/* The oldest ticket that was not taken; 0: none. Takes it. It has been learnt from, in the order of taking.
 */
uint64_t rt_agent_ticket(const struct rt_agent *agent);
void rt_agent_take(struct rt_agent *agent);
void rt_agent_done(struct rt_agent *agent, const struct rt_done *done);
/* The batch that was learnt from last; 0: none. */
uint64_t rt_agent_last_done(const struct rt_agent *agent);

/* Whether updates of rings that have their own batches have begun; this ring has no ticket, and rests. */
bool rt_agent_has_begun(const struct rt_agent *agent);
void rt_agent_rest(struct rt_agent *agent);

/* The master asks for metrics; the answer, with [RT_TALLIES] counts of a server here (NULL: there is none).
 */
bool rt_agent_is_asked(const struct rt_agent *agent);
void rt_agent_answer(struct rt_agent *agent, const struct rt_metrics_row *rows, const uint64_t *tally);

/* Nothing is under way: state may be read and written; whether the master wants to. */
void rt_agent_set_at_rest(struct rt_agent *agent, bool at_rest);
bool rt_agent_wants_rest(const struct rt_agent *agent);
/* Whether no state is on its way to this node, from it or through it. */
bool rt_agent_is_transferred(const struct rt_agent *agent);
/* The master has set the state: *update, that it is of. The owner takes note, and says so. */
bool rt_agent_was_loaded(const struct rt_agent *agent, uint64_t *update);
void rt_agent_note_loaded(struct rt_agent *agent);

/* The master has no more tickets. Says goodbye; or why this node ends: node, whose fault it is, and the
 * reason without its name. Whether the master has hung up, or has said itself why the run ends. */
bool rt_agent_is_stopped(const struct rt_agent *agent);
void rt_agent_say_goodbye(struct rt_agent *agent);
void rt_agent_fail(struct rt_agent *agent, rt_status status, uint16_t node, const char *sentence);
bool rt_agent_is_over(const struct rt_agent *agent);
/* After a failure of the part: the number of the node whose fault it is, which the sentence then leaves out;
 * UINT16_MAX: none known, or the master has said itself why the run ends. */
uint16_t rt_agent_lost(const struct rt_agent *agent);
/* After a failure: whether the master is gone without a word, or a node next to it in the ring says so. */
bool rt_agent_is_orphaned(const struct rt_agent *agent);
/* Whether the master, or a node on its behalf, has said why the run or the view ends. */
bool rt_agent_has_ended(const struct rt_agent *agent);
/* Whether the master has ended the view, and forms another one. */
bool rt_agent_is_view_over(const struct rt_agent *agent);

/* ---- agent_run.c ---- */

/* What a worker or server does between tickets; called by the thread of rt_agent_run, outside the engine. */
struct rt_agent_run {
    struct rt_batch_worker worker; /* learn NULL: a server without a worker, which gets no tickets */
    /* After the state was set, it is that after so many updates. */
    void (*loaded)(void *user, uint64_t update);
    void (*metrics)(void *user, struct rt_metrics_row *row);
    void (*tally)(void *user, uint64_t *tally); /* NULL: there is no server here */
    void *user;
};

/* The work, one ticket after another, until the master says that the run is over (RT_OK) or something fails.
 * The engine has the agent and the exchange among its parts. A failure of its own is told to the master.
 * Returns when the master has hung up, or after a few seconds. */
rt_status rt_agent_run(struct rt_agent *agent, const struct rt_agent_run *run, struct rt_engine *engine,
                       struct rt_error *err);

#endif
