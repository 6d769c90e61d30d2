/*
 * Collectives carried out over a transport: every algorithm, numbers of participants, lengths, several loads
 * in flight, random delays, and peers that send nonsense. What the lists of moves are is test_moves.c's;
 * which collectives there are is support/collective.c's.
 */
/* labels: threads */
#include "exchange/collective/executor.h"

#include "base/rng.h"
#include "support/collective.h"
#include "support/collectivesim.h"
#include "support/mesh.h"
#include "support/test.h"
#include <math.h>

enum { LOADS = 4 };

/* ---- a case ---- */

struct node {
    struct rt_executor *executor;
    float *gradient[LOADS], *params[LOADS];
    float *whole; /* the parameters of all loads, one behind the other */
};

struct run {
    const struct collective *collective;
    size_t n, count, loads, updates, segment;
    float (*number)(size_t rank, uint64_t update, size_t i);
    double pause; /* at most so long between two starts, at random */
    struct node nodes[MESH_MOST];
};

static float whole_number(size_t rank, uint64_t update, size_t i) {
    return (float)((rank * 131 + i * 7 + update * 17) & 1023) - 512;
}

static float any_number(size_t rank, uint64_t update, size_t i) {
    uint32_t words[4];
    rt_rng_block(5, RT_PURPOSE_SHUFFLE, (uint32_t)rank, (uint32_t)i, (uint32_t)update, words);
    return (float)((int32_t)words[0]) * ldexpf(1, (int)(words[1] % 24) - 40);
}

/* Loads differ in length. */
static size_t load_count(const struct run *run, size_t load) {
    return run->count + load * 3;
}

static size_t load_offset(const struct run *run, size_t load) {
    size_t offset = 0;
    for (size_t i = 0; i < load; i++)
        offset += load_count(run, i);
    return offset;
}

/* What a node puts in, of `count` floats; anything else is in its place before, and must not count. */
static void fill(const struct run *run, size_t rank, uint64_t number, size_t count, float *gradient) {
    size_t first, end;
    collective_range(run->collective->given, run->n, rank, count, &first, &end);
    for (size_t i = 0; i < count; i++)
        gradient[i] = i >= first && i < end ? run->number(rank, number, i) : 77;
}

/* The first and the end of the result that a node has. */
static void range_had(const struct run *run, size_t rank, size_t count, size_t *first, size_t *end) {
    collective_range(run->collective->had, run->n, rank, count, first, end);
}

/* What a server does with a gradient: parameters that tell it. */
static void apply(void *user, size_t offset, size_t count, const float *gradient) {
    struct node *node = user;
    for (size_t i = 0; i < count; i++)
        node->whole[offset + i] = -2 * gradient[i];
}

static rt_status make_executor(struct run *run, const struct rt_communicator *comm, struct node *node,
                               struct rt_error *err) {
    uint16_t ranks[MESH_MOST];
    struct rt_load_settings loads[LOADS] = {{.count = 0}};
    rt_status status = RT_OK;
    for (size_t i = 0; i < run->n; i++)
        ranks[i] = (uint16_t)i;
    const struct rt_team team = {.ranks = ranks, .count = run->n, .place = comm->rank};
    node->whole = calloc(load_offset(run, run->loads) + 1, sizeof(float));
    for (size_t k = 0; k < run->loads; k++) {
        node->gradient[k] = calloc(load_count(run, k) + 1, sizeof(float));
        node->params[k] = node->whole + load_offset(run, k);
        loads[k].count = load_count(run, k);
        loads[k].offset = load_offset(run, k);
        loads[k].gradient = node->gradient[k];
        loads[k].params = node->params[k];
        if (status == RT_OK)
            status = collective_moves(run->collective, &team, loads[k].count, &loads[k].collective, err);
    }
    if (status != RT_OK)
        return status;
    const struct rt_executor_settings settings = {.comm = comm,
                                                  .loads = loads,
                                                  .load_count = run->loads,
                                                  .segment_floats = run->segment,
                                                  .apply = apply,
                                                  .user = node};
    return rt_executor_create(&settings, &node->executor, err);
}

static float expected(const struct run *run, uint64_t number, size_t count, size_t i) {
    float sum = 0;
    for (size_t p = 0; p < run->n; p++) {
        size_t first, end;
        collective_range(run->collective->given, run->n, p, count, &first, &end);
        sum += i >= first && i < end ? run->number(p, number, i) : 0;
    }
    return run->collective->applied ? -2 * sum : sum;
}

static const float *result_of(const struct run *run, size_t rank, size_t load) {
    const struct node *node = &run->nodes[rank];
    return run->collective->applied ? node->params[load] : node->gradient[load];
}

static void check_load(struct run *run, const struct rt_communicator *comm, uint64_t number) {
    const size_t load = number % run->loads, count = load_count(run, load);
    const float *got = result_of(run, comm->rank, load);
    const size_t step = count > 10000 ? 997 : 1; /* of long ones a few here, and all at the end */
    size_t first, end;
    range_had(run, comm->rank, count, &first, &end);
    for (size_t i = first; i < end; i += step) {
        const float sum = expected(run, number, count, i);
        if (got[i] != sum) {
            rt_test_fail(__FILE__, __LINE__, "%s, %zu nodes: float %zu of %zu of load %llu at %u: %g, not %g",
                         run->collective->name, run->n, i, count, (unsigned long long)number, comm->rank,
                         (double)got[i], (double)sum);
            return;
        }
    }
}

/* After the last update: all floats on all nodes. */
static void check_end(const struct run *run) {
    for (size_t load = 0; load < run->loads; load++) {
        const size_t count = load_count(run, load);
        float *sums = malloc((count + 1) * sizeof *sums);
        for (size_t i = 0; i < count; i++)
            sums[i] = expected(run, (run->updates - 1) * run->loads + load, count, i);
        for (size_t p = 0; p < run->n; p++) {
            size_t first, end;
            range_had(run, p, count, &first, &end);
            for (size_t i = first; i < end; i++)
                if (result_of(run, p, load)[i] != sums[i]) {
                    rt_test_fail(__FILE__, __LINE__, "%s, %zu nodes: float %zu at %zu is wrong",
                                 run->collective->name, run->n, i, p);
                    break;
                }
        }
        free(sums);
    }
}

static bool take_event(struct run *run, struct rt_communicator *comm) {
    struct node *node = &run->nodes[comm->rank];
    struct rt_event event;
    struct rt_error err = {0};
    rt_status status = RT_OK;
    if (!mesh_take(comm, &event))
        return false;
    CHECK(rt_executor_event(node->executor, &event, &status, &err));
    CHECK_MSG(status == RT_OK, "%s", err.text);
    return status == RT_OK;
}

/* Each load of each update as soon as the one before it in the same place is done, so that updates overlap.
 */
static void program(void *user, struct rt_communicator *comm) {
    struct run *run = user;
    struct node *node = &run->nodes[comm->rank];
    struct rt_error err;
    const uint64_t total = run->updates * run->loads;
    uint64_t seen = 0;
    CHECK_OK(make_executor(run, comm, node, &err));
    CHECK(rt_executor_bytes(node->executor) > 0 && rt_executor_waits_for(node->executor) == UINT16_MAX);
    while (seen < total) {
        const uint64_t next = rt_executor_started(node->executor);
        for (; seen < rt_executor_done(node->executor); seen++)
            if (run->number == whole_number)
                check_load(run, comm, seen);
        if (next < total && next < seen + run->loads) {
            const size_t load = next % run->loads;
            fill(run, comm->rank, next, load_count(run, load), node->gradient[load]);
            if (run->pause > 0) {
                uint32_t words[4];
                rt_rng_block(9, RT_PURPOSE_SHUFFLE, comm->rank, (uint32_t)next, 0, words);
                rt_endpoint_sleep(comm->endpoint, rt_endpoint_now(comm->endpoint) +
                                                      run->pause * (double)words[0] / 4294967296.0);
            }
            rt_executor_start(node->executor);
        } else if (seen < total && rt_executor_done(node->executor) == seen) {
            if (!take_event(run, comm))
                return;
        }
    }
}

static void release(struct run *run) {
    for (size_t i = 0; i < run->n; i++) {
        struct node *node = &run->nodes[i];
        rt_executor_destroy(node->executor);
        for (size_t k = 0; k < run->loads; k++)
            free(node->gradient[k]);
        free(node->whole);
    }
}

/* Where something has failed there may be no result. */
static void finish(struct run *run) {
    if (rt_test_failures == 0)
        check_end(run);
    release(run);
}

static void run_in_memory(struct run run) {
    if (!collective_is_possible(run.collective, run.n) || rt_test_failures > 0)
        return;
    mesh_in_memory(NULL, run.n, program, &run);
    finish(&run);
}

static void run_over_tcp(struct run run) {
    if (!collective_is_possible(run.collective, run.n) || rt_test_failures > 0)
        return;
    mesh_over_tcp(run.n, program, &run);
    finish(&run);
}

/* ---- sums ---- */

TEST(sums_in_memory) {
    for (size_t k = 0; k < collective_count; k++)
        for (size_t n = 1; n <= 9; n++) {
            const size_t counts[] = {0, 1, n - 1, n, 1000};
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                run_in_memory((struct run){.collective = &collectives[k],
                                           .n = n,
                                           .count = counts[c],
                                           .loads = 1,
                                           .updates = 2,
                                           .segment = 64,
                                           .number = whole_number});
        }
}

/* The thread sanitizer looks at threads, not at sums: it is content with a few segments and fewer nodes. In
 * memory one thread runs at a time. The address sanitizer looks at every segment as it does at one. */
#if defined(__SANITIZE_THREAD__)
enum { LONG_STEP = 5, LONG_COUNT = 300003, FLIGHT_STEP = 3, FLIGHT_UPDATES = 8 };
#elif defined(__SANITIZE_ADDRESS__)
enum { LONG_STEP = 4, LONG_COUNT = 1000003, FLIGHT_STEP = 2, FLIGHT_UPDATES = 20 };
#else
enum { LONG_STEP = 1, LONG_COUNT = 1000003, FLIGHT_STEP = 2, FLIGHT_UPDATES = 20 };
#endif

static void long_sums(size_t first, size_t step) {
    for (size_t k = first; k < collective_count; k += step)
        for (size_t n = 1; n <= 9; n += LONG_STEP)
            run_in_memory((struct run){.collective = &collectives[k],
                                       .n = n,
                                       .count = LONG_COUNT,
                                       .loads = 1,
                                       .updates = 1,
                                       .number = whole_number});
}

TEST(long_sums_in_memory) {
    long_sums(0, 2);
}

TEST(more_long_sums_in_memory) {
    long_sums(1, 2);
}

TEST(sums_over_tcp) {
    for (size_t k = 0; k < collective_count; k++)
        for (size_t n = 1; n <= 9; n++) {
            const size_t counts[] = {0, 1, n - 1, n, 1000};
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                if ((n + k + c) % 9 == 0)
                    run_over_tcp((struct run){.collective = &collectives[k],
                                              .n = n,
                                              .count = counts[c],
                                              .loads = 2,
                                              .updates = 3,
                                              .segment = 100,
                                              .number = whole_number});
        }
}

TEST(long_sums_over_tcp) {
    for (size_t k = 0; k < collective_count; k++)
        run_over_tcp((struct run){.collective = &collectives[k],
                                  .n = 2 + k % 4,
                                  .count = LONG_COUNT,
                                  .loads = 1,
                                  .updates = 3,
                                  .number = whole_number});
}

/* Whoever else calls the parties, before they know one another or later, changes nothing. */
TEST(sums_among_strangers) {
    for (size_t n = 2; n <= 5 && rt_test_failures == 0; n++) {
        struct run run = {.collective = &collectives[0],
                          .n = n,
                          .count = 1000,
                          .loads = 2,
                          .updates = 3,
                          .segment = 100,
                          .number = whole_number};
        mesh_among_strangers(n, program, &run);
        finish(&run);
    }
}

/* ---- order and overlap ---- */

TEST(several_loads_in_flight_with_random_delays) {
    for (size_t k = 0; k < collective_count; k++)
        for (size_t n = 2; n <= 6; n += FLIGHT_STEP)
            run_in_memory((struct run){.collective = &collectives[k],
                                       .n = n,
                                       .count = 700,
                                       .loads = LOADS,
                                       .updates = 6,
                                       .segment = 32,
                                       .number = whole_number,
                                       .pause = 3e-3});
}

TEST(several_loads_in_flight_over_tcp) {
    for (size_t k = 0; k < collective_count; k++)
        run_over_tcp((struct run){.collective = &collectives[k],
                                  .n = 4,
                                  .count = 5000,
                                  .loads = LOADS,
                                  .updates = FLIGHT_UPDATES,
                                  .segment = 300,
                                  .number = whole_number,
                                  .pause = 3e-4});
}

/* What the lists of moves say, carried out one after the other: the order of addition is theirs. */
static float *plain_result(const struct run *run) {
    struct rt_collectivesim sim;
    struct rt_error err;
    char why[200];
    uint16_t ranks[MESH_MOST];
    float *result = calloc(run->count, sizeof *result);
    const unsigned buffer = run->collective->applied ? RT_BUFFER_PARAMS : RT_BUFFER_GRADIENT;
    rt_collectivesim_init(&sim, run->n, run->count);
    for (size_t p = 0; p < run->n; p++)
        ranks[p] = (uint16_t)p;
    for (size_t p = 0; p < run->n; p++) {
        const struct rt_team team = {.ranks = ranks, .count = run->n, .place = p};
        fill(run, p, 0, run->count, sim.member[p].buffer[RT_BUFFER_GRADIENT]);
        if (collective_moves(run->collective, &team, run->count, &sim.member[p].collective, &err) != RT_OK)
            rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    }
    if (!rt_collectivesim_run(&sim, why))
        rt_test_fail(__FILE__, __LINE__, "%s", why);
    for (size_t p = 0; p < run->n; p++) {
        size_t first, end;
        range_had(run, p, run->count, &first, &end);
        for (size_t i = first; i < end; i++) /* the simulation subtracts a gradient from parameters of zero */
            result[i] = (run->collective->applied ? 2 : 1) * sim.member[p].buffer[buffer][i];
    }
    rt_collectivesim_deinit(&sim);
    return result;
}

/* The same bits on all nodes, in memory and, for some numbers of nodes, over TCP, whatever the segments:
 * those of the list. */
TEST(all_nodes_have_the_same_bits) {
    for (size_t k = 0; k < collective_count; k++)
        for (size_t n = 1; n <= 9; n += LONG_STEP) {
            float *plain = NULL;
            for (int how = 0; how < ((n + k) % 4 == 0 ? 3 : 2); how++) {
                struct run run = {.collective = &collectives[k],
                                  .n = n,
                                  .count = 3000,
                                  .loads = 1,
                                  .updates = 1,
                                  .segment = how == 0 ? 0 : 77,
                                  .number = any_number};
                if (!collective_is_possible(run.collective, n))
                    continue;
                if (!plain)
                    plain = plain_result(&run);
                if (how == 2)
                    mesh_over_tcp(n, program, &run);
                else
                    mesh_in_memory(NULL, n, program, &run);
                for (size_t p = 0; p < n && rt_test_failures == 0; p++) {
                    size_t first, end;
                    range_had(&run, p, run.count, &first, &end);
                    CHECK_MSG(memcmp(result_of(&run, p, 0) + first, plain + first,
                                     (end - first) * sizeof *plain) == 0,
                              "%s, %zu nodes: node %zu has other bits (%d)", run.collective->name, n, p, how);
                }
                release(&run);
            }
            free(plain);
        }
}

/* ---- who is waited for ---- */

static void late_program(void *user, struct rt_communicator *comm) {
    struct run *run = user;
    struct node *node = &run->nodes[comm->rank];
    struct rt_error err;
    CHECK_OK(make_executor(run, comm, node, &err));
    if (comm->rank == 2)
        rt_endpoint_sleep(comm->endpoint, 50);
    rt_executor_start(node->executor);
    while (rt_executor_done(node->executor) == 0) {
        if (comm->rank == 0 && rt_endpoint_now(comm->endpoint) > 10 && rt_endpoint_now(comm->endpoint) < 49)
            CHECK(rt_executor_waits_for(node->executor) == 2);
        struct rt_event event;
        rt_status status = RT_OK;
        if (!rt_endpoint_wait(comm->endpoint, rt_endpoint_now(comm->endpoint) + 20, &event))
            continue;
        CHECK(rt_executor_event(node->executor, &event, &status, &err) && status == RT_OK);
    }
    CHECK(rt_executor_waits_for(node->executor) == UINT16_MAX);
}

TEST(the_one_who_is_late_is_known) {
    struct run run = {.collective = collective_find("star"),
                      .n = 4,
                      .count = 1000,
                      .loads = 1,
                      .updates = 1,
                      .segment = 100};
    mesh_in_memory(NULL, run.n, late_program, &run);
    release(&run);
}

/* ---- bad input ---- */

/* What is false about an otherwise good chunk. */
static void lie_run(struct rt_message *message) {
    message->run++;
}
static void lie_type(struct rt_message *message) {
    message->type = RT_MESSAGE_PUSH;
}
static void lie_source(struct rt_message *message) {
    message->source = 0;
}
static void lie_load(struct rt_message *message) {
    message->micro = 1;
}
static void lie_place(struct rt_message *message) {
    message->update = 5;
}
static void lie_count(struct rt_message *message) {
    message->tensor[0].dims[0] = 9;
}
static void lie_element(struct rt_message *message) {
    message->tensor[0].dtype = RT_DTYPE_U32;
}
static void lie_rank(struct rt_message *message) {
    message->tensor[0] = (struct rt_message_tensor){RT_DTYPE_F32, 2, {2, 5}};
}
static void lie_none(struct rt_message *message) {
    message->tensors = 0;
}
static void lie_nothing(struct rt_message *message) {
    (void)message;
}

static const struct lie {
    const char *said; /* a part of the sentence */
    void (*lie)(struct rt_message *message);
    size_t head_bytes, body_bytes;
} lies[] = {
    {"not a RingTMP message", lie_nothing, 0, 40},    {"not a RingTMP message", lie_nothing, 5, 40},
    {"another run", lie_run, RT_MESSAGE_HEAD, 40},    {"push", lie_type, RT_MESSAGE_HEAD, 40},
    {"from rank 0", lie_source, RT_MESSAGE_HEAD, 40}, {"load 1", lie_load, RT_MESSAGE_HEAD, 40},
    {"from 5 on", lie_place, RT_MESSAGE_HEAD, 40},    {"bytes", lie_nothing, RT_MESSAGE_HEAD, 36},
    {"bytes", lie_nothing, RT_MESSAGE_HEAD, 0},       {"shape", lie_count, RT_MESSAGE_HEAD, 36},
    {"shape", lie_element, RT_MESSAGE_HEAD, 40},      {"shape", lie_rank, RT_MESSAGE_HEAD, 40},
    {"shape", lie_none, RT_MESSAGE_HEAD, 0},
};

struct deceit {
    const struct lie *lie;
    struct run run;
};

static void deceived_program(void *user, struct rt_communicator *comm) {
    struct deceit *deceit = user;
    struct run *run = &deceit->run;
    struct node *node = &run->nodes[comm->rank];
    const struct lie *lie = deceit->lie;
    struct rt_event event;
    struct rt_error err = {0};
    if (comm->rank == 1) {
        static const float body[10];
        struct rt_send send = {.channel = RT_CHANNEL_SECOND, .body = {{body, lie->body_bytes}}};
        struct rt_message message = {.type = RT_MESSAGE_CHUNK,
                                     .source = 1,
                                     .run = MESH_RUN,
                                     .tensors = 1,
                                     .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {10}}}};
        lie->lie(&message);
        rt_message_encode(&message, send.head);
        send.head_bytes = lie->head_bytes;
        rt_link_send(comm->links[0], &send);
        CHECK(mesh_take(comm, &event) && event.kind == RT_EVENT_SENT);
        return;
    }
    rt_status status = RT_OK;
    CHECK_OK(make_executor(run, comm, node, &err));
    rt_executor_start(node->executor);
    while (status == RT_OK) {
        REQUIRE(mesh_take(comm, &event));
        REQUIRE(rt_executor_event(node->executor, &event, &status, &err));
    }
    CHECK_MSG(strstr(err.text, lie->said), "'%s' says nothing of '%s'", err.text, lie->said);
    /* The engine knows the link that it came from, and so the node: its name does not stand in the reason. */
    CHECK_MSG(event.link == comm->links[1] && !strstr(err.text, "node 1"), "%s", err.text);
}

TEST(nonsense_from_a_peer_is_refused_with_the_reason) {
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        for (size_t k = 0; k < 2; k++) {
            struct deceit deceit = {
                .lie = &lies[i],
                .run = {.collective = collective_find("doubling"), .n = 2, .count = 10, .loads = 1}};
            if (k == 0)
                mesh_in_memory(NULL, 2, deceived_program, &deceit);
            else
                mesh_over_tcp(2, deceived_program, &deceit);
            release(&deceit.run);
        }
}

/* A list that cannot be carried out is refused before anything is posted, and freed. */
static void refused_program(void *user, struct rt_communicator *comm) {
    (void)user;
    struct rt_error err = {0};
    float floats[10];
    const struct rt_collective_op bad[] = {
        {.kind = RT_OP_SEND, .peer = 5, .count = 10},
        {.kind = RT_OP_SEND, .peer = comm->rank, .count = 10},
        {.kind = RT_OP_SEND, .peer = 1, .first = 5, .count = 6},
        {.kind = RT_OP_SEND, .peer = 1, .first = SIZE_MAX, .count = 2},
        {.kind = RT_OP_SEND, .peer = 1, .buffer = RT_BUFFER_PARAMS, .count = 10},
        {.kind = RT_OP_APPLY, .count = 10},
        {.kind = 77, .count = 10},
    };
    for (size_t i = 0; comm->rank == 0 && i < sizeof bad / sizeof *bad; i++) {
        struct rt_load_settings load = {.gradient = floats, .count = 10};
        struct rt_executor *executor;
        CHECK_OK(rt_collective_add(&load.collective, bad[i], &err));
        const struct rt_executor_settings settings = {.comm = comm, .loads = &load, .load_count = 1};
        CHECK_MSG(rt_executor_create(&settings, &executor, &err) != RT_OK && err.text[0], "move %zu", i);
    }
}

TEST(impossible_moves_are_refused) {
    mesh_in_memory(NULL, 2, refused_program, NULL);
}

TEST_MAIN()
