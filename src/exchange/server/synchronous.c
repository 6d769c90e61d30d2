/* The operations of a synchronous parameter server, put together from collectives; see synchronous.h. */
#include "exchange/server/synchronous.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static struct rt_team synchronous_workers(const struct rt_roles *roles, uint16_t rank) {
    return (struct rt_team){
        .ranks = roles->worker, .count = roles->workers, .place = rt_roles_place(roles, rank)};
}

/*
 * A server at place 0, then the workers. Where the server works too and the number of workers is a power of
 * two, place i is the worker i ^ s: that only swaps the operands of additions, so a sum has the same bits
 * whichever worker is the server. *ranks is to be freed.
 */
static rt_status synchronous_team(const struct rt_roles *roles, uint16_t server, uint16_t rank,
                                  uint16_t **ranks, struct rt_team *team, bool *works, struct rt_error *err) {
    const size_t n = roles->workers, own = rt_roles_place(roles, server);
    *works = own < n;
    rt_status status = rt_alloc(n + 1, sizeof **ranks, "the members of an exchange", ranks, err);
    if (status != RT_OK)
        return status;
    *team = (struct rt_team){.ranks = *ranks, .count = *works ? n : n + 1};
    if (!*works) {
        (*ranks)[0] = server;
        memcpy(*ranks + 1, roles->worker, n * sizeof **ranks);
    }
    for (size_t i = 0; i < n && *works; i++)
        (*ranks)[i] = roles->worker[(n & (n - 1)) == 0 ? i ^ own : (i + own) % n];
    while (team->place < team->count && (*ranks)[team->place] != rank)
        team->place++;
    return RT_OK;
}

static rt_status synchronous_apply(size_t first, size_t count, struct rt_collective *collective,
                                   struct rt_error *err) {
    const struct rt_collective_op op = {
        .kind = RT_OP_APPLY, .buffer = RT_BUFFER_GRADIENT, .first = first, .count = count};
    return rt_collective_add(collective, op, err);
}

rt_status rt_synchronous_server(struct rt_tree_form form, const struct rt_roles *roles, uint16_t server,
                                uint16_t rank, size_t first, size_t count, struct rt_collective *collective,
                                struct rt_error *err) {
    uint16_t *ranks = NULL;
    struct rt_team team;
    rt_status status = synchronous_team(roles, server, rank, &ranks, &team, &form.root_contributes, err);
    if (status == RT_OK)
        status = rt_collective_reduce(&team, &form, first, count, collective, err);
    if (status == RT_OK && rank == server)
        status = synchronous_apply(first, count, collective, err);
    if (status == RT_OK)
        status = rt_collective_broadcast(&team, &form, first, count, RT_BUFFER_PARAMS, collective, err);
    free(ranks);
    return status;
}

/* Part i goes between worker i, which has it, and the server, which may be a worker. */
static rt_status synchronous_move_parts(const struct rt_roles *roles, uint16_t server, uint16_t rank,
                                        size_t count, unsigned buffer, bool to_server,
                                        struct rt_collective *collective, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < roles->workers && status == RT_OK; i++) {
        const uint16_t worker = roles->worker[i];
        if (worker == server || (rank != server && rank != worker))
            continue;
        size_t first, end;
        rt_collective_part(count, roles->workers, i, &first, &end);
        const bool sends = to_server ? rank == worker : rank == server;
        const struct rt_collective_op op = {.kind = sends ? RT_OP_SEND : RT_OP_TAKE,
                                            .buffer = (uint8_t)buffer,
                                            .peer = rank == server ? worker : server,
                                            .first = first,
                                            .count = end - first};
        status = rt_collective_add(collective, op, err);
    }
    return status;
}

rt_status rt_synchronous_scatter(const struct rt_roles *roles, uint16_t server, uint16_t rank, size_t count,
                                 struct rt_collective *collective, struct rt_error *err) {
    const struct rt_team team = synchronous_workers(roles, rank);
    RT_TRY(rt_collective_reduce_scatter(&team, 0, count, RT_BUFFER_GRADIENT, collective, err));
    RT_TRY(synchronous_move_parts(roles, server, rank, count, RT_BUFFER_GRADIENT, true, collective, err));
    if (rank == server)
        RT_TRY(synchronous_apply(0, count, collective, err));
    RT_TRY(synchronous_move_parts(roles, server, rank, count, RT_BUFFER_PARAMS, false, collective, err));
    return rt_collective_all_gather(&team, 0, count, RT_BUFFER_PARAMS, collective, err);
}

rt_status rt_synchronous_peers(const struct rt_roles *roles, uint16_t rank, size_t count, size_t own_first,
                               size_t own_count, struct rt_collective *collective, struct rt_error *err) {
    const struct rt_team team = synchronous_workers(roles, rank);
    RT_TRY(rt_collective_reduce_scatter(&team, 0, count, RT_BUFFER_GRADIENT, collective, err));
    RT_TRY(synchronous_apply(own_first, own_count, collective, err));
    return rt_collective_all_gather(&team, 0, count, RT_BUFFER_PARAMS, collective, err);
}
