/*
 * The baton that lets one program of the network in memory run at a time, and virtual time. A program that
 * waits looks for the next to run: the first ready one, by index, after itself. If there is none, the first
 * event on the agenda happens, and all others of the same time. Often that makes the waiting program ready,
 * and no thread has to be woken.
 */
#include "base/fpenv.h"
#include "sim/network_inside.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void baton_rouse(struct rt_mem_place *place) {
    if (place->state == RT_MEM_WAITING || place->state == RT_MEM_SLEEPING)
        place->state = RT_MEM_READY;
}

/* ---- failure ---- */

void rt_mem_over(struct rt_mem_place *place, const char *why) {
    if (!place->over)
        place->ahead = place->net->now;
    place->over = true;
    place->listening = false;
    for (struct rt_mem_side *side = place->sides; side; side = side->after)
        if (side->state != RT_MEM_DEAD)
            rt_mem_die(side, "%s", why);
    baton_rouse(place);
}

void rt_mem_fail(struct rt_memnet *net, rt_status status, const char *format, ...) {
    va_list arguments;
    net->failed = true;
    net->error.status = status;
    va_start(arguments, format);
    vsnprintf(net->error.text, sizeof net->error.text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < net->count; i++)
        rt_mem_over(&net->places[i], net->error.text);
}

/* Which programs wait, and what is posted there: " mem:0 waits (mem:1: 1 unsent, 2 to receive);". */
static void baton_describe(const struct rt_memnet *net, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < net->count && used < room; i++) {
        const struct rt_mem_place *place = &net->places[i];
        const char *state = place->state == RT_MEM_WAITING    ? "waits"
                            : place->state == RT_MEM_SLEEPING ? "sleeps"
                                                              : "has ended";
        used += (size_t)snprintf(text + used, room - used, "%s mem:%zu %s", i ? ";" : "", i, state);
        if (place->state != RT_MEM_WAITING)
            continue;
        for (const struct rt_mem_side *side = place->sides; side && used < room; side = side->after) {
            size_t sends = side->leaving ? 1 : 0, receives = 0;
            for (unsigned c = 0; c < RT_CHANNELS; c++) {
                for (struct rt_send *send = side->channels[c].waiting.first; send; send = send->next)
                    sends++;
                for (struct rt_receive *r = side->channels[c].posted.first; r; r = r->next)
                    receives++;
            }
            used += (size_t)snprintf(text + used, room - used, " (%s: %zu unsent, %zu to receive)",
                                     side->link.peer, sends, receives);
        }
    }
}

/* ---- the baton ---- */

static void baton_happen(struct rt_memnet *net, struct rt_mem_item *item) {
    rt_mem_agenda_remove(&net->agenda, item);
    if (item->kind == RT_MEM_TIMER)
        baton_rouse(item->owner);
    else
        rt_mem_happen(item);
}

/* All events that are due now. */
static void baton_catch_up(struct rt_memnet *net) {
    for (struct rt_mem_item *item;
         !net->failed && (item = rt_mem_agenda_first(&net->agenda)) && item->at <= net->now;)
        baton_happen(net, item);
}

/* No program is ready: time advances. */
static void baton_advance(struct rt_memnet *net) {
    struct rt_mem_item *item = rt_mem_agenda_first(&net->agenda);
    char who[400];
    if (item && item->at <= net->limit) {
        net->now = item->at > net->now ? item->at : net->now;
        baton_catch_up(net);
        return;
    }
    baton_describe(net, who, sizeof who);
    if (item)
        rt_mem_fail(net, RT_FAILED, "virtual time passed %g s:%s", net->limit, who);
    else
        rt_mem_fail(net, RT_FAILED, "dead-lock at %.9g s:%s", net->now, who);
}

static struct rt_mem_place *baton_choose(struct rt_memnet *net, const struct rt_mem_place *after) {
    for (;;) {
        if (atomic_load_explicit(&net->wakes, memory_order_relaxed) && atomic_exchange(&net->wakes, false))
            for (size_t i = 0; i < net->count; i++)
                if (net->places[i].state == RT_MEM_WAITING && atomic_load(&net->places[i].woken))
                    baton_rouse(&net->places[i]);
        size_t ended = 0;
        for (size_t k = 1, i = after->index; k <= net->count; k++) {
            i = i + 1 < net->count ? i + 1 : 0;
            if (net->places[i].state == RT_MEM_READY)
                return &net->places[i];
            ended += net->places[i].state == RT_MEM_ENDED;
        }
        if (ended == net->count)
            return NULL;
        baton_advance(net);
    }
}

/* Passes the baton on, and unless the program has ended returns with it. */
static void baton_pass(struct rt_mem_place *place) {
    struct rt_memnet *net = place->net;
    bool ended = place->state == RT_MEM_ENDED;
    struct rt_mem_place *next = baton_choose(net, place);
    net->running = next;
    if (next)
        next->state = RT_MEM_RUNNING;
    if (next == place)
        return;
    sem_post(next ? &next->turn : &net->done);
    while (!ended && sem_wait(&place->turn) != 0) {
        /* a signal came: go on waiting */
    }
}

/* Lets the others run until this place is ready again, at the given time or, if it waits for events, at an
 * event. */
static void baton_rest(struct rt_mem_place *place, double until, enum rt_mem_place_state state) {
    struct rt_memnet *net = place->net;
    if (net->running != place)
        return; /* outside a run there are no others */
    if (until > net->now) {
        place->state = state;
        if (until < INFINITY)
            rt_mem_agenda_add(&net->agenda, &place->timer, until);
    } else {
        place->state = RT_MEM_READY;
    }
    baton_pass(place);
    rt_mem_agenda_remove(&net->agenda, &place->timer);
}

/* A program that is to hang does so in any call of the network. */
static void baton_hang(struct rt_mem_place *place) {
    const struct rt_memnet *net = place->net;
    while (!place->over && net->running == place && net->now >= place->freezes && net->now < place->thaws) {
        baton_rest(place, place->thaws, RT_MEM_SLEEPING);
        place->freezes += place->freezes_every;
        place->thaws += place->freezes_every;
    }
}

/* A place that has ended does not wait: its own time advances instead. */
static void baton_skip(struct rt_mem_place *place, double until) {
    if (place->over && until < INFINITY && until > place->ahead)
        place->ahead = until;
}

bool rt_mem_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    struct rt_mem_place *place = (struct rt_mem_place *)endpoint;
    baton_hang(place);
    if (rt_mem_take(place, event))
        return true;
    if (!place->over) {
        baton_catch_up(place->net);
        if (rt_mem_take(place, event))
            return true;
        baton_rest(place, until, RT_MEM_WAITING);
        baton_hang(place);
        if (rt_mem_take(place, event))
            return true;
    }
    baton_skip(place, until);
    return false;
}

void rt_mem_sleep(struct rt_endpoint *endpoint, double until) {
    struct rt_mem_place *place = (struct rt_mem_place *)endpoint;
    if (!place->over)
        baton_rest(place, until, RT_MEM_SLEEPING);
    baton_hang(place);
    baton_skip(place, until);
}

void rt_mem_wake(struct rt_endpoint *endpoint) {
    struct rt_mem_place *place = (struct rt_mem_place *)endpoint;
    atomic_store(&place->woken, true);
    atomic_store(&place->net->wakes, true);
}

double rt_mem_now(struct rt_endpoint *endpoint) {
    const struct rt_mem_place *place = (const struct rt_mem_place *)endpoint;
    return place->over ? place->ahead : place->net->now;
}

static void *baton_run_program(void *argument) {
    struct rt_mem_place *place = argument;
    struct rt_memnet *net = place->net;
    fenv_t theirs;
    rt_fp_enter(&theirs);
    while (sem_wait(&place->turn) != 0) {
        /* a signal came: go on waiting */
    }
    if (net->program)
        net->program(net->user, place->index, &place->endpoint);
    place->state = RT_MEM_ENDED;
    baton_pass(place);
    return NULL;
}

rt_status rt_memnet_run(struct rt_memnet *net, rt_memnet_program program, void *user, double limit,
                        struct rt_error *err) {
    rt_status status = RT_OK;
    size_t started = 0;
    if (net->failed)
        return rt_fail(err, RT_FAILED, "the network has failed before: %s", net->error.text);
    net->program = program;
    net->user = user;
    net->limit = limit;
    while (started < net->count &&
           pthread_create(&net->places[started].thread, NULL, baton_run_program, &net->places[started]) == 0)
        started++;
    if (started < net->count) {
        net->program = NULL; /* programs that have started just return */
        status = rt_fail(err, RT_NO_MEMORY, "no thread for endpoint mem:%zu", started);
    }
    for (size_t i = 0; i < net->count; i++)
        net->places[i].state = i < started ? RT_MEM_READY : RT_MEM_ENDED;
    if (started) {
        net->running = &net->places[0];
        net->running->state = RT_MEM_RUNNING;
        sem_post(&net->running->turn);
        while (sem_wait(&net->done) != 0) {
            /* a signal came: go on waiting */
        }
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(net->places[i].thread, NULL);
    for (size_t i = 0; i < net->count; i++)
        net->places[i].state = RT_MEM_IDLE;
    if (status == RT_OK && net->failed)
        status = rt_fail(err, net->error.status, "%s", net->error.text);
    return status;
}
