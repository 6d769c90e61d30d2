/* The server of an asynchronous exchange: what it makes of gradients, in which order, and whom it refuses. */
/* labels: threads */
#include "support/servelog.h"
#include "support/test.h"
#include <math.h>

static struct servelog seen;
static struct exrig rig;

static void check_serial(uint64_t updates) {
    float *params = calloc(exrig_floats(&rig), sizeof *params);
    const size_t n = rig.settings.params;
    for (size_t i = n; i < exrig_floats(&rig); i++)
        params[i] = rig.optim->type->state_start;
    exrig_serial(&rig, 1, updates, 1, params, params + n);
    for (size_t s = 0; s < rig.roles.servers; s++) {
        size_t first, end;
        rt_collective_part(n, rig.roles.servers, s, &first, &end);
        CHECK(memcmp(params + first, rig.node[s].shelf + first, (end - first) * sizeof *params) == 0);
    }
    CHECK(memcmp(params, rig.node[rig.worker[0]].params, n * sizeof *params) == 0);
    free(params);
}

TEST(one_worker_is_one_device) {
    static const char *const options[] = {"{dedicated: false}", "{dedicated: true}",
                                          "{dedicated: true, wfbp: off}", "{damp: 2, dc: 0.5}"};
    for (size_t i = 0; i < 4; i++)
        for (int momentum = 0; momentum < 2; momentum++) {
            const struct exrig_settings settings = {
                .strategy = "ps-async",
                .options = options[i],
                .optimizer = momentum ? "{adam: {lr: 0.05, weight_decay: 0.01}}" : NULL,
                .nodes = i == 0 || i == 3 ? 1 : 2,
                .updates = 25,
                .uneven = true,
                .clip_norm = 0.8};
            if (!servelog_run(&settings, &seen, &rig))
                return;
            CHECK(seen.updates == 25 && rig.node[0].counts.staleness[0] == 25);
            check_serial(25);
            exrig_close(&rig);
        }
}

TEST(one_worker_and_several_servers_are_one_device) {
    for (size_t k = 1; k <= 3; k++) {
        char options[80];
        snprintf(options, sizeof options, "{base: async, k: %zu, dedicated: true}", k);
        const struct exrig_settings settings = {.strategy = "ps-shard",
                                                .options = options,
                                                .optimizer = "{momentum: {lr: 0.05}}",
                                                .nodes = k + 1,
                                                .params = 101,
                                                .updates = 20,
                                                .latency = 0.01};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        check_serial(20);
        exrig_close(&rig);
    }
}

/* Two workers in alternation: every update but the first is one version late. */
TEST(two_workers_golden_trace) {
    const struct exrig_settings settings = {.strategy = "ps-async",
                                            .options = "{dedicated: true}",
                                            .nodes = 3,
                                            .updates = 12,
                                            .latency = 0.001,
                                            .apply_seconds = 0.01,
                                            .seconds = {0, 1, 1}};
    static const struct log_push golden[4] = {{0, 1, 0, 12}, {1, 2, 0, 12}, {0, 3, 1, 12}, {1, 4, 2, 12}};
    if (!servelog_run(&settings, &seen, &rig))
        return;
    CHECK(seen.updates == 12);
    for (size_t v = 0; v < seen.updates; v++) {
        const struct log_push *push = &seen.update[v].push[0];
        if (v < 4)
            CHECK(push->worker == golden[v].worker && push->batch == golden[v].batch &&
                  push->base == golden[v].base && push->rows == golden[v].rows);
        CHECK_MSG(v - push->base == (v > 0), "update %zu is of version %d", v + 1, (int)push->base);
    }
    CHECK(rig.node[0].counts.staleness[0] == 1 && rig.node[0].counts.staleness[1] == 11);
    CHECK(rig.node[0].counts.staleness_max == 1 && rig.node[0].counts.staleness_sum == 11);
    servelog_check(&rig, &seen);
    exrig_close(&rig);
}

/* Every update is just the gradient of its batch with the parameters of its base: no worker ever reads a mix
 * of two versions, whatever the delays and wherever the server is. */
TEST(updates_are_of_whole_versions) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const struct exrig_settings settings = {.strategy = "ps-async",
                                                .options = seed % 2 ? "{dedicated: true}" : "{wfbp: on}",
                                                .nodes = 5,
                                                .updates = 60,
                                                .params = 300,
                                                .spans = 6,
                                                .seed = seed,
                                                .latency = 0.01,
                                                .bandwidth = seed % 3 ? 0 : 1e4,
                                                .random_delay = 0.3,
                                                .seconds = {0.2, 0.1, 0.2, 0.3, 0.15}};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        CHECK(seen.updates == 60 && rig.node[0].counts.applied == 60);
        servelog_check(&rig, &seen);
        exrig_close(&rig);
    }
}

static uint64_t max_staleness(const char *options, uint64_t seed, uint64_t *slow) {
    struct exrig_settings settings = {.strategy = "ps-async",
                                      .options = options,
                                      .nodes = 9,
                                      .updates = 120,
                                      .seed = seed,
                                      .random_delay = 0.2,
                                      .apply_seconds = 0.3,
                                      .seconds = {0, 5, 1, 1, 1, 1, 1, 1, 1}};
    if (!servelog_run(&settings, &seen, &rig))
        return 0;
    *slow = 0;
    for (size_t v = 0; v < seen.updates; v++)
        if (seen.update[v].push[0].worker == 0 && v - seen.update[v].push[0].base > *slow)
            *slow = v - seen.update[v].push[0].base;
    servelog_check(&rig, &seen);
    const uint64_t most = rig.node[0].counts.staleness_max;
    exrig_close(&rig);
    return most;
}

TEST(the_stalest_first) {
    uint64_t arrival = 0, stale = 0, slow;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const uint64_t a = max_staleness("{dedicated: true, prio: arrival}", seed, &slow);
        const uint64_t s = max_staleness("{dedicated: true, prio: stale}", seed, &slow);
        CHECK_MSG(s < a, "seed %d: at most %d versions late, and %d as they come", (int)seed, (int)s, (int)a);
        arrival += a;
        stale += s;
    }
    printf("largest staleness over 5 seeds: %.1f as they come, %.1f stalest first\n", (double)arrival / 5,
           (double)stale / 5);
}

/* With two workers in alternation the second update is one version late. */
TEST(late_gradients_are_damped_and_compensated) {
    for (int dc = 0; dc < 2; dc++) {
        const struct exrig_settings settings = {.strategy = "ps-async",
                                                .options = dc ? "{dedicated: true, dc: 0.7}"
                                                              : "{dedicated: true, damp: 2}",
                                                .nodes = 3,
                                                .updates = 2,
                                                .latency = 0.001,
                                                .apply_seconds = 0.01,
                                                .seconds = {0, 1, 1}};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        float w0[24] = {0}, g1[24], g2[24];
        exrig_gradient(&rig, 1, 0, 12, w0, g1);
        exrig_gradient(&rig, 2, 0, 12, w0, g2);
        for (size_t j = 0; j < 24; j++) {
            const float w1 = w0[j] - 0.1f * g1[j];
            const float shaped = dc ? g2[j] + 0.7f * g2[j] * g2[j] * (w1 - w0[j]) : g2[j];
            const float w2 = w1 - (dc ? 0.1f : (float)(0.1 / 4)) * shaped;
            CHECK_MSG(w2 == rig.node[0].shelf[j], "%zu: %.9g, not %.9g", j, (double)rig.node[0].shelf[j],
                      (double)w2);
        }
        exrig_close(&rig);
    }
}

/* ---- workers that make no sense ------------------------------------------------------------------------ */

/* A worker of three spans that is given parameters, and then says one wrong thing. */
struct wrong {
    const char *what, *sentence;
    struct rt_message message[4];
    size_t floats[4];
    bool asks; /* has asked for parameters, and got them */
};

#define TENSOR(n) .tensors = 1, .tensor = {{RT_DTYPE_F32, 1, {n}}}
static struct wrong wrongs[] = {
    {"too early",
     "pushed a gradient before it was given parameters",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12},
     false},
    {"another span",
     "sent the gradient of span 1 instead of span 2",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 1, TENSOR(8)}},
     {8},
     true},
    {"twice",
     "sent the gradient of span 2 instead of span 1",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)},
      {.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(8)}},
     {12, 8},
     true},
    {"too short",
     "of span 2 that does not have 12 floats",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(11)}},
     {11},
     true},
    {"too long", "", {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(13)}}, {13}, true},
    {"a later version",
     "with version 7 of the parameters; it was given version 0",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .update = 7, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"no batch",
     "pushed a gradient for unknown batch 0",
     {{.type = RT_MESSAGE_PUSH, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"a batch that there will never be",
     "pushed a gradient for unknown batch 1001",
     {{.type = RT_MESSAGE_PUSH, .micro = 1001, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"an earlier batch",
     "of batch 1 after that of batch 2",
     {{.type = RT_MESSAGE_PUSH, .micro = 2, .epoch = 2, TENSOR(12)},
      {.type = RT_MESSAGE_PUSH, .micro = 2, .epoch = 1, TENSOR(8)},
      {.type = RT_MESSAGE_PUSH, .flags = RT_FLAG_LAST, .micro = 2, .rows = 12, TENSOR(4)},
      {.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12, 8, 4, 12},
     true},
    {"examples too early",
     "claims 12 examples; the maximum is 0",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .rows = 12, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"too many examples",
     "claims 13 examples; the maximum is 12",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)},
      {.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 1, TENSOR(8)},
      {.type = RT_MESSAGE_PUSH, .flags = RT_FLAG_LAST, .micro = 1, .rows = 13, TENSOR(4)}},
     {12, 8, 4},
     true},
    {"another run",
     "of another run or node",
     {{.type = RT_MESSAGE_PUSH, .run = 1, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"another node",
     "of another run or node",
     {{.type = RT_MESSAGE_PUSH, .source = 1, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"an early end",
     "sent message 1 of the 3 of a push, marked as the last",
     {{.type = RT_MESSAGE_PUSH, .flags = RT_FLAG_LAST, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"a mixture",
     "do not belong together",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)}, {.type = RT_MESSAGE_PULL}},
     {12},
     true},
    {"two batches",
     "do not belong together",
     {{.type = RT_MESSAGE_PUSH, .micro = 1, .epoch = 2, TENSOR(12)},
      {.type = RT_MESSAGE_PUSH, .micro = 2, .epoch = 1, TENSOR(8)}},
     {12, 8},
     true},
    {"a wrong count",
     "claims to have pushed 3 gradients; 0 have come",
     {{.type = RT_MESSAGE_PULL, .update = 3}},
     {0},
     true},
    {"parameters",
     "sent a param message where a gradient was expected",
     {{.type = RT_MESSAGE_PARAM, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"noise", "not a RingTMP message", {{.type = 0}}, {0}, true},
};

static void send_and_wait(struct rt_endpoint *endpoint, struct rt_link *link, struct rt_message *message,
                          const float *floats, size_t count, struct rt_send *send) {
    static const uint8_t noise[RT_MESSAGE_HEAD] = "once upon a time";
    struct rt_event event;
    message->run = message->run ? message->run : rig.run;
    message->source = message->source ? message->source : 2;
    *send = (struct rt_send){.channel = RT_CHANNEL_SECOND, .head_bytes = RT_MESSAGE_HEAD};
    if (message->type)
        rt_message_encode(message, send->head);
    else
        memcpy(send->head, noise, sizeof noise);
    send->body[0] = (struct rt_piece){floats, count * sizeof(float)};
    rt_link_send(link, send);
    while (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 5, &event) &&
           (event.kind == RT_EVENT_RECEIVED || event.kind == RT_EVENT_ACCEPTED))
        ;
}

static void misbehave(void *user, struct exrig *r, struct rt_endpoint *endpoint, struct rt_link **links) {
    struct wrong *wrong = user;
    float floats[24] = {0};
    struct rt_send sends[7];
    struct rt_receive receives[3];
    struct rt_event event;
    (void)r;
    for (size_t i = 0; i < 3; i++) {
        receives[i] =
            (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = floats, .body_room = sizeof floats};
        rt_link_receive(links[0], &receives[i]);
    }
    for (size_t i = 0; wrong->asks && i < 3; i++) {
        struct rt_message pull = {.type = RT_MESSAGE_PULL, .flags = i == 2 ? RT_FLAG_LAST : 0};
        send_and_wait(endpoint, links[0], &pull, NULL, 0, &sends[i]);
    }
    while (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 1, &event))
        ;
    for (size_t i = 0; i < 4 && (wrong->message[i].type || i == 0); i++)
        send_and_wait(endpoint, links[0], &wrong->message[i], floats, wrong->floats[i], &sends[3 + i]);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 5);
    for (size_t i = 0; i < EXRIG_NODES; i++)
        rt_link_close(links[i]);
}

static void train(void *user, struct exrig *r) {
    (void)user;
    exrig_train(r, 500);
}

/* A worker may have newer parameters already when its gradient, made with older ones, is applied. */
TEST(compensation_knows_what_a_gradient_was_made_with) {
    static const char *const strategies[][2] = {{"ps-async", "{dc: 0.7, dedicated: true}"},
                                                {"ps-vap", "{dc: 0.7}"},
                                                {"ps-ssp", "{s: 1, step: clock, dc: 0.7}"},
                                                {"ps-ssp", "{s: 3, step: clock, dc: 0.7, dedicated: true}"}};
    for (uint64_t seed = 0; seed < 8; seed++) {
        const struct exrig_settings settings = {.strategy = strategies[seed % 4][0],
                                                .options = strategies[seed % 4][1],
                                                .nodes = 4,
                                                .updates = 60,
                                                .seed = seed,
                                                .random_delay = 0.1,
                                                .seconds = {0.1, 0.1, 0.2, 0.3}};
        if (!servelog_run(&settings, &seen, &rig))
            return;
        CHECK(rig.node[0].counts.staleness_max > 0);
        servelog_check(&rig, &seen);
        exrig_close(&rig);
    }
}

/* Whatever a master asks for: the norm of a whole gradient is not to be had from a part of it. */
TEST(a_server_of_a_part_does_not_clip) {
    struct rt_error err;
    struct rt_server *server;
    const struct rt_server_settings settings = {
        .first = 4, .count = 4, .param_count = 8, .updater = {.clip_norm = 1}};
    CHECK(rt_server_create(&settings, &server, &err) == RT_BAD_INPUT && strstr(err.text, "clip_norm"));
}

TEST(what_makes_no_sense_ends_the_run_and_names_the_node) {
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct exrig_settings settings = {.strategy = "ps-async",
                                                .options = "{dedicated: true}",
                                                .nodes = 3,
                                                .spans = 3,
                                                .latency = 0.001,
                                                .seconds = {0, 1, 1},
                                                .other = 2,
                                                .behave = misbehave};
        struct rt_error err;
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, train, &wrongs[i], &err));
        const struct exrig_node *master = &rig.node[0];
        CHECK_MSG(master->status != RT_OK && strstr(master->error.text, "node 2") &&
                      strstr(master->error.text, wrongs[i].sentence),
                  "%s: %s", wrongs[i].what, master->error.text);
        CHECK_MSG(master->lost == 2, "%s: it is the fault of %u", wrongs[i].what, master->lost);
        CHECK_MSG(master->ended < 40, "%s: it took %g seconds", wrongs[i].what, master->ended);
        CHECK(rig.node[1].status != RT_OK);
        exrig_close(&rig);
    }
}

/* ---- servers that make no sense ------------------------------------------------------------------------ */

/* The second server has the last 12 of 24 parameters, all of span 2. */
static struct wrong wrong_params[] = {
    {"a gradient",
     "sent a push message where parameters were expected",
     {{.type = RT_MESSAGE_PUSH, .flags = RT_FLAG_LAST, .micro = 1, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"another span",
     "sent parameters of span 1 where 12 parameters of span 2 were expected",
     {{.type = RT_MESSAGE_PARAM, .flags = RT_FLAG_LAST, .epoch = 1, TENSOR(12)}},
     {12},
     true},
    {"too few",
     "sent parameters of span 2 where 12 parameters of span 2 were expected",
     {{.type = RT_MESSAGE_PARAM, .flags = RT_FLAG_LAST, .epoch = 2, TENSOR(3)}},
     {3},
     true},
    {"another run",
     "of another run or node",
     {{.type = RT_MESSAGE_PARAM, .flags = RT_FLAG_LAST, .run = 1, .epoch = 2, TENSOR(12)}},
     {12},
     true},
    {"no end", "not marked as the last", {{.type = RT_MESSAGE_PARAM, .epoch = 2, TENSOR(12)}}, {12}, true},
    {"noise", "not a RingTMP message", {{.type = 0}}, {0}, true},
};

static void misserve(void *user, struct exrig *r, struct rt_endpoint *endpoint, struct rt_link **links) {
    struct wrong *wrong = user;
    static const uint8_t noise[RT_MESSAGE_HEAD] = "once upon a time";
    float floats[24] = {0};
    struct rt_message *message = &wrong->message[0];
    struct rt_send send = {.channel = RT_CHANNEL_FIRST,
                           .head_bytes = RT_MESSAGE_HEAD,
                           .body = {{floats, wrong->floats[0] * sizeof(float)}}};
    struct rt_receive receive = {.channel = RT_CHANNEL_SECOND, .body = floats, .body_room = sizeof floats};
    struct rt_event event;
    message->run = message->run ? message->run : r->run;
    message->source = 1;
    if (message->type)
        rt_message_encode(message, send.head);
    else
        memcpy(send.head, noise, sizeof noise);
    rt_link_receive(links[2], &receive);
    while (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 5, &event) &&
           event.kind != RT_EVENT_RECEIVED)
        ;
    rt_link_send(links[2], &send);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 5);
    for (size_t i = 0; i < EXRIG_NODES; i++)
        rt_link_close(links[i]);
}

TEST(a_server_that_makes_no_sense_ends_the_run_and_is_named) {
    for (size_t i = 0; i < sizeof wrong_params / sizeof *wrong_params; i++) {
        const struct exrig_settings settings = {.strategy = "ps-shard",
                                                .options = "{base: async, k: 2, dedicated: true}",
                                                .nodes = 3,
                                                .spans = 3,
                                                .latency = 0.001,
                                                .other = 1,
                                                .behave = misserve};
        struct rt_error err;
        CHECK_OK(exrig_open(&settings, &rig, &err));
        CHECK_OK(exrig_run(&rig, train, &wrong_params[i], &err));
        const struct exrig_node *worker = &rig.node[2], *master = &rig.node[0];
        CHECK_MSG(worker->status != RT_OK && strstr(worker->error.text, "node 1") &&
                      strstr(worker->error.text, wrong_params[i].sentence),
                  "%s: %s", wrong_params[i].what, worker->error.text);
        CHECK_MSG(master->status != RT_OK && strstr(master->error.text, "node 1"), "%s: %s",
                  wrong_params[i].what, master->error.text);
        CHECK_MSG(master->ended < 40, "%s: it took %g seconds", wrong_params[i].what, master->ended);
        exrig_close(&rig);
    }
}

TEST_MAIN()
