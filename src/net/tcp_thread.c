/*
 * The network thread: takes the owner's orders, writes what can be written, sleeps in poll() until a socket
 * is ready, the owner has a new order, or a deadline comes; then handles it. It waits only there, and
 * allocates nothing while links only carry frames.
 */
#define _GNU_SOURCE /* ppoll */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include "base/cores.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOODBYE_SECONDS 0.3 /* when the endpoint goes: for peers to take what was sent last */

int rt_tcp_start_thread(pthread_t *thread, bool detached, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, &attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

void rt_tcp_order(struct rt_tcp *tcp) {
    tcp->orders = true;
    if (!tcp->asleep)
        return; /* it looks before it sleeps */
    tcp->asleep = false;
    ssize_t written = write(tcp->wake[1], "", 1); /* a pipe that is full wakes as well */
    (void)written;
}

rt_status rt_tcp_reserve(struct rt_tcp *tcp, struct rt_error *err) {
    size_t need = tcp->connection_count + 3; /* the new one, the pipe and the listener */
    if (need <= tcp->poll_room)
        return RT_OK;
    size_t room = need * 2;
    struct pollfd *polled = realloc(tcp->polled, room * sizeof *polled);
    if (polled)
        tcp->polled = polled;
    struct rt_tcp_polled *whose = realloc(tcp->polled_whose, room * sizeof *whose);
    if (whose)
        tcp->polled_whose = whose;
    if (!polled || !whose)
        return rt_fail(err, RT_NO_MEMORY, "not enough memory for %zu connections", room);
    tcp->poll_room = room;
    return RT_OK;
}

/* ---- orders ---- */

/* Forgets links that the owner has closed, and wakes the owner, which waits for that. The owner does not know
 * of a link that was pushed out. */
static void tcp_forget_closed(struct rt_tcp *tcp) {
    for (struct rt_tcp_link **at = &tcp->links; *at;) {
        struct rt_tcp_link *link = *at;
        if (!link->closing && !link->pushed_out) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        tcp->link_count--;
        rt_tcp_link_end(link);
        if (link->pushed_out) {
            free(link);
            continue;
        }
        pthread_mutex_lock(&tcp->mutex);
        rt_tcp_untell(link);
        link->gone = true;
        pthread_cond_signal(&tcp->changed);
        pthread_mutex_unlock(&tcp->mutex);
    }
}

/* false: stop. */
static bool tcp_take_orders(struct rt_tcp *tcp) {
    bool closing = false;
    pthread_mutex_lock(&tcp->mutex);
    tcp->orders = tcp->asleep = false;
    while (tcp->new_links) {
        struct rt_tcp_link *link = tcp->new_links;
        tcp->new_links = link->next;
        link->next = tcp->links;
        tcp->links = link;
        tcp->link_count++;
    }
    if (tcp->new_listener >= 0) {
        tcp->listener = tcp->new_listener;
        tcp->new_listener = -1;
    }
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next) {
        if (link->state != RT_LINK_DEAD)
            rt_tcp_link_take_posts(link);
        link->closing = link->asked_to_close;
        closing |= link->closing || link->pushed_out;
        link->wrong = link->misuse;
    }
    bool stop = tcp->stop;
    pthread_mutex_unlock(&tcp->mutex);
    if (closing)
        tcp_forget_closed(tcp);
    return !stop;
}

/* ---- time ---- */

/* What the owner wants by now. */
static void tcp_take_silence(struct rt_tcp *tcp) {
    const uint64_t wanted = atomic_load(&tcp->base.silence);
    const double most = (double)(wanted >> 32) * 1e-3, least = (double)(wanted & UINT32_MAX) * 1e-3;
    tcp->silence = wanted ? rt_silence_terms(most, least, tcp->made.heartbeat) : tcp->made;
}

static void tcp_beat(struct rt_tcp *tcp, double now) {
    if (now < tcp->next_beat)
        return;
    tcp_take_silence(tcp);
    /* If this program itself did not run (stopped, or the machine was overloaded), silence proves nothing,
     * nor do earlier measurements: the peers get another chance to be heard. */
    const double late = now - tcp->next_beat;
    const bool stalled = tcp->stalled || late > tcp->silence.most / 2;
    tcp->stalled = false;
    tcp->lateness = fmax(late, rt_silence_fade(tcp->lateness, tcp->silence.heartbeat + late));
    tcp->next_beat = now + tcp->silence.heartbeat;
    tcp->shortest_bound = tcp->silence.most;
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next) {
        if (stalled) {
            link->heard = fmax(link->heard, now - tcp->silence.most / 2);
            link->silence = (struct rt_silence){0};
            link->timing = false;
        }
        link->ping_due = link->state == RT_LINK_UP;
        rt_tcp_link_check(link, now);
        if (link->state == RT_LINK_UP)
            tcp->shortest_bound = fmin(tcp->shortest_bound, rt_silence_bound(&link->silence, &tcp->silence));
    }
}

/* Seconds between two looks at many connections that are ending: a peer that does not close its side must not
 * slow down every round. */
static const double linger_pause = 0.02;

/* A peer is given up when its time is over, not at the next heartbeat; but if this program itself did not
 * run, the next heartbeat gives it another chance first. Returns when to look again: at once if the sockets
 * have not been looked at since. */
static double tcp_keep_silence(const struct rt_tcp *tcp, struct rt_tcp_link *link, double now) {
    const double due = link->heard + rt_silence_bound(&link->silence, &tcp->silence);
    if (tcp->stalled)
        return tcp->next_beat;
    if (now > due)
        rt_tcp_link_check(link, now);
    return link->state == RT_LINK_UP ? fmin(tcp->next_beat, due) : tcp->next_beat;
}

/* Does what is due, and returns the next deadline. */
static double tcp_keep_time(struct rt_tcp *tcp, double now) {
    tcp_beat(tcp, now);
    double next = rt_tcp_accept_check(tcp, now);
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next) {
        if (link->wrong && link->state != RT_LINK_DEAD) {
            struct rt_error err;
            rt_fail(&err, RT_FAILED, "%s", link->wrong);
            rt_tcp_link_fail(link, &err);
        }
        if (link->state < RT_LINK_UP)
            next = fmin(next, rt_tcp_connect_step(link, now));
        else if (link->state == RT_LINK_ENDING)
            next = fmin(next, link->ending_until);
        if (link->state == RT_LINK_ENDING)
            rt_tcp_link_check(link, now);
        if (link->state == RT_LINK_UP)
            next = fmin(next, tcp_keep_silence(tcp, link, now));
        next = fmin(next, rt_shape_release(link, now));
    }
    for (struct rt_connection *connection = tcp->lingering, *after; connection; connection = after) {
        after = connection->next;
        next = fmin(next, connection->deadline);
        if (now >= connection->deadline)
            rt_connection_linger(connection, now);
    }
    if (tcp->lingering_count > RT_FEW_LINGERING)
        next = fmin(next, now < tcp->linger_look ? tcp->linger_look : now + linger_pause);
    if (tcp->listener >= 0 && now < tcp->listen_again)
        next = fmin(next, tcp->listen_again);
    return next;
}

/* ---- poll ---- */

static short tcp_poll_events(const struct rt_connection *connection) {
    bool write = connection->out.blocked || connection->stream.wants_write;
    switch (connection->state) {
    case RT_CONNECTION_CONNECTING:
        return POLLOUT;
    case RT_CONNECTION_SECURING:
    case RT_CONNECTION_GREETING:
        return write ? POLLOUT : POLLIN;
    case RT_CONNECTION_OPEN:
        return (short)(POLLIN | (write ? POLLOUT : 0));
    case RT_CONNECTION_LINGERING:
        return POLLIN;
    default:
        return 0;
    }
}

static size_t tcp_list_connection(struct rt_tcp *tcp, size_t count, struct rt_connection *connection) {
    tcp->polled[count] = (struct pollfd){.fd = connection->stream.fd, .events = tcp_poll_events(connection)};
    tcp->polled_whose[count].connection = connection;
    return count + 1;
}

/* The pipe, the listener, then the connections. again: some can go on at once. */
static size_t tcp_list_all(struct rt_tcp *tcp, double now, bool *again) {
    size_t count = 2;
    tcp->polled[0] = (struct pollfd){.fd = tcp->wake[0], .events = POLLIN};
    tcp->polled[1] = (struct pollfd){.fd = now < tcp->listen_again ? -1 : tcp->listener, .events = POLLIN};
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next)
        for (enum rt_lane lane = 0; lane < RT_LANES; lane++) {
            struct rt_connection *connection = link->lanes[lane];
            if (!connection || connection->ended)
                continue;
            count = tcp_list_connection(tcp, count, connection);
            *again |=
                connection->in.more || (link->state == RT_LINK_UP && rt_tcp_link_has_output(link, lane) &&
                                        !rt_shape_is_shut(tcp, lane, now));
        }
    for (struct rt_connection *connection = tcp->half_open; connection; connection = connection->next)
        count = tcp_list_connection(tcp, count, connection);
    if (tcp->lingering_count > RT_FEW_LINGERING && now < tcp->linger_look)
        return count;
    tcp->linger_look = now + linger_pause;
    for (struct rt_connection *connection = tcp->lingering; connection; connection = connection->next)
        count = tcp_list_connection(tcp, count, connection);
    return count;
}

static void tcp_serve_connection(struct rt_connection *connection, short happened, double now) {
    struct rt_tcp_link *link = connection->link;
    if (connection->state == RT_CONNECTION_DEAD || (!happened && !connection->in.more))
        return; /* ended by what was served before it in this round, or nothing to do */
    if (happened & (POLLOUT | POLLERR | POLLHUP))
        connection->out.blocked = connection->stream.wants_write = false;
    if (connection->state == RT_CONNECTION_LINGERING) {
        rt_connection_linger(connection, now);
    } else if (!link) {
        rt_tcp_accept_serve(connection);
    } else if (connection->state != RT_CONNECTION_OPEN) {
        rt_tcp_connect_serve(connection);
    } else if (!connection->ended) {
        rt_tcp_link_read(link, connection->lane);
    }
}

static void tcp_wait_and_serve(struct rt_tcp *tcp, double now, double next) {
    bool again = false;
    size_t count = tcp_list_all(tcp, now, &again);
    double wait = again ? 0 : fmin(fmax(next - now, 0), 60);
    pthread_mutex_lock(&tcp->mutex);
    /* An attending owner takes its events before it sleeps. */
    bool told = tcp->attended && (tcp->first_ready || tcp->woken || tcp->refusal_count > 0);
    tcp->asleep = !tcp->orders && !told && wait > 0;
    wait = tcp->asleep ? wait : 0;
    pthread_mutex_unlock(&tcp->mutex);
    tcp->awake_by = rt_clock_boot() + wait;
    const struct timespec most = {(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
    int happened = ppoll(tcp->polled, count, &most, NULL);
    rt_tcp_look_for_stall(tcp);
    if (wait > 0) { /* from here on there is no need to wake it */
        pthread_mutex_lock(&tcp->mutex);
        tcp->asleep = false;
        pthread_mutex_unlock(&tcp->mutex);
    }
    if (happened < 0)
        for (size_t i = 0; i < count; i++)
            tcp->polled[i].revents = 0;
    if (tcp->polled[0].revents) {
        char bytes[64];
        while (read(tcp->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
        }
    }
    now = tcp->served = rt_clock_wall();
    for (size_t i = 2; i < count; i++)
        tcp_serve_connection(tcp->polled_whose[i].connection, tcp->polled[i].revents, now);
    if (tcp->polled[1].revents)
        rt_tcp_accept(tcp, now);
    rt_connection_bury(tcp);
}

/* Ends everything; the last bytes sent get a moment to arrive. */
static void tcp_end_all(struct rt_tcp *tcp) {
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next)
        rt_tcp_link_end(link);
    while (tcp->half_open) {
        struct rt_connection *connection = tcp->half_open;
        tcp->half_open = connection->next;
        rt_connection_end(connection);
    }
    if (tcp->listener >= 0)
        close(tcp->listener);
    tcp->listener = -1;
    rt_connection_bury(tcp);
    double until = rt_clock_wall() + GOODBYE_SECONDS, now;
    while (tcp->lingering && (now = rt_clock_wall()) < until)
        tcp_wait_and_serve(tcp, now, until);
    while (tcp->lingering) {
        struct rt_connection *connection = tcp->lingering;
        tcp->lingering = connection->next;
        rt_connection_kill(connection);
    }
    rt_connection_bury(tcp);
}

bool rt_tcp_round(struct rt_tcp *tcp, double until) {
    if (!tcp_take_orders(tcp))
        return false;
    double now = rt_clock_wall(), next = tcp_keep_time(tcp, now);
    rt_shape_write_links(tcp);
    rt_connection_bury(tcp);
    tcp_wait_and_serve(tcp, now, fmin(fmin(next, until), rt_shape_next_write(tcp, now)));
    return true;
}

/* While the owner attends to the network, this thread only waits. */
static void tcp_stand_aside(struct rt_tcp *tcp) {
    pthread_mutex_lock(&tcp->mutex);
    while (tcp->attended && !tcp->stop) {
        tcp->parked = true;
        pthread_cond_signal(&tcp->changed);
        pthread_cond_wait(&tcp->resumed, &tcp->mutex);
    }
    if (tcp->parked) {
        tcp->parked = false;
        pthread_cond_signal(&tcp->changed);
    }
    pthread_mutex_unlock(&tcp->mutex);
}

void *rt_tcp_thread(void *argument) {
    struct rt_tcp *tcp = argument;
    rt_core_turns_short(); /* peers wait for it */
    do {
        tcp_stand_aside(tcp);
    } while (rt_tcp_round(tcp, INFINITY));
    tcp_end_all(tcp);
    return NULL;
}
