/* The list of operations itself, how a range is cut into parts, and what the algorithms have in common. */
#include "exchange/collective/build.h"

#include <stdlib.h>

void rt_collective_deinit(struct rt_collective *collective) {
    free(collective->list);
    *collective = (struct rt_collective){0};
}

rt_status rt_collective_add(struct rt_collective *collective, struct rt_collective_op op,
                            struct rt_error *err) {
    if (op.count == 0)
        return RT_OK;
    if (op.buffer >= RT_MAX_BUFFERS || op.from >= RT_MAX_BUFFERS)
        return rt_fail(err, RT_FAILED, "a sum of more terms than %d buffers can hold", RT_MAX_BUFFERS);
    if (collective->count == collective->room) {
        size_t room = collective->room ? 2 * collective->room : 16;
        struct rt_collective_op *list = realloc(collective->list, room * sizeof *list);
        if (!list)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for a list of %zu operations", room);
        collective->list = list;
        collective->room = room;
    }
    collective->list[collective->count++] = op;
    const unsigned highest = op.buffer > op.from ? op.buffer : op.from;
    if (highest >= RT_BUFFER_SPARE && collective->spares < highest - RT_BUFFER_SPARE + 1u)
        collective->spares = highest - RT_BUFFER_SPARE + 1u;
    return RT_OK;
}

/* floor(i * count / n) without the product, which may be too large: with count = q * n + r it is
 * i * q + i * r / n, and i and r are below n. */
static size_t collective_share(size_t count, size_t n, size_t i) {
    return count / n * i + count % n * i / n;
}

void rt_collective_part(size_t count, size_t n, size_t i, size_t *first, size_t *end) {
    *first = collective_share(count, n, i);
    *end = collective_share(count, n, i + 1);
}

static rt_status collective_add_peer(struct rt_collective *collective, enum rt_op_kind kind,
                                     const struct rt_team *team, size_t place, unsigned buffer, size_t first,
                                     size_t count, struct rt_error *err) {
    return rt_collective_add(collective,
                             (struct rt_collective_op){.kind = (uint8_t)kind,
                                                       .buffer = (uint8_t)buffer,
                                                       .peer = team->ranks[place],
                                                       .first = first,
                                                       .count = count},
                             err);
}

rt_status rt_collective_send(struct rt_collective *collective, const struct rt_team *team, size_t place,
                             unsigned buffer, size_t first, size_t count, struct rt_error *err) {
    return collective_add_peer(collective, RT_OP_SEND, team, place, buffer, first, count, err);
}

rt_status rt_collective_take(struct rt_collective *collective, const struct rt_team *team, size_t place,
                             unsigned buffer, size_t first, size_t count, struct rt_error *err) {
    return collective_add_peer(collective, RT_OP_TAKE, team, place, buffer, first, count, err);
}

rt_status rt_collective_sum(struct rt_collective *collective, const struct rt_team *team, size_t place,
                            unsigned buffer, size_t first, size_t count, struct rt_error *err) {
    return collective_add_peer(collective, RT_OP_ADD, team, place, buffer, first, count, err);
}

static rt_status collective_add_local(struct rt_collective *collective, enum rt_op_kind kind, unsigned from,
                                      unsigned buffer, size_t first, size_t count, struct rt_error *err) {
    return rt_collective_add(collective,
                             (struct rt_collective_op){.kind = (uint8_t)kind,
                                                       .buffer = (uint8_t)buffer,
                                                       .from = (uint8_t)from,
                                                       .first = first,
                                                       .count = count},
                             err);
}

rt_status rt_collective_merge(struct rt_collective *collective, unsigned from, unsigned buffer, size_t first,
                              size_t count, struct rt_error *err) {
    return collective_add_local(collective, RT_OP_MERGE, from, buffer, first, count, err);
}

rt_status rt_collective_copy(struct rt_collective *collective, unsigned from, unsigned buffer, size_t first,
                             size_t count, struct rt_error *err) {
    return collective_add_local(collective, RT_OP_COPY, from, buffer, first, count, err);
}
