/* State transfer between an initiator and holders, over direct links and round a ring, in memory: what is
 * fetched is what is held, what is stored arrives where it belongs, and nothing else is believed. */
#include "control/state_transfer.h"
#include "support/mesh.h"
#include "support/test.h"
#include <math.h>

enum { NODES = 4, TENSORS = 2, FLOATS = 2 * RT_STATE_PIECE + 7, HOSTILE = 16, VERSION = 12 };

/* What a node holds: float i of tensor t of node n is n * 1000 + t * 100 + i % 97 to begin with. */
struct store {
    float *tensor[TENSORS];
    uint64_t update;
    uint64_t version; /* of what can be read */
    bool writable, asked_twice;
};

struct world {
    bool ring;
    struct store store[NODES];
    const struct rt_message *hostile; /* the initiator sends this instead, with so many floats */
    size_t hostile_floats;
    rt_status status[NODES];
    struct rt_error err[NODES];
    float *fetched;
    size_t taken;
    rt_status take_fails;
};

static float value(size_t node, size_t tensor, size_t i) {
    return (float)(node * 1000 + tensor * 100 + i % 97);
}

static size_t store_floats(const void *self, size_t tensor, size_t *first) {
    (void)self;
    *first = 0;
    return tensor == 0 ? FLOATS : 5;
}

static enum rt_state_presence store_has(const void *self, const struct rt_state_range *range) {
    const struct store *store = self;
    if (range->first + range->count > FLOATS)
        return RT_STATE_GONE;
    return store->version == range->version  ? RT_STATE_HERE
           : store->version < range->version ? RT_STATE_NOT_YET
                                             : RT_STATE_GONE;
}

static bool store_can_write(const void *self, const struct rt_state_range *range) {
    CHECK(range->version == 0 || range->version == 77);
    return ((const struct store *)self)->writable;
}

static void store_read(const void *self, const struct rt_state_range *range, float *into) {
    memcpy(into, ((const struct store *)self)->tensor[range->tensor] + range->first,
           range->count * sizeof *into);
}

static void store_write(void *self, const struct rt_state_range *range, const float *from) {
    memcpy(((struct store *)self)->tensor[range->tensor] + range->first, from, range->count * sizeof *from);
}

/* The owner needs to be asked twice. */
static bool store_loaded(void *self, uint64_t update) {
    struct store *store = self;
    store->update = update;
    store->asked_twice = !store->asked_twice;
    return !store->asked_twice;
}

static uint16_t before(const struct world *world, uint16_t rank) {
    return world->ring ? (uint16_t)((rank + NODES - 1) % NODES) : 0;
}

static uint16_t after(const struct world *world, uint16_t rank) {
    return world->ring ? (uint16_t)((rank + 1) % NODES) : 0;
}

static void be_holder(struct world *world, struct rt_communicator *comm) {
    struct store *store = &world->store[comm->rank];
    const struct rt_state_holder_settings settings = {.store = {store, TENSORS, store_floats, store_has,
                                                                store_can_write, store_read, store_write,
                                                                store_loaded},
                                                      .in = comm->links[before(world, comm->rank)],
                                                      .out = comm->links[after(world, comm->rank)],
                                                      .run = comm->run,
                                                      .rank = comm->rank,
                                                      .finite = true};
    struct rt_state_holder holder;
    struct rt_event event;
    struct rt_error *err = &world->err[comm->rank];
    rt_status *status = &world->status[comm->rank];
    bool closed = false, worked;
    rt_status later;
    struct rt_error ignored;
    REQUIRE(rt_state_holder_init(&holder, &settings, err) == RT_OK);
    while (!closed && *status == RT_OK) {
        const double until = rt_endpoint_now(comm->endpoint) + 0.5;
        if (!rt_endpoint_wait(comm->endpoint, until, &event)) {
            CHECK(rt_state_holder_is_waiting(&holder) || rt_state_holder_is_idle(&holder) ||
                  store->asked_twice);
            store->version = VERSION; /* it has come to rest */
            store->writable = true;
        } else if (!rt_state_holder_event(&holder, &event, status, err)) {
            closed = event.kind == RT_EVENT_CLOSED;
        }
        if (*status == RT_OK && !closed)
            *status = rt_state_holder_go_on(&holder, &worked, err);
    }
    /* It lives on for a while, as an agent that says goodbye does. */
    store->version = VERSION;
    store->writable = true;
    while (*status != RT_OK &&
           rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 1, &event) &&
           rt_state_holder_event(&holder, &event, &later, &ignored))
        CHECK(rt_state_holder_go_on(&holder, &worked, &ignored) == RT_OK);
    for (uint16_t i = 0; i < NODES; i++) {
        rt_link_close(comm->links[i]);
        comm->links[i] = NULL;
    }
    rt_state_holder_deinit(&holder);
}

/* ---- the initiator ---- */

static rt_status take(void *user, size_t tensor, size_t count, const float *floats, struct rt_error *err) {
    struct world *world = user;
    (void)tensor;
    if (world->take_fails != RT_OK && world->taken > 0)
        return rt_fail(err, world->take_fails, "no room");
    memcpy(world->fetched + world->taken, floats, count * sizeof *floats);
    world->taken += count;
    return RT_OK;
}

static rt_status give(void *user, size_t tensor, size_t count, float *floats, struct rt_error *err) {
    struct world *world = user;
    (void)err;
    for (size_t i = 0; i < count; i++)
        floats[i] = value(9, tensor, world->taken++);
    return RT_OK;
}

static void carry_out(struct world *world, struct rt_communicator *comm, struct rt_state_initiator *initiator,
                      struct rt_state_order order) {
    struct rt_event event;
    order.in = comm->links[world->ring ? NODES - 1 : order.node];
    order.out = comm->links[world->ring ? 1 : order.node];
    order.user = world;
    world->taken = 0;
    rt_state_initiator_begin(initiator, &order);
    const double until = rt_endpoint_now(comm->endpoint) + 20;
    while (initiator->busy && world->status[0] == RT_OK && rt_endpoint_wait(comm->endpoint, until, &event))
        if (!rt_state_initiator_event(initiator, &event, &world->status[0], &world->err[0]))
            world->status[0] = rt_fail(&world->err[0], RT_FAILED, "a link was closed");
    CHECK(!initiator->busy || world->status[0] != RT_OK);
    if (world->status[0] == RT_OK)
        world->status[0] = rt_state_initiator_result(initiator, &world->err[0]);
}

static void send_hostile(const struct world *world, struct rt_communicator *comm) {
    static float floats[HOSTILE];
    struct rt_message message = *world->hostile;
    struct rt_event event;
    message.run += comm->run;
    floats[0] = world->hostile_floats == 3 ? NAN : 0;
    struct rt_send send = {.channel = RT_CHANNEL_BULK,
                           .head_bytes = RT_MESSAGE_HEAD,
                           .body = {{floats, world->hostile_floats * sizeof *floats}}};
    rt_message_encode(&message, send.head);
    rt_link_send(comm->links[1], &send);
    /* Behind it comes one that would be fine: it must not have the first one believed. */
    struct rt_message fine = {.type = RT_MESSAGE_PART,
                              .target = 1,
                              .run = comm->run,
                              .tensor_index = 1,
                              .tensors = 1,
                              .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {1}}}};
    struct rt_send behind = {
        .channel = RT_CHANNEL_BULK, .head_bytes = RT_MESSAGE_HEAD, .body = {{floats + 1, sizeof *floats}}};
    rt_message_encode(&fine, behind.head);
    rt_link_send(comm->links[1], &behind);
    while (rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 3, &event)) {
    }
}

static void work(struct world *world, struct rt_communicator *comm) {
    struct rt_state_initiator initiator;
    REQUIRE(rt_state_initiator_init(&initiator, comm->run, 0, 0, true, &world->err[0]) == RT_OK);
    if (world->hostile) {
        send_hostile(world, comm);
    } else {
        const struct rt_state_order orders[] = {
            {.kind = RT_STATE_FETCH,
             .node = world->ring ? 2 : 1,
             .first = 3,
             .count = FLOATS - 3,
             .version = VERSION,
             .take = take},
            {.kind = RT_STATE_STORE, .node = 3, .tensor = 1, .first = 1, .count = 4, .give = give},
            {.kind = RT_STATE_STORE, .node = 3, .first = 0, .count = FLOATS, .give = give},
            {.kind = RT_STATE_DECLARE, .node = 3, .count = FLOATS + 4, .version = 77},
        };
        for (size_t i = 0; i < sizeof orders / sizeof *orders && world->status[0] == RT_OK; i++)
            carry_out(world, comm, &initiator, orders[i]);
    }
    for (uint16_t i = 0; i < NODES; i++) {
        rt_link_close(comm->links[i]);
        comm->links[i] = NULL;
    }
    rt_state_initiator_deinit(&initiator);
}

static void attend(void *user, struct rt_communicator *comm) {
    if (comm->rank == 0)
        work(user, comm);
    else
        be_holder(user, comm);
}

static void run_world(struct world *world) {
    world->fetched = calloc(FLOATS, sizeof(float));
    for (size_t node = 0; node < NODES; node++)
        for (size_t t = 0; t < TENSORS; t++) {
            size_t first;
            const size_t floats = store_floats(NULL, t, &first);
            world->store[node].version = VERSION - 1;
            world->store[node].tensor[t] = malloc(floats * sizeof(float));
            for (size_t i = 0; i < floats; i++)
                world->store[node].tensor[t][i] = value(node, t, i);
        }
    mesh_in_memory(NULL, NODES, attend, world);
}

static void close_world(struct world *world) {
    for (size_t node = 0; node < NODES; node++)
        for (size_t t = 0; t < TENSORS; t++)
            free(world->store[node].tensor[t]);
    free(world->fetched);
}

static void moves(bool ring) {
    static struct world world;
    world = (struct world){.ring = ring};
    run_world(&world);
    CHECK_MSG(world.status[0] == RT_OK, "%s", world.err[0].text);
    size_t wrong = 0;
    for (size_t i = 0; i < FLOATS - 3; i++)
        wrong += world.fetched[i] != value(ring ? 2 : 1, 0, i + 3);
    for (size_t i = 0; i < FLOATS; i++)
        wrong += world.store[3].tensor[0][i] != value(9, 0, i);
    for (size_t i = 0; i < 5; i++)
        wrong += world.store[3].tensor[1][i] != (i == 0 ? value(3, 1, 0) : value(9, 1, i - 1));
    CHECK_MSG(wrong == 0, "%zu floats are wrong", wrong);
    CHECK(world.store[3].update == 77 && world.store[1].update == 0 && world.store[2].update == 0);
    close_world(&world);
}

TEST(over_direct_links) {
    moves(false);
}

TEST(round_a_ring) {
    moves(true);
}

/* A failure to take the floats is told; the holder gives all of them all the same. */
TEST(a_taker_that_fails) {
    static struct world world;
    world = (struct world){.take_fails = RT_IO};
    run_world(&world);
    CHECK_MSG(world.status[0] == RT_IO && strstr(world.err[0].text, "no room"), "%s", world.err[0].text);
    CHECK(world.status[1] == RT_OK && world.taken > 0 && world.taken < FLOATS);
    close_world(&world);
}

#define PART(which, from, size)                                                                              \
    {                                                                                                        \
        .type = RT_MESSAGE_PART, .target = 1, .tensor_index = which, .first = from, .tensors = 1,            \
        .tensor = {                                                                                          \
            {.dtype = RT_DTYPE_F32, .rank = 1, .dims = {size}}                                               \
        }                                                                                                    \
    }

TEST(nothing_else_is_believed) {
    static const struct {
        struct rt_message message;
        size_t floats;
        const char *refused;
    } cases[] = {
        {PART(2, 0, 4), 4, "names state tensor 2; there are 2"},
        {PART(1, 3, 4), 4, "names 4 floats from 3 on; the node has 5"},
        {PART(1, UINT64_MAX, 1), 1, "the node has 5"},
        {PART(1, 0, 3), 3, "non-finite value in state tensor 1"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .tensor_index = 1, .floats = 6},
         0,
         "names 6 floats from 0 on"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .tensor_index = 1}, 0, "names 0 floats"},
        {{.type = RT_MESSAGE_FETCH, .target = 1, .floats = 1, .state_version = 3},
         0,
         "the state of update 3, which is gone"},
        {{.type = RT_MESSAGE_FETCH, .target = 2, .floats = 1}, 0, "for node 2 came to node 1"},
        {{.type = RT_MESSAGE_LOAD, .target = 1, .run = 1}, 0, "another run"},
        {{.type = RT_MESSAGE_LOAD, .target = 1, .stored = 5},
         0,
         "0 floats were stored, where the load message speaks of 5"},
        {{.type = RT_MESSAGE_SNAPSHOT}, 0, "unexpected snapshot message"},
        {{.type = RT_MESSAGE_EXAMPLES,
          .tensors = 1,
          .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {1}}}},
         1,
         "this node has data of its own"},
        {{.type = RT_MESSAGE_PART,
          .target = 1,
          .tensors = 1,
          .tensor = {{.dtype = RT_DTYPE_U32, .rank = 1, .dims = {1}}}},
         1,
         "wrong shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct world world;
        world = (struct world){.hostile = &cases[i].message, .hostile_floats = cases[i].floats};
        run_world(&world);
        CHECK_MSG(world.status[1] == RT_BAD_INPUT && strstr(world.err[1].text, cases[i].refused),
                  "case %zu: %s", i, world.err[1].text);
        size_t changed = 0;
        for (size_t k = 0; k < 5; k++)
            changed += world.store[1].tensor[1][k] != value(1, 1, k);
        CHECK_MSG(changed == 0, "case %zu: %zu floats were written", i, changed);
        close_world(&world);
    }
}

TEST_MAIN()
