/*
 * The engine: events to parts, the first failure, and the two ways of waiting; see engine.h.
 *
 * Threaded: the engine's thread holds the mutex whenever it runs a part, and lets it go while it sleeps in
 * the endpoint. Who waits leaves his test with the engine, which tries it after every event: so the waiting
 * thread wakes up once, when there is something for it.
 */
#include "control/engine_inside.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

/* Seconds after which a sleeper looks up, to see whether it is to stop or has waited too long. */
static const double look_up = 0.5;

double rt_engine_now(const struct rt_engine *engine) {
    return engine->endpoint ? rt_endpoint_now(engine->endpoint) : rt_clock_wall();
}

static struct timespec engine_timespec_of(double seconds) {
    const double whole = floor(seconds);
    return (struct timespec){(time_t)whole, (long)((seconds - whole) * 1e9)};
}

/* ---- parts --------------------------------------------------------------------------------------------- */

void rt_engine_fail(struct rt_engine *engine, rt_status status, const struct rt_error *err, uint16_t lost) {
    if (engine->status != RT_OK)
        return;
    engine->error = *err;
    engine->lost = lost;
    engine->status = status;
    if (engine->threaded)
        pthread_cond_broadcast(&engine->changed);
}

static bool engine_is_alive(const struct rt_engine *engine, const struct rt_engine_part *part) {
    return engine->status == RT_OK || part->outlives;
}

static void engine_take_turn(struct rt_engine *engine) {
    engine->due = false;
    for (size_t i = 0; i < engine->settings.part_count; i++) {
        const struct rt_engine_part *part = &engine->settings.parts[i];
        struct rt_error err = {0};
        if (!part->turn || !engine_is_alive(engine, part))
            continue;
        const rt_status status = part->turn(part->self, &err);
        if (status != RT_OK)
            rt_engine_fail(engine, status, &err, part->lost ? part->lost(part->self) : UINT16_MAX);
    }
}

/* Everything that has come is known: whether a part did some work with it. */
static bool engine_do_work(struct rt_engine *engine) {
    bool done = false;
    for (size_t i = 0; i < engine->settings.part_count; i++) {
        const struct rt_engine_part *part = &engine->settings.parts[i];
        struct rt_error err = {0};
        rt_status status = RT_OK;
        if (!part->work || !engine_is_alive(engine, part))
            continue;
        done |= part->work(part->self, &status, &err);
        if (status != RT_OK)
            rt_engine_fail(engine, status, &err, part->lost ? part->lost(part->self) : UINT16_MAX);
    }
    return done;
}

static bool engine_hand_out(struct rt_engine *engine, const struct rt_event *event, uint16_t rank) {
    bool taken = false;
    for (size_t i = 0; i < engine->settings.part_count; i++) {
        const struct rt_engine_part *part = &engine->settings.parts[i];
        struct rt_error err = {0};
        rt_status status = RT_OK;
        if (!engine_is_alive(engine, part) || !part->event(part->self, event, &status, &err))
            continue;
        taken = true;
        if (status != RT_OK)
            rt_engine_fail(engine, status, &err, part->lost ? part->lost(part->self) : rank);
        if (event->kind != RT_EVENT_CLOSED) /* which matters to all */
            break;
    }
    return taken;
}

static void engine_take_event(struct rt_engine *engine, const struct rt_event *event) {
    const struct rt_engine_settings *settings = &engine->settings;
    const uint16_t rank = rt_communicator_rank(settings->comm, event->link);
    if (event->kind == RT_EVENT_WOKEN)
        return;
    if (rank != UINT16_MAX)
        engine->peers[rank] = (struct rt_peer_record){rt_engine_now(engine), event->link->counts};
    const bool taken = engine_hand_out(engine, event, rank);
    if (rank == UINT16_MAX && !taken && settings->stray)
        settings->stray(settings->user, event);
    if (rank != UINT16_MAX && event->kind == RT_EVENT_CLOSED && !atomic_load(&engine->letting_go))
        rt_engine_take_loss(engine, rank, &event->error);
}

/* ---- inline -------------------------------------------------------------------------------------------- */

/* The next event; false when none comes until then. */
static bool engine_next_event(struct rt_engine *engine, double until, struct rt_event *event) {
    if (engine->endpoint)
        return rt_endpoint_wait(engine->endpoint, until, event);
    const double left = until - rt_clock_wall();
    if (left > 0 && !isinf(left)) {
        const struct timespec rest = engine_timespec_of(left);
        nanosleep(&rest, NULL);
    }
    return false;
}

/* One round of a thread that waits for itself. false: it has waited for long enough. */
static bool engine_wait_inline(struct rt_engine *engine, double until) {
    const double now = rt_engine_now(engine);
    rt_engine_check_stop(engine, now);
    const double limit = rt_engine_check_timeout(engine, now);
    double wake = until < limit ? until : limit;
    if (engine->settings.stop && now + look_up < wake)
        wake = now + look_up;
    struct rt_event event;
    if (engine->works && !engine_next_event(engine, 0, &event)) {
        if (engine_do_work(engine))
            return true;
    } else if (engine->works) {
        engine_take_event(engine, &event);
        return true;
    }
    if (engine_next_event(engine, wake, &event)) {
        engine_take_event(engine, &event);
        return true;
    }
    if (isinf(wake)) {
        struct rt_error err;
        rt_fail(&err, RT_FAILED, "nothing will ever come: the network has ended");
        rt_engine_fail(engine, RT_FAILED, &err, UINT16_MAX);
        return false;
    }
    return rt_engine_now(engine) < until;
}

static void engine_watch_inline(struct rt_engine *engine, struct rt_watcher *watcher) {
    const double until = watcher->until;
    engine->watchers = watcher;
    for (bool more = true; more;) {
        if (engine->due)
            engine_take_turn(engine);
        if (engine->status != RT_OK && !watcher->lingers)
            break;
        watcher->met = watcher->test && watcher->test(watcher->self);
        more = !watcher->met && engine_wait_inline(engine, until);
    }
    engine->watchers = NULL;
}

void rt_engine_poll(struct rt_engine *engine) {
    struct rt_event event;
    if (engine->threaded)
        return;
    do {
        while (engine->endpoint && rt_endpoint_wait(engine->endpoint, 0, &event))
            engine_take_event(engine, &event);
        if (engine->due)
            engine_take_turn(engine);
    } while (engine->works && engine_do_work(engine));
}

/* ---- an emulated device ---------------------------------------------------------------------------------

 * The thread that takes events is as slow as the one that computes. It sleeps in the middle of its work, with
 * the engine held: nobody sees a sum before the device would have made it. */

static double engine_emulated_now(void *self) {
    return rt_engine_now(self);
}

/* Not for so long that others could take it for dead. Bytes move meanwhile. */
static void engine_emulated_sleep(void *self, double until) {
    static const double glance = 0.05, worthwhile = 0.002;
    struct rt_engine *engine = self;
    const double start = rt_engine_now(engine), end = fmin(until, start + engine->timeout / 4);
    const bool leaves = engine->threaded && end - start > worthwhile;
    if (leaves)
        rt_endpoint_attend(engine->endpoint, false);
    for (double now = start; now < end && !atomic_load(&engine->ending); now = rt_engine_now(engine)) {
        if (atomic_load(&engine->letting_go) || (engine->settings.stop && atomic_load(engine->settings.stop)))
            break;
        if (rt_engine_owner(engine, now) != RT_OWNER_WORKS)
            rt_endpoint_step(engine->endpoint, 0);
        rt_endpoint_sleep(engine->endpoint, fmin(end, now + glance));
    }
    if (leaves)
        rt_endpoint_attend(engine->endpoint, true);
}

static void engine_start_clock(struct rt_engine *engine) {
    struct rt_states *clock = engine->settings.comm->clock;
    if (!clock)
        return;
    rt_states_start(clock, RT_STATE_WAIT_GRADIENT);
    clock->coarse = true;
    rt_states_emulate(clock, &(struct rt_emulation){.pace = engine->settings.comm->pace,
                                                    .self = engine,
                                                    .now = engine_emulated_now,
                                                    .sleep = engine_emulated_sleep});
    rt_states_set_apart(clock, true, false);
    clock->until_work = true; /* what comes before is no training */
}

/* ---- threaded ------------------------------------------------------------------------------------------ */

static void engine_look_at_watchers(struct rt_engine *engine) {
    bool met = false;
    for (struct rt_watcher *watcher = engine->watchers; watcher; watcher = watcher->next) {
        watcher->met = watcher->met || (watcher->test && watcher->test(watcher->self));
        met |= watcher->met;
    }
    if (met)
        pthread_cond_broadcast(&engine->changed);
}

/* When work begins for which somebody waits; 0: nobody does. */
static double engine_begin_help(const struct rt_engine *engine) {
    const struct rt_watcher *watcher = engine->watchers;
    while (watcher && !watcher->test) /* who only lets time pass waits for nothing */
        watcher = watcher->next;
    return watcher ? rt_clock_wall() : 0;
}

static void engine_end_help(struct rt_engine *engine, double began) {
    if (began > 0)
        engine->helped += rt_clock_wall() - began;
}

static void *engine_run_thread(void *user) {
    struct rt_engine *engine = user;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    rt_core_turns_short();                      /* what it does lets others go on */
    rt_endpoint_attend(engine->endpoint, true); /* this thread does little else */
    pthread_mutex_lock(&engine->mutex);
    engine_start_clock(engine);
    while (!atomic_load(&engine->ending)) {
        struct rt_event event;
        double began = engine_begin_help(engine);
        if (engine->due)
            engine_take_turn(engine);
        engine_end_help(engine, began);
        const double now = rt_engine_now(engine);
        rt_engine_check_stop(engine, now);
        if (now >= engine->check) {
            const double limit = rt_engine_check_timeout(engine, now);
            engine->check = limit < now + look_up ? limit : now + look_up;
        }
        engine_look_at_watchers(engine);
        const double until = engine->check;
        pthread_mutex_unlock(&engine->mutex);
        bool came = engine->works && rt_endpoint_wait(engine->endpoint, 0, &event);
        if (!came && engine->works) {
            pthread_mutex_lock(&engine->mutex);
            began = engine_begin_help(engine);
            const bool worked = engine_do_work(engine);
            engine_end_help(engine, began);
            if (worked)
                continue;
            pthread_mutex_unlock(&engine->mutex);
        }
        came = came || rt_endpoint_wait(engine->endpoint, until, &event);
        pthread_mutex_lock(&engine->mutex);
        began = engine_begin_help(engine);
        if (came)
            engine_take_event(engine, &event);
        engine_end_help(engine, began);
    }
    pthread_mutex_unlock(&engine->mutex);
    rt_endpoint_attend(engine->endpoint, false);
    return NULL;
}

static void engine_watch_threaded(struct rt_engine *engine, struct rt_watcher *watcher) {
    const double until = watcher->until;
    const struct timespec limit = isinf(until) ? (struct timespec){0, 0} : engine_timespec_of(until);
    int late = 0;
    pthread_mutex_lock(&engine->mutex);
    watcher->met = watcher->test && watcher->test(watcher->self);
    watcher->next = engine->watchers;
    engine->watchers = watcher;
    while (!watcher->met && !late && (engine->status == RT_OK || watcher->lingers))
        if (isinf(until))
            pthread_cond_wait(&engine->changed, &engine->mutex);
        else
            late = pthread_cond_timedwait(&engine->changed, &engine->mutex, &limit);
    struct rt_watcher **at = &engine->watchers;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    pthread_mutex_unlock(&engine->mutex);
}

static rt_status engine_start_thread(struct rt_engine *engine, struct rt_error *err) {
    pthread_condattr_t monotonic;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&engine->thread, NULL, engine_run_thread, engine) == 0)
        return RT_OK;
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
    return rt_fail(err, RT_FAILED, "no thread could be started for the exchange");
}

static void engine_end_thread(struct rt_engine *engine) {
    atomic_store(&engine->ending, true);
    rt_endpoint_wake(engine->endpoint);
    pthread_join(engine->thread, NULL);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
}

/* ---- what its owner sees ------------------------------------------------------------------------------- */

rt_status rt_engine_create(const struct rt_engine_settings *settings, struct rt_engine **engine,
                           struct rt_error *err) {
    struct rt_engine *made;
    rt_status status = rt_alloc(1, sizeof *made, "the engine of an exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    made->endpoint = settings->comm->endpoint;
    made->timeout = rt_communicator_timeout(settings->comm);
    made->lost = UINT16_MAX;
    made->due = true; /* something may have come before there was an engine */
    for (size_t i = 0; i < settings->part_count; i++)
        made->works |= settings->parts[i].work != NULL;
    for (size_t i = 0; i < RT_ENGINE_PARTS; i++)
        made->wait[i].node = UINT16_MAX;
    status = rt_alloc(settings->comm->count, sizeof *made->peers, "those who exchange", &made->peers, err);
    for (size_t i = 0; status == RT_OK && i < settings->comm->count; i++)
        made->peers[i].heard = rt_engine_now(made);
    made->threaded = settings->threaded && made->endpoint;
    if (status == RT_OK && made->threaded)
        status = engine_start_thread(made, err);
    if (status != RT_OK) {
        free(made->peers);
        free(made);
        return status;
    }
    *engine = made;
    return RT_OK;
}

void rt_engine_destroy(struct rt_engine *engine) {
    if (!engine)
        return;
    if (engine->threaded)
        engine_end_thread(engine);
    free(engine->peers);
    free(engine);
}

/* The owner is at work, and touches the engine. */
static void engine_step(struct rt_engine *engine) {
    if (engine->endpoint)
        rt_endpoint_step(engine->endpoint, 0);
}

void rt_engine_enter(struct rt_engine *engine) {
    engine_step(engine);
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
}

void rt_engine_leave(struct rt_engine *engine) {
    if (!engine->threaded) {
        engine_take_turn(engine);
        return;
    }
    const bool wake = !engine->due;
    engine->due = true;
    pthread_mutex_unlock(&engine->mutex);
    if (wake)
        rt_endpoint_wake(engine->endpoint);
}

rt_status rt_engine_wait(struct rt_engine *engine, bool (*test)(void *self), void *self, double until,
                         struct rt_error *err) {
    struct rt_watcher watcher = {.test = test, .self = self, .until = until};
    if (engine->threaded)
        engine_watch_threaded(engine, &watcher);
    else
        engine_watch_inline(engine, &watcher);
    engine_step(engine);
    return rt_engine_status(engine, err);
}

static double engine_helped(struct rt_engine *engine) {
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    const double seconds = engine->helped;
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
    return seconds;
}

/* Whether there is nothing to wait for. An emulated device that enters a waiting state sleeps first, until it
 * has spent the time of what it computed, and finds its caches cold afterwards: not for something that is
 * there. */
static bool engine_holds(struct rt_engine *engine, bool (*test)(void *self), void *self) {
    rt_engine_poll(engine);
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    const bool holds = engine->status == RT_OK && test(self);
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
    return holds;
}

rt_status rt_engine_wait_as(struct rt_engine *engine, struct rt_states *states, enum rt_state state,
                            bool (*test)(void *self), void *self, struct rt_error *err) {
    if (!states)
        return rt_engine_wait(engine, test, self, INFINITY, err);
    if (engine_holds(engine, test, self)) {
        engine_step(engine);
        return RT_OK;
    }
    const enum rt_state before = states->now;
    const double begun = engine_helped(engine);
    rt_states_enter(states, state);
    const double waited = states->seconds[state];
    const rt_status status = rt_engine_wait(engine, test, self, INFINITY, err);
    rt_states_enter(states, before);
    const double passed = states->seconds[state] - waited, help = engine_helped(engine) - begun;
    const double worked = help < passed ? help : passed; /* the two were not read at the same time */
    states->seconds[state] -= worked;
    states->seconds[RT_STATE_REDUCE] += worked;
    return status;
}

void rt_engine_linger(struct rt_engine *engine, bool (*test)(void *self), void *self, double until) {
    struct rt_watcher watcher = {.test = test, .self = self, .until = until, .lingers = true};
    if (engine->threaded)
        engine_watch_threaded(engine, &watcher);
    else
        engine_watch_inline(engine, &watcher);
}

rt_status rt_engine_status(struct rt_engine *engine, struct rt_error *err) {
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    rt_status status = engine->status;
    if (status != RT_OK)
        rt_fail(err, status, "%s", engine->error.text);
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
    return status;
}

void rt_engine_let_go(struct rt_engine *engine) {
    atomic_store(&engine->letting_go, true);
}

uint16_t rt_engine_lost(struct rt_engine *engine) {
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    const uint16_t lost = engine->lost;
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
    return lost;
}

void rt_engine_counts(struct rt_engine *engine, uint16_t rank, struct rt_link_counts *counts) {
    *counts = (struct rt_link_counts){0};
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    if (rank < engine->settings.comm->count)
        *counts = engine->peers[rank].counts;
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
}
