/*
 * The synchronous parameter server: how ps-sync, ps-tree, ps-scatter, ps-peer, ps-hier and, with base=sync,
 * ps-shard and ps-cut work.
 *
 * A synchronous server needs no loop of its own. Every worker takes part in every update and has one gradient
 * for it, so all messages, and the order of the additions, are known before the first update: it is a
 * collective (exchange/collective/collective.h), a fixed list of operations for each span and rank. Of a
 * span, a server is these operations, one after the other:
 *
 *   1. reduce      the workers' gradients come together at the server and are added in a fixed order:
 *                  straight from each worker (a star), up a binomial tree, or up a tree of groups
 *   2. apply       RT_OP_APPLY, on the server only: the sum is final, and the optimizer takes its step
 *   3. broadcast   the new parameters go to the workers along the same tree
 *
 * or, where the work of adding is spread over the workers (ps-scatter):
 *
 *   1. reduce-scatter, gather    each worker adds one part of the span; the server gets the parts, summed
 *   2. apply                     on the server
 *   3. scatter, all-gather       the new parameters go back the same way
 *
 * or, where every worker serves a part (ps-peer): reduce-scatter; apply, each its own part; all-gather.
 * Several servers (ps-shard) are several such lists, one for each server's range of the span.
 *
 * Where an update is applied: collective_exchange.c, collective_apply_op, called by the executor for
 * operation 2, on the thread that takes the events. "Wait for the slowest" is not written anywhere: a sum is
 * complete when its last term has come. What a worker does meanwhile, and when it may use the new parameters,
 * is the collective exchange's (exchange/collective/collective_exchange.h).
 *
 * A server that decides about each gradient when it comes (ps-async, ps-ssp, ps-backup, ...) is in server.h.
 */
#ifndef RT_EXCHANGE_SERVER_SYNCHRONOUS_H
#define RT_EXCHANGE_SERVER_SYNCHRONOUS_H

#include "control/batch.h"
#include "exchange/collective/collective.h"

/* The server has the sum of a range of the span's floats, applies it, and gives the parameters to the
 * workers, along a tree; form.root_contributes follows from the roles. */
rt_status rt_synchronous_server(struct rt_tree_form form, const struct rt_roles *roles, uint16_t server,
                                uint16_t rank, size_t first, size_t count, struct rt_collective *collective,
                                struct rt_error *err);

/* The same with the work of adding and of copying spread over the workers: each sums a part of the span. */
rt_status rt_synchronous_scatter(const struct rt_roles *roles, uint16_t server, uint16_t rank, size_t count,
                                 struct rt_collective *collective, struct rt_error *err);

/* Every worker is the server of the floats own_first..own_first+own_count of the span. */
rt_status rt_synchronous_peers(const struct rt_roles *roles, uint16_t rank, size_t count, size_t own_first,
                               size_t own_count, struct rt_collective *collective, struct rt_error *err);

#endif
