/* Which node is stuck, told from who waits for whom and from heartbeats alone. */
#include "cluster/liveness.h"
#include "support/test.h"

#include <math.h>

static bool is_stuck(uint16_t node, double waited, uint16_t note, double age) {
    const struct rt_heartbeat last = {.known = true, .note = note, .age = age};
    return rt_liveness_is_stuck(node, 5, waited, 60, &last);
}

TEST(who_takes_no_step_for_the_timeout_is_stuck) {
    CHECK(is_stuck(3, 60, 0, 60) && is_stuck(3, 1000, 2, (double)INFINITY));
    CHECK(!is_stuck(3, 59.9, 0, 60));   /* not waited for long enough */
    CHECK(!is_stuck(3, 1000, 0, 59.9)); /* it works, or waits itself */
    CHECK(!is_stuck(0, 1000, 0, (double)INFINITY));
    CHECK(!rt_liveness_is_stuck(3, 5, 1000, 60, &(struct rt_heartbeat){0})); /* nothing is known of it */
    /* what is known of it is old */
    CHECK(!rt_liveness_is_stuck(3, 5, 1000, 60,
                                &(struct rt_heartbeat){.known = true, .age = (double)INFINITY, .ago = 1001}));
    CHECK(is_stuck(3, 60, 6, 0) && !is_stuck(3, 60, 5, 0)); /* they wait in a circle */
    CHECK(!is_stuck(0, 60, 6, 0));
}

TEST(a_wait_begins_anew_when_something_comes) {
    struct rt_wait wait = {0};
    CHECK(rt_wait_seconds(&wait, UINT16_MAX, 0, 100) == 0);
    CHECK(rt_wait_seconds(&wait, 2, 0, 101) == 0);
    CHECK(rt_wait_seconds(&wait, 2, 0, 111) == 10);
    CHECK(rt_wait_seconds(&wait, 2, 108, 112) == 4);
    CHECK(rt_wait_seconds(&wait, 3, 0, 113) == 0); /* another one */
    CHECK(rt_wait_seconds(&wait, UINT16_MAX, 0, 114) == 0);
    CHECK(rt_wait_seconds(&wait, 3, 0, 120) == 0);
}

/* Nodes that each wait for another since time 0, and look twice a second: who names whom, and when. 0: nobody
 * within an hour. awaits[i] == i: the node hangs. */
static double name(const uint16_t *awaits, uint16_t count, uint16_t *by, uint16_t *whom) {
    const double timeout = 60;
    uint16_t notes[16] = {0};
    for (double now = 0; now < 3600; now += 0.5)
        for (uint16_t i = 0; i < count; i++) {
            if (awaits[i] == i)
                continue;
            const bool hangs = awaits[awaits[i]] == awaits[i];
            const struct rt_heartbeat last = {
                .known = true, .note = notes[awaits[i]], .age = hangs ? now : 0.25};
            *by = i;
            *whom = awaits[i];
            if (rt_liveness_is_stuck(awaits[i], count, now, timeout, &last))
                return now;
            notes[i] = UINT16_MAX;
            rt_liveness_count(now, timeout, &last, &notes[i]);
        }
    return 0;
}

TEST(the_end_of_a_chain_is_named) {
    uint16_t by, whom;
    CHECK(name((const uint16_t[]){1, 2, 3, 4, 4}, 5, &by, &whom) == 60 && by == 3 && whom == 4);
    CHECK(name((const uint16_t[]){3, 1, 1, 2, 3, 2}, 6, &by, &whom) == 60 && by == 2 && whom == 1);
}

TEST(a_chain_that_ends_at_the_master_is_waited_for) {
    uint16_t by, whom;
    CHECK(name((const uint16_t[]){0, 0, 1, 2, 3}, 5, &by, &whom) == 0);
}

TEST(a_circle_ends_too) {
    uint16_t by, whom;
    const double two = name((const uint16_t[]){1, 0}, 2, &by, &whom);
    CHECK_MSG(two >= 60 && two < 62 && by == 0 && whom == 1, "%g s", two);
    const double many = name((const uint16_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 0}, 10, &by, &whom);
    CHECK_MSG(many >= 60 && many < 90 && whom != 0, "%g s", many);
}

TEST_MAIN()
