/*
 * Slices of a batch, and the tree in which their sums are added: V slices, a power of two, are the leaves of
 * a complete binary tree (docs/exactness.md). A device that has a run of neighbouring slices can add those
 * whose tree is all its own: its pieces, the largest whole subtrees of the run. The sums above them belong to
 * several devices. Pure arithmetic: what adds the slices of one device, and what adds pieces of several, go
 * by it.
 */
#ifndef RT_BASE_SLICES_H
#define RT_BASE_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slices first .. first + count - 1. Of none: count 0. */
struct rt_slice_run {
    uint32_t first, count;
};

enum {
    RT_MAX_SLICES = 1 << 16,
    RT_MAX_PIECES = 30, /* of a run of so many: from slice 1 to the last but one */
};

/* The pieces of a run, in order: returns how many, one at most of a run that is a subtree. */
size_t rt_slices_pieces(struct rt_slice_run run, struct rt_slice_run piece[RT_MAX_PIECES]);
size_t rt_slices_count_pieces(struct rt_slice_run run);

/* How many sums of two are complete, within the run that begins at `first`, when slice `slice` is: the
 * subtrees that end with it, but for the slice itself. */
unsigned rt_slices_merges(uint32_t first, uint32_t slice);
/* The largest number of sums that wait for their like, while the slices of a run are added one after another
 * in this way, the one that is being made counted. 1 for an empty run. */
size_t rt_slices_height(struct rt_slice_run run);

/* The row of a batch of `rows` that slice `slice` of `all` begins with. */
size_t rt_slices_row(size_t rows, uint32_t all, uint32_t slice);

/* A device's part of each batch: a run of its `all` slices. */
struct rt_slice_part {
    uint32_t all;
    struct rt_slice_run run;
};
/* Part `part` of `parts` equal ones: of as many slices as the run file says where the parts divide them, else
 * one slice of as many as there are parts. */
struct rt_slice_part rt_slices_equal_part(size_t shards, size_t parts, size_t part);
/* Its rows of a batch of `rows`; first: the first of them. */
size_t rt_slices_rows(const struct rt_slice_part *part, size_t rows, size_t *first);
/* More than it has of no batch of `rows` or fewer. */
size_t rt_slices_most_rows(const struct rt_slice_part *part, size_t rows);

/* The largest power of two that is not above n (n > 0). */
size_t rt_power_below(size_t n);

#endif
