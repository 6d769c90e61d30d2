/* A batch scheduler with workers that are made up, for its tests. They hold batches until the test says that
 * one is done; a server's verdict is what the test says it is. No network, no threads, no time but the
 * test's. */
#ifndef RT_TEST_FOREMAN_RIG_H
#define RT_TEST_FOREMAN_RIG_H

#include "control/batch_scheduler.h"
#include "control/coordinator.h"
#include "support/test.h"

enum { RANKS = 4, AHEAD = 3, ROOM = 64, LOG = 400 };

struct gift {
    uint16_t rank; /* 0: the master's own worker took it */
    uint64_t batch;
};

static struct world {
    struct rt_scheduler *scheduler;
    struct rt_scheduler_settings settings;
    struct rt_roles roles;
    uint16_t worker[RANKS];

    uint64_t batch[RANKS][AHEAD]; /* held, the oldest first */
    size_t held[RANKS];
    struct rt_done result[RANKS][ROOM];
    size_t results[RANKS];
    struct gift given[LOG]; /* in order */
    size_t gives, flushes, settles, waits;
    uint64_t last; /* the highest batch that was given */

    bool inside;
    double now;
    void (*happen)(void); /* while the master waits */
    bool keeps;           /* the verdict on the master's own gradients is the test's to give */
    size_t turn;
} world;

/* ---- the coordinator ---- */

static inline void note(uint16_t rank, uint64_t batch) {
    if (world.gives == LOG)
        rt_test_fail(__FILE__, __LINE__, "too much is given");
    else
        world.given[world.gives++] = (struct gift){rank, batch};
    world.last = batch > world.last ? batch : world.last;
}

static inline bool give(void *self, uint16_t rank, uint64_t batch) {
    CHECK(self == &world && world.inside && rank > 0 && rank < world.roles.nodes);
    if (world.held[rank] == AHEAD || world.held[rank] + world.results[rank] == ROOM)
        return false;
    world.batch[rank][world.held[rank]++] = batch;
    note(rank, batch);
    return true;
}

static inline size_t held(const void *self, uint16_t rank) {
    CHECK(self == &world && world.inside && rank > 0 && rank < world.roles.nodes);
    return world.held[rank];
}

static inline size_t waiting(const void *self, uint16_t rank) {
    CHECK(self == &world && world.inside && rank > 0 && rank < world.roles.nodes);
    return world.results[rank];
}

static inline bool take(void *self, uint16_t rank, struct rt_done *done) {
    CHECK(self == &world && world.inside && rank > 0 && rank < world.roles.nodes);
    if (world.results[rank] == 0)
        return false;
    *done = world.result[rank][0];
    memmove(&world.result[rank][0], &world.result[rank][1], --world.results[rank] * sizeof *done);
    return true;
}

static inline void flush(void *self) {
    CHECK(self == &world && world.inside);
    world.flushes++;
}

/* ---- the master's own worker ---- */

static inline void enter(void *self) {
    CHECK(self == &world && !world.inside);
    world.inside = true;
}

static inline void leave(void *self) {
    CHECK(self == &world && world.inside);
    world.inside = false;
}

/* What the server says of a worker's gradient. */
static inline void judge(uint16_t rank, uint64_t batch, enum rt_verdict verdict) {
    const struct rt_push push = {.worker = rt_roles_place(&world.roles, rank), .batch = batch, .rows = 1};
    rt_scheduler_judged(world.scheduler, &push, verdict);
}

/* A result of so many rows tells whose it is, and of which batch. */
static inline struct rt_done done_of(uint16_t rank, uint64_t batch) {
    return (struct rt_done){.batch = batch, .rows = 1 + 10u * rank, .correct = 1, .loss = (double)batch};
}

static inline rt_status learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    (void)err;
    CHECK(self == &world && !world.inside);
    note(0, batch);
    *done = done_of(0, batch);
    if (world.settings.tracks && !world.keeps) {
        enter(&world);
        judge(0, batch, RT_VERDICT_APPLY);
        leave(&world);
    }
    return RT_OK;
}

static inline rt_status settle(void *self, struct rt_error *err) {
    (void)err;
    CHECK(self == &world && !world.inside);
    world.settles++;
    return RT_OK;
}

static inline rt_status await(void *self, bool (*test)(void *user), void *user, struct rt_error *err) {
    CHECK(self == &world && !world.inside);
    if (world.waits++ >= 1000)
        return rt_fail(err, RT_FAILED, "it waits for what is of no use");
    for (size_t i = 0; i < 1000; i++) {
        enter(&world);
        const bool over = test(user);
        leave(&world);
        if (over)
            return RT_OK;
        if (!world.happen)
            break;
        world.happen();
    }
    return rt_fail(err, RT_FAILED, "it would wait for ever");
}

static inline double now(const void *self) {
    CHECK(self == &world);
    return world.now;
}

/* ---- what happens ---- */

/* A worker is done with its oldest batch; the server's verdict comes first. */
static inline void finish(uint16_t rank, enum rt_verdict verdict) {
    CHECK_MSG(world.held[rank] > 0, "worker %u has nothing to do", rank);
    if (world.held[rank] == 0)
        return;
    const uint64_t batch = world.batch[rank][0];
    enter(&world);
    memmove(&world.batch[rank][0], &world.batch[rank][1], --world.held[rank] * sizeof batch);
    world.result[rank][world.results[rank]++] = done_of(rank, batch);
    if (world.settings.tracks)
        judge(rank, batch, verdict);
    rt_scheduler_dispense(world.scheduler);
    leave(&world);
}

static inline void complete_round(uint64_t version, const uint16_t *ranks, size_t count) {
    struct rt_push push[RANKS];
    const struct rt_push *pushes[RANKS];
    for (size_t i = 0; i < count; i++) {
        push[i] = (struct rt_push){.worker = rt_roles_place(&world.roles, ranks[i]), .batch = version};
        pushes[i] = &push[i];
    }
    enter(&world);
    rt_scheduler_updated(world.scheduler, version, count, pushes);
    leave(&world);
}

/* One of those who have something to do is done. */
static inline void somebody_finishes(void) {
    for (size_t i = 1; i < world.roles.nodes; i++) {
        const uint16_t rank = (uint16_t)(1 + world.turn++ % (world.roles.nodes - 1));
        if (world.held[rank] > 0) {
            finish(rank, RT_VERDICT_APPLY);
            return;
        }
    }
}

/* `first`: the first worker's rank, 1 where the master only serves. */
static inline void open_world(const struct rt_scheduler_settings *settings, uint16_t first) {
    struct rt_error err;
    memset(&world, 0, sizeof world);
    world.now = 100;
    world.happen = somebody_finishes;
    world.roles =
        (struct rt_roles){.nodes = RANKS, .servers = 1, .workers = RANKS - first, .worker = world.worker};
    for (uint16_t i = 0; i < world.roles.workers; i++)
        world.worker[i] = (uint16_t)(i + first);
    world.settings = *settings;
    world.settings.roles = &world.roles;
    world.settings.workers = (struct rt_scheduler_workers){.self = &world,
                                                           .ahead = AHEAD,
                                                           .give = give,
                                                           .held = held,
                                                           .waiting = waiting,
                                                           .take = take,
                                                           .flush = flush};
    world.settings.own = (struct rt_scheduler_own){.self = &world,
                                                   .worker = {&world, learn, settle},
                                                   .await = await,
                                                   .enter = enter,
                                                   .leave = leave,
                                                   .now = now};
    CHECK_OK(rt_scheduler_create(&world.settings, &world.scheduler, &err));
}

static inline void close_world(void) {
    CHECK(!world.inside);
    rt_scheduler_destroy(world.scheduler);
    world.scheduler = NULL;
}

static inline struct rt_done step(void) {
    struct rt_error err;
    struct rt_done sum = {0};
    const uint64_t before = rt_scheduler_returned(world.scheduler);
    if (rt_scheduler_step(world.scheduler, &sum, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "after update %d: %s", (int)before, err.text);
    else
        CHECK(rt_scheduler_returned(world.scheduler) == before + 1);
    return sum;
}

static inline void step_until(uint64_t update) {
    while (rt_scheduler_returned(world.scheduler) < update && rt_test_failures == 0)
        step();
}

static inline void dispense(void) {
    enter(&world);
    rt_scheduler_dispense(world.scheduler);
    leave(&world);
}

/* Whether a batch was given, and how often. */
static inline size_t times(uint64_t batch) {
    size_t found = 0;
    for (size_t i = 0; i < world.gives; i++)
        found += world.given[i].batch == batch;
    return found;
}

/* The batch that a worker was given last. */
static inline uint64_t last_of(uint16_t rank) {
    for (size_t i = world.gives; i-- > 0;)
        if (world.given[i].rank == rank)
            return world.given[i].batch;
    return 0;
}

/* ---- kinds of exchange ---- */

/* Every batch is one worker's. */
static const struct rt_scheduler_settings in_turn = {
    .servers = true, .asynchronous = true, .tracks = true, .updates = 40, .batches = 10, .per_epoch = 10};

/* All share each batch, and not all are waited for. */
static const struct rt_scheduler_settings rounds = {
    .servers = true, .tracks = true, .updates = 40, .batches = 10, .per_epoch = 10};

/* Every batch is one worker's; of twelve in an epoch eight suffice. */
static const struct rt_scheduler_settings cut = {
    .servers = true, .asynchronous = true, .tracks = true, .updates = 32, .batches = 12, .per_epoch = 8};

/* All share each batch, by collectives. */
static const struct rt_scheduler_settings together = {.updates = 30, .batches = 10, .per_epoch = 10};

#endif
