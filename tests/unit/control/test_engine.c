/* The engine of an exchange: who is handed what, waiting with and without a thread, the first failure, and
 * what goes on after it. */
/* labels: threads */
#include "base/clock.h"
#include "control/engine_inside.h"
#include "exchange/exchange.h"
#include "net/tcp.h"
#include "sim/network.h"
#include "support/memnet.h"
#include "support/test.h"
#include <math.h>
#include <pthread.h>

TEST(names) {
    char text[RT_NAME_ROOM];
    const struct rt_communicator all = {.count = 13};
    CHECK(strcmp(rt_communicator_name(&all, 0, text), "the master") == 0);
    CHECK(strcmp(rt_communicator_name(&all, 12, text), "node 12") == 0);
    /* The third places of rings of four. */
    const struct rt_communicator group = {.count = 3, .first = 2, .stride = 4};
    CHECK(rt_communicator_node(&group, 0) == 2 && rt_communicator_node(&group, 2) == 10);
    CHECK(strcmp(rt_communicator_name(&group, 0, text), "node 2") == 0);
    static const char called[][RT_NODE_NAME + 1] = {"master", "pi1", "pi2", "pi3"};
    const struct rt_communicator named = {.count = 2, .first = 1, .stride = 2, .names = {called, 4}};
    CHECK(strcmp(rt_communicator_name(&named, 1, text), "pi3") == 0); /* a name is of a node, not of a rank */
    CHECK(strcmp(rt_communicator_name(&group, 2, text), "node 10") == 0);
    const struct rt_communicator leaders = {.count = 3, .stride = 4};
    CHECK(strcmp(rt_communicator_name(&leaders, 0, text), "the master") == 0);
}

TEST(spans_are_joined) {
    struct rt_span spans[] = {{0, 10}, {10, 5}, {15, 6}, {21, 100}, {121, 1}, {130, 1}, {131, 1}};
    CHECK(rt_spans_join(spans, 7, 0) == 7);
    REQUIRE(rt_spans_join(spans, 7, 16) == 5);
    CHECK(spans[0].first == 0 && spans[0].count == 15);
    CHECK(spans[1].first == 15 && spans[1].count == 6);
    CHECK(spans[2].first == 21 && spans[2].count == 100);
    REQUIRE(rt_spans_join(spans, 0, 16) == 0);
    /* what follows a long one, and what does not touch, is not joined */
    struct rt_span more[] = {{0, 100}, {100, 1}, {110, 1}, {111, 1}};
    REQUIRE(rt_spans_join(more, 4, 16) == 3);
    CHECK(more[1].first == 100 && more[1].count == 1);
    CHECK(more[2].first == 110 && more[2].count == 2);
    struct rt_span all[] = {{0, 1}, {1, 2}, {3, 3}};
    CHECK(rt_spans_join(all, 3, SIZE_MAX) == 1 && all[0].count == 6);
    CHECK(rt_spans_join(NULL, 0, 5) == 0);
}

/* ---- a part that sends bytes one after the other and counts what comes ---- */

struct counter {
    struct rt_link *link;
    struct rt_send send;
    struct rt_receive receive;
    uint8_t out, in;
    bool sending;
    size_t wanted, sent, came; /* bytes */
    size_t awaited;
    unsigned turns, closed;
    uint16_t waits;
    bool refuses; /* the next that comes */
    pthread_t thread;
    bool other_thread; /* some call came from another thread than the first */
};

static void note_thread(struct counter *counter) {
    if (counter->turns == 0)
        counter->thread = pthread_self();
    else
        counter->other_thread |= !pthread_equal(counter->thread, pthread_self());
}

static void send_next(struct counter *counter) {
    if (counter->sending || counter->sent == counter->wanted)
        return;
    counter->out++;
    counter->send =
        (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{&counter->out, 1}}, .user = counter};
    counter->sending = true;
    rt_link_send(counter->link, &counter->send);
}

static void post(struct counter *counter) {
    counter->receive = (struct rt_receive){
        .channel = RT_CHANNEL_FIRST, .body = &counter->in, .body_room = 1, .user = counter};
    rt_link_receive(counter->link, &counter->receive);
}

static bool counter_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct counter *counter = self;
    if (event->link != counter->link)
        return false;
    note_thread(counter);
    if (event->kind == RT_EVENT_SENT) {
        counter->sending = false;
        counter->sent++;
        send_next(counter);
    } else if (event->kind == RT_EVENT_RECEIVED) {
        counter->came++;
        post(counter);
        if (counter->refuses)
            *status = rt_fail(err, RT_BAD_INPUT, "it was refused");
    } else if (event->kind == RT_EVENT_CLOSED) {
        counter->closed++;
    }
    return true;
}

static rt_status counter_turn(void *self, struct rt_error *err) {
    (void)err;
    struct counter *counter = self;
    note_thread(counter);
    if (counter->turns++ == 0)
        post(counter);
    send_next(counter);
    return RT_OK;
}

static uint16_t counter_waits(const void *self) {
    const struct counter *counter = self;
    return counter->waits;
}

static bool has_come(void *self) {
    const struct counter *counter = self;
    return counter->came >= counter->awaited;
}

static bool never(void *self) {
    (void)self;
    return false;
}

static struct rt_engine_part part_of(struct counter *counter) {
    return (struct rt_engine_part){
        .self = counter, .event = counter_event, .turn = counter_turn, .waits_for = counter_waits};
}

/* ---- two who are joined by one link ---- */

struct side {
    struct rt_link *links[3]; /* two of a communicator, and nobody */
    struct rt_communicator comm;
    struct counter counter;
    struct rt_engine *engine;
};

static bool open_side(struct side *side, struct rt_endpoint *endpoint, struct rt_link *link, uint16_t rank,
                      bool threaded) {
    struct rt_error err;
    *side = (struct side){.counter = {.link = link, .waits = UINT16_MAX}};
    side->links[1 - rank] = link;
    static const char called[][RT_NODE_NAME + 1] = {"master", "pi1"};
    side->comm = (struct rt_communicator){.endpoint = endpoint,
                                          .rank = rank,
                                          .count = 2,
                                          .names = {called, 2},
                                          .links = side->links,
                                          .timeout = 4};
    const struct rt_engine_settings settings = {
        .comm = &side->comm, .parts = {part_of(&side->counter)}, .part_count = 1, .threaded = threaded};
    return rt_engine_create(&settings, &side->engine, &err) == RT_OK;
}

static void ask_for(struct side *side, size_t wanted) {
    rt_engine_enter(side->engine);
    side->counter.wanted = wanted;
    rt_engine_leave(side->engine);
}

static rt_status await(struct side *side, size_t bytes, double until, struct rt_error *err) {
    rt_engine_enter(side->engine);
    side->counter.awaited = bytes;
    rt_engine_leave(side->engine);
    return rt_engine_wait(side->engine, has_come, &side->counter, until, err);
}

static struct rt_link *join_memory(size_t i, struct rt_endpoint *endpoint) {
    return i == 0 ? memnet_admit(endpoint) : memnet_join(endpoint, "mem:0");
}

static void run_pair(rt_memnet_program program, void *user) {
    memnet_run(&(struct rt_memnet_settings){.latency = 0.01}, 2, program, user);
}

static void count_both_ways(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct side side;
    struct rt_error err;
    (void)user;
    struct rt_link *link = join_memory(i, endpoint);
    REQUIRE(link && open_side(&side, endpoint, link, (uint16_t)i, false));
    ask_for(&side, 20 + i);
    CHECK_OK(await(&side, 21 - i, INFINITY, &err));
    /* time passes, and the exchange goes on */
    ask_for(&side, 30);
    const double start = rt_endpoint_now(endpoint);
    CHECK_OK(rt_engine_wait(side.engine, never, NULL, start + 5, &err));
    CHECK(rt_endpoint_now(endpoint) == start + 5);
    rt_engine_let_go(side.engine);
    CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, start + 6, &err));
    CHECK(rt_endpoint_now(endpoint) == start + 6 && side.counter.came == 30 && side.counter.sent == 30);
    CHECK(!side.counter.other_thread);
    struct rt_link_counts counts;
    rt_engine_counts(side.engine, (uint16_t)(1 - i), &counts);
    CHECK(counts.frames_sent[RT_CHANNEL_FIRST] == 30 && counts.frames_received[RT_CHANNEL_FIRST] == 30);
    /* what is there already ends a wait at once, also one whose time is over */
    CHECK_OK(await(&side, 30, 0, &err));
    rt_engine_destroy(side.engine);
    rt_link_close(link);
}

TEST(inline_in_memory) {
    run_pair(count_both_ways, NULL);
}

static void lose_patience(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct side side;
    struct rt_error err;
    (void)user;
    struct rt_link *link = join_memory(i, endpoint);
    REQUIRE(link && open_side(&side, endpoint, link, (uint16_t)i, false));
    const double start = rt_endpoint_now(endpoint);
    if (i == 1) { /* a byte now and then, for a while; then nothing */
        for (size_t n = 1; n <= 5; n++) {
            CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, start + 2.0 * (double)n, &err));
            ask_for(&side, n);
        }
        rt_engine_let_go(side.engine);
        CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, start + 10.1, &err));
        rt_endpoint_sleep(endpoint, start + 30); /* it hangs */
    } else {
        /* nobody owes anything: nothing happens */
        CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, start + 5, &err));
        side.counter.waits = 1;
        CHECK(await(&side, 100, INFINITY, &err) == RT_FAILED);
        CHECK_MSG(strcmp(err.text, "pi1: made no progress for 4 seconds (its program hangs)") == 0, "%s",
                  err.text);
        const double end = rt_endpoint_now(endpoint);
        CHECK_MSG(end >= start + 14 && end < start + 15.1, "%g s", end - start);
        CHECK(rt_engine_lost(side.engine, &err) == 1); /* the reason, for who names the node otherwise */
        CHECK_MSG(strcmp(err.text, "made no progress for 4 seconds (its program hangs)") == 0, "%s",
                  err.text);
        /* for ever, and at once */
        CHECK(await(&side, 0, INFINITY, &err) == RT_FAILED && rt_endpoint_now(endpoint) == end);
        CHECK(rt_engine_status(side.engine, &err) == RT_FAILED);
    }
    rt_engine_destroy(side.engine);
    rt_link_close(link);
}

TEST(timeout) {
    run_pair(lose_patience, NULL);
}

static void hang_up(void *user, size_t i, struct rt_endpoint *endpoint) {
    const bool *let_go = user;
    struct side side;
    struct rt_error err;
    struct rt_link *link = join_memory(i, endpoint);
    REQUIRE(link && open_side(&side, endpoint, link, (uint16_t)i, false));
    if (i == 0 && *let_go)
        rt_engine_let_go(side.engine);
    if (i == 0) {
        const rt_status status = rt_engine_wait(side.engine, NULL, NULL, rt_endpoint_now(endpoint) + 9, &err);
        CHECK(status == (*let_go ? RT_OK : RT_FAILED) && side.counter.closed == 1);
        CHECK_MSG(*let_go || (strncmp(err.text, "pi1: ", 5) == 0 && rt_engine_lost(side.engine, NULL) == 1),
                  "%s", err.text);
    }
    rt_engine_destroy(side.engine);
    rt_link_close(link);
}

TEST(a_link_that_closes) {
    run_pair(hang_up, &(bool){false});
    run_pair(hang_up, &(bool){true});
}

/* After a failure only who outlives it is handed events, and lingering goes on. */
static void fail_and_linger(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct side side;
    struct rt_error err;
    (void)user;
    struct rt_link *link = join_memory(i, endpoint);
    REQUIRE(link && open_side(&side, endpoint, link, (uint16_t)i, false));
    if (i == 1) {
        ask_for(&side, 5);
        rt_engine_linger(side.engine, NULL, NULL, rt_endpoint_now(endpoint) + 3);
    } else {
        rt_engine_destroy(side.engine);
        struct counter deaf = {.turns = 1, .waits = UINT16_MAX}; /* posts nothing, takes nothing */
        struct rt_engine_part parts[] = {part_of(&side.counter), part_of(&deaf)};
        parts[0].outlives = true;
        side.counter = (struct counter){.link = link, .waits = UINT16_MAX, .refuses = true};
        struct rt_engine_settings settings = {.comm = &side.comm, .part_count = 2};
        memcpy(settings.parts, parts, sizeof parts);
        CHECK_OK(rt_engine_create(&settings, &side.engine, &err));
        CHECK(await(&side, 5, INFINITY, &err) == RT_BAD_INPUT && rt_engine_lost(side.engine, NULL) == 1);
        CHECK(strstr(err.text, "it was refused") && side.counter.came == 1);
        const unsigned turns = deaf.turns;
        rt_engine_linger(side.engine, has_come, &side.counter, rt_endpoint_now(endpoint) + 3);
        CHECK(side.counter.came == 5);
        const double start = rt_endpoint_now(endpoint);
        rt_engine_linger(side.engine, never, NULL, start + 1);
        CHECK(rt_endpoint_now(endpoint) == start + 1 && deaf.turns == turns);
    }
    rt_engine_destroy(side.engine);
    rt_link_close(link);
}

TEST(after_a_failure) {
    run_pair(fail_and_linger, NULL);
}

static void see_stray(void *user, const struct rt_event *event) {
    unsigned *seen = user;
    *seen += event->kind == RT_EVENT_ACCEPTED;
    rt_link_close(event->link);
}

static void stop_one(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_link *none[1] = {NULL};
    atomic_int stop = 0;
    struct rt_error err;
    unsigned seen = 0;
    const struct rt_communicator comm = {.endpoint = endpoint, .count = 1, .links = none};
    const struct rt_engine_settings settings = {
        .comm = &comm, .stray = see_stray, .user = &seen, .stop = &stop};
    struct rt_engine *engine;
    if (i == 1) {
        rt_link_close(memnet_join(endpoint, "mem:0"));
        return;
    }
    CHECK_OK(rt_engine_create(&settings, &engine, &err));
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    CHECK_OK(rt_engine_wait(engine, NULL, NULL, 1, &err));
    CHECK(seen == 1);
    atomic_store(&stop, 1);
    CHECK(rt_engine_wait(engine, NULL, NULL, INFINITY, &err) == RT_INTERRUPTED);
    CHECK(rt_endpoint_now(endpoint) < 2);
    rt_engine_destroy(engine);
}

TEST(strangers_and_stopping) {
    run_pair(stop_one, NULL);
}

/* Who finishes what has begun stops when nobody has been heard of for a while, also where nobody owes it
 * anything. */
static void finish_one(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct side side;
    struct rt_error err;
    atomic_int stop = 1;
    (void)user;
    struct rt_link *link = join_memory(i, endpoint);
    REQUIRE(link && open_side(&side, endpoint, link, (uint16_t)i, false));
    if (i == 1) {
        rt_engine_let_go(side.engine);
        CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, 2, &err));
        ask_for(&side, 1);
        CHECK_OK(rt_engine_wait(side.engine, NULL, NULL, 20, &err));
    } else {
        rt_engine_destroy(side.engine);
        const struct rt_engine_settings settings = {.comm = &side.comm,
                                                    .parts = {part_of(&side.counter)},
                                                    .part_count = 1,
                                                    .stop = &stop,
                                                    .finishes = true};
        CHECK_OK(rt_engine_create(&settings, &side.engine, &err));
        CHECK(rt_engine_wait(side.engine, never, NULL, INFINITY, &err) == RT_INTERRUPTED);
        const double now = rt_endpoint_now(endpoint); /* 4 seconds after what came at 2 */
        CHECK_MSG(side.counter.came == 1 && now >= 6 && now < 7, "at %g: %s", now, err.text);
    }
    rt_engine_destroy(side.engine);
    rt_link_close(link);
}

TEST(finishing_what_has_begun) {
    run_pair(finish_one, NULL);
}

TEST(alone_without_a_network) {
    struct rt_link *none[1] = {NULL};
    const struct rt_communicator comm = {.count = 1, .links = none};
    struct rt_engine *engine;
    struct rt_error err;
    CHECK_OK(rt_engine_create(&(struct rt_engine_settings){.comm = &comm, .threaded = true}, &engine, &err));
    const double start = rt_engine_now(engine);
    CHECK_OK(rt_engine_wait(engine, NULL, NULL, start + 0.02, &err));
    CHECK(rt_engine_now(engine) >= start + 0.02);
    rt_engine_enter(engine);
    rt_engine_leave(engine);
    rt_engine_poll(engine);
    CHECK(rt_engine_wait(engine, never, NULL, INFINITY, &err) == RT_FAILED);
    rt_engine_destroy(engine);
}

static bool always(void *self) {
    (void)self;
    return true;
}

static void count_sleep(void *self, double until) {
    (void)until;
    ++*(unsigned *)self;
}

/* An emulated device that owes time does not sleep for what is there already. */
TEST(what_is_there_is_not_waited_for) {
    struct rt_link *none[1] = {NULL};
    const struct rt_communicator comm = {.count = 1, .links = none};
    struct rt_engine *engine;
    struct rt_error err;
    struct rt_pace pace = {0};
    unsigned sleeps = 0;
    struct rt_states states;
    CHECK_OK(rt_pace_add(&pace, 1, 10, &err));
    CHECK_OK(rt_engine_create(&(struct rt_engine_settings){.comm = &comm}, &engine, &err));
    rt_states_start(&states, RT_STATE_FORWARD);
    rt_states_emulate(&states, &(struct rt_emulation){.pace = &pace, .self = &sleeps, .sleep = count_sleep});
    const double start = rt_clock_thread();
    while (rt_clock_thread() - start < 0.003)
        ;
    CHECK_OK(rt_engine_wait_as(engine, &states, RT_STATE_WAIT_BARRIER, always, NULL, &err));
    CHECK(sleeps == 0 && states.now == RT_STATE_FORWARD && states.seconds[RT_STATE_WAIT_BARRIER] == 0);
    rt_states_enter(&states, RT_STATE_WAIT_BARRIER);
    CHECK(sleeps > 0);
    rt_engine_destroy(engine);
}

/* ---- over TCP, with a thread ---- */

struct pair {
    struct rt_endpoint *endpoint[2];
    struct rt_link *link[2];
};

static bool open_pair(struct pair *pair) {
    struct rt_error err;
    struct rt_event event;
    *pair = (struct pair){{NULL}, {NULL}};
    for (size_t i = 0; i < 2; i++)
        if (rt_tcp_create(&(struct rt_tcp_settings){0}, &pair->endpoint[i], &err) != RT_OK)
            return false;
    if (rt_endpoint_listen(pair->endpoint[0], "127.0.0.1:0", &err) != RT_OK ||
        rt_endpoint_connect(pair->endpoint[1], pair->endpoint[0]->address,
                            rt_endpoint_now(pair->endpoint[1]) + 10, &pair->link[1], &err) != RT_OK)
        return false;
    const double until = rt_endpoint_now(pair->endpoint[0]) + 10;
    while (!pair->link[0] && rt_endpoint_wait(pair->endpoint[0], until, &event))
        if (event.kind == RT_EVENT_ACCEPTED)
            pair->link[0] = event.link;
    return pair->link[0] && rt_endpoint_wait(pair->endpoint[1], until, &event) &&
           event.kind == RT_EVENT_CONNECTED;
}

TEST(threaded_over_tcp) {
    struct pair pair;
    struct side side[2];
    struct rt_error err;
    REQUIRE(open_pair(&pair));
    for (uint16_t i = 0; i < 2; i++)
        REQUIRE(open_side(&side[i], pair.endpoint[i], pair.link[i], i, true));
    for (size_t round = 1; round <= 200; round++) {
        ask_for(&side[0], 3 * round);
        ask_for(&side[1], 2 * round);
        CHECK_OK(await(&side[1], 3 * round, INFINITY, &err));
        CHECK_OK(await(&side[0], 2 * round, INFINITY, &err));
    }
    /* sleeping, while the other side's bytes are taken */
    ask_for(&side[0], 1000);
    const double start = rt_engine_now(side[1].engine);
    CHECK_OK(rt_engine_wait(side[1].engine, NULL, NULL, start + 0.3, &err));
    CHECK(rt_engine_now(side[1].engine) >= start + 0.3);
    CHECK_OK(await(&side[1], 1000, INFINITY, &err));
    for (size_t i = 0; i < 2; i++) {
        rt_engine_enter(side[i].engine);
        CHECK(!side[i].counter.other_thread && !pthread_equal(side[i].counter.thread, pthread_self()));
        rt_engine_leave(side[i].engine);
    }
    rt_engine_let_go(side[0].engine);
    /* one leaves: the other one's waits fail */
    rt_engine_destroy(side[0].engine);
    rt_endpoint_destroy(pair.endpoint[0]);
    CHECK(await(&side[1], SIZE_MAX, INFINITY, &err) == RT_FAILED &&
          strncmp(err.text, "the master: ", 12) == 0);
    rt_engine_linger(side[1].engine, never, NULL, rt_engine_now(side[1].engine) + 0.01);
    rt_engine_destroy(side[1].engine);
    rt_endpoint_destroy(pair.endpoint[1]);
}

TEST(impatient_over_tcp) {
    struct pair pair;
    struct side side;
    struct rt_error err;
    REQUIRE(open_pair(&pair));
    REQUIRE(open_side(&side, pair.endpoint[0], pair.link[0], 0, false));
    rt_engine_destroy(side.engine);
    side.comm.timeout = 0.2;
    side.counter = (struct counter){.link = pair.link[0], .waits = 1};
    const struct rt_engine_settings settings = {
        .comm = &side.comm, .parts = {part_of(&side.counter)}, .part_count = 1, .threaded = true};
    CHECK_OK(rt_engine_create(&settings, &side.engine, &err));
    const double start = rt_engine_now(side.engine);
    CHECK(await(&side, 1, INFINITY, &err) == RT_FAILED && strstr(err.text, "made no progress for"));
    CHECK(rt_engine_now(side.engine) < start + 5);
    rt_engine_destroy(side.engine);
    rt_endpoint_destroy(pair.endpoint[0]);
    rt_endpoint_destroy(pair.endpoint[1]);
}

TEST_MAIN()
