/*
 * What became of the batches: updates one by one, for the loop of a run. The master's own worker learns here
 * too, on the thread that computes; what the others did comes by the thread that takes the events. Who gets
 * which batch is foreman.c's.
 */
#include "train/exchange/foreman_inside.h"

static void enter(struct rt_foreman *foreman) {
    foreman->settings.own.enter(foreman->settings.own.self);
}

static void leave(struct rt_foreman *foreman) {
    foreman->settings.own.leave(foreman->settings.own.self);
}

static size_t waiting(const struct rt_foreman *foreman, uint16_t rank) {
    return foreman->settings.crew.waiting(foreman->settings.crew.self, rank);
}

static bool take(struct rt_foreman *foreman, uint16_t rank, struct rt_done *done) {
    return foreman->settings.crew.take(foreman->settings.crew.self, rank, done);
}

/* The master's own worker learns from its part of a batch. */
static rt_status learn(struct rt_foreman *foreman, uint64_t batch, struct rt_done *done,
                       struct rt_error *err) {
    const struct rt_foreman_own *own = &foreman->settings.own;
    return own->learn(own->self, batch, done, err);
}

static void add(struct rt_done *sum, const struct rt_done *done) {
    sum->rows += done->rows;
    sum->correct += done->correct;
    sum->loss += done->loss;
}

static rt_status await(struct rt_foreman *foreman, bool (*test)(void *self), struct rt_error *err) {
    const struct rt_foreman_own *own = &foreman->settings.own;
    return own->await(own->self, test, foreman, err);
}

/* -- collectives -- */

static bool all_done(void *self) {
    const struct rt_foreman *foreman = self;
    const struct rt_foreman_crew *crew = &foreman->settings.crew;
    const uint64_t later = foreman->given - foreman->returned - 1; /* tickets of the updates that follow */
    for (uint16_t rank = 1; rank < foreman->count; rank++)
        if (crew->held(crew->self, rank) > later)
            return false;
    return true;
}

static rt_status learn_next(struct rt_foreman *foreman, struct rt_error *err) {
    const uint64_t update = foreman->computed + 1;
    rt_status status = learn(foreman, rt_foreman_batch(foreman, update), &foreman->own[update % 2], err);
    foreman->computed += status == RT_OK;
    return status;
}

/* Takes the results of an update, in the order of the workers, so that the sum does not depend on who was
 * first; and gives the tickets that follow, unless the parameters may have to stand still now. */
static void take_together(struct rt_foreman *foreman, struct rt_done *sum) {
    struct rt_done done;
    enter(foreman);
    foreman->returned++;
    add(sum, &foreman->own[foreman->returned % 2]);
    for (uint16_t rank = 1; rank < foreman->count; rank++)
        if (take(foreman, rank, &done))
            add(sum, &done);
    foreman->given = foreman->given < foreman->returned ? foreman->returned : foreman->given;
    if (rt_foreman_next_rest(foreman, foreman->returned) > foreman->returned)
        rt_foreman_open(foreman, foreman->settings.crew.ahead);
    leave(foreman);
}

static rt_status step_together(struct rt_foreman *foreman, struct rt_done *sum, struct rt_error *err) {
    rt_status status = RT_OK;
    if (foreman->settings.crew.self && foreman->given == foreman->returned) {
        enter(foreman);
        rt_foreman_open(foreman, foreman->settings.crew.ahead);
        leave(foreman);
    }
    if (foreman->computed == foreman->returned)
        status = learn_next(foreman, err);
    /* The others, who have their tickets, are at the next update while the last results come in: so is the
     * master's own worker. */
    if (status == RT_OK && foreman->computed == foreman->returned + 1 && foreman->computed < foreman->given)
        status = learn_next(foreman, err);
    if (status == RT_OK && foreman->settings.crew.self)
        status = await(foreman, all_done, err);
    if (status == RT_OK)
        take_together(foreman, sum);
    return status;
}

/* -- results by what became of their gradients, inside -- */

/* The next result of a rank whose gradient came to something; those of dropped ones are passed over. */
static bool take_counted(struct rt_foreman *foreman, uint16_t rank, struct rt_done *done) {
    struct rt_fates *fates = &foreman->fates[rank];
    while (fates->taken < fates->judged) {
        const bool there = rank ? take(foreman, rank, done) : fates->taken < foreman->made;
        if (!there)
            return false;
        if (rank == 0)
            *done = foreman->waiting[fates->taken % RT_CREW_RESULTS];
        if (!fates->dropped[fates->taken++ % RT_CREW_RESULTS])
            return true;
    }
    return false;
}

/* -- rounds -- */

static struct rt_done *results_of(const struct rt_foreman *foreman, uint64_t update) {
    return foreman->results + update % RT_FOREMAN_ROUNDS * foreman->settings.roles->workers;
}

static void take_results(struct rt_foreman *foreman) {
    const struct rt_roles *roles = foreman->settings.roles;
    struct rt_done done;
    for (size_t place = 0; place < roles->workers; place++)
        while (roles->worker[place] > 0 && take_counted(foreman, roles->worker[place], &done))
            results_of(foreman, done.batch)[place] = done; /* batch b makes update b */
}

static bool round_is_over(void *self) {
    struct rt_foreman *foreman = self;
    const uint64_t update = foreman->returned + 1;
    take_results(foreman);
    if (foreman->rounds < update)
        return false;
    for (size_t place = 0; place < foreman->settings.roles->workers; place++)
        if (rt_foreman_round(foreman, update)[place] && results_of(foreman, update)[place].batch != update)
            return false;
    return true;
}

static bool round_is_complete(struct rt_foreman *foreman) {
    enter(foreman);
    const bool complete = foreman->rounds > foreman->returned;
    leave(foreman);
    return complete;
}

/* The others may be as many rounds ahead as results are kept for, so that a slow master does not hold them
 * back. */
static rt_status step_round(struct rt_foreman *foreman, struct rt_done *sum, struct rt_error *err) {
    const uint64_t update = foreman->returned + 1;
    struct rt_done done;
    rt_status status = RT_OK;
    enter(foreman);
    rt_foreman_open(foreman, RT_FOREMAN_ROUNDS - 1);
    leave(foreman);
    if (foreman->works && !round_is_complete(foreman)) {
        status = learn(foreman, update, &done, err);
        if (status == RT_OK)
            results_of(foreman, update)[foreman->place] = done;
    }
    if (status == RT_OK)
        status = await(foreman, round_is_over, err);
    if (status != RT_OK)
        return status;
    enter(foreman);
    for (size_t place = 0; place < foreman->settings.roles->workers; place++)
        if (rt_foreman_round(foreman, update)[place])
            add(sum, &results_of(foreman, update)[place]);
    foreman->returned = update;
    foreman->given = foreman->given < update ? update : foreman->given;
    leave(foreman);
    return RT_OK;
}

/* -- asynchronous -- */

/* The result of the gradient that came to something next, in the order of the server; it may come after the
 * gradient. */
static bool take_in_line(struct rt_foreman *foreman, struct rt_done *done) {
    if (foreman->served == foreman->lined ||
        !take_counted(foreman, *rt_foreman_in_line(foreman, foreman->served), done))
        return false;
    foreman->served++;
    return true;
}

/* Where nobody knows the order: of those who are due. */
static bool take_any(struct rt_foreman *foreman, struct rt_done *done) {
    for (uint16_t i = 0; i + 1 < foreman->count; i++) {
        foreman->turn = (uint16_t)(foreman->turn % (foreman->count - 1) + 1);
        if (take(foreman, foreman->turn, done))
            return true;
    }
    return false;
}

/* A result that has come; else a batch for the master's own worker. */
static bool take_result(struct rt_foreman *foreman, struct rt_done *done, uint64_t *own) {
    enter(foreman);
    rt_foreman_open(foreman, UINT64_MAX);
    const bool taken = foreman->settings.tracks ? take_in_line(foreman, done) : take_any(foreman, done);
    *own = taken ? 0 : rt_foreman_own_batch(foreman);
    foreman->returned += taken;
    leave(foreman);
    return taken;
}

static bool has_result(void *self) {
    const struct rt_foreman *foreman = self;
    if (foreman->settings.tracks) {
        const uint16_t next = *rt_foreman_in_line(foreman, foreman->served);
        return foreman->served < foreman->lined && (next == 0 || waiting(foreman, next) > 0);
    }
    for (uint16_t rank = 1; rank < foreman->count; rank++)
        if (waiting(foreman, rank) > 0)
            return true;
    return false;
}

/* What the master's own worker has done counts when its gradient has come to something, or at once. */
static void put_own(struct rt_foreman *foreman, const struct rt_done *done) {
    enter(foreman);
    if (foreman->settings.tracks)
        foreman->waiting[foreman->made++ % RT_CREW_RESULTS] = *done;
    else
        foreman->returned++;
    leave(foreman);
}

static rt_status step_alone(struct rt_foreman *foreman, struct rt_done *sum, struct rt_error *err) {
    const struct rt_foreman_own *worker = &foreman->settings.own;
    rt_status status = RT_OK;
    uint64_t own;
    while (status == RT_OK) {
        if (take_result(foreman, sum, &own))
            return RT_OK;
        if (own > 0) {
            status = learn(foreman, own, sum, err);
            if (status == RT_OK)
                put_own(foreman, sum);
            if (status == RT_OK && !foreman->settings.tracks)
                return RT_OK;
            continue;
        }
        /* The master's worker has nothing to do: nobody need wait for it. */
        status = foreman->works ? worker->settle(worker->self, err) : RT_OK;
        if (status == RT_OK)
            status = await(foreman, has_result, err);
    }
    return status;
}

rt_status rt_foreman_step(struct rt_foreman *foreman, struct rt_done *sum, struct rt_error *err) {
    *sum = (struct rt_done){0};
    if (!foreman->settings.rules)
        return step_together(foreman, sum, err);
    return foreman->asynchronous ? step_alone(foreman, sum, err) : step_round(foreman, sum, err);
}

uint64_t rt_foreman_returned(const struct rt_foreman *foreman) {
    return foreman->returned;
}
