/* Which batch goes to which worker in the rig: each to all workers, to one of them, or to all of a group. */
#include "support/exrig_parts.h"

#include <math.h>
#include <string.h>

bool exrig_gets_tickets(const struct exrig *rig, uint16_t rank) {
    return !rt_exchange_rules(rig->strategy, &rig->options) ||
           rt_roles_place(&rig->clients, rank) < rig->clients.workers;
}

static bool give_one(struct exrig *rig, uint16_t rank, uint64_t batch) {
    const struct exrig_node *master = &rig->node[0], *node = &rig->node[rank];
    const size_t rows = exrig_rows(rig, batch), n = rig->settings.params;
    if (!rig->settings.send || !node->works)
        return rt_coordinator_give(master->coordinator, rank, batch);
    const size_t first = node->part * rows / node->parts, end = (node->part + 1) * rows / node->parts;
    float *buffer =
        master->sent + (rank * RT_TICKETS_AHEAD + batch % RT_TICKETS_AHEAD) * rig->settings.batch * n;
    if (rt_coordinator_held(master->coordinator, rank) == RT_TICKETS_AHEAD)
        return false;
    for (size_t row = first; row < end; row++)
        memcpy(buffer + (row - first) * n, exrig_point(rig, batch, row), n * sizeof *buffer);
    if (!rt_coordinator_give(master->coordinator, rank, batch))
        return false;
    rt_coordinator_send_samples(master->coordinator, rank, batch, buffer, (end - first) * n);
    return true;
}

static bool have_room(void *self) {
    const struct exrig_node *node = self;
    for (size_t i = 0; i < node->team.count; i++)
        if (node->team.ranks[i] > 0 &&
            rt_coordinator_held(node->rig->node[0].coordinator, node->team.ranks[i]) == RT_TICKETS_AHEAD)
            return false;
    return true;
}

/* The same to all of a group, but for the master. */
static bool give(struct exrig *rig, uint16_t rank, uint64_t batch) {
    struct exrig_node *node = &rig->node[rank];
    bool given = true;
    if (!rt_exchange_is_nested(rig->strategy, &rig->options))
        return give_one(rig, rank, batch);
    if (!have_room(node))
        return false;
    for (size_t i = 0; i < node->team.count; i++)
        given &= node->team.ranks[i] == 0 || give_one(rig, node->team.ranks[i], batch);
    return given;
}

bool exrig_give_beside(struct exrig *rig, uint64_t batch) {
    struct exrig_node *master = &rig->node[0];
    struct rt_error err;
    if (!rt_exchange_is_nested(rig->strategy, &rig->options))
        return true;
    const rt_status status = rt_engine_wait(master->engine, have_room, master, INFINITY, &err);
    if (status == RT_OK) {
        rt_engine_enter(master->engine);
        give(rig, 0, batch);
        rt_engine_leave(master->engine);
    }
    return exrig_fail(rig, status, &err);
}

void exrig_give_tickets(struct exrig *rig, uint64_t *next, uint64_t last) {
    const bool alone = rt_exchange_is_asynchronous(rig->strategy, &rig->options);
    for (bool given = true; given;) {
        given = false;
        for (uint16_t rank = 1; rank < rig->settings.nodes; rank++) {
            uint64_t *batch = alone ? &rig->given : &next[rank];
            if (*batch >= last || !exrig_gets_tickets(rig, rank) || !give(rig, rank, *batch + 1))
                continue;
            (*batch)++;
            given = true;
        }
    }
}
