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
#include "train/exchange/foreman_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

rt_status rt_foreman_create(const struct rt_foreman_settings *settings, struct rt_foreman **foreman,
                            struct rt_error *err) {
    const struct rt_roles *roles = settings->roles;
    const size_t rounds = RT_FOREMAN_ROUNDS * roles->workers;
    struct rt_foreman *made;
    rt_status status = rt_alloc(1, sizeof *made, "the tickets", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->count = (uint16_t)roles->nodes;
    made->asynchronous = settings->rules && settings->rules->asynchronous;
    made->place = rt_roles_place(roles, 0);
    made->works = made->place < roles->workers;
    if (made->asynchronous)
        made->warm = (uint64_t)(settings->warm_start * (double)settings->per_epoch);
    status = rt_alloc(made->count, sizeof *made->tickets, "the tickets", &made->tickets, err);
    if (status == RT_OK)
        status = rt_alloc(made->count, sizeof *made->fates, "the tickets", &made->fates, err);
    if (status == RT_OK)
        status = rt_alloc((size_t)made->count * RT_CREW_RESULTS, sizeof *made->line, "the tickets",
                          &made->line, err);
    if (status == RT_OK)
        status = rt_alloc(rounds, sizeof *made->in_round, "the tickets", &made->in_round, err);
    if (status == RT_OK)
        status = rt_alloc(rounds, sizeof *made->results, "the tickets", &made->results, err);
    if (status != RT_OK) {
        rt_foreman_destroy(made);
        return status;
    }
    *foreman = made;
    return RT_OK;
}

void rt_foreman_destroy(struct rt_foreman *foreman) {
    if (!foreman)
        return;
    free(foreman->tickets);
    free(foreman->fates);
    free(foreman->line);
    free(foreman->in_round);
    free(foreman->results);
    free(foreman);
}

/* ---- which ---- */

uint64_t rt_foreman_batch(const struct rt_foreman *foreman, uint64_t update) {
    const uint64_t per_epoch = foreman->settings.per_epoch;
    return (update - 1) / per_epoch * foreman->settings.batches + (update - 1) % per_epoch + 1;
}

bool rt_foreman_cuts(const struct rt_foreman *foreman) {
    return foreman->asynchronous && foreman->settings.per_epoch < foreman->settings.batches;
}

uint64_t rt_foreman_next_rest(const struct rt_foreman *foreman, uint64_t update) {
    return rt_periods_next(&foreman->settings.rests, update, foreman->settings.updates);
}

/* ---- giving, inside ---- */

static double now(const struct rt_foreman *foreman) {
    return foreman->settings.own.now(foreman->settings.own.self);
}

static size_t holds(const struct rt_foreman *foreman, uint16_t rank) {
    return foreman->settings.crew.held(foreman->settings.crew.self, rank);
}

/* Whether a rank gets tickets: a server without a worker takes part in collectives all the same. */
static bool takes_part(const struct rt_foreman *foreman, uint16_t rank) {
    const struct rt_roles *roles = foreman->settings.roles;
    return !foreman->settings.rules || rt_roles_place(roles, rank) < roles->workers;
}

/* false: the ticket is for another, or for later, when the master, busy with a batch of its own, has taken
 * what was done. */
static bool give(struct rt_foreman *foreman, uint16_t rank, uint64_t batch) {
    const struct rt_foreman_crew *crew = &foreman->settings.crew;
    if (!crew->give(crew->self, rank, batch))
        return false;
    foreman->tickets[rank]++;
    return true;
}

static void give_to_all(struct rt_foreman *foreman) {
    for (uint64_t update = foreman->given + 1; update <= foreman->limit; update++)
        for (uint16_t rank = 1; rank < foreman->count; rank++)
            if (give(foreman, rank, rt_foreman_batch(foreman, update)))
                foreman->given = update;
}

/* The round that is under way, or where its gradient is in that one already the next. */
static void give_rounds(struct rt_foreman *foreman) {
    for (uint16_t rank = 1; rank < foreman->count; rank++) {
        const struct rt_fates *fates = &foreman->fates[rank];
        if (!takes_part(foreman, rank) || holds(foreman, rank) > 0 || fates->judged < foreman->tickets[rank])
            continue;
        const uint64_t update = foreman->rounds + (fates->round > foreman->rounds ? 2 : 1);
        if (update <= foreman->limit && give(foreman, rank, rt_foreman_batch(foreman, update)) &&
            update > foreman->given)
            foreman->given = update;
    }
}

/* -- every batch is one worker's -- */

/* Whether all that the epoch needs is under way, or done. */
static bool has_enough(const struct rt_foreman *foreman) {
    return foreman->given == (foreman->epoch + 1) * foreman->settings.per_epoch;
}

/* Whether nothing has come for as long as a batch takes. */
static bool is_late(const struct rt_foreman *foreman) {
    return foreman->usual > 0 && now(foreman) > foreman->heard + foreman->usual;
}

/* More than the epoch needs may be given only at its end: what is dropped is of an epoch that is over. */
static bool may_begin_cut(const struct rt_foreman *foreman) {
    if (foreman->draining || foreman->begun == foreman->settings.batches ||
        foreman->epoch * foreman->settings.per_epoch >= foreman->limit)
        return false;
    return has_enough(foreman) ? is_late(foreman) : foreman->given < foreman->limit;
}

/* Whether a worker may have one: alone at first, where the strategy says so. */
static bool may_begin(const struct rt_foreman *foreman, uint16_t rank) {
    if (rt_foreman_cuts(foreman))
        return may_begin_cut(foreman);
    if (foreman->given >= foreman->limit)
        return false;
    return foreman->returned >= foreman->warm ||
           (rank == foreman->settings.roles->worker[0] && foreman->given < foreman->warm);
}

static uint64_t next_batch(const struct rt_foreman *foreman) {
    return rt_foreman_cuts(foreman) ? foreman->epoch * foreman->settings.batches + foreman->begun + 1
                                    : rt_foreman_batch(foreman, foreman->given + 1);
}

static void note_begun(struct rt_foreman *foreman) {
    const bool cuts = rt_foreman_cuts(foreman);
    if (cuts && foreman->begun++ == 0)
        foreman->since = foreman->heard = now(foreman);
    if (!cuts || !has_enough(foreman)) /* what is given beyond it makes no further update */
        foreman->given++;
}

/* What is done only because somebody is late waits for nobody. */
static bool is_extra(const struct rt_foreman *foreman) {
    return rt_foreman_cuts(foreman) && has_enough(foreman);
}

/* One is computed while the next waits: more would only keep a slow worker behind. */
static void give_in_turn(struct rt_foreman *foreman) {
    for (size_t held = 0; held < 2; held++)
        for (uint16_t rank = 1; rank < foreman->count; rank++)
            if (takes_part(foreman, rank) && holds(foreman, rank) == held && may_begin(foreman, rank) &&
                (held == 0 || !is_extra(foreman)) && give(foreman, rank, next_batch(foreman)))
                note_begun(foreman);
}

uint64_t rt_foreman_own_batch(struct rt_foreman *foreman) {
    const bool full = foreman->made - foreman->fates[0].taken == RT_CREW_RESULTS;
    const bool late = foreman->made > foreman->fates[0].judged; /* it waits for its own gradient */
    if (!foreman->works || !may_begin(foreman, 0) || full || (is_extra(foreman) && late))
        return 0;
    const uint64_t batch = next_batch(foreman);
    note_begun(foreman);
    return batch;
}

void rt_foreman_dispense(struct rt_foreman *foreman) {
    if (!foreman->settings.rules)
        give_to_all(foreman);
    else if (foreman->asynchronous)
        give_in_turn(foreman);
    else
        give_rounds(foreman);
}

void rt_foreman_open(struct rt_foreman *foreman, uint64_t ahead) {
    if (!foreman->draining) {
        const uint64_t rest = rt_foreman_next_rest(foreman, foreman->returned + 1);
        foreman->limit = ahead < rest - foreman->returned ? foreman->returned + ahead : rest;
    }
    if (foreman->settings.crew.self)
        rt_foreman_dispense(foreman);
}

bool rt_foreman_drain(struct rt_foreman *foreman) {
    const struct rt_foreman_own *own = &foreman->settings.own;
    own->enter(own->self);
    foreman->draining = foreman->given > foreman->returned;
    foreman->limit = foreman->given;
    own->leave(own->self);
    return !foreman->draining;
}

void rt_foreman_set(struct rt_foreman *foreman, uint64_t update) {
    const struct rt_foreman_own *own = &foreman->settings.own;
    const uint64_t per_epoch = foreman->settings.per_epoch;
    own->enter(own->self);
    foreman->returned = foreman->given = foreman->limit = foreman->rounds = foreman->computed = update;
    foreman->applied = update;
    foreman->since = 0;
    foreman->epoch = update / per_epoch;
    foreman->begun = update % per_epoch;
    for (uint16_t rank = 0; rank < foreman->count; rank++)
        foreman->fates[rank].round = 0;
    own->leave(own->self);
}

/* ---- what the server on the master says, inside ---- */

/* Tickets go out at once, not with the next event of the crew. */
static void send_tickets(struct rt_foreman *foreman) {
    if (!foreman->settings.crew.self)
        return;
    rt_foreman_dispense(foreman);
    foreman->settings.crew.flush(foreman->settings.crew.self);
}

uint16_t *rt_foreman_in_line(const struct rt_foreman *foreman, uint64_t number) {
    return &foreman->line[number % ((uint64_t)foreman->count * RT_CREW_RESULTS)];
}

bool *rt_foreman_round(const struct rt_foreman *foreman, uint64_t update) {
    return foreman->in_round + update % RT_FOREMAN_ROUNDS * foreman->settings.roles->workers;
}

void rt_foreman_updated(void *user, uint64_t version, size_t pushes, const struct rt_push *const *push) {
    struct rt_foreman *foreman = user;
    if (foreman->asynchronous)
        return;
    bool *in_round = rt_foreman_round(foreman, version);
    memset(in_round, 0, foreman->settings.roles->workers * sizeof *in_round);
    for (size_t i = 0; i < pushes; i++)
        in_round[push[i]->worker] = true;
    foreman->rounds = version;
}

/* An epoch has enough, which the server knows: what it drops from now on is of that epoch. */
static void judge_epoch(struct rt_foreman *foreman, const struct rt_push *push, bool dropped) {
    if ((push->batch - 1) / foreman->settings.batches != foreman->epoch)
        return;
    const uint64_t first = foreman->epoch * foreman->settings.per_epoch;
    if (!dropped) {
        foreman->applied++;
        foreman->heard = now(foreman);
        if (foreman->since > 0) /* of an epoch that was seen from its beginning */
            foreman->usual = (foreman->heard - foreman->since) * (double)foreman->settings.roles->workers /
                             (double)(foreman->applied - first);
    }
    if (!dropped && foreman->applied < first + foreman->settings.per_epoch)
        return;
    foreman->epoch++;
    foreman->begun = 0;
}

void rt_foreman_judged(void *user, const struct rt_push *push, enum rt_verdict verdict) {
    struct rt_foreman *foreman = user;
    const bool dropped = verdict == RT_VERDICT_DROP;
    const uint16_t rank = foreman->settings.roles->worker[push->worker];
    struct rt_fates *fates = &foreman->fates[rank];
    if (!foreman->settings.tracks)
        return;
    fates->dropped[fates->judged++ % RT_CREW_RESULTS] = dropped;
    if (!dropped && foreman->asynchronous)
        *rt_foreman_in_line(foreman, foreman->lined++) = rank;
    else if (!dropped)
        fates->round = push->batch;
    if (rt_foreman_cuts(foreman))
        judge_epoch(foreman, push, dropped);
    if (!foreman->asynchronous || rt_foreman_cuts(foreman))
        send_tickets(foreman);
}

/* ---- time passes ---- */

void rt_foreman_look_again(struct rt_foreman *foreman) {
    if (has_enough(foreman) && may_begin_cut(foreman))
        send_tickets(foreman);
}
