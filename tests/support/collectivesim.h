/*
 * Executes the operations of collectives (exchange/collective/collective.h) in plain C, on one thread,
 * without links: the contract of a collective or a strategy is checked here before any byte is sent. Every
 * member has the buffers of one span; a frame that is sent is a copy of the floats, taken when the operation
 * runs.
 */
#ifndef RT_TEST_MOVESIM_H
#define RT_TEST_MOVESIM_H

#include "exchange/collective/collective.h"

struct rt_collectivesim_member {
    struct rt_collective collective; /* to be filled in; owned */
    float *buffer[RT_MAX_BUFFERS];   /* [count] each; to be filled in: RT_BUFFER_GRADIENT, RT_BUFFER_PARAMS */
    unsigned *applied;               /* [count] how often the gradient of a parameter was applied here */
    size_t next;                     /* moves made */
};

struct rt_collectivesim {
    size_t members, count;
    struct rt_collectivesim_member *member;
};

/* members ranks with a span of count floats each, all zero. Ends the test process without memory. */
void rt_collectivesim_init(struct rt_collectivesim *sim, size_t members, size_t count);
void rt_collectivesim_deinit(struct rt_collectivesim *sim);

/* Runs all operations. RT_OP_APPLY subtracts the gradient from the parameters. False, with a message, when
 * the two ends of a link do not agree on the next operation, when a range is empty or outside the span, when
 * a member would send to itself, when frames are left over, or when all members wait. */
bool rt_collectivesim_run(struct rt_collectivesim *sim, char why[200]);

/* The frames that a member sends, and their floats. */
size_t rt_collectivesim_frames(const struct rt_collectivesim *sim, size_t rank);
size_t rt_collectivesim_floats(const struct rt_collectivesim *sim, size_t rank);

#endif
