#include "metrics/states.h"
#include "base/clock.h"
#include <math.h>
#include <string.h>
#include <time.h>

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

/* A nap is worth its while when the thread owes a few times what a sleep ends late by, and has computed for
 * long enough that it does not find the caches cold each time. What is not made up for: a thread that was
 * stopped for long must not run ahead of its device afterwards. */
static const double short_debt = 2e-4, burst = 2e-4, most_late = 0.1;

static double wall_of(const struct rt_states *states) {
    const struct rt_emulation *emulation = &states->emulation;
    return emulation->now ? emulation->now(emulation->self) : rt_clock_wall();
}

static void add(struct rt_states *states, enum rt_state state, double seconds) {
    *(states->is_apart ? &states->apart : &states->seconds[state]) += seconds;
}

/* Of a busy state, what was no CPU time of this thread goes to wait_cpu, whatever the reason. */
static void add_busy(struct rt_states *states, double passed, double used) {
    double waited = passed - used;
    waited = waited < 0 ? 0 : waited > passed ? passed : waited; /* the two clocks tick apart */
    add(states, states->now, passed - waited);
    add(states, RT_STATE_WAIT_CPU, waited);
}

/* It has all its time at once; whether that has passed shows in how late the thread is. */
static void add_emulated(struct rt_states *states, double passed, double used) {
    const double due = states->factor * fmax(0, used - states->reading);
    add(states, states->now, due);
    states->late += passed - due;
    if (states->late > most_late) {
        add(states, RT_STATE_WAIT_CPU, states->late - most_late);
        states->late = most_late;
    }
}

/* Books the time since the last change on the current state. */
static void book(struct rt_states *states) {
    const bool coarse = states->coarse && !states->emulated;
    const double wall = wall_of(states), cpu = coarse ? 0 : rt_clock_thread();
    const double passed = wall - states->since_wall, used = coarse ? passed : cpu - states->since_cpu;
    if (!is_busy(states->now))
        add(states, states->now, passed);
    else if (states->emulated)
        add_emulated(states, passed, used);
    else
        add_busy(states, passed, used);
    states->since_wall = wall;
    states->since_cpu = cpu;
}

static void sleep_until(const struct rt_emulation *emulation, double until) {
    const struct timespec end = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    if (emulation->sleep)
        emulation->sleep(emulation->self, until);
    else
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

/* Sleeps when the thread owes more than so much. */
static void pay(struct rt_states *states, double debt) {
    if (!states->emulated || states->late >= -debt)
        return;
    sleep_until(&states->emulation, states->since_wall - states->late);
    const double wall = wall_of(states);
    states->late += wall - states->since_wall;
    states->since_wall = wall;
    states->since_cpu = rt_clock_thread();
}

void rt_states_start(struct rt_states *states, enum rt_state state) {
    memset(states, 0, sizeof *states);
    states->now = state;
    states->since_wall = states->started = rt_clock_wall();
    states->since_cpu = rt_clock_thread();
}

/* The CPU-seconds that an operation of nothing seems to take: the median of several. */
static double cost_of_reading(const struct rt_states *states) {
    enum { TRIES = 31 };
    struct rt_states trial = *states;
    double costs[TRIES];
    trial.factor = 1;
    trial.reading = trial.late = 0;
    trial.now = RT_STATE_FORWARD;
    trial.since_wall = wall_of(states);
    trial.since_cpu = rt_clock_thread();
    for (int i = 0; i < TRIES; i++) {
        trial.seconds[RT_STATE_FORWARD] = 0;
        trial.late = 1; /* it does not sleep */
        book(&trial);
        pay(&trial, short_debt);
        int at = i;
        for (; at > 0 && costs[at - 1] > trial.seconds[RT_STATE_FORWARD]; at--)
            costs[at] = costs[at - 1];
        costs[at] = trial.seconds[RT_STATE_FORWARD];
    }
    return costs[TRIES / 2];
}

void rt_states_emulate(struct rt_states *states, const struct rt_emulation *emulation) {
    if (!rt_pace_is_emulated(emulation->pace))
        return;
    states->emulated = true;
    states->emulation = *emulation;
    states->factor = rt_pace_factor(emulation->pace, 1);
    states->reading = cost_of_reading(states);
    states->since_wall = states->started = wall_of(states);
    states->since_cpu = rt_clock_thread();
}

void rt_states_enter(struct rt_states *states, enum rt_state state) {
    if (states->until_work && is_busy(state)) {
        states->until_work = false;
        rt_states_set_apart(states, false, true);
    }
    book(states);
    states->now = state;
    pay(states, fmax(short_debt, states->factor * burst));
}

void rt_states_stop(struct rt_states *states) {
    book(states);
    pay(states, 0);
}

void rt_states_at_update(struct rt_states *states, uint64_t update) {
    if (!states->emulated)
        return;
    const double factor = rt_pace_factor(states->emulation.pace, update);
    if (factor == states->factor)
        return;
    book(states);
    states->factor = factor;
}

void rt_states_catch_up(struct rt_states *states) {
    if (states->emulated)
        rt_states_enter(states, states->now);
}

void rt_states_set_apart(struct rt_states *states, bool is_apart, bool settle) {
    if (states->is_apart == is_apart)
        return;
    book(states);
    if (settle) {
        pay(states, 0);
        add(states, RT_STATE_WAIT_CPU, states->late);
        states->late = 0;
    }
    states->is_apart = is_apart;
}

void rt_states_read(struct rt_states *states, double seconds[RT_STATES]) {
    if (states->started > 0)
        rt_states_stop(states);
    memcpy(seconds, states->seconds, sizeof states->seconds);
    seconds[RT_STATE_WAIT_CPU] +=
        fmax(0, states->late); /* less: a sleep was cut short, and the run with it */
}

double rt_states_look(const struct rt_states *states, double seconds[RT_STATES]) {
    memcpy(seconds, states->seconds, sizeof states->seconds);
    if (states->started == 0 || states->is_apart)
        return rt_states_elapsed(states);
    const double passed = wall_of(states) - states->since_wall;
    seconds[states->now] += fmax(0, passed + fmin(0, states->late)); /* what it owes is in a busy state */
    seconds[RT_STATE_WAIT_CPU] += fmax(0, states->late);
    return rt_states_elapsed(states) + passed;
}

double rt_states_take_waiting(double seconds[RT_STATES], double apart) {
    double taken = 0;
    for (enum rt_state state = RT_STATE_WAIT_INPUT; state < RT_STATE_WAIT_CPU; state++) {
        const double part = fmin(seconds[state], fmax(0, apart - taken));
        seconds[state] -= part;
        taken += part;
    }
    return taken;
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
    return states->since_wall - states->started - states->apart;
}

double rt_states_total(const struct rt_states *states) {
    return sum(states, RT_STATE_FORWARD, RT_STATE_WAIT_CPU) + states->late;
}
