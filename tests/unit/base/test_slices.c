/* Runs of slices and their subtrees, against a tree that is built node by node. */
#include "base/slices.h"

#include "support/test.h"

enum { MOST = 64 };

/* The largest subtree of V slices that lies in the run and has the slice: found from the root down. */
static struct rt_slice_run subtree_with(struct rt_slice_run run, uint32_t all, uint32_t slice) {
    struct rt_slice_run node = {0, all};
    while (node.first < run.first || node.first + node.count > run.first + run.count) {
        node.count /= 2;
        node.first += slice >= node.first + node.count ? node.count : 0;
    }
    return node;
}

static void check_run(struct rt_slice_run run, uint32_t all) {
    struct rt_slice_run piece[RT_MAX_PIECES];
    const size_t count = rt_slices_pieces(run, piece);
    uint32_t slice = run.first;
    for (size_t i = 0; i < count; i++) {
        const struct rt_slice_run expected = subtree_with(run, all, slice);
        CHECK_MSG(piece[i].first == slice && piece[i].first == expected.first &&
                      piece[i].count == expected.count,
                  "run %u + %u of %u: piece %zu is %u + %u, not %u + %u", run.first, run.count, all, i,
                  piece[i].first, piece[i].count, expected.first, expected.count);
        slice += piece[i].count;
    }
    CHECK(slice == run.first + run.count && rt_slices_count_pieces(run) == count);
}

TEST(pieces_are_the_largest_whole_subtrees) {
    for (uint32_t all = 1; all <= MOST; all *= 2)
        for (uint32_t first = 0; first <= all; first++)
            for (uint32_t count = 0; first + count <= all; count++)
                check_run((struct rt_slice_run){first, count}, all);
}

TEST(no_run_has_more_pieces_than_the_largest_count) {
    CHECK(rt_slices_count_pieces((struct rt_slice_run){1, RT_MAX_SLICES - 2}) == RT_MAX_PIECES);
    CHECK(rt_slices_count_pieces((struct rt_slice_run){0, RT_MAX_SLICES}) == 1);
}

/* A stack of subtrees, as a device adds its slices, ends as the pieces and is never higher than is said. */
TEST(merging_as_slices_end_leaves_the_pieces) {
    for (uint32_t first = 0; first <= MOST; first++)
        for (uint32_t count = 0; first + count <= MOST; count++) {
            const struct rt_slice_run run = {first, count};
            struct rt_slice_run stack[RT_MAX_PIECES + 2], piece[RT_MAX_PIECES];
            size_t depth = 0, most = 1;
            for (uint32_t slice = first; slice < first + count; slice++) {
                stack[depth++] = (struct rt_slice_run){slice, 1};
                most = depth > most ? depth : most;
                for (unsigned left = rt_slices_merges(first, slice); left > 0; left--, depth--) {
                    CHECK(depth > 1 && stack[depth - 1].count == stack[depth - 2].count);
                    stack[depth - 2].count *= 2;
                }
            }
            CHECK(depth == rt_slices_pieces(run, piece) && memcmp(stack, piece, depth * sizeof *piece) == 0);
            CHECK_MSG(most == rt_slices_height(run), "run %u + %u: %zu sums, not %zu", first, count, most,
                      rt_slices_height(run));
        }
}

TEST(slices_share_the_rows) {
    const size_t rows[] = {0, 1, 7, 64, 1000003};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (uint32_t all = 1; all <= MOST; all *= 2) {
            CHECK(rt_slices_row(rows[r], all, 0) == 0 && rt_slices_row(rows[r], all, all) == rows[r]);
            for (uint32_t i = 0; i < all; i++) {
                const size_t one = rt_slices_row(rows[r], all, i + 1) - rt_slices_row(rows[r], all, i);
                CHECK(one == rows[r] / all || one == rows[r] / all + 1);
            }
        }
}

TEST_MAIN()
