/*
 * Who learns from which batch, and what became of it. Three kinds of exchange differ here:
 *
 *   collectives     everybody takes part in every update: all get the same tickets, a few ahead
 *   rounds          servers wait for some of those who share a batch: who is done gets the next one that is
 *                   still of use
 *   asynchronous    every batch is one worker's, in the order of asking
 *
 * Tickets are given by the thread that takes the events, as soon as a result has come, so that nobody waits
 * while the master's own worker computes. Steps are returned by the thread that computes. A ticket is never
 * given beyond the next update after which the parameters must stand still for a validation: so the loop
 * above sees them exactly as on one device.
 */
#include "train/exchange_inside.h"

#include <math.h>
#include <string.h>

/* ---- which ---- */

uint64_t rt_exchange_per_epoch(const void *options, uint64_t batches) {
    const double cut = ((const struct rt_way_options *)options)->cut;
    if (!(cut > 0 && cut < 1))
        return batches;
    const double kept = ceil(cut * (double)batches - 1e-9);
    return kept < 1 ? 1 : (uint64_t)kept;
}

/* The batch of an update, as one device would count it: an epoch that was cut short leaves some out. */
static uint64_t batch_of(const struct rt_exchange_learner *learner, uint64_t update) {
    const struct rt_lesson *lesson = &learner->lesson;
    const uint64_t all = (lesson->set->count + lesson->settings.batch - 1) / lesson->settings.batch;
    return (update - 1) / lesson->per_epoch * all + (update - 1) % lesson->per_epoch + 1;
}

static uint64_t next_multiple(uint64_t update, uint64_t of, uint64_t limit) {
    if (of == 0)
        return limit;
    const uint64_t at = (update + of - 1) / of * of;
    return at < limit ? at : limit;
}

/* The first update from this one on after which the parameters may have to stand still. */
static uint64_t next_rest(const struct rt_exchange_learner *learner, uint64_t update) {
    const struct rt_lesson *lesson = &learner->lesson;
    const struct rt_spec_train *train = &lesson->spec->train;
    if (!lesson->validates)
        return lesson->settings.updates;
    const uint64_t rest = next_multiple(update, (uint64_t)train->validate_updates, lesson->settings.updates);
    return next_multiple(update, (uint64_t)train->validate_epochs * lesson->per_epoch, rest);
}

/* ---- giving, inside the engine ---- */

/* Whether a node gets tickets: a server without a worker takes part in collectives all the same. */
static bool takes_part(const struct rt_exchange_learner *learner, uint16_t rank) {
    const struct rt_exchanger *site = learner->site;
    return !site->rules || rt_roles_place(&site->roles, rank) < site->roles.workers;
}

/* Nothing happens where the node has all that it may hold, or has done so much that the master, busy with a
 * batch of its own, has yet to take: the ticket is for another, or for later. */
static void give(struct rt_exchange_learner *learner, uint16_t rank, uint64_t update) {
    const struct rt_exchanger *site = learner->site;
    const uint64_t batch = batch_of(learner, update);
    const size_t place = rt_roles_place(&site->roles, rank);
    if (!rt_crew_give(learner->crew, rank, batch))
        return;
    if (learner->sender && place < site->roles.workers)
        rt_sender_send(learner->sender, learner->crew, rank, batch, site->asynchronous ? 0 : place);
    learner->last[rank] = update;
    if (update > learner->given)
        learner->given = update;
}

static void give_to_all(struct rt_exchange_learner *learner) {
    for (uint64_t update = learner->given + 1; update <= learner->limit; update++)
        for (uint16_t rank = 1; rank < learner->count; rank++)
            give(learner, rank, update);
}

/* The next round that a node can be of use in; what is complete needs nobody any more. */
static void give_rounds(struct rt_exchange_learner *learner) {
    for (uint16_t rank = 1; rank < learner->count; rank++) {
        uint64_t update = learner->rounds + 1;
        if (!takes_part(learner, rank) || rt_crew_held(learner->crew, rank) > 0)
            continue;
        update = learner->last[rank] >= update ? learner->last[rank] + 1 : update;
        if (update <= learner->limit && update <= learner->rounds + 2)
            give(learner, rank, update);
    }
}

/* Whether a worker may have one: alone at first, where the strategy says so. */
static bool may_begin(const struct rt_exchange_learner *learner, uint16_t rank) {
    if (learner->given >= learner->limit)
        return false;
    return learner->returned >= learner->warm ||
           (rank == learner->site->roles.worker[0] && learner->given < learner->warm);
}

/* One is computed while the next waits: more would only keep a slow worker behind. */
static void give_in_turn(struct rt_exchange_learner *learner) {
    for (size_t held = 0; held < 2; held++)
        for (uint16_t rank = 1; rank < learner->count; rank++)
            if (takes_part(learner, rank) && rt_crew_held(learner->crew, rank) == held &&
                may_begin(learner, rank))
                give(learner, rank, learner->given + 1);
}

static void dispense(struct rt_exchange_learner *learner) {
    if (!learner->site->rules)
        give_to_all(learner);
    else if (learner->site->asynchronous)
        give_in_turn(learner);
    else
        give_rounds(learner);
}

/* ---- as a part of the engine: the crew, with tickets ---- */

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *crew = &learner->crew_part;
    if (!crew->event(crew->self, event, status, err))
        return false;
    if (*status == RT_OK) {
        dispense(learner);
        *status = crew->turn(crew->self, err);
    }
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    const struct rt_engine_part *crew = &learner->crew_part;
    dispense(learner);
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

struct rt_engine_part rt_exchange_tickets_part(struct rt_exchange_learner *learner) {
    learner->crew_part = rt_crew_part(learner->crew);
    return (struct rt_engine_part){.self = learner,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .waits_for = waits_for,
                                   .lost = lost,
                                   .outlives = learner->crew_part.outlives};
}

/* ---- steps ---- */

/* The master's own worker learns from its part of the update. */
static rt_status learn(struct rt_exchange_learner *learner, uint64_t update, struct rt_done *done,
                       struct rt_error *err) {
    struct rt_exchanger *site = learner->site;
    const struct rt_exchange *exchange = &site->exchange;
    const bool shared = !site->asynchronous;
    const struct rt_ticket ticket = {.batch = batch_of(learner, update),
                                     .part = shared && site->works ? site->place : 0,
                                     .parts = shared ? site->roles.workers : 1};
    *done = (struct rt_done){.batch = ticket.batch};
    rt_status status = exchange->begin(exchange->self, &ticket, err);
    if (status == RT_OK && site->works)
        status = site->replica->compute(site->replica->self, &ticket, exchange, done, err);
    return status == RT_OK ? exchange->end(exchange->self, done, err) : status;
}

static void add(struct rt_done *sum, const struct rt_done *done) {
    sum->rows += done->rows;
    sum->correct += done->correct;
    sum->loss += done->loss;
}

static rt_status await(struct rt_exchange_learner *learner, bool (*test)(void *self), struct rt_error *err) {
    const enum rt_state before = rt_net_replica_enter(learner->site->net, RT_STATE_WAIT_BARRIER);
    rt_status status = rt_engine_wait(learner->site->engine, test, learner, (double)INFINITY, err);
    rt_net_replica_enter(learner->site->net, before);
    return status;
}

/* Opens the way for the tickets of the update that is next and of those that may follow it at once. Inside
 * the engine. */
static void open_tickets(struct rt_exchange_learner *learner, uint64_t ahead) {
    if (!learner->draining) {
        const uint64_t rest = next_rest(learner, learner->returned + 1);
        learner->limit = ahead < rest - learner->returned ? learner->returned + ahead : rest;
    }
    if (learner->crew)
        dispense(learner);
}

/* -- collectives -- */

static bool all_done(void *self) {
    const struct rt_exchange_learner *learner = self;
    const uint64_t later = learner->given - learner->returned - 1; /* tickets of the updates that follow */
    for (uint16_t rank = 1; rank < learner->count; rank++)
        if (rt_crew_held(learner->crew, rank) > later)
            return false;
    return true;
}

static rt_status learn_next(struct rt_exchange_learner *learner, struct rt_error *err) {
    const uint64_t update = learner->computed + 1;
    rt_status status = learn(learner, update, &learner->own[update % 2], err);
    learner->computed += status == RT_OK;
    return status;
}

/* Takes the results of an update, in the order of the workers, so that the sum does not depend on who was
 * first; and gives the tickets that follow, unless the parameters may have to stand still now. */
static void take_together(struct rt_exchange_learner *learner, struct rt_done *sum) {
    struct rt_done done;
    rt_engine_enter(learner->site->engine);
    learner->returned++;
    add(sum, &learner->own[learner->returned % 2]);
    for (uint16_t rank = 1; rank < learner->count; rank++)
        if (rt_crew_take(learner->crew, rank, &done))
            add(sum, &done);
    learner->given = learner->given < learner->returned ? learner->returned : learner->given;
    if (next_rest(learner, learner->returned) > learner->returned)
        open_tickets(learner, RT_CREW_AHEAD);
    rt_engine_leave(learner->site->engine);
}

static rt_status step_together(struct rt_exchange_learner *learner, struct rt_done *sum,
                               struct rt_error *err) {
    rt_status status = RT_OK;
    if (learner->crew && learner->given == learner->returned) {
        rt_engine_enter(learner->site->engine);
        open_tickets(learner, RT_CREW_AHEAD);
        rt_engine_leave(learner->site->engine);
    }
    if (learner->computed == learner->returned)
        status = learn_next(learner, err);
    /* The others, who have their tickets, are at the next update while the last results come in: so is the
     * master's own worker. */
    if (status == RT_OK && learner->computed == learner->returned + 1 && learner->computed < learner->given)
        status = learn_next(learner, err);
    if (status == RT_OK && learner->crew)
        status = await(learner, all_done, err);
    if (status == RT_OK)
        take_together(learner, sum);
    return status;
}

/* -- rounds -- */

static bool *round_of(const struct rt_exchange_learner *learner, uint64_t update) {
    return learner->in_round + update % RT_EXCHANGE_ROUNDS * learner->site->roles.workers;
}

static struct rt_done *results_of(const struct rt_exchange_learner *learner, uint64_t update) {
    return learner->results + update % RT_EXCHANGE_ROUNDS * learner->site->roles.workers;
}

void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_exchange_learner *learner = user;
    if (learner->site->asynchronous)
        return;
    bool *in_round = round_of(learner, version);
    memset(in_round, 0, learner->site->roles.workers * sizeof *in_round);
    for (size_t i = 0; i < pushes; i++)
        in_round[push[i]->worker] = true;
    learner->rounds = version;
}

/* It came too late for the parameters it was made with, but the round of its batch may still want it: then
 * the worker does that batch again. Without this the last round before a rest could lose everybody's
 * gradient, and nobody would get a ticket any more. */
void rt_exchange_dropped(void *user, const struct rt_push *push) {
    struct rt_exchange_learner *learner = user;
    const uint16_t rank = learner->site->roles.worker[push->worker];
    struct rt_error err;
    if (learner->site->asynchronous || rank == 0)
        return;
    if (learner->last[rank] <= learner->rounds || batch_of(learner, learner->last[rank]) != push->batch)
        return;
    learner->last[rank]--;
    dispense(learner);
    learner->crew_part.turn(learner->crew_part.self,
                            &err); /* a failure of it stays, and is found at its own turn */
}

/* Results of rounds that are over are of no interest. */
static void take_results(struct rt_exchange_learner *learner) {
    const struct rt_roles *roles = &learner->site->roles;
    struct rt_done done;
    for (size_t place = 0; place < roles->workers; place++)
        while (roles->worker[place] > 0 && rt_crew_take(learner->crew, roles->worker[place], &done))
            for (uint64_t update = learner->returned + 1; update <= learner->returned + 3; update++)
                if (batch_of(learner, update) == done.batch)
                    results_of(learner, update)[place] = done;
}

static bool round_is_over(void *self) {
    struct rt_exchange_learner *learner = self;
    const uint64_t update = learner->returned + 1;
    take_results(learner);
    if (learner->rounds < update)
        return false;
    for (size_t place = 0; place < learner->site->roles.workers; place++)
        if (round_of(learner, update)[place] &&
            results_of(learner, update)[place].batch != batch_of(learner, update))
            return false;
    return true;
}

static bool round_is_complete(struct rt_exchange_learner *learner) {
    rt_engine_enter(learner->site->engine);
    const bool complete = learner->rounds > learner->returned;
    rt_engine_leave(learner->site->engine);
    return complete;
}

static rt_status step_round(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    const struct rt_exchanger *site = learner->site;
    const uint64_t update = learner->returned + 1;
    struct rt_done done;
    rt_status status = RT_OK;
    rt_engine_enter(site->engine);
    open_tickets(learner, 2);
    rt_engine_leave(site->engine);
    if (site->works && !round_is_complete(learner)) {
        status = learn(learner, update, &done, err);
        if (status == RT_OK)
            results_of(learner, update)[site->place] = done;
    }
    if (status == RT_OK)
        status = await(learner, round_is_over, err);
    if (status != RT_OK)
        return status;
    rt_engine_enter(site->engine);
    for (size_t place = 0; place < site->roles.workers; place++)
        if (round_of(learner, update)[place])
            add(sum, &results_of(learner, update)[place]);
    learner->returned = update;
    learner->given = learner->given < update ? update : learner->given;
    rt_engine_leave(site->engine);
    return RT_OK;
}

/* -- asynchronous -- */

static bool has_result(void *self) {
    struct rt_exchange_learner *learner = self;
    for (uint16_t rank = 1; rank < learner->count; rank++)
        if (rt_crew_waiting(learner->crew, rank) > 0)
            return true;
    return false;
}

/* A result that has come, of those who are due; else a batch for the master's own worker. */
static bool take_result(struct rt_exchange_learner *learner, struct rt_done *done, uint64_t *own) {
    bool taken = false;
    rt_engine_enter(learner->site->engine);
    open_tickets(learner, UINT64_MAX);
    for (uint16_t i = 0; !taken && i + 1 < learner->count; i++) {
        learner->turn = (uint16_t)(learner->turn % (learner->count - 1) + 1);
        taken = rt_crew_take(learner->crew, learner->turn, done);
    }
    *own = 0;
    if (!taken && learner->site->works && may_begin(learner, 0))
        *own = ++learner->given;
    learner->returned += taken;
    rt_engine_leave(learner->site->engine);
    return taken;
}

static rt_status step_alone(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    const struct rt_exchange *exchange = &learner->site->exchange;
    uint64_t own;
    for (;;) {
        if (take_result(learner, sum, &own))
            return RT_OK;
        if (own > 0) {
            rt_status status = learn(learner, own, sum, err);
            rt_engine_enter(learner->site->engine);
            learner->returned += status == RT_OK;
            rt_engine_leave(learner->site->engine);
            return status;
        }
        /* The master's worker has nothing to do: nobody need wait for it. */
        rt_status status = learner->site->works ? exchange->settle(exchange->self, err) : RT_OK;
        if (status == RT_OK)
            status = await(learner, has_result, err);
        if (status != RT_OK)
            return status;
    }
}

rt_status rt_exchange_step(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    *sum = (struct rt_done){0};
    learner->fetched = 0;
    if (!learner->site->rules)
        return step_together(learner, sum, err);
    return learner->site->asynchronous ? step_alone(learner, sum, err) : step_round(learner, sum, err);
}
