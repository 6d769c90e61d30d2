/* Equal places of several rings: their links, and the timeout with one another. What they exchange is in
 * group_sums.c and group_served.c, what they start from in numbers.c. */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include "cluster/traffic.h"
#include <stdlib.h>
#include <string.h>

/* Seconds that somebody who lost a node of another ring waits for his own ring to end: the lost one's
 * neighbours know better what happened, and the master will have heard of it from them. */
static const double grace = 3;

/* ---- life ---------------------------------------------------------------------------------------------- */

bool rt_group_needs(const struct rt_exchange_strategy *strategy, const struct rt_exchange_options *options,
                    const struct rt_roles *roles, uint16_t a, uint16_t b) {
    return a == 0 || b == 0 || rt_exchange_links(strategy, options, roles, a, b);
}

static rt_status check_links(const struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    for (uint16_t ring = 0; ring < settings->rings; ring++)
        if (ring != settings->ring && !settings->links[ring] &&
            rt_group_needs(settings->strategy, settings->options, &group->roles, settings->ring, ring))
            return rt_fail(err, RT_FAILED, "there is no link with node %u, which the exchange needs",
                           rt_group_number(group, ring));
    return RT_OK;
}

rt_status rt_group_create(const struct rt_group_settings *settings, struct rt_group **group,
                          struct rt_error *err) {
    struct rt_group *made;
    rt_status status = rt_alloc(1, sizeof *made, "the exchange between rings", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->settings.timeout = settings->timeout > 0 ? settings->timeout : 60;
    made->means =
        rt_exchange_rules(settings->strategy, settings->options) ? &rt_group_servers : &rt_group_sums;
    made->gone = UINT16_MAX;
    status = rt_alloc(settings->rings, sizeof *made->heard, "the exchange between rings", &made->heard, err);
    if (status == RT_OK)
        status =
            rt_alloc(settings->rings, sizeof *made->waits, "the exchange between rings", &made->waits, err);
    if (status == RT_OK)
        status =
            rt_alloc(settings->rings, sizeof *made->worker, "the roles of the rings", &made->worker, err);
    if (status == RT_OK)
        status = rt_exchange_roles(settings->strategy, settings->options, settings->rings, made->worker,
                                   &made->roles, err);
    if (status == RT_OK)
        status = check_links(made, err);
    if (status != RT_OK) {
        rt_group_destroy(made);
        return status;
    }
    for (uint16_t ring = 0; ring < settings->rings; ring++)
        made->waits[ring].node = UINT16_MAX;
    made->comm = (struct rt_communicator){.endpoint = settings->endpoint,
                                          .run = settings->run,
                                          .rank = settings->ring,
                                          .count = settings->rings,
                                          .first = settings->place,
                                          .stride = settings->places,
                                          .links = settings->links,
                                          .timeout = settings->timeout};
    *group = made;
    return RT_OK;
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
    if (group->means)
        group->means->close(group);
    rt_group_initial_deinit(group);
    free(group->worker);
    free(group->heard);
    free(group->waits);
    free(group);
}

uint16_t rt_group_number(const struct rt_group *group, uint16_t ring) {
    return (uint16_t)(ring * group->settings.places + group->settings.place);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static rt_status blame(struct rt_group *group, uint16_t ring, const struct rt_link *link,
                       struct rt_error *err) {
    group->lost = rt_group_number(group, ring);
    return rt_fail_prefix(err, RT_FAILED, "node %u (%s)", group->lost, link->peer);
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
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
            *status = blame(group, ring, event->link, err);
        return true;
    }
    if (group->means->event(group, event, status, err) && *status != RT_OK) { /* names the node itself */
        group->lost = rt_group_number(group, ring);
        *status = RT_FAILED;
    }
    return true;
}

/* Fails when the node of another ring, if we wait for it, is stuck (cluster/liveness.h). */
static rt_status check_awaited(struct rt_group *group, uint16_t ring, bool waits, bool idle, double now,
                               struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    const struct rt_liveness_terms terms = {.self = rt_group_number(group, settings->ring),
                                            .nodes = (uint16_t)(settings->places * settings->rings),
                                            .timeout = settings->timeout};
    const uint16_t number = rt_group_number(group, ring);
    const double waited =
        rt_wait_look(&group->waits[ring], waits ? number : UINT16_MAX, group->heard[ring], idle, now);
    if (!waits)
        return RT_OK;
    const struct rt_heartbeat last = rt_link_heartbeat(group->comm.links[ring]);
    struct rt_error why;
    rt_liveness_count(&terms, number, waited, &last, &group->note);
    switch (rt_liveness_judge(&terms, &group->waits[ring], waited, &last, &why)) {
    case RT_LIVENESS_GOOD:
        return RT_OK;
    case RT_LIVENESS_DEADLOCK:
        return rt_fail(err, RT_FAILED, "%s", why.text);
    case RT_LIVENESS_STUCK:
        break;
    }
    group->lost = number;
    return rt_fail(err, RT_FAILED, "node %u: %s, and it is waited for", number, why.text);
}

static rt_status check(void *self, bool idle, struct rt_error *err) {
    struct rt_group *group = self;
    const double now = rt_endpoint_now(group->comm.endpoint);
    if (group->gone != UINT16_MAX && now >= group->gone_at + grace) {
        group->lost = rt_group_number(group, group->gone);
        return rt_fail(err, RT_FAILED, "node %u: %s", group->lost, group->why.text);
    }
    const uint16_t initial = rt_group_initial_wait_for(group);
    rt_status status = RT_OK;
    group->note = RT_NOTE_NONE;
    for (uint16_t ring = 0; ring < group->comm.count && status == RT_OK; ring++) {
        const bool waits = ring == initial || group->means->waits_for(group, ring) ||
                           (group->talk.waits_for && group->talk.waits_for(group->talk.self, ring));
        status = check_awaited(group, ring, waits && group->comm.links[ring], idle, now, err);
    }
    return status;
}

static uint16_t note(const void *self) {
    return ((const struct rt_group *)self)->note;
}

static uint16_t lost(const void *self) {
    return ((const struct rt_group *)self)->lost;
}

void rt_group_set_talk(struct rt_group *group, struct rt_group_talk talk) {
    group->talk = talk;
}

/* ---- as the ring sees it ------------------------------------------------------------------------------- */

static rt_status open_group(void *self, struct rt_stage *const *stages, size_t count, struct rt_states *clock,
                            struct rt_error *err) {
    struct rt_group *group = self;
    group->comm.clock = clock;
    for (size_t i = 0; i < count; i++) {
        if (!stages[i]->slices.blocks[0])
            return rt_fail(err, RT_BAD_INPUT, "rings that only evaluate have nothing to exchange");
        group->stages[i].stage = stages[i];
    }
    group->stage_count = count;
    rt_status status = group->means->open(group, err);
    return status == RT_OK ? rt_group_initial_init(group, err) : status;
}

static void take_ready(void *self, size_t stage, size_t layer) {
    struct rt_group *group = self;
    group->means->ready(group, stage, layer);
}

static bool is_done(const void *self, size_t stage) {
    const struct rt_group *group = self;
    return group->means->is_done(group, stage);
}

static void begin(void *self, uint64_t update, size_t rows) {
    rt_group_client_begin(self, update, rows);
}

static bool has(void *self) {
    return rt_group_client_has(self);
}

static bool rest(void *self, bool anew) {
    return rt_group_client_rest(self, anew);
}

static bool can_serve(const void *self) {
    return rt_group_can_serve(self);
}

static bool serve(void *self) {
    return rt_group_serve(self);
}

static bool can_start(void *self) {
    struct rt_group *group = self;
    if (!rt_group_initial_go_on(group))
        return false;
    if (group->means->start)
        group->means->start(group);
    return true;
}

static bool may_leave(void *self) {
    const struct rt_group *group = self;
    return !group->talk.self || group->talk.may_leave(group->talk.self);
}

static void tell(const void *self, struct rt_metrics_row *row) {
    const struct rt_group *group = self;
    for (uint16_t ring = 0; ring < group->comm.count; ring++) {
        const struct rt_link *link = group->comm.links[ring];
        if (link)
            rt_traffic_add(link, &link->counts, 2, row);
    }
    if (group->means->tell)
        group->means->tell(group, row);
}

struct rt_inter_ring rt_group_inter_ring(struct rt_group *group) {
    return (struct rt_inter_ring){.self = group,
                                  .first = (uint16_t)(group->settings.ring * group->settings.places),
                                  .nodes = (uint16_t)(group->settings.rings * group->settings.places),
                                  .early = group->settings.options->wfbp,
                                  .open = open_group,
                                  .event = take_event,
                                  .can_start = can_start,
                                  .ready = take_ready,
                                  .is_done = is_done,
                                  .begin = begin,
                                  .has = has,
                                  .rest = rest,
                                  .can_serve = can_serve,
                                  .serve = serve,
                                  .may_leave = may_leave,
                                  .check = check,
                                  .note = note,
                                  .lost = lost,
                                  .tell = tell};
}
