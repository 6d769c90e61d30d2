/* Who is given which batch, and which updates are counted: where every batch is one worker's, and where all
 * share each and wait for everybody. */
#include "scheduler_rig.h"

/* ---- every batch is one worker's ---- */

/* In the order of asking, each once; and every one of them is an update, whether or not a server tells their
 * order. */
TEST(batches_go_out_in_order_and_once) {
    for (int tracks = 0; tracks < 2; tracks++)
        for (uint16_t first = 0; first < 2; first++) {
            struct rt_scheduler_settings settings = in_turn;
            bool seen[41] = {0};
            settings.tracks = tracks;
            open_world(&settings, first);
            for (uint64_t update = 1; update <= 40; update++) {
                const struct rt_done done = step();
                REQUIRE(done.batch >= 1 && done.batch <= 40);
                CHECK_MSG(!seen[done.batch], "batch %d is two updates", (int)done.batch);
                seen[done.batch] = true;
            }
            CHECK_MSG(world.gives == 40, "%zu batches are given", world.gives);
            for (size_t i = 0; i < world.gives; i++)
                CHECK_MSG(world.given[i].batch == i + 1, "batch %d is number %zu", (int)world.given[i].batch,
                          i + 1);
            CHECK(rt_scheduler_drain(world.scheduler));
            CHECK((world.settles > 0) == (first == 0)); /* a master that only serves has no worker */
            close_world();
        }
}

/* Everybody has one to compute and one that waits; who is done gets the next. The updates are in the order of
 * the server. */
TEST(who_is_done_gets_the_next) {
    open_world(&in_turn, 0);
    CHECK(step().batch == 7); /* the master's own, whose gradient comes first */
    const struct gift begin[] = {{1, 1}, {2, 2}, {3, 3}, {1, 4}, {2, 5}, {3, 6}, {0, 7}};
    REQUIRE(world.gives == 7);
    for (size_t i = 0; i < 7; i++)
        CHECK(world.given[i].rank == begin[i].rank && world.given[i].batch == begin[i].batch);
    finish(3, RT_VERDICT_APPLY);
    CHECK(last_of(3) == 8 && world.gives == 8);
    finish(1, RT_VERDICT_APPLY);
    CHECK(last_of(1) == 9 && world.gives == 9);
    finish(3, RT_VERDICT_APPLY);
    CHECK(last_of(3) == 10 && world.gives == 10);
    CHECK(step().batch == 3);
    CHECK(step().batch == 1);
    CHECK(step().batch == 6);
    CHECK(world.gives == 10); /* what has come is taken before the master's worker begins another */
    close_world();
}

/* A gradient may have come to something before its result is here: the step waits for that. */
static void result_of_three_comes(void) {
    enter(&world);
    world.result[3][world.results[3]++] = done_of(3, 2);
    leave(&world);
    world.happen = NULL;
}

static void gradient_of_three_comes(void) {
    enter(&world);
    world.held[3]--;
    judge(3, 2, RT_VERDICT_APPLY);
    leave(&world);
    finish(2, RT_VERDICT_APPLY); /* which is here, and not the next */
    world.happen = result_of_three_comes;
}

TEST(an_update_waits_for_its_result) {
    struct rt_scheduler_settings settings = in_turn;
    settings.updates = 2;
    open_world(&settings, 2);
    world.happen = gradient_of_three_comes;
    CHECK(step().batch == 2);
    CHECK(step().batch == 1);
    close_world();
}

/* The master's own worker does not go on for ever while nothing is heard of its gradients. */
static void all_is_heard(void) {
    enter(&world);
    for (size_t i = 0; i < world.gives; i++)
        if (world.given[i].rank == 0)
            judge(0, world.given[i].batch, RT_VERDICT_APPLY);
    leave(&world);
    world.happen = NULL;
}

TEST(as_many_results_wait_as_there_is_room_for) {
    struct rt_scheduler_settings settings = in_turn;
    settings.updates = 200;
    open_world(&settings, 0);
    world.keeps = true;
    world.happen = all_is_heard;
    CHECK(step().batch == 7);
    CHECK_MSG(world.gives == 6 + RT_TICKET_RESULTS, "%zu are given", world.gives);
    for (uint64_t i = 1; i < RT_TICKET_RESULTS; i++)
        CHECK(step().batch == 7 + i);
    close_world();
}

TEST(none_is_given_beyond_a_rest) {
    for (uint64_t epochs = 0; epochs < 2; epochs++) {
        struct rt_scheduler_settings settings = in_turn;
        const uint64_t every = epochs ? 10 : 6;
        settings.rests = (struct rt_periods){{epochs ? 0 : every, epochs ? every : 0}};
        open_world(&settings, 0);
        for (uint64_t update = 1; update <= 40; update++) {
            const uint64_t rest = (update + every - 1) / every * every;
            step();
            dispense();
            CHECK_MSG(world.last <= (rest < 40 ? rest : 40), "batch %d is given before update %d",
                      (int)world.last, (int)update);
            if (update % every == 0) {
                CHECK(world.gives == update);
                CHECK(rt_scheduler_drain(world.scheduler));
            }
        }
        CHECK(world.gives == 40);
        close_world();
    }
}

/* In part of the first epoch the first worker is alone. */
TEST(a_warm_start_is_the_first_ones) {
    for (uint16_t first = 0; first < 2; first++) {
        struct rt_scheduler_settings settings = in_turn;
        settings.warm_start = 0.5;
        open_world(&settings, first);
        for (uint64_t update = 1; update <= 5; update++) {
            CHECK(world.last <= 5);
            CHECK(step().batch == update);
        }
        for (size_t i = 0; i < 5; i++)
            CHECK_MSG(world.given[i].rank == first, "batch %zu is given to %u", i + 1, world.given[i].rank);
        step_until(40);
        for (uint16_t rank = first; rank < RANKS; rank++)
            CHECK_MSG(last_of(rank) > 5, "worker %u gets none", rank);
        close_world();
    }
}

/* What has begun comes to an end, and nothing begins until all of it has. */
TEST(draining_ends_what_has_begun) {
    open_world(&in_turn, 0);
    step();
    step();
    const uint64_t last = world.last;
    CHECK(last > 2);
    size_t steps = 0;
    while (!rt_scheduler_drain(world.scheduler) && steps++ < 40) {
        step();
        CHECK_MSG(world.last == last, "batch %d is given", (int)world.last);
    }
    CHECK(rt_scheduler_returned(world.scheduler) == last && world.gives == last);
    dispense();
    CHECK(world.gives == last);
    step();
    CHECK(world.last > last);
    close_world();
}

TEST(a_run_goes_on_where_it_stood) {
    open_world(&in_turn, 0);
    rt_scheduler_set(world.scheduler, 23);
    CHECK(rt_scheduler_returned(world.scheduler) == 23 && rt_scheduler_drain(world.scheduler));
    step_until(40);
    CHECK(world.gives == 17 && world.given[0].batch == 24 && world.last == 40);
    close_world();
}

/* ---- collectives ---- */

/* Everybody gets every batch, a few ahead; no result counts for another update. */
TEST(all_share_every_batch) {
    struct rt_scheduler_settings settings = together;
    settings.rests.every[0] = 8;
    open_world(&settings, 1); /* a server without a worker takes part all the same */
    for (uint64_t update = 1; update <= 30; update++) {
        const struct rt_done sum = step();
        const uint64_t rest = (update + 7) / 8 * 8;
        CHECK_MSG(sum.rows == 1 + 11 + 21 + 31 && (uint64_t)sum.loss == 4 * update, "update %d: %d, %g",
                  (int)update, (int)sum.rows, sum.loss);
        CHECK_MSG(world.last <= rest && world.last <= update + AHEAD, "batch %d after update %d",
                  (int)world.last, (int)update);
        CHECK(update % 8 != 0 || rt_scheduler_drain(world.scheduler));
    }
    for (uint64_t batch = 1; batch <= 30; batch++)
        CHECK_MSG(times(batch) == RANKS, "batch %d: %zu times", (int)batch, times(batch));
    CHECK(world.last == 30 && world.gives == 30 * RANKS);
    close_world();
}

TEST(alone_by_any_kind) {
    const struct rt_scheduler_settings *const kinds[] = {&in_turn, &cut, &together};
    for (size_t i = 0; i < 3; i++) {
        struct rt_error err;
        open_world(kinds[i], 0);
        rt_scheduler_destroy(world.scheduler);
        world.roles.nodes = world.roles.workers = 1;
        world.settings.workers = (struct rt_scheduler_workers){.self = NULL};
        CHECK_OK(rt_scheduler_create(&world.settings, &world.scheduler, &err));
        const uint64_t per_epoch = world.settings.per_epoch, batches = world.settings.batches;
        for (uint64_t update = 1; update <= 20; update++)
            CHECK((uint64_t)step().loss == (update - 1) / per_epoch * batches + (update - 1) % per_epoch + 1);
        CHECK(world.gives == 20 && rt_scheduler_drain(world.scheduler));
        close_world();
    }
}

TEST_MAIN()
