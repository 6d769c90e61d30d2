/* The master's talks with the nodes of an exchange: metrics, numbers that are saved and set, the end in good
 * order and in bad. Whoever fails, falls silent or talks nonsense: all end soon, and the master says who. */
/* labels: threads */
#include "base/rng.h"
#include "support/exrig.h"
#include "support/test.h"
#include <math.h>

static const struct some_way {
    const char *name, *options;
} some_ways[] = {{"ps-sync", NULL},
                 {"allreduce-ring", NULL},
                 {"allreduce-hd", NULL},
                 {"ps-peer", NULL},
                 {"ps-hier", "{base: async, group: 2}"}};
enum { WAYS = sizeof some_ways / sizeof *some_ways };

/* ---- metrics and numbers ---- */

static void ask_metrics(void *user, struct exrig *rig) {
    struct rt_metrics_row *rows = user;
    if (exrig_train(rig, 5) && exrig_metrics(rig, rows) && exrig_train(rig, 3))
        exrig_metrics(rig, rows);
    exrig_settle(rig);
}

TEST(metrics) {
    for (size_t tcp = 0; tcp < 2; tcp++) {
        struct exrig rig;
        struct rt_error err;
        struct rt_metrics_row rows[EXRIG_NODES] = {{0}};
        CHECK_OK(exrig_open(&(struct exrig_settings){.strategy = "allreduce-rd", .nodes = 4, .tcp = tcp},
                            &rig, &err));
        CHECK_OK(exrig_run(&rig, ask_metrics, rows, &err));
        for (size_t i = 0; i < 4; i++)
            CHECK_MSG(rig.node[i].status == RT_OK, "%s", rig.node[i].error.text);
        for (size_t i = 1; i < 4; i++)
            CHECK(rows[i].node == i && rows[i].samples == 8 && rows[i].updates == 8);
        exrig_close(&rig);
    }
}

struct saved {
    float *floats; /* [1 + state_tensors][params] */
    uint64_t more; /* batches afterwards */
    bool good;
};

static void save(void *user, struct exrig *rig) {
    struct saved *saved = user;
    saved->good = exrig_train(rig, rig->settings.updates);
    /* The master of a replicated way has them all, but so has every other. */
    const uint16_t rank = (uint16_t)(rt_exchange_is_replicated(rig->strategy) ? rig->settings.nodes - 1 : 0);
    for (size_t word = 0; saved->good && word <= rig->optim->type->state_tensors; word++)
        saved->good = exrig_gather(rig, rank, word, saved->floats + word * rig->settings.params);
    if (saved->good)
        exrig_train(rig, saved->more);
    exrig_settle(rig);
}

static void load(void *user, struct exrig *rig) {
    struct saved *saved = user;
    saved->good = true;
    for (uint16_t rank = 0; rank < rig->settings.nodes && saved->good; rank++)
        saved->good = exrig_load(rig, rank, saved->floats, rig->settings.updates);
    rig->given = rig->settings.updates;
    if (saved->good)
        exrig_train(rig, saved->more);
    exrig_settle(rig);
}

/* Saved by some, loaded by others, and on: the same bits as without. */
static void save_and_load(const char *strategy, bool tcp) {
    struct exrig first, second;
    struct rt_error err;
    struct exrig_settings settings = {.strategy = strategy,
                                      .nodes = 3,
                                      .updates = 3,
                                      .params = 3 * RT_STATE_PIECE + 5,
                                      .examples = 4,
                                      .batch = 4,
                                      .shards = 4,
                                      .optimizer = "{adam: {lr: 0.01}}",
                                      .random_delay = 0.001,
                                      .tcp = tcp};
    settings.nodes = 4;
    CHECK_OK(exrig_open(&settings, &first, &err));
    struct saved saved = {.floats = calloc(exrig_floats(&first), sizeof(float)), .more = 2};
    REQUIRE(saved.floats);
    CHECK_OK(exrig_run(&first, save, &saved, &err));
    CHECK_MSG(saved.good && first.node[0].status == RT_OK, "%s", first.node[0].error.text);
    settings.nodes = 2;
    CHECK_OK(exrig_open(&settings, &second, &err));
    CHECK_OK(exrig_run(&second, load, &saved, &err));
    CHECK_MSG(saved.good && second.node[1].status == RT_OK, "%s", second.node[1].error.text);
    CHECK(second.node[1].loaded == 3);
    CHECK(memcmp(first.node[3].params, second.node[1].params, settings.params * sizeof(float)) == 0);
    CHECK(memcmp(first.node[0].params, second.node[0].params, settings.params * sizeof(float)) == 0);
    free(saved.floats);
    exrig_close(&second);
    exrig_close(&first);
}

TEST(numbers_are_saved_and_loaded) {
    save_and_load("allreduce-rd", false);
    save_and_load("ps-sync", false);
}

TEST(numbers_over_tcp) {
    save_and_load("allreduce-hd", true);
}

/* ---- somebody fails ---- */

struct mishap {
    uint16_t who;
    uint64_t batch;
    /* STUCK: takes no events either; SLOW: lets time pass, and takes steps. */
    enum { DIES, CUT_OFF, STUCK, SLOW, NOT_FINITE, STOPPED } kind;
    double seconds; /* STUCK, SLOW: so long */
    double since;
    bool happened;
};

static rt_status happen(void *user, struct exrig *rig, uint16_t rank, uint64_t batch, struct rt_error *err) {
    struct mishap *mishap = user;
    if (rank != mishap->who || batch < mishap->batch || mishap->happened)
        return RT_OK;
    mishap->happened = true;
    mishap->since = rt_endpoint_now(rig->node[rank].endpoint);
    switch (mishap->kind) {
    case DIES:
        rt_memnet_kill(rig->net, rank);
        return RT_OK;
    case CUT_OFF:
        for (size_t i = 0; i < rig->settings.nodes; i++)
            if (i != rank)
                rt_memnet_cut(rig->net, rank, i);
        return RT_OK;
    case STUCK:
        rt_endpoint_sleep(rig->node[rank].endpoint, mishap->since + mishap->seconds);
        return RT_OK;
    case SLOW:
        return rt_engine_wait(rig->node[rank].engine, NULL, NULL, mishap->since + mishap->seconds, err);
    case NOT_FINITE:
        return rt_fail(err, RT_DIVERGED, "the loss is not finite");
    case STOPPED:
        atomic_store(&rig->stop, 1);
        return RT_OK;
    }
    return RT_OK;
}

/* Everybody ends within `seconds` after it, and the master names the one whose fault it is. */
static void check_mishap(const struct exrig *rig, const struct mishap *mishap, double seconds) {
    char text[32];
    const char *name = rt_communicator_name(&(struct rt_communicator){0}, mishap->who, text);
    CHECK_MSG(mishap->happened, "%s: nothing happened to %s", rig->strategy->name, name);
    for (size_t i = 0; i < rig->settings.nodes; i++) {
        const struct exrig_node *node = &rig->node[i];
        if (i == mishap->who && mishap->kind != NOT_FINITE)
            continue;
        CHECK_MSG(node->status != RT_OK, "%s: node %zu did not fail with %s", rig->strategy->name, i, name);
        CHECK_MSG(node->ended < mishap->since + seconds, "%s: node %zu ended %g s after %s (%s)",
                  rig->strategy->name, i, node->ended - mishap->since, name, node->error.text);
        if (i == 0 || mishap->who == 0)
            CHECK_MSG(strstr(node->error.text, name), "%s: node %zu did not name %s: %s", rig->strategy->name,
                      i, name, node->error.text);
    }
}

static void try_mishap(struct some_way strategy, struct mishap mishap, double timeout, double seconds,
                       struct exrig *rig) {
    struct rt_error err;
    const struct exrig_settings settings = {.strategy = strategy.name,
                                            .options = strategy.options,
                                            .nodes = 4,
                                            .updates = 12,
                                            .latency = 0.001,
                                            .random_delay = 0.004,
                                            .seed = mishap.batch + 10u * mishap.who,
                                            .seconds = {0.01, 0.02, 0.01, 0.03},
                                            .timeout = timeout,
                                            .silence = 2,
                                            .reads = happen};
    CHECK_OK(exrig_open(&settings, rig, &err));
    CHECK_OK(exrig_run(rig, NULL, &mishap, &err));
    check_mishap(rig, &mishap, seconds);
}

static void each_mishap(struct mishap mishap, uint16_t first, double timeout, double seconds) {
    struct exrig rig;
    for (size_t w = 0; w < WAYS; w++)
        for (mishap.who = first; mishap.who < 4; mishap.who++)
            for (mishap.batch = 1; mishap.batch <= 10; mishap.batch += 3) {
                try_mishap(some_ways[w], mishap, timeout, seconds, &rig);
                if (mishap.kind != CUT_OFF && mishap.who > 0)
                    CHECK_MSG(rig.node[0].lost == mishap.who, "%s: node %u is to blame, not %u",
                              some_ways[w].name, mishap.who, rig.node[0].lost);
                exrig_close(&rig);
            }
}

TEST(a_node_dies) {
    each_mishap((struct mishap){.kind = DIES}, 0, 0, 6);
}

TEST(a_node_is_cut_off) {
    each_mishap((struct mishap){.kind = CUT_OFF}, 1, 0, 9);
}

/* All others wait for it, or for one who does: the master names the one, not whom it waits for itself. */
TEST(a_node_falls_silent) {
    each_mishap((struct mishap){.kind = STUCK, .seconds = 100}, 1, 3, 10);
}

/* It runs, and nothing comes from it: ten times as long (cluster/liveness.h). */
TEST(a_node_makes_no_progress) {
    each_mishap((struct mishap){.kind = SLOW, .seconds = 100}, 1, 3, 37);
}

#if defined(__SANITIZE_THREAD__) /* one thread runs at a time here */
enum { MISHAPS = 6 };
#else
enum { MISHAPS = 24 };
#endif

/* In a larger group most of those who are waited for are not the one, and some of them were heard of before.
 * Groups that go at their own pace take longer for an update, and the others end theirs before anybody is
 * missed. */
TEST(the_one_in_the_middle) {
    static const struct some_way strategies[] = {
        {"allreduce-ring", NULL}, {"allreduce-hd", NULL},       {"ps-tree", NULL},
        {"ps-hier", NULL},        {"ps-scatter", NULL},         {"ps-ssp", NULL},
        {"ps-async", NULL},       {"ps-hier", "{base: async}"}, {"ps-hier", "{base: ssp, group: 2}"}};
    for (size_t w = 0; w < sizeof strategies / sizeof *strategies; w++)
        for (uint64_t seed = 0; seed < MISHAPS; seed++) {
            struct exrig rig;
            struct rt_error err;
            struct mishap mishap = {.kind = seed % 2 ? SLOW : STUCK,
                                    .seconds = 100,
                                    .who = (uint16_t)(1 + seed % 5),
                                    .batch = 2 + seed % 7};
            const struct exrig_settings settings = {.strategy = strategies[w].name,
                                                    .options = strategies[w].options,
                                                    .nodes = 6 + seed % 2,
                                                    .batch = 14,
                                                    .updates = strategies[w].options ? 20 : 60,
                                                    .seed = seed,
                                                    .latency = 0.001,
                                                    .random_delay = 0.1,
                                                    .timeout = 3,
                                                    .seconds = {0.01, 0.03, 0.02, 0, 0.05, 0.1, 0.01},
                                                    .reads = seed % 3 ? happen : NULL,
                                                    .begins = seed % 3 ? NULL : happen};
            CHECK_OK(exrig_open(&settings, &rig, &err));
            CHECK_OK(exrig_run(&rig, NULL, &mishap, &err));
            check_mishap(&rig, &mishap, mishap.kind == SLOW ? 42 : 12);
            CHECK_MSG(rig.node[0].lost == mishap.who, "%s, seed %d: node %u is to blame, not %u",
                      strategies[w].name, (int)seed, mishap.who, rig.node[0].lost);
            exrig_close(&rig);
        }
}

/* A master that takes long for something, or hangs for a while, blames nobody, and nobody gives it up. */
static void wait_for_master(struct mishap wanted) {
    struct rt_error err;
    for (size_t w = 0; w < WAYS; w++) {
        struct exrig rig;
        struct mishap mishap = wanted;
        const struct exrig_settings settings = {.strategy = some_ways[w].name,
                                                .options = some_ways[w].options,
                                                .nodes = 4,
                                                .updates = 5,
                                                .latency = 0.001,
                                                .timeout = 3,
                                                .reads = happen};
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, NULL, &mishap, &err));
        for (size_t i = 0; i < 4; i++)
            CHECK_MSG(rig.node[i].status == RT_OK, "%s, node %zu: %s", some_ways[w].name, i,
                      rig.node[i].error.text);
        CHECK(mishap.happened && rig.node[0].ended > 40);
        exrig_close(&rig);
    }
}

TEST(a_master_is_waited_for) {
    wait_for_master((struct mishap){.kind = SLOW, .seconds = 40, .batch = 2});
    wait_for_master((struct mishap){.kind = STUCK, .seconds = 40, .batch = 2});
}

TEST(a_loss_is_not_finite) {
    struct exrig rig;
    for (uint16_t who = 1; who < 4; who++) {
        try_mishap(some_ways[1], (struct mishap){.kind = NOT_FINITE, .who = who, .batch = 4}, 0, 6, &rig);
        char text[60];
        snprintf(text, sizeof text, "node %u: the loss is not finite", who);
        CHECK_MSG(strcmp(rig.node[0].error.text, text) == 0, "%s", rig.node[0].error.text);
        CHECK(rig.node[0].status == RT_DIVERGED && rig.node[0].lost == UINT16_MAX); /* nobody's fault */
        exrig_close(&rig);
    }
}

TEST(the_master_is_stopped) {
    struct exrig rig;
    struct rt_error err;
    struct mishap mishap = {.kind = STOPPED, .who = 2, .batch = 3};
    const struct exrig_settings settings = {
        .strategy = "ps-sync", .nodes = 3, .updates = 1000, .reads = happen, .seconds = {0.1, 0.1, 0.1}};
    CHECK_OK(exrig_open(&settings, &rig, &err));
    CHECK_OK(exrig_run(&rig, NULL, &mishap, &err));
    CHECK(rig.node[0].status == RT_INTERRUPTED);
    for (size_t i = 0; i < 3; i++) {
        CHECK(rig.node[i].status != RT_OK && strstr(rig.node[i].error.text, "stopped"));
        CHECK(rig.node[i].ended < mishap.since + 2);
    }
    exrig_close(&rig);
}

/* ---- somebody talks nonsense ---- */

struct nonsense {
    uint64_t seed;
    double spoke; /* when it was done */
};

enum { LENGTH = 64 };

struct dice {
    uint64_t seed;
    uint32_t thrown;
};

static size_t below(struct dice *dice, size_t limit) {
    uint32_t words[4];
    rt_rng_block(dice->seed, RT_PURPOSE_DELAY, 0, dice->thrown++, 0, words);
    return words[0] % limit;
}

/* One frame that could be anything: a head of the right kind, spoilt a little, or plain noise. */
static void make_frame(const struct exrig *rig, struct dice *dice, uint16_t source, struct rt_send *send,
                       float *body) {
    static const uint16_t types[] = {RT_MESSAGE_TICKET, RT_MESSAGE_DONE, RT_MESSAGE_METRICS, RT_MESSAGE_STOP,
                                     RT_MESSAGE_ERROR,  RT_MESSAGE_PART, RT_MESSAGE_LOAD,    RT_MESSAGE_FETCH,
                                     RT_MESSAGE_CHUNK,  RT_MESSAGE_PUSH, RT_MESSAGE_PARAM,   RT_MESSAGE_GO};
    struct rt_message message = {.type = types[below(dice, 12)],
                                 .source = source,
                                 .run = rig->run,
                                 .micro = below(dice, 4),
                                 .update = below(dice, 30),
                                 .epoch = (uint32_t)below(dice, 30)};
    size_t bytes = 4 * below(dice, LENGTH);
    const bool tensors = message.type == RT_MESSAGE_PART || message.type == RT_MESSAGE_CHUNK ||
                         message.type == RT_MESSAGE_PUSH || message.type == RT_MESSAGE_PARAM;
    if (tensors) {
        message.tensors = 1;
        message.tensor[0] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)(bytes / 4)}};
    } else if (message.type != RT_MESSAGE_METRICS && message.type != RT_MESSAGE_ERROR) {
        bytes = 0;
    }
    *send = (struct rt_send){.channel = (unsigned)below(dice, RT_CHANNELS),
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{body, bytes}}};
    rt_message_encode(&message, send->head);
    if (below(dice, 4) == 0)
        send->head[below(dice, RT_MESSAGE_HEAD)] ^= (uint8_t)(1 << below(dice, 8));
    if (below(dice, 8) == 0)
        send->head_bytes = below(dice, RT_HEAD_ROOM);
}

static void talk_nonsense(void *user, struct exrig *rig, struct rt_endpoint *endpoint,
                          struct rt_link **links) {
    struct nonsense *nonsense = user;
    struct dice dice = {.seed = nonsense->seed};
    static float body[LENGTH];
    struct rt_send sends[4 * EXRIG_NODES];
    size_t count = 0, open = 0;
    for (size_t peer = 0; peer < rig->settings.nodes; peer++) {
        open += links[peer] != NULL;
        for (size_t i = 0; i < 4 && links[peer]; i++, count++) {
            make_frame(rig, &dice, (uint16_t)rig->settings.other, &sends[count], body);
            rt_link_send(links[peer], &sends[count]);
        }
    }
    nonsense->spoke = rt_endpoint_now(endpoint);
    struct rt_event event;
    while (open > 0 && rt_endpoint_wait(endpoint, nonsense->spoke + 30, &event))
        open -= event.kind == RT_EVENT_CLOSED;
    for (size_t peer = 0; peer < rig->settings.nodes; peer++)
        rt_link_close(links[peer]);
}

/* Whatever one of them says, the others end, with a sentence; where it is the master, they name it. */
static void hear_nonsense(size_t who, uint64_t seeds) {
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct exrig rig;
        struct rt_error err;
        struct nonsense nonsense = {.seed = seed};
        const struct exrig_settings settings = {.strategy = some_ways[seed % WAYS].name,
                                                .options = some_ways[seed % WAYS].options,
                                                .nodes = 4,
                                                .updates = 10,
                                                .latency = 0.001,
                                                .timeout = 3,
                                                .other = who,
                                                .behave = talk_nonsense};
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, NULL, &nonsense, &err));
        for (size_t i = 0; i < 4; i++) {
            const struct exrig_node *node = &rig.node[i];
            if (i == who)
                continue;
            /* a master's STOP may be the only thing that was heard */
            const bool stopped = who == 0 && node->status == RT_OK;
            CHECK_MSG(stopped || node->status != RT_OK, "seed %llu: node %zu believed it",
                      (unsigned long long)seed, i);
            CHECK_MSG(node->ended < nonsense.spoke + 40, "seed %llu: node %zu took %g s",
                      (unsigned long long)seed, i, node->ended);
        }
        char text[32];
        const struct exrig_node *master = &rig.node[0];
        const char *name = rt_communicator_name(&(struct rt_communicator){0}, (uint16_t)who, text);
        if (who > 0)
            CHECK_MSG(strstr(master->error.text, name) || master->status == RT_OK, "seed %llu: %s",
                      (unsigned long long)seed, master->error.text);
        exrig_close(&rig);
    }
}

TEST(a_node_talks_nonsense) {
    hear_nonsense(2, 150);
}

TEST(the_master_talks_nonsense) {
    hear_nonsense(0, 150);
}

/* ---- one wrong thing at a time ---- */

struct wrong {
    struct rt_message message;
    unsigned channel, times;
    size_t floats; /* of its body */
    const char *answer;
};

static void say_wrong_thing(void *user, struct exrig *rig, struct rt_endpoint *endpoint,
                            struct rt_link **links) {
    const struct wrong *wrong = user;
    static float body[LENGTH];
    struct rt_send sends[RT_TICKETS_AHEAD + 2];
    struct rt_link *link = links[1 - rig->settings.other];
    for (size_t i = 0; i < wrong->times; i++) {
        struct rt_message message = wrong->message;
        message.run = message.run ? message.run : rig->run;
        message.micro += i * (message.type == RT_MESSAGE_TICKET);
        if (wrong->floats) {
            message.tensors = 1;
            message.tensor[0] = (struct rt_message_tensor){
                .dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)wrong->floats}};
        }
        sends[i] = (struct rt_send){.channel = wrong->channel,
                                    .head_bytes = RT_MESSAGE_HEAD,
                                    .body = {{body, wrong->floats * sizeof *body}}};
        rt_message_encode(&message, sends[i].head);
        rt_link_send(link, &sends[i]);
    }
    struct rt_event event;
    while (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 30, &event) &&
           event.kind != RT_EVENT_CLOSED)
        ;
    rt_link_close(link);
}

static void check_answers(size_t who, const struct wrong *wrong, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct exrig rig;
        struct rt_error err;
        CHECK_OK(exrig_open(&(struct exrig_settings){.strategy = "ps-sync",
                                                     .nodes = 2,
                                                     .updates = 10,
                                                     .timeout = 100,
                                                     .other = who,
                                                     .behave = say_wrong_thing},
                            &rig, &err));
        CHECK_OK(exrig_run(&rig, NULL, (void *)(uintptr_t)&wrong[i], &err));
        const struct exrig_node *node = &rig.node[1 - who];
        char text[32];
        const char *name = rt_communicator_name(&(struct rt_communicator){0}, (uint16_t)who, text);
        CHECK_MSG(node->status == RT_FAILED && strncmp(node->error.text, name, strlen(name)) == 0 &&
                      strstr(node->error.text, wrong[i].answer),
                  "'%s' instead of '%s'", node->error.text, wrong[i].answer);
        CHECK(node->lost == who);
        exrig_close(&rig);
    }
}

TEST(wrong_things_that_a_node_says) {
    static const struct wrong wrong[] = {
        {{.type = RT_MESSAGE_DONE, .source = 1, .micro = 99}, 0, 1, 0, "batch 99, which it was not given"},
        {{.type = RT_MESSAGE_DONE, .source = 1, .micro = 2}, 0, 1, 0, "batch 2, which it was not given"},
        {{.type = RT_MESSAGE_DONE, .source = 1, .batch = 1, .rows = 3, .correct = 4},
         0,
         1,
         0,
         "reported 4 correct predictions of 3 examples"},
        {{.type = RT_MESSAGE_DONE, .source = 1, .batch = 1, .loss = (double)INFINITY},
         0,
         1,
         0,
         "non-finite loss for batch 1"},
        {{.type = RT_MESSAGE_DONE, .source = 2, .micro = 1}, 0, 1, 0, "it claims to be node 2"},
        {{.type = RT_MESSAGE_DONE, .source = 1, .micro = 1, .run = 5}, 0, 1, 0, "of another run"},
        {{.type = RT_MESSAGE_METRICS, .source = 1}, 0, 1, 0, "unexpected metrics message"},
        {{.type = RT_MESSAGE_STOP, .source = 1}, 0, 1, 0, "unexpected stop message"},
        {{.type = RT_MESSAGE_TICKET, .source = 1, .micro = 1}, 0, 1, 0, "unexpected ticket message"},
        {{.type = RT_MESSAGE_ERROR, .source = 1}, 0, 1, 0, "the error is shorter"},
    };
    check_answers(1, wrong, sizeof wrong / sizeof *wrong);
}

TEST(wrong_things_that_the_master_says) {
    static const struct wrong wrong[] = {
        {{.type = RT_MESSAGE_TICKET, .micro = 0}, 0, 1, 0, "batch 0 came behind one for batch 0"},
        {{.type = RT_MESSAGE_TICKET, .micro = 1}, 0, RT_TICKETS_AHEAD + 2, 0, "came when none could be held"},
        {{.type = RT_MESSAGE_DONE, .micro = 1}, 0, 1, 0, "unexpected done message"},
        {{.type = RT_MESSAGE_ERROR}, 0, 1, 0, "the error is shorter"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .tensor_index = 1, .floats = 1},
         RT_CHANNEL_BULK,
         1,
         0,
         "names state tensor 1; there are"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .floats = 25},
         RT_CHANNEL_BULK,
         1,
         0,
         "names 25 floats from 0 on"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .first = 20, .floats = 5},
         RT_CHANNEL_BULK,
         1,
         0,
         "names 5 floats from 20"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .first = UINT64_MAX, .floats = 5},
         RT_CHANNEL_BULK,
         1,
         0,
         "names 5 floats"},
        {{.type = RT_MESSAGE_FETCH, .target = 1}, RT_CHANNEL_BULK, 1, 0, "names 0 floats from 0"},
        {{.type = RT_MESSAGE_PART, .target = 1, .first = 20},
         RT_CHANNEL_BULK,
         1,
         5,
         "names 5 floats from 20"},
        {{.type = RT_MESSAGE_PART, .target = 1, .tensor_index = 3},
         RT_CHANNEL_BULK,
         1,
         5,
         "names state tensor 3"},
        {{.type = RT_MESSAGE_PART, .target = 1}, RT_CHANNEL_BULK, 1, 0, "wrong shape"},
        {{.type = RT_MESSAGE_PART, .target = 2}, RT_CHANNEL_BULK, 1, 5, "for node 2 came to node 1"},
        {{.type = RT_MESSAGE_LOAD, .run = 9}, RT_CHANNEL_BULK, 1, 0, "of another run"},
        {{.type = RT_MESSAGE_CHUNK}, RT_CHANNEL_BULK, 1, 5, "unexpected chunk message"},
        {{.type = RT_MESSAGE_EXAMPLES}, RT_CHANNEL_BULK, 1, 5, "unexpected examples"},
    };
    check_answers(0, wrong, sizeof wrong / sizeof *wrong);
}

TEST_MAIN()
