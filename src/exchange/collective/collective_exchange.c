/*
 * The exchange by collectives; see collective_exchange.h.
 *
 * A load of the executor is a span; loads have the order in which the replica makes the gradients of spans,
 * and begin in that order, each when its gradient is there. An update's loads begin when those of the update
 * before have ended here, so a step's number is never in doubt.
 *
 * Clipping needs the norm of the whole gradient before any of it is applied. Where every worker has the
 * optimizer, the first span that is needed waits for all. Where one place applies, the operations of every
 * span are cut in two: those that add up the gradient, for all spans, then those that make parameters of it.
 */
#include "exchange/collective/collective_exchange.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct rt_collective_exchange {
    struct rt_collective_exchange_settings settings;
    struct rt_replica replica;
    struct rt_executor *executor;
    size_t spans, loads; /* loads of an update: as many, or twice as many when they are cut in two */
    bool applies;        /* parameters are made here, inside the executor */

    /* Inside the engine. */
    uint64_t *ready; /* [spans] updates that the span's gradient is there for */
    uint64_t ended;  /* updates whose gradient is complete */
    uint64_t before; /* updates before the first load */
    struct rt_optim_step step;

    /* Of the thread that computes. */
    uint64_t *applied;           /* [spans] updates that the span is known to have */
    uint64_t stepped;            /* the update that this is the step of: */
    struct rt_optim_step repeat; /* the same for every span */
};

/* Whether every worker has the optimizer, and steps by itself. */
static bool collective_is_replicated(const struct rt_collective_exchange *collective) {
    return rt_exchange_is_replicated(collective->settings.strategy);
}

static bool collective_clips(const struct rt_collective_exchange *collective) {
    return !collective->settings.sums && collective->settings.updater.clip_norm > 0;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

/* The load of a span; and the span of a load. */
static size_t collective_turn_of(const struct rt_collective_exchange *collective, size_t span) {
    return collective->replica.rising ? span : collective->spans - 1 - span;
}

static bool collective_op_is_second(const struct rt_collective_op *op) {
    return op->kind == RT_OP_APPLY || op->buffer == RT_BUFFER_PARAMS;
}

/* What adds up the gradient stays; the rest goes into another list. */
static rt_status collective_cut_in_two(struct rt_collective *collective, struct rt_collective *second,
                                       struct rt_error *err) {
    size_t kept = 0; /* terms of a sum are the first list's alone */
    for (size_t i = 0; i < collective->count; i++)
        if (collective_op_is_second(&collective->list[i]))
            RT_TRY(rt_collective_add(second, collective->list[i], err));
        else
            collective->list[kept++] = collective->list[i];
    collective->count = kept;
    return RT_OK;
}

/* The sum goes back where parameters would, and is not applied. */
static void collective_return_sums(struct rt_collective *collective) {
    size_t kept = 0;
    for (size_t i = 0; i < collective->count; i++) {
        struct rt_collective_op op = collective->list[i];
        if (op.kind == RT_OP_APPLY)
            continue;
        if (op.buffer == RT_BUFFER_PARAMS)
            op.buffer = RT_BUFFER_GRADIENT;
        collective->list[kept++] = op;
    }
    collective->count = kept;
}

static rt_status collective_make_sum_load(const struct rt_collective_exchange *collective, size_t span,
                                          struct rt_load_settings *load, struct rt_error *err) {
    const struct rt_collective_exchange_settings *settings = &collective->settings;
    const struct rt_replica *replica = &collective->replica;
    const struct rt_span alone = {.count = replica->spans[span].count};
    *load = (struct rt_load_settings){.gradient = replica->gradients
                                                      ? replica->gradients[span]
                                                      : replica->gradient + replica->spans[span].first,
                                      .count = alone.count};
    RT_TRY(settings->strategy->collective(settings->options, settings->roles, settings->comm->rank, &alone,
                                          alone.count, &settings->cost, &load->collective, err));
    collective_return_sums(&load->collective);
    return RT_OK;
}

static rt_status collective_make_load(struct rt_collective_exchange *collective, size_t span,
                                      struct rt_load_settings *loads, struct rt_error *err) {
    const struct rt_collective_exchange_settings *settings = &collective->settings;
    const struct rt_span *range = &collective->replica.spans[span];
    const size_t k = collective_turn_of(collective, span);
    struct rt_load_settings *load = &loads[k];
    if (settings->sums)
        return collective_make_sum_load(collective, span, load, err);
    *load = (struct rt_load_settings){.gradient = collective->replica.gradient + range->first,
                                      .params = collective->replica.params + range->first,
                                      .pieces = collective->replica.pieces,
                                      .more_pieces = collective->replica.more_pieces,
                                      .count = range->count,
                                      .offset = range->first};
    RT_TRY(settings->strategy->collective(settings->options, settings->roles, settings->comm->rank, range,
                                          collective->replica.param_count, &settings->cost, &load->collective,
                                          err));
    for (size_t i = 0; i < load->collective.count; i++)
        collective->applies |= load->collective.list[i].kind == RT_OP_APPLY;
    if (collective->loads == collective->spans)
        return RT_OK;
    struct rt_load_settings *second = &loads[collective->spans + k];
    *second = *load;
    second->collective = (struct rt_collective){0};
    return collective_cut_in_two(&load->collective, &second->collective, err);
}

/* RT_OP_APPLY: here a synchronous server steps. */
static void collective_apply_op(void *user, size_t offset, size_t count, const float *gradient) {
    struct rt_collective_exchange *collective = user;
    rt_updater_apply(&collective->settings.updater, &collective->step, offset, count,
                     collective->replica.param_count, collective->replica.params, gradient);
}

static rt_status collective_make_executor(struct rt_collective_exchange *collective, struct rt_error *err) {
    struct rt_load_settings *loads;
    RT_TRY(rt_alloc(collective->loads, sizeof *loads, "the loads of an exchange", &loads, err));
    rt_status status = RT_OK;
    for (size_t i = 0; i < collective->spans && status == RT_OK; i++)
        status = collective_make_load(collective, i, loads, err);
    if (status != RT_OK) {
        for (size_t i = 0; i < collective->loads; i++)
            rt_collective_deinit(&loads[i].collective);
    } else {
        const struct rt_executor_settings settings = {.comm = collective->settings.comm,
                                                      .loads = loads,
                                                      .load_count = collective->loads,
                                                      .segment_floats = collective->settings.segment_floats,
                                                      .apply = collective_apply_op,
                                                      .user = collective};
        status = rt_executor_create(&settings, &collective->executor, err);
    }
    free(loads);
    return status;
}

static rt_status collective_init(struct rt_collective_exchange *collective,
                                 const struct rt_collective_exchange_settings *settings,
                                 struct rt_error *err) {
    collective->settings = *settings;
    collective->replica = *settings->replica;
    collective->spans = settings->replica->span_count;
    collective->loads =
        collective->spans * (collective_clips(collective) && !collective_is_replicated(collective) ? 2 : 1);
    RT_TRY(rt_alloc(collective->spans, sizeof *collective->ready, "the spans of an exchange",
                    &collective->ready, err));
    RT_TRY(rt_alloc(collective->spans, sizeof *collective->applied, "the spans of an exchange",
                    &collective->applied, err));
    return collective_make_executor(collective, err);
}

rt_status rt_collective_exchange_create(const struct rt_collective_exchange_settings *settings,
                                        struct rt_collective_exchange **collective, struct rt_error *err) {
    struct rt_collective_exchange *made;
    if (settings->replica->span_count == 0)
        return rt_fail(err, RT_BAD_INPUT, "there are no parameters to exchange");
    if (!settings->sums && settings->updater.clip_norm > 0 && !settings->strategy->can_clip)
        return rt_fail(err, RT_BAD_INPUT,
                       "train.clip_norm: with %s no node has the whole gradient, so its norm is unknown",
                       settings->strategy->name);
    RT_TRY(rt_alloc(1, sizeof *made, "an exchange", &made, err));
    RT_FINISH_CREATE(collective_init(made, settings, err), made, rt_collective_exchange_destroy, collective);
}

void rt_collective_exchange_destroy(struct rt_collective_exchange *collective) {
    if (!collective)
        return;
    rt_executor_destroy(collective->executor);
    free(collective->ready);
    free(collective->applied);
    free(collective);
}

/* ---- events -------------------------------------------------------------------------------------------- */

/* Whether the load's gradient is there. */
static bool collective_is_ready(const struct rt_collective_exchange *collective, uint64_t next) {
    const uint64_t update = next / collective->loads;
    const size_t load = (size_t)(next % collective->loads);
    return (load < collective->spans ? collective->ready[collective_turn_of(collective, load)]
                                     : collective->ended) > update;
}

/* Whether it may begin as far as the order of updates, and of the two halves of one, goes. */
static bool collective_may_begin(const struct rt_collective_exchange *collective, uint64_t next) {
    const bool half = collective->applies && collective->loads != collective->spans &&
                      next % collective->loads == collective->spans;
    return collective->settings.sums || (next % collective->loads != 0 && !half) ||
           rt_executor_done(collective->executor) >= next;
}

/* The step of an update. whole: all of its gradient is there, to be clipped. */
static void collective_begin_step(const struct rt_collective_exchange *collective, uint64_t number,
                                  bool whole, struct rt_optim_step *step) {
    const struct rt_update update = {.number = number, .batch = number, .damping = 1, .scale = 1};
    rt_updater_begin(&collective->settings.updater, &update, whole ? collective->replica.gradient : NULL,
                     step);
}

/* A new update, or the half of it that makes parameters. */
static void collective_begin_update(struct rt_collective_exchange *collective, uint64_t next) {
    const bool halves = collective->loads != collective->spans;
    const uint64_t update = collective->before + next / collective->loads + 1;
    if (next % collective->loads == 0 && collective->settings.comm->clock)
        rt_states_at_update(collective->settings.comm->clock, update);
    if (collective->applies && next % collective->loads == (halves ? collective->spans : 0))
        collective_begin_step(collective, update, halves, &collective->step);
}

static void collective_go_on(struct rt_collective_exchange *collective) {
    uint64_t next = rt_executor_started(collective->executor);
    for (; collective_is_ready(collective, next) && collective_may_begin(collective, next); next++) {
        if (!collective->settings.sums)
            collective_begin_update(collective, next);
        rt_executor_start(collective->executor);
    }
}

static bool collective_event(void *self, const struct rt_event *event, rt_status *status,
                             struct rt_error *err) {
    struct rt_collective_exchange *collective = self;
    if (event->kind == RT_EVENT_CLOSED || !rt_executor_event(collective->executor, event, status, err))
        return false;
    if (*status == RT_OK)
        collective_go_on(collective);
    return true;
}

static rt_status collective_turn(void *self, struct rt_error *err) {
    (void)err;
    collective_go_on(self);
    return RT_OK;
}

static uint16_t collective_waits_for(const void *self) {
    const struct rt_collective_exchange *collective = self;
    return rt_executor_waits_for(collective->executor);
}

/* ---- a worker's steps, inside the engine --------------------------------------------------------------- */

/* Parameters, or where every worker applies itself the sum: with clipping only when all of it is there. */
static bool collective_has(const void *self, size_t span) {
    const struct rt_collective_exchange *collective = self;
    const uint64_t ready = collective->ready[span];
    const bool all = collective_clips(collective) && collective_is_replicated(collective);
    const size_t loads =
        all ? collective->loads
            : collective->loads - collective->spans + collective_turn_of(collective, span) + 1;
    return ready == 0 || rt_executor_done(collective->executor) >= (ready - 1) * collective->loads + loads;
}

static void collective_ready(void *self, size_t span) {
    struct rt_collective_exchange *collective = self;
    collective->ready[span]++;
}

static void collective_end(void *self, const struct rt_done *done) {
    struct rt_collective_exchange *collective = self;
    (void)done;
    collective->ended++;
    for (size_t i = 0; i < collective->spans; i++)
        if (collective->ready[i] < collective->ended)
            collective->ready[i] = collective->ended;
}

static bool collective_rests(const void *self) {
    const struct rt_collective_exchange *collective = self;
    return rt_executor_done(collective->executor) >= collective->ended * collective->loads;
}

/* ---- by the thread that computes ----------------------------------------------------------------------- */

/* Where every worker has the optimizer, spans get their update as they come, while others are under way. */
static ptrdiff_t collective_due(const void *self, size_t span) {
    const struct rt_collective_exchange *collective = self;
    if (collective->applied[span] == collective->ended)
        return RT_NO_SPAN;
    if (!collective_is_replicated(collective) || collective_clips(collective))
        return (ptrdiff_t)span;
    size_t k = 0;
    while (collective->applied[collective_turn_of(collective, k)] == collective->ended)
        k++;
    return (ptrdiff_t)collective_turn_of(collective, k);
}

static void collective_take(void *self, size_t span) {
    struct rt_collective_exchange *collective = self;
    const struct rt_collective_exchange_settings *settings = &collective->settings;
    const struct rt_span *range = &collective->replica.spans[span];
    collective->applied[span] = collective->ended;
    if (!collective_is_replicated(collective))
        return;
    const enum rt_state before = rt_states_swap(settings->clock, RT_STATE_UPDATE);
    if (collective->stepped != collective->ended)
        collective_begin_step(collective, collective->before + collective->ended,
                              collective_clips(collective), &collective->repeat);
    collective->stepped = collective->ended;
    rt_updater_apply(&settings->updater, &collective->repeat, range->first, range->count,
                     collective->replica.param_count, collective->replica.params,
                     collective->replica.gradient + range->first);
    rt_states_swap(settings->clock, before);
}

static bool collective_give(void *self, size_t span) {
    const struct rt_collective_exchange *collective = self;
    (void)span;
    return collective->settings.options->wfbp;
}

/* ---- what its owner sees ------------------------------------------------------------------------------- */

struct rt_exchange rt_collective_exchange(struct rt_collective_exchange *collective) {
    const bool sums = collective->settings.sums;
    return (struct rt_exchange){.self = collective,
                                .part = {.self = collective,
                                         .event = collective_event,
                                         .turn = collective_turn,
                                         .waits_for = collective_waits_for},
                                .has = collective_has,
                                .ready = collective_ready,
                                .end = collective_end,
                                .rests = collective_rests,
                                .due = sums ? NULL : collective_due,
                                .take = sums ? NULL : collective_take,
                                .give = sums ? NULL : collective_give,
                                .urgent = true};
}

uint64_t rt_collective_exchange_update(const struct rt_collective_exchange *collective) {
    return collective->before + collective->ended;
}

void rt_collective_exchange_set_update(struct rt_collective_exchange *collective, uint64_t update) {
    collective->before = update - collective->ended; /* their sum is what counts */
}
