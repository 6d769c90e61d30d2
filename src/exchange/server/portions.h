/* What a server and its workers agree on: its range of the block, and portions, what the range and the spans
 * have in common. A gradient travels portion by portion, the last first, as a backward pass makes them;
 * parameters the first first, as a forward pass needs them. */
#ifndef RT_EXCHANGE_SERVER_PORTIONS_H
#define RT_EXCHANGE_SERVER_PORTIONS_H

#include "exchange/strategy.h"
#include "wire/message.h"

/* Which floats of the replica's block a server owns; count 0: none. */
rt_status rt_server_range(const struct rt_exchange_strategy *strategy,
                          const struct rt_exchange_options *options, const struct rt_roles *roles,
                          uint16_t server, const struct rt_replica *replica, struct rt_span *range,
                          struct rt_error *err);

struct rt_portion {
    size_t span;
    size_t first, count; /* floats of the block; never empty */
};

/* Those of the range first..first+count, rising; *portions is freed with free(). Fails for one that is too
 * large for a message. */
rt_status rt_portions_create(const struct rt_span *spans, size_t span_count, size_t first, size_t count,
                             struct rt_portion **portions, size_t *portion_count, struct rt_error *err);

/* Describes a portion's floats in a message of this type. */
void rt_portion_describe(const struct rt_portion *portion, struct rt_message *message);
/* Whether a message that came describes just this portion. */
bool rt_portion_fits(const struct rt_portion *portion, const struct rt_message *message);
/* Whether a send or a receive is one of the `count` that begin at `first`, each of `bytes`; which. */
bool rt_operation_is_among(const void *operation, const void *first, size_t bytes, size_t count,
                           size_t *index);

#endif
