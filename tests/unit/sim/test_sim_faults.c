/*
 * The network in memory when things go wrong: links that end, cuts, kills, deadlocks and limits, at exact
 * times and told in sentences.
 */
/* labels: threads */
#include "sim/network.h"

#include "base/rng.h"
#include "support/memnet.h"
#include "support/test.h"
#include <math.h>

static bool expect_closed(struct rt_endpoint *endpoint, struct rt_link *link, double at, const char *text) {
    struct rt_event event;
    if (!memnet_expect(endpoint, RT_EVENT_CLOSED, &event))
        return false;
    CHECK(event.link == link);
    CHECK_MSG(rt_endpoint_now(endpoint) == at, "at %.9g, not %.9g", rt_endpoint_now(endpoint), at);
    CHECK_MSG(strstr(event.error.text, text), "\"%s\" where \"%s\" was expected", event.error.text, text);
    rt_link_close(link);
    return true;
}

/* 1 closes while a frame to it is leaving, for a second; 0 knows a second and a half later. */
static void leaving_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    struct rt_send sends[2] = {{.channel = 1, .head_bytes = 64}, {.channel = 1, .head_bytes = 64}};
    struct rt_receive *receives = calloc(2, sizeof *receives), own = {.channel = 1};
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link && receives);
    if (i == 0) {
        rt_endpoint_sleep(endpoint, 4);
        rt_link_send(link, &sends[0]);
        rt_link_send(link, &sends[1]);
        rt_endpoint_sleep(endpoint, 4.75);
        rt_link_receive(link, &own); /* for frames that never come */
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
        CHECK(rt_endpoint_now(endpoint) == 5);
        REQUIRE(expect_closed(endpoint, link, 6, "closed the link"));
    } else {
        receives[0].channel = receives[1].channel = 1;
        rt_link_receive(link, &receives[0]);
        rt_link_receive(link, &receives[1]);
        rt_endpoint_sleep(endpoint, 4.5);
        rt_link_close(link);
    }
    free(receives);
}

TEST(a_link_is_closed_while_a_frame_leaves) {
    memnet_run(&(struct rt_memnet_settings){.latency = 1.5, .bandwidth = 64}, 2, leaving_program, NULL);
}

/* 0 is linked with 1 and 2. At time 3 a frame is on its way to each; then the first link is cut. */
static void cut_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_memnet *net = user;
    struct rt_event event;
    struct rt_error err;
    struct rt_send sends[2] = {{.channel = 1, .head_bytes = 1}, {.channel = 1, .head_bytes = 1}};
    struct rt_receive receive = {.channel = 1};
    if (i == 0) {
        struct rt_link *one = memnet_join(endpoint, "mem:1"), *two = memnet_join(endpoint, "mem:2"), *again;
        REQUIRE(one && two);
        rt_endpoint_sleep(endpoint, 3);
        rt_link_send(one, &sends[0]);
        rt_link_send(two, &sends[1]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event) &&
                memnet_expect(endpoint, RT_EVENT_SENT, &event));
        rt_memnet_cut(net, 0, 1);
        CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 4, &again, &err));
        REQUIRE(expect_closed(endpoint, again, 4, "did not answer in time"));
        rt_link_send(one, &sends[0]); /* goes nowhere */
        REQUIRE(expect_closed(endpoint, one, 5, "has been silent for 2 s"));
        rt_link_receive(two, &receive);
        rt_link_send(two, &sends[1]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event) &&
                memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
    } else {
        struct rt_link *link = memnet_admit(endpoint);
        REQUIRE(link);
        rt_link_receive(link, &receive);
        if (i == 1) {
            REQUIRE(expect_closed(endpoint, link, 5, "has been silent"));
            return;
        }
        for (int k = 0; k < 2; k++) {
            REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
            rt_link_receive(link, &receive);
        }
        CHECK(rt_endpoint_now(endpoint) == 5.25);
        rt_link_send(link, &sends[0]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event));
        rt_endpoint_sleep(endpoint, 10);
    }
}

static void run_with_net(const struct rt_memnet_settings *settings, size_t n, rt_memnet_program program) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(settings, n, &net, &err));
    CHECK_OK(rt_memnet_run(net, program, net, 100, &err));
    rt_memnet_destroy(net);
}

TEST(a_cut_silences_one_link) {
    run_with_net(&(struct rt_memnet_settings){.latency = 0.25, .silence_seconds = 2}, 3, cut_program);
}

/* 1 sends a frame to 0 and 2; 2 kills it at time 3, when they have left and not arrived. */
static void kill_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_memnet *net = user;
    struct rt_event event;
    struct rt_error err;
    if (i == 1) {
        struct rt_send sends[2] = {{.channel = 1, .head_bytes = 1}, {.channel = 1, .head_bytes = 1}};
        struct rt_link *zero = memnet_join(endpoint, "mem:0"), *two = memnet_join(endpoint, "mem:2"), *link;
        REQUIRE(zero && two);
        rt_endpoint_sleep(endpoint, 2.75);
        rt_link_send(zero, &sends[0]);
        rt_link_send(two, &sends[1]);
        REQUIRE(memnet_expect(endpoint, RT_EVENT_SENT, &event) &&
                memnet_expect(endpoint, RT_EVENT_SENT, &event));
        for (int k = 0; k < 2; k++) {
            REQUIRE(memnet_expect(endpoint, RT_EVENT_CLOSED, &event));
            CHECK(strstr(event.error.text, "mem:1 was killed") && rt_endpoint_now(endpoint) == 3);
        }
        CHECK(!rt_endpoint_wait(endpoint, INFINITY, &event));
        CHECK(!rt_endpoint_wait(endpoint, 50, &event) && rt_endpoint_now(endpoint) == 50);
        CHECK(rt_endpoint_connect(endpoint, "mem:0", INFINITY, &link, &err) == RT_FAILED);
        return; /* with its links open: the net frees them */
    }
    struct rt_receive receive = {.channel = 1};
    struct rt_link *link = memnet_admit(endpoint), *again;
    REQUIRE(link);
    rt_link_receive(link, &receive);
    if (i == 2) {
        rt_endpoint_sleep(endpoint, 3);
        rt_memnet_kill(net, 1);
    }
    REQUIRE(memnet_expect(endpoint, RT_EVENT_RECEIVED, &event));
    CHECK(rt_endpoint_now(endpoint) == 3.25);
    REQUIRE(expect_closed(endpoint, link, 3.5, "is gone"));
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", 9, &again, &err));
    REQUIRE(expect_closed(endpoint, again, 9, "nothing is listening there"));
}

TEST(a_kill_ends_one_endpoint) {
    run_with_net(&(struct rt_memnet_settings){.latency = 0.5}, 3, kill_program);
}

/* 0 has a frame for which 1 has no room; both wait. */
static void stuck_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct rt_event event;
    struct rt_send send = {.channel = 1, .head_bytes = 1};
    struct rt_receive receive = {.channel = 2};
    unsigned *told = user;
    if (i == 2)
        return;
    struct rt_link *link = i == 0 ? memnet_join(endpoint, "mem:1") : memnet_admit(endpoint);
    REQUIRE(link);
    if (i == 0)
        rt_link_send(link, &send);
    else
        rt_link_receive(link, &receive);
    while (rt_endpoint_wait(endpoint, INFINITY, &event)) {
        CHECK(event.kind == RT_EVENT_CLOSED && strstr(event.error.text, "deadlock"));
        ++*told;
    }
}

TEST(a_dead_lock_is_told) {
    struct rt_error err;
    struct rt_memnet *net;
    unsigned told = 0;
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.latency = 0.25}, 3, &net, &err));
    CHECK(rt_memnet_run(net, stuck_program, &told, INFINITY, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "deadlock at 0.5 s: mem:0 waits (mem:1: 1 unsent, 0 to receive); "
                               "mem:1 waits (mem:0: 0 unsent, 1 to receive); mem:2 has ended") == 0,
              "%s", err.text);
    CHECK(told == 2);
    CHECK(rt_memnet_run(net, stuck_program, &told, INFINITY, &err) == RT_FAILED);
    rt_memnet_destroy(net);
}

static void endless_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    (void)user;
    struct rt_event event;
    while (rt_endpoint_now(endpoint) < 1000)
        if (i)
            rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 1);
        else
            CHECK(!rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 1.5, &event));
}

TEST(virtual_time_has_a_limit) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 2, &net, &err));
    CHECK(rt_memnet_run(net, endless_program, NULL, 20.25, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "virtual time passed 20.25 s: mem:0 waits; mem:1 sleeps"), "%s", err.text);
    CHECK(rt_memnet_now(net) == 20);
    rt_memnet_destroy(net);
}

/* ---- everything at once ---- */

enum { CROWD = 4, STEPS = 400, LINKS = 12 };

struct crowd {
    struct rt_memnet *net;
    uint64_t seed, events[6];
};

/* A link with one send and one receive, in memory that is freed when the link is closed: a sanitizer then
 * reports any later access. */
struct member {
    struct rt_link *link;
    struct rt_send *send;
    struct rt_receive *receive;
};

static void leave_link(struct member *member) {
    if (member->link)
        rt_link_close(member->link);
    free(member->send);
    free(member->receive);
    *member = (struct member){NULL, NULL, NULL};
}

static bool enter_link(struct member *members, struct rt_link *link, unsigned channel) {
    for (struct member *member = members; member < members + LINKS; member++)
        if (!member->link) {
            *member =
                (struct member){link, calloc(1, sizeof *member->send), calloc(1, sizeof *member->receive)};
            if (!member->send || !member->receive)
                exit(1);
            link->user = member;
            member->send->channel = member->receive->channel = channel;
            member->send->head_bytes = 50;
            rt_link_receive(link, member->receive);
            rt_link_send(link, member->send);
            return true;
        }
    rt_link_close(link);
    return false;
}

static void crowd_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct crowd *crowd = user;
    struct member members[LINKS] = {{NULL, NULL, NULL}};
    struct rt_error err;
    struct rt_event event;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t words[4];
        rt_rng_block(crowd->seed, RT_PURPOSE_SHUFFLE, (uint32_t)i, step, 0, words);
        double now = rt_endpoint_now(endpoint);
        if (words[0] % 8 == 0) {
            char address[40];
            struct rt_link *link;
            snprintf(address, sizeof address, "mem:%u", words[1] % CROWD);
            if (rt_endpoint_connect(endpoint, address, now + words[2] % 5, &link, &err) == RT_OK)
                enter_link(members, link, words[3] % RT_CHANNELS);
        } else if (words[0] % 8 == 1) {
            leave_link(&members[words[1] % LINKS]);
        }
        if (i == 0 && step == STEPS / 4)
            rt_memnet_cut(crowd->net, 0, 1);
        if (i == 1 && step == STEPS / 2)
            rt_memnet_kill(crowd->net, 3);
        if (!rt_endpoint_wait(endpoint, now + 0.5, &event))
            continue;
        crowd->events[event.kind]++;
        struct member *member = event.link->user;
        CHECK(event.kind == RT_EVENT_ACCEPTED || (member && member->link == event.link));
        if (event.kind == RT_EVENT_ACCEPTED)
            enter_link(members, event.link, words[3] % RT_CHANNELS);
        else if (event.kind == RT_EVENT_CLOSED)
            leave_link(member);
        else if (event.kind == RT_EVENT_SENT)
            rt_link_send(event.link, event.send);
        else if (event.kind == RT_EVENT_RECEIVED)
            rt_link_receive(event.link, event.receive);
    }
    for (unsigned k = 0; k < LINKS; k += 2)
        leave_link(&members[k]);
    rt_endpoint_destroy(endpoint); /* closes the rest */
    for (unsigned k = 1; k < LINKS; k += 2) {
        members[k].link = NULL;
        leave_link(&members[k]);
    }
}

TEST(links_come_and_go_while_all_else_goes_wrong) {
    struct rt_error err;
    struct crowd crowd = {.seed = 0};
    for (; crowd.seed < 20; crowd.seed++) {
        const struct rt_memnet_settings settings = {
            .seed = crowd.seed, .latency = 0.1, .bandwidth = 100, .random_delay = 1, .silence_seconds = 3};
        CHECK_OK(rt_memnet_create(&settings, CROWD, &crowd.net, &err));
        CHECK_OK(rt_memnet_run(crowd.net, crowd_program, &crowd, INFINITY, &err));
        rt_memnet_destroy(crowd.net);
    }
    for (int kind = RT_EVENT_ACCEPTED; kind <= RT_EVENT_CLOSED; kind++)
        CHECK_MSG(crowd.events[kind] > 500, "%d events of kind %d", (int)crowd.events[kind], kind);
}

TEST_MAIN()
