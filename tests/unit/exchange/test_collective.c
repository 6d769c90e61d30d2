/*
 * Lists of moves, carried out here one move at a time without any network: for every algorithm and number of
 * participants the two ends of each link must agree, the sums must be right, and added in the order promised.
 */
#include "exchange/collective/collective.h"

#include "base/rng.h"
#include "support/test.h"
#include <math.h>

enum { MOST = 18, BUFFERS = RT_MAX_BUFFERS };

/* ---- what is tested: a collective, as a function that makes one place's moves ---- */

struct collective {
    const char *name;
    rt_status (*make)(const struct collective *this, const struct rt_team *team, size_t count,
                      struct rt_collective *ops, struct rt_error *err);
    enum rt_reduction how;
    size_t degree;
    struct rt_tree_form form;
};

static rt_status make_all(const struct collective *this, const struct rt_team *team, size_t count,
                          struct rt_collective *ops, struct rt_error *err) {
    const struct rt_link_cost cost = {1e-4, 1e8, 1e-9};
    return rt_collective_reduce_all(this->how, team, this->degree, 0, count, &cost, ops, err);
}

/* Up and down the same tree. */
static rt_status make_rooted(const struct collective *this, const struct rt_team *team, size_t count,
                             struct rt_collective *ops, struct rt_error *err) {
    rt_status status = rt_collective_reduce(team, &this->form, 0, count, ops, err);
    return status == RT_OK
               ? rt_collective_broadcast(team, &this->form, 0, count, RT_BUFFER_GRADIENT, ops, err)
               : status;
}

/* Reduce-scatter, the parts to the first, back, all-gather: what a server with workers that scatter does. */
static rt_status make_scatter(const struct collective *this, const struct rt_team *team, size_t count,
                              struct rt_collective *ops, struct rt_error *err) {
    (void)this;
    rt_status status = rt_collective_reduce_scatter(team, 0, count, RT_BUFFER_GRADIENT, ops, err);
    if (status == RT_OK)
        status = rt_collective_gather(team, 0, count, RT_BUFFER_GRADIENT, ops, err);
    if (status == RT_OK)
        status = rt_collective_scatter(team, 0, count, RT_BUFFER_GRADIENT, ops, err);
    if (status == RT_OK)
        status = rt_collective_all_gather(team, 0, count, RT_BUFFER_GRADIENT, ops, err);
    return status;
}

#define ROOTED_DEEP(name_, shape_, degree_, contributes_, depth_)                                            \
    {                                                                                                        \
        .name = name_, .make = make_rooted, .form = {                                                        \
            .shape = shape_,                                                                                 \
            .degree = degree_,                                                                               \
            .root_contributes = contributes_,                                                                \
            .depth = depth_                                                                                  \
        }                                                                                                    \
    }
#define ROOTED(name_, shape_, degree_, contributes_) ROOTED_DEEP(name_, shape_, degree_, contributes_, 0)

static const struct collective collectives[] = {
    {.name = "ring", .make = make_all, .how = RT_REDUCE_RING},
    {.name = "doubling", .make = make_all, .how = RT_REDUCE_DOUBLING},
    {.name = "halving", .make = make_all, .how = RT_REDUCE_HALVING},
    {.name = "tree", .make = make_all, .how = RT_REDUCE_TREE},
    {.name = "tree of degree 3", .make = make_all, .how = RT_REDUCE_TREE, .degree = 3},
    {.name = "auto", .make = make_all, .how = RT_REDUCE_AUTO},
    {.name = "scatter", .make = make_scatter},
    ROOTED("star", RT_SHAPE_STAR, 0, true),
    ROOTED("binomial", RT_SHAPE_BINOMIAL, 0, true),
    ROOTED("chain", RT_SHAPE_ARY, 1, true),
    ROOTED("binary", RT_SHAPE_ARY, 2, true),
    ROOTED("groups of 2", RT_SHAPE_GROUPS, 2, true),
    ROOTED("groups of 3", RT_SHAPE_GROUPS, 3, true),
    ROOTED("star round a server", RT_SHAPE_STAR, 0, false),
    ROOTED("binomial below a server", RT_SHAPE_BINOMIAL, 0, false),
    ROOTED("binary below a server", RT_SHAPE_ARY, 2, false),
    ROOTED("groups of 2 below a server", RT_SHAPE_GROUPS, 2, false),
    ROOTED("groups of 3 below a server", RT_SHAPE_GROUPS, 3, false),
    ROOTED_DEEP("groups of groups", RT_SHAPE_GROUPS, 2, true, 3),
    ROOTED_DEEP("groups of groups below a server", RT_SHAPE_GROUPS, 2, false, 3),
    ROOTED_DEEP("groups without depth", RT_SHAPE_GROUPS, 2, true, 1),
    ROOTED_DEEP("groups deeper than there are places", RT_SHAPE_GROUPS, 3, false, 16),
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

static bool first_contributes(const struct collective *this) {
    return this->make != make_rooted || this->form.root_contributes;
}

/* ---- a world without a network ---- */

struct message {
    size_t first, count;
    float *floats;
};

struct queue {
    struct message *messages;
    size_t sent, taken, room;
};

struct world {
    const struct collective *collective;
    size_t n, count;
    uint16_t ranks[MOST]; /* of the places: not their numbers */
    struct rt_collective ops[MOST];
    float *buffers[MOST][BUFFERS];
    struct queue queues[MOST][MOST]; /* from, to */
};

static size_t place_of(const struct world *world, uint16_t rank) {
    size_t place = 0;
    while (place < world->n && world->ranks[place] != rank)
        place++;
    return place;
}

static bool make_world(struct world *world, const struct collective *collective, size_t n, size_t count) {
    struct rt_error err = {0};
    *world = (struct world){.collective = collective, .n = n, .count = count};
    for (size_t i = 0; i < n; i++)
        world->ranks[i] = (uint16_t)((i * 5 + 3) % (5 * MOST + 1));
    for (size_t i = 0; i < n; i++) {
        const struct rt_team team = {.ranks = world->ranks, .count = n, .place = i};
        if (collective->make(collective, &team, count, &world->ops[i], &err) != RT_OK) {
            rt_test_fail(__FILE__, __LINE__, "%s, %zu places: %s", collective->name, n, err.text);
            return false;
        }
        for (size_t b = 0; b < RT_BUFFER_SPARE + world->ops[i].spares; b++)
            world->buffers[i][b] = calloc(count + 1, sizeof(float));
    }
    return true;
}

static void end_world(struct world *world) {
    for (size_t i = 0; i < world->n; i++) {
        rt_collective_deinit(&world->ops[i]);
        for (size_t b = 0; b < BUFFERS; b++)
            free(world->buffers[i][b]);
        for (size_t j = 0; j < world->n; j++)
            free(world->queues[i][j].messages);
    }
}

static void put(struct queue *queue, const struct rt_collective_op *op, const float *from) {
    if (queue->sent == queue->room) {
        queue->room = queue->room ? 2 * queue->room : 8;
        queue->messages = realloc(queue->messages, queue->room * sizeof *queue->messages);
    }
    struct message *message = &queue->messages[queue->sent++];
    *message = (struct message){op->first, op->count, malloc(op->count * sizeof(float))};
    memcpy(message->floats, from + op->first, op->count * sizeof(float));
}

/* One move of one place; false: it has to wait. */
static bool carry_out(struct world *world, size_t place, const struct rt_collective_op *op) {
    float *to = world->buffers[place][op->buffer];
    const size_t peer = place_of(world, op->peer);
    if (op->kind == RT_OP_SEND) {
        put(&world->queues[place][peer], op, to);
    } else if (op->kind == RT_OP_MERGE) {
        for (size_t i = op->first; i < op->first + op->count; i++)
            to[i] += world->buffers[place][op->from][i];
    } else {
        struct queue *queue = &world->queues[peer][place];
        if (queue->taken == queue->sent)
            return false;
        struct message *message = &queue->messages[queue->taken++];
        CHECK_MSG(message->first == op->first && message->count == op->count,
                  "%s, %zu places: %zu sent %zu floats from %zu on, %zu expects %zu from %zu on",
                  world->collective->name, world->n, peer, message->count, message->first, place, op->count,
                  op->first);
        const size_t count = op->count < message->count ? op->count : message->count;
        for (size_t i = 0; op->kind == RT_OP_ADD && i < count; i++)
            to[op->first + i] += message->floats[i];
        if (op->kind == RT_OP_TAKE)
            memcpy(to + op->first, message->floats, count * sizeof(float));
        free(message->floats);
    }
    return true;
}

/* Takes turns among the places until all are through; each waits for what it receives. */
static void run_world(struct world *world) {
    size_t next[MOST] = {0}, left = 0;
    bool moved = true;
    for (size_t i = 0; i < world->n; i++)
        left += world->ops[i].count;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < world->n; i++)
            while (next[i] < world->ops[i].count && carry_out(world, i, &world->ops[i].list[next[i]])) {
                next[i]++;
                left--;
                moved = true;
            }
    }
    CHECK_MSG(left == 0, "%s, %zu places, %zu floats: %zu moves wait for ever", world->collective->name,
              world->n, world->count, left);
    for (size_t i = 0; i < world->n; i++)
        for (size_t j = 0; j < world->n; j++)
            CHECK_MSG(world->queues[i][j].taken == world->queues[i][j].sent,
                      "%s, %zu places: what %zu sent to %zu was not taken", world->collective->name, world->n,
                      i, j);
}

/* ---- numbers ---- */

static float whole_number(size_t place, size_t i) {
    return (float)((place * 131 + i * 7) % 1001) - 500;
}

/* Of many sizes, so that any other order of addition gives other bits somewhere. */
static float any_number(size_t place, size_t i) {
    uint32_t words[4];
    rt_rng_block(5, RT_PURPOSE_SHUFFLE, (uint32_t)place, (uint32_t)i, 0, words);
    return (float)((int32_t)words[0]) * ldexpf(1, (int)(words[1] % 24) - 40);
}

static float number_of(const struct collective *this, float (*make)(size_t, size_t), size_t place, size_t i) {
    return place == 0 && !first_contributes(this) ? 77 : make(place, i); /* a server's buffer: anything */
}

static void fill_world(struct world *world, float (*make)(size_t, size_t)) {
    for (size_t p = 0; p < world->n; p++)
        for (size_t i = 0; i < world->count; i++)
            world->buffers[p][RT_BUFFER_GRADIENT][i] = number_of(world->collective, make, p, i);
}

/* ---- tests ---- */

TEST(parts_cover_a_range) {
    const size_t counts[] = {0, 1, 2, 7, 8, 9, 1000003, SIZE_MAX / 4};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (size_t n = 1; n < 12; n++) {
            size_t expected = 0, least = SIZE_MAX, most = 0;
            for (size_t i = 0; i < n; i++) {
                size_t first, end;
                rt_collective_part(counts[k], n, i, &first, &end);
                CHECK(first == expected && end >= first);
                expected = end;
                least = end - first < least ? end - first : least;
                most = end - first > most ? end - first : most;
            }
            CHECK(expected == counts[k] && most - least <= 1);
        }
}

static void check_sum(const struct collective *collective, size_t n, size_t count) {
    struct world world;
    if (!first_contributes(collective) && n == 1)
        return; /* nobody contributes */
    if (!make_world(&world, collective, n, count))
        return;
    fill_world(&world, whole_number);
    run_world(&world);
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (size_t p = first_contributes(collective) ? 0 : 1; p < n; p++)
            sum += whole_number(p, i);
        for (size_t p = 0; p < n; p++)
            if (world.buffers[p][RT_BUFFER_GRADIENT][i] != sum) {
                rt_test_fail(__FILE__, __LINE__, "%s, %zu places: float %zu of %zu at %zu is %g, not %g",
                             collective->name, n, i, count, p,
                             (double)world.buffers[p][RT_BUFFER_GRADIENT][i], (double)sum);
                end_world(&world);
                return;
            }
    }
    end_world(&world);
}

TEST(every_collective_makes_the_sum_for_any_number_and_length) {
    for (size_t k = 0; k < COLLECTIVES; k++)
        for (size_t n = 1; n <= MOST; n++) {
            const size_t counts[] = {0, 1, 2, n - 1, n, n + 1, 257};
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_sum(&collectives[k], n, counts[c]);
        }
}

/* Numbers of long ranges and their sums are made once for all collectives, and compared as bytes. */
enum { LONG = 1000003, LONG_PLACES = 9 };

struct long_numbers {
    float *of[LONG_PLACES]; /* a place's own */
    float *sum, *others;    /* of the places so far; without the first */
};

static float *long_room(void) {
    float *floats = calloc(LONG, sizeof *floats);
    if (!floats)
        exit(1);
    return floats;
}

/* One more place, the n-th. */
static void add_long_place(struct long_numbers *numbers, size_t n) {
    float *own = numbers->of[n - 1] = long_room();
    for (size_t i = 0; i < LONG; i++)
        own[i] = whole_number(n - 1, i);
    for (size_t i = 0; i < LONG; i++)
        numbers->sum[i] += own[i];
    for (size_t i = 0; n > 1 && i < LONG; i++)
        numbers->others[i] += own[i];
}

static void check_long_sum(const struct collective *collective, size_t n,
                           const struct long_numbers *numbers) {
    const float *sum = first_contributes(collective) ? numbers->sum : numbers->others;
    struct world world;
    if ((!first_contributes(collective) && n == 1) || !make_world(&world, collective, n, LONG))
        return;
    for (size_t p = 0; p < n; p++) /* a server has numbers too, which must not count */
        memcpy(world.buffers[p][RT_BUFFER_GRADIENT], numbers->of[p], LONG * sizeof(float));
    run_world(&world);
    for (size_t p = 0; p < n; p++)
        CHECK_MSG(memcmp(world.buffers[p][RT_BUFFER_GRADIENT], sum, LONG * sizeof(float)) == 0,
                  "%s, %zu places: place %zu has another sum of %d floats", collective->name, n, p, LONG);
    end_world(&world);
}

TEST(long_ranges) {
    struct long_numbers numbers = {.sum = long_room(), .others = long_room()};
    for (size_t n = 1; n <= LONG_PLACES; n++) {
        add_long_place(&numbers, n);
        for (size_t k = 0; k < COLLECTIVES; k++)
            check_long_sum(&collectives[k], n, &numbers);
    }
    for (size_t p = 0; p < LONG_PLACES; p++)
        free(numbers.of[p]);
    free(numbers.sum);
    free(numbers.others);
}

TEST(all_places_end_with_the_same_bits) {
    for (size_t k = 0; k < COLLECTIVES; k++)
        for (size_t n = 2; n <= 9; n++) {
            struct world world;
            if (!make_world(&world, &collectives[k], n, 300))
                return;
            fill_world(&world, any_number);
            run_world(&world);
            for (size_t p = 1; p < n; p++)
                CHECK_MSG(memcmp(world.buffers[p][RT_BUFFER_GRADIENT], world.buffers[0][RT_BUFFER_GRADIENT],
                                 world.count * sizeof(float)) == 0,
                          "%s: place %zu of %zu has other bits", collectives[k].name, p, n);
            end_world(&world);
        }
}

/* The sum of slices first..first+count as one device makes it (see learn/gradient.h). */
static float tree_sum(size_t first, size_t count, size_t i) {
    return count == 1 ? any_number(first, i)
                      : tree_sum(first, count / 2, i) + tree_sum(first + count / 2, count / 2, i);
}

static void check_tree(const char *name, size_t terms) {
    const struct collective *collective = collectives;
    while (strcmp(collective->name, name) != 0)
        collective++;
    const size_t server = first_contributes(collective) ? 0 : 1;
    struct world world;
    if (!make_world(&world, collective, terms + server, 200))
        return;
    fill_world(&world, any_number);
    run_world(&world);
    for (size_t i = 0; i < world.count; i++) {
        const float expected = tree_sum(server, terms, i);
        if (memcmp(&world.buffers[0][RT_BUFFER_GRADIENT][i], &expected, sizeof expected) != 0) {
            rt_test_fail(__FILE__, __LINE__, "%s of %zu does not add as the slices do", name, terms);
            break;
        }
    }
    end_world(&world);
}

TEST(powers_of_two_add_in_the_tree_of_the_slices) {
    for (size_t n = 1; n <= 16; n *= 2) {
        check_tree("doubling", n);
        check_tree("halving", n);
        check_tree("star", n);
        check_tree("binomial", n);
        check_tree("groups of 2", n);
        check_tree("star round a server", n);
    }
}

/* The order is a property of the numbers: a chain adds otherwise, and would be found out. */
TEST(the_numbers_tell_orders_apart) {
    size_t different = 0;
    for (size_t i = 0; i < 200; i++) {
        float sum = 0;
        for (size_t p = 0; p < 4; p++)
            sum += any_number(p, i);
        different += sum != tree_sum(0, 4, i);
    }
    CHECK(different > 20);
}

TEST(after_reduce_scatter_everybody_has_a_part) {
    for (size_t n = 1; n <= 9; n++) {
        struct world world;
        const struct collective nothing = {.name = "reduce-scatter", .make = make_all};
        if (!make_world(&world, &nothing, n, 100))
            return;
        for (size_t p = 0; p < n; p++) {
            struct rt_error err;
            rt_collective_deinit(&world.ops[p]);
            const struct rt_team team = {.ranks = world.ranks, .count = n, .place = p};
            CHECK_OK(rt_collective_reduce_scatter(&team, 0, 100, RT_BUFFER_GRADIENT, &world.ops[p], &err));
        }
        fill_world(&world, whole_number);
        run_world(&world);
        for (size_t p = 0; p < n; p++) {
            size_t first, end;
            rt_collective_part(100, n, p, &first, &end);
            for (size_t i = first; i < end; i++) {
                float sum = 0;
                for (size_t q = 0; q < n; q++)
                    sum += whole_number(q, i);
                CHECK(world.buffers[p][RT_BUFFER_GRADIENT][i] == sum);
            }
        }
        end_world(&world);
    }
}

/* ---- what they cost, as docs/collectives.md says ---- */

static void count_sends(const struct rt_collective *ops, size_t *messages, size_t *floats) {
    *messages = *floats = 0;
    for (size_t i = 0; i < ops->count; i++)
        if (ops->list[i].kind == RT_OP_SEND) {
            ++*messages;
            *floats += ops->list[i].count;
        }
}

TEST(messages_and_bytes_are_those_of_the_docs) {
    enum { COUNT = 5040 * 16 }; /* every n up to 10 and 16 divides it */
    for (size_t n = 2; n <= 10; n++)
        for (size_t p = 0; p < n; p++) {
            struct rt_error err;
            size_t messages, floats, log = 0, core = 1;
            uint16_t ranks[MOST];
            struct rt_collective ops = {0};
            const struct rt_team team = {.ranks = ranks, .count = n, .place = p};
            for (size_t i = 0; i < n; i++)
                ranks[i] = (uint16_t)i;
            while (core * 2 <= n) {
                core *= 2;
                log++;
            }
            const bool paired = p < 2 * (n - core), is_out = paired && p % 2 == 1;

            CHECK_OK(rt_collective_ring(&team, 0, COUNT, &ops, &err));
            count_sends(&ops, &messages, &floats);
            CHECK(messages == 2 * (n - 1) && floats == 2 * (n - 1) * COUNT / n);
            rt_collective_deinit(&ops);

            CHECK_OK(rt_collective_doubling(&team, 0, COUNT, &ops, &err));
            count_sends(&ops, &messages, &floats);
            CHECK(messages == (is_out ? 1 : log + (paired ? 1 : 0)) && floats == messages * COUNT);
            rt_collective_deinit(&ops);

            CHECK_OK(rt_collective_halving(&team, 0, COUNT, &ops, &err));
            count_sends(&ops, &messages, &floats);
            CHECK(messages == (is_out ? 1 : 2 * log + (paired ? 1 : 0)));
            CHECK(floats == (is_out ? COUNT : 2 * (core - 1) * COUNT / core + (paired ? COUNT : 0)));
            rt_collective_deinit(&ops);
        }
}

TEST(a_star_holds_no_more_terms_than_its_tree_is_high) {
    for (size_t n = 1; n <= MOST; n++) {
        struct rt_error err;
        uint16_t ranks[MOST];
        struct rt_collective ops = {0};
        const struct rt_team team = {.ranks = ranks, .count = n, .place = 0};
        size_t high = 0;
        for (size_t i = 0; i < n; i++)
            ranks[i] = (uint16_t)i;
        while ((size_t)1 << high < n)
            high++;
        CHECK_OK(rt_collective_reduce(
            &team, &(struct rt_tree_form){.shape = RT_SHAPE_STAR, .root_contributes = true}, 0, 10, &ops,
            &err));
        CHECK_MSG(ops.spares <= high, "%zu places need %zu spare buffers", n, ops.spares);
        rt_collective_deinit(&ops);
    }
}

TEST(who_is_not_in_a_team_does_nothing) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        struct rt_error err;
        const uint16_t ranks[] = {4, 2, 7};
        struct rt_collective ops = {0};
        const struct rt_team team = {.ranks = ranks, .count = 3, .place = 3};
        CHECK_OK(collectives[k].make(&collectives[k], &team, 100, &ops, &err));
        CHECK_MSG(ops.count == 0, "%s", collectives[k].name);
        rt_collective_deinit(&ops);
    }
}

/* ---- the choice ---- */

/* spec 2.D.2: VGG-A's 491 MiB and ResNet-110's 6.7 MiB over 1 and 10 Gbit/s, with an update of 2 GiB/s added
 * to every figure; latency counts nothing there. */
TEST(predicted_times_are_those_of_the_published_formulas) {
    static const struct {
        double mib, bandwidth;
        size_t n;
        double doubling, ring; /* ms */
    } golden[] = {{6.7, 125e6, 4, 116.99, 88.07},
                  {6.7, 125e6, 16, 230.70, 109.27},
                  {6.7, 1.25e9, 4, 15.82, 12.19},
                  {491, 125e6, 4, 8573.26, 6453.92},
                  {491, 1.25e9, 32, 2538.90, 1084.22}};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        const double bytes = golden[i].mib * 1048576, update = golden[i].mib / 2048 * 1e3;
        const struct rt_link_cost cost = {1e-15, golden[i].bandwidth, 4.0 / (10 * 1073741824.0)};
        const size_t count = (size_t)(bytes / 4), n = golden[i].n;
        const double doubling = 1e3 * rt_reduction_seconds(RT_REDUCE_DOUBLING, n, count, 0, &cost) + update;
        const double ring = 1e3 * rt_reduction_seconds(RT_REDUCE_RING, n, count, 0, &cost) + update;
        CHECK_MSG(fabs(doubling - golden[i].doubling) < 0.01, "doubling: %.2f ms, not %.2f", doubling,
                  golden[i].doubling);
        CHECK_MSG(fabs(ring - golden[i].ring) < 0.01, "ring: %.2f ms, not %.2f", ring, golden[i].ring);
    }
}

TEST(the_choice_is_the_fastest) {
    const struct rt_link_cost costs[] = {{1e-4, 1.25e8, 1e-9}, {1e-2, 1e9, 1e-9}, {1e-6, 1e6, 1e-8}};
    for (size_t c = 0; c < 3; c++)
        for (size_t n = 2; n < 20; n++)
            for (size_t count = 1; count < 100000000; count *= 100) {
                const enum rt_reduction chosen = rt_reduction_choose(n, count, 2, &costs[c]);
                const double seconds = rt_reduction_seconds(chosen, n, count, 2, &costs[c]);
                CHECK(chosen != RT_REDUCE_AUTO);
                for (int how = RT_REDUCE_RING; how <= RT_REDUCE_TREE; how++)
                    CHECK(seconds <= rt_reduction_seconds((enum rt_reduction)how, n, count, 2, &costs[c]));
                CHECK(seconds == rt_reduction_seconds(RT_REDUCE_AUTO, n, count, 2, &costs[c]));
            }
    CHECK(rt_reduction_choose(8, 1, 0, &costs[0]) == RT_REDUCE_DOUBLING);
    CHECK(rt_reduction_choose(8, 10000000, 0, &costs[0]) == RT_REDUCE_HALVING);
    CHECK(rt_reduction_choose(7, 10000000, 0, &costs[0]) == RT_REDUCE_RING);
    CHECK(rt_reduction_seconds(RT_REDUCE_RING, 1, 1000, 0, &costs[0]) == 0);
    /* Nothing known: still a choice, and a finite time. */
    CHECK(isfinite(rt_reduction_seconds(RT_REDUCE_AUTO, 4, 1000, 0, &(struct rt_link_cost){0})));
}

TEST_MAIN()
