/* Equal places of several rings: the exchange of their gradients. hybrid_numbers.c has what they start from.
 */
#include "train/hybrid_group_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* Seconds that somebody who lost a node of another ring waits for his own ring to end: the lost one's
 * neighbours know better what happened, and the master will have heard of it from them. */
static const double grace = 3;

/* ---- life ---------------------------------------------------------------------------------------------- */

bool rt_group_needs(const struct rt_way *way, const struct rt_way_options *options,
                    const struct rt_roles *roles, uint16_t a, uint16_t b) {
    return a == 0 || b == 0 || rt_way_links(way, options, roles, a, b);
}

rt_status rt_group_create(const struct rt_group_settings *settings, struct rt_group **group,
                          struct rt_error *err) {
    struct rt_group *made;
    rt_status status = rt_alloc(1, sizeof *made, "the exchange between rings", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->party = (struct rt_party){.endpoint = settings->endpoint,
                                    .run = settings->run,
                                    .rank = settings->ring,
                                    .count = settings->rings,
                                    .links = settings->links,
                                    .patience = settings->patience};
    made->gone = UINT16_MAX;
    made->progress = rt_endpoint_now(settings->endpoint);
    status = rt_alloc(settings->rings, sizeof *made->worker, "the roles of the rings", &made->worker, err);
    if (status == RT_OK)
        status =
            rt_way_roles(settings->way, settings->options, settings->rings, made->worker, &made->roles, err);
    if (status != RT_OK) {
        rt_group_destroy(made);
        return status;
    }
    *group = made;
    return RT_OK;
}

void rt_group_destroy(struct rt_group *group) {
    if (!group)
        return;
    rt_carrier_destroy(group->carrier);
    rt_group_numbers_deinit(group);
    free(group->worker);
    free(group);
}

uint16_t rt_group_number(const struct rt_group *group, uint16_t ring) {
    return (uint16_t)(ring * group->settings.places + group->settings.place);
}

/* The sum goes back where parameters would. */
static void give_sums(struct rt_moves *moves) {
    size_t kept = 0;
    for (size_t i = 0; i < moves->count; i++) {
        struct rt_move move = moves->list[i];
        if (move.kind == RT_MOVE_APPLY)
            continue;
        if (move.buffer == RT_BUFFER_PARAMS)
            move.buffer = RT_BUFFER_GRADIENT;
        moves->list[kept++] = move;
    }
    moves->count = kept;
}

static rt_status make_load(struct rt_group *group, size_t stage, struct rt_load_settings *load,
                           struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    const struct rt_span span = {.count = group->stages[stage]->model->param_count};
    *load = (struct rt_load_settings){.gradient = group->stages[stage]->slices.blocks[0],
                                      .params = group->stages[stage]->blocks.params,
                                      .count = span.count};
    rt_status status = settings->way->moves(settings->options, &group->roles, settings->ring, &span,
                                            span.count, &settings->cost, &load->moves, err);
    if (status == RT_OK)
        give_sums(&load->moves);
    return status;
}

/* The stage nearest to the loss first: its gradient is complete before that of the other. */
static rt_status open_group(void *self, struct rt_stage *const *stages, size_t count, struct rt_error *err) {
    struct rt_group *group = self;
    struct rt_load_settings loads[RT_GROUP_STAGES] = {0};
    rt_status status = RT_OK;
    for (size_t i = 0; i < count; i++)
        group->stages[i] = stages[i];
    group->stage_count = count;
    for (size_t i = count; i-- > 0 && status == RT_OK;)
        if (stages[i]->model->param_count > 0) {
            group->load_of[i] = group->load_count;
            group->stage_of[group->load_count] = i;
            status = make_load(group, i, &loads[group->load_count++], err);
        }
    if (status == RT_OK && group->load_count > 0) {
        const struct rt_carrier_settings settings = {
            .party = &group->party, .loads = loads, .load_count = group->load_count};
        status = rt_carrier_create(&settings, &group->carrier, err);
    } else {
        for (size_t i = 0; i < RT_GROUP_STAGES; i++)
            rt_moves_deinit(&loads[i].moves);
    }
    return status == RT_OK ? rt_group_numbers_init(group, err) : status;
}

/* ---- the exchange -------------------------------------------------------------------------------------- */

/* Loads are started in their order. */
static void begin(void *self, size_t stage) {
    struct rt_group *group = self;
    group->begun[stage]++;
    group->progress = rt_endpoint_now(group->party.endpoint);
    if (!group->carrier)
        return;
    for (;;) {
        const uint64_t next = rt_carrier_started(group->carrier);
        if (group->begun[group->stage_of[next % group->load_count]] <= next / group->load_count)
            return;
        rt_carrier_start(group->carrier);
    }
}

static bool is_done(const void *self, size_t stage) {
    const struct rt_group *group = self;
    if (group->stages[stage]->model->param_count == 0)
        return true;
    return rt_carrier_done(group->carrier) >
           (group->begun[stage] - 1) * group->load_count + group->load_of[stage];
}

/* ---- events -------------------------------------------------------------------------------------------- */

static rt_status blame(struct rt_group *group, uint16_t ring, const struct rt_link *link,
                       struct rt_error *err) {
    group->lost = rt_group_number(group, ring);
    return rt_fail_prefix(err, RT_FAILED, "node %u (%s)", group->lost, link->peer);
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_group *group = self;
    const uint16_t ring = event->link ? rt_party_rank(&group->party, event->link) : UINT16_MAX;
    if (ring == UINT16_MAX)
        return false;
    *status = RT_OK;
    if (group->talk.self && group->talk.event(group->talk.self, event, &group->lost, status, err))
        return true;
    group->progress = rt_endpoint_now(group->party.endpoint);
    if (event->kind == RT_EVENT_CLOSED) {
        if (group->gone == UINT16_MAX) {
            group->gone = ring;
            group->gone_at = group->progress;
            group->why = event->error;
        }
        return true;
    }
    if (!rt_group_numbers_event(group, event, status, err) && group->carrier)
        rt_carrier_event(group->carrier, event, status, err);
    if (*status != RT_OK)
        *status = blame(group, ring, event->link, err);
    return true;
}

/* Whom we wait for; UINT16_MAX: nobody. */
static uint16_t waits_for(const struct rt_group *group) {
    if (group->numbers.state == RT_NUMBERS_WAITING)
        return 0;
    return group->carrier ? rt_carrier_waits_for(group->carrier) : UINT16_MAX;
}

static rt_status check(void *self, struct rt_error *err) {
    struct rt_group *group = self;
    const double now = rt_endpoint_now(group->party.endpoint);
    if (group->gone != UINT16_MAX && now >= group->gone_at + grace) {
        group->lost = rt_group_number(group, group->gone);
        return rt_fail(err, RT_FAILED, "node %u: %s", group->lost, group->why.text);
    }
    const uint16_t ring = waits_for(group);
    if (ring == UINT16_MAX) {
        group->progress = now;
        return RT_OK;
    }
    /* Those who are next to a silent node wait half as long, and know better. */
    if (now < group->progress + 2 * group->settings.patience)
        return RT_OK;
    group->lost = rt_group_number(group, ring);
    return rt_fail(err, RT_FAILED,
                   "node %u: nothing came from it for %.0f seconds, and its gradient is waited for",
                   group->lost, 2 * group->settings.patience);
}

static uint16_t lost(const void *self) {
    return ((const struct rt_group *)self)->lost;
}

void rt_group_set_talk(struct rt_group *group, struct rt_group_talk talk) {
    group->talk = talk;
}

/* ---- as the ring sees it ------------------------------------------------------------------------------- */

static bool can_start(void *self) {
    return rt_group_numbers_go_on(self);
}

static bool may_leave(void *self) {
    const struct rt_group *group = self;
    return group->talk.may_leave(group->talk.self);
}

struct rt_across rt_group_across(struct rt_group *group) {
    return (struct rt_across){.self = group,
                              .first = (uint16_t)(group->settings.ring * group->settings.places),
                              .open = open_group,
                              .event = take_event,
                              .can_start = can_start,
                              .begin = begin,
                              .is_done = is_done,
                              .may_leave = may_leave,
                              .check = check,
                              .lost = lost};
}
