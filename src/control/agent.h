/*
 * A node's talk with its master during an exchange, the other side of control/coordinator.h, and the worker
 * loop: one ticket after another until the run ends. Passive but for rt_agent_run.
 */
#ifndef RT_CONTROL_AGENT_H
#define RT_CONTROL_AGENT_H

#include "cluster/talk.h"
#include "control/batch.h"
#include "control/engine.h"

struct rt_agent_settings {
    const struct rt_communicator *comm;
    struct rt_batch_worker worker; /* learn NULL: a server without a worker, whom no tickets reach */
    /* The floats of a word (see control/coordinator.h), for the master to save or to set; NULL: the node has
     * none.
     */
    float *(*word)(void *user, size_t word);
    size_t words, param_count;
    /* By the thread of rt_agent_run, outside the engine: after numbers were set, they are those after so many
     * updates; and what is asked for from time to time. */
    void (*loaded)(void *user, uint64_t update);
    void (*metrics)(void *user, struct rt_metrics_row *row);
    /* The counts of a server here, [RT_TALLIES] of control/coordinator.h, at the same time. NULL: there is
     * none. */
    void (*tally)(void *user, uint64_t *tally);
    /* Examples that the master sends for a ticket (data.send): floats of those of a batch, from float `at`
     * on, in order, perhaps before the ticket itself. Inside the engine. NULL: the node has its own data. */
    rt_status (*examples)(void *user, uint64_t batch, uint64_t at, const float *floats, size_t count,
                          struct rt_error *err);
    void *user;
    const char *name; /* of this node, for messages; NULL: none */
};

struct rt_agent;

/* The communicator is a node's; on its link with the master there is a talk already. */
rt_status rt_agent_create(const struct rt_agent_settings *settings, struct rt_agent **agent,
                          struct rt_error *err);
void rt_agent_destroy(struct rt_agent *agent); /* only when the link is closed; NULL is fine */
struct rt_engine_part rt_agent_part(struct rt_agent *agent);

/* The work, until the master says that the run is over (RT_OK) or something fails. The engine has the agent
 * and the exchange among its parts. A failure of its own is told to the master. Returns when the master has
 * hung up, or after a few seconds. */
rt_status rt_agent_run(struct rt_agent *agent, struct rt_engine *engine, struct rt_error *err);

#endif
