/*
 * The initial state of the nodes at one position of several rings: that of ring 0, whatever it was loaded
 * from. The node there stores each of its stages' tensors with the others, all rings at a time, and declares
 * which version that is (control/state_transfer.h). State tensor t of stage s is number s * tensors + t.
 */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include <stdlib.h>

static size_t initial_tensors(const struct rt_group *group) {
    return rt_stage_state_count(group->stages[0].stage);
}

static struct rt_stage *initial_stage(const struct rt_group *group, size_t tensor) {
    return group->stages[tensor / initial_tensors(group)].stage;
}

/* ---- a ring that is given its state ---- */

static size_t initial_floats(const void *self, size_t tensor, size_t *first) {
    const struct rt_group *group = self;
    *first = 0;
    return rt_stage_state_floats(initial_stage(group, tensor), tensor % initial_tensors(group));
}

/* Until the ring starts, nothing else uses its state; afterwards the store is closed (initial_adopt). */
static bool initial_can_write(const void *self, const struct rt_state_range *range) {
    (void)self, (void)range;
    return true;
}

static void initial_read(const void *self, const struct rt_state_range *range, float *into) {
    const struct rt_group *group = self;
    rt_stage_state_read(initial_stage(group, range->tensor), range->tensor % initial_tensors(group),
                        range->first, range->count, into);
}

static void initial_write(void *self, const struct rt_state_range *range, const float *from) {
    const struct rt_group *group = self;
    rt_stage_state_write(initial_stage(group, range->tensor), range->tensor % initial_tensors(group),
                         range->first, range->count, from);
}

/* The version of a stage moves only when the ring asks: a leader that has no ticket yet would take it for an
 * update that is done. */
static bool initial_loaded(void *self, uint64_t update) {
    struct rt_group *group = self;
    group->initial.update = update;
    group->initial.phase = RT_INITIAL_HERE;
    return true;
}

static void initial_adopt(struct rt_group *group) {
    for (size_t i = 0; i < group->stage_count; i++)
        group->stages[i].stage->update = group->initial.update;
    group->initial.phase = RT_INITIAL_SAME;
    group->initial.holder.settings.store.tensors = 0; /* nothing more may come */
}

static rt_status initial_open_giving(struct rt_group *group, struct rt_error *err) {
    const struct rt_communicator *comm = &group->comm;
    RT_TRY(rt_alloc(comm->count, sizeof *group->initial.giving, "the initial state", &group->initial.giving,
                    err));
    for (uint16_t ring = 1; ring < comm->count; ring++) {
        group->initial.giving[ring].group = group;
        RT_TRY(rt_state_initiator_init(&group->initial.giving[ring].initiator, comm->run, 0, 0, true, err));
    }
    return RT_OK;
}

rt_status rt_group_initial_init(struct rt_group *group, struct rt_error *err) {
    const struct rt_communicator *comm = &group->comm;
    if (comm->rank == 0)
        return initial_open_giving(group, err);
    const struct rt_state_holder_settings settings = {
        .store = {.self = group,
                  .tensors = group->stage_count * initial_tensors(group),
                  .floats = initial_floats,
                  .can_write = initial_can_write,
                  .read = initial_read,
                  .write = initial_write,
                  .loaded = initial_loaded},
        .in = comm->links[0],
        .out = comm->links[0],
        .run = comm->run,
        .rank = comm->rank,
        .finite = true,
        .examples = group->talk.examples,
        .user = group->talk.self};
    return rt_state_holder_init(&group->initial.holder, &settings, err);
}

void rt_group_initial_deinit(struct rt_group *group) {
    for (uint16_t ring = 1; group->initial.giving && ring < group->comm.count; ring++)
        rt_state_initiator_deinit(&group->initial.giving[ring].initiator);
    free(group->initial.giving);
    rt_state_holder_deinit(&group->initial.holder);
}

/* ---- ring 0, which gives it ---- */

static rt_status initial_give(void *user, size_t tensor, size_t count, float *floats, struct rt_error *err) {
    struct rt_initial_giving *giving = user;
    (void)err;
    const struct rt_state_range range = {.tensor = tensor, .first = giving->at, .count = count};
    initial_read(giving->group, &range, floats);
    giving->at += count;
    return RT_OK;
}

/* The next order to a ring: its tensors in turn, and behind the last the version. */
static void initial_order(struct rt_group *group, uint16_t ring) {
    struct rt_initial_giving *giving = &group->initial.giving[ring];
    const size_t tensors = group->stage_count * initial_tensors(group);
    struct rt_state_order order = {.node = ring,
                                   .in = group->comm.links[ring],
                                   .out = group->comm.links[ring],
                                   .version = group->stages[0].stage->update,
                                   .give = initial_give,
                                   .user = giving};
    size_t first;
    if (giving->tensor < tensors) {
        order.kind = RT_STATE_STORE;
        order.tensor = giving->tensor++;
        order.count = initial_floats(group, order.tensor, &first);
        giving->at = 0;
    } else {
        order.kind = RT_STATE_DECLARE;
        for (size_t tensor = 0; tensor < tensors; tensor++)
            order.count += initial_floats(group, tensor, &first);
        giving->declared = true;
    }
    rt_state_initiator_begin(&giving->initiator, &order);
}

/* Whether a ring has yet to take all of it. */
static bool initial_is_giving(const struct rt_group *group, uint16_t ring) {
    const struct rt_initial_giving *giving = &group->initial.giving[ring];
    return !giving->declared || giving->initiator.busy;
}

static void initial_go_on_giving(struct rt_group *group) {
    bool gives = false;
    for (uint16_t ring = 1; ring < group->comm.count; ring++) {
        const struct rt_initial_giving *giving = &group->initial.giving[ring];
        while (!giving->declared && !giving->initiator.busy)
            initial_order(group, ring);
        gives |= initial_is_giving(group, ring);
    }
    if (!gives)
        group->initial.phase = RT_INITIAL_SAME;
}

bool rt_group_initial_go_on(struct rt_group *group) {
    if (group->initial.phase == RT_INITIAL_IDLE)
        group->initial.phase = group->comm.rank == 0 ? RT_INITIAL_GIVING : RT_INITIAL_WAITING;
    if (group->initial.phase == RT_INITIAL_GIVING)
        initial_go_on_giving(group);
    if (group->initial.phase == RT_INITIAL_HERE)
        initial_adopt(group);
    return group->initial.phase == RT_INITIAL_SAME;
}

bool rt_group_initial_waits_for(const struct rt_group *group, uint16_t ring) {
    if (group->initial.phase == RT_INITIAL_WAITING)
        return ring == 0;
    return group->initial.phase == RT_INITIAL_GIVING && ring > 0 && initial_is_giving(group, ring);
}

static bool initial_giving_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                                 struct rt_error *err) {
    for (uint16_t ring = 1; ring < group->comm.count; ring++)
        if (rt_state_initiator_event(&group->initial.giving[ring].initiator, event, status, err))
            return true;
    return false;
}

bool rt_group_initial_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err) {
    bool worked = false;
    if (group->comm.rank == 0)
        return initial_giving_event(group, event, status, err);
    if (!rt_state_holder_event(&group->initial.holder, event, status, err))
        return false;
    if (*status == RT_OK)
        *status = rt_state_holder_go_on(&group->initial.holder, &worked, err);
    return true;
}
