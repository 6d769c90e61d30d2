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
/* Puts buffer `from` in place of the buffer. */
rt_status rt_collective_copy(struct rt_collective *collective, unsigned from, unsigned buffer, size_t first,
                             size_t count, struct rt_error *err);

/* Recursive algorithms work on a power of two of places, the core. Without runs each place beyond it has a
 * neighbour that adds its contribution first and sends it the result at the end: of the first 2 * extra
 * places these are the odd ones. With runs the tree has as many subtrees of equal size as the core has
 * places; each of these keeps the sum of one, in which it has slices itself. */
struct rt_core {
    struct rt_team team; /* its places; place: ours, count: we are not in it */
    uint16_t *ranks;     /* owned */
};
/* Adds the operations after which the core's places have the terms of its sum. The core is to be freed. */
rt_status rt_core_enter(const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_core *core, struct rt_error *err);
/* The others get the result. */
rt_status rt_core_leave(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_collective *collective, struct rt_error *err);
void rt_core_deinit(struct rt_core *core);

/* ---- pieces.c: where places have runs of slices ---- */

/* The places of a core, in the order of their subtrees: keeper is [the largest power of two that is not above
 * team->count]. Returns how many there are. */
size_t rt_pieces_choose_core(const struct rt_team *team, size_t *keeper);
/* Adds up the subtrees of equal size, as many as there are keepers: each place's in RT_BUFFER_GRADIENT. */
rt_status rt_pieces_reduce(const struct rt_team *team, const size_t *keeper, size_t keepers, size_t first,
                           size_t count, struct rt_collective *collective, struct rt_error *err);
/* The same for one keeper, place 0, to which all others send their pieces as they are. */
rt_status rt_pieces_reduce_star(const struct rt_team *team, size_t first, size_t count,
                                struct rt_collective *collective, struct rt_error *err);

#endif
