/*
 * A collective as a list of operations: what one participant sends, receives, adds and applies, in which
 * order. Making the list is pure arithmetic, one algorithm, one file; carrying it out
 * (exchange/collective/executor.h) is the same for all of them. docs/collectives.md has the steps and bytes
 * of each.
 *
 * The order of addition is fixed by the list: for given numbers every run gives the same bits, and every
 * participant ends with the same bits, because a sum is made in one place and copied from there, or made of
 * the same two terms on both sides. Recursive doubling, halving-doubling and the star add in one binary tree
 * over the ranks, ((0+1)+(2+3))+..., which is the tree of train.shards: so they give one device's bits. Where
 * places have any number of the slices of that tree, they add its subtrees (rt_team.runs).
 *
 * What two participants say about their common link must agree: the operations of A that send to B, in A's
 * order, are the operations of B that receive from A, in B's order, with equal ranges.
 * tests/unit/exchange/test_collective.c holds every algorithm to it, for every number of participants.
 */
#ifndef RT_EXCHANGE_COLLECTIVE_COLLECTIVE_H
#define RT_EXCHANGE_COLLECTIVE_COLLECTIVE_H

#include "base/slices.h"
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum rt_op_kind {
    RT_OP_SEND,  /* buffer's range to peer */
    RT_OP_TAKE,  /* from peer, in place of what buffer holds */
    RT_OP_ADD,   /* from peer, added to what buffer holds */
    RT_OP_MERGE, /* the range of buffer `from` added to that of buffer: no peer */
    RT_OP_COPY,  /* the range of buffer `from` in place of that of buffer: no peer */
    RT_OP_APPLY, /* the range of the gradient is final here: the optimizer makes parameters of it */
};

/* What the floats are: a gradient, the parameters that were made of it, or a term of a sum that waits for its
 * turn (RT_BUFFER_SPARE and up). Where a place's gradient is several pieces (base/slices.h), the first is in
 * RT_BUFFER_GRADIENT, where the result will be, and the others are in the buffers from RT_BUFFER_SPARE on. */
enum { RT_BUFFER_GRADIENT, RT_BUFFER_PARAMS, RT_BUFFER_SPARE, RT_MAX_BUFFERS = 64 };

struct rt_collective_op {
    uint8_t kind; /* enum rt_op_kind */
    uint8_t buffer, from;
    uint16_t peer;
    size_t first, count; /* of the span's floats; never empty */
};

static inline bool rt_op_has_peer(const struct rt_collective_op *op) {
    return op->kind == RT_OP_SEND || op->kind == RT_OP_TAKE || op->kind == RT_OP_ADD;
}

struct rt_collective {
    struct rt_collective_op *list;
    size_t count, room;
    size_t spares; /* buffers beyond RT_BUFFER_PARAMS that the list uses */
};

void rt_collective_deinit(struct rt_collective *collective); /* a zeroed one is fine */
/* Adds one; a count of 0 adds nothing. */
rt_status rt_collective_add(struct rt_collective *collective, struct rt_collective_op op,
                            struct rt_error *err);

/* The participants of a collective: ranks of the communicator. Most of the functions below use places,
 * indices into this list, and write ranks into the operations. */
struct rt_team {
    const uint16_t *ranks; /* [count] */
    size_t count;
    size_t place; /* ours; count: we are not in it, and nothing is added */
    /* [count] the slices that each place has the sums of, together all of a tree; doubling, halving, star and
     * binomial tree then add its pieces in the order of that tree. A place may have none. NULL: every place
     * has one term, and the tree is over the places. */
    const struct rt_slice_run *runs;
};

/* Part i of n of a range of `count` floats: c*count/n .. (c+1)*count/n. */
void rt_collective_part(size_t count, size_t n, size_t i, size_t *first, size_t *end);

/* ---- all-reduce: every place contributes, and has the result in the same buffer afterwards ---- */

enum rt_reduction { RT_REDUCE_AUTO, RT_REDUCE_RING, RT_REDUCE_DOUBLING, RT_REDUCE_HALVING, RT_REDUCE_TREE };

rt_status rt_collective_ring(const struct rt_team *team, size_t first, size_t count,
                             struct rt_collective *collective, struct rt_error *err);
rt_status rt_collective_doubling(const struct rt_team *team, size_t first, size_t count,
                                 struct rt_collective *collective, struct rt_error *err);
rt_status rt_collective_halving(const struct rt_team *team, size_t first, size_t count,
                                struct rt_collective *collective, struct rt_error *err);

/* The halves of the ring: afterwards place i has part i, complete (reduce-scatter); every place has all of
 * them (all-gather). buffer: what travels. */
rt_status rt_collective_reduce_scatter(const struct rt_team *team, size_t first, size_t count,
                                       unsigned buffer, struct rt_collective *collective,
                                       struct rt_error *err);
rt_status rt_collective_all_gather(const struct rt_team *team, size_t first, size_t count, unsigned buffer,
                                   struct rt_collective *collective, struct rt_error *err);

/* ---- towards a root, place 0, and back ---- */

enum rt_tree_shape {
    RT_SHAPE_STAR,     /* every place sends to the root, which adds in a binary tree over the places */
    RT_SHAPE_BINOMIAL, /* place i sends to i without its lowest bit */
    RT_SHAPE_ARY,      /* place i sends to (i - 1) / degree */
    RT_SHAPE_GROUPS, /* groups of `degree` neighbours (the root's own group has the places after it): members
                        send to the group's first, the firsts to the root, or with more depth to the first of
                        a group of firsts, and so on */
};
struct rt_tree_form {
    enum rt_tree_shape shape;
    size_t degree;
    bool root_contributes; /* false: place 0 is a server that has no gradient of its own */
    size_t depth;          /* of groups: steps to the root; 1 is a star, 0 stands for 2 */
};
rt_status rt_collective_reduce(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                               size_t count, struct rt_collective *collective, struct rt_error *err);
rt_status rt_collective_broadcast(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                                  size_t count, unsigned buffer, struct rt_collective *collective,
                                  struct rt_error *err);
/* Part i of the range goes from place i to place 0, or back. */
rt_status rt_collective_gather(const struct rt_team *team, size_t first, size_t count, unsigned buffer,
                               struct rt_collective *collective, struct rt_error *err);
rt_status rt_collective_scatter(const struct rt_team *team, size_t first, size_t count, unsigned buffer,
                                struct rt_collective *collective, struct rt_error *err);

/* ---- the choice ---- */

/* What a link and an addition cost; 0: not known, a common value is assumed. Where AUTO chooses, all
 * participants must have been given the same numbers, or they would choose differently. */
struct rt_link_cost {
    double latency;   /* seconds per message */
    double bandwidth; /* bytes per second and direction */
    double adding;    /* seconds per float added */
};

/* Any of them by name; AUTO: the one with the shortest predicted time. degree: of TREE; 0: 2. */
rt_status rt_collective_reduce_all(enum rt_reduction how, const struct rt_team *team, size_t degree,
                                   size_t first, size_t count, const struct rt_link_cost *cost,
                                   struct rt_collective *collective, struct rt_error *err);

/* Seconds that an all-reduce of `count` floats takes: the formulas of docs/collectives.md. */
double rt_reduction_seconds(enum rt_reduction how, size_t n, size_t count, size_t degree,
                            const struct rt_link_cost *cost);
enum rt_reduction rt_reduction_choose(size_t n, size_t count, size_t degree, const struct rt_link_cost *cost);

#endif
