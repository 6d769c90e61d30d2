#include "metrics/states.h"
#include "base/clock.h"
#include <stdbool.h>
#include <string.h>

static const char *const names[RT_STATES] = {
    [RT_STATE_FORWARD] = "forward",
    [RT_STATE_BACKWARD] = "backward",
    [RT_STATE_WEIGHT] = "weight",
    [RT_STATE_UPDATE] = "update",
    [RT_STATE_REDUCE] = "reduce",
    [RT_STATE_ENCODE] = "encode",
    [RT_STATE_WAIT_INPUT] = "wait_input",
    [RT_STATE_WAIT_GRADIENT] = "wait_gradient",
    [RT_STATE_WAIT_SEND] = "wait_send",
    [RT_STATE_WAIT_WINDOW] = "wait_window",
    [RT_STATE_WAIT_BARRIER] = "wait_barrier",
    [RT_STATE_WAIT_DATA] = "wait_data",
    [RT_STATE_RECOVER] = "recover",
    [RT_STATE_WAIT_CPU] = "wait_cpu",
};

static bool is_busy(enum rt_state state) {
    return state <= RT_STATE_ENCODE;
}

/* Books the time since the last change on the current state; of a busy one, what was no CPU time of this
 * thread goes to wait_cpu, whatever the reason. */
static void book(struct rt_states *states) {
    double wall = rt_clock_wall(), cpu = rt_clock_thread();
    double passed = wall - states->since_wall;
    double waited = 0;
    if (is_busy(states->now)) {
        waited = passed - (cpu - states->since_cpu);
        waited = waited < 0 ? 0 : waited > passed ? passed : waited; /* the two clocks tick apart */
    }
    states->seconds[states->now] += passed - waited;
    states->seconds[RT_STATE_WAIT_CPU] += waited;
    states->since_wall = wall;
    states->since_cpu = cpu;
}

void rt_states_start(struct rt_states *states, enum rt_state state) {
    memset(states, 0, sizeof *states);
    states->now = state;
    states->since_wall = states->started = rt_clock_wall();
    states->since_cpu = rt_clock_thread();
}

void rt_states_enter(struct rt_states *states, enum rt_state state) {
    book(states);
    states->now = state;
}

void rt_states_stop(struct rt_states *states) {
    book(states);
}

const char *rt_state_name(enum rt_state state) {
    return names[state];
}

static double sum(const struct rt_states *states, enum rt_state first, enum rt_state last) {
    double seconds = 0;
    for (enum rt_state state = first; state <= last; state++)
        seconds += states->seconds[state];
    return seconds;
}

double rt_states_busy(const struct rt_states *states) {
    return sum(states, RT_STATE_FORWARD, RT_STATE_ENCODE);
}

double rt_states_idle(const struct rt_states *states) {
    return sum(states, RT_STATE_WAIT_INPUT, RT_STATE_RECOVER);
}

double rt_states_elapsed(const struct rt_states *states) {
    return states->since_wall - states->started;
}

double rt_states_total(const struct rt_states *states) {
    return sum(states, RT_STATE_FORWARD, RT_STATE_WAIT_CPU);
}
