/* The blocking wrapper of an exchange: what it asks for, in which order, and that it does not wait after a
 * failure. The exchange is a toy that notes its calls; the engine has no endpoint, so a wait for something
 * that is not there fails instead of lasting. */
#include "exchange/blocking.h"
#include "support/test.h"
#include <string.h>

enum { SPANS = 3 };

struct toy {
    bool missing; /* it never has anything */
    bool late;    /* gradients are given at the end */
    bool applied[SPANS];
    size_t asked;    /* calls of has */
    char calls[100]; /* one letter each, with the span's number */
};

static void note(struct toy *toy, char what, size_t span) {
    const size_t length = strlen(toy->calls);
    snprintf(toy->calls + length, sizeof toy->calls - length, "%c%zu ", what, span);
}

static struct toy *toy_of(const void *self) {
    return *(struct toy *const *)self;
}

static void toy_begin(void *self, const struct rt_ticket *ticket) {
    note(toy_of(self), 'b', (size_t)ticket->batch);
}

static bool toy_has(const void *self, size_t span) {
    (void)span;
    toy_of(self)->asked++;
    return !toy_of(self)->missing;
}

static void toy_ready(void *self, size_t span) {
    note(toy_of(self), 'r', span);
}

static void toy_end(void *self, const struct rt_done *done) {
    note(toy_of(self), 'e', (size_t)done->rows);
}

static void toy_rest(void *self, bool anew) {
    note(toy_of(self), 'z', anew);
}

static bool toy_rests(const void *self) {
    return !toy_of(self)->missing;
}

/* Spans come from the last down, and are taken as they come. */
static ptrdiff_t toy_due(const void *self, size_t span) {
    const struct toy *toy = toy_of(self);
    for (size_t i = SPANS; !toy->applied[span] && i-- > 0;)
        if (!toy->applied[i])
            return (ptrdiff_t)i;
    return RT_NO_SPAN;
}

static void toy_take(void *self, size_t span) {
    toy_of(self)->applied[span] = true;
    note(toy_of(self), 't', span);
}

static bool toy_give(void *self, size_t span) {
    note(toy_of(self), 'g', span);
    return !toy_of(self)->late;
}

static rt_status toy_compute(void *self, const struct rt_ticket *ticket,
                             struct rt_blocking_exchange *exchange, struct rt_done *done,
                             struct rt_error *err) {
    (void)self, (void)ticket, (void)err;
    for (size_t i = 0; i < SPANS; i++)
        rt_blocking_need(exchange, i);
    for (size_t i = SPANS; i-- > 0;)
        rt_blocking_ready(exchange, i);
    done->rows = 7;
    return RT_OK;
}

static bool toy_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    (void)self, (void)event, (void)status, (void)err;
    return false;
}

struct bench {
    struct toy toy, *self;
    struct rt_communicator comm;
    struct rt_blocking_exchange blocking;
};

static void open_bench(struct bench *bench) {
    struct rt_error err;
    bench->self = &bench->toy;
    bench->comm = (struct rt_communicator){.count = 1};
    bench->blocking = (struct rt_blocking_exchange){.exchange = {.self = &bench->self,
                                                                 .part = {.event = toy_event},
                                                                 .begin = toy_begin,
                                                                 .has = toy_has,
                                                                 .ready = toy_ready,
                                                                 .end = toy_end,
                                                                 .rest = toy_rest,
                                                                 .rests = toy_rests,
                                                                 .due = toy_due,
                                                                 .take = toy_take,
                                                                 .give = toy_give},
                                                    .span_count = SPANS};
    const struct rt_engine_settings settings = {
        .comm = &bench->comm, .parts = {bench->blocking.exchange.part}, .part_count = 1};
    CHECK_OK(rt_engine_create(&settings, &bench->blocking.engine, &err));
}

static rt_status learn(struct bench *bench, struct rt_error *err) {
    const struct rt_replica replica = {.compute = toy_compute};
    const struct rt_ticket ticket = {.batch = 5, .parts = 1};
    struct rt_done done;
    return rt_blocking_learn(&bench->blocking, &replica, &ticket, &done, err);
}

TEST(spans_that_come_first_are_taken_first) {
    struct bench bench = {0};
    struct rt_error err;
    open_bench(&bench);
    CHECK_OK(learn(&bench, &err));
    CHECK_MSG(strcmp(bench.toy.calls, "b5 t2 t1 t0 g2 r2 g1 r1 g0 r0 e7 ") == 0, "%s", bench.toy.calls);
    CHECK(bench.toy.asked == 3); /* what was taken is not asked for again */
    rt_engine_destroy(bench.blocking.engine);
}

TEST(an_exchange_at_the_end_hears_of_the_end_only) {
    struct bench bench = {.toy = {.late = true, .applied = {true, true, true}}};
    struct rt_error err;
    open_bench(&bench);
    CHECK_OK(learn(&bench, &err));
    CHECK_MSG(strcmp(bench.toy.calls, "b5 g2 g1 g0 e7 ") == 0, "%s", bench.toy.calls);
    rt_engine_destroy(bench.blocking.engine);
}

TEST(settling_takes_what_is_left) {
    struct bench bench = {.toy = {.applied = {[1] = true}}};
    struct rt_error err;
    open_bench(&bench);
    CHECK_OK(rt_blocking_settle(&bench.blocking, &err));
    CHECK_MSG(strcmp(bench.toy.calls, "z0 t2 t0 ") == 0, "%s", bench.toy.calls);
    rt_engine_destroy(bench.blocking.engine);
}

TEST(after_a_failure_nothing_waits) {
    struct bench bench = {.toy = {.missing = true}};
    struct rt_error err;
    open_bench(&bench);
    CHECK(learn(&bench, &err) == RT_FAILED);
    CHECK_MSG(strcmp(bench.toy.calls, "b5 ") == 0, "%s", bench.toy.calls); /* nothing is taken or given */
    const size_t asked = bench.toy.asked;
    rt_blocking_need(&bench.blocking, 0);
    CHECK(bench.toy.asked == asked);
    CHECK(rt_blocking_settle(&bench.blocking, &err) == RT_FAILED);
    rt_engine_destroy(bench.blocking.engine);
}

TEST_MAIN()
