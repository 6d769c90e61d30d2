/*
 * What became of the batches: updates one by one, for the loop of a run. The master's own worker learns here
 * too, on the thread that computes; what the others did comes by the thread that takes the events. Who gets
 * which batch is exchange_tickets.c's.
 */
#include "train/exchange/inside.h"

#include <math.h>

/* The master's own worker learns from its part of a batch. */
static rt_status learn(struct rt_exchange_learner *learner, uint64_t batch, struct rt_done *done,
                       struct rt_error *err) {
    struct rt_exchanger *site = learner->site;
    const struct rt_exchange *exchange = &site->exchange;
    const bool shared = !site->asynchronous;
    const struct rt_ticket ticket = {.batch = batch,
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
    return rt_engine_wait_as(learner->site->engine, rt_net_replica_states(learner->site->net),
                             RT_STATE_WAIT_BARRIER, test, learner, err);
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
    rt_status status = learn(learner, rt_exchange_batch(learner, update), &learner->own[update % 2], err);
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
    if (rt_exchange_next_rest(learner, learner->returned) > learner->returned)
        rt_exchange_open_tickets(learner, RT_CREW_AHEAD);
    rt_engine_leave(learner->site->engine);
}

static rt_status step_together(struct rt_exchange_learner *learner, struct rt_done *sum,
                               struct rt_error *err) {
    rt_status status = RT_OK;
    if (learner->crew && learner->given == learner->returned) {
        rt_engine_enter(learner->site->engine);
        rt_exchange_open_tickets(learner, RT_CREW_AHEAD);
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

/* -- results by what became of their gradients, inside the engine -- */

/* The next result of a rank whose gradient came to something; those of dropped ones are passed over. */
static bool take_counted(struct rt_exchange_learner *learner, uint16_t rank, struct rt_done *done) {
    struct rt_fates *fates = &learner->fates[rank];
    while (fates->taken < fates->judged) {
        const bool there = rank ? rt_crew_take(learner->crew, rank, done) : fates->taken < learner->made;
        if (!there)
            return false;
        if (rank == 0)
            *done = learner->waiting[fates->taken % RT_CREW_RESULTS];
        if (!fates->dropped[fates->taken++ % RT_CREW_RESULTS])
            return true;
    }
    return false;
}

/* -- rounds -- */

static struct rt_done *results_of(const struct rt_exchange_learner *learner, uint64_t update) {
    return learner->results + update % RT_EXCHANGE_ROUNDS * learner->site->roles.workers;
}

static void take_results(struct rt_exchange_learner *learner) {
    const struct rt_roles *roles = &learner->site->roles;
    struct rt_done done;
    for (size_t place = 0; place < roles->workers; place++)
        while (roles->worker[place] > 0 && take_counted(learner, roles->worker[place], &done))
            results_of(learner, done.batch)[place] = done; /* batch b makes update b */
}

static bool round_is_over(void *self) {
    struct rt_exchange_learner *learner = self;
    const uint64_t update = learner->returned + 1;
    take_results(learner);
    if (learner->rounds < update)
        return false;
    for (size_t place = 0; place < learner->site->roles.workers; place++)
        if (rt_exchange_round(learner, update)[place] && results_of(learner, update)[place].batch != update)
            return false;
    return true;
}

static bool round_is_complete(struct rt_exchange_learner *learner) {
    rt_engine_enter(learner->site->engine);
    const bool complete = learner->rounds > learner->returned;
    rt_engine_leave(learner->site->engine);
    return complete;
}

/* The others may be as many rounds ahead as results are kept for, so that a slow master does not hold them
 * back. */
static rt_status step_round(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    const struct rt_exchanger *site = learner->site;
    const uint64_t update = learner->returned + 1;
    struct rt_done done;
    rt_status status = RT_OK;
    rt_engine_enter(site->engine);
    rt_exchange_open_tickets(learner, RT_EXCHANGE_ROUNDS - 1);
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
        if (rt_exchange_round(learner, update)[place])
            add(sum, &results_of(learner, update)[place]);
    learner->returned = update;
    learner->given = learner->given < update ? update : learner->given;
    rt_engine_leave(site->engine);
    return RT_OK;
}

/* -- asynchronous -- */

/* The result of the gradient that came to something next, in the order of the server; it may come after the
 * gradient. */
static bool take_in_line(struct rt_exchange_learner *learner, struct rt_done *done) {
    if (learner->served == learner->lined ||
        !take_counted(learner, *rt_exchange_in_line(learner, learner->served), done))
        return false;
    learner->served++;
    return true;
}

/* Where nobody knows the order: of those who are due. */
static bool take_any(struct rt_exchange_learner *learner, struct rt_done *done) {
    for (uint16_t i = 0; i + 1 < learner->count; i++) {
        learner->turn = (uint16_t)(learner->turn % (learner->count - 1) + 1);
        if (rt_crew_take(learner->crew, learner->turn, done))
            return true;
    }
    return false;
}

/* A result that has come; else a batch for the master's own worker. */
static bool take_result(struct rt_exchange_learner *learner, struct rt_done *done, uint64_t *own) {
    rt_engine_enter(learner->site->engine);
    rt_exchange_open_tickets(learner, UINT64_MAX);
    const bool taken = learner->tracks ? take_in_line(learner, done) : take_any(learner, done);
    *own = taken ? 0 : rt_exchange_own_batch(learner);
    learner->returned += taken;
    rt_engine_leave(learner->site->engine);
    return taken;
}

static bool has_result(void *self) {
    const struct rt_exchange_learner *learner = self;
    if (learner->tracks) {
        const uint16_t next = *rt_exchange_in_line(learner, learner->served);
        return learner->served < learner->lined && (next == 0 || rt_crew_waiting(learner->crew, next) > 0);
    }
    for (uint16_t rank = 1; rank < learner->count; rank++)
        if (rt_crew_waiting(learner->crew, rank) > 0)
            return true;
    return false;
}

/* What the master's own worker has done counts when its gradient has come to something, or at once. */
static void put_own(struct rt_exchange_learner *learner, const struct rt_done *done) {
    rt_engine_enter(learner->site->engine);
    if (learner->tracks)
        learner->waiting[learner->made++ % RT_CREW_RESULTS] = *done;
    else
        learner->returned++;
    rt_engine_leave(learner->site->engine);
}

static rt_status step_alone(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    const struct rt_exchange *exchange = &learner->site->exchange;
    rt_status status = RT_OK;
    uint64_t own;
    while (status == RT_OK) {
        if (take_result(learner, sum, &own))
            return RT_OK;
        if (own > 0) {
            status = learn(learner, own, sum, err);
            if (status == RT_OK)
                put_own(learner, sum);
            if (status == RT_OK && !learner->tracks)
                return RT_OK;
            continue;
        }
        /* The master's worker has nothing to do: nobody need wait for it. */
        status = learner->site->works ? exchange->settle(exchange->self, err) : RT_OK;
        if (status == RT_OK)
            status = await(learner, has_result, err);
    }
    return status;
}

rt_status rt_exchange_step(struct rt_exchange_learner *learner, struct rt_done *sum, struct rt_error *err) {
    *sum = (struct rt_done){0};
    learner->fetched = 0;
    if (!learner->site->rules)
        return step_together(learner, sum, err);
    return learner->site->asynchronous ? step_alone(learner, sum, err) : step_round(learner, sum, err);
}
