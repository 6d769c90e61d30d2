/*
 * Where the batch scheduler of an exchange meets its workers: remote workers, which get batches through the
 * coordinator (groups.c), and the master's own worker, which learns on the thread that computes. The engine
 * takes the coordinator's events, and after each of them batches are given.
 */
#include "run/exchange/inside.h"

/* ---- the master's own worker ---- */

static rt_status learn(void *self, uint64_t batch, struct rt_done *done, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    rt_exchange_give_beside(learner, batch);
    rt_status status = rt_exchanger_learn(learner->exchanger, batch, done, err);
    return status == RT_OK ? rt_exchange_take_beside(learner, done, err) : status;
}

static rt_status exchange_settle(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    return rt_exchanger_settle(learner->exchanger, err);
}

static rt_status exchange_await(void *self, bool (*test)(void *user), void *user, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    return rt_engine_wait_as(learner->exchanger->engine, rt_net_replica_states(learner->exchanger->net),
                             RT_STATE_WAIT_BARRIER, test, user, err);
}

static void exchange_enter(void *self) {
    struct rt_exchange_learner *learner = self;
    rt_engine_enter(learner->exchanger->engine);
}

static void exchange_leave(void *self) {
    struct rt_exchange_learner *learner = self;
    rt_engine_leave(learner->exchanger->engine);
}

static double exchange_now(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return rt_engine_now(learner->exchanger->engine);
}

/* ---- the batch scheduler: made after the server on the master, which says nothing until the engine runs
 * ---- */

void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_exchange_learner *learner = user;
    rt_scheduler_updated(learner->scheduler, version, pushes, push);
}

void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    struct rt_exchange_learner *learner = user;
    rt_scheduler_judged(learner->scheduler, push, verdict);
}

rt_status rt_exchange_make_scheduler(struct rt_exchange_learner *learner, bool tracks, struct rt_error *err) {
    const struct rt_training_config *config = &learner->config;
    const struct rt_scheduler_settings settings = {
        .workers = rt_exchange_workers(learner),
        .own = {.self = learner,
                .worker = {.self = learner, .learn = learn, .settle = exchange_settle},
                .await = exchange_await,
                .enter = exchange_enter,
                .leave = exchange_leave,
                .now = exchange_now},
        .roles = &learner->exchanger->clients,
        .servers = learner->exchanger->rules != NULL,
        .asynchronous = learner->exchanger->asynchronous,
        .tracks = tracks,
        .warm_start = learner->options->warm_start,
        .updates = config->settings.updates,
        .batches = rt_batches_count(config->set->count, config->settings.batch, config->settings.drop_last),
        .per_epoch = config->per_epoch,
        .rests = config->rests,
    };
    return rt_scheduler_create(&settings, &learner->scheduler, err);
}

/* ---- as a part of the engine: the coordinator, with tickets ---- */

static bool exchange_take_event(void *self, const struct rt_event *event, rt_status *status,
                                struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *coordinator = &learner->coordinator_part;
    if (!coordinator->event(coordinator->self, event, status, err))
        return false;
    if (*status == RT_OK) {
        rt_scheduler_dispense(learner->scheduler);
        *status = coordinator->turn(coordinator->self, err);
    }
    return true;
}

static rt_status exchange_take_turn(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *coordinator = &learner->coordinator_part;
    rt_scheduler_dispense(learner->scheduler);
    return coordinator->turn(coordinator->self, err);
}

static uint16_t exchange_waits_for(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return learner->coordinator_part.waits_for(learner->coordinator_part.self);
}

static uint16_t exchange_lost(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return learner->coordinator_part.lost(learner->coordinator_part.self);
}

/* After some time a worker may be late. */
static bool exchange_look_again(void *self, rt_status *status, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    (void)status, (void)err;
    rt_scheduler_look_again(learner->scheduler);
    return false;
}

struct rt_engine_part rt_exchange_coordinator_part(struct rt_exchange_learner *learner) {
    learner->coordinator_part = rt_coordinator_part(learner->coordinator);
    return (struct rt_engine_part){.self = learner,
                                   .event = exchange_take_event,
                                   .turn = exchange_take_turn,
                                   .work = rt_scheduler_cuts(learner->scheduler) ? exchange_look_again : NULL,
                                   .waits_for = exchange_waits_for,
                                   .lost = exchange_lost,
                                   .outlives = learner->coordinator_part.outlives};
}
