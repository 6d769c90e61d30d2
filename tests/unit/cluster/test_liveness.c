/* Which node is stuck, told from who waits for whom and from heartbeats alone. */
#include "cluster/liveness.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

enum { NODES = 5, TIMEOUT = 60 };

/* What node `self` thinks of `node` after a wait of so long, in which there was nothing else to do. */
static enum rt_liveness judge(uint16_t self, uint16_t node, double waited, uint16_t note, double age) {
    const struct rt_liveness_terms terms = {.self = self, .nodes = NODES, .timeout = TIMEOUT};
    struct rt_wait wait = {.node = node, .idle = waited, .note = note};
    const struct rt_heartbeat last = {.known = true, .note = note, .age = age};
    struct rt_error err;
    return rt_liveness_judge(&terms, &wait, waited, &last, &err);
}

TEST(who_takes_no_step_for_the_timeout_is_stuck) {
    CHECK(judge(1, 3, 60, 0, 60) == RT_LIVENESS_STUCK);
    CHECK(judge(1, 3, 599, 2, (double)INFINITY) == RT_LIVENESS_STUCK);
    CHECK(judge(1, 3, 59.9, 0, 60) == RT_LIVENESS_GOOD);  /* not waited for long enough */
    CHECK(judge(1, 3, 599, 0, 59.9) == RT_LIVENESS_GOOD); /* it works, or waits itself */
    CHECK(judge(1, 0, 1e6, 0, (double)INFINITY) == RT_LIVENESS_GOOD);
    /* nothing is known of it, or what is known is old */
    const struct rt_liveness_terms terms = {.self = 1, .nodes = NODES, .timeout = TIMEOUT};
    struct rt_wait wait = {.node = 3, .idle = 1000};
    struct rt_error err;
    CHECK(rt_liveness_judge(&terms, &wait, 1000, &(struct rt_heartbeat){0}, &err) == RT_LIVENESS_GOOD);
    const struct rt_heartbeat old = {.known = true, .age = (double)INFINITY, .ago = 1001};
    CHECK(rt_liveness_judge(&terms, &wait, 1000, &old, &err) == RT_LIVENESS_GOOD);
}

/* Who runs and delivers nothing is waited for ten times as long, whatever it says, and longer the more others
 * it says to wait for. */
TEST(who_only_takes_steps_is_named_too) {
    CHECK(judge(1, 3, 599, 0, 0) == RT_LIVENESS_GOOD && judge(1, 3, 600, 0, 0) == RT_LIVENESS_STUCK);
    CHECK(judge(1, 3, 719, 2, 0) == RT_LIVENESS_GOOD && judge(1, 3, 720, 2, 0) == RT_LIVENESS_STUCK);
    for (unsigned note = RT_NOTE_MASTER; note <= UINT16_MAX; note++)
        CHECK(judge(1, 3, 1e6, (uint16_t)note, 0) == RT_LIVENESS_GOOD);
}

/* Only the master knows that it does not hold the others up itself, and it names nobody. */
TEST(the_master_ends_a_circle) {
    CHECK(judge(0, 3, 1799, 100, 0) == RT_LIVENESS_GOOD);
    CHECK(judge(0, 3, 1800, 100, 0) == RT_LIVENESS_DEADLOCK);
    CHECK(judge(0, 3, 1799, RT_NOTE_MASTER, 0) == RT_LIVENESS_GOOD);
    CHECK(judge(0, 3, 1800, RT_NOTE_MASTER, 0) == RT_LIVENESS_DEADLOCK);
    CHECK(judge(1, 3, 1e4, RT_NOTE_MASTER, 0) == RT_LIVENESS_GOOD);
}

/* One that was held up by the master, or by one who has delivered, gets its time anew. */
TEST(a_reason_excuses) {
    const struct rt_liveness_terms terms = {.self = 1, .nodes = NODES, .timeout = TIMEOUT};
    static const uint16_t notes[] = {RT_NOTE_MASTER, 3};
    for (size_t i = 0; i < 2; i++) {
        struct rt_wait wait = {.node = UINT16_MAX};
        struct rt_heartbeat last = {.known = true, .note = notes[i]};
        struct rt_error err;
        for (int now = 0; now < 1300; now++) {
            last.note = now < 700 ? notes[i] : 0;
            const double waited = rt_wait_look(&wait, 3, -1, true, now);
            const enum rt_liveness found = rt_liveness_judge(&terms, &wait, waited, &last, &err);
            CHECK_MSG(found == RT_LIVENESS_GOOD, "%x: named at %d", notes[i], now);
        }
        rt_wait_look(&wait, 3, -1, true, 1300);
        CHECK(rt_liveness_judge(&terms, &wait, 1300, &last, &err) == RT_LIVENESS_STUCK);
    }
}

TEST(a_wait_begins_anew_when_something_comes) {
    struct rt_wait wait = {.node = UINT16_MAX};
    CHECK(rt_wait_look(&wait, UINT16_MAX, 0, true, 100) == 0);
    CHECK(rt_wait_look(&wait, 2, 0, true, 101) == 0);
    CHECK(rt_wait_look(&wait, 2, 0, true, 111) == 10);
    CHECK(rt_wait_look(&wait, 2, 108, true, 112) == 4);
    CHECK(rt_wait_look(&wait, 3, 0, true, 113) == 0); /* another one */
    CHECK(rt_wait_look(&wait, UINT16_MAX, 0, true, 114) == 0);
    CHECK(rt_wait_look(&wait, 3, 0, true, 120) == 0);
}

/* Time in which this node worked, or did not look, is no time in which it had nothing else to do. */
TEST(idle_time_is_counted_by_looks) {
    struct rt_wait wait = {.node = UINT16_MAX};
    for (int i = 0; i <= 10; i++)
        rt_wait_look(&wait, 2, 0, true, 100 + 0.5 * i);
    CHECK(wait.idle == 5);
    rt_wait_look(&wait, 2, 0, true, 1000); /* it was away */
    CHECK(wait.idle == 6);
    rt_wait_look(&wait, 2, 0, false, 1000.5); /* it worked */
    CHECK(wait.idle == 6);
    CHECK(rt_wait_look(&wait, 2, 1000.7, true, 1001) < 0.4 && wait.idle == 0);
}

/* ---- chains and circles -------------------------------------------------------------------------------- */

/* Nodes that each wait for another since time 0, and look twice a second. awaits[i] == i: the node hangs, or
 * if it has a lie to tell it takes steps with that note. */
struct play {
    uint16_t count, awaits[16];
    uint16_t liar, lie; /* liar 0: nobody */
    double begins[16];  /* when each begins to wait */
};

struct ending {
    double at; /* 0: none within three hours */
    enum rt_liveness how;
    uint16_t by, whom;
};

static struct ending watch(const struct play *play) {
    uint16_t notes[16] = {0};
    struct rt_wait waits[16];
    for (uint16_t i = 0; i < 16; i++)
        waits[i].node = UINT16_MAX;
    if (play->liar)
        notes[play->liar] = play->lie;
    for (double now = 0.5; now < 3 * 3600; now += 0.5)
        for (uint16_t i = 0; i < play->count; i++) {
            const uint16_t whom = play->awaits[i];
            const struct rt_liveness_terms terms = {.self = i, .nodes = play->count, .timeout = TIMEOUT};
            struct rt_error err;
            if (whom == i || now < play->begins[i])
                continue;
            const bool hangs = play->awaits[whom] == whom && whom != play->liar;
            const struct rt_heartbeat last = {.known = true, .note = notes[whom], .age = hangs ? now : 0.25};
            const double waited = rt_wait_look(&waits[i], whom, 0, true, now);
            const enum rt_liveness how = rt_liveness_judge(&terms, &waits[i], waited, &last, &err);
            if (how != RT_LIVENESS_GOOD)
                return (struct ending){now, how, i, whom};
            notes[i] = RT_NOTE_NONE;
            rt_liveness_count(&terms, whom, waited, &last, &notes[i]);
        }
    return (struct ending){0};
}

static bool names(struct ending found, uint16_t whom, double from, double to) {
    return found.how == RT_LIVENESS_STUCK && found.whom == whom && found.at >= from && found.at <= to;
}

TEST(the_end_of_a_chain_is_named) {
    CHECK(names(watch(&(struct play){.count = 5, .awaits = {1, 2, 3, 4, 4}}), 4, 60, 61));
    CHECK(names(watch(&(struct play){.count = 6, .awaits = {3, 1, 1, 2, 3, 2}}), 1, 60, 61));
}

TEST(a_chain_that_ends_at_the_master_is_waited_for) {
    CHECK(watch(&(struct play){.count = 5, .awaits = {0, 0, 1, 2, 3}}).at == 0);
}

TEST(a_circle_ends_and_nobody_is_named) {
    static const struct play circles[] = {
        {.count = 2, .awaits = {1, 0}},
        {.count = 10, .awaits = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}},
        {.count = 5, .awaits = {4, 2, 3, 1, 3}}, /* without the master, which waits for it */
    };
    for (size_t i = 0; i < 3; i++) {
        const struct ending found = watch(&circles[i]);
        CHECK_MSG(found.how == RT_LIVENESS_DEADLOCK && found.by == 0, "%zu: node %u names %u", i, found.by,
                  found.whom);
        CHECK_MSG(found.at < (10 + 4 * circles[i].count) * TIMEOUT + 2, "%zu: %g s", i, found.at);
    }
}

/* Whatever a liar says, and whenever the others began to wait within an operation of each other, it is named
 * or nobody is. */
TEST(a_liar_names_nobody_else) {
    static const uint16_t lies[] = {0, 1, 2, 4, 5, 6, 100, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
    static const double starts[][5] = {{0},
                                       {0, 0, 0, 59, 0},
                                       {59, 40, 20, 0, 0},
                                       {0, 20, 40, 59, 0},
                                       {0, 0, 0, 400, 0},
                                       {0, 500, 200, 580, 0}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
            struct play play = {.count = 5, .awaits = {1, 2, 3, 4, 4}, .liar = 4, .lie = lies[i]};
            memcpy(play.begins, starts[k], sizeof starts[k]);
            const struct ending found = watch(&play);
            CHECK_MSG(found.at > 0 && found.at < 32 * TIMEOUT, "a lie of %x: %g s", lies[i], found.at);
            CHECK_MSG(found.how == RT_LIVENESS_DEADLOCK || found.whom == 4,
                      "a lie of %x, %zu: node %u is named", lies[i], k, found.whom);
        }
}

TEST_MAIN()
