/* The operations of a synchronous parameter server, put together from collectives; see synchronous.h. */
#include "exchange/server/synchronous.h"

#include "base/memory.h"
#include <stdlib.h>

static struct rt_team synchronous_workers(const struct rt_roles *roles, uint16_t rank) {
    return (struct rt_team){
        .ranks = roles->worker, .count = roles->workers, .place = rt_roles_place(roles, rank)};
}

/* A team with room of its own for the members and for their runs of slices. */
struct own_team {
    struct rt_team team;
    uint16_t *ranks;
    struct rt_slice_run *runs;
};

static void synchronous_forget(struct own_team *own) {
    free(own->ranks);
    free(own->runs);
}

/*
 * A server at place 0, then the workers. Where the server works too and the number of workers is a power of
 * two, place i is the worker i ^ s: that only swaps the operands of additions, so a sum has the same bits
 * whichever worker is the server. Where workers have runs of slices, these determine the order of additions.
 */
static rt_status synchronous_team(const struct rt_roles *roles, uint16_t server, uint16_t rank,
                                  struct own_team *made, bool *works, struct rt_error *err) {
    const size_t n = roles->workers, own = rt_roles_place(roles, server);
    *works = own < n;
    const size_t first = *works ? 0 : 1; /* place of the first worker */
    RT_TRY(rt_alloc(n + 1, sizeof *made->ranks, "the members of an exchange", &made->ranks, err));
    RT_TRY(rt_alloc(n + 1, sizeof *made->runs, "the members of an exchange", &made->runs, err));
    made->ranks[0] = server;
    for (size_t i = 0; i < n; i++) {
        const size_t worker = !*works ? i : (n & (n - 1)) == 0 ? i ^ own : (i + own) % n;
        made->ranks[first + i] = roles->worker[worker];
        if (roles->runs)
            made->runs[first + i] = roles->runs[worker];
    }
    made->team =
        (struct rt_team){.ranks = made->ranks, .count = first + n, .runs = roles->runs ? made->runs : NULL};
    while (made->team.place < made->team.count && made->ranks[made->team.place] != rank)
        made->team.place++;
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
    struct own_team own = {0};
    rt_status status = synchronous_team(roles, server, rank, &own, &form.root_contributes, err);
    if (status == RT_OK)
        status = rt_collective_reduce(&own.team, &form, first, count, collective, err);
    if (status == RT_OK && rank == server)
        status = synchronous_apply(first, count, collective, err);
    if (status == RT_OK)
        status = rt_collective_broadcast(&own.team, &form, first, count, RT_BUFFER_PARAMS, collective, err);
    synchronous_forget(&own);
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
