/*
 * Which worker gets which batch. There are three kinds of exchange:
 *
 *   collectives     every worker takes part in every update: all get the same tickets, a few ahead
 *   rounds          servers wait for some of the workers that share a batch: a worker that is done gets the
 *                   next one that is still needed
 *   asynchronous    every batch is one worker's, in the order of asking
 *
 * The thread that takes the events gives tickets as soon as a result has come, so no worker waits while the
 * master's own worker computes. No ticket goes beyond the next update after which the parameters must stand
 * still for a validation, so the loop above sees exactly the parameters of one device.
 *
 * Where gradients may be dropped, the server on the master reports the verdict on each. In rounds, a worker
 * whose gradient was dropped gets a ticket for the current round, whatever it was given before. Otherwise a
 * round could drop the gradients of all workers, and none would get a ticket for it again. Where epochs are
 * cut short, an epoch gets as many batches as it needs. When a worker is late with one, idle workers get
 * further batches, so that the epoch can end without it.
 */
#include "control/batch_scheduler_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

rt_status rt_scheduler_create(const struct rt_scheduler_settings *settings, struct rt_scheduler **scheduler,
                              struct rt_error *err) {
    const struct rt_roles *roles = settings->roles;
    const size_t rounds = RT_SCHEDULER_ROUNDS * roles->workers;
    struct rt_scheduler *made;
    rt_status status = rt_alloc(1, sizeof *made, "the tickets", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->count = (uint16_t)roles->nodes;
    made->asynchronous = settings->servers && settings->asynchronous;
    made->place = rt_roles_place(roles, 0);
    made->works = made->place < roles->workers;
    if (made->asynchronous)
        made->warm = (uint64_t)(settings->warm_start * (double)settings->per_epoch);
    status = rt_alloc(made->count, sizeof *made->tickets, "the tickets", &made->tickets, err);
    if (status == RT_OK)
        status = rt_alloc(made->count, sizeof *made->outcomes, "the tickets", &made->outcomes, err);
    if (status == RT_OK)
        status = rt_alloc((size_t)made->count * RT_TICKET_RESULTS, sizeof *made->line, "the tickets",
                          &made->line, err);
    if (status == RT_OK)
        status = rt_alloc(rounds, sizeof *made->in_round, "the tickets", &made->in_round, err);
    if (status == RT_OK)
        status = rt_alloc(rounds, sizeof *made->results, "the tickets", &made->results, err);
    if (status != RT_OK) {
        rt_scheduler_destroy(made);
        return status;
    }
    *scheduler = made;
    return RT_OK;
}

void rt_scheduler_destroy(struct rt_scheduler *scheduler) {
    if (!scheduler)
        return;
    free(scheduler->tickets);
    free(scheduler->outcomes);
    free(scheduler->line);
    free(scheduler->in_round);
    free(scheduler->results);
    free(scheduler);
}

/* ---- which ---- */

uint64_t rt_scheduler_batch(const struct rt_scheduler *scheduler, uint64_t update) {
    const uint64_t per_epoch = scheduler->settings.per_epoch;
    return (update - 1) / per_epoch * scheduler->settings.batches + (update - 1) % per_epoch + 1;
}

bool rt_scheduler_cuts(const struct rt_scheduler *scheduler) {
    return scheduler->asynchronous && scheduler->settings.per_epoch < scheduler->settings.batches;
}

uint64_t rt_scheduler_next_rest(const struct rt_scheduler *scheduler, uint64_t update) {
    return rt_periods_next(&scheduler->settings.rests, update, scheduler->settings.updates);
}

/* ---- giving, inside ---- */

static double scheduler_now(const struct rt_scheduler *scheduler) {
    return scheduler->settings.own.now(scheduler->settings.own.self);
}

static size_t scheduler_holds(const struct rt_scheduler *scheduler, uint16_t rank) {
    return scheduler->settings.workers.held(scheduler->settings.workers.self, rank);
}

/* Whether a rank gets tickets: a server without a worker takes part in collectives all the same. */
static bool scheduler_takes_part(const struct rt_scheduler *scheduler, uint16_t rank) {
    const struct rt_roles *roles = scheduler->settings.roles;
    return !scheduler->settings.servers || rt_roles_place(roles, rank) < roles->workers;
}

/* false: the ticket is for another, or for later, when the master, busy with a batch of its own, has taken
 * what was done. */
static bool scheduler_give(struct rt_scheduler *scheduler, uint16_t rank, uint64_t batch) {
    const struct rt_scheduler_workers *workers = &scheduler->settings.workers;
    if (!workers->give(workers->self, rank, batch))
        return false;
    scheduler->tickets[rank]++;
    return true;
}

static void scheduler_give_to_all(struct rt_scheduler *scheduler) {
    for (uint64_t update = scheduler->given + 1; update <= scheduler->limit; update++)
        for (uint16_t rank = 1; rank < scheduler->count; rank++)
            if (scheduler_give(scheduler, rank, rt_scheduler_batch(scheduler, update)))
                scheduler->given = update;
}

/* The round that is under way, or where its gradient is in that one already the next. */
static void scheduler_give_rounds(struct rt_scheduler *scheduler) {
    for (uint16_t rank = 1; rank < scheduler->count; rank++) {
        const struct rt_outcomes *outcomes = &scheduler->outcomes[rank];
        if (!scheduler_takes_part(scheduler, rank) || scheduler_holds(scheduler, rank) > 0 ||
            outcomes->judged < scheduler->tickets[rank])
            continue;
        const uint64_t update = scheduler->rounds + (outcomes->round > scheduler->rounds ? 2 : 1);
        if (update <= scheduler->limit &&
            scheduler_give(scheduler, rank, rt_scheduler_batch(scheduler, update)) &&
            update > scheduler->given)
            scheduler->given = update;
    }
}

/* -- every batch is one worker's -- */

/* Whether as many batches as the epoch needs are in progress or done. */
static bool scheduler_has_enough(const struct rt_scheduler *scheduler) {
    return scheduler->given == (scheduler->epoch + 1) * scheduler->settings.per_epoch;
}

/* Whether no gradient was applied for the usual time of a batch. */
static bool scheduler_is_late(const struct rt_scheduler *scheduler) {
    return scheduler->usual > 0 && scheduler_now(scheduler) > scheduler->heard + scheduler->usual;
}

/* More than the epoch needs may be given only at its end: what is dropped is of an epoch that is over. */
static bool scheduler_may_begin_cut(const struct rt_scheduler *scheduler) {
    if (scheduler->draining || scheduler->begun == scheduler->settings.batches ||
        scheduler->epoch * scheduler->settings.per_epoch >= scheduler->limit)
        return false;
    return scheduler_has_enough(scheduler) ? scheduler_is_late(scheduler)
                                           : scheduler->given < scheduler->limit;
}

/* Whether a worker may get a batch. During a warm start only the first worker may. */
static bool scheduler_may_begin(const struct rt_scheduler *scheduler, uint16_t rank) {
    if (rt_scheduler_cuts(scheduler))
        return scheduler_may_begin_cut(scheduler);
    if (scheduler->given >= scheduler->limit)
        return false;
    return scheduler->returned >= scheduler->warm ||
           (rank == scheduler->settings.roles->worker[0] && scheduler->given < scheduler->warm);
}

static uint64_t scheduler_next_batch(const struct rt_scheduler *scheduler) {
    return rt_scheduler_cuts(scheduler)
               ? scheduler->epoch * scheduler->settings.batches + scheduler->begun + 1
               : rt_scheduler_batch(scheduler, scheduler->given + 1);
}

static void scheduler_note_begun(struct rt_scheduler *scheduler) {
    const bool cuts = rt_scheduler_cuts(scheduler);
    if (cuts && scheduler->begun++ == 0)
        scheduler->since = scheduler->heard = scheduler_now(scheduler);
    if (!cuts || !scheduler_has_enough(scheduler)) /* what is given beyond it makes no further update */
        scheduler->given++;
}

/* Whether further batches are backups for a late worker. */
static bool scheduler_is_extra(const struct rt_scheduler *scheduler) {
    return rt_scheduler_cuts(scheduler) && scheduler_has_enough(scheduler);
}

/* A worker holds two batches, one being computed and one waiting. More would only increase the delay of a
 * slow worker. */
static void scheduler_give_in_turn(struct rt_scheduler *scheduler) {
    for (size_t held = 0; held < 2; held++)
        for (uint16_t rank = 1; rank < scheduler->count; rank++)
            if (scheduler_takes_part(scheduler, rank) && scheduler_holds(scheduler, rank) == held &&
                scheduler_may_begin(scheduler, rank) && (held == 0 || !scheduler_is_extra(scheduler)) &&
                scheduler_give(scheduler, rank, scheduler_next_batch(scheduler)))
                scheduler_note_begun(scheduler);
}

uint64_t rt_scheduler_own_batch(struct rt_scheduler *scheduler) {
    const bool full = scheduler->made - scheduler->outcomes[0].taken == RT_TICKET_RESULTS;
    const bool late = scheduler->made > scheduler->outcomes[0].judged; /* it waits for its own gradient */
    if (!scheduler->works || !scheduler_may_begin(scheduler, 0) || full ||
        (scheduler_is_extra(scheduler) && late))
        return 0;
    const uint64_t batch = scheduler_next_batch(scheduler);
    scheduler_note_begun(scheduler);
    return batch;
}

void rt_scheduler_dispense(struct rt_scheduler *scheduler) {
    if (!scheduler->settings.servers)
        scheduler_give_to_all(scheduler);
    else if (scheduler->asynchronous)
        scheduler_give_in_turn(scheduler);
    else
        scheduler_give_rounds(scheduler);
}

void rt_scheduler_open(struct rt_scheduler *scheduler, uint64_t ahead) {
    if (!scheduler->draining) {
        const uint64_t rest = rt_scheduler_next_rest(scheduler, scheduler->returned + 1);
        scheduler->limit = ahead < rest - scheduler->returned ? scheduler->returned + ahead : rest;
    }
    if (scheduler->settings.workers.self)
        rt_scheduler_dispense(scheduler);
}

bool rt_scheduler_drain(struct rt_scheduler *scheduler) {
    const struct rt_scheduler_own *own = &scheduler->settings.own;
    own->enter(own->self);
    scheduler->draining = scheduler->given > scheduler->returned;
    scheduler->limit = scheduler->given;
    own->leave(own->self);
    return !scheduler->draining;
}

void rt_scheduler_set(struct rt_scheduler *scheduler, uint64_t update) {
    const struct rt_scheduler_own *own = &scheduler->settings.own;
    const uint64_t per_epoch = scheduler->settings.per_epoch;
    own->enter(own->self);
    scheduler->returned = scheduler->given = scheduler->limit = scheduler->rounds = scheduler->computed =
        update;
    scheduler->applied = update;
    scheduler->since = 0;
    scheduler->epoch = update / per_epoch;
    scheduler->begun = update % per_epoch;
    for (uint16_t rank = 0; rank < scheduler->count; rank++)
        scheduler->outcomes[rank].round = 0;
    own->leave(own->self);
}

/* ---- what the server on the master says, inside ---- */

/* Tickets go out at once, not with the next event. */
static void scheduler_send_tickets(struct rt_scheduler *scheduler) {
    if (!scheduler->settings.workers.self)
        return;
    rt_scheduler_dispense(scheduler);
    scheduler->settings.workers.flush(scheduler->settings.workers.self);
}

uint16_t *rt_scheduler_in_line(const struct rt_scheduler *scheduler, uint64_t number) {
    return &scheduler->line[number % ((uint64_t)scheduler->count * RT_TICKET_RESULTS)];
}

bool *rt_scheduler_round(const struct rt_scheduler *scheduler, uint64_t update) {
    return scheduler->in_round + update % RT_SCHEDULER_ROUNDS * scheduler->settings.roles->workers;
}

void rt_scheduler_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_scheduler *scheduler = user;
    if (scheduler->asynchronous)
        return;
    bool *in_round = rt_scheduler_round(scheduler, version);
    memset(in_round, 0, scheduler->settings.roles->workers * sizeof *in_round);
    for (size_t i = 0; i < pushes; i++)
        in_round[push[i]->worker] = true;
    scheduler->rounds = version;
}

/* An epoch has enough, which the server knows: what it drops from now on is of that epoch. */
static void scheduler_judge_epoch(struct rt_scheduler *scheduler, const struct rt_push *push, bool dropped) {
    if ((push->batch - 1) / scheduler->settings.batches != scheduler->epoch)
        return;
    const uint64_t first = scheduler->epoch * scheduler->settings.per_epoch;
    if (!dropped) {
        scheduler->applied++;
        scheduler->heard = scheduler_now(scheduler);
        if (scheduler->since > 0) /* of an epoch that was seen from its beginning */
            scheduler->usual = (scheduler->heard - scheduler->since) *
                               (double)scheduler->settings.roles->workers /
                               (double)(scheduler->applied - first);
    }
    if (!dropped && scheduler->applied < first + scheduler->settings.per_epoch)
        return;
    scheduler->epoch++;
    scheduler->begun = 0;
}

void rt_scheduler_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    struct rt_scheduler *scheduler = user;
    const bool dropped = verdict == RT_VERDICT_DROP;
    const uint16_t rank = scheduler->settings.roles->worker[push->worker];
    struct rt_outcomes *outcomes = &scheduler->outcomes[rank];
    if (!scheduler->settings.tracks)
        return;
    outcomes->dropped[outcomes->judged++ % RT_TICKET_RESULTS] = dropped;
    if (!dropped && scheduler->asynchronous)
        *rt_scheduler_in_line(scheduler, scheduler->lined++) = rank;
    else if (!dropped)
        outcomes->round = push->batch;
    if (rt_scheduler_cuts(scheduler))
        scheduler_judge_epoch(scheduler, push, dropped);
    if (!scheduler->asynchronous || rt_scheduler_cuts(scheduler))
        scheduler_send_tickets(scheduler);
}

/* ---- time passes ---- */

void rt_scheduler_look_again(struct rt_scheduler *scheduler) {
    if (scheduler_has_enough(scheduler) && scheduler_may_begin_cut(scheduler))
        scheduler_send_tickets(scheduler);
}
