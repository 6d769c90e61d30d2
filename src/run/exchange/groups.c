/*
 * The coordinator as the batch scheduler sees it. Where workers form groups the batch scheduler knows a group
 * by its proxy: a batch goes to every member, and is done when all of them have done their part. In the
 * master's own group, the master itself learns without a ticket and takes the others' results at once.
 */
#include "run/exchange/inside.h"

static size_t groups_members(const struct rt_exchange_learner *learner, uint16_t rank) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    return exchanger->grouped
               ? rt_exchange_team(learner->config.exchange, learner->options, &exchanger->roles, rank).count
               : 1;
}

/* rank: that of the proxy, the first member. */
static uint16_t groups_member(const struct rt_exchange_learner *learner, uint16_t rank, size_t i) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    return i ? rt_exchange_team(learner->config.exchange, learner->options, &exchanger->roles, rank).ranks[i]
             : rank;
}

/* The master is the first of its group, if of any. */
static bool groups_has_others(const struct rt_exchange_learner *learner) {
    return learner->exchanger->grouped && learner->exchanger->works && learner->coordinator;
}

static void groups_add(struct rt_done *sum, const struct rt_done *done) {
    sum->rows += done->rows;
    sum->correct += done->correct;
    sum->loss += done->loss;
}

/* ---- inside the engine ---- */

/* The examples go along with the ticket, where the workers have none of their own. */
static bool groups_give_one(struct rt_exchange_learner *learner, uint16_t rank, uint64_t batch) {
    const struct rt_exchanger *exchanger = learner->exchanger;
    const struct rt_slice_part part = rt_exchange_part(
        learner->config.exchange, learner->options, &exchanger->roles, learner->config.settings.shards, rank);
    if (!rt_coordinator_give(learner->coordinator, rank, batch))
        return false;
    if (learner->sender && part.run.count > 0)
        rt_sample_sender_send(learner->sender, learner->coordinator, rank, batch, part);
    return true;
}

static size_t groups_held(const void *self, uint16_t rank) {
    const struct rt_exchange_learner *learner = self;
    size_t most = 0;
    for (size_t i = 0; i < groups_members(learner, rank); i++) {
        const size_t one = rt_coordinator_held(learner->coordinator, groups_member(learner, rank, i));
        most = one > most ? one : most;
    }
    return most;
}

static bool groups_has_room(const struct rt_exchange_learner *learner, uint16_t rank) {
    const size_t holds = rt_coordinator_held(learner->coordinator, rank);
    return holds < RT_TICKETS_AHEAD &&
           holds + rt_coordinator_waiting(learner->coordinator, rank) < RT_TICKET_RESULTS &&
           (!learner->sender || rt_coordinator_has_sample_room(learner->coordinator, rank));
}

/* To all of them or to none. */
static bool groups_give(void *self, uint16_t rank, uint64_t batch) {
    struct rt_exchange_learner *learner = self;
    const size_t count = groups_members(learner, rank);
    for (size_t i = 0; i < count; i++)
        if (!groups_has_room(learner, groups_member(learner, rank, i)))
            return false;
    for (size_t i = 0; i < count; i++)
        (void)groups_give_one(learner, groups_member(learner, rank, i), batch);
    return true;
}

static size_t groups_waiting(const void *self, uint16_t rank) {
    const struct rt_exchange_learner *learner = self;
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < groups_members(learner, rank); i++) {
        const size_t one = rt_coordinator_waiting(learner->coordinator, groups_member(learner, rank, i));
        fewest = one < fewest ? one : fewest;
    }
    return fewest;
}

/* Added in the members' order, so that the sum does not depend on who was first. */
static bool groups_take(void *self, uint16_t rank, struct rt_done *done) {
    struct rt_exchange_learner *learner = self;
    struct rt_done other;
    if (groups_waiting(learner, rank) == 0 || !rt_coordinator_take(learner->coordinator, rank, done))
        return false;
    for (size_t i = 1; i < groups_members(learner, rank); i++)
        if (rt_coordinator_take(learner->coordinator, groups_member(learner, rank, i), &other))
            groups_add(done, &other);
    return true;
}

/* A failure of the coordinator stays, and is found with its next event. */
static void groups_flush(void *self) {
    struct rt_exchange_learner *learner = self;
    struct rt_error err;
    learner->coordinator_part.turn(learner->coordinator_part.self, &err);
}

struct rt_scheduler_workers rt_exchange_workers(struct rt_exchange_learner *learner) {
    return (struct rt_scheduler_workers){.self = learner->coordinator ? learner : NULL,
                                         .ahead = RT_TICKETS_AHEAD,
                                         .give = groups_give,
                                         .held = groups_held,
                                         .waiting = groups_waiting,
                                         .take = groups_take,
                                         .flush = groups_flush};
}

/* ---- the master's own group, by the thread that computes ---- */

/* They have room: the results of the batch before have been taken. */
void rt_exchange_give_beside(struct rt_exchange_learner *learner, uint64_t batch) {
    if (!groups_has_others(learner))
        return;
    rt_engine_enter(learner->exchanger->engine);
    for (size_t i = 1; i < groups_members(learner, 0); i++)
        (void)groups_give_one(learner, groups_member(learner, 0, i), batch);
    rt_engine_leave(learner->exchanger->engine);
}

static bool groups_others_are_done(void *self) {
    const struct rt_exchange_learner *learner = self;
    for (size_t i = 1; i < groups_members(learner, 0); i++)
        if (rt_coordinator_waiting(learner->coordinator, groups_member(learner, 0, i)) == 0)
            return false;
    return true;
}

rt_status rt_exchange_take_beside(struct rt_exchange_learner *learner, struct rt_done *done,
                                  struct rt_error *err) {
    struct rt_engine *engine = learner->exchanger->engine;
    struct rt_done other;
    if (!groups_has_others(learner))
        return RT_OK;
    rt_status status = rt_engine_wait_as(engine, rt_net_replica_states(learner->exchanger->net),
                                         RT_STATE_WAIT_BARRIER, groups_others_are_done, learner, err);
    if (status != RT_OK)
        return status;
    rt_engine_enter(engine);
    for (size_t i = 1; i < groups_members(learner, 0); i++)
        if (rt_coordinator_take(learner->coordinator, groups_member(learner, 0, i), &other))
            groups_add(done, &other);
    rt_engine_leave(engine);
    return RT_OK;
}
