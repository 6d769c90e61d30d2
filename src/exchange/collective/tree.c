/*
 * Towards a root and back: the sums go up a tree, the result comes down the same tree. Shapes: a star, a
 * binomial tree, a tree of given degree, and groups whose first members form a star.
 *
 * In a star the root itself adds in the binary tree over the places: as a binary counter counts, two terms of
 * equal height become one, so it holds at most one more than the height of the tree at a time. That is the
 * sum that recursive doubling makes, and train.shards on one device.
 */
#include "exchange/collective/build.h"

/* ---- stars: the places first, first + stride, ... and a root, which may be one of them ---- */

struct row {
    size_t first, stride, count;
};

static unsigned tree_block_buffer(size_t block) {
    return block == 0 ? RT_BUFFER_GRADIENT : (unsigned)(RT_BUFFER_SPARE + block - 1);
}

/* The root's part: terms in the order of the row; a term of its own is there already. */
static rt_status tree_gather_terms(const struct rt_team *team, const struct row *row, size_t first,
                                   size_t count, struct rt_collective *collective, struct rt_error *err) {
    size_t depth = 0; /* blocks in use */
    rt_status status = RT_OK;
    for (size_t term = 0; term < row->count && status == RT_OK; term++) {
        const size_t place = row->first + term * row->stride;
        if (term % 2 == 0) {
            if (place != team->place)
                status =
                    rt_collective_take(collective, team, place, tree_block_buffer(depth), first, count, err);
            depth++;
            continue;
        }
        /* The block before is its neighbour alone: it is added there directly, without a buffer of its own.
         */
        status = rt_collective_sum(collective, team, place, tree_block_buffer(depth - 1), first, count, err);
        for (size_t pairs = term / 2; pairs % 2 == 1 && status == RT_OK; pairs /= 2, depth--)
            status = rt_collective_merge(collective, tree_block_buffer(depth - 1),
                                         tree_block_buffer(depth - 2), first, count, err);
    }
    for (; depth > 1 && status == RT_OK; depth--)
        status = rt_collective_merge(collective, tree_block_buffer(depth - 1), tree_block_buffer(depth - 2),
                                     first, count, err);
    return status;
}

static bool tree_row_has(const struct row *row, size_t place) {
    return place >= row->first && (place - row->first) % row->stride == 0 &&
           (place - row->first) / row->stride < row->count;
}

static rt_status tree_reduce_star(const struct rt_team *team, size_t root, const struct row *row,
                                  size_t first, size_t count, struct rt_collective *collective,
                                  struct rt_error *err) {
    if (team->place == root)
        return tree_gather_terms(team, row, first, count, collective, err);
    if (tree_row_has(row, team->place))
        return rt_collective_send(collective, team, root, RT_BUFFER_GRADIENT, first, count, err);
    return RT_OK;
}

static rt_status tree_broadcast_star(const struct rt_team *team, size_t root, const struct row *row,
                                     size_t first, size_t count, unsigned buffer,
                                     struct rt_collective *collective, struct rt_error *err) {
    rt_status status = RT_OK;
    if (team->place == root) {
        for (size_t i = 0; i < row->count && status == RT_OK; i++)
            if (row->first + i * row->stride != root)
                status = rt_collective_send(collective, team, row->first + i * row->stride, buffer, first,
                                            count, err);
    } else if (tree_row_has(row, team->place)) {
        status = rt_collective_take(collective, team, root, buffer, first, count, err);
    }
    return status;
}

/* ---- trees: the parent and the children of a place ---- */

/* The k-th child of a place, in the order in which they are added; n: there is none. */
static size_t tree_child_of(const struct rt_tree_form *form, size_t n, size_t place, size_t k) {
    if (form->shape == RT_SHAPE_BINOMIAL) {
        const size_t bit = (size_t)1 << k;
        return bit < n && place % (2 * bit) == 0 && place + bit < n ? place + bit : n;
    }
    const size_t child = place * form->degree + 1 + k;
    return k < form->degree && child < n ? child : n;
}

static size_t tree_parent_of(const struct rt_tree_form *form, size_t place) {
    return form->shape == RT_SHAPE_BINOMIAL ? place & (place - 1) : (place - 1) / form->degree;
}

static rt_status tree_reduce(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                             size_t count, struct rt_collective *collective, struct rt_error *err) {
    const size_t n = team->count, place = team->place;
    bool has_term = place > 0 || form->root_contributes;
    size_t child;
    rt_status status = RT_OK;
    for (size_t k = 0; status == RT_OK && (child = tree_child_of(form, n, place, k)) < n; k++) {
        status = has_term
                     ? rt_collective_sum(collective, team, child, RT_BUFFER_GRADIENT, first, count, err)
                     : rt_collective_take(collective, team, child, RT_BUFFER_GRADIENT, first, count, err);
        has_term = true;
    }
    if (status == RT_OK && place > 0)
        status = rt_collective_send(collective, team, tree_parent_of(form, place), RT_BUFFER_GRADIENT, first,
                                    count, err);
    return status;
}

/* In a binomial tree the child that was added last has the tallest tree below it: it is told first. */
static rt_status tree_broadcast(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                                size_t count, unsigned buffer, struct rt_collective *collective,
                                struct rt_error *err) {
    const size_t n = team->count, place = team->place;
    size_t children = 0;
    rt_status status = RT_OK;
    if (place > 0)
        status = rt_collective_take(collective, team, tree_parent_of(form, place), buffer, first, count, err);
    while (tree_child_of(form, n, place, children) < n)
        children++;
    for (size_t i = 0; i < children && status == RT_OK; i++) {
        const size_t k = form->shape == RT_SHAPE_BINOMIAL ? children - 1 - i : i;
        status =
            rt_collective_send(collective, team, tree_child_of(form, n, place, k), buffer, first, count, err);
    }
    return status;
}

/* ---- groups: a star in each, and one of their firsts, level by level ---- */

/* The place where the first group begins: a root without a term of its own is in none. */
static size_t tree_groups_begin(const struct rt_tree_form *form) {
    return form->root_contributes ? 0 : 1;
}

/* The members of a level lie `stride` apart: all, the firsts of groups, the firsts of groups of firsts. The
 * last level has one row, whose root is the root of all. */
struct level {
    size_t stride;
    bool last;
};

static struct level tree_level_of(const struct rt_team *team, const struct rt_tree_form *form,
                                  size_t number) {
    struct level level = {.stride = 1, .last = number + 1 == form->depth};
    for (size_t i = 0; i < number && level.stride < team->count; i++)
        level.stride *= form->degree;
    return level;
}

/* The row of a level that a place is in, and its root; no members: it is in none. */
static struct row tree_row_of(const struct rt_team *team, const struct rt_tree_form *form, struct level level,
                              size_t *root) {
    const size_t begin = tree_groups_begin(form), members = team->count - begin;
    *root = 0;
    if (level.last)
        return (struct row){begin, level.stride, (members + level.stride - 1) / level.stride};
    if (team->place < begin || (team->place - begin) % level.stride != 0)
        return (struct row){0, 1, 0};
    const size_t reach = level.stride * form->degree;
    const size_t first = begin + (team->place - begin) / reach * reach, left = team->count - first;
    *root = first;
    return (struct row){first, level.stride,
                        ((left < reach ? left : reach) + level.stride - 1) / level.stride};
}

static rt_status tree_reduce_groups(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                                    size_t count, struct rt_collective *collective, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t number = 0; number < form->depth && status == RT_OK; number++) {
        size_t root;
        const struct row row = tree_row_of(team, form, tree_level_of(team, form, number), &root);
        if (row.count > 0)
            status = tree_reduce_star(team, root, &row, first, count, collective, err);
    }
    return status;
}

static rt_status tree_broadcast_groups(const struct rt_team *team, const struct rt_tree_form *form,
                                       size_t first, size_t count, unsigned buffer,
                                       struct rt_collective *collective, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t number = form->depth; number > 0 && status == RT_OK; number--) {
        size_t root;
        const struct row row = tree_row_of(team, form, tree_level_of(team, form, number - 1), &root);
        if (row.count > 0)
            status = tree_broadcast_star(team, root, &row, first, count, buffer, collective, err);
    }
    return status;
}

/* ---- all of them ---- */

static struct rt_tree_form tree_checked(const struct rt_tree_form *form) {
    struct rt_tree_form made = *form;
    made.degree = made.degree > 0 ? made.degree : 1;
    made.depth = made.depth > 0 ? made.depth : 2;
    return made;
}

rt_status rt_collective_reduce(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                               size_t count, struct rt_collective *collective, struct rt_error *err) {
    const struct rt_tree_form made = tree_checked(form);
    const size_t begin = tree_groups_begin(&made);
    const struct row all = {begin, 1, team->count - begin};
    if (team->place >= team->count)
        return RT_OK;
    if (team->runs && (made.shape == RT_SHAPE_ARY || made.shape == RT_SHAPE_GROUPS))
        return rt_fail(err, RT_FAILED, "this tree of workers adds no slices");
    if (team->runs && made.shape == RT_SHAPE_STAR)
        return rt_pieces_reduce_star(team, first, count, collective, err);
    if (team->runs)
        return rt_pieces_reduce(team, &(size_t){0}, 1, first, count, collective, err);
    if (made.shape == RT_SHAPE_STAR)
        return tree_reduce_star(team, 0, &all, first, count, collective, err);
    if (made.shape == RT_SHAPE_GROUPS)
        return tree_reduce_groups(team, &made, first, count, collective, err);
    return tree_reduce(team, &made, first, count, collective, err);
}

rt_status rt_collective_broadcast(const struct rt_team *team, const struct rt_tree_form *form, size_t first,
                                  size_t count, unsigned buffer, struct rt_collective *collective,
                                  struct rt_error *err) {
    const struct rt_tree_form made = tree_checked(form);
    const struct row all = {0, 1, team->count};
    if (team->place >= team->count)
        return RT_OK;
    if (made.shape == RT_SHAPE_STAR)
        return tree_broadcast_star(team, 0, &all, first, count, buffer, collective, err);
    if (made.shape == RT_SHAPE_GROUPS)
        return tree_broadcast_groups(team, &made, first, count, buffer, collective, err);
    return tree_broadcast(team, &made, first, count, buffer, collective, err);
}

/* ---- parts to the root, and back ---- */

static void tree_part_of(const struct rt_team *team, size_t first, size_t count, size_t place, size_t *from,
                         size_t *floats) {
    size_t end;
    rt_collective_part(count, team->count, place, from, &end);
    *floats = end - *from;
    *from += first;
}

rt_status rt_collective_gather(const struct rt_team *team, size_t first, size_t count, unsigned buffer,
                               struct rt_collective *collective, struct rt_error *err) {
    size_t from, floats;
    rt_status status = RT_OK;
    if (team->place > 0 && team->place < team->count) {
        tree_part_of(team, first, count, team->place, &from, &floats);
        return rt_collective_send(collective, team, 0, buffer, from, floats, err);
    }
    for (size_t i = 1; team->place == 0 && i < team->count && status == RT_OK; i++) {
        tree_part_of(team, first, count, i, &from, &floats);
        status = rt_collective_take(collective, team, i, buffer, from, floats, err);
    }
    return status;
}

rt_status rt_collective_scatter(const struct rt_team *team, size_t first, size_t count, unsigned buffer,
                                struct rt_collective *collective, struct rt_error *err) {
    size_t from, floats;
    rt_status status = RT_OK;
    if (team->place > 0 && team->place < team->count) {
        tree_part_of(team, first, count, team->place, &from, &floats);
        return rt_collective_take(collective, team, 0, buffer, from, floats, err);
    }
    for (size_t i = 1; team->place == 0 && i < team->count && status == RT_OK; i++) {
        tree_part_of(team, first, count, i, &from, &floats);
        status = rt_collective_send(collective, team, i, buffer, from, floats, err);
    }
    return status;
}
