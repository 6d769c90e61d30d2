/* The order of devices where some cannot be connected to: see membership.h. */
#include "run/membership.h"

static bool order_is_hidden(const struct rt_membership *membership, size_t device) {
    return device > 0 && rt_cluster_member(membership->cluster, device - 1)->hidden;
}

bool rt_membership_can_link(const struct rt_membership *membership, size_t a, size_t b) {
    return rt_cluster_can_link(membership->cluster, a ? a - 1 : SIZE_MAX, b ? b - 1 : SIZE_MAX);
}

static void order_move(size_t *order, size_t from, size_t to) {
    const size_t device = order[from];
    for (size_t i = from; i > to; i--)
        order[i] = order[i - 1];
    order[to] = device;
}

/* Behind which of the first `count` devices it can lie; count: behind none. */
static size_t order_place(const struct rt_membership *membership, const size_t *order, size_t count,
                          size_t device) {
    size_t at = 0;
    while (at < count && !(rt_membership_can_link(membership, order[at], device) &&
                           rt_membership_can_link(membership, device, order[(at + 1) % count])))
        at++;
    return at;
}

size_t rt_membership_set_apart(const struct rt_membership *membership, size_t *order, size_t count) {
    size_t placed = 0;
    for (size_t i = 0; i < count; i++)
        if (!order_is_hidden(membership, order[i]))
            order_move(order, i, placed++);
    for (size_t i = placed; i < count; i++) {
        const size_t at = order_place(membership, order, placed, order[i]);
        if (at == placed)
            continue;
        order_move(order, i, at + 1);
        placed++;
    }
    return placed;
}
