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

static bool states_is_busy(enum rt_state state) {
    return state <= RT_STATE_ENCODE;
}

/* A nap is worth taking when the thread owes a few times the usual lateness of a sleep. While no other device
 * waits for its results the thread computes for longer: after a nap the core and its caches are cold, and the
 * CPU time that is multiplied grows (measured: 10 % with bursts of 2 ms, 2 % with 50 ms). Not so long that a
 * user would notice, though. most_late bounds the debt that is made up for: a thread that was stopped for
 * long must not run ahead of its device afterwards. */
static const double between_readings = 5e-4; /* of the CPU clock */
static const double short_debt = 2e-4, burst = 5e-2, long_debt = 0.75, most_late = 0.1;

static double states_wall(const struct rt_states *states) {
    const struct rt_emulation *emulation = &states->emulation;
    return emulation->now ? emulation->now(emulation->self) : rt_clock_wall();
}

static void states_add(struct rt_states *states, enum rt_state state, double seconds) {
    *(states->is_apart ? &states->apart : &states->seconds[state]) += seconds;
}

/* Distributes seconds over the busy states of the time that is not yet booked. */
static void states_share(struct rt_states *states, double seconds) {
    double all = 0;
    for (enum rt_state state = 0; states_is_busy(state); state++)
        all += states->unbooked[state];
    for (enum rt_state state = 0; states_is_busy(state); state++) {
        if (states->unbooked[state] > 0)
            states_add(states, state, seconds * states->unbooked[state] / all);
        states->unbooked[state] = 0;
    }
    if (all <= 0)
        states_add(states, states->now, seconds);
}

/* In a busy state, time that was not CPU time of this thread counts as wait_cpu, whatever the reason. */
static void states_add_busy(struct rt_states *states, double passed, double used) {
    const double busy = fmin(fmax(used, 0), passed); /* the two clocks differ slightly */
    states_share(states, busy);
    states_add(states, RT_STATE_WAIT_CPU, passed - busy);
}

/* All of the emulated time is booked at once; the lateness of the thread shows whether it has passed. */
static void states_add_emulated(struct rt_states *states, double passed, double used) {
    const double due = states->factor * fmax(0, used - states->reading);
    states_share(states, due);
    states->late += passed - due;
    if (states->late > most_late) {
        states_add(states, RT_STATE_WAIT_CPU, states->late - most_late);
        states->late = most_late;
    }
}

/* The busy states since the CPU clock was last read. */
static void states_book_busy(struct rt_states *states) {
    const double cpu = states->coarse && !states->emulated ? 0 : rt_clock_thread();
    const double passed = states->since_wall - states->booked;
    if (states->emulated)
        states_add_emulated(states, passed, cpu - states->since_cpu);
    else
        states_add_busy(states, passed, states->coarse ? passed : cpu - states->since_cpu);
    states->booked = states->since_wall;
    states->since_cpu = cpu;
    states->since_read = 0;
}

/* Books the time since the last change to the current state. For consecutive busy states it is enough to read
 * the CPU clock now and then: that is a system call, which would slow down short operations. */
static void states_book(struct rt_states *states, bool whole) {
    const double wall = states_wall(states), passed = wall - states->since_wall;
    /* Virtual time stands still while a thread computes. */
    const double real = states->emulated ? rt_clock_wall() : wall, took = real - states->since_real;
    states->since_wall = wall;
    states->since_real = real;
    if (!states_is_busy(states->now)) {
        states_add(states, states->now, passed);
        states->booked = wall;
        if (!states->coarse || states->emulated)
            states->since_cpu = rt_clock_thread();
        return;
    }
    states->unbooked[states->now] += took;
    states->since_read += took;
    if (whole || states->since_read >= between_readings)
        states_book_busy(states);
}

/* The next booking starts now. */
static void states_begin(struct rt_states *states, double wall) {
    states->since_wall = states->booked = wall;
    states->since_real = rt_clock_wall();
    states->since_cpu = rt_clock_thread();
}

static void states_sleep_until(const struct rt_emulation *emulation, double until) {
    const struct timespec end = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    if (emulation->sleep)
        emulation->sleep(emulation->self, until);
    else
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

/* Sleeps when the thread owes more than this. */
static void states_pay(struct rt_states *states, double debt) {
    if (!states->emulated || states->late >= -debt)
        return;
    if (states->since_read > 0) /* what is not booked yet would be lost in the nap */
        states_book_busy(states);
    states_sleep_until(&states->emulation, states->since_wall - states->late);
    const double wall = states_wall(states);
    states->late += wall - states->since_wall;
    states_begin(states, wall);
}

void rt_states_start(struct rt_states *states, enum rt_state state) {
    memset(states, 0, sizeof *states);
    states->now = state;
    states_begin(states, rt_clock_wall());
    states->started = states->since_wall;
}

/* The CPU-seconds that an empty operation seems to take: the median of several. */
static double states_cost_of_reading(const struct rt_states *states) {
    enum { TRIES = 31 };
    struct rt_states trial = *states;
    double costs[TRIES];
    trial.factor = 1;
    trial.reading = trial.late = 0;
    trial.now = RT_STATE_FORWARD;
    states_begin(&trial, states_wall(states));
    for (int i = 0; i < TRIES; i++) {
        trial.seconds[RT_STATE_FORWARD] = 0;
        trial.late = 1; /* it does not sleep */
        states_book(&trial, true);
        states_pay(&trial, short_debt);
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
    states->reading = states_cost_of_reading(states);
    states_begin(states, states_wall(states));
    states->started = states->since_wall;
}

void rt_states_enter(struct rt_states *states, enum rt_state state) {
    if (states->until_work && states_is_busy(state)) {
        states->until_work = false;
        rt_states_set_apart(states, false, true);
    }
    states_book(states, !states_is_busy(state));
    states->now = state;
    states_pay(states, states_is_busy(state) ? fmin(states->factor * burst, long_debt) : short_debt);
}

enum rt_state rt_states_swap(struct rt_states *states, enum rt_state state) {
    const enum rt_state before = states ? states->now : state;
    if (states)
        rt_states_enter(states, state);
    return before;
}

void rt_states_stop(struct rt_states *states) {
    states_book(states, true);
    states_pay(states, 0);
}

void rt_states_at_update(struct rt_states *states, uint64_t update) {
    if (!states->emulated)
        return;
    const double factor = rt_pace_factor(states->emulation.pace, update);
    if (factor == states->factor)
        return;
    states_book(states, true);
    states->factor = factor;
}

void rt_states_catch_up(struct rt_states *states) {
    if (!states->emulated)
        return;
    states_book(states, true);
    states_pay(states, short_debt);
}

void rt_states_set_apart(struct rt_states *states, bool is_apart, bool settle) {
    if (states->is_apart == is_apart)
        return;
    states_book(states, true);
    if (settle) {
        states_pay(states, 0);
        states_add(states, RT_STATE_WAIT_CPU, states->late);
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
    const double passed = states_wall(states) - states->booked;
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

static double states_sum(const struct rt_states *states, enum rt_state first, enum rt_state last) {
    double seconds = 0;
    for (enum rt_state state = first; state <= last; state++)
        seconds += states->seconds[state];
    return seconds;
}

double rt_states_busy(const struct rt_states *states) {
    return states_sum(states, RT_STATE_FORWARD, RT_STATE_ENCODE);
}

double rt_states_idle(const struct rt_states *states) {
    return states_sum(states, RT_STATE_WAIT_INPUT, RT_STATE_RECOVER);
}

double rt_states_elapsed(const struct rt_states *states) {
    return states->booked - states->started - states->apart;
}

double rt_states_total(const struct rt_states *states) {
    return states_sum(states, RT_STATE_FORWARD, RT_STATE_WAIT_CPU) + states->late;
}
