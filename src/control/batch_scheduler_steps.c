/*
 * The results of the batches: one update after another, for the loop of a run. The master's own worker learns
 * here too, on the thread that computes. Results of the other workers come from the thread that takes the
 * events. batch_scheduler.c decides which worker gets which batch.
 */
#include "control/batch_scheduler_inside.h"

static void scheduler_enter(struct rt_scheduler *scheduler) {
    scheduler->settings.own.enter(scheduler->settings.own.self);
}

static void scheduler_leave(struct rt_scheduler *scheduler) {
    scheduler->settings.own.leave(scheduler->settings.own.self);
}

static size_t scheduler_waiting(const struct rt_scheduler *scheduler, uint16_t rank) {
    return scheduler->settings.workers.waiting(scheduler->settings.workers.self, rank);
}

static bool scheduler_take(struct rt_scheduler *scheduler, uint16_t rank, struct rt_done *done) {
    return scheduler->settings.workers.take(scheduler->settings.workers.self, rank, done);
}

/* The master's own worker learns from its part of a batch. */
static rt_status scheduler_learn(struct rt_scheduler *scheduler, uint64_t batch, struct rt_done *done,
                                 struct rt_error *err) {
    const struct rt_scheduler_own *own = &scheduler->settings.own;
    return own->worker.learn(own->worker.self, batch, done, err);
}

static void scheduler_add(struct rt_done *sum, const struct rt_done *done) {
    sum->rows += done->rows;
    sum->correct += done->correct;
    sum->loss += done->loss;
}

static rt_status scheduler_await(struct rt_scheduler *scheduler, bool (*test)(void *self),
                                 struct rt_error *err) {
    const struct rt_scheduler_own *own = &scheduler->settings.own;
    return own->await(own->self, test, scheduler, err);
}

/* -- collectives -- */

static bool scheduler_all_done(void *self) {
    const struct rt_scheduler *scheduler = self;
    const struct rt_scheduler_workers *workers = &scheduler->settings.workers;
    const uint64_t later =
        scheduler->given - scheduler->returned - 1; /* tickets of the updates that follow */
    for (uint16_t rank = 1; rank < scheduler->count; rank++)
        if (workers->held(workers->self, rank) > later)
            return false;
    return true;
}

static rt_status scheduler_learn_next(struct rt_scheduler *scheduler, struct rt_error *err) {
    const uint64_t update = scheduler->computed + 1;
    rt_status status =
        scheduler_learn(scheduler, rt_scheduler_batch(scheduler, update), &scheduler->own[update % 2], err);
    scheduler->computed += status == RT_OK;
    return status;
}

/* Takes the results of an update, in the order of the workers, so that the sum does not depend on who was
 * first; and gives the tickets that follow, unless the parameters may have to stand still now. */
static void scheduler_take_together(struct rt_scheduler *scheduler, struct rt_done *sum) {
    struct rt_done done;
    scheduler_enter(scheduler);
    scheduler->returned++;
    scheduler_add(sum, &scheduler->own[scheduler->returned % 2]);
    for (uint16_t rank = 1; rank < scheduler->count; rank++)
        if (scheduler_take(scheduler, rank, &done))
            scheduler_add(sum, &done);
    scheduler->given = scheduler->given < scheduler->returned ? scheduler->returned : scheduler->given;
    if (rt_scheduler_next_rest(scheduler, scheduler->returned) > scheduler->returned)
        rt_scheduler_open(scheduler, scheduler->settings.workers.ahead);
    scheduler_leave(scheduler);
}

static rt_status scheduler_step_together(struct rt_scheduler *scheduler, struct rt_done *sum,
                                         struct rt_error *err) {
    rt_status status = RT_OK;
    if (scheduler->settings.workers.self && scheduler->given == scheduler->returned) {
        scheduler_enter(scheduler);
        rt_scheduler_open(scheduler, scheduler->settings.workers.ahead);
        scheduler_leave(scheduler);
    }
    if (scheduler->computed == scheduler->returned)
        status = scheduler_learn_next(scheduler, err);
    /* The other workers have their tickets and compute the next update while the last results come in. The
     * master's own worker does the same. */
    if (status == RT_OK && scheduler->computed == scheduler->returned + 1 &&
        scheduler->computed < scheduler->given)
        status = scheduler_learn_next(scheduler, err);
    if (status == RT_OK && scheduler->settings.workers.self)
        status = scheduler_await(scheduler, scheduler_all_done, err);
    if (status == RT_OK)
        scheduler_take_together(scheduler, sum);
    return status;
}

/* -- results by what became of their gradients, inside -- */

/* The next result of a rank whose gradient came to something; those of dropped ones are passed over. */
static bool scheduler_take_counted(struct rt_scheduler *scheduler, uint16_t rank, struct rt_done *done) {
    struct rt_outcomes *outcomes = &scheduler->outcomes[rank];
    while (outcomes->taken < outcomes->judged) {
        const bool there = rank ? scheduler_take(scheduler, rank, done) : outcomes->taken < scheduler->made;
        if (!there)
            return false;
        if (rank == 0)
            *done = scheduler->waiting[outcomes->taken % RT_TICKET_RESULTS];
        if (!outcomes->dropped[outcomes->taken++ % RT_TICKET_RESULTS])
            return true;
    }
    return false;
}

/* -- rounds -- */

static struct rt_done *scheduler_results_of(const struct rt_scheduler *scheduler, uint64_t update) {
    return scheduler->results + update % RT_SCHEDULER_ROUNDS * scheduler->settings.roles->workers;
}

static void scheduler_take_results(struct rt_scheduler *scheduler) {
    const struct rt_roles *roles = scheduler->settings.roles;
    struct rt_done done;
    for (size_t place = 0; place < roles->workers; place++)
        while (roles->worker[place] > 0 && scheduler_take_counted(scheduler, roles->worker[place], &done))
            scheduler_results_of(scheduler, done.batch)[place] = done; /* batch b makes update b */
}

static bool scheduler_round_is_over(void *self) {
    struct rt_scheduler *scheduler = self;
    const uint64_t update = scheduler->returned + 1;
    scheduler_take_results(scheduler);
    if (scheduler->rounds < update)
        return false;
    for (size_t place = 0; place < scheduler->settings.roles->workers; place++)
        if (rt_scheduler_round(scheduler, update)[place] &&
            scheduler_results_of(scheduler, update)[place].batch != update)
            return false;
    return true;
}

static bool scheduler_round_is_complete(struct rt_scheduler *scheduler) {
    scheduler_enter(scheduler);
    const bool complete = scheduler->rounds > scheduler->returned;
    scheduler_leave(scheduler);
    return complete;
}

/* The others may be as many rounds ahead as results are kept for, so that a slow master does not hold them
 * back. */
static rt_status scheduler_step_round(struct rt_scheduler *scheduler, struct rt_done *sum,
                                      struct rt_error *err) {
    const uint64_t update = scheduler->returned + 1;
    struct rt_done done;
    rt_status status = RT_OK;
    scheduler_enter(scheduler);
    rt_scheduler_open(scheduler, RT_SCHEDULER_ROUNDS - 1);
    scheduler_leave(scheduler);
    if (scheduler->works && !scheduler_round_is_complete(scheduler)) {
        status = scheduler_learn(scheduler, update, &done, err);
        if (status == RT_OK)
            scheduler_results_of(scheduler, update)[scheduler->place] = done;
    }
    if (status == RT_OK)
        status = scheduler_await(scheduler, scheduler_round_is_over, err);
    if (status != RT_OK)
        return status;
    scheduler_enter(scheduler);
    for (size_t place = 0; place < scheduler->settings.roles->workers; place++)
        if (rt_scheduler_round(scheduler, update)[place])
            scheduler_add(sum, &scheduler_results_of(scheduler, update)[place]);
    scheduler->returned = update;
    scheduler->given = scheduler->given < update ? update : scheduler->given;
    scheduler_leave(scheduler);
    return RT_OK;
}

/* -- asynchronous -- */

/* The result of the gradient that came to something next, in the order of the server; it may come after the
 * gradient. */
static bool scheduler_take_in_line(struct rt_scheduler *scheduler, struct rt_done *done) {
    if (scheduler->client == scheduler->lined ||
        !scheduler_take_counted(scheduler, *rt_scheduler_in_line(scheduler, scheduler->client), done))
        return false;
    scheduler->client++;
    return true;
}

/* Where the order of the gradients is not known: a result of any rank whose gradient came to something. */
static bool scheduler_take_any(struct rt_scheduler *scheduler, struct rt_done *done) {
    for (uint16_t i = 0; i + 1 < scheduler->count; i++) {
        scheduler->turn = (uint16_t)(scheduler->turn % (scheduler->count - 1) + 1);
        if (scheduler_take(scheduler, scheduler->turn, done))
            return true;
    }
    return false;
}

/* A result that has come; else a batch for the master's own worker. */
static bool scheduler_take_result(struct rt_scheduler *scheduler, struct rt_done *done, uint64_t *own) {
    scheduler_enter(scheduler);
    rt_scheduler_open(scheduler, UINT64_MAX);
    const bool taken = scheduler->settings.tracks ? scheduler_take_in_line(scheduler, done)
                                                  : scheduler_take_any(scheduler, done);
    *own = taken ? 0 : rt_scheduler_own_batch(scheduler);
    scheduler->returned += taken;
    scheduler_leave(scheduler);
    return taken;
}

static bool scheduler_has_result(void *self) {
    const struct rt_scheduler *scheduler = self;
    if (scheduler->settings.tracks) {
        const uint16_t next = *rt_scheduler_in_line(scheduler, scheduler->client);
        return scheduler->client < scheduler->lined && (next == 0 || scheduler_waiting(scheduler, next) > 0);
    }
    for (uint16_t rank = 1; rank < scheduler->count; rank++)
        if (scheduler_waiting(scheduler, rank) > 0)
            return true;
    return false;
}

/* What the master's own worker has done counts when its gradient has come to something, or at once. */
static void scheduler_put_own(struct rt_scheduler *scheduler, const struct rt_done *done) {
    scheduler_enter(scheduler);
    if (scheduler->settings.tracks)
        scheduler->waiting[scheduler->made++ % RT_TICKET_RESULTS] = *done;
    else
        scheduler->returned++;
    scheduler_leave(scheduler);
}

static rt_status scheduler_step_alone(struct rt_scheduler *scheduler, struct rt_done *sum,
                                      struct rt_error *err) {
    const struct rt_scheduler_own *worker = &scheduler->settings.own;
    rt_status status = RT_OK;
    uint64_t own;
    while (status == RT_OK) {
        if (scheduler_take_result(scheduler, sum, &own))
            return RT_OK;
        if (own > 0) {
            status = scheduler_learn(scheduler, own, sum, err);
            if (status == RT_OK)
                scheduler_put_own(scheduler, sum);
            if (status == RT_OK && !scheduler->settings.tracks)
                return RT_OK;
            continue;
        }
        /* The master's worker has nothing to do: no bound or round waits for it. */
        status = scheduler->works ? worker->worker.settle(worker->worker.self, err) : RT_OK;
        if (status == RT_OK)
            status = scheduler_await(scheduler, scheduler_has_result, err);
    }
    return status;
}

rt_status rt_scheduler_step(struct rt_scheduler *scheduler, struct rt_done *sum, struct rt_error *err) {
    *sum = (struct rt_done){0};
    if (!scheduler->settings.servers)
        return scheduler_step_together(scheduler, sum, err);
    return scheduler->asynchronous ? scheduler_step_alone(scheduler, sum, err)
                                   : scheduler_step_round(scheduler, sum, err);
}

uint64_t rt_scheduler_returned(const struct rt_scheduler *scheduler) {
    return scheduler->returned;
}
