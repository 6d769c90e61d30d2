/*
 * Takes the events of an endpoint during an exchange, and lets the computing thread wait for them.
 *
 * The parts of an exchange (an executor, a server, the client of servers, the conversations with the master)
 * are passive: they are handed events and say what has become of them. The engine takes the events and hands
 * them to its parts. It has two ways of doing so, with the same results:
 *
 *   inline    on the thread that computes, whenever it waits or looks (rt_engine_poll). In memory under
 *             virtual time this is the only way.
 *   threaded  on a thread of its own, so that sums go on while a layer computes.
 *
 * The clock of the communicator, if it has one, is that of the engine's thread, which starts it; of an inline
 * engine it is that of the thread that computes, and its owner's.
 *
 * The parts' state is guarded by the engine: outside of its own calls it is touched between rt_engine_enter
 * and rt_engine_leave only.
 */
#ifndef RT_CONTROL_ENGINE_H
#define RT_CONTROL_ENGINE_H

#include "control/communicator.h"
#include "metrics/states.h"
#include <stdatomic.h>

struct rt_engine_part {
    void *self;
    /* Whether the event was the part's; if so it has been taken in, and *status says how that went. */
    bool (*event)(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err);
    /* Called on the engine's thread after an rt_engine_leave: something was changed from outside, such as a
     * load that was started. May be NULL. */
    rt_status (*turn)(void *self, struct rt_error *err);
    /* Called when no event waits to be taken: does a piece of work that should know all that has come, such
     * as choosing among several gradients. Whether it did any: then it is called again, after the events that
     * have come meanwhile. May be NULL. */
    bool (*work)(void *self, rt_status *status, struct rt_error *err);
    /* The rank that it waits for, among those that owe it something; UINT16_MAX: none. May be NULL. */
    uint16_t (*waits_for)(const void *self);
    /* After a failure of this part: the rank that caused it, which the sentence then leaves out; UINT16_MAX:
     * none known. NULL: that of the link which the event came from. */
    uint16_t (*lost)(const void *self);
    /* Continues after a failure, to tell the other nodes about it. The other parts get no events and no turns
     * then. */
    bool outlives;
};

enum { RT_ENGINE_PARTS = 6 };

struct rt_engine_settings {
    const struct rt_communicator *comm;
    struct rt_engine_part parts[RT_ENGINE_PARTS];
    size_t part_count;
    bool threaded; /* where the transport allows it */
    /* Gets the events that belong to no part; may be NULL. */
    void (*stray)(void *user, const struct rt_event *event);
    void *user;
    const atomic_int *stop; /* may be NULL; a wait ends with RT_INTERRUPTED soon after it is not 0 */
    /* The owner finishes the current work before it stops. Its wait then ends when no peer has been heard
     * from for the timeout, even if no rank owes anything. */
    bool finishes;
};

struct rt_engine;

rt_status rt_engine_create(const struct rt_engine_settings *settings, struct rt_engine **engine,
                           struct rt_error *err);
void rt_engine_destroy(struct rt_engine *engine); /* ends the thread; links and parts stay; NULL is fine */

void rt_engine_enter(struct rt_engine *engine);
/* Leaves, and lets every part take its turn. */
void rt_engine_leave(struct rt_engine *engine);

/* Waits until test, called inside, is true; NULL: never, for a device that is emulated and sleeps. Fails for
 * ever with the first failure of a part; with the peer's name when a link that is still needed closes, or
 * when a rank that owes something is stuck (cluster/liveness.h). A node that loses another gives the master a
 * second to say why. until: give up waiting then, with RT_OK and test still false (INFINITY: never). */
rt_status rt_engine_wait(struct rt_engine *engine, bool (*test)(void *self), void *self, double until,
                         struct rt_error *err);

/* Waits without end, on a clock: the time counts as `state`, but as RT_STATE_REDUCE as far as the engine's
 * own thread worked meanwhile: the device was not idle. states may be NULL. */
rt_status rt_engine_wait_as(struct rt_engine *engine, struct rt_states *states, enum rt_state state,
                            bool (*test)(void *self), void *self, struct rt_error *err);

/* rt_engine_wait after a failure, by the parts that outlive it; before one it is rt_engine_wait as well. For
 * saying goodbye. */
void rt_engine_linger(struct rt_engine *engine, bool (*test)(void *self), void *self, double until);

/* Takes what has come, without waiting; for inline engines, in the middle of a computation. */
void rt_engine_poll(struct rt_engine *engine);

/* The first failure, or RT_OK. */
rt_status rt_engine_status(struct rt_engine *engine, struct rt_error *err);

/* From now on a closed link is no failure: the run is ending. */
void rt_engine_let_go(struct rt_engine *engine);

/* After a failure: the rank that caused it (gone, silent, or sent invalid data); UINT16_MAX: none known. why,
 * unless NULL: the reason without its name, if there is one. */
uint16_t rt_engine_lost(struct rt_engine *engine, struct rt_error *why);

/* What the link to a rank has carried, as of the last event. Not between enter and leave. */
void rt_engine_counts(struct rt_engine *engine, uint16_t rank, struct rt_link_counts *counts);

double rt_engine_now(const struct rt_engine *engine); /* the endpoint's time, or the clock's */

#endif
