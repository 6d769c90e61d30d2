/* When the engine gives up waiting: somebody is gone, or silent for too long, or the owner is to stop; see
 * engine.h. */
#include "exchange/engine_inside.h"

#include "base/clock.h"
#include <math.h>

/* Seconds that a node which lost another gives the master to say why: it knows first, and of all. */
static const double grace = 1;
/* A node has so many times the master's patience: who waits for it may himself be kept waiting by another,
 * and the master, who waits for all, knows best by whom. */
static const double calm = 2;
/* Seconds between two looks at what an inquiry has found. */
static const double step = 0.1;

double rt_engine_patience(const struct rt_party *party) {
    return rt_party_patience(party) * (party->rank == 0 ? 1 : calm);
}

void rt_engine_take_loss(struct rt_engine *engine, uint16_t rank, const struct rt_error *why) {
    struct rt_error err;
    char name[32];
    rt_fail(&err, RT_FAILED, "%s: %s", rt_party_name(rank, name),
            rt_link_reason(engine->settings.party->links[rank], why));
    if (rank == 0 || engine->settings.party->rank == 0) {
        rt_engine_fail(engine, RT_FAILED, &err, rank);
    } else if (!engine->gone.yes) {
        engine->gone.yes = true;
        engine->gone.who = rank;
        engine->gone.until = rt_engine_now(engine) + grace;
        engine->gone.error = err;
        engine->check = 0;
    }
}

uint16_t rt_engine_awaited(const struct rt_engine *engine) {
    const struct rt_engine_settings *settings = &engine->settings;
    uint16_t found = UINT16_MAX;
    for (size_t i = 0; i < settings->part_count; i++) {
        const struct rt_engine_part *part = &settings->parts[i];
        const uint16_t who = part->waits_for ? part->waits_for(part->self) : UINT16_MAX;
        if (who < settings->party->count &&
            (found == UINT16_MAX || engine->peers[who].heard < engine->peers[found].heard))
            found = who;
    }
    return found;
}

void rt_engine_calm(struct rt_engine *engine) {
    const double now = rt_engine_now(engine);
    for (size_t i = 0; i < engine->settings.party->count; i++)
        engine->peers[i].heard = now;
}

/* Where this thread did not run, perhaps nobody did: that time does not count. No more than that time is
 * forgiven, or a thread that is held up now and then would never lose patience. */
static void forgive_pause(struct rt_engine *engine, double now) {
    if (!rt_clock_overslept(engine->check, now, engine->patience))
        return;
    const double late = now - engine->check;
    for (size_t i = 0; i < engine->settings.party->count; i++)
        engine->peers[i].heard = fmin(now, engine->peers[i].heard + late);
    for (size_t i = 0; i < engine->settings.part_count; i++)
        engine->wait[i].since = fmin(now, engine->wait[i].since + late);
    engine->inquiry.open = false;
    engine->gone.until += late;
    if (engine->stopped > 0)
        engine->stopped = fmin(now, engine->stopped + late);
    engine->check = now; /* forgiven once */
}

static void blame(struct rt_engine *engine, uint16_t who) {
    struct rt_error err;
    char name[32];
    rt_fail(&err, RT_FAILED, "%s: nothing came from it for %g seconds", rt_party_name(who, name),
            engine->patience);
    rt_engine_fail(engine, RT_FAILED, &err, who);
}

/* Whether the owner is at work, and does not wait for anything. */
static bool computes(const struct rt_engine *engine) {
    for (const struct rt_watcher *watcher = engine->watchers; watcher; watcher = watcher->next)
        if (watcher->test)
            return false;
    return true;
}

static enum rt_inquiry inquire(struct rt_engine *engine, double now, uint16_t *guilty) {
    *guilty = engine->inquiry.suspect;
    for (size_t i = 0; i < engine->settings.part_count; i++) {
        const struct rt_engine_part *part = &engine->settings.parts[i];
        if (part->inquire)
            return part->inquire(part->self, engine->inquiry.suspect, computes(engine), now, guilty);
    }
    return RT_INQUIRY_GUILTY;
}

/* Patience has ended: who is to blame. Returns when to look again. */
static double lose_patience(struct rt_engine *engine, double now) {
    uint16_t guilty;
    if (!engine->inquiry.open)
        engine->inquiry.suspect = rt_engine_awaited(engine);
    const enum rt_inquiry found = inquire(engine, now, &guilty);
    engine->inquiry.open = found == RT_INQUIRY_PENDING;
    if (found == RT_INQUIRY_PENDING)
        return now + step;
    if (found == RT_INQUIRY_NOBODY) {
        rt_engine_calm(engine);
        return now + engine->patience;
    }
    blame(engine, guilty);
    return now;
}

/* When somebody will have owed something for too long. */
static double find_limit(struct rt_engine *engine, double now) {
    const struct rt_engine_settings *settings = &engine->settings;
    double first = INFINITY;
    for (size_t i = 0; i < settings->part_count; i++) {
        const struct rt_engine_part *part = &settings->parts[i];
        const uint16_t who = part->waits_for ? part->waits_for(part->self) : UINT16_MAX;
        if (who != engine->wait[i].who) {
            engine->wait[i].who = who;
            engine->wait[i].since = now;
        }
        if (who >= settings->party->count)
            continue;
        const double heard = engine->peers[who].heard, since = engine->wait[i].since;
        const double limit = (heard > since ? heard : since) + engine->patience;
        first = limit < first ? limit : first;
    }
    return first;
}

double rt_engine_check_patience(struct rt_engine *engine, double now) {
    if (engine->status != RT_OK)
        return INFINITY;
    forgive_pause(engine, now);
    double limit = find_limit(engine, now);
    if (engine->inquiry.open || now >= limit)
        limit = lose_patience(engine, now);
    if (!engine->gone.yes || atomic_load(&engine->letting_go))
        return limit;
    if (now >= engine->gone.until)
        rt_engine_fail(engine, RT_FAILED, &engine->gone.error, engine->gone.who);
    return limit < engine->gone.until ? limit : engine->gone.until;
}

/* Whether one who finishes what has begun may go on waiting: also where nobody owes anything, this ends. */
static bool may_finish(struct rt_engine *engine, double now) {
    const bool waits = !engine->threaded || engine->watchers;
    if (!engine->settings.finishes)
        return false;
    if (!waits || engine->stopped == 0)
        engine->stopped = waits ? now : 0;
    double heard = engine->stopped;
    for (size_t i = 0; i < engine->settings.party->count; i++)
        heard = engine->peers[i].heard > heard ? engine->peers[i].heard : heard;
    return !waits || now < heard + engine->patience;
}

void rt_engine_check_stop(struct rt_engine *engine, double now) {
    struct rt_error err;
    forgive_pause(engine, now);
    if (engine->status != RT_OK || !engine->settings.stop || !atomic_load(engine->settings.stop) ||
        may_finish(engine, now))
        return;
    if (engine->settings.finishes)
        rt_fail(&err, RT_INTERRUPTED,
                "stopped; what had begun could not be finished: nothing came for %g seconds",
                engine->patience);
    else
        rt_fail(&err, RT_INTERRUPTED, "the node is stopped");
    rt_engine_fail(engine, RT_INTERRUPTED, &err, UINT16_MAX);
}
