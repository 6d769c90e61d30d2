/*
 * State clocks: what a computing thread is doing, second by second. The states sum to wall time. wait_cpu
 * is what remains of busy states without the thread's own CPU time: another thread had the core, or the
 * thread slept inside such a state, for a page of memory, or for the other threads of its pool after
 * spinning for too long. Spinning itself uses the core and counts as busy.
 *
 * An emulated device (metrics/pace.h) is slower in all its busy states by the same factor: c CPU-seconds
 * count as factor * c, and the thread sleeps for the difference: before it waits, and before others see
 * its results (rt_states_catch_up). Between two busy states it sleeps once it owes the time of some 50
 * milliseconds of computing. A debt too short for a nap is carried over, and so is the time by which a
 * sleep ended late or another thread had the core: so many short operations last as long as one long
 * operation. A longer delay counts as wait_cpu, as on any device.
 *
 * Time that is not training, such as a validation, is counted separately from the states.
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

/* The emulated device, and the clock of its sleeps. */
struct rt_emulation {
    const struct rt_pace *pace; /* borrowed; NULL: the device is not emulated */
    void *self;
    double (*now)(void *self); /* NULL: rt_clock_wall */
    void (*sleep)(
        void *self,
        double until); /* NULL: the thread itself sleeps, and does nothing else. May return early. */
};

struct rt_states {
    double seconds[RT_STATES];
    double apart; /* seconds of no training */
    enum rt_state now;
    bool is_apart;
    bool until_work;               /* it is not training until the first busy state */
    bool coarse;                   /* read the wall clock alone: a thread's CPU clock costs a system call */
    double since_wall, since_real; /* the last change; by the clock of an emulated device, and by ours */
    double booked, since_cpu;      /* until when all is booked; the CPU clock then */
    double since_read;             /* seconds of work since it was read, of these states: */
    double unbooked[RT_STATE_ENCODE + 1];
    double started;

    /* For an emulated device. */
    bool emulated;
    struct rt_emulation emulation;
    double factor;
    double late;    /* seconds that the thread is behind the device; less than 0: it owes so many */
    double reading; /* CPU-seconds that reading the clocks takes */
};

void rt_states_start(struct rt_states *states, enum rt_state state);
/* Directly after a start: for a device that may be emulated. */
void rt_states_emulate(struct rt_states *states, const struct rt_emulation *emulation);
void rt_states_enter(struct rt_states *states, enum rt_state state); /* ends the state before */
/* The same; returns the state before. states NULL: no clock is kept, and it returns `state`. */
enum rt_state rt_states_swap(struct rt_states *states, enum rt_state state);
void rt_states_stop(struct rt_states *states);

/* The device works on this update from now on, with the factor for that update. */
void rt_states_at_update(struct rt_states *states, uint64_t update);
/* No effect on a device that is not emulated. Otherwise the state goes on, but its time so far has passed, to
 * a fraction of a millisecond: results may be sent to others now. */
void rt_states_catch_up(struct rt_states *states);
/* From now on the time counts as training, or does not. settle: no debt is carried over from before. */
void rt_states_set_apart(struct rt_states *states, bool is_apart, bool settle);

/* The states so far, as for a report: they sum to rt_states_elapsed. */
void rt_states_read(struct rt_states *states, double seconds[RT_STATES]);
/* The same for the clock of another thread, which waits and cannot go on meanwhile: changes nothing and does
 * not sleep. Returns the sum of the states. */
double rt_states_look(const struct rt_states *states, double seconds[RT_STATES]);
/* Removes seconds that were not training from the waiting states of a thread that cannot know what it waited
 * for. Returns how many were removed. */
double rt_states_take_waiting(double seconds[RT_STATES], double apart);

const char *rt_state_name(enum rt_state state); /* "forward", "wait_input", ... */
double rt_states_busy(const struct rt_states *states);
double rt_states_idle(const struct rt_states *states);
double rt_states_total(const struct rt_states *states);
/* Training time from the start to the last change, by itself: what the states must sum to. */
double rt_states_elapsed(const struct rt_states *states);

#endif
