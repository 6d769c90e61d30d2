/*
 * Who learns from which batch. Three kinds of exchange differ here:
 *
 *   collectives     everybody takes part in every update: all get the same tickets, a few ahead
 *   rounds          servers wait for some of those who share a batch: who is done gets the next one that is
 *                   still of use
 *   asynchronous    every batch is one worker's, in the order of asking
 *
 * Tickets are given by the thread that takes the events, as soon as a result has come, so that nobody waits
 * while the master's own worker computes. A ticket is never given beyond the next update after which the
 * parameters must stand still for a validation: so the loop above sees them exactly as on one device.
 *
 * Where gradients may be dropped the server on the master says what became of each. In rounds, who lost a
 * gradient gets the round that is under way, whatever it was given before: otherwise a round could lose
 * everybody's gradient, and nobody would get a ticket for it any more. Where epochs are cut short, as many
 * batches of an epoch are given as it needs; when somebody is late with one, those who have nothing to do get
 * others, so that the epoch has enough without it.
 */
#include "train/exchange/inside.h"

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

/* Batches of a whole epoch. */
static uint64_t all_batches(const struct rt_exchange_learner *learner) {
    const struct rt_lesson *lesson = &learner->lesson;
    return (lesson->set->count + lesson->settings.batch - 1) / lesson->settings.batch;
}

uint64_t rt_exchange_batch(const struct rt_exchange_learner *learner, uint64_t update) {
    const uint64_t per_epoch = learner->lesson.per_epoch;
    return (update - 1) / per_epoch * all_batches(learner) + (update - 1) % per_epoch + 1;
}

bool rt_exchange_cuts(const struct rt_exchange_learner *learner) {
    return learner->site->asynchronous && learner->lesson.per_epoch < all_batches(learner);
}

static uint64_t next_multiple(uint64_t update, uint64_t of, uint64_t limit) {
    if (of == 0)
        return limit;
    const uint64_t at = (update + of - 1) / of * of;
    return at < limit ? at : limit;
}

uint64_t rt_exchange_next_rest(const struct rt_exchange_learner *learner, uint64_t update) {
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

/* false where the node has all that it may hold, or has done so much that the master, busy with a batch of
 * its own, has yet to take: the ticket is for another, or for later. */
static bool give(struct rt_exchange_learner *learner, uint16_t rank, uint64_t batch) {
    const struct rt_exchanger *site = learner->site;
    const size_t place = rt_roles_place(&site->roles, rank);
    if (!rt_crew_give(learner->crew, rank, batch))
        return false;
    if (learner->sender && place < site->roles.workers)
        rt_sender_send(learner->sender, learner->crew, rank, batch, site->asynchronous ? 0 : place);
    learner->tickets[rank]++;
    return true;
}

static void give_to_all(struct rt_exchange_learner *learner) {
    for (uint64_t update = learner->given + 1; update <= learner->limit; update++)
        for (uint16_t rank = 1; rank < learner->count; rank++)
            if (give(learner, rank, rt_exchange_batch(learner, update)))
                learner->given = update;
}

/* The round that is under way, or where its gradient is in that one already the next. */
static void give_rounds(struct rt_exchange_learner *learner) {
    for (uint16_t rank = 1; rank < learner->count; rank++) {
        const struct rt_fates *fates = &learner->fates[rank];
        if (!takes_part(learner, rank) || rt_crew_held(learner->crew, rank) > 0 ||
            fates->judged < learner->tickets[rank])
            continue;
        const uint64_t update = learner->rounds + (fates->round > learner->rounds ? 2 : 1);
        if (update <= learner->limit && give(learner, rank, rt_exchange_batch(learner, update)) &&
            update > learner->given)
            learner->given = update;
    }
}

/* -- every batch is one worker's -- */

/* Whether all that the epoch needs is under way, or done. */
static bool has_enough(const struct rt_exchange_learner *learner) {
    return learner->given == (learner->epoch + 1) * learner->lesson.per_epoch;
}

/* Whether nothing has come for as long as a batch takes. */
static bool is_late(const struct rt_exchange_learner *learner) {
    return learner->usual > 0 && rt_engine_now(learner->site->engine) > learner->heard + learner->usual;
}

/* More than the epoch needs may be given only at its end: what is dropped is of an epoch that is over. */
static bool may_begin_cut(const struct rt_exchange_learner *learner) {
    if (learner->draining || learner->begun == all_batches(learner) ||
        learner->epoch * learner->lesson.per_epoch >= learner->limit)
        return false;
    return has_enough(learner) ? is_late(learner) : learner->given < learner->limit;
}

/* Whether a worker may have one: alone at first, where the strategy says so. */
static bool may_begin(const struct rt_exchange_learner *learner, uint16_t rank) {
    if (rt_exchange_cuts(learner))
        return may_begin_cut(learner);
    if (learner->given >= learner->limit)
        return false;
    return learner->returned >= learner->warm ||
           (rank == learner->site->roles.worker[0] && learner->given < learner->warm);
}

static uint64_t next_batch(const struct rt_exchange_learner *learner) {
    return rt_exchange_cuts(learner) ? learner->epoch * all_batches(learner) + learner->begun + 1
                                     : rt_exchange_batch(learner, learner->given + 1);
}

static void note_begun(struct rt_exchange_learner *learner) {
    const bool cuts = rt_exchange_cuts(learner);
    if (cuts && learner->begun++ == 0)
        learner->since = learner->heard = rt_engine_now(learner->site->engine);
    if (!cuts || !has_enough(learner)) /* what is given beyond it makes no further update */
        learner->given++;
}

/* What is done only because somebody is late waits for nobody. */
static bool is_extra(const struct rt_exchange_learner *learner) {
    return rt_exchange_cuts(learner) && has_enough(learner);
}

/* One is computed while the next waits: more would only keep a slow worker behind. */
static void give_in_turn(struct rt_exchange_learner *learner) {
    for (size_t held = 0; held < 2; held++)
        for (uint16_t rank = 1; rank < learner->count; rank++)
            if (takes_part(learner, rank) && rt_crew_held(learner->crew, rank) == held &&
                may_begin(learner, rank) && (held == 0 || !is_extra(learner)) &&
                give(learner, rank, next_batch(learner)))
                note_begun(learner);
}

uint64_t rt_exchange_own_batch(struct rt_exchange_learner *learner) {
    const bool full = learner->made - learner->fates[0].taken == RT_CREW_RESULTS;
    const bool late = learner->made > learner->fates[0].judged; /* it waits for its own gradient */
    if (!learner->site->works || !may_begin(learner, 0) || full || (is_extra(learner) && late))
        return 0;
    const uint64_t batch = next_batch(learner);
    note_begun(learner);
    return batch;
}

static void dispense(struct rt_exchange_learner *learner) {
    if (!learner->site->rules)
        give_to_all(learner);
    else if (learner->site->asynchronous)
        give_in_turn(learner);
    else
        give_rounds(learner);
}

void rt_exchange_open_tickets(struct rt_exchange_learner *learner, uint64_t ahead) {
    if (!learner->draining) {
        const uint64_t rest = rt_exchange_next_rest(learner, learner->returned + 1);
        learner->limit = ahead < rest - learner->returned ? learner->returned + ahead : rest;
    }
    if (learner->crew)
        dispense(learner);
}

void rt_exchange_tickets_set(struct rt_exchange_learner *learner, uint64_t update) {
    learner->returned = learner->given = learner->limit = learner->rounds = learner->computed = update;
    learner->applied = update;
    learner->since = 0;
    learner->epoch = update / learner->lesson.per_epoch;
    learner->begun = update % learner->lesson.per_epoch;
    for (uint16_t rank = 0; rank < learner->count; rank++)
        learner->fates[rank].round = 0;
}

/* ---- what the server on the master says, inside the engine ---- */

/* Tickets go out at once, not with the next event of the crew. A failure of it stays, and is found then. */
static void send_tickets(struct rt_exchange_learner *learner) {
    struct rt_error err;
    if (!learner->crew)
        return;
    dispense(learner);
    learner->crew_part.turn(learner->crew_part.self, &err);
}

uint16_t *rt_exchange_in_line(const struct rt_exchange_learner *learner, uint64_t number) {
    return &learner->line[number % ((uint64_t)learner->count * RT_CREW_RESULTS)];
}

bool *rt_exchange_round(const struct rt_exchange_learner *learner, uint64_t update) {
    return learner->in_round + update % RT_EXCHANGE_ROUNDS * learner->site->roles.workers;
}

void rt_exchange_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_exchange_learner *learner = user;
    if (learner->site->asynchronous)
        return;
    bool *in_round = rt_exchange_round(learner, version);
    memset(in_round, 0, learner->site->roles.workers * sizeof *in_round);
    for (size_t i = 0; i < pushes; i++)
        in_round[push[i]->worker] = true;
    learner->rounds = version;
}

/* An epoch has enough, which the server knows: what it drops from now on is of that epoch. */
static void judge_epoch(struct rt_exchange_learner *learner, const struct rt_push *push, bool dropped) {
    if ((push->batch - 1) / all_batches(learner) != learner->epoch)
        return;
    const uint64_t first = learner->epoch * learner->lesson.per_epoch;
    if (!dropped) {
        learner->applied++;
        learner->heard = rt_engine_now(learner->site->engine);
        if (learner->since > 0) /* of an epoch that was seen from its beginning */
            learner->usual = (learner->heard - learner->since) * (double)learner->site->roles.workers /
                             (double)(learner->applied - first);
    }
    if (!dropped && learner->applied < first + learner->lesson.per_epoch)
        return;
    learner->epoch++;
    learner->begun = 0;
}

void rt_exchange_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    struct rt_exchange_learner *learner = user;
    const bool dropped = verdict == RT_VERDICT_DROP;
    const uint16_t rank = learner->site->roles.worker[push->worker];
    struct rt_fates *fates = &learner->fates[rank];
    if (!learner->tracks)
        return;
    fates->dropped[fates->judged++ % RT_CREW_RESULTS] = dropped;
    if (!dropped && learner->site->asynchronous)
        *rt_exchange_in_line(learner, learner->lined++) = rank;
    else if (!dropped)
        fates->round = push->batch;
    if (rt_exchange_cuts(learner))
        judge_epoch(learner, push, dropped);
    if (!learner->site->asynchronous || rt_exchange_cuts(learner))
        send_tickets(learner);
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

static enum rt_inquiry inquire(void *self, uint16_t suspect, bool computes, double now, uint16_t *guilty) {
    struct rt_exchange_learner *learner = self;
    return learner->crew_part.inquire(learner->crew_part.self, suspect, computes, now, guilty);
}

static uint16_t lost(const void *self) {
    const struct rt_exchange_learner *learner = self;
    return learner->crew_part.lost(learner->crew_part.self);
}

/* Time passes: somebody may be late by now. */
static bool look_again(void *self, rt_status *status, struct rt_error *err) {
    struct rt_exchange_learner *learner = self;
    (void)status, (void)err;
    if (has_enough(learner) && may_begin_cut(learner))
        send_tickets(learner);
    return false;
}

struct rt_engine_part rt_exchange_tickets_part(struct rt_exchange_learner *learner) {
    learner->crew_part = rt_crew_part(learner->crew);
    return (struct rt_engine_part){.self = learner,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .work = rt_exchange_cuts(learner) ? look_again : NULL,
                                   .waits_for = waits_for,
                                   .inquire = inquire,
                                   .lost = lost,
                                   .outlives = learner->crew_part.outlives};
}
