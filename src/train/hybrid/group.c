/* Equal places of several rings: the exchange of their gradients. hybrid_numbers.c has what they start from.
 */
#include "train/hybrid/group_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that somebody who lost a node of another ring waits for his own ring to end: the lost one's
 * neighbours know better what happened, and the master will have heard of it from them. */
static const double grace = 3;
/* Seconds after which a ring looks up at the latest while it waits. */
static const double look_up = 0.5;

/* ---- life ---------------------------------------------------------------------------------------------- */

bool rt_group_needs(const struct rt_way *way, const struct rt_way_options *options,
                    const struct rt_roles *roles, uint16_t a, uint16_t b) {
    return a == 0 || b == 0 || rt_way_links(way, options, roles, a, b);
}

static rt_status check_links(const struct rt_group *group, struct rt_error *err) {
    const struct rt_group_settings *settings = &group->settings;
    for (uint16_t ring = 0; ring < settings->rings; ring++)
        if (ring != settings->ring && !settings->links[ring] &&
            rt_group_needs(settings->way, settings->options, &group->roles, settings->ring, ring))
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
    made->settings.patience = settings->patience > 0 ? settings->patience : 60;
    made->gone = UINT16_MAX;
    made->progress = rt_endpoint_now(settings->endpoint);
    status = rt_alloc(settings->rings, sizeof *made->worker, "the roles of the rings", &made->worker, err);
    if (status == RT_OK)
        status =
            rt_way_roles(settings->way, settings->options, settings->rings, made->worker, &made->roles, err);
    if (status == RT_OK)
        status = check_links(made, err);
    if (status != RT_OK) {
        rt_group_destroy(made);
        return status;
    }
    made->party = (struct rt_party){.endpoint = settings->endpoint,
                                    .run = settings->run,
                                    .rank = settings->ring,
                                    .count = settings->rings,
                                    .links = settings->links,
                                    .patience = settings->patience};
    *group = made;
    return RT_OK;
}

void rt_group_hang_up(struct rt_group *group) {
    for (uint16_t ring = 0; group && ring < group->party.count; ring++) {
        rt_link_close(group->party.links[ring]);
        group->party.links[ring] = NULL;
    }
}

void rt_group_destroy(struct rt_group *group) {
    if (!group)
        return;
    rt_group_hang_up(group);
    rt_carrier_destroy(group->carrier);
    rt_group_numbers_deinit(group);
    free(group->loads);
    free(group->worker);
    free(group);
}

uint16_t rt_group_number(const struct rt_group *group, uint16_t ring) {
    return (uint16_t)(ring * group->settings.places + group->settings.place);
}

/* ---- loads --------------------------------------------------------------------------------------------- */

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

static rt_status make_load(const struct rt_group *group, const struct rt_group_load *load,
                           struct rt_load_settings *settings, struct rt_error *err) {
    const struct rt_group_settings *own = &group->settings;
    const struct rt_stage *stage = group->stages[load->stage].stage;
    const struct rt_span span = {.count = stage->model->layers[load->layer]->param_count};
    *settings = (struct rt_load_settings){
        .gradient = stage->slices.blocks[0] + stage->model->param_at[load->layer], .count = span.count};
    rt_status status = own->way->moves(own->options, &group->roles, own->ring, &span, span.count, &own->cost,
                                       &settings->moves, err);
    if (status == RT_OK)
        give_sums(&settings->moves);
    return status;
}

/* In the order in which gradients become complete: from the loss on. */
static rt_status list_loads(struct rt_group *group, struct rt_error *err) {
    size_t layers = 0;
    for (size_t i = 0; i < group->stage_count; i++)
        layers += group->stages[i].stage->model->count;
    rt_status status = rt_alloc(layers, sizeof *group->loads, "the exchange", &group->loads, err);
    for (size_t i = group->stage_count; i-- > 0 && status == RT_OK;) {
        struct rt_group_stage *stage = &group->stages[i];
        const struct rt_model *model = stage->stage->model;
        stage->first = group->load_count;
        for (size_t layer = model->count; layer-- > 0;)
            if (model->layers[layer]->param_count > 0)
                group->loads[group->load_count++] = (struct rt_group_load){i, layer};
        stage->count = group->load_count - stage->first;
    }
    return status;
}

static rt_status make_carrier(struct rt_group *group, struct rt_error *err) {
    struct rt_load_settings *loads;
    rt_status status = rt_alloc(group->load_count, sizeof *loads, "the exchange", &loads, err);
    size_t made = 0;
    while (status == RT_OK && made < group->load_count) {
        status = make_load(group, &group->loads[made], &loads[made], err);
        made++;
    }
    if (status == RT_OK) {
        const struct rt_carrier_settings settings = {
            .party = &group->party, .loads = loads, .load_count = group->load_count};
        status = rt_carrier_create(&settings, &group->carrier, err);
    } else {
        for (size_t i = 0; i < made; i++)
            rt_moves_deinit(&loads[i].moves);
    }
    free(loads);
    return status;
}

static rt_status open_group(void *self, struct rt_stage *const *stages, size_t count, struct rt_error *err) {
    struct rt_group *group = self;
    for (size_t i = 0; i < count; i++) {
        if (!stages[i]->slices.blocks[0])
            return rt_fail(err, RT_BAD_INPUT, "rings that only evaluate have nothing to exchange");
        group->stages[i].stage = stages[i];
    }
    group->stage_count = count;
    rt_status status = list_loads(group, err);
    if (status == RT_OK && group->load_count > 0)
        status = make_carrier(group, err);
    return status == RT_OK ? rt_group_numbers_init(group, err) : status;
}

/* ---- the exchange -------------------------------------------------------------------------------------- */

/* Loads are started in their order. */
static void start_loads(struct rt_group *group) {
    for (;;) {
        const uint64_t next = rt_carrier_started(group->carrier), update = next / group->load_count;
        const size_t load = (size_t)(next % group->load_count);
        const struct rt_group_stage *stage = &group->stages[group->loads[load].stage];
        if (stage->ready <= update * stage->count + (load - stage->first))
            return;
        rt_carrier_start(group->carrier);
    }
}

static void take_ready(void *self, size_t number, size_t layer) {
    struct rt_group *group = self;
    struct rt_group_stage *stage = &group->stages[number];
    size_t loads = 0;
    while (loads < stage->count && group->loads[stage->first + loads].layer >= layer)
        loads++;
    stage->ready = stage->updates * stage->count + loads;
    stage->updates += layer == 0 ? 1 : 0;
    group->progress = rt_endpoint_now(group->party.endpoint);
    if (group->carrier)
        start_loads(group);
}

static bool is_done(const void *self, size_t number) {
    const struct rt_group *group = self;
    const struct rt_group_stage *stage = &group->stages[number];
    if (stage->count == 0)
        return true;
    return rt_carrier_done(group->carrier) >=
           (stage->updates - 1) * group->load_count + stage->first + stage->count;
}

/* ---- events -------------------------------------------------------------------------------------------- */

static rt_status blame(struct rt_group *group, uint16_t ring, const struct rt_link *link,
                       struct rt_error *err) {
    group->lost = rt_group_number(group, ring);
    return rt_fail_prefix(err, RT_FAILED, "node %u (%s)", group->lost, link->peer);
}

/* The carrier calls its peers by the numbers of their rings, which are nobody's names here. */
static void forget_name(uint16_t ring, struct rt_error *err) {
    char name[32];
    const size_t length = strlen(rt_party_name(ring, name));
    if (strncmp(err->text, name, length) == 0 && strncmp(err->text + length, ": ", 2) == 0)
        memmove(err->text, err->text + length + 2, strlen(err->text + length + 2) + 1);
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_group *group = self;
    const uint16_t ring = event->link ? rt_party_rank(&group->party, event->link) : UINT16_MAX;
    if (ring == UINT16_MAX)
        return false;
    *status = RT_OK;
    group->progress = rt_endpoint_now(group->party.endpoint);
    if (group->talk.self && group->talk.event(group->talk.self, event, &group->lost, status, err))
        return true;
    if (event->kind == RT_EVENT_CLOSED) {
        if (group->gone == UINT16_MAX) {
            group->gone = ring;
            group->gone_at = group->progress;
            group->why = event->error;
        }
        return true;
    }
    if (!rt_group_numbers_event(group, event, status, err) && group->carrier &&
        rt_carrier_event(group->carrier, event, status, err) && *status != RT_OK)
        forget_name(ring, err);
    if (*status != RT_OK)
        *status = blame(group, ring, event->link, err);
    return true;
}

/* The ring that we wait for; UINT16_MAX: none. */
static uint16_t waits_for(const struct rt_group *group) {
    uint16_t ring = rt_group_numbers_wait_for(group);
    if (ring == UINT16_MAX && group->carrier)
        ring = rt_carrier_waits_for(group->carrier);
    if (ring == UINT16_MAX && group->talk.waits_for)
        ring = group->talk.waits_for(group->talk.self);
    return ring;
}

static rt_status check(void *self, struct rt_error *err) {
    struct rt_group *group = self;
    const double now = rt_endpoint_now(group->party.endpoint);
    if (group->gone != UINT16_MAX && now >= group->gone_at + grace) {
        group->lost = rt_group_number(group, group->gone);
        return rt_fail(err, RT_FAILED, "node %u: %s", group->lost,
                       rt_link_reason(group->party.links[group->gone], &group->why));
    }
    const uint16_t ring = waits_for(group);
    const double look = group->looked + look_up;
    /* Time in which this thread did not run does not count. */
    if (ring == UINT16_MAX)
        group->progress = now;
    else if (group->looked > 0 && rt_clock_overslept(look, now, group->settings.patience))
        group->progress = fmin(now, group->progress + now - look);
    group->looked = now;
    if (ring == UINT16_MAX)
        return RT_OK;
    /* Those who are next to a silent node wait half as long, and know better. */
    if (now < group->progress + 2 * group->settings.patience)
        return RT_OK;
    group->lost = rt_group_number(group, ring);
    return rt_fail(err, RT_FAILED, "node %u: nothing came from it for %g seconds, and it is waited for",
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
    return !group->talk.self || group->talk.may_leave(group->talk.self);
}

static void count(const void *self, struct rt_link_counts *counts) {
    const struct rt_group *group = self;
    for (uint16_t ring = 0; ring < group->party.count; ring++) {
        const struct rt_link *link = group->party.links[ring];
        for (size_t k = 0; link && k < RT_CHANNELS; k++) {
            counts->bytes_sent[k] += link->counts.bytes_sent[k];
            counts->bytes_received[k] += link->counts.bytes_received[k];
            counts->frames_sent[k] += link->counts.frames_sent[k];
            counts->frames_received[k] += link->counts.frames_received[k];
        }
    }
}

struct rt_across rt_group_across(struct rt_group *group) {
    return (struct rt_across){.self = group,
                              .first = (uint16_t)(group->settings.ring * group->settings.places),
                              .early = group->settings.options->wfbp,
                              .open = open_group,
                              .event = take_event,
                              .can_start = can_start,
                              .ready = take_ready,
                              .is_done = is_done,
                              .may_leave = may_leave,
                              .check = check,
                              .lost = lost,
                              .count = count};
}
