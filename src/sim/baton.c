/*
 * The baton that lets one program of the network in memory run at a time, and virtual time. A program that
 * waits looks for the next to run: the first ready one, by index, after itself. If there is none, the first
 * event on the agenda happens, and all others of the same time. Often that makes the waiting program ready,
 * and no thread has to be woken.
 */
#include "base/clock.h"
#include "base/fpenv.h"
#include "sim/network_inside.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void rt_mem_rouse(struct rt_mem_node *node) {
    if (node->state == RT_MEM_WAITING || node->state == RT_MEM_SLEEPING)
        node->state = RT_MEM_READY;
}

/* ---- failure ---- */

void rt_mem_over(struct rt_mem_node *node, const char *why) {
    if (!node->over)
        node->ahead = node->net->now;
    node->over = true;
    node->listening = node->paused = false;
    rt_mem_agenda_remove(&node->net->agenda, &node->thaw);
    for (struct rt_mem_side *side = node->sides; side; side = side->after)
        if (side->state != RT_MEM_DEAD)
            rt_mem_die(side, "%s", why);
    rt_mem_rouse(node);
}

void rt_mem_fail(struct rt_memnet *net, rt_status status, const char *format, ...) {
    va_list arguments;
    net->failed = true;
    net->error.status = status;
    va_start(arguments, format);
    vsnprintf(net->error.text, sizeof net->error.text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < net->node_count; i++)
        rt_mem_over(net->nodes[i], net->error.text);
}

/* Which programs wait, and what is posted there: " mem:0 waits (mem:1: 1 unsent, 2 to receive);". */
static void baton_describe(const struct rt_memnet *net, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < net->count && used < room; i++) {
        const struct rt_mem_node *node = net->hosts[i];
        const char *state = node->state == RT_MEM_WAITING    ? "waits"
                            : node->state == RT_MEM_SLEEPING ? "sleeps"
                            : node->state == RT_MEM_UNBORN   ? "is down"
                                                             : "has ended";
        used += (size_t)snprintf(text + used, room - used, "%s mem:%zu %s", i ? ";" : "", i, state);
        if (node->state != RT_MEM_WAITING)
            continue;
        for (const struct rt_mem_side *side = node->sides; side && used < room; side = side->after) {
            size_t sends = side->leaving ? 1 : 0, receives = 0;
            for (unsigned c = 0; c < RT_CHANNELS; c++) {
                for (struct rt_send *send = side->channels[c].waiting.first; send; send = send->next)
                    sends++;
                for (struct rt_receive *r = side->channels[c].posted.first; r; r = r->next)
                    receives++;
                for (struct rt_receive *r = side->channels[c].unheard.first; r; r = r->next)
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
    switch (item->kind) {
    case RT_MEM_TIMER:
        rt_mem_rouse(item->owner);
        break;
    case RT_MEM_THAW:
        rt_mem_thaw(item->owner);
        break;
    case RT_MEM_START:
        rt_mem_start(item->owner);
        break;
    case RT_MEM_FAULT:
    case RT_MEM_REPAIR:
        rt_mem_fault(item->owner, item->kind == RT_MEM_FAULT);
        break;
    default:
        rt_mem_happen(item);
    }
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
        rt_mem_fail(net, RT_FAILED, "deadlock at %.9g s:%s", net->now, who);
}

static struct rt_mem_node *baton_choose(struct rt_memnet *net, const struct rt_mem_node *after) {
    for (;;) {
        if (atomic_load_explicit(&net->wakes, memory_order_relaxed) && atomic_exchange(&net->wakes, false))
            for (size_t i = 0; i < net->node_count; i++)
                if (net->nodes[i]->state == RT_MEM_WAITING && atomic_load(&net->nodes[i]->woken))
                    rt_mem_rouse(net->nodes[i]);
        size_t ended = 0;
        for (size_t k = 1, i = after->slot; k <= net->node_count; k++) {
            i = i + 1 < net->node_count ? i + 1 : 0;
            if (net->nodes[i]->state == RT_MEM_READY)
                return net->nodes[i];
            ended += net->nodes[i]->state == RT_MEM_ENDED || net->nodes[i]->state == RT_MEM_UNBORN;
        }
        if (ended == net->node_count)
            return NULL;
        baton_advance(net);
    }
}

/* Passes the baton on, and unless the program has ended returns with it. */
static void baton_pass(struct rt_mem_node *node) {
    struct rt_memnet *net = node->net;
    bool ended = node->state == RT_MEM_ENDED;
    struct rt_mem_node *next = baton_choose(net, node);
    net->running = next;
    if (next)
        next->state = RT_MEM_RUNNING;
    if (next == node)
        return;
    sem_post(next ? &next->turn : &net->done);
    while (!ended && sem_wait(&node->turn) != 0) {
        /* a signal came: go on waiting */
    }
}

/* Lets the others run until this node is ready again, at the given time or, if it waits for events, at an
 * event. */
static void baton_rest(struct rt_mem_node *node, double until, enum rt_mem_node_state state) {
    struct rt_memnet *net = node->net;
    if (net->running != node)
        return; /* outside a run there are no others */
    if (until > net->now) {
        node->state = state;
        if (until < INFINITY)
            rt_mem_agenda_add(&net->agenda, &node->timer, until);
    } else {
        node->state = RT_MEM_READY;
    }
    baton_pass(node);
    rt_mem_agenda_remove(&net->agenda, &node->timer);
}

/* A program that is to hang, or is stopped, does so in any call of the network. */
static void baton_hang(struct rt_mem_node *node) {
    struct rt_memnet *net = node->net;
    while (!node->over && net->running == node) {
        if (node->paused) {
            baton_catch_up(net);
            if (!node->paused)
                continue;
            baton_rest(node, node->thaw.at, RT_MEM_SLEEPING);
            continue;
        }
        if (net->now < node->freezes || net->now >= node->thaws)
            break;
        baton_rest(node, node->thaws, RT_MEM_SLEEPING);
        node->freezes += node->freezes_every;
        node->thaws += node->freezes_every;
    }
}

/* A node that has ended does not wait: its own time advances instead. */
static void baton_skip(struct rt_mem_node *node, double until) {
    if (node->over && until < INFINITY && until > node->ahead)
        node->ahead = until;
}

bool rt_mem_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    baton_hang(node);
    if (rt_mem_take(node, event))
        return true;
    if (!node->over) {
        baton_catch_up(node->net);
        if (rt_mem_take(node, event))
            return true;
        baton_rest(node, until, RT_MEM_WAITING);
        baton_hang(node);
        if (rt_mem_take(node, event))
            return true;
    }
    baton_skip(node, until);
    return false;
}

void rt_mem_sleep(struct rt_endpoint *endpoint, double until) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    if (!node->over)
        baton_rest(node, until, RT_MEM_SLEEPING);
    baton_hang(node);
    baton_skip(node, until);
}

void rt_mem_wake(struct rt_endpoint *endpoint) {
    struct rt_mem_node *node = (struct rt_mem_node *)endpoint;
    atomic_store(&node->woken, true);
    atomic_store(&node->net->wakes, true);
}

double rt_mem_now(struct rt_endpoint *endpoint) {
    const struct rt_mem_node *node = (const struct rt_mem_node *)endpoint;
    return node->over ? node->ahead : node->net->now;
}

/* Computing takes no virtual time. Each look at the processor's clock finds it a microsecond further, so that
 * what is measured by it is the same in every run, and not nothing. */
static double baton_cpu_clock(void *self) {
    struct rt_mem_node *node = self;
    return node->computed += 1e-6;
}

static double baton_wall_clock(void *self) {
    return rt_mem_now(self);
}

static void *baton_run_program(void *argument) {
    struct rt_mem_node *node = argument;
    struct rt_memnet *net = node->net;
    const struct rt_clock_source clocks = {.wall = baton_wall_clock, .cpu = baton_cpu_clock, .self = node};
    fenv_t theirs;
    rt_fp_enter(&theirs);
    rt_clock_follow(&clocks);
    while (sem_wait(&node->turn) != 0) {
        /* a signal came: go on waiting */
    }
    if (net->program && !node->again)
        net->program(net->user, node->index, &node->endpoint);
    else if (net->program)
        (net->again ? net->again : net->program)(net->again ? net->again_user : net->user, node->index,
                                                 &node->endpoint);
    node->state = RT_MEM_ENDED;
    rt_clock_follow(NULL);
    baton_pass(node);
    return NULL;
}

bool rt_mem_start_thread(struct rt_mem_node *node) {
    node->threaded = pthread_create(&node->thread, NULL, baton_run_program, node) == 0;
    return node->threaded;
}

rt_status rt_memnet_run(struct rt_memnet *net, rt_memnet_program program, void *user, double limit,
                        struct rt_error *err) {
    rt_status status = RT_OK;
    struct rt_mem_node *first = NULL;
    if (net->failed)
        return rt_fail(err, RT_FAILED, "the network has failed before: %s", net->error.text);
    net->program = program;
    net->user = user;
    net->limit = limit;
    for (size_t i = 0; i < net->node_count; i++)
        if (net->hosts[net->nodes[i]->index] != net->nodes[i])
            net->nodes[i]->state = RT_MEM_ENDED; /* of a run before */
    for (size_t i = 0; i < net->count && status == RT_OK; i++) {
        struct rt_mem_node *node = net->hosts[i];
        if (node->state == RT_MEM_UNBORN)
            continue;
        if (rt_mem_start_thread(node))
            first = first ? first : node;
        else
            status = rt_fail(err, RT_NO_MEMORY, "no thread for endpoint mem:%zu", i);
    }
    if (status != RT_OK)
        net->program = NULL; /* those that were started only return */
    for (size_t i = 0; i < net->count; i++)
        if (net->hosts[i]->state == RT_MEM_IDLE)
            net->hosts[i]->state = net->hosts[i]->threaded ? RT_MEM_READY : RT_MEM_ENDED;
    if (first) {
        net->running = first;
        net->running->state = RT_MEM_RUNNING;
        sem_post(&net->running->turn);
        while (sem_wait(&net->done) != 0) {
            /* a signal came: go on waiting */
        }
    }
    for (size_t i = 0; i < net->node_count; i++) {
        struct rt_mem_node *node = net->nodes[i];
        if (node->threaded)
            pthread_join(node->thread, NULL);
        node->threaded = false;
        if (node->state != RT_MEM_UNBORN)
            node->state = RT_MEM_IDLE;
    }
    if (status == RT_OK && net->failed)
        status = rt_fail(err, net->error.status, "%s", net->error.text);
    return status;
}
