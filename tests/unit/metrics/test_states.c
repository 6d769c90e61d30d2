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

/* ---- an emulated device ---- */

/* A clock that stands still while the thread computes: what passes on it are sleeps, which end late. */
struct still {
    double now, oversleep;
    size_t sleeps;
};

static double still_now(void *self) {
    return ((struct still *)self)->now;
}

static void still_sleep(void *self, double until) {
    struct still *still = self;
    still->now = until + still->oversleep;
    still->sleeps++;
}

/* Short operations last as long as one long one, however late sleeps end; all of it is accounted for. */
TEST(short_operations_of_an_emulated_device_last_as_long_as_they_would) {
    static const double oversleeps[] = {0, 0.0005, 0.02};
    for (size_t k = 0; k < 3; k++) {
        struct still still = {.now = 100, .oversleep = oversleeps[k]};
        const struct rt_pace pace = {.first = 50};
        struct rt_states states;
        rt_states_start(&states, RT_STATE_WAIT_DATA);
        rt_states_emulate(&states, &(struct rt_emulation){&pace, &still, still_now, still_sleep});
        double forward = 0, update = 0, seconds[RT_STATES], sum = 0;
        for (size_t i = 0; i < 2000; i++) {
            rt_states_enter(&states, RT_STATE_FORWARD);
            forward += work(2e-6);
            rt_states_enter(&states, RT_STATE_UPDATE);
            update += work(1e-6);
            rt_states_enter(&states, RT_STATE_WAIT_INPUT);
            still.now += 1e-5;
        }
        rt_states_read(&states, seconds);
        for (int i = 0; i < RT_STATES; i++)
            sum += seconds[i];
        /* The clocks are read in between, about once for every operation. */
        CHECK_MSG(seconds[RT_STATE_FORWARD] >= 0.98 * 50 * forward &&
                      seconds[RT_STATE_FORWARD] <= 50 * (forward + 0.02),
                  "%g s for %g", seconds[RT_STATE_FORWARD], forward);
        CHECK(seconds[RT_STATE_UPDATE] >= 0.98 * 50 * update &&
              seconds[RT_STATE_UPDATE] <= 50 * (update + 0.02));
        CHECK(fabs(seconds[RT_STATE_WAIT_INPUT] - 0.02) < 1e-9);
        CHECK(fabs(sum - rt_states_elapsed(&states)) < 1e-9);
        CHECK(fabs(rt_states_elapsed(&states) - (still.now - 100)) < 1e-9);
        CHECK_MSG(seconds[RT_STATE_WAIT_CPU] <= oversleeps[k] + 1e-9, "%g s of oversleep are left",
                  seconds[RT_STATE_WAIT_CPU]);
        CHECK(still.sleeps > 0 && (double)still.sleeps <= (still.now - 100) / 2e-4);
    }
}

/* Between busy states a device may owe some time; nothing to speak of before it waits, or before
 * others see what it has computed. */
TEST(an_emulated_device_pays_before_others_see_its_work) {
    struct still still = {.now = 0};
    const struct rt_pace pace = {.first = 10};
    struct rt_states states;
    rt_states_start(&states, RT_STATE_WAIT_DATA);
    rt_states_emulate(&states, &(struct rt_emulation){&pace, &still, still_now, still_sleep});
    rt_states_enter(&states, RT_STATE_FORWARD);
    work(0.001); /* 10 ms of the device */
    rt_states_enter(&states, RT_STATE_BACKWARD);
    CHECK(still.sleeps == 0);
    rt_states_catch_up(&states);
    CHECK_MSG(still.sleeps == 1 && still.now >= 0.0095 && states.late >= -2e-4, "%g", still.now);
    const double shown = still.now;
    work(0.001);
    rt_states_enter(&states, RT_STATE_UPDATE);
    CHECK(still.now == shown);
    rt_states_enter(&states, RT_STATE_WAIT_INPUT);
    CHECK(still.now >= shown + 0.0095);
    /* and no more than 50 ms of computing, or 0.75 s in all */
    const double waited = still.now;
    rt_states_enter(&states, RT_STATE_FORWARD);
    work(0.052);
    rt_states_enter(&states, RT_STATE_BACKWARD);
    CHECK(still.now >= waited + 0.5);
    const struct rt_pace slow = {.first = 100};
    still = (struct still){.now = 0};
    rt_states_start(&states, RT_STATE_FORWARD);
    rt_states_emulate(&states, &(struct rt_emulation){&slow, &still, still_now, still_sleep});
    work(0.008);
    rt_states_enter(&states, RT_STATE_BACKWARD);
    CHECK(still.now >= 0.75);
}

/* However a debt arises, nothing of what was not booked yet is lost in the nap that pays it, and nothing is
 * booked twice. What the clocks themselves cost is the device's time too, and on an emulated processor that
 * is much: the upper bound is the CPU time of all of it, slowed down all the time. */
TEST(a_nap_loses_no_time) {
    for (int is_virtual = 0; is_virtual < 2; is_virtual++) {
        struct still still = {.now = 100};
        const struct rt_pace pace = {.first = 20, .count = 2, .change = {{3, 1}, {6, 20}}};
        struct rt_emulation emulation = {.pace = &pace};
        struct rt_states states;
        double seconds[RT_STATES], sum = 0, used = 0;
        if (is_virtual)
            emulation = (struct rt_emulation){&pace, &still, still_now, still_sleep};
        rt_states_start(&states, RT_STATE_FORWARD);
        const double start = rt_clock_thread();
        rt_states_emulate(&states, &emulation);
        for (uint64_t update = 1; update <= 9; update++) {
            const double factor = update >= 3 && update < 6 ? 1 : 20;
            rt_states_enter(&states, RT_STATE_FORWARD);
            rt_states_at_update(&states, update);
            used += factor * work(2e-4);
            rt_states_enter(&states, RT_STATE_BACKWARD);
            used += factor * work(2e-4);
        }
        rt_states_read(&states, seconds);
        for (int i = 0; i < RT_STATES; i++)
            sum += seconds[i];
        CHECK_MSG(fabs(sum - rt_states_elapsed(&states)) < 1e-9, "%g s of %g", sum,
                  rt_states_elapsed(&states));
        const double busy = seconds[RT_STATE_FORWARD] + seconds[RT_STATE_BACKWARD];
        const double most = 20 * (rt_clock_thread() - start) + 0.002;
        CHECK_MSG(busy > 0.95 * used && busy < most, "%g s for %g to %g", busy, used, most);
    }
}

/* Short operations in a row share the CPU time that all of them took by how long each was. */
TEST(short_operations_are_told_apart) {
    struct rt_states states;
    double forward = 0, backward = 0, seconds[RT_STATES];
    rt_states_start(&states, RT_STATE_FORWARD);
    for (int i = 0; i < 300; i++) {
        forward += work(1e-5);
        rt_states_enter(&states, RT_STATE_BACKWARD);
        backward += work(3e-5);
        rt_states_enter(&states, RT_STATE_FORWARD);
    }
    rt_states_read(&states, seconds);
    CHECK_MSG(fabs(seconds[RT_STATE_FORWARD] + seconds[RT_STATE_BACKWARD] - forward - backward) <
                  0.25 * (forward + backward),
              "%g + %g, not %g + %g", seconds[RT_STATE_FORWARD], seconds[RT_STATE_BACKWARD], forward,
              backward);
    CHECK(seconds[RT_STATE_BACKWARD] > 1.5 * seconds[RT_STATE_FORWARD]);
}

TEST(a_device_gets_slower_from_an_update_on) {
    struct still still = {.now = 0};
    const struct rt_pace pace = {.first = 1, .count = 1, .change = {{3, 10}}};
    struct rt_states states;
    double seconds[RT_STATES], at[5] = {0}, used[5], spent[5];
    rt_states_start(&states, RT_STATE_WAIT_DATA);
    rt_states_emulate(&states, &(struct rt_emulation){&pace, &still, still_now, still_sleep});
    for (uint64_t update = 1; update <= 4; update++) {
        const double start = rt_clock_thread();
        rt_states_enter(&states, RT_STATE_FORWARD);
        rt_states_at_update(&states, update);
        used[update] = work(0.002);
        rt_states_enter(&states, RT_STATE_WAIT_INPUT);
        spent[update] = rt_clock_thread() - start;
        rt_states_read(&states, seconds);
        at[update] = seconds[RT_STATE_FORWARD];
    }
    for (uint64_t update = 1; update <= 4; update++) {
        const double busy = at[update] - at[update - 1], factor = update < 3 ? 1 : 10;
        CHECK_MSG(busy > 0.95 * factor * used[update] && busy < 1.05 * factor * spent[update] + 0.001,
                  "update %d: %g s for %g to %g", (int)update, busy, used[update], spent[update]);
    }
}

/* A validation is in no state, on an emulated device and on another. */
TEST(a_validation_is_counted_apart) {
    for (int emulated = 0; emulated < 2; emulated++) {
        struct still still = {.now = 0};
        const struct rt_pace pace = {.first = 20};
        struct rt_states states;
        double seconds[RT_STATES], sum = 0;
        rt_states_start(&states, RT_STATE_FORWARD);
        if (emulated)
            rt_states_emulate(&states, &(struct rt_emulation){&pace, &still, still_now, still_sleep});
        const double trained = work(0.002);
        rt_states_set_apart(&states, true, true);
        const double validated = work(0.02);
        rt_states_enter(&states, RT_STATE_WAIT_INPUT);
        rt_states_enter(&states, RT_STATE_FORWARD);
        rt_states_set_apart(&states, false, true);
        rt_states_read(&states, seconds);
        for (int i = 0; i < RT_STATES; i++)
            sum += seconds[i];
        const double factor = emulated ? 20 : 1;
        CHECK(states.apart >= 0.98 * factor * validated && sum >= 0.98 * factor * trained);
        CHECK(sum - seconds[RT_STATE_WAIT_CPU] < 0.5 * states.apart);
        CHECK(fabs(sum - rt_states_elapsed(&states)) < 1e-9);
    }
    double waited[RT_STATES] = {
        [RT_STATE_FORWARD] = 5, [RT_STATE_WAIT_INPUT] = 1, [RT_STATE_WAIT_BARRIER] = 2};
    CHECK(rt_states_take_waiting(waited, -1) == 0 && rt_states_take_waiting(waited, 1.5) == 1.5);
    CHECK(waited[RT_STATE_FORWARD] == 5 && waited[RT_STATE_WAIT_INPUT] == 0);
    CHECK(waited[RT_STATE_WAIT_BARRIER] == 1.5 && rt_states_take_waiting(waited, 9) == 1.5);
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
