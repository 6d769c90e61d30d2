/* Equal positions of several rings: their links, and the check whether a node of another ring is stuck.
 * group_exchange.c creates their exchange; initial_state.c distributes the initial state. */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include "cluster/traffic.h"
#include <stdlib.h>

/* When a node loses one of another ring, it waits so many seconds for its own ring to end: the neighbours of
 * the lost node know better what happened, and tell the master. */
static const double grace = 3;

/* ---- life ---------------------------------------------------------------------------------------------- */

bool rt_group_needs(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options,
                    const struct rt_roles *roles, uint16_t a, uint16_t b) {
    return a == 0 || b == 0 || rt_exchange_links(strategy, options, roles, a, b);
}

static rt_status group_check_links(const struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    char name[RT_NAME_ROOM];
    for (uint16_t ring = 0; ring < settings->rings; ring++)
        if (ring != settings->ring && !settings->links[ring] &&
            rt_group_needs(settings->strategy, settings->options, &group->roles, settings->ring, ring))
            return rt_fail(err, RT_FAILED, "there is no link with %s, which the exchange needs",
                           rt_node_name(&settings->names, rt_group_number(group, ring), name));
    return RT_OK;
}

static rt_status group_init(struct rt_group *group, const struct rt_group_settings *settings,
                            struct rt_error *err) {
    const uint16_t rings = settings->rings;
    group->settings = *settings;
    group->settings.timeout = settings->timeout > 0 ? settings->timeout : 60;
    group->rules = rt_exchange_rules(settings->strategy, settings->options);
    group->gone = UINT16_MAX;
    group->lost = RT_NODE_NONE;
    RT_TRY(rt_alloc(rings, sizeof *group->heard, "the exchange between rings", &group->heard, err));
    RT_TRY(rt_alloc(rings, sizeof *group->waits, "the exchange between rings", &group->waits, err));
    RT_TRY(rt_alloc(rings, sizeof *group->worker, "the roles of the rings", &group->worker, err));
    RT_TRY(
        rt_exchange_roles(settings->strategy, settings->options, rings, group->worker, &group->roles, err));
    RT_TRY(group_check_links(group, err));
    for (uint16_t ring = 0; ring < rings; ring++)
        group->waits[ring].node = UINT16_MAX;
    group->comm = (struct rt_communicator){.endpoint = settings->endpoint,
                                           .run = settings->run,
                                           .rank = settings->ring,
                                           .count = rings,
                                           .first = settings->ring_position,
                                           .stride = settings->ring_size,
                                           .names = settings->names,
                                           .links = settings->links,
                                           .timeout = settings->timeout};
    return RT_OK;
}

rt_status rt_group_create(const struct rt_group_settings *settings, struct rt_group **group,
                          struct rt_error *err) {
    struct rt_group *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the exchange between rings", &made, err));
    RT_FINISH_CREATE(group_init(made, settings, err), made, rt_group_destroy, group);
}

void rt_group_hang_up(struct rt_group *group) {
    for (uint16_t ring = 0; group && ring < group->comm.count; ring++) {
        rt_link_close(group->comm.links[ring]);
        group->comm.links[ring] = NULL;
    }
}

void rt_group_destroy(struct rt_group *group) {
    if (!group)
        return;
    rt_group_hang_up(group);
    rt_group_exchange_deinit(group);
    rt_group_initial_deinit(group);
    free(group->worker);
    free(group->heard);
    free(group->waits);
    free(group);
}

uint16_t rt_group_number(const struct rt_group *group, uint16_t ring) {
    return (uint16_t)(ring * group->settings.ring_size + group->settings.ring_position);
}

/* ---- events -------------------------------------------------------------------------------------------- */

/* The reason is in err. */
static rt_status group_blame(struct rt_group *group, uint16_t ring, struct rt_error *err) {
    group->lost = rt_group_number(group, ring);
    return err->status = RT_FAILED;
}

/* The server's, or the worker's. */
static bool group_hand_out(struct rt_group *group, const struct rt_event *event, rt_status *status,
                           struct rt_error *err) {
    struct rt_engine_part parts[2];
    const size_t count = rt_exchange_member_parts(&group->member, parts);
    for (size_t i = 0; i < count; i++)
        if (parts[i].event(parts[i].self, event, status, err))
            return true;
    return false;
}

static bool group_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_group *group = self;
    const uint16_t ring = event->link ? rt_communicator_rank(&group->comm, event->link) : UINT16_MAX;
    if (ring == UINT16_MAX)
        return false;
    *status = RT_OK;
    group->heard[ring] = rt_endpoint_now(group->comm.endpoint);
    if (group->talk.self && group->talk.event(group->talk.self, event, &group->lost, status, err))
        return true;
    if (event->kind == RT_EVENT_CLOSED) {
        if (group->gone == UINT16_MAX) {
            group->gone = ring;
            group->gone_at = group->heard[ring];
            group->why = event->error;
        }
        return true;
    }
    if (rt_group_initial_event(group, event, status, err)) {
        if (*status != RT_OK)
            *status = group_blame(group, ring, err);
        return true;
    }
    if (group_hand_out(group, event, status, err) && *status != RT_OK)
        *status = group_blame(group, ring, err);
    return true;
}

/* Whether the node of that ring owes something: a sum, a server gradients, a worker an answer. */
static bool group_waits_for(const struct rt_group *group, uint16_t ring) {
    struct rt_engine_part parts[2];
    const size_t count = rt_exchange_member_parts(&group->member, parts);
    for (size_t i = 0; i < count; i++)
        if (parts[i].waits_for(parts[i].self) == ring)
            return true;
    return rt_group_initial_waits_for(group, ring) ||
           (group->talk.waits_for && group->talk.waits_for(group->talk.self, ring));
}

/* Fails when the node of another ring, if we wait for it, is stuck (cluster/liveness.h). */
static rt_status group_check_awaited(struct rt_group *group, uint16_t ring, bool waits, bool idle, double now,
                                     struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    const struct rt_liveness_terms terms = {.self = rt_group_number(group, settings->ring),
                                            .nodes = (uint16_t)(settings->ring_size * settings->rings),
                                            .timeout = settings->timeout};
    const uint16_t number = rt_group_number(group, ring);
    const double waited =
        rt_wait_look(&group->waits[ring], waits ? number : UINT16_MAX, group->heard[ring], idle, now);
    if (!waits)
        return RT_OK;
    const struct rt_heartbeat last = rt_link_heartbeat(group->comm.links[ring]);
    rt_liveness_count(&terms, number, waited, &last, &group->note);
    switch (rt_liveness_judge(&terms, &group->waits[ring], waited, &last, err)) {
    case RT_LIVENESS_GOOD:
        return RT_OK;
    case RT_LIVENESS_DEADLOCK:
        return RT_FAILED;
    case RT_LIVENESS_STUCK:
        break;
    }
    return group_blame(group, ring, err);
}

static rt_status group_check(void *self, bool idle, struct rt_error *err) {
    struct rt_group *group = self;
    const double now = rt_endpoint_now(group->comm.endpoint);
    if (group->gone != UINT16_MAX && now >= group->gone_at + grace) {
        *err = group->why;
        return group_blame(group, group->gone, err);
    }
    rt_status status = RT_OK;
    group->note = RT_NOTE_NONE;
    for (uint16_t ring = 0; ring < group->comm.count && status == RT_OK; ring++) {
        const bool waits = group->comm.links[ring] && group_waits_for(group, ring);
        status = group_check_awaited(group, ring, waits, idle, now, err);
    }
    return status;
}

static uint16_t group_note(const void *self) {
    return ((const struct rt_group *)self)->note;
}

static uint16_t group_lost(const void *self) {
    return ((const struct rt_group *)self)->lost;
}

void rt_group_set_talk(struct rt_group *group, struct rt_group_talk talk) {
    group->talk = talk;
}

/* ---- as the ring sees it ------------------------------------------------------------------------------- */

static rt_status group_open(void *self, struct rt_stage *const *stages, size_t count, struct rt_states *clock,
                            struct rt_exchange *exchange, struct rt_error *err) {
    struct rt_group *group = self;
    group->comm.clock = clock;
    for (size_t i = 0; i < count; i++) {
        if (!stages[i]->slices.blocks[0])
            return rt_fail(err, RT_BAD_INPUT, "rings that only evaluate have nothing to exchange");
        group->stages[i].stage = stages[i];
    }
    group->stage_count = count;
    RT_TRY(rt_group_exchange_init(group, err));
    RT_TRY(rt_group_initial_init(group, err));
    *exchange = group->member.exchange;
    return RT_OK;
}

static bool group_start(void *self) {
    struct rt_group *group = self;
    if (!rt_group_initial_go_on(group))
        return false;
    rt_group_exchange_start(group);
    return true;
}

const struct rt_server *rt_group_server(const struct rt_group *group) {
    return group->member.server;
}

static bool group_can_serve(const void *self) {
    const struct rt_group *group = self;
    return group->member.server && group->started && rt_server_has_work(group->member.server);
}

/* The worker here may have been answered: it goes on. */
static bool group_serve(void *self) {
    struct rt_group *group = self;
    const struct rt_engine_part server = rt_server_part(group->member.server),
                                worker = group->member.exchange.part;
    struct rt_error none;
    rt_status status = RT_OK;
    const bool worked = server.work(server.self, &status, &none);
    (void)worker.turn(worker.self, &none);
    return worked;
}

static bool group_may_leave(void *self) {
    const struct rt_group *group = self;
    return !group->talk.self || group->talk.may_leave(group->talk.self);
}

/* The updates that were made here, and how stale they were. */
static void group_tell(const void *self, struct rt_metrics_row *row) {
    const struct rt_group *group = self;
    for (uint16_t ring = 0; ring < group->comm.count; ring++) {
        const struct rt_link *link = group->comm.links[ring];
        if (link)
            rt_traffic_add(link, &link->counts, 2, row);
    }
    if (!group->member.server)
        return;
    const struct rt_server_counts *counts = rt_server_counts(group->member.server);
    row->updates = rt_server_version(group->member.server);
    row->staleness_sum = counts->staleness_sum;
    row->staleness_max = counts->staleness_max;
}

struct rt_inter_ring rt_group_inter_ring(struct rt_group *group) {
    return (struct rt_inter_ring){.self = group,
                                  .first = (uint16_t)(group->settings.ring * group->settings.ring_size),
                                  .nodes = (uint16_t)(group->settings.rings * group->settings.ring_size),
                                  .early = group->settings.options->wfbp,
                                  .open = group_open,
                                  .event = group_event,
                                  .start = group_start,
                                  .can_serve = group_can_serve,
                                  .serve = group_serve,
                                  .may_leave = group_may_leave,
                                  .check = group_check,
                                  .note = group_note,
                                  .lost = group_lost,
                                  .tell = group_tell};
}
