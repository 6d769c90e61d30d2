/*
 * The exchange in groups, each of which is one worker to the servers: an exchange that has another inside.
 * The members of a group share each batch, and wait for one another; groups go at their own pace.
 *
 * The first member is the proxy. What it fetches it gives to the others, span by span as it comes; their
 * gradients and its own are added in the binary tree over the members, as those of train.shards are, and the
 * sum is pushed, span by span as it is complete. The other members talk with the proxy only, or with other
 * members.
 */
#ifndef RT_EXCHANGE_NESTED_H
#define RT_EXCHANGE_NESTED_H

#include "exchange/collective/executor.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"

struct rt_nested_settings {
    const struct rt_exchange_options *options;
    const struct rt_team *team; /* the group, whose place 0 is the proxy; needed until it has been made */
    const struct rt_communicator *comm;
    const struct rt_replica *replica; /* its spans become ready from the last down */
    /* Of the proxy, NULL of the others: its exchange with the servers, whose part is given to no engine, and
     * which outlives this. */
    const struct rt_exchange *client;
    /* Rows of a batch, all that the group has of it. */
    size_t (*rows)(void *user, uint64_t batch);
    void *user;
    size_t segment_floats; /* 0: a good size */
};

struct rt_nested;

rt_status rt_nested_create(const struct rt_nested_settings *settings, struct rt_nested **nested,
                           struct rt_error *err);
/* Only when the links are closed. NULL is fine. */
void rt_nested_destroy(struct rt_nested *nested);
/* With a server in the same process its part comes behind the server's: it goes on with the answers. */
struct rt_exchange rt_nested_exchange(struct rt_nested *nested);

#endif
