/* A link that carries frames takes no memory: the allocator is one that counts. (OpenSSL takes and returns
 * some for each record, so this is about links in the clear.) */
#include "support/counting.h"
#include "tcp_rig.h"

TEST(carrying_frames_takes_no_memory) {
    enum { BYTES = 40000, POSTED = 3, FRAMES = 300 };
    static uint8_t source[BYTES], bodies[2][POSTED][BYTES];
    static struct rt_send sends[2][POSTED];
    static struct rt_receive receives[2][POSTED];
    struct pair pair;
    need_counting();
    REQUIRE(make_pair((struct rt_tcp_settings){0}, &pair));
    struct rt_link *links[2] = {pair.ab, pair.ba};
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < POSTED; i++) {
            receives[side][i] = make_receive(i, bodies[side][i], BYTES);
            sends[side][i] = make_send(i, "head", source, BYTES);
            rt_link_receive(links[side], &receives[side][i]);
            rt_link_send(links[side], &sends[side][i]);
        }
    long before = 0;
    double until = rt_clock_wall() + PATIENCE;
    for (int arrived = 0; arrived < FRAMES;) {
        for (int side = 0; side < 2; side++) {
            if (!rt_endpoint_wait(side ? pair.b : pair.a, rt_clock_wall() + 0.001, &event))
                continue;
            if (event.kind == RT_EVENT_SENT)
                rt_link_send(event.link, event.send);
            else if (event.kind == RT_EVENT_RECEIVED) {
                rt_link_receive(event.link, event.receive);
                arrived++;
            }
            if (arrived == FRAMES / 3) /* what is taken once has been taken */
                before = allocations;
        }
        REQUIRE(rt_clock_wall() < until);
    }
    long during = allocations - before;
    CHECK_MSG(during == 0, "%ld allocations", during);
    destroy_pair(&pair);
}

TEST_MAIN()
