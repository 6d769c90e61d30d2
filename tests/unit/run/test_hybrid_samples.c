/* Rows that a head is sent: they are taken as they are meant, and nothing that makes no sense is. What the
 * master sends is held against this by tests/contract/test_hybrid.c. */
#include "run/hybrid/samples.h"
#include "support/mesh.h"
#include "support/test.h"

/* Batches of 4, 4 and 2 rows; the second of two parts has 2, 2 and 1 of them, of 3 inputs and a class each.
 */
static const struct rt_sample_layout parting = {
    .examples = 10, .batch = 4, .parts = 2, .inputs = 3, .outputs = 2, .target = RT_TARGET_CLASSES};
static const float rows[] = {1, 2, 3, 4, 5, 6, 1, 0};

struct mail_case {
    struct rt_message message;
    size_t floats;
    float class; /* of the first row */
    uint64_t ticket;
    const char *refused; /* NULL: it is fine */
};

struct world {
    const struct mail_case *at;
    rt_status status;
    struct rt_error err;
};

static void send(const struct world *world, struct rt_communicator *comm) {
    float floats[8];
    struct rt_event event;
    struct rt_message message = world->at->message;
    memcpy(floats, rows, sizeof floats);
    floats[6] = world->at->class;
    message.run += comm->run;
    struct rt_send send = {.channel = RT_CHANNEL_FIRST,
                           .head_bytes = RT_MESSAGE_HEAD,
                           .body = {{floats, world->at->floats * sizeof *floats}}};
    rt_message_encode(&message, send.head);
    rt_link_send(comm->links[1], &send);
    while (rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 10, &event)) {
    }
}

static void receive(struct world *world, struct rt_communicator *comm) {
    struct rt_ring_sample_receiver *sample_receiver;
    struct rt_event event;
    bool taken = false;
    REQUIRE(rt_ring_sample_receiver_create(&parting, 1, &sample_receiver, &world->err) == RT_OK);
    rt_ring_sample_receiver_open(sample_receiver, comm->run, comm->links[0], RT_CHANNEL_FIRST);
    CHECK(!rt_ring_sample_receiver_has(sample_receiver, world->at->ticket));
    while (!taken && rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 5, &event))
        taken = rt_ring_sample_receiver_event(sample_receiver, &event, &world->status, &world->err);
    CHECK(taken &&
          rt_ring_sample_receiver_has(sample_receiver, world->at->ticket) == (world->status == RT_OK));
    if (world->status == RT_OK) {
        const struct rt_pipeline_rows from = rt_ring_sample_receiver_rows(sample_receiver);
        struct rt_received_rows sent;
        CHECK(from.examples == 10);
        world->status = from.take(from.self, world->at->ticket, &sent, &world->err);
        if (world->status == RT_OK)
            CHECK(sent.first == 2 && sent.x[5] == 6 && sent.targets.classes[0] == 1 &&
                  sent.targets.classes[1] == 0);
    }
    rt_link_close(comm->links[0]);
    comm->links[0] = NULL;
    rt_ring_sample_receiver_destroy(sample_receiver);
}

static void attend(void *user, struct rt_communicator *comm) {
    if (comm->rank == 0)
        send(user, comm);
    else
        receive(user, comm);
}

#define EXAMPLES(batch, count)                                                                               \
    .message = {.type = RT_MESSAGE_EXAMPLES,                                                                 \
                .micro = batch,                                                                              \
                .tensors = 1,                                                                                \
                .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {count}}}},                            \
    .floats = count

TEST(nothing_else_is_believed) {
    static const struct mail_case cases[] = {
        {EXAMPLES(1, 8), .class = 1, .ticket = 1},
        {EXAMPLES(4, 8), .class = 1, .ticket = 4}, /* of the next epoch */
        {EXAMPLES(1, 7), .class = 1, .ticket = 1, .refused = "batch 1 are not the 8 floats"},
        {EXAMPLES(3, 8), .class = 1, .ticket = 3, .refused = "batch 3 are not the 4 floats"},
        {EXAMPLES(0, 8), .class = 1, .ticket = 1, .refused = "came among the examples"},
        {EXAMPLES(2, 8), .class = 1, .ticket = 1, .refused = "examples of batch 2 for a ticket of batch 1"},
        {EXAMPLES(1, 8), .class = 2, .ticket = 1, .refused = "an example of class 2, and there are 2"},
        {EXAMPLES(1, 8), .class = 0.5f, .ticket = 1, .refused = "an example of class 0.5"},
        {EXAMPLES(1, 8), .class = -1, .ticket = 1, .refused = "an example of class -1"},
        {.message = {.type = RT_MESSAGE_CHUNK,
                     .micro = 1,
                     .tensors = 1,
                     .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {8}}}},
         .floats = 8,
         .ticket = 1,
         .refused = "a chunk message came among the examples"},
        {.message = {.type = RT_MESSAGE_EXAMPLES,
                     .micro = 1,
                     .tensors = 1,
                     .tensor = {{.dtype = RT_DTYPE_F32, .rank = 2, .dims = {2, 4}}}},
         .floats = 8,
         .ticket = 1,
         .refused = "not the 8 floats"},
        {.message = {.type = RT_MESSAGE_EXAMPLES,
                     .run = 1,
                     .micro = 1,
                     .tensors = 1,
                     .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {8}}}},
         .floats = 8,
         .ticket = 1,
         .refused = "of another run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world = {.at = &cases[i]};
        mesh_in_memory(NULL, 2, attend, &world);
        if (cases[i].refused)
            CHECK_MSG(world.status != RT_OK && strstr(world.err.text, cases[i].refused), "case %zu: %s", i,
                      world.err.text);
        else
            CHECK_MSG(world.status == RT_OK, "%s", world.err.text);
    }
}

/* A part that has no rows is here before anything comes. */
TEST(no_rows_need_not_be_sent) {
    const struct rt_sample_layout three = {
        .examples = 9, .batch = 4, .parts = 4, .inputs = 3, .outputs = 2, .target = RT_TARGET_CLASSES};
    struct rt_error err;
    struct rt_ring_sample_receiver *sample_receiver;
    struct rt_received_rows sent;
    CHECK_OK(rt_ring_sample_receiver_create(&three, 1, &sample_receiver, &err));
    CHECK(!rt_ring_sample_receiver_has(sample_receiver, 1) &&
          !rt_ring_sample_receiver_has(sample_receiver, 2) &&
          rt_ring_sample_receiver_has(sample_receiver, 3));
    const struct rt_pipeline_rows from = rt_ring_sample_receiver_rows(sample_receiver);
    CHECK_OK(from.take(from.self, 3, &sent, &err));
    CHECK(!sent.x);
    rt_ring_sample_receiver_destroy(sample_receiver);
}

TEST(more_than_a_message_holds_is_refused) {
    const struct rt_sample_layout large = {.examples = 1 << 20,
                                           .batch = 1 << 20,
                                           .parts = 2,
                                           .inputs = 1 << 12,
                                           .outputs = 2,
                                           .target = RT_TARGET_CLASSES};
    struct rt_error err;
    struct rt_ring_sample_receiver *sample_receiver;
    CHECK(rt_ring_sample_receiver_create(&large, 1, &sample_receiver, &err) == RT_BAD_INPUT &&
          strstr(err.text, "data.send"));
}

TEST_MAIN()
