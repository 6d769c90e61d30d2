/* Workers' shares of a batch: all slices, in order, as fast as whole slices can be, against every other
 * choice. */
#include "plan/shares.h"

#include "base/rng.h"
#include "support/test.h"
#include <math.h>

enum { MOST = 64 };

static void choose(const struct rt_shares_question *question, struct rt_slice_run *runs) {
    struct rt_error err;
    uint32_t next = 0;
    CHECK_OK(rt_shares_choose(question, runs, &err));
    for (size_t i = 0; i < question->workers; i++) {
        CHECK(runs[i].first == next);
        next += runs[i].count;
    }
    CHECK(next == question->slices);
}

TEST(equal_shares_differ_by_one_slice) {
    for (uint32_t slices = 1; slices <= MOST; slices *= 2)
        for (uint32_t n = 1; n <= slices; n++) {
            struct rt_slice_run runs[MOST];
            choose(&(struct rt_shares_question){.slices = slices, .workers = n, .equal = true, .piece = 1},
                   runs);
            for (uint32_t i = 0; i < n; i++) {
                CHECK(runs[i].count == slices / n || runs[i].count == slices / n + 1);
                CHECK(slices % n != 0 || rt_slices_count_pieces(runs[i]) == 1);
            }
        }
}

/* All ways to share out 8 or 16 slices. */
static double best_of_all(const struct rt_shares_question *question, struct rt_slice_run *runs, size_t worker,
                          uint32_t first) {
    double best = (double)INFINITY;
    const uint32_t left = question->slices - first;
    for (uint32_t count = worker + 1 == question->workers ? left : 0; count <= left; count++) {
        runs[worker] = (struct rt_slice_run){first, count};
        const double seconds = worker + 1 == question->workers
                                   ? rt_shares_seconds(question, runs)
                                   : best_of_all(question, runs, worker + 1, first + count);
        best = fmin(best, seconds);
    }
    return best;
}

/* Where partial sums cost nothing it is the fastest; where they do, it is near it. */
TEST(no_other_shares_are_much_faster) {
    for (uint32_t trial = 0; trial < 200; trial++) {
        uint32_t words[4];
        double slice[4], fixed[4];
        struct rt_slice_run runs[4], other[4];
        rt_rng_block(1, RT_PURPOSE_SHUFFLE, trial, 0, 0, words);
        struct rt_shares_question question = {
            .slices = words[0] % 2 ? 8 : 16, .workers = 1 + words[1] % 4, .slice = slice};
        rt_rng_block(1, RT_PURPOSE_SHUFFLE, trial, 1, 0, words);
        for (size_t i = 0; i < 4; i++)
            slice[i] = 1 + words[i] % 1000 / 200.0;
        for (size_t i = 0; i < 4; i++)
            fixed[i] = words[i] / 1000 % 1000 / 100.0;
        question.fixed = words[0] & 1 ? fixed : NULL;
        for (int costs = 0; costs < 3; costs++) {
            question.piece = costs * 0.15;
            choose(&question, runs);
            const double found = rt_shares_seconds(&question, runs),
                         best = best_of_all(&question, other, 0, 0);
            CHECK_MSG(found <= best * (costs ? 1.1 : 1 + 1e-9),
                      "trial %u, %zu workers, %g a piece: %g s, not %g", trial, question.workers,
                      question.piece, found, best);
        }
    }
}

TEST(three_fast_workers_and_a_slow_one) {
    static const double slice[] = {1, 1, 1, 5};
    struct rt_slice_run runs[4];
    choose(&(struct rt_shares_question){.slices = 16, .workers = 4, .slice = slice, .piece = 1e-3}, runs);
    CHECK_MSG(runs[0].count == 5 && runs[1].count == 5 && runs[2].count == 5 && runs[3].count == 1,
              "%u %u %u %u", runs[0].count, runs[1].count, runs[2].count, runs[3].count);
    /* Each more sum costs as much as a slice: the runs end where subtrees do. */
    choose(&(struct rt_shares_question){.slices = 16, .workers = 4, .slice = slice, .piece = 1}, runs);
    CHECK_MSG(
        rt_shares_seconds(
            &(struct rt_shares_question){.slices = 16, .workers = 4, .slice = slice, .piece = 1}, runs) <= 8,
        "%u %u %u %u", runs[0].count, runs[1].count, runs[2].count, runs[3].count);
    /* Hopelessly slow: it has nothing to do. */
    static const double hopeless[] = {1, 1, 1000};
    choose(&(struct rt_shares_question){.slices = 16, .workers = 3, .slice = hopeless, .piece = 1e-3}, runs);
    CHECK(runs[0].count == 8 && runs[1].count == 8 && runs[2].count == 0);
}

TEST(very_many_slices) {
    static const double slice[] = {1, 3};
    struct rt_slice_run runs[2];
    choose(&(struct rt_shares_question){.slices = 65536, .workers = 2, .slice = slice}, runs);
    CHECK(runs[0].count == 49152);
}

TEST_MAIN()
