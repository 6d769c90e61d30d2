/*
 * Lists of faults: drawn from a seed, printed, and had. A crowd that connects, sends and closes at random
 * goes through many of them: no frame is lost, doubled or out of order while its link lives, every program
 * can end, and the same seed gives the same events at the same times.
 */
/* labels: threads */
#include "sim/fault.h"

#include "base/rng.h"
#include "support/memnet.h"
#include "support/test.h"
#include <math.h>

/* ---- drawing and printing ---- */

enum { MANY = 400 };

static const struct rt_sim_fault_terms terms = {
    .hosts = 5, .spared = 1, .from = 2, .until = 30, .longest = 8};

TEST(faults_are_a_function_of_their_seed) {
    static struct rt_sim_fault one[MANY], again[MANY], other[MANY];
    rt_sim_fault_draw(7, &terms, one, MANY);
    rt_sim_fault_draw(7, &terms, again, MANY);
    rt_sim_fault_draw(8, &terms, other, MANY);
    unsigned same = 0, kinds[RT_SIM_FAULTS] = {0}, together = 0, good = 0;
    for (size_t i = 0; i < MANY; i++) {
        const struct rt_sim_fault *fault = &one[i];
        CHECK(fault->at == again[i].at && fault->kind == again[i].kind && fault->who == again[i].who &&
              fault->other == again[i].other && fault->seconds == again[i].seconds);
        same += fault->at == other[i].at && fault->who == other[i].who;
        const bool cut = fault->kind == RT_SIM_CUT || fault->kind == RT_SIM_CUT_ONE_WAY;
        CHECK(fault->at >= 2 && fault->at <= 30 && fault->who < 5 && fault->other < 5);
        CHECK(cut ? fault->who != fault->other : fault->who >= 1);
        CHECK(fault->seconds <= 8 && (fault->seconds >= 0.05 || fault->seconds == 0));
        CHECK(fault->seconds > 0 || cut || fault->kind == RT_SIM_KILL || fault->kind == RT_SIM_UNPLUG);
        kinds[fault->kind]++;
        together += i > 0 && fault->at == one[i - 1].at;
        CHECK(i == 0 || fault->at >= one[i - 1].at);
        good += fault->seconds == 0;
    }
    CHECK_MSG(same < 5, "%u", same);
    CHECK_MSG(together > MANY / 8 && together < MANY / 2, "%u", together);
    CHECK(good > 10);
    for (int kind = 0; kind < RT_SIM_FAULTS; kind++)
        CHECK_MSG(kinds[kind] > 20, "%u of kind %d", kinds[kind], kind);
}

TEST(only_what_is_wanted_is_drawn) {
    struct rt_sim_fault faults[MANY];
    struct rt_sim_fault_terms few = terms;
    few.kinds = 1u << RT_SIM_PAUSE | 1u << RT_SIM_UNPLUG;
    few.hosts = 2;
    rt_sim_fault_draw(1, &few, faults, MANY);
    for (size_t i = 0; i < MANY; i++)
        CHECK((faults[i].kind == RT_SIM_PAUSE || faults[i].kind == RT_SIM_UNPLUG) && faults[i].who == 1);
}

TEST(each_is_one_line) {
    static const struct {
        struct rt_sim_fault fault;
        const char *line;
    } cases[] = {
        {{3.25, RT_SIM_KILL, 2, 0, 0}, "at 3.25 s mem:2 is killed"},
        {{0, RT_SIM_RESTART, 1, 0, 1.5}, "at 0 s mem:1 is killed and starts again after 1.5 s"},
        {{12.345, RT_SIM_PAUSE, 1, 0, 0.05}, "at 12.345 s mem:1 is stopped for 0.05 s"},
        {{1, RT_SIM_HANG, 3, 0, 61}, "at 1 s mem:3 hangs for 61 s"},
        {{1, RT_SIM_CUT_ONE_WAY, 3, 0, 2}, "at 1 s nothing passes from mem:3 to mem:0 for 2 s"},
        {{1, RT_SIM_CUT, 3, 4, 0}, "at 1 s nothing passes between mem:3 and mem:4 for good"},
        {{1, RT_SIM_UNPLUG, 3, 4, 2}, "at 1 s mem:3 is unplugged for 2 s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[RT_SIM_FAULT_ROOM];
        rt_sim_fault_print(&cases[i].fault, text);
        CHECK_MSG(strcmp(text, cases[i].line) == 0, "%s", text);
    }
}

TEST(faults_of_others_are_refused) {
    struct rt_error err;
    struct rt_memnet *net;
    const struct rt_sim_fault bad[] = {{1, RT_SIM_KILL, 2, 0, 0}, {1, RT_SIM_CUT, 0, 2, 0}};
    CHECK_OK(rt_memnet_create(&(struct rt_memnet_settings){.seed = 1}, 2, &net, &err));
    for (size_t i = 0; i < 2; i++)
        CHECK(rt_memnet_schedule(net, &bad[i], 1, &err) == RT_BAD_INPUT);
    CHECK(rt_memnet_restart(net, 2, 1, &err) == RT_BAD_INPUT);
    rt_memnet_destroy(net);
}

/* ---- a crowd ---- */

enum { CROWD = 5, LINKS = 8, STEPS = 120, FAULTS = 12 };

struct crowd {
    uint64_t seed, hash;
    unsigned programs, events[8];
};

/* A link of a program: frames with their numbers go both ways on one channel. */
struct member {
    struct rt_link *link;
    struct rt_send send;
    struct rt_receive receive;
    uint32_t sent, got;
};

static void crowd_mix(struct crowd *crowd, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        crowd->hash = (crowd->hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void member_leave(struct member *member) {
    rt_link_close(member->link);
    member->link = NULL;
}

static void member_send(struct member *member) {
    memcpy(member->send.head, &member->sent, sizeof member->sent);
    member->sent++;
    rt_link_send(member->link, &member->send);
}

static void member_enter(struct member *members, struct rt_link *link) {
    for (struct member *member = members; member < members + LINKS; member++)
        if (!member->link) {
            *member = (struct member){.link = link,
                                      .send = {.channel = 2, .head_bytes = sizeof member->sent},
                                      .receive = {.channel = 2}};
            link->user = member;
            rt_link_receive(link, &member->receive);
            member_send(member);
            return;
        }
    rt_link_close(link);
}

static void crowd_take(struct crowd *crowd, struct member *members, const struct rt_event *event) {
    struct member *member = event->link->user;
    crowd->events[event->kind]++;
    if (event->kind == RT_EVENT_ACCEPTED) {
        member_enter(members, event->link);
    } else if (event->kind == RT_EVENT_CLOSED) {
        crowd_mix(crowd, event->error.text, strlen(event->error.text));
        member_leave(member);
    } else if (event->kind == RT_EVENT_SENT) {
        member_send(member);
    } else if (event->kind == RT_EVENT_RECEIVED) {
        uint32_t number;
        memcpy(&number, member->receive.head, sizeof number);
        CHECK_MSG(number == member->got, "frame %u where %u was next", number, member->got);
        member->got++;
        rt_link_receive(member->link, &member->receive);
    }
}

static void crowd_program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct crowd *crowd = user;
    struct member members[LINKS];
    struct rt_error err;
    struct rt_event event;
    memset(members, 0, sizeof members);
    crowd->programs++;
    if (rt_endpoint_listen(endpoint, "mem:*", &err) != RT_OK)
        return; /* killed before it began */
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t words[4];
        rt_rng_block(crowd->seed, RT_PURPOSE_SHUFFLE, (uint32_t)i, step, 0, words);
        const double now = rt_endpoint_now(endpoint);
        crowd_mix(crowd, &now, sizeof now);
        crowd_mix(crowd, &i, sizeof i);
        if (words[0] % 8 == 0) {
            char address[40];
            struct rt_link *link;
            snprintf(address, sizeof address, "mem:%u", words[1] % CROWD);
            if (rt_endpoint_connect(endpoint, address, now + words[2] % 9, &link, &err) == RT_OK)
                member_enter(members, link);
        } else if (words[0] % 32 == 1 && members[words[1] % LINKS].link) {
            member_leave(&members[words[1] % LINKS]);
        }
        for (unsigned k = 0; k < 30 && rt_endpoint_wait(endpoint, now + 0.25, &event); k++)
            crowd_take(crowd, members, &event);
    }
    rt_endpoint_destroy(endpoint);
}

static uint64_t crowd_hash(uint64_t seed, struct crowd *crowd) {
    static const struct rt_sim_fault_terms bad = {.hosts = CROWD, .from = 0, .until = 30, .longest = 8};
    struct rt_sim_fault faults[FAULTS];
    struct rt_memnet *net;
    struct rt_error err = {.text = ""};
    const double least = seed % 2 ? 1 : 0; /* where it is 0 the bound does not adapt */
    const struct rt_memnet_settings settings = {
        .seed = seed, .latency = 0.02, .bandwidth = 2000, .random_delay = 0.05, .silence_least = least};
    const int before = rt_test_failures;
    crowd->seed = seed;
    crowd->hash = 0;
    rt_sim_fault_draw(seed, &bad, faults, FAULTS);
    if (rt_memnet_create(&settings, CROWD, &net, &err) != RT_OK ||
        rt_memnet_schedule(net, faults, FAULTS, &err) != RT_OK ||
        rt_memnet_run(net, crowd_program, crowd, 1000, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    rt_memnet_destroy(net);
    for (size_t i = 0; i < FAULTS && rt_test_failures > before; i++) {
        char text[RT_SIM_FAULT_ROOM];
        rt_sim_fault_print(&faults[i], text);
        fprintf(stderr, "  seed %lu: %s\n", (unsigned long)seed, text);
    }
    return crowd->hash;
}

TEST(a_crowd_goes_through_many_faults_and_repeats_them) {
    enum { SEEDS = 30 };
    struct crowd crowd = {.seed = 0};
    uint64_t before = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const uint64_t hash = crowd_hash(seed, &crowd);
        CHECK_MSG(crowd_hash(seed, &crowd) == hash, "seed %lu gives two traces", (unsigned long)seed);
        CHECK(hash != before);
        before = hash;
    }
    CHECK_MSG(crowd.programs > 2 * SEEDS * (CROWD + 1), "%u programs", crowd.programs);
    for (int kind = RT_EVENT_ACCEPTED; kind <= RT_EVENT_CLOSED; kind++)
        CHECK_MSG(crowd.events[kind] > 1000, "%u events of kind %d", crowd.events[kind], kind);
}

TEST_MAIN()
