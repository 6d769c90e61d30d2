/* The talk of the master with the heads of other rings: what each side may say, and that nothing else is
 * believed. Over the network in memory; one side is real, the other says what the case wants. */
#include "run/hybrid/talk.h"
#include "support/mesh.h"
#include "support/test.h"

enum { PLACES = 2, MOST_SAID = 3 };

/* What is said: a message, and of some the body. */
struct said {
    struct rt_message message;
    struct rt_error_message error; /* of an ERROR */
    size_t rows;                   /* of METRICS */
    uint16_t first;                /* node of its first row */
};

struct talk_case {
    bool ask, stop; /* the master has asked for metrics, has said STOP; it has always given batch 7 */
    struct said said[MOST_SAID];
    const char *refused; /* a part of the sentence; NULL: all is well */
    uint16_t lost;
    bool diverged; /* nobody is: the training has */
};

struct world {
    const struct talk_case *at;
    rt_status status;
    struct rt_error err;
    uint16_t lost;
    bool done, rests, rows_here, gone;
    struct rt_done result;
    struct rt_leader leader;
};

static void say(struct rt_talk *talk, const struct said *said) {
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = 0;
    REQUIRE(body);
    if (said->message.type == RT_MESSAGE_ERROR)
        bytes = rt_error_encode(&said->error, body, RT_MAX_CONTROL);
    for (size_t i = 0; i < said->rows; i++)
        bytes = rt_metrics_append(&(struct rt_metrics_row){.node = (uint16_t)(said->first + i)}, body, bytes,
                                  RT_MAX_CONTROL);
    rt_talk_send(talk, &said->message, bytes);
}

/* Says it all, and listens until the other side is done. */
static void speak(const struct world *world, struct rt_communicator *comm) {
    struct rt_talk talk;
    struct rt_error err;
    struct rt_event event;
    struct rt_link **link = &comm->links[1 - comm->rank];
    REQUIRE(rt_talk_open(*link, &talk, &err) == RT_OK);
    talk.run = comm->run;
    for (size_t i = 0; i < MOST_SAID && world->at->said[i].message.type; i++)
        say(&talk, &world->at->said[i]);
    while (!talk.closed && rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 20, &event))
        if (rt_talk_event(&talk, &event) && talk.ready)
            rt_talk_next(&talk);
    rt_talk_close(&talk);
    *link = NULL;
}

/* Takes what comes for a while. */
static void listen(struct world *world, struct rt_communicator *comm, struct rt_group_talk talk) {
    const double until = rt_endpoint_now(comm->endpoint) + 5;
    struct rt_event event;
    while (world->status == RT_OK && rt_endpoint_wait(comm->endpoint, until, &event))
        talk.event(talk.self, &event, &world->lost, &world->status, &world->err);
}

/* ---- the master ---- */

static void be_master(struct world *world, struct rt_communicator *comm) {
    struct rt_leaders *leaders;
    struct rt_metrics_row rows[2 * PLACES];
    REQUIRE(rt_leaders_create(comm->endpoint, comm->run, 2, PLACES, comm->links, &leaders, &world->err) ==
            RT_OK);
    CHECK(rt_leaders_rest(leaders)); /* nobody has been given anything */
    CHECK(rt_leaders_give(leaders, 1, 7));
    if (world->at->ask)
        rt_leaders_ask(leaders);
    if (world->at->stop)
        rt_leaders_stop(leaders);
    const struct rt_group_talk talk = rt_leaders_talk(leaders);
    listen(world, comm, talk);
    world->done = rt_leaders_held(leaders, 1) == 0;
    world->rests = rt_leaders_rest(leaders);
    CHECK(rt_leaders_waiting(leaders, 1) == world->done);
    world->rows_here = rt_leaders_metrics(leaders, rows);
    world->gone = talk.may_leave(talk.self);
    const bool owes = world->at->ask && !world->rows_here;
    CHECK(!talk.waits_for(talk.self, 0));
    CHECK(talk.waits_for(talk.self, 1) == (owes || !world->done));
    rt_leaders_expect_rest(leaders, true);
    CHECK(talk.waits_for(talk.self, 1) == (owes || !world->done || !world->rests));
    rt_leaders_expect_rest(leaders, false);
    CHECK(rt_leaders_take(leaders, 1, &world->result) == world->done);
    CHECK(!rt_leaders_take(leaders, 1, &world->result));
    rt_leaders_destroy(leaders);
    CHECK(comm->links[1] == NULL);
}

static void attend_master(void *user, struct rt_communicator *comm) {
    if (comm->rank == 0)
        be_master(user, comm);
    else
        speak(user, comm);
}

#define DONE(batch, right, of)                                                                               \
    {                                                                                                        \
        .message = {.type = RT_MESSAGE_DONE, .micro = batch, .update = right, .rows = of, .value = 2.5 }     \
    }

TEST(what_a_head_may_say) {
    static const struct talk_case cases[] = {
        {.said = {DONE(7, 3, 4)}},
        {.said = {DONE(7, 0, 0)}}, /* a part without rows */
        {.ask = true,
         .said = {DONE(7, 3, 4), {.message = {.type = RT_MESSAGE_METRICS}, .rows = 2, .first = 2}}},
        {.stop = true, .said = {DONE(7, 3, 4), {.message = {.type = RT_MESSAGE_STOP}}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_master, &world);
        CHECK_MSG(world.status == RT_OK, "case %zu: %s", i, world.err.text);
        CHECK(world.done && world.rows_here == cases[i].ask && world.gone == cases[i].stop);
        CHECK(!world.rests && world.result.loss == 2.5 && world.result.rows == cases[i].said[0].message.rows);
    }
}

#define RESTS(batch)                                                                                         \
    {                                                                                                        \
        .message = {.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST, .micro = batch }                         \
    }

/* It rests when it says so behind its last result: what it has said before a ticket came does not count. */
TEST(when_a_head_rests) {
    static const struct talk_case cases[] = {
        {.said = {DONE(7, 3, 4), RESTS(7)}},
        {.said = {RESTS(0), DONE(7, 3, 4), RESTS(7)}},
        {.said = {RESTS(0)}},
        {.said = {RESTS(0), DONE(7, 3, 4)}},
        {.said = {DONE(7, 3, 4), RESTS(6)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_master, &world);
        CHECK_MSG(world.status == RT_OK, "case %zu: %s", i, world.err.text);
        CHECK_MSG(world.rests == (i < 2), "case %zu: it %s", i, world.rests ? "rests" : "does not rest");
    }
}

/* As many tickets as a head may hold, and as many results as may wait to be taken. */
static void give_too_many(void *user, struct rt_communicator *comm) {
    struct rt_leaders *leaders;
    struct rt_error err;
    (void)user;
    if (comm->rank > 0) {
        rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + 1);
        return;
    }
    REQUIRE(rt_leaders_create(comm->endpoint, comm->run, 2, PLACES, comm->links, &leaders, &err) == RT_OK);
    for (uint64_t batch = 1; batch <= RT_LEADER_TICKETS_AHEAD; batch++)
        CHECK(rt_leaders_give(leaders, 1, batch));
    CHECK(!rt_leaders_give(leaders, 1, RT_LEADER_TICKETS_AHEAD + 1) &&
          rt_leaders_held(leaders, 1) == RT_LEADER_TICKETS_AHEAD);
    rt_leaders_destroy(leaders);
}

TEST(no_more_tickets_than_can_be_held) {
    mesh_in_memory(NULL, 2, give_too_many, NULL);
}

TEST(what_a_head_may_not_say) {
    static const struct talk_case cases[] = {
        {.said = {DONE(8, 3, 4)}, .refused = "its result of batch 8 makes no sense", .lost = 2},
        {.said = {DONE(7, 5, 4)}, .refused = "its result of batch 7 makes no sense", .lost = 2},
        {.said = {DONE(7, 3, 4), DONE(7, 3, 4)}, .refused = "makes no sense", .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_METRICS}, .rows = 2, .first = 2}},
         .refused = "a metrics message was not expected",
         .lost = 2},
        {.ask = true,
         .said = {{.message = {.type = RT_MESSAGE_METRICS}, .rows = 3, .first = 2}},
         .refused = "the metrics have 3 rows; at most 2 were expected",
         .lost = 2},
        {.ask = true,
         .said = {{.message = {.type = RT_MESSAGE_METRICS}, .rows = 2, .first = 0}},
         .refused = "its metrics are not those of its ring",
         .lost = 2},
        {.ask = true, .said = {{.message = {.type = RT_MESSAGE_METRICS}}}, .refused = "", .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_STOP}}},
         .refused = "it stopped without being asked to",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_TICKET, .micro = 3}}},
         .refused = "a ticket message was not expected",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_PULL, .micro = 7}}},
         .refused = "a pull message was not expected",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_IO, .node = 3, .text = "gone"}}},
         .refused = "gone",
         .lost = 3},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_DIVERGED, .node = 3, .text = "not finite"}}},
         .refused = "not finite",
         .diverged = true},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_FAILED, .node = 3, .text = "no thread"}}},
         .refused = "no thread",
         .lost = 3},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_IO, .node = 4, .text = "who"}}},
         .refused = "who",
         .lost = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_master, &world);
        CHECK_MSG(world.status == (cases[i].diverged ? RT_DIVERGED : RT_FAILED) &&
                      strstr(world.err.text, cases[i].refused),
                  "case %zu: %s", i, world.err.text);
        CHECK_MSG(world.lost == cases[i].lost, "case %zu: node %u is blamed", i, world.lost);
    }
}

/* ---- a head ---- */

static void be_head(struct world *world, struct rt_communicator *comm) {
    REQUIRE(rt_leader_open(&world->leader, comm->endpoint, comm->run, 2, comm->links[0], &world->err) ==
            RT_OK);
    listen(world, comm, rt_leader_talk(&world->leader));
    rt_leader_close(&world->leader);
    comm->links[0] = NULL;
}

static void attend_head(void *user, struct rt_communicator *comm) {
    if (comm->rank == 1)
        be_head(user, comm);
    else
        speak(user, comm);
}

#define TICKET(batch)                                                                                        \
    {                                                                                                        \
        .message = {.type = RT_MESSAGE_TICKET, .micro = batch }                                              \
    }

TEST(what_the_master_may_say) {
    static const struct talk_case two = {.said = {TICKET(5), TICKET(9)}};
    static const struct talk_case at = {.said = {TICKET(5),
                                                 {.message = {.type = RT_MESSAGE_METRICS}},
                                                 {.message = {.type = RT_MESSAGE_STOP}}}};
    struct world world = {.at = &at};
    mesh_in_memory(NULL, 2, attend_head, &world);
    CHECK_MSG(world.status == RT_OK, "%s", world.err.text);
    CHECK(world.leader.tickets[0] == 5 && world.leader.asked && world.leader.stopped &&
          world.leader.attention);
    world = (struct world){.at = &two};
    mesh_in_memory(NULL, 2, attend_head, &world);
    CHECK(world.status == RT_OK && world.leader.tickets[0] == 5 && world.leader.tickets[1] == 9);
}

TEST(what_the_master_may_not_say) {
    static const struct talk_case cases[] = {
        {.said = {TICKET(5), TICKET(6), TICKET(7)}, .refused = "batch 7 came when none of it could be held"},
        {.said = {TICKET(5), TICKET(5)}, .refused = "batch 5 came when none of it could be held"},
        {.said = {TICKET(0)}, .refused = "batch 0 came when none of it could be held"},
        {.said = {{.message = {.type = RT_MESSAGE_STOP}}, TICKET(1)},
         .refused = "batch 1 came when none of it could be held"},
        {.said = {DONE(1, 1, 1)}, .refused = "a done message was not expected"},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR}, .error = {.status = RT_IO, .text = "the end"}}},
         .refused = "the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_head, &world);
        CHECK_MSG(world.status == RT_FAILED && strstr(world.err.text, cases[i].refused), "case %zu: %s", i,
                  world.err.text);
    }
}

TEST_MAIN()
