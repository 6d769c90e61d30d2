/* An owner that attends to its endpoint, see rt_endpoint_attend, and computes meanwhile. */
/* labels: threads */
#include "tcp_rig.h"

/* Its thread also moves the bytes: on its return what came meanwhile lies in the sockets, and the peer, which
 * was told that it attends, has waited. */
TEST(an_owner_that_attends_and_computes_gives_no_peer_up) {
    struct pair pair;
    REQUIRE(make_pair(
        (struct rt_tcp_settings){.heartbeat_seconds = 0.05, .silence_seconds = 10, .silence_least = 0.2},
        &pair));
    rt_endpoint_attend(pair.a, true);
    CHECK(is_quiet(pair.a, 1)); /* both know what a round trip takes */
    for (int k = 0; k < 3; k++) {
        const double start = rt_clock_thread();
        while (rt_clock_thread() < start + 0.6) {
        }
        CHECK(is_quiet(pair.a, 0.1));
    }
    rt_endpoint_attend(pair.a, false);
    CHECK(is_quiet(pair.a, 0.1) && is_quiet(pair.b, 0.1));
    destroy_pair(&pair);
}

TEST_MAIN()
