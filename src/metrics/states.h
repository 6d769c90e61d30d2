/*
 * State clocks: what a computing thread is doing, second by second. The states sum to wall time. wait_cpu is
 * what remains of busy states when the thread's own CPU time is taken off: another had the core, or the
 * thread slept inside such a state, for a page of memory, or for the other threads of its pool once looking
 * out for them had taken too long. Looking out itself uses the core and counts as busy.
 */
#ifndef RT_METRICS_STATES_H
#define RT_METRICS_STATES_H

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

struct rt_states {
    double seconds[RT_STATES];
    enum rt_state now;
    double since_wall, since_cpu;
    double started;
};

void rt_states_start(struct rt_states *states, enum rt_state state);
void rt_states_enter(struct rt_states *states, enum rt_state state); /* ends the state before */
void rt_states_stop(struct rt_states *states);

const char *rt_state_name(enum rt_state state); /* "forward", "wait_input", ... */
double rt_states_busy(const struct rt_states *states);
double rt_states_idle(const struct rt_states *states);
double rt_states_total(const struct rt_states *states);
/* Wall time from the start to the last change, by itself: what the states must sum to. */
double rt_states_elapsed(const struct rt_states *states);

#endif
