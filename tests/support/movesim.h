/*
 * Carries out lists of moves (exchange/moves.h) in plain C, on one thread, without links: what a collective
 * or a way of exchange says must come true here before anybody sends a byte. Every member has the buffers of
 * one span; a frame that is sent is a copy of the floats, taken when the move is made.
 */
#ifndef RT_TEST_MOVESIM_H
#define RT_TEST_MOVESIM_H

#include "exchange/moves.h"

struct rt_movesim_member {
    struct rt_moves moves;         /* to be filled in; owned */
    float *buffer[RT_MAX_BUFFERS]; /* [count] each; to be filled in: RT_BUFFER_GRADIENT, RT_BUFFER_PARAMS */
    unsigned *applied;             /* [count] how often the gradient of a parameter was applied here */
    size_t next;                   /* moves made */
};

struct rt_movesim {
    size_t members, count;
    struct rt_movesim_member *member;
};

/* members ranks with a span of count floats each, all zero. Ends the test process without memory. */
void rt_movesim_init(struct rt_movesim *sim, size_t members, size_t count);
void rt_movesim_deinit(struct rt_movesim *sim);

/* Makes all moves. RT_MOVE_APPLY subtracts the gradient from the parameters. False, with a sentence, when the
 * two ends of a link do not agree on what comes next, when a range is empty or outside the span, when a
 * member would talk with itself, when frames are left over, or when everybody waits. */
bool rt_movesim_run(struct rt_movesim *sim, char why[200]);

/* The frames that a member sends, and their floats. */
size_t rt_movesim_frames(const struct rt_movesim *sim, size_t rank);
size_t rt_movesim_floats(const struct rt_movesim *sim, size_t rank);

#endif
