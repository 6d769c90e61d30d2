/*
 * The exchange by collectives; see collective_exchange.h.
 *
 * A load of the executor is a span; loads have the order in which the replica makes the gradients of spans.
 * An update's loads begin when those of the update before have ended here, so a step's number is never in
 * doubt. Two threads meet in it: what they share is guarded by the engine.
 *
 * Clipping needs the norm of the whole gradient before any of it is applied. Where every worker has the
 * optimizer, the first span that is needed waits for all. Where one place applies, the operations of every
 * span are cut in two: those that add up the gradient, for all spans, then those that make parameters of it.
 */
#include "exchange/collective/collective_exchange.h"

#include "base/cores.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct rt_collective_exchange {
    struct rt_collective_exchange_settings settings;
    struct rt_replica replica;
    struct rt_executor *executor;
    struct rt_engine *engine;
    size_t spans, loads; /* loads of an update: as many, or twice as many when they are cut in two */
    bool applies;        /* parameters are made here, inside the executor */

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
static size_t turn_of(const struct rt_collective_exchange *collective, size_t span) {
    return collective->replica.rising ? span : collective->spans - 1 - span;
}

static bool is_second(const struct rt_collective_op *op) {
    return op->kind == RT_OP_APPLY || op->buffer == RT_BUFFER_PARAMS;
}

/* What adds up the gradient stays; the rest goes into another list. */
static rt_status cut_in_two(struct rt_collective *collective, struct rt_collective *second,
                            struct rt_error *err) {
    size_t kept = 0;
    rt_status status = RT_OK;
    second->spares = collective->spares;
    for (size_t i = 0; i < collective->count && status == RT_OK; i++)
        if (is_second(&collective->list[i]))
            status = rt_collective_add(second, collective->list[i], err);
        else
            collective->list[kept++] = collective->list[i];
    if (status == RT_OK)
        collective->count = kept;
    return status;
}

static rt_status make_load(struct rt_collective_exchange *collective, size_t span,
                           struct rt_load_settings *loads, struct rt_error *err) {
    const struct rt_collective_exchange_settings *settings = &collective->settings;
    const struct rt_span *range = &collective->replica.spans[span];
    const size_t k = turn_of(collective, span);
    struct rt_load_settings *load = &loads[k];
    *load = (struct rt_load_settings){.gradient = collective->replica.gradient + range->first,
                                      .params = collective->replica.params + range->first,
                                      .count = range->count,
                                      .offset = range->first};
    rt_status status = settings->strategy->collective(
        settings->options, settings->roles, settings->comm->rank, range, collective->replica.param_count,
        &settings->cost, &load->collective, err);
    for (size_t i = 0; status == RT_OK && i < load->collective.count; i++)
        collective->applies |= load->collective.list[i].kind == RT_OP_APPLY;
    if (status != RT_OK || collective->loads == collective->spans)
        return status;
    struct rt_load_settings *second = &loads[collective->spans + k];
    *second = *load;
    second->collective = (struct rt_collective){0};
    return cut_in_two(&load->collective, &second->collective, err);
}

static void apply_inside(void *user, size_t offset, size_t count, const float *gradient) {
    struct rt_collective_exchange *collective = user;
    rt_learning_apply(&collective->settings.learning, &collective->step, offset, count,
                      collective->replica.param_count, collective->replica.params, gradient);
}

static rt_status make_carrier(struct rt_collective_exchange *collective, struct rt_error *err) {
    struct rt_load_settings *loads;
    rt_status status = rt_alloc(collective->loads, sizeof *loads, "the loads of an exchange", &loads, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < collective->spans && status == RT_OK; i++)
        status = make_load(collective, i, loads, err);
    if (status != RT_OK) {
        for (size_t i = 0; i < collective->loads; i++)
            rt_collective_deinit(&loads[i].collective);
    } else {
        const struct rt_executor_settings settings = {.comm = collective->settings.comm,
                                                      .loads = loads,
                                                      .load_count = collective->loads,
                                                      .segment_floats = collective->settings.segment_floats,
                                                      .apply = apply_inside,
                                                      .user = collective};
        status = rt_executor_create(&settings, &collective->executor, err);
    }
    free(loads);
    return status;
}

rt_status rt_collective_exchange_create(const struct rt_collective_exchange_settings *settings,
                                        struct rt_collective_exchange **collective, struct rt_error *err) {
    const struct rt_learning *learning = &settings->learning;
    const bool clips = learning->clip_norm > 0;
    struct rt_collective_exchange *made;
    if (settings->replica->span_count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no parameters to exchange");
    if (clips && !settings->strategy->can_clip)
        return rt_fail(err, RT_BAD_INPUT,
                       "train.clip_norm: with %s the whole gradient is nowhere together, so its norm cannot "
                       "be had",
                       settings->strategy->name);
    rt_status status = rt_alloc(1, sizeof *made, "an exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->replica = *settings->replica;
    made->spans = settings->replica->span_count;
    made->loads = made->spans * (clips && !rt_exchange_is_replicated(settings->strategy) ? 2 : 1);
    status = rt_alloc(made->spans, sizeof *made->applied, "the spans of an exchange", &made->applied, err);
    if (status == RT_OK)
        status = make_carrier(made, err);
    if (status != RT_OK) {
        rt_collective_exchange_destroy(made);
        return status;
    }
    *collective = made;
    return RT_OK;
}

void rt_collective_exchange_destroy(struct rt_collective_exchange *collective) {
    if (!collective)
        return;
    rt_executor_destroy(collective->executor);
    free(collective->applied);
    free(collective);
}

/* ---- the side of the events ---------------------------------------------------------------------------- */

/* Whether the next load may begin as far as the order of updates, and of the two halves of one, goes. */
static bool may_begin(const struct rt_collective_exchange *collective, uint64_t next) {
    const bool half = collective->applies && collective->loads != collective->spans &&
                      next % collective->loads == collective->spans;
    return (next % collective->loads != 0 && !half) || rt_executor_done(collective->executor) >= next;
}

static void begin_loads(struct rt_collective_exchange *collective) {
    const bool halves = collective->loads != collective->spans;
    uint64_t next = rt_executor_started(collective->executor);
    for (; next < collective->wanted && may_begin(collective, next); next++) {
        if (next % collective->loads == 0 && collective->settings.comm->clock)
            rt_states_at_update(collective->settings.comm->clock,
                                collective->before + next / collective->loads + 1);
        if (collective->applies && next % collective->loads == (halves ? collective->spans : 0))
            rt_learning_begin(&collective->settings.learning,
                              collective->before + next / collective->loads + 1,
                              halves ? collective->replica.gradient : NULL, &collective->step);
        rt_executor_start(collective->executor);
    }
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_collective_exchange *collective = self;
    if (event->kind == RT_EVENT_CLOSED || !rt_executor_event(collective->executor, event, status, err))
        return false;
    if (*status == RT_OK)
        begin_loads(collective);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    (void)err;
    begin_loads(self);
    return RT_OK;
}

static uint16_t waits_for(const void *self) {
    const struct rt_collective_exchange *collective = self;
    return rt_executor_waits_for(collective->executor);
}

struct rt_engine_part rt_collective_exchange_part(struct rt_collective_exchange *collective) {
    return (struct rt_engine_part){
        .self = collective, .event = take_event, .turn = take_turn, .waits_for = waits_for};
}

void rt_collective_exchange_attach(struct rt_collective_exchange *collective, struct rt_engine *engine) {
    collective->engine = engine;
}

/* ---- the side that computes ---------------------------------------------------------------------------- */

static enum rt_state enter_state(const struct rt_collective_exchange *collective, enum rt_state state) {
    struct rt_states *states = collective->settings.learning.states;
    if (!states)
        return state;
    const enum rt_state before = states->now;
    rt_states_enter(states, state);
    return before;
}

static bool has_come(void *self) {
    const struct rt_collective_exchange *collective = self;
    return rt_executor_done(collective->executor) >= collective->awaited;
}

/* Waits until so many loads of the last update have been carried. */
static bool await(struct rt_collective_exchange *collective, size_t count, struct rt_error *err) {
    if (collective->failed)
        return false;
    collective->awaited = (collective->ended - 1) * collective->loads + count;
    collective->failed = rt_engine_wait_as(collective->engine, collective->settings.learning.states,
                                           RT_STATE_WAIT_BARRIER, has_come, collective, err) != RT_OK;
    return !collective->failed;
}

/* The update of a span, where every worker has the optimizer. */
static void apply_span(struct rt_collective_exchange *collective, size_t span) {
    const struct rt_span *range = &collective->replica.spans[span];
    const bool clips = collective->settings.learning.clip_norm > 0;
    const enum rt_state before = enter_state(collective, RT_STATE_UPDATE);
    if (collective->stepped != collective->ended)
        rt_learning_begin(&collective->settings.learning, collective->before + collective->ended,
                          clips ? collective->replica.gradient : NULL, &collective->repeat);
    collective->stepped = collective->ended;
    rt_learning_apply(&collective->settings.learning, &collective->repeat, range->first, range->count,
                      collective->replica.param_count, collective->replica.params,
                      collective->replica.gradient + range->first);
    collective->applied[span] = collective->ended;
    enter_state(collective, before);
}

/* Where every worker has the optimizer: spans get their update as they come, while others are under way. */
static bool have_in_order(struct rt_collective_exchange *collective, size_t span, struct rt_error *err) {
    const bool clips = collective->settings.learning.clip_norm > 0;
    for (size_t k = clips ? turn_of(collective, span) : 0; k <= turn_of(collective, span); k++) {
        const size_t next = turn_of(collective, k);
        if (collective->applied[next] == collective->ended)
            continue;
        if (!await(collective, clips ? collective->loads : k + 1, err))
            return false;
        apply_span(collective, next);
    }
    return true;
}

static bool have_span(struct rt_collective_exchange *collective, size_t span, struct rt_error *err) {
    if (collective->applied[span] == collective->ended)
        return true;
    if (rt_exchange_is_replicated(collective->settings.strategy))
        return have_in_order(collective, span, err);
    if (!await(collective, collective->loads - collective->spans + turn_of(collective, span) + 1, err))
        return false;
    collective->applied[span] = collective->ended;
    return true;
}

static rt_status begin(void *self, const struct rt_ticket *ticket, struct rt_error *err) {
    (void)ticket;
    const struct rt_collective_exchange *collective = self;
    return rt_engine_status(collective->engine, err);
}

static void need(void *self, size_t span) {
    struct rt_error err;
    have_span(self, span, &err);
}

static void want(struct rt_collective_exchange *collective, uint64_t loads) {
    rt_engine_enter(collective->engine);
    collective->wanted = loads > collective->wanted ? loads : collective->wanted;
    rt_engine_leave(collective->engine);
    rt_core_give_way(); /* the exchange may have no other core, and all wait for what it does now */
}

static void ready(void *self, size_t span) {
    struct rt_collective_exchange *collective = self;
    if (collective->settings.options->wfbp && !collective->failed)
        want(collective, collective->ended * collective->loads + turn_of(collective, span) + 1);
}

static rt_status end(void *self, const struct rt_done *done, struct rt_error *err) {
    (void)done;
    struct rt_collective_exchange *collective = self;
    rt_status status = rt_engine_status(collective->engine, err);
    if (status != RT_OK)
        return status;
    collective->ended++;
    want(collective, collective->ended * collective->loads);
    return RT_OK;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_collective_exchange *collective = self;
    for (size_t i = 0; i < collective->spans && have_span(collective, i, err); i++)
        ;
    return rt_engine_status(collective->engine, err);
}

static void destroy(void *self) {
    rt_collective_exchange_destroy(self);
}

struct rt_exchange rt_collective_exchange_face(struct rt_collective_exchange *collective) {
    return (struct rt_exchange){.self = collective,
                                .begin = begin,
                                .need = need,
                                .ready = ready,
                                .end = end,
                                .settle = settle,
                                .destroy = destroy};
}

uint64_t rt_collective_exchange_update(const struct rt_collective_exchange *collective) {
    return collective->before + collective->ended;
}

void rt_collective_exchange_set_update(struct rt_collective_exchange *collective, uint64_t update) {
    if (collective->engine)
        rt_engine_enter(collective->engine);
    collective->before = update - collective->ended; /* their sum is what counts */
    if (collective->engine)
        rt_engine_leave(collective->engine);
}
