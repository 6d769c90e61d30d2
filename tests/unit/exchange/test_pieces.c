/*
 * Collectives over workers with any number of slices: whatever their runs are, the sum has the bits of the
 * tree over the slices as one device adds it; where all runs are equal nothing is different from workers
 * without slices.
 */
#include "exchange/collective/collective.h"

#include "base/rng.h"
#include "support/collectivesim.h"
#include "support/test.h"
#include <math.h>

enum { MOST_SLICES = 32, FLOATS = 5, SHAPES = 6 };

static const char *const names[SHAPES] = {"doubling", "halving",          "star",
                                          "binomial", "star of a server", "binomial of a server"};

static bool has_server(size_t shape) {
    return shape >= 4;
}

static rt_status make(size_t shape, const struct rt_team *team, size_t count, struct rt_collective *ops,
                      struct rt_error *err) {
    const struct rt_tree_form form = {.shape = shape % 2 ? RT_SHAPE_BINOMIAL : RT_SHAPE_STAR,
                                      .root_contributes = !has_server(shape)};
    if (shape == 0)
        return rt_collective_doubling(team, 0, count, ops, err);
    if (shape == 1)
        return rt_collective_halving(team, 0, count, ops, err);
    RT_TRY(rt_collective_reduce(team, &form, 0, count, ops, err));
    return rt_collective_broadcast(team, &form, 0, count, RT_BUFFER_GRADIENT, ops, err);
}

/* Of many sizes, so that any other order of addition gives other bits somewhere. */
static float leaf(uint32_t slice, size_t i) {
    uint32_t words[4];
    rt_rng_block(9, RT_PURPOSE_SHUFFLE, slice, (uint32_t)i, 0, words);
    return (float)((int32_t)words[0]) * ldexpf(1, (int)(words[1] % 24) - 40);
}

static float subtree(uint32_t first, uint32_t count, size_t i) {
    return count == 1 ? leaf(first, i)
                      : subtree(first, count / 2, i) + subtree(first + count / 2, count / 2, i);
}

static void fill(struct rt_collectivesim_member *member, struct rt_slice_run run) {
    struct rt_slice_run piece[RT_MAX_PIECES];
    const size_t pieces = rt_slices_pieces(run, piece);
    for (size_t k = 0; k < pieces; k++)
        for (size_t i = 0; i < FLOATS; i++)
            member->buffer[k ? RT_BUFFER_SPARE + k - 1 : RT_BUFFER_GRADIENT][i] =
                subtree(piece[k].first, piece[k].count, i);
}

static void describe(const struct rt_slice_run *runs, size_t n, char text[200]) {
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < n && at < 180; i++)
        at += (size_t)snprintf(text + at, 200 - at, "%u+%u ", runs[i].first, runs[i].count);
}

static void check(size_t shape, size_t n, const struct rt_slice_run *runs, uint32_t slices) {
    struct rt_collectivesim sim;
    struct rt_error err = {0};
    uint16_t ranks[MOST_SLICES + 1];
    char why[200] = "", text[200];
    bool same = true;
    describe(runs, n, text);
    rt_collectivesim_init(&sim, n, FLOATS);
    for (size_t i = 0; i < n; i++)
        ranks[i] = (uint16_t)((i * 7 + 3) % n); /* not the places' numbers, where 7 does not divide n */
    for (size_t i = 0; n % 7 == 0 && i < n; i++)
        ranks[i] = (uint16_t)i;
    for (size_t i = 0; i < n; i++) {
        const struct rt_team team = {ranks, n, i, runs};
        struct rt_collectivesim_member *member = &sim.member[ranks[i]];
        fill(member, runs[i]);
        same &= make(shape, &team, FLOATS, &member->collective, &err) == RT_OK;
    }
    CHECK_MSG(same && rt_collectivesim_run(&sim, why), "%s, %s: %s%s", names[shape], text, err.text, why);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < FLOATS; i++) {
            const float sum = subtree(0, slices, i), *got = &sim.member[p].buffer[RT_BUFFER_GRADIENT][i];
            same &= memcmp(got, &sum, sizeof sum) == 0;
        }
    CHECK_MSG(same, "%s, %s: the sum is not that of the tree", names[shape], text);
    rt_collectivesim_deinit(&sim);
}

/* With a server of its own at place 0, which has no slices; else a root among the workers: the first, or
 * another, whose run is not the first one then. */
static void check_shares(size_t n, const uint32_t *share, uint32_t slices) {
    for (size_t shape = 0; shape < SHAPES; shape++)
        for (size_t root = 0; root < (shape == 2 || shape == 3 ? n : 1); root++) {
            struct rt_slice_run runs[MOST_SLICES + 1] = {{0}};
            uint32_t at = 0;
            for (size_t i = 0; i < n; i++, at += share[i - 1])
                runs[has_server(shape) ? i + 1 : (i + n - root) % n] = (struct rt_slice_run){at, share[i]};
            check(shape, has_server(shape) ? n + 1 : n, runs, slices);
        }
}

TEST(equal_shares_give_the_bits_of_the_tree_for_any_number) {
    for (uint32_t slices = 1; slices <= MOST_SLICES; slices *= 2)
        for (uint32_t n = 1; n <= slices; n++) {
            uint32_t share[MOST_SLICES];
            for (uint32_t i = 0; i < n; i++)
                share[i] = (i + 1) * slices / n - i * slices / n;
            check_shares(n, share, slices);
        }
}

/* All of the slices cut anywhere; some workers may have none. */
TEST(any_shares_give_the_bits_of_the_tree) {
    for (uint32_t trial = 0; trial < 400; trial++) {
        uint32_t words[4], share[MOST_SLICES] = {0};
        rt_rng_block(3, RT_PURPOSE_SHUFFLE, trial, 0, 0, words);
        const uint32_t slices = 1u << words[0] % 6, n = 1 + words[1] % (slices < 9 ? slices : 9);
        uint32_t left = slices;
        for (uint32_t i = 0; i < n; i++) {
            rt_rng_block(3, RT_PURPOSE_SHUFFLE, trial, 1, i, words);
            share[i] = i + 1 == n ? left : words[0] % (left + 1);
            left -= share[i];
        }
        check_shares(n, share, slices);
    }
}

TEST(equal_parts_of_a_power_of_two_cost_nothing) {
    for (size_t n = 1; n <= 16; n *= 2)
        for (size_t shape = 0; shape < 4; shape++)
            for (size_t p = 0; p < n; p++) {
                struct rt_error err = {0};
                struct rt_collective with = {0}, without = {0};
                struct rt_slice_run runs[16];
                uint16_t ranks[16];
                for (size_t i = 0; i < n; i++) {
                    runs[i] = (struct rt_slice_run){(uint32_t)i * 4, 4};
                    ranks[i] = (uint16_t)(n - i);
                }
                CHECK_OK(make(shape, &(struct rt_team){ranks, n, p, runs}, 99, &with, &err));
                CHECK_OK(make(shape, &(struct rt_team){ranks, n, p, NULL}, 99, &without, &err));
                bool same = with.count == without.count && with.spares == without.spares;
                for (size_t i = 0; same && i < with.count; i++) {
                    const struct rt_collective_op *a = &with.list[i], *b = &without.list[i];
                    same = a->kind == b->kind && a->buffer == b->buffer && a->from == b->from &&
                           a->peer == b->peer && a->first == b->first && a->count == b->count;
                }
                CHECK_MSG(same, "%s: other operations for place %zu of %zu", names[shape], p, n);
                rt_collective_deinit(&with);
                rt_collective_deinit(&without);
            }
}

/* What one worker more or fewer costs: at each boundary between two runs something travels. */
TEST(uneven_shares_send_a_few_partial_sums_more) {
    static const struct rt_slice_run runs[] = {{0, 5}, {5, 5}, {10, 5}, {15, 1}};
    const uint16_t ranks[] = {0, 1, 2, 3};
    size_t sent[2] = {0};
    for (size_t shape = 0; shape <= 3; shape += 3)
        for (size_t p = 0; p < 4; p++) {
            struct rt_error err = {0};
            struct rt_collective ops = {0};
            CHECK_OK(make(shape, &(struct rt_team){ranks, 4, p, runs}, 10, &ops, &err));
            for (size_t i = 0; i < ops.count; i++)
                sent[shape / 3] += ops.list[i].kind == RT_OP_SEND;
            rt_collective_deinit(&ops);
        }
    CHECK_MSG(sent[0] <= 2 * 4 + 4, "doubling sends %zu times", sent[0]);
    CHECK_MSG(sent[1] <= 2 * 3 + 2, "a binomial tree sends %zu times", sent[1]);
}

TEST(slices_that_are_no_tree_are_refused) {
    static const struct rt_slice_run gap[] = {{0, 3}, {4, 1}}, three[] = {{0, 2}, {2, 1}},
                                     none[] = {{0, 0}, {0, 0}};
    const struct rt_slice_run *const wrong[] = {gap, three, none};
    const uint16_t ranks[] = {0, 1};
    for (size_t k = 0; k < 3; k++)
        for (size_t shape = 0; shape < 4; shape++) {
            struct rt_error err = {0};
            struct rt_collective ops = {0};
            CHECK(make(shape, &(struct rt_team){ranks, 2, 0, wrong[k]}, 10, &ops, &err) == RT_FAILED);
            rt_collective_deinit(&ops);
        }
}

TEST_MAIN()
