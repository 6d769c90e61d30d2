/*
 * Every collective that runs over a transport, and its contract: which members contribute, which have the
 * result. The result is the sum of the contributions, whatever the algorithm.
 */
#ifndef RT_TEST_COLLECTIVE_H
#define RT_TEST_COLLECTIVE_H

#include "exchange/collective/collective.h"

/* Whose floats, of those that every place has. */
enum collective_whose {
    WHOSE_ALL,    /* every member's */
    WHOSE_FIRST,  /* place 0's */
    WHOSE_OTHERS, /* those of all but place 0, which is a server */
    WHOSE_PARTS,  /* part i of place i */
};

struct collective {
    const char *name;
    rt_status (*make)(const struct collective *this, const struct rt_team *team, size_t count,
                      struct rt_collective *collective, struct rt_error *err);
    enum rt_reduction how;
    size_t degree;
    struct rt_tree_form form;
    const char *strategy;
    enum collective_whose given, had; /* before, and afterwards */
    bool applied;                     /* the result is in the parameters, which are made of the sum */
};

extern const struct collective collectives[];
extern const size_t collective_count;

const struct collective *collective_find(const char *name); /* or the end of the test */

/* The moves of one place; ranks are places. */
rt_status collective_moves(const struct collective *this, const struct rt_team *team, size_t count,
                           struct rt_collective *collective, struct rt_error *err);

/* Of `count` floats, those of a place: first..end. */
void collective_range(enum collective_whose whose, size_t n, size_t place, size_t count, size_t *first,
                      size_t *end);

/* Whether there can be so many: at least one member must contribute. */
bool collective_is_possible(const struct collective *this, size_t n);

#endif
