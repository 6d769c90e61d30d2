/* The engine: events to parts, the first failure, and waiting; see engine.h. engine_thread.c has the engine
 * with a thread of its own. */
#include "control/engine_inside.h"

#include "base/clock.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

double rt_engine_now(const struct rt_engine *engine) {
    return engine->endpoint ? rt_endpoint_now(engine->endpoint) : rt_clock_wall();
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

void rt_engine_take_turn(struct rt_engine *engine) {
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
bool rt_engine_do_work(struct rt_engine *engine) {
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

void rt_engine_take_event(struct rt_engine *engine, const struct rt_event *event) {
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
        nanosleep(&(struct timespec){(time_t)left, (long)((left - floor(left)) * 1e9)}, NULL);
    }
    return false;
}

/* One round of a thread that waits for itself. false: it has waited for long enough. */
static bool engine_wait_inline(struct rt_engine *engine, double until) {
    const double now = rt_engine_now(engine);
    rt_engine_check_stop(engine, now);
    const double limit = rt_engine_check_timeout(engine, now);
    double wake = until < limit ? until : limit;
    if (engine->settings.stop && now + RT_ENGINE_LOOK_UP < wake)
        wake = now + RT_ENGINE_LOOK_UP;
    struct rt_event event;
    if (engine->works && !engine_next_event(engine, 0, &event)) {
        if (rt_engine_do_work(engine))
            return true;
    } else if (engine->works) {
        rt_engine_take_event(engine, &event);
        return true;
    }
    if (engine_next_event(engine, wake, &event)) {
        rt_engine_take_event(engine, &event);
        return true;
    }
    if (isinf(wake)) {
        struct rt_error err;
        rt_fail(&err, RT_FAILED, "no event can come: the network has ended");
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
            rt_engine_take_turn(engine);
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
            rt_engine_take_event(engine, &event);
        if (engine->due)
            rt_engine_take_turn(engine);
    } while (engine->works && rt_engine_do_work(engine));
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
    status = rt_alloc(settings->comm->count, sizeof *made->peers, "the peers", &made->peers, err);
    for (size_t i = 0; status == RT_OK && i < settings->comm->count; i++)
        made->peers[i].heard = rt_engine_now(made);
    made->threaded = settings->threaded && made->endpoint && !made->endpoint->transport->one_thread;
    if (status == RT_OK && made->threaded)
        status = rt_engine_start_thread(made, err);
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
        rt_engine_end_thread(engine);
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
        rt_engine_take_turn(engine);
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
        rt_engine_watch_threaded(engine, &watcher);
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
        rt_engine_watch_threaded(engine, &watcher);
    else
        engine_watch_inline(engine, &watcher);
}

/* The failure as a whole sentence. */
static void engine_say(const struct rt_engine *engine, struct rt_error *err) {
    const struct rt_communicator *comm = engine->settings.comm;
    *err = engine->error;
    err->status = engine->status;
    if (engine->lost != UINT16_MAX)
        rt_node_names_blame(&comm->names, rt_communicator_node(comm, engine->lost), err);
}

rt_status rt_engine_status(struct rt_engine *engine, struct rt_error *err) {
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    rt_status status = engine->status;
    if (status != RT_OK && err)
        engine_say(engine, err);
    if (engine->threaded)
        pthread_mutex_unlock(&engine->mutex);
    return status;
}

void rt_engine_let_go(struct rt_engine *engine) {
    atomic_store(&engine->letting_go, true);
}

uint16_t rt_engine_lost(struct rt_engine *engine, struct rt_error *why) {
    if (engine->threaded)
        pthread_mutex_lock(&engine->mutex);
    const uint16_t lost = engine->lost;
    if (why && lost != UINT16_MAX)
        *why = engine->error;
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
