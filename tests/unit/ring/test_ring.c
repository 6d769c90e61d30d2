/* A ring that runs: what it costs in messages, what it says of itself, and how it ends when something goes
 * wrong: a node that dies, a link that is cut, a neighbour that makes no sense or none at all. */
/* labels: threads */
#include "support/ringrig.h"
#include "support/test.h"
#include <math.h>

static const char mlp[] = "{input: 12, loss: cross_entropy, layers: [{dense: 16}, tanh, {dense: 14}, relu, "
                          "{dense: 12}, tanh, {dense: 10}, relu, {dense: 5}]}";

static const struct rig_settings plain = {
    .model = mlp, .nodes = 4, .slots = 4, .examples = 40, .batch = 16, .micro_batch = 4, .latency = 0.001};

/* ---- what a ring costs --------------------------------------------------------------------------------- */

struct trace {
    struct rt_metrics_row rows[RIG_NODES];
    double start, end;
};

static void train_ten(void *user, struct rig *rig, struct rt_ring *ring) {
    struct trace *trace = user;
    trace->start = rt_memnet_now(rig->net);
    if (!rig_steps(rig, ring, 10))
        return;
    trace->end = rt_memnet_now(rig->net);
    rig->status[0] = rt_ring_metrics(ring, trace->rows, &rig->errors[0]);
}

/* One example at a time goes once round the ring and back: 2N messages, one after another, and nothing else
 * is sent, no parameters above all. */
TEST(ring_one_makes_2n_hops_per_example) {
    static const size_t widths[] = {16, 14, 12, 5}; /* of the cuts; the last edge closes the ring */
    struct rt_error err;
    struct rig rig;
    struct trace trace = {0};
    struct rig_settings settings = plain;
    settings.batch = settings.micro_batch = settings.slots = 1;
    CHECK_OK(rig_open(&settings, &rig, &err));
    CHECK_OK(rig_run(&rig, train_ten, &trace, &err));
    CHECK_MSG(rig.status[0] == RT_OK, "%s", rig.errors[0].text);
    CHECK_MSG(fabs(trace.end - trace.start - 10 * 8 * 0.001) < 1e-9, "10 examples took %g s, not 80 hops",
              trace.end - trace.start);
    for (size_t i = 0; i < 4; i++) {
        const struct rt_metrics_row *row = &trace.rows[i];
        const uint64_t out = 10 * (RT_MESSAGE_HEAD + 4 * widths[i]);
        const uint64_t in = 10 * (RT_MESSAGE_HEAD + 4 * widths[(i + 3) % 4]);
        CHECK(row->node == i && row->samples == 10 && row->updates == 10);
        CHECK_MSG(row->sent[0][RT_CHANNEL_SECOND] == out && row->received[0][RT_CHANNEL_FIRST] == out,
                  "node %zu sent %llu bytes of activations and got %llu of gradients instead of %llu", i,
                  (unsigned long long)row->sent[0][RT_CHANNEL_SECOND],
                  (unsigned long long)row->received[0][RT_CHANNEL_FIRST], (unsigned long long)out);
        CHECK(row->received[1][RT_CHANNEL_SECOND] == in && row->sent[1][RT_CHANNEL_FIRST] == in);
        CHECK(row->sent[0][RT_CHANNEL_FIRST] == 0 && row->sent[1][RT_CHANNEL_SECOND] == 0);
        CHECK(row->sent[0][RT_CHANNEL_BULK] == 0 && row->sent[1][RT_CHANNEL_BULK] == 0);
        CHECK(row->sent[1][RT_CHANNEL_CONTROL] == 0);
    }
    rig_close(&rig);
}

TEST(states_sum_to_the_time) {
    for (size_t nodes = 1; nodes <= 3; nodes++) {
        struct rt_error err;
        struct rig rig;
        struct trace trace = {0};
        struct rig_settings settings = plain;
        settings.nodes = nodes;
        settings.clip_norm = 0.5;
        CHECK_OK(rig_open(&settings, &rig, &err));
        CHECK_OK(rig_run(&rig, train_ten, &trace, &err));
        CHECK_MSG(rig.status[0] == RT_OK, "%s", rig.errors[0].text);
        for (size_t i = 0; i < nodes; i++) {
            const struct rt_metrics_row *row = &trace.rows[i];
            double sum = 0;
            for (size_t k = 0; k < RT_METRIC_STATES; k++)
                sum += row->state[k];
            CHECK_MSG(row->seconds > 0 && fabs(sum - row->seconds) <= 0.01 * row->seconds,
                      "node %zu: the states sum to %g of %g s", i, sum, row->seconds);
            CHECK(row->state[RT_STATE_FORWARD] > 0 && row->state[RT_STATE_WEIGHT] > 0);
            CHECK(row->samples == 136); /* of 40 examples: 16, 16, 8, three times, and 16 */
        }
        rig_close(&rig);
    }
}

static void ask_recent(void *user, struct rig *rig, struct rt_ring *ring) {
    struct trace *trace = user;
    CHECK(!rt_ring_metrics_recent(ring, trace->rows));
    rig_steps(rig, ring, 2);
    CHECK(rt_ring_metrics_recent(ring, trace->rows));
    CHECK(trace->rows[3].node == 3);
    rig_steps(rig, ring, 1);
}

TEST(recent_metrics_do_not_wait) {
    struct rt_error err;
    struct rig rig;
    struct trace trace = {0};
    CHECK_OK(rig_open(&plain, &rig, &err));
    CHECK_OK(rig_run(&rig, ask_recent, &trace, &err));
    CHECK_MSG(rig.status[0] == RT_OK, "%s", rig.errors[0].text);
    rig_close(&rig);
}

/* ---- a master without links ---------------------------------------------------------------------------- */

static void lessen(void *self, const uint32_t *examples, size_t rows, float *x) {
    (void)self;
    for (size_t i = 0; i < rows * 12; i++)
        x[i] = 0.01f * (float)(examples[i / 12] + i % 12);
}

static rt_status all_of_them(void *self, uint64_t update, size_t *rows, uint32_t *epoch,
                             const uint32_t **examples, struct rt_error *err) {
    (void)self, (void)update, (void)err;
    static uint32_t indices[16];
    for (uint32_t i = 0; i < 16; i++)
        indices[i] = i;
    *rows = 16;
    *epoch = 0;
    *examples = indices;
    return RT_OK;
}

static void lose(void *self, const uint32_t *examples, size_t rows, size_t batch_rows, const float *y,
                 float *dy, double *loss, size_t *correct) {
    (void)self, (void)examples, (void)correct;
    for (size_t i = 0; i < rows * 5; i++) {
        dy[i] = y[i] / (float)batch_rows;
        *loss += (double)(y[i] * y[i]) / 2;
    }
}

/* It needs no network, and a device that is emulated is busy as long as it would be. */
TEST(a_master_alone_on_an_emulated_device) {
    struct rt_error err;
    struct rig rig;
    struct rt_ring *ring;
    struct rig_settings settings = plain;
    settings.nodes = 1;
    CHECK_OK(rig_open(&settings, &rig, &err));
    const struct rt_ring_settings alone = {.job = rig.job,
                                           .plan = &rig.plan,
                                           .device = &rig.device,
                                           .pace = &(struct rt_pace){.first = 100},
                                           .source = {.batch = all_of_them, .inputs = lessen, .loss = lose}};
    CHECK_OK(rt_ring_create(&alone, &ring, &err));
    struct rt_ring_update update = {0};
    double first = 0;
    for (size_t i = 0; i < 20; i++) {
        CHECK_OK(rt_ring_step(ring, &update, &err));
        first = i ? first : update.loss;
    }
    CHECK(update.update == 20 && update.rows == 16 && update.loss < first);
    struct rt_metrics_row row;
    CHECK_OK(rt_ring_metrics(ring, &row, &err));
    double busy = 0;
    for (size_t i = 0; i <= RT_STATE_ENCODE; i++)
        busy += row.state[i];
    /* A device that is not emulated cannot be busy for longer than it computes; how much longer this one is
     * depends on what sleeping and waking up cost. */
    CHECK_MSG(busy > 0.5 * row.seconds && busy > 1.5 * row.cpu_seconds,
              "busy for %g of %g s, with %g s of CPU", busy, row.seconds, row.cpu_seconds);
    CHECK_OK(rt_ring_stop(ring, &err));
    CHECK(rt_ring_step(ring, &update, &err) == RT_FAILED && strstr(err.text, "stopped"));
    rt_ring_destroy(ring);
    rig_close(&rig);
}

/* ---- data that come late ------------------------------------------------------------------------------- */

static void wait_for_data(void *user, struct rig *rig, struct rt_ring *ring) {
    struct trace *trace = user;
    if (rig_steps(rig, ring, 3))
        rig->status[0] = rt_ring_metrics(ring, trace->rows, &rig->errors[0]);
}

TEST(a_ring_waits_for_data_longer_than_for_a_neighbour) {
    for (size_t nodes = 1; nodes <= 3; nodes++) {
        struct rt_error err;
        struct rig rig;
        struct trace trace = {0};
        struct rig_settings settings = plain;
        settings.nodes = nodes;
        settings.hungry = 40; /* it asks twice a second */
        settings.timeout = 4;
        CHECK_OK(rig_open(&settings, &rig, &err));
        CHECK_OK(rig_run(&rig, wait_for_data, &trace, &err));
        for (size_t i = 0; i < nodes; i++)
            CHECK_MSG(rig.status[i] == RT_OK, "node %zu: %s", i, rig.errors[i].text);
        CHECK(rig.refusals == 40 && rt_memnet_now(rig.net) > 15);
        CHECK(trace.rows[0].state[RT_STATE_WAIT_DATA] > 0);
        rig_close(&rig);
    }
}

static void stop_early(void *user, struct rig *rig, struct rt_ring *ring) {
    (void)user;
    struct rt_ring_update update;
    struct rt_error err;
    rig_steps(rig, ring, 1);
    rt_ring_stop(ring, &rig->errors[0]);
    CHECK(rt_ring_step(ring, &update, &err) == RT_FAILED);
    rig->status[0] = rt_fail(&rig->errors[0], RT_FAILED, "it has been stopped");
}

TEST(nodes_of_a_stopped_ring_end_well) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&plain, &rig, &err));
    CHECK_OK(rig_run(&rig, stop_early, NULL, &err));
    for (size_t i = 1; i < 4; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "node %zu: %s", i, rig.errors[i].text);
    rig_close(&rig);
}

/* ---- ring-flow ----------------------------------------------------------------------------------------- */

struct flow {
    double first, last; /* loss of the first and last ten updates */
    double end;         /* of the update before */
    size_t ahead;       /* most updates begun beyond those returned */
    struct rt_metrics_row rows[RIG_NODES];
};

static void flow(void *user, struct rig *rig, struct rt_ring *ring) {
    struct flow *flow_seen = user;
    struct rt_ring_update update;
    struct rt_error *err = &rig->errors[0];
    const size_t updates = rig->settings.updates;
    for (size_t i = 0; rig->status[0] == RT_OK && i < updates; i++) {
        if (i == updates / 2 && rig->settings.nodes > 1) {
            CHECK(rt_ring_snapshot(ring, err) == RT_BAD_INPUT);
            while (rig->status[0] == RT_OK && !rt_ring_drain(ring)) {
                rig->status[0] = rt_ring_step(ring, &update, err);
                i++;
            }
            if (rig->status[0] == RT_OK)
                rig->status[0] = rt_ring_snapshot(ring, err);
        }
        if (rig->status[0] == RT_OK && i < updates)
            rig->status[0] = rt_ring_step(ring, &update, err);
        if (rig->status[0] != RT_OK)
            return;
        CHECK(update.update == i + 1 && update.start >= flow_seen->end && update.end >= update.start);
        flow_seen->end = update.end;
        flow_seen->first += i < 10 ? update.loss : 0;
        flow_seen->last += i >= updates - 10 ? update.loss : 0;
        const size_t ahead = rig->batches_given - (i + 1);
        flow_seen->ahead = ahead > flow_seen->ahead ? ahead : flow_seen->ahead;
    }
    rig->status[0] = rt_ring_metrics(ring, flow_seen->rows, err);
}

TEST(ring_flow_never_drains_and_learns) {
    struct rt_error err;
    struct rig rig;
    struct flow seen = {0};
    struct rig_settings settings = plain;
    settings.flow = true;
    settings.batch = settings.micro_batch = 8;
    settings.updates = 300;
    settings.nodes = 3;
    settings.random_delay = 0.001;
    CHECK_OK(rig_open(&settings, &rig, &err));
    CHECK_OK(rig_run(&rig, flow, &seen, &err));
    for (size_t i = 0; i < 3; i++)
        CHECK_MSG(rig.status[i] == RT_OK, "node %zu: %s", i, rig.errors[i].text);
    CHECK_MSG(seen.last < 0.7 * seen.first, "loss %g, then %g", seen.first, seen.last);
    CHECK_MSG(seen.ahead >= 2 && seen.ahead <= settings.slots, "%zu updates were begun ahead", seen.ahead);
    CHECK(rig.batches_given == 300);
    CHECK(seen.rows[0].staleness_max >= 1 && seen.rows[0].staleness_max < settings.slots);
    CHECK(seen.rows[0].staleness_sum > seen.rows[2].staleness_sum);
    rig_close(&rig);
}

/* With a single micro-batch in flight nothing is stale: the bits of one device. */
static void gather_flow(void *user, struct rig *rig, struct rt_ring *ring) {
    struct rt_ring_update update;
    if (!rig_steps(rig, ring, 20))
        return;
    while (rig->status[0] == RT_OK && !rt_ring_drain(ring))
        rig->status[0] = rt_ring_step(ring, &update, &rig->errors[0]);
    if (rig->status[0] == RT_OK)
        rig->status[0] = rig_gather(rig, ring, user, &rig->errors[0]);
}

TEST(ring_flow_with_one_slot_is_exact) {
    struct rt_error err;
    struct rig rig;
    struct rig_settings settings = plain;
    settings.flow = true;
    settings.batch = settings.micro_batch = 8;
    settings.slots = 1;
    settings.updates = 20;
    settings.clip_norm = 0.3;
    CHECK_OK(rig_open(&settings, &rig, &err));
    const size_t count = rig_floats(&rig);
    float *gathered = calloc(count, sizeof(float)), *single = calloc(count, sizeof(float));
    CHECK_OK(rig_run(&rig, gather_flow, gathered, &err));
    CHECK_MSG(rig.status[0] == RT_OK, "%s", rig.errors[0].text);
    for (size_t i = 0; i < 20; i++) {
        struct rt_step step;
        CHECK_OK(rt_trainer_step(rig.tiny.trainer, &step, &err));
    }
    rig_single(&rig, single);
    CHECK(memcmp(gathered, single, count * sizeof(float)) == 0);
    free(gathered);
    free(single);
    rig_close(&rig);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

struct accident {
    size_t who, other; /* who is killed, or whose link to other is cut */
    bool cut;
    bool stops; /* it happens when the master stops the ring */
};

static void train_into_accident(void *user, struct rig *rig, struct rt_ring *ring) {
    const struct accident *accident = user;
    rig_steps(rig, ring, 3);
    if (accident->cut)
        rt_memnet_cut(rig->net, accident->who, accident->other);
    else
        rt_memnet_kill(rig->net, accident->who);
    if (accident->stops)
        rig->status[0] = rt_ring_stop(ring, &rig->errors[0]);
    else
        rig_steps(rig, ring, 1000);
}

/* Everybody who is left ends, within the bound, with a sentence; the master knows the node by its number. */
static void crash(const struct accident *accident, double bound) {
    static const char called[][RT_NODE_NAME + 1] = {"master", "red", "green", "blue"};
    struct rt_error err;
    struct rig rig;
    struct rig_settings settings = plain;
    char sentence[sizeof err.text];
    settings.silence = 5;
    settings.names = (struct rt_node_names){called, 4};
    CHECK_OK(rig_open(&settings, &rig, &err));
    struct accident copy = *accident;
    CHECK_OK(rig_run(&rig, train_into_accident, &copy, &err));
    CHECK_MSG(rig.status[0] == RT_FAILED && rig.lost < 4 &&
                  (rig.lost == accident->who || (accident->cut && rig.lost == accident->other)),
              "node %zu is lost: %s", rig.lost, rig.errors[0].text);
    const char *blamed = called[rig.lost % 4];
    /* The reason has no name in front; the sentence has it once, and it is made where it is printed. */
    snprintf(sentence, sizeof sentence, "%s: %.300s", blamed, rig.why.text);
    CHECK_MSG(strcmp(rig.errors[0].text, sentence) == 0, "'%s', not '%s'", rig.errors[0].text, sentence);
    CHECK_MSG(strncmp(rig.why.text, blamed, strlen(blamed)) != 0, "%s", rig.why.text);
    if (!accident->cut && accident->who == 2) /* which the master does not see: both neighbours report it */
        CHECK_MSG(strcmp(rig.why.text, "is gone, red reports") == 0 ||
                      strcmp(rig.why.text, "is gone, blue reports") == 0,
                  "%s", rig.why.text);
    for (size_t i = 0; i < 4; i++) {
        if (!accident->cut && i == accident->who)
            continue;
        CHECK_MSG(rig.status[i] == RT_FAILED && strlen(rig.errors[i].text) > 10, "node %zu says: %s", i,
                  rig.errors[i].text);
        CHECK_MSG(rig.ended[i] < bound, "node %zu ended after %g s", i, rig.ended[i]);
    }
    rig_close(&rig);
}

TEST(a_killed_node_ends_the_run_everywhere) {
    crash(&(struct accident){.who = 1}, 5);
    crash(&(struct accident){.who = 2}, 5);
    crash(&(struct accident){.who = 3}, 5);
    crash(&(struct accident){.who = 2, .stops = true}, 5);
}

TEST(a_cut_link_ends_the_run_everywhere) {
    crash(&(struct accident){.who = 1, .other = 2, .cut = true}, 12);
    crash(&(struct accident){.who = 2, .other = 3, .cut = true}, 12);
    crash(&(struct accident){.who = 3, .other = 0, .cut = true}, 12);
    crash(&(struct accident){.who = 0, .other = 1, .cut = true}, 12);
}

static void give_up(void *user, struct rig *rig, struct rt_ring *ring) {
    (void)user;
    rig_steps(rig, ring, 3);
    rig->status[0] = rt_fail(&rig->errors[0], RT_FAILED, "the master gives up");
}

TEST(a_master_that_goes_away_ends_the_nodes_run) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&plain, &rig, &err));
    CHECK_OK(rig_run(&rig, give_up, NULL, &err));
    for (size_t i = 1; i < 4; i++)
        CHECK_MSG(rig.status[i] == RT_FAILED && strstr(rig.errors[i].text, "master"), "node %zu says: %s", i,
                  rig.errors[i].text);
    rig_close(&rig);
}

/* ---- neighbours that make no sense --------------------------------------------------------------------- */

enum mischief {
    SILENT,
    WRONG_MICRO,
    WRONG_UPDATE,
    WRONG_SHAPE,
    OTHER_RUN,
    WRONG_TYPE,
    NO_MESSAGE,
    WRONG_SIDE,
    ODD_NORM,
    ODD_WORD,
    FEWER_ROWS,
    AHEAD,
    MISCHIEFS
};
static enum mischief mischief;

/* Node 2 of 3 receives the first activations and answers with mischief: the outputs of micro-batches that
 * have not begun, among others. */
static void misbehave(void *user, struct rt_endpoint *endpoint, struct rt_link *next,
                      struct rt_link *previous) {
    (void)user;
    static float body[64], floats[64];
    static struct rt_receive receive, gradients[4];
    static struct rt_send send, ahead[4];
    receive = (struct rt_receive){.channel = RT_CHANNEL_SECOND, .body = body, .body_room = sizeof body};
    rt_link_receive(previous, &receive);
    for (size_t i = 0; i < 4; i++) {
        gradients[i] =
            (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = body, .body_room = sizeof body};
        rt_link_receive(next, &gradients[i]);
    }
    struct rt_event event;
    while (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 100, &event)) {
        if (event.kind == RT_EVENT_CLOSED)
            break;
        if (event.kind != RT_EVENT_RECEIVED || event.receive != &receive || mischief == SILENT)
            continue;
        struct rt_message message = {.type = RT_MESSAGE_FORWARD,
                                     .source = 2,
                                     .run = 4711,
                                     .rows = 16,
                                     .tensors = 1,
                                     .tensor = {{.dtype = RT_DTYPE_F32, .rank = 2, .dims = {4, 5}}}};
        size_t bytes = 4 * 5 * sizeof(float);
        send = (struct rt_send){.channel = RT_CHANNEL_SECOND, .head_bytes = RT_MESSAGE_HEAD};
        const struct rt_message norm = {.type = RT_MESSAGE_NORM, .source = 2, .run = 4711, .value = 1};
        switch (mischief) {
        case WRONG_MICRO:
            message.micro = 1;
            break;
        case WRONG_UPDATE:
            message.update = 1;
            break;
        case WRONG_SHAPE:
            message.tensor[0].dims[0] = 3;
            bytes = 3 * 5 * sizeof(float);
            break;
        case AHEAD:
            for (size_t i = 0; i < 4; i++, message.micro++) {
                ahead[i] = send;
                rt_message_encode(&message, ahead[i].head);
                ahead[i].body[0] = (struct rt_piece){floats, bytes};
                rt_link_send(next, &ahead[i]);
            }
            message.update = 1;
            break;
        case FEWER_ROWS:
            message.rows = 2;
            message.tensor[0].dims[0] = 2;
            bytes = 2 * 5 * sizeof(float);
            break;
        case OTHER_RUN:
            message.run = 4712;
            break;
        case WRONG_TYPE:
            message.type = RT_MESSAGE_BACKWARD;
            message.rows = 0;
            break;
        case ODD_WORD:
            message.type = RT_MESSAGE_PART;
            message.micro = 77;
            message.rows = 0;
            message.tensor[0] = (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {20}};
            send.channel = RT_CHANNEL_BULK;
            break;
        case ODD_NORM:
        case WRONG_SIDE:
            message = norm;
            bytes = 0;
            send.channel = RT_CHANNEL_CONTROL;
            break;
        default:
            break;
        }
        rt_message_encode(&message, send.head);
        if (mischief == NO_MESSAGE)
            send.head[0] ^= 1;
        send.body[0] = (struct rt_piece){floats, bytes};
        rt_link_send(mischief == WRONG_SIDE ? previous : next, &send);
    }
    rt_link_close(next);
    rt_link_close(previous);
}

static void train_some(void *user, struct rig *rig, struct rt_ring *ring) {
    (void)user;
    rig_steps(rig, ring, 5);
}

TEST(nonsense_is_refused) {
    static const char *const says[MISCHIEFS] = {
        [SILENT] = "made no progress",       [WRONG_MICRO] = "micro-batch 1 where 0",
        [WRONG_UPDATE] = "update 1 where 0", [WRONG_SHAPE] = "wrong shape",
        [OTHER_RUN] = "another run",         [WRONG_TYPE] = "backward message came among the activations",
        [NO_MESSAGE] = "bad magic number",   [WRONG_SIDE] = "wrong side",
        [ODD_NORM] = "norm message",         [ODD_WORD] = "made no progress",
        [FEWER_ROWS] = "not asked for",      [AHEAD] = "not asked for",
    };
    for (mischief = SILENT; mischief < MISCHIEFS; mischief++) {
        struct rt_error err;
        struct rig rig;
        struct rig_settings settings = plain;
        settings.nodes = 3;
        settings.other = 2;
        settings.behave = misbehave;
        settings.timeout = 3;
        CHECK_OK(rig_open(&settings, &rig, &err));
        CHECK_OK(rig_run(&rig, train_some, NULL, &err));
        CHECK_MSG(rig.status[0] == RT_FAILED && strstr(rig.errors[0].text, says[mischief]) &&
                      strstr(rig.errors[0].text, "node"),
                  "mischief %d: %s", mischief, rig.errors[0].text);
        CHECK_MSG(rig.status[0] == RT_FAILED && rig.status[1] == RT_FAILED, "mischief %d went unnoticed",
                  mischief);
        CHECK_MSG(rig.ended[0] < 8 && rig.ended[1] < 8, "mischief %d: ended after %g and %g s", mischief,
                  rig.ended[0], rig.ended[1]);
        rig_close(&rig);
    }
}

/* ---- numbers that are not finite ----------------------------------------------------------------------- */

static void diverge(void *user, struct rig *rig, struct rt_ring *ring) {
    (void)user;
    rig_steps(rig, ring, 1);
    rig->tiny.inputs[0] = NAN;
    rig_steps(rig, ring, 100);
}

TEST(a_loss_that_is_not_finite_ends_the_run) {
    struct rt_error err;
    struct rig rig;
    CHECK_OK(rig_open(&plain, &rig, &err));
    CHECK_OK(rig_run(&rig, diverge, NULL, &err));
    CHECK_MSG(rig.status[0] == RT_DIVERGED && strstr(rig.errors[0].text, "the loss is not finite at update"),
              "%s", rig.errors[0].text);
    for (size_t i = 1; i < 4; i++)
        CHECK(rig.status[i] == RT_FAILED);
    rig_close(&rig);
}

TEST_MAIN()
