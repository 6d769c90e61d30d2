/*
 * The exchange by collectives; see carried.h.
 *
 * A load of the carrier is a span; loads have the order in which the replica makes the gradients of spans.
 * An update's loads begin when those of the update before have ended here, so a step's number is never in
 * doubt. Two threads meet in it: what they share is guarded by the engine.
 *
 * Clipping needs the norm of the whole gradient before any of it is applied. Where every worker has the
 * optimizer, the first span that is needed waits for all. Where one place applies, the moves of every span
 * are cut in two: those that add up the gradient, for all spans, then those that make parameters of it.
 */
#include "exchange/carried.h"

#include "base/cores.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct rt_carried {
    struct rt_carried_settings settings;
    struct rt_replica replica;
    struct rt_carrier *carrier;
    struct rt_engine *engine;
    size_t spans, loads; /* loads of an update: as many, or twice as many when they are cut in two */
    bool applies;        /* parameters are made here, inside the carrier */

    /* Guarded by the engine. */
    uint64_t wanted; /* loads that may begin, ever rising */
    uint64_t before; /* updates before the first load */
    struct rt_optim_step step;

    /* Of the thread that computes. */
    uint64_t ended;              /* updates whose gradient is complete */
    uint64_t *applied;           /* [spans] those that the span is known to have */
    uint64_t stepped;            /* the update that this is the step of: */
    struct rt_optim_step repeat; /* the same for every span */
    uint64_t awaited;            /* loads, in a wait */
    bool failed;
};

/* ---- life ---------------------------------------------------------------------------------------------- */

/* The load of a span; and the span of a load. */
static size_t turn_of(const struct rt_carried *carried, size_t span) {
    return carried->replica.rising ? span : carried->spans - 1 - span;
}

static bool is_second(const struct rt_move *move) {
    return move->kind == RT_MOVE_APPLY || move->buffer == RT_BUFFER_PARAMS;
}

/* What adds up the gradient stays; the rest goes into another list. */
static rt_status cut_in_two(struct rt_moves *moves, struct rt_moves *second, struct rt_error *err) {
    size_t kept = 0;
    rt_status status = RT_OK;
    second->spares = moves->spares;
    for (size_t i = 0; i < moves->count && status == RT_OK; i++)
        if (is_second(&moves->list[i]))
            status = rt_moves_add(second, moves->list[i], err);
        else
            moves->list[kept++] = moves->list[i];
    if (status == RT_OK)
        moves->count = kept;
    return status;
}

static rt_status make_load(struct rt_carried *carried, size_t span, struct rt_load_settings *loads,
                           struct rt_error *err) {
    const struct rt_carried_settings *settings = &carried->settings;
    const struct rt_span *range = &carried->replica.spans[span];
    const size_t k = turn_of(carried, span);
    struct rt_load_settings *load = &loads[k];
    *load = (struct rt_load_settings){.gradient = carried->replica.gradient + range->first,
                                      .params = carried->replica.params + range->first,
                                      .count = range->count,
                                      .offset = range->first};
    rt_status status = settings->way->moves(settings->options, settings->roles, settings->party->rank, range,
                                            carried->replica.param_count, &settings->cost, &load->moves, err);
    for (size_t i = 0; status == RT_OK && i < load->moves.count; i++)
        carried->applies |= load->moves.list[i].kind == RT_MOVE_APPLY;
    if (status != RT_OK || carried->loads == carried->spans)
        return status;
    struct rt_load_settings *second = &loads[carried->spans + k];
    *second = *load;
    second->moves = (struct rt_moves){0};
    return cut_in_two(&load->moves, &second->moves, err);
}

static void apply_inside(void *user, size_t offset, size_t count, const float *gradient) {
    struct rt_carried *carried = user;
    rt_learning_apply(&carried->settings.learning, &carried->step, offset, count,
                      carried->replica.param_count, carried->replica.params, gradient);
}

static rt_status make_carrier(struct rt_carried *carried, struct rt_error *err) {
    struct rt_load_settings *loads;
    rt_status status = rt_alloc(carried->loads, sizeof *loads, "the loads of an exchange", &loads, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < carried->spans && status == RT_OK; i++)
        status = make_load(carried, i, loads, err);
    if (status != RT_OK) {
        for (size_t i = 0; i < carried->loads; i++)
            rt_moves_deinit(&loads[i].moves);
    } else {
        const struct rt_carrier_settings settings = {.party = carried->settings.party,
                                                     .loads = loads,
                                                     .load_count = carried->loads,
                                                     .segment_floats = carried->settings.segment_floats,
                                                     .apply = apply_inside,
                                                     .user = carried};
        status = rt_carrier_create(&settings, &carried->carrier, err);
    }
    free(loads);
    return status;
}

rt_status rt_carried_create(const struct rt_carried_settings *settings, struct rt_carried **carried,
                            struct rt_error *err) {
    const struct rt_learning *learning = &settings->learning;
    const bool clips = learning->clip_norm > 0;
    struct rt_carried *made;
    if (settings->replica->span_count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no parameters to exchange");
    if (clips && !settings->way->can_clip)
        return rt_fail(err, RT_BAD_INPUT,
                       "train.clip_norm: with %s the whole gradient is nowhere together, so its norm cannot "
                       "be had",
                       settings->way->name);
    rt_status status = rt_alloc(1, sizeof *made, "an exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->replica = *settings->replica;
    made->spans = settings->replica->span_count;
    made->loads = made->spans * (clips && !rt_way_is_replicated(settings->way) ? 2 : 1);
    status = rt_alloc(made->spans, sizeof *made->applied, "the spans of an exchange", &made->applied, err);
    if (status == RT_OK)
        status = make_carrier(made, err);
    if (status != RT_OK) {
        rt_carried_destroy(made);
        return status;
    }
    *carried = made;
    return RT_OK;
}

void rt_carried_destroy(struct rt_carried *carried) {
    if (!carried)
        return;
    rt_carrier_destroy(carried->carrier);
    free(carried->applied);
    free(carried);
}

/* ---- the side of the events ---------------------------------------------------------------------------- */

/* Whether the next load may begin as far as the order of updates, and of the two halves of one, goes. */
static bool may_begin(const struct rt_carried *carried, uint64_t next) {
    const bool half =
        carried->applies && carried->loads != carried->spans && next % carried->loads == carried->spans;
    return (next % carried->loads != 0 && !half) || rt_carrier_done(carried->carrier) >= next;
}

static void begin_loads(struct rt_carried *carried) {
    const bool halves = carried->loads != carried->spans;
    uint64_t next = rt_carrier_started(carried->carrier);
    for (; next < carried->wanted && may_begin(carried, next); next++) {
        if (next % carried->loads == 0 && carried->settings.party->clock)
            rt_states_at_update(carried->settings.party->clock, carried->before + next / carried->loads + 1);
        if (carried->applies && next % carried->loads == (halves ? carried->spans : 0))
            rt_learning_begin(&carried->settings.learning, carried->before + next / carried->loads + 1,
                              halves ? carried->replica.gradient : NULL, &carried->step);
        rt_carrier_start(carried->carrier);
    }
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_carried *carried = self;
    if (event->kind == RT_EVENT_CLOSED || !rt_carrier_event(carried->carrier, event, status, err))
        return false;
    if (*status == RT_OK)
        begin_loads(carried);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    (void)err;
    begin_loads(self);
    return RT_OK;
}

static uint16_t waits_for(const void *self) {
    const struct rt_carried *carried = self;
    return rt_carrier_waits_for(carried->carrier);
}

struct rt_engine_part rt_carried_part(struct rt_carried *carried) {
    return (struct rt_engine_part){
        .self = carried, .event = take_event, .turn = take_turn, .waits_for = waits_for};
}

void rt_carried_attach(struct rt_carried *carried, struct rt_engine *engine) {
    carried->engine = engine;
}

/* ---- the side that computes ---------------------------------------------------------------------------- */

static enum rt_state enter_state(const struct rt_carried *carried, enum rt_state state) {
    struct rt_states *states = carried->settings.learning.states;
    if (!states)
        return state;
    const enum rt_state before = states->now;
    rt_states_enter(states, state);
    return before;
}

static bool has_come(void *self) {
    const struct rt_carried *carried = self;
    return rt_carrier_done(carried->carrier) >= carried->awaited;
}

/* Waits until so many loads of the last update have been carried. */
static bool await(struct rt_carried *carried, size_t count, struct rt_error *err) {
    if (carried->failed)
        return false;
    carried->awaited = (carried->ended - 1) * carried->loads + count;
    carried->failed = rt_engine_wait_as(carried->engine, carried->settings.learning.states,
                                        RT_STATE_WAIT_BARRIER, has_come, carried, err) != RT_OK;
    return !carried->failed;
}

/* The update of a span, where every worker has the optimizer. */
static void apply_span(struct rt_carried *carried, size_t span) {
    const struct rt_span *range = &carried->replica.spans[span];
    const bool clips = carried->settings.learning.clip_norm > 0;
    const enum rt_state before = enter_state(carried, RT_STATE_UPDATE);
    if (carried->stepped != carried->ended)
        rt_learning_begin(&carried->settings.learning, carried->before + carried->ended,
                          clips ? carried->replica.gradient : NULL, &carried->repeat);
    carried->stepped = carried->ended;
    rt_learning_apply(&carried->settings.learning, &carried->repeat, range->first, range->count,
                      carried->replica.param_count, carried->replica.params,
                      carried->replica.gradient + range->first);
    carried->applied[span] = carried->ended;
    enter_state(carried, before);
}

/* Where every worker has the optimizer: spans get their update as they come, while others are under way. */
static bool have_in_order(struct rt_carried *carried, size_t span, struct rt_error *err) {
    const bool clips = carried->settings.learning.clip_norm > 0;
    for (size_t k = clips ? turn_of(carried, span) : 0; k <= turn_of(carried, span); k++) {
        const size_t next = turn_of(carried, k);
        if (carried->applied[next] == carried->ended)
            continue;
        if (!await(carried, clips ? carried->loads : k + 1, err))
            return false;
        apply_span(carried, next);
    }
    return true;
}

static bool have_span(struct rt_carried *carried, size_t span, struct rt_error *err) {
    if (carried->applied[span] == carried->ended)
        return true;
    if (rt_way_is_replicated(carried->settings.way))
        return have_in_order(carried, span, err);
    if (!await(carried, carried->loads - carried->spans + turn_of(carried, span) + 1, err))
        return false;
    carried->applied[span] = carried->ended;
    return true;
}

static rt_status begin(void *self, const struct rt_ticket *ticket, struct rt_error *err) {
    (void)ticket;
    const struct rt_carried *carried = self;
    return rt_engine_status(carried->engine, err);
}

static void need(void *self, size_t span) {
    struct rt_error err;
    have_span(self, span, &err);
}

static void want(struct rt_carried *carried, uint64_t loads) {
    rt_engine_enter(carried->engine);
    carried->wanted = loads > carried->wanted ? loads : carried->wanted;
    rt_engine_leave(carried->engine);
    rt_core_give_way(); /* the exchange may have no other core, and all wait for what it does now */
}

static void ready(void *self, size_t span) {
    struct rt_carried *carried = self;
    if (carried->settings.options->wfbp && !carried->failed)
        want(carried, carried->ended * carried->loads + turn_of(carried, span) + 1);
}

static rt_status end(void *self, const struct rt_done *done, struct rt_error *err) {
    (void)done;
    struct rt_carried *carried = self;
    rt_status status = rt_engine_status(carried->engine, err);
    if (status != RT_OK)
        return status;
    carried->ended++;
    want(carried, carried->ended * carried->loads);
    return RT_OK;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_carried *carried = self;
    for (size_t i = 0; i < carried->spans && have_span(carried, i, err); i++)
        ;
    return rt_engine_status(carried->engine, err);
}

static void destroy(void *self) {
    rt_carried_destroy(self);
}

struct rt_exchange rt_carried_exchange(struct rt_carried *carried) {
    return (struct rt_exchange){.self = carried,
                                .begin = begin,
                                .need = need,
                                .ready = ready,
                                .end = end,
                                .settle = settle,
                                .destroy = destroy};
}

uint64_t rt_carried_update(const struct rt_carried *carried) {
    return carried->before + carried->ended;
}

void rt_carried_set_update(struct rt_carried *carried, uint64_t update) {
    if (carried->engine)
        rt_engine_enter(carried->engine);
    carried->before = update - carried->ended; /* their sum is what counts */
    if (carried->engine)
        rt_engine_leave(carried->engine);
}
