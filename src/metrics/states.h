/*
 * State clocks: what a computing thread is doing, second by second. The states sum to wall time. wait_cpu is
 * what remains of busy states when the thread's own CPU time is taken off: another had the core, or the
 * thread slept inside such a state, for a page of memory, or for the other threads of its pool once looking
 * out for them had taken too long. Looking out itself uses the core and counts as busy.
 *
 * A device that is emulated (metrics/pace.h) is slower in all its busy states by the same factor: what took c
 * CPU-seconds counts as factor * c, and the thread sleeps for the rest: before it waits, and before others
 * see what it has computed (rt_states_catch_up). Between two busy states it sleeps once it owes the time
 * of some 50 milliseconds of computing. What is not worth a nap is carried over, and so is the time that a
 * sleep took too long or another had the core: so many short operations last as long as one long one. What a
 * thread is behind by for longer than that is wait_cpu, as everywhere.
 *
 * Time that is no training, a validation, is counted apart from the states.
 */
#ifndef RT_METRICS_STATES_H
#define RT_METRICS_STATES_H

#include "metrics/pace.h"

enum rt_state {
    RT_STATE_FORWARD,
    RT_STATE_BACKWARD,
    RT_STATE_WEIGHT,
    RT_STATE_UPDATE,
    RT_STATE_REDUCE,
    RT_STATE_ENCODE,
    RT_STATE_WAIT_INPUT,
    RT_STATE_WAIT_GRADIENT,
    RT_STATE_WAIT_SEND,
    RT_STATE_WAIT_WINDOW,
    RT_STATE_WAIT_BARRIER,
    RT_STATE_WAIT_DATA,
    RT_STATE_RECOVER,
    RT_STATE_WAIT_CPU,
    RT_STATES
};

/* The device that is emulated, and whose clock its sleeps are on. */
struct rt_emulation {
    const struct rt_pace *pace; /* borrowed; NULL: the device is not emulated */
    void *self;
    double (*now)(void *self);               /* NULL: rt_clock_wall */
    void (*sleep)(void *self, double until); /* NULL: the thread does nothing else. May return early. */
};

struct rt_states {
    double seconds[RT_STATES];
    double apart; /* seconds of no training */
    enum rt_state now;
    bool is_apart;
    bool until_work;               /* it is apart until the first busy state */
    bool coarse;                   /* read the wall clock alone: a thread's CPU clock costs a system call */
    double since_wall, since_real; /* the last change; by the clock of an emulated device, and by ours */
    double booked, since_cpu;      /* until when all is booked; the CPU clock then */
    double since_read;             /* seconds of work since it was read, of these states: */
    double unbooked[RT_STATE_ENCODE + 1];
    double started;

    /* Of an emulated device. */
    bool emulated;
    struct rt_emulation emulation;
    double factor;
    double late;    /* seconds that the thread is behind the device; less than 0: it owes so many */
    double reading; /* CPU-seconds that reading the clocks takes */
};

void rt_states_start(struct rt_states *states, enum rt_state state);
/* At once after a start: for a device that may be emulated. */
void rt_states_emulate(struct rt_states *states, const struct rt_emulation *emulation);
void rt_states_enter(struct rt_states *states, enum rt_state state); /* ends the state before */
/* The same; returns the state before. states NULL: no clock is kept, and it returns `state`. */
enum rt_state rt_states_swap(struct rt_states *states, enum rt_state state);
void rt_states_stop(struct rt_states *states);

/* The device works on this update from now on, as fast as it does then. */
void rt_states_at_update(struct rt_states *states, uint64_t update);
/* Nothing where a device is not emulated. Else the state goes on, but all of it so far has had its time, to a
 * fraction of a millisecond: what was computed may be shown to others now. */
void rt_states_catch_up(struct rt_states *states);
/* What comes now is training, or is none. settle: nothing is carried over from what came before. */
void rt_states_set_apart(struct rt_states *states, bool is_apart, bool settle);

/* The states so far, as for a report: they sum to rt_states_elapsed. */
void rt_states_read(struct rt_states *states, double seconds[RT_STATES]);
/* The same of another thread's clock, which waits and cannot go on meanwhile: nothing changes, nobody sleeps.
 * Returns what they sum to. */
double rt_states_look(const struct rt_states *states, double seconds[RT_STATES]);
/* Takes seconds of no training out of the waiting of somebody who cannot know what he waited for. Returns how
 * many there were. */
double rt_states_take_waiting(double seconds[RT_STATES], double apart);

const char *rt_state_name(enum rt_state state); /* "forward", "wait_input", ... */
double rt_states_busy(const struct rt_states *states);
double rt_states_idle(const struct rt_states *states);
double rt_states_total(const struct rt_states *states);
/* Training time from the start to the last change, by itself: what the states must sum to. */
double rt_states_elapsed(const struct rt_states *states);

#endif
