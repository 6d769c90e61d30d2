/*
 * How a silent peer is noticed, see net/silence.h, over each transport: where the bound adapts, as what was
 * measured says, and never later than the setting; else as late as the setting. A short stop is none of it.
 */
/* labels: threads */
#include "support/stage.h"
#include "support/test.h"

/* The bound is 0.2 s where round trips are short, and the setting, 1 s, where the peer attends to its
 * endpoint itself. On a busy machine it may be more than 0.2 s. */
static const double heartbeat = 0.05, least = 0.2, silence = 1;
static unsigned prompt; /* how many of the real networks noticed in less than the setting */

static void silent_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    REQUIRE(link);
    CHECK(seat_hears_nothing(&inflight, 0.7)); /* more than eight heartbeats */
    if (i == 1) {
        stage_stop(stage, i, 0.06);
        REQUIRE(seat_signal(&inflight, link) && seat_await(&inflight, link));
        stage_stop(stage, i, 1.4);
        REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
        rt_link_close(link);
        return;
    }
    REQUIRE(seat_await(&inflight, link) && seat_signal(&inflight, link));
    const double start = rt_endpoint_now(endpoint);
    REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
    const double seconds = rt_endpoint_now(endpoint) - start;
    CHECK(strstr(inflight.event.error.text, "has been silent for "));
    CHECK_MSG(seconds > 0.1 && seconds < silence + 0.35, "noticed after %g s", seconds);
    CHECK_MSG(!stage->exact || seconds <= least + 0.01, "noticed after %g s", seconds);
    prompt += !stage->exact && seconds < 0.9 * silence;
    rt_link_close(link);
}

TEST(a_silent_peer_is_noticed_within_a_measured_bound) {
    stage_over_each_with(silent_program, heartbeat, silence, least);
    CHECK_MSG(prompt > 0, "over real networks the bound was always the setting");
}

static void patient_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    REQUIRE(link);
    CHECK(seat_hears_nothing(&inflight, 0.5)); /* more than eight heartbeats */
    if (i == 1) {
        stage_stop(stage, i, 0.6);
        REQUIRE(seat_signal(&inflight, link) && seat_await(&inflight, link));
    } else {
        REQUIRE(seat_await(&inflight, link) && seat_signal(&inflight, link));
    }
    rt_link_close(link);
}

TEST(a_bound_that_does_not_adapt_is_the_setting) {
    stage_over_each_with(patient_program, heartbeat, 1.2, 0);
}

TEST_MAIN()
