/* The list of moves itself, how a range is cut into parts, and what the algorithms have in common. */
#include "exchange/moves_make.h"

#include <stdlib.h>

void rt_moves_deinit(struct rt_moves *moves) {
    free(moves->list);
    *moves = (struct rt_moves){0};
}

rt_status rt_moves_add(struct rt_moves *moves, struct rt_move move, struct rt_error *err) {
    if (move.count == 0)
        return RT_OK;
    if (move.buffer >= RT_MAX_BUFFERS || move.from >= RT_MAX_BUFFERS)
        return rt_fail(err, RT_FAILED, "a sum of more terms than %d buffers can hold", RT_MAX_BUFFERS);
    if (moves->count == moves->room) {
        size_t room = moves->room ? 2 * moves->room : 16;
        struct rt_move *list = realloc(moves->list, room * sizeof *list);
        if (!list)
            return rt_fail(err, RT_NO_MEMORY, "not enough memory for a list of %zu moves", room);
        moves->list = list;
        moves->room = room;
    }
    moves->list[moves->count++] = move;
    const unsigned highest = move.buffer > move.from ? move.buffer : move.from;
    if (highest >= RT_BUFFER_SPARE && moves->spares < highest - RT_BUFFER_SPARE + 1u)
        moves->spares = highest - RT_BUFFER_SPARE + 1u;
    return RT_OK;
}

/* floor(i * count / n) without the product, which may be too large: with count = q * n + r it is
 * i * q + i * r / n, and i and r are below n. */
static size_t share(size_t count, size_t n, size_t i) {
    return count / n * i + count % n * i / n;
}

void rt_moves_part(size_t count, size_t n, size_t i, size_t *first, size_t *end) {
    *first = share(count, n, i);
    *end = share(count, n, i + 1);
}

static rt_status add_peer(struct rt_moves *moves, enum rt_move_kind kind, const struct rt_team *team,
                          size_t place, unsigned buffer, size_t first, size_t count, struct rt_error *err) {
    return rt_moves_add(moves,
                        (struct rt_move){.kind = (uint8_t)kind,
                                         .buffer = (uint8_t)buffer,
                                         .peer = team->ranks[place],
                                         .first = first,
                                         .count = count},
                        err);
}

rt_status rt_moves_send(struct rt_moves *moves, const struct rt_team *team, size_t place, unsigned buffer,
                        size_t first, size_t count, struct rt_error *err) {
    return add_peer(moves, RT_MOVE_SEND, team, place, buffer, first, count, err);
}

rt_status rt_moves_take(struct rt_moves *moves, const struct rt_team *team, size_t place, unsigned buffer,
                        size_t first, size_t count, struct rt_error *err) {
    return add_peer(moves, RT_MOVE_TAKE, team, place, buffer, first, count, err);
}

rt_status rt_moves_sum(struct rt_moves *moves, const struct rt_team *team, size_t place, unsigned buffer,
                       size_t first, size_t count, struct rt_error *err) {
    return add_peer(moves, RT_MOVE_ADD, team, place, buffer, first, count, err);
}

rt_status rt_moves_merge(struct rt_moves *moves, unsigned from, unsigned buffer, size_t first, size_t count,
                         struct rt_error *err) {
    return rt_moves_add(moves,
                        (struct rt_move){.kind = RT_MOVE_MERGE,
                                         .buffer = (uint8_t)buffer,
                                         .from = (uint8_t)from,
                                         .first = first,
                                         .count = count},
                        err);
}

/* ---- powers of two ---- */

size_t rt_power_below(size_t n) {
    size_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

unsigned rt_power_log(size_t power) {
    unsigned log = 0;
    while (power > 1) {
        power /= 2;
        log++;
    }
    return log;
}

struct rt_core rt_core_of(const struct rt_team *team) {
    const size_t size = rt_power_below(team->count), extra = team->count - size, place = team->place;
    size_t seat = place - extra;
    if (place < 2 * extra)
        seat = place % 2 == 0 ? place / 2 : size;
    return (struct rt_core){size, extra, seat};
}

size_t rt_core_place(const struct rt_core *core, size_t seat) {
    return seat < core->extra ? 2 * seat : seat + core->extra;
}

rt_status rt_core_enter(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_moves *moves, struct rt_error *err) {
    if (core->seat == core->size)
        return rt_moves_send(moves, team, team->place - 1, RT_BUFFER_GRADIENT, first, count, err);
    if (core->seat < core->extra)
        return rt_moves_sum(moves, team, team->place + 1, RT_BUFFER_GRADIENT, first, count, err);
    return RT_OK;
}

rt_status rt_core_leave(const struct rt_core *core, const struct rt_team *team, size_t first, size_t count,
                        struct rt_moves *moves, struct rt_error *err) {
    if (core->seat == core->size)
        return rt_moves_take(moves, team, team->place - 1, RT_BUFFER_GRADIENT, first, count, err);
    if (core->seat < core->extra)
        return rt_moves_send(moves, team, team->place + 1, RT_BUFFER_GRADIENT, first, count, err);
    return RT_OK;
}
