/*
 * An engine with a thread of its own, which takes all events of the device while another thread computes.
 *
 * The engine's thread holds the mutex whenever it runs a part, and releases it while it sleeps in the
 * endpoint. A thread that waits leaves its test with the engine, which tries it after every event: so the
 * waiting thread wakes up once, when there is something for it.
 */
#include "control/engine_inside.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/fpenv.h"
#include <math.h>
#include <time.h>

/* ---- an emulated device --------------------------------------------------------------------------------
 *
 * The thread that takes events is as slow as the one that computes. It sleeps in the middle of its work, with
 * the engine held: no peer sees a sum before the device would have made it. */

static double engine_emulated_now(void *self) {
    return rt_engine_now(self);
}

/* Sleeps in pieces short enough that peers do not consider the node dead. The network thread keeps sending.
 */
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

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void engine_look_at_watchers(struct rt_engine *engine) {
    bool met = false;
    for (struct rt_watcher *watcher = engine->watchers; watcher; watcher = watcher->next) {
        watcher->met = watcher->met || (watcher->test && watcher->test(watcher->self));
        met |= watcher->met;
    }
    if (met)
        pthread_cond_broadcast(&engine->changed);
}

/* The time at which work for a waiting thread begins; 0: no thread waits for a result. */
static double engine_begin_help(const struct rt_engine *engine) {
    const struct rt_watcher *watcher = engine->watchers;
    while (watcher && !watcher->test) /* a watcher without a test only lets time pass */
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
            rt_engine_take_turn(engine);
        engine_end_help(engine, began);
        const double now = rt_engine_now(engine);
        rt_engine_check_stop(engine, now);
        if (now >= engine->check) {
            const double limit = rt_engine_check_timeout(engine, now);
            engine->check = limit < now + RT_ENGINE_LOOK_UP ? limit : now + RT_ENGINE_LOOK_UP;
        }
        engine_look_at_watchers(engine);
        const double until = engine->check;
        pthread_mutex_unlock(&engine->mutex);
        bool came = engine->works && rt_endpoint_wait(engine->endpoint, 0, &event);
        if (!came && engine->works) {
            pthread_mutex_lock(&engine->mutex);
            began = engine_begin_help(engine);
            const bool worked = rt_engine_do_work(engine);
            engine_end_help(engine, began);
            if (worked)
                continue;
            pthread_mutex_unlock(&engine->mutex);
        }
        came = came || rt_endpoint_wait(engine->endpoint, until, &event);
        pthread_mutex_lock(&engine->mutex);
        began = engine_begin_help(engine);
        if (came)
            rt_engine_take_event(engine, &event);
        engine_end_help(engine, began);
    }
    pthread_mutex_unlock(&engine->mutex);
    rt_endpoint_attend(engine->endpoint, false);
    return NULL;
}

static struct timespec engine_timespec(double seconds) {
    const double whole = floor(seconds);
    return (struct timespec){(time_t)whole, (long)((seconds - whole) * 1e9)};
}

void rt_engine_watch_threaded(struct rt_engine *engine, struct rt_watcher *watcher) {
    const double until = watcher->until;
    const struct timespec limit = isinf(until) ? (struct timespec){0, 0} : engine_timespec(until);
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

rt_status rt_engine_start_thread(struct rt_engine *engine, struct rt_error *err) {
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

void rt_engine_end_thread(struct rt_engine *engine) {
    atomic_store(&engine->ending, true);
    rt_endpoint_wake(engine->endpoint);
    pthread_join(engine->thread, NULL);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
}
