/*
 * A node's talk with its master during an exchange, the other side of exchange/crew.h, and the worker loop:
 * one ticket after another until the run ends. Passive but for rt_duty_run.
 */
#ifndef RT_EXCHANGE_DUTY_H
#define RT_EXCHANGE_DUTY_H

#include "cluster/talk.h"
#include "exchange/engine.h"
#include "exchange/exchange.h"

struct rt_duty_settings {
    const struct rt_party *party;
    const struct rt_exchange *exchange; /* NULL: a server without a worker, whom no tickets reach */
    const struct rt_replica *replica;   /* compute NULL: a server without a worker, who takes part in updates
                                           by collectives all the same */
    size_t part, parts;                 /* of every batch that this worker takes */
    /* The floats of a word (see exchange/crew.h), for the master to save or to set; NULL: the node has none.
     */
    float *(*word)(void *user, size_t word);
    size_t words, param_count;
    /* By the thread of rt_duty_run, outside the engine: after numbers were set, they are those after so many
     * updates; and what is asked for from time to time. */
    void (*loaded)(void *user, uint64_t update);
    void (*metrics)(void *user, struct rt_metrics_row *row);
    /* The counts of a server here, [RT_TALLIES] of exchange/crew.h, at the same time. NULL: there is none. */
    void (*tally)(void *user, uint64_t *tally);
    /* Examples that the master sends for a ticket (data.send): floats of those of a batch, from float `at`
     * on, in order, perhaps before the ticket itself. Inside the engine. NULL: the node has its own data. */
    rt_status (*examples)(void *user, uint64_t batch, uint64_t at, const float *floats, size_t count,
                          struct rt_error *err);
    void *user;
    const char *name; /* of this node, for messages; NULL: none */
};

struct rt_duty;

/* The party is a node's; on its link with the master there is a talk already. */
rt_status rt_duty_create(const struct rt_duty_settings *settings, struct rt_duty **duty,
                         struct rt_error *err);
void rt_duty_destroy(struct rt_duty *duty); /* only when the link is closed; NULL is fine */
struct rt_engine_part rt_duty_part(struct rt_duty *duty);

/* The work, until the master says that the run is over (RT_OK) or something fails. The engine has the duty
 * and the exchange among its parts. A failure of its own is told to the master. Returns when the master has
 * hung up, or after a few seconds. */
rt_status rt_duty_run(struct rt_duty *duty, struct rt_engine *engine, struct rt_error *err);

#endif
