/*
 * Where the foreman of an exchange meets its workers: the crew (crew_groups.c), who are given batches over
 * links, and the master's own worker, who learns on the thread that computes. The engine takes the crew's
 * events, and after each of them batches are given.
 */
#include "train/exchange/inside.h"

/* ---- the master's own worker ---- */

static rt_status learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    struct rt_exchanger *site = learner->site;
    const struct rt_exchange *exchange = &site->exchange;
    const struct rt_ticket ticket = {
        .batch = batch, .part = site->works ? site->team.place : 0, .parts = site->team.count};
    *done = (struct rt_done){.batch = ticket.batch};
    rt_exchange_give_beside(learner, batch);
    rt_status status = exchange->begin(exchange->self, &ticket, err);
    if (status == RT_OK && site->works)
        status = site->replica->compute(site->replica->self, &ticket, exchange, done, err);
    if (status == RT_OK)
        status = exchange->end(exchange->self, done, err);
    return status == RT_OK ? rt_exchange_take_beside(learner, done, err) : status;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_exchange *exchange = &learner->site->exchange;
    return exchange->settle(exchange->self, err);
}

static rt_status await(void *self, bool (*test)(void *user), void *user, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    return rt_engine_wait_as(learner->site->engine, rt_net_replica_states(learner->site->net),
                             RT_STATE_WAIT_BARRIER, test, user, err);
}

static void enter(void *self) {
    struct rt_exchange_learner *learner = self;
    rt_engine_enter(learner->site->engine);
}

static void leave(void *self) {
    struct rt_exchange_learner *learner = self;
    rt_engine_leave(learner->site->engine);
}

static double now(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return rt_engine_now(learner->site->engine);
}

/* ---- the foreman: made after the server on the master, which says nothing until the engine runs ---- */

void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_exchange_learner *learner = user;
    rt_foreman_updated(learner->foreman, version, pushes, push);
}

void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    struct rt_exchange_learner *learner = user;
    rt_foreman_judged(learner->foreman, push, verdict);
}

rt_status rt_exchange_make_foreman(struct rt_exchange_learner *learner, bool tracks, struct rt_error *err) {
    const struct rt_lesson *lesson = &learner->lesson;
    const struct rt_foreman_settings settings = {
        .crew = rt_exchange_crew(learner),
        .own = {.self = learner,
                .learn = learn,
                .settle = settle,
                .await = await,
                .enter = enter,
                .leave = leave,
                .now = now},
        .roles = &learner->site->clients,
        .rules = learner->site->rules,
        .tracks = tracks,
        .warm_start = learner->options->warm_start,
        .updates = lesson->settings.updates,
        .batches = rt_batches_count(lesson->set->count, lesson->settings.batch, lesson->settings.drop_last),
        .per_epoch = lesson->per_epoch,
        .rests = lesson->rests,
    };
    return rt_foreman_create(&settings, &learner->foreman, err);
}

/* ---- as a part of the engine: the crew, with tickets ---- */

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *crew = &learner->crew_part;
    if (!crew->event(crew->self, event, status, err))
        return false;
    if (*status == RT_OK) {
        rt_foreman_dispense(learner->foreman);
        *status = crew->turn(crew->self, err);
    }
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *crew = &learner->crew_part;
    rt_foreman_dispense(learner->foreman);
    return crew->turn(crew->self, err);
}

static uint16_t waits_for(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return learner->crew_part.waits_for(learner->crew_part.self);
}

static uint16_t lost(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return learner->crew_part.lost(learner->crew_part.self);
}

/* Time passes: somebody may be late by now. */
static bool look_again(void *self, rt_status *status, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    (void)status, (void)err;
    rt_foreman_look_again(learner->foreman);
    return false;
}

struct rt_engine_part rt_exchange_crew_part(struct rt_exchange_learner *learner) {
    learner->crew_part = rt_crew_part(learner->crew);
    return (struct rt_engine_part){.self = learner,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .work = rt_foreman_cuts(learner->foreman) ? look_again : NULL,
                                   .waits_for = waits_for,
                                   .lost = lost,
                                   .outlives = learner->crew_part.outlives};
}
