/*
 * Sums where places have runs of slices: each place has the sums of its pieces, the whole subtrees of its
 * run, and the additions above them are those of the tree, wherever they are made. Pieces that belong
 * together lie side by side in the order of slices; so the list of all pieces in that order, in which two
 * neighbours become one again and again, is the tree.
 *
 * Every place walks through all additions in the same order, and notes those in which it has a part: so what
 * two places say about their link agrees, and no two of them wait for one another.
 */
#include "exchange/collective/build.h"

#include "base/memory.h"
#include <stdlib.h>

/* A subtree whose sum is at a place, in one of its buffers. */
struct piece {
    uint32_t first, count;
    size_t place;
    unsigned buffer;
};

/* The operations of our place on a range. */
struct range_ops {
    const struct rt_team *team;
    size_t first, count;
    struct rt_collective *collective;
};

static unsigned pieces_buffer(size_t piece) {
    return piece == 0 ? RT_BUFFER_GRADIENT : (unsigned)(RT_BUFFER_SPARE + piece - 1);
}

static int pieces_compare(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static uint32_t pieces_slices(const struct rt_team *team) {
    uint32_t slices = 0;
    for (size_t i = 0; i < team->count; i++)
        slices += team->runs[i].count;
    return slices;
}

/* All pieces, in the order of slices; *list is to be freed. */
static rt_status pieces_list(const struct rt_team *team, struct piece **list, size_t *count,
                             struct rt_error *err) {
    size_t all = 0, at = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < team->count; i++)
        all += rt_slices_count_pieces(team->runs[i]);
    RT_TRY(rt_alloc(all, sizeof **list, "the pieces of a sum", list, err));
    for (size_t i = 0; i < team->count; i++) {
        struct rt_slice_run piece[RT_MAX_PIECES];
        const size_t pieces = rt_slices_pieces(team->runs[i], piece);
        for (size_t k = 0; k < pieces; k++)
            (*list)[at++] = (struct piece){piece[k].first, piece[k].count, i, pieces_buffer(k)};
    }
    qsort(*list, all, sizeof **list, pieces_compare);
    for (size_t i = 0; i < all && (*list)[i].first == next; i++)
        next += (*list)[i].count;
    *count = all;
    if (all > 0 && next == pieces_slices(team) && (next & (next - 1)) == 0)
        return RT_OK;
    free(*list);
    return rt_fail(err, RT_FAILED, "the workers' slices are not those of a tree");
}

/* Whether two neighbours in the list are the halves of a subtree. */
static bool pieces_are_halves(const struct piece *left, const struct piece *right) {
    return left->count == right->count && left->first % (2 * left->count) == 0;
}

/* ---- at all places ---- */

static uint32_t pieces_overlap(struct rt_slice_run run, uint32_t first, uint32_t count) {
    const uint32_t from = run.first > first ? run.first : first;
    const uint32_t end = run.first + run.count < first + count ? run.first + run.count : first + count;
    return run.count > 0 && end > from ? end - from : 0;
}

/* Where two halves are added: at the keeper, or else where more of the slices are that the sum is added to
 * next, so that it need not travel then. */
static size_t pieces_choose_place(const struct rt_team *team, const struct piece *left,
                                  const struct piece *right, size_t keeper) {
    const uint32_t next = 4 * left->count, from = left->first / next * next;
    if (left->place == keeper || right->place == keeper)
        return keeper;
    return pieces_overlap(team->runs[right->place], from, next) >
                   pieces_overlap(team->runs[left->place], from, next)
               ? right->place
               : left->place;
}

/* What becomes of a sum that a place has in two of its buffers: the first piece's buffer stays in use. */
static rt_status pieces_merge(const struct range_ops *ops, const struct piece *left,
                              const struct piece *right, unsigned *buffer, struct rt_error *err) {
    const unsigned to = right->buffer == RT_BUFFER_GRADIENT ? right->buffer : left->buffer;
    *buffer = to;
    return ops->team->place == left->place
               ? rt_collective_merge(ops->collective, to == left->buffer ? right->buffer : left->buffer, to,
                                     ops->first, ops->count, err)
               : RT_OK;
}

/* The right half is added to the left one, which becomes their sum. */
static rt_status pieces_add(const struct range_ops *ops, struct piece *left, const struct piece *right,
                            size_t keeper, struct rt_error *err) {
    const size_t place = pieces_choose_place(ops->team, left, right, keeper);
    struct piece sum = {left->first, 2 * left->count, place, left->buffer};
    if (left->place == right->place) {
        RT_TRY(pieces_merge(ops, left, right, &sum.buffer, err));
    } else {
        const struct piece *kept = left->place == place ? left : right, *given = kept == left ? right : left;
        sum.buffer = kept->buffer;
        if (ops->team->place == given->place)
            RT_TRY(rt_collective_send(ops->collective, ops->team, place, given->buffer, ops->first,
                                      ops->count, err));
        if (ops->team->place == place)
            RT_TRY(rt_collective_sum(ops->collective, ops->team, given->place, kept->buffer, ops->first,
                                     ops->count, err));
    }
    *left = sum;
    return RT_OK;
}

/* Adds the halves of all subtrees with 2 * half slices; returns by *count how many sums are left. */
static rt_status pieces_add_level(const struct range_ops *ops, struct piece *list, size_t *count,
                                  uint32_t half, const size_t *keeper, uint32_t kept, struct rt_error *err) {
    size_t left = 0;
    for (size_t i = 0; i < *count; i++) {
        struct piece *sum = &list[left++];
        *sum = list[i];
        if (sum->count == half && i + 1 < *count && pieces_are_halves(sum, &list[i + 1]))
            RT_TRY(pieces_add(ops, sum, &list[++i], keeper[sum->first / kept], err));
    }
    *count = left;
    return RT_OK;
}

/* The sum of a keeper's subtree goes to where results are. */
static rt_status pieces_keep(const struct range_ops *ops, const struct piece *sum, size_t keeper,
                             struct rt_error *err) {
    const struct rt_team *team = ops->team;
    if (sum->place == keeper)
        return team->place == keeper && sum->buffer != RT_BUFFER_GRADIENT
                   ? rt_collective_copy(ops->collective, sum->buffer, RT_BUFFER_GRADIENT, ops->first,
                                        ops->count, err)
                   : RT_OK;
    if (team->place == sum->place)
        return rt_collective_send(ops->collective, team, keeper, sum->buffer, ops->first, ops->count, err);
    return team->place == keeper ? rt_collective_take(ops->collective, team, sum->place, RT_BUFFER_GRADIENT,
                                                      ops->first, ops->count, err)
                                 : RT_OK;
}

static rt_status pieces_climb(const struct range_ops *ops, struct piece *list, size_t count,
                              const size_t *keeper, size_t keepers, struct rt_error *err) {
    const uint32_t kept = pieces_slices(ops->team) / (uint32_t)keepers;
    for (uint32_t half = 1; half < kept; half *= 2)
        RT_TRY(pieces_add_level(ops, list, &count, half, keeper, kept, err));
    if (count != keepers)
        return rt_fail(err, RT_FAILED, "%zu sums for %zu places", count, keepers);
    for (size_t i = 0; i < count; i++)
        RT_TRY(pieces_keep(ops, &list[i], keeper[i], err));
    return RT_OK;
}

rt_status rt_pieces_reduce(const struct rt_team *team, const size_t *keeper, size_t keepers, size_t first,
                           size_t count, struct rt_collective *collective, struct rt_error *err) {
    const struct range_ops ops = {team, first, count, collective};
    struct piece *list;
    size_t pieces;
    RT_TRY(pieces_list(team, &list, &pieces, err));
    rt_status status = pieces_climb(&ops, list, pieces, keeper, keepers, err);
    free(list);
    return status;
}

/* ---- the places that keep a subtree each ---- */

/* The first place, in the order of slices, that has some of these and does not keep those before them. */
static size_t pieces_find_keeper(const struct rt_team *team, uint32_t first, uint32_t count, size_t before) {
    size_t found = team->count;
    for (size_t i = 0; i < team->count; i++)
        if (i != before && pieces_overlap(team->runs[i], first, count) > 0 &&
            (found == team->count || team->runs[i].first < team->runs[found].first))
            found = i;
    return found;
}

size_t rt_pieces_choose_core(const struct rt_team *team, size_t *keeper) {
    const uint32_t slices = pieces_slices(team);
    for (size_t size = rt_power_below(team->count < slices ? team->count : slices); size > 1; size /= 2) {
        const uint32_t kept = slices / (uint32_t)size;
        size_t chosen = 0;
        for (; chosen < size; chosen++) {
            keeper[chosen] = pieces_find_keeper(team, (uint32_t)chosen * kept, kept,
                                                chosen ? keeper[chosen - 1] : team->count);
            if (keeper[chosen] == team->count)
                break;
        }
        if (chosen == size)
            return size;
    }
    keeper[0] = 0;
    for (size_t i = 1; i < team->count; i++)
        if (team->runs[i].count > team->runs[keeper[0]].count)
            keeper[0] = i;
    return 1;
}

/* ---- at one place ---- */

/* The root's sums, as a binary counter has digits, and the buffers in use. */
struct counter {
    struct piece sum[RT_MAX_BUFFERS];
    size_t depth;
    uint64_t used;
};

static void counter_use(struct counter *counter, unsigned buffer) {
    counter->used |= (uint64_t)1 << buffer;
}

static unsigned counter_find_buffer(const struct counter *counter) {
    unsigned buffer = RT_BUFFER_GRADIENT;
    while (buffer < RT_MAX_BUFFERS && (buffer == RT_BUFFER_PARAMS || counter->used >> buffer & 1))
        buffer++;
    return buffer;
}

/* The piece comes to the root: it is added to its other half at once if that is alone. */
static rt_status counter_take(struct counter *counter, const struct range_ops *ops, const struct piece *piece,
                              struct rt_error *err) {
    struct piece *top = counter->depth ? &counter->sum[counter->depth - 1] : NULL;
    if (piece->place != ops->team->place && top && pieces_are_halves(top, piece)) {
        top->count *= 2;
        return rt_collective_sum(ops->collective, ops->team, piece->place, top->buffer, ops->first,
                                 ops->count, err);
    }
    if (counter->depth == RT_MAX_BUFFERS)
        return rt_fail(err, RT_FAILED, "a sum of more terms than %d buffers can hold", RT_MAX_BUFFERS);
    struct piece *sum = &counter->sum[counter->depth++];
    *sum = *piece;
    if (piece->place == ops->team->place)
        return RT_OK;
    sum->place = ops->team->place;
    sum->buffer = counter_find_buffer(counter);
    if (sum->buffer < RT_MAX_BUFFERS)
        counter_use(counter, sum->buffer);
    return rt_collective_take(ops->collective, ops->team, piece->place, sum->buffer, ops->first, ops->count,
                              err);
}

static rt_status counter_carry(struct counter *counter, const struct range_ops *ops, struct rt_error *err) {
    while (counter->depth > 1) {
        struct piece *right = &counter->sum[counter->depth - 1], *left = right - 1;
        if (!pieces_are_halves(left, right))
            break;
        unsigned buffer;
        RT_TRY(pieces_merge(ops, left, right, &buffer, err));
        counter->used &= ~((uint64_t)1 << (buffer == left->buffer ? right->buffer : left->buffer));
        left->buffer = buffer;
        left->count *= 2;
        counter->depth--;
    }
    return RT_OK;
}

static rt_status pieces_add_at_root(const struct range_ops *ops, const struct piece *list, size_t count,
                                    struct rt_error *err) {
    struct counter counter = {0};
    for (size_t i = 0; i < count; i++)
        if (list[i].place == ops->team->place)
            counter_use(&counter, list[i].buffer);
    for (size_t i = 0; i < count; i++) {
        RT_TRY(counter_take(&counter, ops, &list[i], err));
        RT_TRY(counter_carry(&counter, ops, err));
    }
    return RT_OK;
}

rt_status rt_pieces_reduce_star(const struct rt_team *team, size_t first, size_t count,
                                struct rt_collective *collective, struct rt_error *err) {
    const struct range_ops ops = {team, first, count, collective};
    struct piece *list;
    size_t pieces;
    RT_TRY(pieces_list(team, &list, &pieces, err));
    rt_status status = RT_OK;
    if (team->place == 0)
        status = pieces_add_at_root(&ops, list, pieces, err);
    for (size_t i = 0; i < pieces && team->place != 0 && status == RT_OK; i++)
        if (list[i].place == team->place)
            status = rt_collective_send(collective, team, 0, list[i].buffer, first, count, err);
    free(list);
    return status;
}
