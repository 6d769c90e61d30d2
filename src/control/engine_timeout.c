/* When the engine gives up waiting: a peer is gone or silent for too long, or the owner is asked to stop. See
 * engine.h. */
#include "control/engine_inside.h"

#include "base/clock.h"
#include <math.h>

/* When a node loses a peer other than the master, it waits so many seconds before it reports that: the master
 * usually knows the cause, and its message is better. */
static const double grace = 1;
/* Longest time in seconds between two checks of the awaited ranks. */
static const double look_up = 0.5;

void rt_engine_take_loss(struct rt_engine *engine, uint16_t rank, const struct rt_error *why) {
    if (rank == 0 || engine->settings.comm->rank == 0) {
        rt_engine_fail(engine, RT_FAILED, why, rank);
    } else if (!engine->gone.yes) {
        engine->gone.yes = true;
        engine->gone.who = rank;
        engine->gone.until = rt_engine_now(engine) + grace;
        engine->gone.error = *why;
        engine->check = 0;
    }
}

/* If this thread did not run, perhaps the whole machine did not, so that time is not counted. Only that time
 * is excused; otherwise a thread that is often delayed would never give up. */
static void engine_forgive_pause(struct rt_engine *engine, double now) {
    if (!rt_clock_overslept(engine->check, now, engine->timeout))
        return;
    const double late = now - engine->check;
    engine->gone.until += late;
    if (engine->stopped > 0)
        engine->stopped = fmin(now, engine->stopped + late);
    engine->check = now; /* forgiven once */
}

enum rt_owner rt_engine_owner(const struct rt_engine *engine, double now) {
    enum rt_owner found = RT_OWNER_WORKS;
    for (const struct rt_watcher *watcher = engine->watchers; watcher; watcher = watcher->next)
        if (watcher->test && !watcher->met)
            return RT_OWNER_WAITS;
        else if (!watcher->test && now < watcher->until)
            found = RT_OWNER_NAPS;
    return found;
}

/* Fails when a rank that a part waits for is stuck (cluster/liveness.h). Returns our own note. */
static uint16_t engine_check_awaited(struct rt_engine *engine, bool idle, double now) {
    const struct rt_communicator *comm = engine->settings.comm;
    const struct rt_liveness_terms terms = {
        .self = comm->rank, .nodes = comm->count, .timeout = engine->timeout};
    uint16_t note = RT_NOTE_NONE;
    for (size_t i = 0; i < engine->settings.part_count; i++) {
        const struct rt_engine_part *part = &engine->settings.parts[i];
        const uint16_t asked = part->waits_for ? part->waits_for(part->self) : UINT16_MAX;
        const uint16_t who = asked < comm->count && comm->links[asked] ? asked : UINT16_MAX;
        const double heard = who == UINT16_MAX ? 0 : engine->peers[who].heard;
        const double waited = rt_wait_look(&engine->wait[i], who, heard, idle, now);
        if (who == UINT16_MAX)
            continue;
        const struct rt_heartbeat last = rt_link_heartbeat(comm->links[who]);
        struct rt_error why;
        rt_liveness_count(&terms, who, waited, &last, &note);
        const enum rt_liveness found = rt_liveness_judge(&terms, &engine->wait[i], waited, &last, &why);
        if (found == RT_LIVENESS_STUCK)
            rt_engine_fail(engine, RT_FAILED, &why, who);
        else if (found == RT_LIVENESS_DEADLOCK)
            rt_engine_fail(engine, RT_FAILED, &why, UINT16_MAX);
    }
    return note == RT_NOTE_NONE ? 0 : note;
}

double rt_engine_check_timeout(struct rt_engine *engine, double now) {
    if (engine->status != RT_OK)
        return INFINITY;
    engine_forgive_pause(engine, now);
    const enum rt_owner owner = rt_engine_owner(engine, now);
    const uint16_t note = engine_check_awaited(engine, owner == RT_OWNER_WAITS, now);
    /* While the owner computes the steps are its own. */
    if (engine->endpoint && owner != RT_OWNER_WORKS)
        rt_endpoint_step(engine->endpoint, owner == RT_OWNER_WAITS ? note : 0);
    const double again = engine->endpoint ? now + fmin(look_up, engine->timeout / 4) : (double)INFINITY;
    if (!engine->gone.yes || atomic_load(&engine->letting_go))
        return again;
    if (now >= engine->gone.until)
        rt_engine_fail(engine, RT_FAILED, &engine->gone.error, engine->gone.who);
    return fmin(again, engine->gone.until);
}

/* Whether an owner that finishes its work before it stops may keep waiting. Ends after the timeout, even if
 * no rank owes anything. */
static bool engine_may_finish(struct rt_engine *engine, double now) {
    const bool waits = !engine->threaded || engine->watchers;
    if (!engine->settings.finishes)
        return false;
    if (!waits || engine->stopped == 0)
        engine->stopped = waits ? now : 0;
    double heard = engine->stopped;
    for (size_t i = 0; i < engine->settings.comm->count; i++)
        heard = engine->peers[i].heard > heard ? engine->peers[i].heard : heard;
    return !waits || now < heard + engine->timeout;
}

void rt_engine_check_stop(struct rt_engine *engine, double now) {
    struct rt_error err;
    engine_forgive_pause(engine, now);
    if (engine->status != RT_OK || !engine->settings.stop || !atomic_load(engine->settings.stop) ||
        engine_may_finish(engine, now))
        return;
    if (engine->settings.finishes)
        rt_fail(&err, RT_INTERRUPTED,
                "stopped; what had begun could not be finished: nothing came for %g seconds",
                engine->timeout);
    else
        rt_fail(&err, RT_INTERRUPTED, "the node is stopped");
    rt_engine_fail(engine, RT_INTERRUPTED, &err, UINT16_MAX);
}
