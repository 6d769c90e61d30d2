/* Who is given which batch where gradients may be dropped: rounds that are complete without some, and epochs
 * that are cut short. */
#include "scheduler_rig.h"

/* ---- rounds ---- */

static void first_round(void) {
    static const uint16_t there[] = {0, 1, 2};
    finish(1, RT_VERDICT_GATHER);
    CHECK(last_of(1) == 2); /* its part of the first is there */
    finish(2, RT_VERDICT_GATHER);
    complete_round(1, there, 3);
    world.happen = NULL;
}

/* Whoever lost a gradient gets the round that is under way, whatever it was given before. */
TEST(who_lost_a_gradient_gets_the_round_under_way) {
    open_world(&rounds, 0);
    world.happen = first_round;
    const struct rt_done sum = step();
    CHECK_MSG(sum.rows == 1 + 11 + 21, "%d rows: who came late counts for nothing", (int)sum.rows);
    CHECK(last_of(0) == 1 && last_of(3) == 1 && last_of(2) == 2);
    const size_t flushes = world.flushes;
    finish(3, RT_VERDICT_DROP);
    CHECK_MSG(last_of(3) == 2, "it is given batch %d", (int)last_of(3));
    CHECK(world.flushes > flushes); /* at once */
    /* All of the second round is lost: everybody gets it again. */
    finish(1, RT_VERDICT_DROP);
    finish(2, RT_VERDICT_DROP);
    finish(3, RT_VERDICT_DROP);
    CHECK(last_of(1) == 2 && last_of(2) == 2 && last_of(3) == 2 && times(2) == 6 && times(3) == 0);
    finish(3, RT_VERDICT_GATHER);
    CHECK(last_of(3) == 3);
    /* A round that is complete without the master's own part is not computed any more. */
    static const uint16_t others[] = {3, 1};
    finish(1, RT_VERDICT_GATHER);
    complete_round(2, others, 2);
    CHECK(step().rows == 11 + 31 && last_of(0) == 1);
    close_world();
}

/* A gradient may be in a round before its result is here: the step waits for it. */
static void result_comes(void) {
    enter(&world);
    world.result[1][world.results[1]++] = done_of(1, 1);
    leave(&world);
    world.happen = NULL;
}

static void gradient_comes(void) {
    static const uint16_t there[] = {0, 1};
    enter(&world);
    world.held[1] = 0;
    rt_scheduler_dispense(world.scheduler);
    CHECK(world.held[1] == 0); /* nothing until it is known what became of the gradient */
    judge(1, 1, RT_VERDICT_GATHER);
    CHECK(world.held[1] == 1 && last_of(1) == 2);
    leave(&world);
    complete_round(1, there, 2);
    world.happen = result_comes;
}

TEST(a_round_waits_for_its_results) {
    open_world(&rounds, 0);
    world.happen = gradient_comes;
    CHECK(step().rows == 1 + 11);
    CHECK(world.happen == NULL);
    close_world();
}

TEST(no_round_is_given_beyond_a_rest) {
    static const uint16_t all[] = {0, 1, 2, 3};
    struct rt_scheduler_settings settings = rounds;
    settings.rests.every[0] = 1;
    open_world(&settings, 0);
    world.happen = NULL;
    for (uint64_t update = 1; update <= 3; update++) {
        struct rt_error err;
        struct rt_done sum;
        CHECK(rt_scheduler_step(world.scheduler, &sum, &err) != RT_OK); /* it waits for the others */
        for (uint16_t rank = 1; rank < RANKS; rank++)
            finish(rank, RT_VERDICT_GATHER);
        complete_round(update, all, RANKS);
        CHECK(step().rows == 1 + 11 + 21 + 31);
        dispense();
        CHECK_MSG(world.last == update, "batch %d is given after update %d", (int)world.last, (int)update);
        CHECK(rt_scheduler_drain(world.scheduler));
    }
    close_world();
}

/* ---- epochs that are cut short ---- */

static void all_but_the_last_finish(void) {
    world.now += 1;
    if (world.held[1] + world.held[2] == 0) /* nobody has anything to do but who is late */
        world.happen = NULL;
    else
        finish(world.held[1] >= world.held[2] ? 1 : 2, RT_VERDICT_APPLY);
}

/* Worker 3 keeps its batches to itself, and the others do all theirs. */
static void step_until_somebody_is_late(void) {
    struct rt_error err;
    struct rt_done sum;
    world.happen = all_but_the_last_finish;
    while (rt_scheduler_step(world.scheduler, &sum, &err) == RT_OK && rt_test_failures == 0)
        continue;
    CHECK_MSG(rt_scheduler_returned(world.scheduler) == 6 && world.gives == 8 && world.last == 8,
              "%zu are given, the last is %d", world.gives, (int)world.last);
}

static void look_again(void) {
    enter(&world);
    rt_scheduler_look_again(world.scheduler);
    leave(&world);
}

/* Who comes to rest begins nothing for the late: he waits for them. */
TEST(nothing_is_done_for_the_late_while_draining) {
    struct rt_error err;
    struct rt_done sum;
    open_world(&cut, 1);
    step_until_somebody_is_late();
    world.now += 100;
    CHECK(!rt_scheduler_drain(world.scheduler));
    look_again();
    CHECK(rt_scheduler_step(world.scheduler, &sum, &err) != RT_OK);
    CHECK(world.gives == 8);
    close_world();
}

/* The epoch has all that it needs under way; when somebody is late the others get some of what is left of it,
 * and then go on without him. */
TEST(an_epoch_ends_without_the_late) {
    struct rt_done sum;
    open_world(&cut, 1);
    step_until_somebody_is_late();
    look_again();
    CHECK(world.gives == 8); /* it is not that late yet */
    world.now += 100;
    look_again();
    CHECK_MSG(world.gives == 10 && last_of(1) == 9 && last_of(2) == 10, "%zu are given, the last is %d",
              world.gives, (int)world.last);
    CHECK(world.flushes > 0 && world.held[1] == 1 && world.held[2] == 1); /* one each: they wait for nobody */
    finish(1, RT_VERDICT_APPLY);
    CHECK(times(13) == 0 && rt_scheduler_returned(world.scheduler) == 6);
    finish(2, RT_VERDICT_APPLY);
    CHECK(step().batch == 9 && step().batch == 10);
    /* The next epoch, of which worker 3 gets its share when it comes back; what it did is no update. */
    world.happen = somebody_finishes;
    finish(3, RT_VERDICT_DROP);
    finish(3, RT_VERDICT_DROP);
    while (rt_scheduler_returned(world.scheduler) < 16 && rt_test_failures == 0) {
        sum = step();
        CHECK_MSG(sum.batch > 12 && sum.batch <= 20, "batch %d is an update", (int)sum.batch);
    }
    CHECK(last_of(3) > 12 && times(11) == 0 && times(12) == 0 && times(21) == 0);
    close_world();
}

/* From its middle on: what it needs of the batches that have not been used. */
TEST(an_epoch_that_is_cut_short_goes_on) {
    struct rt_scheduler_settings settings = cut;
    settings.updates = 24;
    open_world(&settings, 0);
    rt_scheduler_set(world.scheduler, 11);
    step_until(24);
    CHECK_MSG(world.gives == 13 && world.given[0].batch == 12 + 4, "%zu, from batch %d", world.gives,
              (int)world.given[0].batch);
    CHECK(times(20) == 1 && times(21) == 0 && times(24 + 1) == 1 && world.last == 24 + 8);
    close_world();
}

/* The master's own worker, too, does one for who is late, and no other before it has heard of it. */
TEST(the_master_does_one_for_the_late) {
    struct rt_error err;
    struct rt_done sum;
    open_world(&cut, 0);
    step_until_somebody_is_late();
    const uint64_t own = last_of(0);
    world.held[1] = world.held[2] = 1; /* they have something to do */
    world.keeps = true;
    world.now += 100;
    CHECK(rt_scheduler_step(world.scheduler, &sum, &err) != RT_OK);
    CHECK_MSG(world.gives == 9 && own < 9 && last_of(0) == 9, "%zu are given, the last to the master is %d",
              world.gives, (int)last_of(0));
    close_world();
}

/* Where all share the batches of an epoch that is cut short, they are its first ones. */
TEST(all_share_an_epoch_that_is_cut_short) {
    struct rt_scheduler_settings settings = cut;
    settings.servers = false;
    settings.tracks = false;
    open_world(&settings, 0);
    for (uint64_t update = 1; update <= 16; update++)
        step();
    CHECK(times(8) == RANKS && times(9) == 0 && times(12) == 0 && times(13) == RANKS && times(20) == RANKS);
    close_world();
}

TEST_MAIN()
