/* Shared by the files that build lists of operations; for them only. */
#ifndef RT_EXCHANGE_COLLECTIVE_BUILD_H
#define RT_EXCHANGE_COLLECTIVE_BUILD_H

#include "exchange/collective/collective.h"

/* To or from the given place of the team. */
rt_status rt_collective_send(struct rt_collective *collective, const struct rt_team *team, size_t place,
                             unsigned buffer, size_t first, size_t count, struct rt_error *err);
rt_status rt_collective_take(struct rt_collective *collective, const struct rt_team *team, size_t place,
                             unsigned buffer, size_t first, size_t count, struct rt_error *err);
rt_status rt_collective_sum(struct rt_collective *collective, const struct rt_team *team, size_t place,
                            unsigned buffer, size_t first, size_t count, struct rt_error *err);
/* Adds buffer `from` to the buffer. */
rt_status rt_collective_merge(struct rt_collective *collective, unsigned from, unsigned buffer, size_t first,
                              size_t count, struct rt_error *err);

/* The largest power of two that is not above n (n > 0), and its logarithm. */
size_t rt_power_below(size_t n);
unsigned rt_power_log(size_t power);

/* Recursive algorithms work on a power of two of places. Each place beyond it has a neighbour that adds its
 * contribution first and sends it the result at the end. Of the first 2 * extra places these are the odd
 * ones. */
struct rt_core {
    size_t size;     /* the power of two */
    size_t extra;    /* places that take part through a neighbour */
    size_t inflight; /* our index in the core; size: we take part through a neighbour */
};
struct rt_core rt_core_of(const struct rt_team *team);
size_t rt_core_place(const struct rt_core *core, size_t inflight); /* the place with this index in the core */
/* The steps of the extra places before and after the algorithm. */
rt_status rt_core_enter(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_error *err);
rt_status rt_core_leave(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_error *err);

#endif
