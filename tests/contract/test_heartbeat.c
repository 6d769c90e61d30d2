/*
 * labels: threads
 *
 * Heartbeats say when the owner's thread took its last step, and its note; that the link lives is no step.
 * Over each transport.
 */
#include "support/stage.h"
#include "support/test.h"

#include <math.h>

static struct rt_heartbeat await_note(struct inflight *inflight, const struct rt_link *link, uint16_t note) {
    const double until = rt_endpoint_now(inflight->endpoint) + 20;
    struct rt_heartbeat last = rt_link_heartbeat(link);
    while ((!last.known || last.note != note) && rt_endpoint_now(inflight->endpoint) < until) {
        CHECK(seat_hears_nothing(inflight, 0.02));
        last = rt_link_heartbeat(link);
    }
    return last;
}

static void step_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    REQUIRE(link);
    if (i == 1) {
        REQUIRE(seat_await(&inflight, link));
        rt_endpoint_step(endpoint, 7);
        CHECK(seat_hears_nothing(&inflight, 0.8));
        REQUIRE(seat_signal(&inflight, link) && seat_await(&inflight, link));
        rt_endpoint_step(endpoint, 9);
        REQUIRE(seat_await(&inflight, link));
        return;
    }
    struct rt_heartbeat last = await_note(&inflight, link, 0);
    CHECK(last.known && isinf(last.age)); /* no step was taken yet */
    REQUIRE(seat_signal(&inflight, link) && seat_await(&inflight, link));
    CHECK(seat_hears_nothing(&inflight, 0.5));
    last = await_note(&inflight, link, 7);
    CHECK_MSG(last.note == 7 && last.age > 0.7 && last.age < 20, "note %u, %g s", last.note, last.age);
    REQUIRE(seat_signal(&inflight, link));
    CHECK(await_note(&inflight, link, 9).note == 9);
    REQUIRE(seat_signal(&inflight, link));
}

TEST(heartbeats_tell_of_steps) {
    stage_over_each(step_program);
}

TEST_MAIN()
