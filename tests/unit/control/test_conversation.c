/* The conversation of a coordinator with an agent, here the leader of a ring of two: what each side may say,
 * and that nothing else is believed. Over the network in memory; one side is real, the other says what the
 * case wants. */
#include "control/agent.h"
#include "control/coordinator.h"
#include "support/mesh.h"
#include "support/test.h"

enum { PLACES = 2, AHEAD = 2, MOST_SAID = 3 };

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
    uint64_t ticket;
    bool asked, stopped;
};

static void say(struct rt_talk *talk, const struct said *said) {
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = 0;
    REQUIRE(body);
    if (said->message.type == RT_MESSAGE_ERROR)
        bytes = rt_error_encode(&said->error, body, RT_MAX_CONTROL);
    if (said->message.type == RT_MESSAGE_METRICS && said->rows == 0)
        bytes = rt_metrics_encode(&(struct rt_metrics){0}, body, RT_MAX_CONTROL);
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
static void listen(struct world *world, struct rt_communicator *comm, struct rt_engine_part part) {
    const double until = rt_endpoint_now(comm->endpoint) + 5;
    struct rt_event event;
    while (world->status == RT_OK && rt_endpoint_wait(comm->endpoint, until, &event))
        part.event(part.self, &event, &world->status, &world->err);
}

/* ---- the master ---- */

static void open_coordinator(struct rt_communicator *comm, struct rt_talk *talk,
                             struct rt_coordinator **coordinator) {
    struct rt_error err;
    comm->stride = PLACES;
    REQUIRE(rt_talk_open(comm->links[1], talk, &err) == RT_OK);
    talk->run = comm->run;
    REQUIRE(
        rt_coordinator_create(&(struct rt_coordinator_settings){.comm = comm, .ahead = AHEAD, .rows = PLACES},
                              coordinator, &err) == RT_OK);
}

static void close_coordinator(struct rt_communicator *comm, struct rt_coordinator *coordinator,
                              struct rt_talk *talk) {
    rt_talk_close(talk);
    comm->links[1] = NULL;
    rt_coordinator_destroy(coordinator);
}

static void be_master(struct world *world, struct rt_communicator *comm) {
    struct rt_metrics_row rows[2 * PLACES];
    struct rt_talk talk;
    struct rt_coordinator *coordinator = NULL;
    open_coordinator(comm, &talk, &coordinator);
    const struct rt_engine_part part = rt_coordinator_part(coordinator);
    CHECK(rt_coordinator_all_rest(coordinator)); /* nothing has been given */
    CHECK(rt_coordinator_give(coordinator, 1, 7));
    if (world->at->ask)
        rt_coordinator_ask_metrics(coordinator);
    if (world->at->stop)
        rt_coordinator_stop(coordinator);
    CHECK(part.turn(part.self, &world->err) == RT_OK);
    listen(world, comm, part);
    world->lost = part.lost(part.self);
    world->done = rt_coordinator_held(coordinator, 1) == 0;
    world->rests = rt_coordinator_all_rest(coordinator);
    CHECK(rt_coordinator_waiting(coordinator, 1) == world->done);
    world->rows_here = rt_coordinator_metrics(coordinator, rows);
    world->gone = rt_coordinator_gone(coordinator);
    const bool owes = world->at->ask && !world->rows_here;
    CHECK(!rt_coordinator_is_owed(coordinator, 0));
    CHECK(rt_coordinator_is_owed(coordinator, 1) == (owes || !world->done));
    rt_coordinator_expect_rest(coordinator, true);
    CHECK(rt_coordinator_is_owed(coordinator, 1) == (owes || !world->done || !world->rests));
    rt_coordinator_expect_rest(coordinator, false);
    CHECK(rt_coordinator_take(coordinator, 1, &world->result) == world->done);
    CHECK(!rt_coordinator_take(coordinator, 1, &world->result));
    close_coordinator(comm, coordinator, &talk);
}

static void attend_master(void *user, struct rt_communicator *comm) {
    if (comm->rank == 0)
        be_master(user, comm);
    else
        speak(user, comm);
}

#define DONE(number, right, of)                                                                              \
    {                                                                                                        \
        .message = {                                                                                         \
            .type = RT_MESSAGE_DONE,                                                                         \
            .source = PLACES,                                                                                \
            .batch = number,                                                                                 \
            .correct = right,                                                                                \
            .rows = of,                                                                                      \
            .loss = 2.5                                                                                      \
        }                                                                                                    \
    }

TEST(what_a_node_may_say) {
    static const struct talk_case cases[] = {
        {.said = {DONE(7, 3, 4)}},
        {.said = {DONE(7, 0, 0)}}, /* a part without rows */
        {.ask = true,
         .said = {DONE(7, 3, 4),
                  {.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}, .rows = 2, .first = 2}}},
        {.stop = true, .said = {DONE(7, 3, 4), {.message = {.type = RT_MESSAGE_STOP, .source = PLACES}}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_master, &world);
        CHECK_MSG(world.status == RT_OK, "case %zu: %s", i, world.err.text);
        CHECK(world.done && world.rows_here == cases[i].ask && world.gone == cases[i].stop);
        CHECK(!world.rests && world.result.loss == 2.5 && world.result.rows == cases[i].said[0].message.rows);
    }
}

#define RESTS(number)                                                                                        \
    {                                                                                                        \
        .message = {.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST, .source = PLACES, .batch = number }      \
    }

/* It rests when it says so behind its last result: what it has said before a ticket came does not count. */
TEST(when_a_ring_rests) {
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

/* As many tickets as a leader may hold. */
static void give_too_many(void *user, struct rt_communicator *comm) {
    struct rt_talk talk;
    (void)user;
    if (comm->rank > 0) {
        rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) + 1);
        return;
    }
    struct rt_coordinator *coordinator = NULL;
    open_coordinator(comm, &talk, &coordinator);
    for (uint64_t batch = 1; batch <= AHEAD; batch++)
        CHECK(rt_coordinator_give(coordinator, 1, batch));
    CHECK(!rt_coordinator_give(coordinator, 1, AHEAD + 1) && rt_coordinator_held(coordinator, 1) == AHEAD);
    close_coordinator(comm, coordinator, &talk);
}

TEST(no_more_tickets_than_can_be_held) {
    mesh_in_memory(NULL, 2, give_too_many, NULL);
}

TEST(what_a_node_may_not_say) {
    static const struct talk_case cases[] = {
        {.said = {DONE(8, 3, 4)}, .refused = "done with batch 8, which it was not given", .lost = 2},
        {.said = {DONE(7, 5, 4)}, .refused = "5 correct predictions of 4 examples", .lost = 2},
        {.said = {DONE(7, 3, 4), DONE(7, 3, 4)}, .refused = "which it was not given", .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}, .rows = 2, .first = 2}},
         .refused = "unexpected metrics message",
         .lost = 2},
        {.ask = true,
         .said = {{.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}, .rows = 3, .first = 2}},
         .refused = "the metrics have 3 rows; at most 2 were expected",
         .lost = 2},
        {.ask = true,
         .said = {{.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}, .rows = 2, .first = 0}},
         .refused = "a metrics message must have 2 rows, of its sender",
         .lost = 2},
        {.ask = true,
         .said = {{.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}}},
         .refused = "",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_STOP, .source = PLACES}}},
         .refused = "unexpected stop message",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_TICKET, .source = PLACES, .batch = 3}}},
         .refused = "unexpected ticket message",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_PULL, .source = PLACES, .batch = 7}}},
         .refused = "unexpected pull message",
         .lost = 2},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_IO, .node = 3, .text = "gone"}}},
         .refused = "gone",
         .lost = 3},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR},
                   .error = {.status = RT_DIVERGED, .node = 3, .text = "not finite"}}},
         .refused = "not finite",
         .lost = UINT16_MAX,
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

/* ---- a node ---- */

static void be_node(struct world *world, struct rt_communicator *comm) {
    struct rt_talk talk;
    struct rt_agent *agent;
    comm->stride = PLACES;
    REQUIRE(rt_talk_open(comm->links[0], &talk, &world->err) == RT_OK);
    talk.run = comm->run;
    REQUIRE(rt_agent_create(
                &(struct rt_agent_settings){.comm = comm, .learns = true, .ahead = AHEAD, .rows = PLACES},
                &agent, &world->err) == RT_OK);
    listen(world, comm, rt_agent_part(agent));
    world->ticket = rt_agent_ticket(agent);
    world->asked = rt_agent_is_asked(agent);
    world->stopped = rt_agent_is_stopped(agent);
    rt_talk_close(&talk);
    comm->links[0] = NULL;
    rt_agent_destroy(agent);
}

static void attend_node(void *user, struct rt_communicator *comm) {
    if (comm->rank == 1)
        be_node(user, comm);
    else
        speak(user, comm);
}

#define TICKET(number)                                                                                       \
    {                                                                                                        \
        .message = {.type = RT_MESSAGE_TICKET, .batch = number }                                             \
    }

TEST(what_the_master_may_say) {
    static const struct talk_case two = {.said = {TICKET(5), TICKET(9)}};
    static const struct talk_case at = {.said = {TICKET(5),
                                                 {.message = {.type = RT_MESSAGE_METRICS, .source = PLACES}},
                                                 {.message = {.type = RT_MESSAGE_STOP, .source = PLACES}}}};
    struct world world = {.at = &at};
    mesh_in_memory(NULL, 2, attend_node, &world);
    CHECK_MSG(world.status == RT_OK, "%s", world.err.text);
    CHECK(world.ticket == 5 && world.asked && world.stopped);
    world = (struct world){.at = &two};
    mesh_in_memory(NULL, 2, attend_node, &world);
    CHECK(world.status == RT_OK && world.ticket == 5);
}

TEST(what_the_master_may_not_say) {
    static const struct talk_case cases[] = {
        {.said = {TICKET(5), TICKET(6), TICKET(7)}, .refused = "batch 7 came when none could be held"},
        {.said = {TICKET(5), TICKET(4)}, .refused = "batch 4 came behind one for batch 5"},
        {.said = {TICKET(0)}, .refused = "batch 0 came behind one for batch 0"},
        {.said = {{.message = {.type = RT_MESSAGE_STOP, .source = PLACES}}, TICKET(1)},
         .refused = "batch 1 came when none could be held"},
        {.said = {DONE(1, 1, 1)}, .refused = "unexpected done message"},
        {.said = {{.message = {.type = RT_MESSAGE_METRICS}, .rows = 1}},
         .refused = "have 1 rows; at most 0 were expected"},
        {.said = {{.message = {.type = RT_MESSAGE_METRICS}}, {.message = {.type = RT_MESSAGE_METRICS}}},
         .refused = "before the last one was answered"},
        {.said = {{.message = {.type = RT_MESSAGE_ERROR}, .error = {.status = RT_IO, .text = "the end"}}},
         .refused = "the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend_node, &world);
        CHECK_MSG(world.status == RT_FAILED && strstr(world.err.text, cases[i].refused), "case %zu: %s", i,
                  world.err.text);
    }
}

TEST_MAIN()
