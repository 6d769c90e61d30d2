/* How long a peer may be silent, see net/silence.h: from numbers to a number. */
#include "net/silence.h"

#include "support/test.h"
#include <math.h>

static const struct rt_silence_terms usual = {.most = 5, .least = 1, .heartbeat = 0.25};

static double bound_after(double round_trip, unsigned samples) {
    struct rt_silence silence = {0};
    while (samples-- > 0)
        rt_silence_sample(&silence, round_trip);
    return rt_silence_bound(&silence, &usual);
}

TEST(terms_have_defaults_and_four_heartbeats) {
    struct rt_silence_terms terms = rt_silence_terms(0, 0, 0);
    CHECK(terms.most == 5 && terms.least == 5 && terms.heartbeat == 0.25);
    terms = rt_silence_terms(0.4, 0, 0);
    CHECK(terms.most == 0.4 && terms.least == 0.4 && terms.heartbeat == 0.1);
    terms = rt_silence_terms(3, 1, 0.05);
    CHECK(terms.most == 3 && terms.least == 1 && terms.heartbeat == 0.05);
    terms = rt_silence_terms(3, 0.2, 0);
    CHECK(terms.most == 3 && terms.least == 0.2 && terms.heartbeat == 0.05);
    terms = rt_silence_terms(3, 4, 0);
    CHECK(terms.most == 3 && terms.least == 3);
}

TEST(the_bound_adapts_only_where_that_is_asked_for) {
    const struct rt_silence_terms fixed = rt_silence_terms(0, 0, 0);
    for (double trip = 0; trip < 8; trip += 0.25) {
        struct rt_silence silence = {.late = trip};
        for (int i = 0; i < 100; i++)
            rt_silence_sample(&silence, trip);
        CHECK(rt_silence_bound(&silence, &fixed) == 5);
    }
}

TEST(nothing_is_known_at_first) {
    CHECK(bound_after(0.001, 0) == 5 && bound_after(0.001, 7) == 5);
    CHECK(bound_after(0.001, 8) == 1);
}

TEST(the_bound_grows_with_the_round_trip_up_to_the_most) {
    CHECK(bound_after(0, 100) == 1 && bound_after(0.05, 1000) == 1);
    double before = 1;
    for (double trip = 0.2; trip < 1; trip += 0.1) {
        const double bound = bound_after(trip, 1000);
        CHECK_MSG(bound > before && bound <= 5 && bound >= 4 * trip, "%g s after trips of %g s", bound, trip);
        before = bound;
    }
    CHECK(bound_after(3, 100) == 5 && bound_after(INFINITY, 100) == 5 && bound_after(-1, 100) == 1);
}

/* One late answer among prompt ones: the bound follows at once, and comes back within a minute. */
TEST(a_jump_is_believed_at_once_and_forgotten_slowly) {
    struct rt_silence silence = {0};
    for (int i = 0; i < 1000; i++)
        rt_silence_sample(&silence, 0.001);
    CHECK(rt_silence_bound(&silence, &usual) == 1);
    rt_silence_sample(&silence, 0.4);
    const double jump = rt_silence_bound(&silence, &usual);
    CHECK_MSG(jump > 2 && jump < 5, "%g s", jump);
    for (int i = 0; i < 20; i++)
        rt_silence_sample(&silence, 0.001);
    CHECK(rt_silence_bound(&silence, &usual) > 1.2);
    for (int i = 0; i < 220; i++)
        rt_silence_sample(&silence, 0.001);
    CHECK(rt_silence_bound(&silence, &usual) == 1);
}

TEST(a_late_peer_has_more_time) {
    struct rt_silence silence = {0};
    for (int i = 0; i < 8; i++)
        rt_silence_sample(&silence, 0.001);
    silence.late = 0.2;
    CHECK(rt_silence_bound(&silence, &usual) == 1);
    silence.late = 1;
    CHECK(rt_silence_bound(&silence, &usual) == 2.5);
    silence.late = 60; /* whatever it says */
    CHECK(rt_silence_bound(&silence, &usual) == 5);
}

TEST(lateness_halves_in_eight_seconds) {
    CHECK(rt_silence_fade(2, 8) == 1 && rt_silence_fade(2, 0) == 2);
    CHECK(rt_silence_told(0.3, false) == 0.3 && rt_silence_told(0.3, true) == 1);
    CHECK(rt_silence_told(3, true) == 3);
}

TEST(a_program_that_did_not_run_knows_when_it_was_given_up) {
    CHECK(rt_silence_stall(1, &usual) == 0.5 && rt_silence_stall(5, &usual) == 4.5);
}

TEST(it_is_said_in_one_sentence) {
    struct rt_error err;
    CHECK(rt_silence_fail(1.25, &err) == RT_IO);
    CHECK_MSG(strcmp(err.text, "has been silent for 1.25 seconds") == 0, "%s", err.text);
}

TEST_MAIN()
