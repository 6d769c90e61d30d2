/* State clocks: the states sum to wall time, and a thread that does not run is not busy. */
#include "base/clock.h"
#include "metrics/states.h"
#include "support/test.h"
#include <math.h>
#include <time.h>

static void nap(double seconds) {
    struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

/* Uses so many seconds of the core, or a little more; returns how many. A machine that is itself emulated may
 * be stopped in between and still count the time. */
static double work(double cpu_seconds) {
    const double start = rt_clock_thread();
    double used = 0;
    while (used < cpu_seconds)
        used = rt_clock_thread() - start;
    return used;
}

/* A state that held the work has its seconds, and little besides. */
static bool holds(double seconds, double worked) {
    return seconds >= worked - 0.0005 && seconds < worked + 0.005;
}

TEST(states_sum_to_wall_time) {
    struct rt_states states;
    double before_start = rt_clock_wall();
    rt_states_start(&states, RT_STATE_WAIT_DATA);
    double after_start = rt_clock_wall();
    nap(0.03);
    rt_states_enter(&states, RT_STATE_FORWARD);
    const double forward = work(0.03);
    rt_states_enter(&states, RT_STATE_BACKWARD);
    const double backward = work(0.02);
    rt_states_enter(&states, RT_STATE_WAIT_INPUT);
    nap(0.01);
    double before_stop = rt_clock_wall();
    rt_states_stop(&states);
    double after_stop = rt_clock_wall(), total = rt_states_total(&states);
    CHECK(total >= before_stop - after_start - 1e-9 && total <= after_stop - before_start + 1e-9);
    CHECK(states.seconds[RT_STATE_WAIT_DATA] >= 0.03);
    CHECK(holds(states.seconds[RT_STATE_FORWARD], forward));
    CHECK(holds(states.seconds[RT_STATE_BACKWARD], backward));
    CHECK(fabs(rt_states_busy(&states) - states.seconds[RT_STATE_FORWARD] -
               states.seconds[RT_STATE_BACKWARD]) < 1e-9);
    CHECK(fabs(rt_states_idle(&states) - states.seconds[RT_STATE_WAIT_DATA] -
               states.seconds[RT_STATE_WAIT_INPUT]) < 1e-9);
    CHECK(fabs(rt_states_busy(&states) + rt_states_idle(&states) + states.seconds[RT_STATE_WAIT_CPU] -
               rt_states_total(&states)) < 1e-9);
}

TEST(a_sleeping_thread_is_not_busy) {
    struct rt_states states;
    rt_states_start(&states, RT_STATE_FORWARD);
    nap(0.05);
    rt_states_stop(&states);
    CHECK(states.seconds[RT_STATE_FORWARD] < 0.01);
    CHECK(states.seconds[RT_STATE_WAIT_CPU] > 0.04);
    CHECK(rt_states_idle(&states) == 0);
}

TEST(starting_again_forgets) {
    struct rt_states states;
    rt_states_start(&states, RT_STATE_FORWARD);
    work(0.01);
    rt_states_stop(&states);
    rt_states_start(&states, RT_STATE_FORWARD);
    rt_states_stop(&states);
    CHECK(rt_states_busy(&states) < 0.005);
}

TEST(every_state_has_its_own_name) {
    for (int a = 0; a < RT_STATES; a++) {
        REQUIRE(rt_state_name((enum rt_state)a));
        for (int b = 0; b < a; b++)
            CHECK(strcmp(rt_state_name((enum rt_state)a), rt_state_name((enum rt_state)b)) != 0);
    }
    CHECK(strcmp(rt_state_name(RT_STATE_WAIT_CPU), "wait_cpu") == 0);
}

TEST_MAIN()
