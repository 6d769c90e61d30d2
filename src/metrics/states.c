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

/* A nap is worth taking when the thread owes a few times what a sleep ends late by. While nobody waits for
 * what it computes it goes on for longer: after a nap the core and its caches are cold, and the CPU time that
 * is multiplied grows (measured: 10 % with bursts of 2 ms, 2 % with 50 ms). Not for so long that a person
 * would notice, though. What is not made up for: a thread that was stopped for long must not run ahead of its
 * device afterwards. */
static const double between_readings = 5e-4; /* of the CPU clock */
static const double short_debt = 2e-4, burst = 5e-2, long_debt = 0.75, most_late = 0.1;

static double wall_of(const struct rt_states *states) {
    const struct rt_emulation *emulation = &states->emulation;
    return emulation->now ? emulation->now(emulation->self) : rt_clock_wall();
}

static void add(struct rt_states *states, enum rt_state state, double seconds) {
    *(states->is_apart ? &states->apart : &states->seconds[state]) += seconds;
}

/* Shares seconds out among the busy states of the time that is not yet booked. */
static void share(struct rt_states *states, double seconds) {
    double all = 0;
    for (enum rt_state state = 0; is_busy(state); state++)
        all += states->unbooked[state];
    for (enum rt_state state = 0; is_busy(state); state++) {
        if (states->unbooked[state] > 0)
            add(states, state, seconds * states->unbooked[state] / all);
        states->unbooked[state] = 0;
    }
    if (all <= 0)
        add(states, states->now, seconds);
}

/* Of a busy state, what was no CPU time of this thread goes to wait_cpu, whatever the reason. */
static void add_busy(struct rt_states *states, double passed, double used) {
    const double busy = fmin(fmax(used, 0), passed); /* the two clocks tick apart */
    share(states, busy);
    add(states, RT_STATE_WAIT_CPU, passed - busy);
}

/* It has all its time at once; whether that has passed shows in how late the thread is. */
static void add_emulated(struct rt_states *states, double passed, double used) {
    const double due = states->factor * fmax(0, used - states->reading);
    share(states, due);
    states->late += passed - due;
    if (states->late > most_late) {
        add(states, RT_STATE_WAIT_CPU, states->late - most_late);
        states->late = most_late;
    }
}

/* The busy states since the CPU clock was last read. */
static void book_busy(struct rt_states *states) {
    const double cpu = states->coarse && !states->emulated ? 0 : rt_clock_thread();
    const double passed = states->since_wall - states->booked;
    if (states->emulated)
        add_emulated(states, passed, cpu - states->since_cpu);
    else
        add_busy(states, passed, states->coarse ? passed : cpu - states->since_cpu);
    states->booked = states->since_wall;
    states->since_cpu = cpu;
    states->since_read = 0;
}

/* The time since the last change belongs to the current state. Of busy states in a row it is enough to know
 * the CPU time of all of them now and then: reading it is a system call, which short operations would feel.
 */
static void book(struct rt_states *states, bool whole) {
    const double wall = wall_of(states), passed = wall - states->since_wall;
    /* Virtual time stands still while a thread computes. */
    const double real = states->emulated ? rt_clock_wall() : wall, took = real - states->since_real;
    states->since_wall = wall;
    states->since_real = real;
    if (!is_busy(states->now)) {
        add(states, states->now, passed);
        states->booked = wall;
        if (!states->coarse || states->emulated)
            states->since_cpu = rt_clock_thread();
        return;
    }
    states->unbooked[states->now] += took;
    states->since_read += took;
    if (whole || states->since_read >= between_readings)
        book_busy(states);
}

/* What is booked next begins now. */
static void begin(struct rt_states *states, double wall) {
    states->since_wall = states->booked = wall;
    states->since_real = rt_clock_wall();
    states->since_cpu = rt_clock_thread();
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
    if (states->since_read > 0) /* what is not booked yet would be lost in the nap */
        book_busy(states);
    sleep_until(&states->emulation, states->since_wall - states->late);
    const double wall = wall_of(states);
    states->late += wall - states->since_wall;
    begin(states, wall);
}

void rt_states_start(struct rt_states *states, enum rt_state state) {
    memset(states, 0, sizeof *states);
    states->now = state;
    begin(states, rt_clock_wall());
    states->started = states->since_wall;
}

/* The CPU-seconds that an operation of nothing seems to take: the median of several. */
static double cost_of_reading(const struct rt_states *states) {
    enum { TRIES = 31 };
    struct rt_states trial = *states;
    double costs[TRIES];
    trial.factor = 1;
    trial.reading = trial.late = 0;
    trial.now = RT_STATE_FORWARD;
    begin(&trial, wall_of(states));
    for (int i = 0; i < TRIES; i++) {
        trial.seconds[RT_STATE_FORWARD] = 0;
        trial.late = 1; /* it does not sleep */
        book(&trial, true);
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
    begin(states, wall_of(states));
    states->started = states->since_wall;
}

void rt_states_enter(struct rt_states *states, enum rt_state state) {
    if (states->until_work && is_busy(state)) {
        states->until_work = false;
        rt_states_set_apart(states, false, true);
    }
    book(states, !is_busy(state));
    states->now = state;
    pay(states, is_busy(state) ? fmin(states->factor * burst, long_debt) : short_debt);
}

enum rt_state rt_states_swap(struct rt_states *states, enum rt_state state) {
    const enum rt_state before = states ? states->now : state;
    if (states)
        rt_states_enter(states, state);
    return before;
}

void rt_states_stop(struct rt_states *states) {
    book(states, true);
    pay(states, 0);
}

void rt_states_at_update(struct rt_states *states, uint64_t update) {
    if (!states->emulated)
        return;
    const double factor = rt_pace_factor(states->emulation.pace, update);
    if (factor == states->factor)
        return;
    book(states, true);
    states->factor = factor;
}

void rt_states_catch_up(struct rt_states *states) {
    if (!states->emulated)
        return;
    book(states, true);
    pay(states, short_debt);
}

void rt_states_set_apart(struct rt_states *states, bool is_apart, bool settle) {
    if (states->is_apart == is_apart)
        return;
    book(states, true);
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
    const double passed = wall_of(states) - states->booked;
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
    return states->booked - states->started - states->apart;
}

double rt_states_total(const struct rt_states *states) {
    return sum(states, RT_STATE_FORWARD, RT_STATE_WAIT_CPU) + states->late;
}
