/* Conversations over one link, in memory: what is said arrives, and what makes no sense ends them. */
#include "cluster/talk.h"
#include "sim/network.h"
#include "support/test.h"

typedef void (*side)(struct rt_endpoint *endpoint, struct rt_talk *talk);

struct pair {
    side caller, called;
};

static void take_one(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_event event;
    double until = rt_endpoint_now(endpoint) + 60;
    while (!talk->ready && !talk->dead && rt_endpoint_wait(endpoint, until, &event))
        CHECK(rt_talk_event(talk, &event));
}

static void drain(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_event event;
    while (!talk->closed && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 1, &event))
        CHECK(rt_talk_event(talk, &event));
}

static void program(void *user, size_t i, struct rt_endpoint *endpoint) {
    const struct pair *pair = user;
    struct rt_error err;
    struct rt_event event;
    struct rt_link *link;
    struct rt_talk talk = {0};
    if (i == 0) {
        CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 10, &link, &err));
    } else {
        CHECK_OK(rt_endpoint_listen(endpoint, "mem:1", &err));
        REQUIRE(rt_endpoint_wait(endpoint, 10, &event) && event.kind == RT_EVENT_ACCEPTED);
        link = event.link;
    }
    CHECK_OK(rt_talk_open(link, &talk, &err));
    CHECK(link->user == &talk);
    (i == 0 ? pair->caller : pair->called)(endpoint, &talk);
    rt_talk_close(&talk);
    rt_talk_close(&talk); /* one that is closed may be closed again */
}

static void run_pair(side caller, side called) {
    struct rt_error err;
    struct rt_memnet *net;
    struct pair pair = {caller, called};
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.latency = 0.01}, 2, &net, &err));
    CHECK_OK(rt_memnet_run(net, program, &pair, 100, &err));
    rt_memnet_destroy(net);
}

/* ---- messages of any size, to and fro; the link outlives the conversation ---- */

enum { ROUNDS = 9 };

static size_t bytes_of(int round) {
    return round == ROUNDS - 1 ? RT_MAX_CONTROL : round == 0 ? 0 : (size_t)1 << 2 * round;
}

static void send_ready(struct rt_talk *talk, int round) {
    uint8_t *body = rt_talk_body(talk);
    REQUIRE(body);
    for (size_t i = 0; i < bytes_of(round); i++)
        body[i] = (uint8_t)(i * 7 + (size_t)round);
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_READY, .source = 3, .update = 17},
                 bytes_of(round));
}

static void check_ready(const struct rt_talk *talk, int round) {
    REQUIRE(talk->ready);
    CHECK(talk->message.type == RT_MESSAGE_READY && talk->message.source == 3);
    CHECK(talk->message.update == 17 && talk->message.run == 99);
    REQUIRE(talk->body_bytes == bytes_of(round));
    for (size_t i = 0; i < talk->body_bytes; i++)
        if (talk->body[i] != (uint8_t)(i * 7 + (size_t)round)) {
            rt_test_fail(__FILE__, __LINE__, "byte %zu of round %d is wrong", i, round);
            return;
        }
}

static void use_raw(struct rt_endpoint *endpoint, struct rt_link *link, bool first) {
    struct rt_event event;
    uint8_t byte = 42, got = 0;
    struct rt_receive receive = {.channel = RT_CHANNEL_CONTROL, .body = &got, .body_room = 1};
    struct rt_send send = {.channel = RT_CHANNEL_CONTROL, .body = {{&byte, 1}}};
    CHECK(link->user == NULL);
    if (!first)
        rt_link_receive(link, &receive);
    else
        rt_link_send(link, &send);
    REQUIRE(rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 5, &event));
    CHECK(event.kind == (first ? RT_EVENT_SENT : RT_EVENT_RECEIVED));
    CHECK(first || got == 42);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 1);
    rt_link_close(link);
}

static void call_rounds(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_event event;
    talk->run = 99;
    for (int round = 0; round < ROUNDS; round++) {
        send_ready(talk, round);
        take_one(endpoint, talk);
        check_ready(talk, round);
        if (round < ROUNDS - 1) {
            rt_talk_next(talk);
            CHECK(!rt_talk_idle(talk)); /* a receive is posted */
        }
    }
    while (!rt_talk_idle(talk) && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 1, &event))
        rt_talk_event(talk, &event);
    REQUIRE(rt_talk_idle(talk));
    use_raw(endpoint, rt_talk_release(talk), true);
    CHECK(!talk->link && !talk->memory);
}

static void answer_rounds(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_event event;
    for (int round = 0; round < ROUNDS; round++) {
        take_one(endpoint, talk);
        check_ready(talk, round);
        talk->run = talk->message.run;
        send_ready(talk, round);
        if (round < ROUNDS - 1)
            rt_talk_next(talk);
    }
    while (!rt_talk_idle(talk) && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 1, &event))
        rt_talk_event(talk, &event);
    use_raw(endpoint, rt_talk_release(talk), false);
}

TEST(messages_to_and_fro) {
    run_pair(call_rounds, answer_rounds);
}

/* ---- what makes no sense ---- */

static void say_another_run(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    talk->run = 5;
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_GO}, 0);
    take_one(endpoint, talk);
    struct rt_error err;
    CHECK(talk->ready && rt_talk_expect(talk, RT_MESSAGE_READY, "it", &err) == RT_NO_MEMORY);
    CHECK_MSG(strcmp(err.text, "it: that is another run") == 0, "%s", err.text);
}

static void hear_another_run(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    talk->run = 6;
    take_one(endpoint, talk);
    CHECK(talk->dead && !talk->ready && !talk->closed);
    CHECK_MSG(strcmp(talk->error.text, "sent a message (go) of another run") == 0, "%s", talk->error.text);
    talk->run = 0; /* an error needs none */
    rt_talk_refuse(talk, RT_NO_MEMORY, 0, "that is another run");
    drain(endpoint, talk);
    CHECK(talk->closed);
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_GO}, 0); /* goes nowhere */
}

TEST(another_run) {
    run_pair(say_another_run, hear_another_run);
}

static void say_garbage(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_event event;
    struct rt_send send = {.channel = RT_CHANNEL_CONTROL, .head_bytes = 20, .head = "GET / HTTP/1.1"};
    rt_link_send(talk->link, &send);
    while (!talk->closed && rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 5, &event))
        rt_talk_event(talk, &event);
    CHECK(talk->closed && talk->dead);
    CHECK_MSG(strcmp(talk->error.text, "closed the link") == 0, "%s", talk->error.text);
}

static void hear_garbage(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    take_one(endpoint, talk);
    CHECK(talk->dead && !talk->ready);
    CHECK_MSG(strcmp(talk->error.text, "not a RingTMP message (bad magic number)") == 0, "%s",
              talk->error.text);
    rt_talk_next(talk); /* posts nothing: there is no next */
}

TEST(garbage) {
    run_pair(say_garbage, hear_garbage);
}

static void say_too_much(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    rt_endpoint_sleep(endpoint, 1);
    for (int i = 0; i < RT_TALK_SENDS; i++) {
        CHECK(rt_talk_body(talk) && !talk->dead);
        rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_GO}, 0);
    }
    CHECK(!rt_talk_body(talk));
    rt_talk_refuse(talk, RT_FAILED, 0, "unheard"); /* no room: not sent */
    CHECK(!talk->dead);
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_GO}, 0);
    CHECK(talk->dead && !talk->closed);
    CHECK_MSG(strcmp(talk->error.text, "does not read what is sent to it") == 0, "%s", talk->error.text);
    rt_endpoint_sleep(endpoint, 2);
}

static void hear_one(struct rt_endpoint *endpoint, struct rt_talk *talk) {
    struct rt_error err;
    take_one(endpoint, talk);
    CHECK(talk->ready);
    CHECK(rt_talk_expect(talk, RT_MESSAGE_GO, "it", &err) == RT_OK);
    CHECK(rt_talk_expect(talk, RT_MESSAGE_READY, "it", &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "it: sent 'go' where 'ready' was expected") == 0, "%s", err.text);
    /* the link goes while a message waits to be read: both are true */
    drain(endpoint, talk);
    CHECK(talk->ready && talk->dead && talk->closed);
}

TEST(more_than_it_takes) {
    run_pair(say_too_much, hear_one);
}

TEST_MAIN()
