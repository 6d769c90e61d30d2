/* The endpoint over TCP: the part that runs on its owner's thread. See tcp_parts.h for the threads'
 * shares. */
#define _GNU_SOURCE /* pipe2 */
#include "net/tcp.h"

#include "base/clock.h"
#include "base/memory.h"
#include "net/tcp_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void tcp_post_send(struct rt_link *base, struct rt_send *send) {
    struct rt_tcp_link *link = (struct rt_tcp_link *)base;
    struct rt_tcp *tcp = (struct rt_tcp *)base->endpoint;
    size_t room = RT_MAX_BODY;
    bool fits = send->channel < RT_CHANNELS && send->head_bytes <= RT_HEAD_ROOM;
    for (int i = 0; i < RT_PIECES && fits; i++) {
        fits = send->body[i].bytes <= room;
        room -= fits ? send->body[i].bytes : 0;
    }
    pthread_mutex_lock(&tcp->mutex);
    if (!fits)
        link->misuse = "a frame that was to be sent there is too large";
    else if (!link->over)
        rt_send_push(&link->posted_sends, send);
    rt_tcp_order(tcp);
    pthread_mutex_unlock(&tcp->mutex);
}

static void tcp_post_receive(struct rt_link *base, struct rt_receive *receive) {
    struct rt_tcp_link *link = (struct rt_tcp_link *)base;
    struct rt_tcp *tcp = (struct rt_tcp *)base->endpoint;
    pthread_mutex_lock(&tcp->mutex);
    if (receive->channel >= RT_CHANNELS)
        link->misuse = "a receive was posted on a channel that does not exist";
    else if (!link->over)
        rt_receive_push(&link->posted_receives, receive);
    rt_tcp_order(tcp);
    pthread_mutex_unlock(&tcp->mutex);
}

static void tcp_close_link(struct rt_link *base) {
    struct rt_tcp_link *link = (struct rt_tcp_link *)base;
    struct rt_tcp *tcp = (struct rt_tcp *)base->endpoint;
    pthread_mutex_lock(&tcp->mutex);
    link->asked_to_close = true;
    rt_tcp_order(tcp);
    while (!link->gone) {
        if (!tcp->attended) {
            pthread_cond_wait(&tcp->changed, &tcp->mutex);
            continue;
        }
        pthread_mutex_unlock(&tcp->mutex);
        rt_tcp_round_by_owner(tcp, 0);
        pthread_mutex_lock(&tcp->mutex);
    }
    pthread_mutex_unlock(&tcp->mutex);
    free(link);
}

static void tcp_wake(struct rt_endpoint *endpoint) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    pthread_mutex_lock(&tcp->mutex);
    tcp->woken = true;
    if (tcp->attended)
        rt_tcp_order(tcp);
    else
        pthread_cond_signal(&tcp->changed);
    pthread_mutex_unlock(&tcp->mutex);
}

static void tcp_attend(struct rt_endpoint *endpoint, bool attends) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    pthread_mutex_lock(&tcp->mutex);
    tcp->attended = attends;
    if (attends)
        rt_tcp_order(tcp);
    else
        pthread_cond_signal(&tcp->resumed);
    while (tcp->parked != attends)
        pthread_cond_wait(&tcp->changed, &tcp->mutex);
    tcp->owner_cpu = rt_clock_thread();
    tcp->owner_cpu_at = rt_clock_boot();
    pthread_mutex_unlock(&tcp->mutex);
}

static double tcp_now(struct rt_endpoint *endpoint) {
    (void)endpoint;
    return rt_clock_wall();
}

static void tcp_sleep_until(struct rt_endpoint *endpoint, double until) {
    (void)endpoint;
    struct timespec end = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    while (until > rt_clock_wall() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
    }
}

/* Releases everything but the thread. */
static void tcp_release(struct rt_tcp *tcp) {
    while (tcp->new_links) { /* the thread ended before it took them */
        struct rt_tcp_link *link = tcp->new_links;
        tcp->new_links = link->next;
        rt_resolve_release(link->resolve);
        free(link);
    }
    while (tcp->links) {
        struct rt_tcp_link *link = tcp->links;
        tcp->links = link->next;
        free(link);
    }
    if (tcp->new_listener >= 0)
        close(tcp->new_listener);
    for (int i = 0; i < 2; i++)
        if (tcp->wake[i] >= 0)
            close(tcp->wake[i]);
    pthread_cond_destroy(&tcp->changed);
    pthread_cond_destroy(&tcp->resumed);
    pthread_mutex_destroy(&tcp->mutex);
    rt_tls_destroy(tcp->tls);
    free(tcp->polled);
    free(tcp->polled_whose);
    free(tcp);
}

static void tcp_destroy(struct rt_endpoint *endpoint) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    pthread_mutex_lock(&tcp->mutex);
    tcp->stop = true;
    rt_tcp_order(tcp);
    pthread_cond_signal(&tcp->resumed);
    pthread_mutex_unlock(&tcp->mutex);
    pthread_join(tcp->thread, NULL);
    tcp_release(tcp);
}

static const struct rt_transport transport = {
    .name = "tcp",
    .destroy = tcp_destroy,
    .listen = rt_tcp_listen,
    .connect = rt_tcp_connect,
    .close = tcp_close_link,
    .send = tcp_post_send,
    .receive = tcp_post_receive,
    .wait = rt_tcp_wait,
    .wake = tcp_wake,
    .attend = tcp_attend,
    .now = tcp_now,
    .sleep = tcp_sleep_until,
    .heartbeat = rt_tcp_heartbeat,
};

static rt_status tcp_start(struct rt_tcp *tcp, const struct rt_tcp_settings *settings, struct rt_error *err) {
    rt_status status = rt_tls_create(settings, &tcp->tls, err);
    if (status == RT_OK)
        status = rt_tcp_reserve(tcp, err);
    if (status != RT_OK)
        return status;
    if (pipe2(tcp->wake, O_NONBLOCK | O_CLOEXEC) != 0)
        return rt_fail(err, RT_IO, "cannot make a pipe: %s", strerror(errno));
    int error = rt_tcp_start_thread(&tcp->thread, false, rt_tcp_thread, tcp);
    if (error)
        return rt_fail(err, RT_IO, "cannot start the network thread: %s", strerror(error));
    return RT_OK;
}

rt_status rt_tcp_create(const struct rt_tcp_settings *settings, struct rt_endpoint **endpoint,
                        struct rt_error *err) {
    struct rt_tcp *tcp;
    rt_status status = rt_alloc(1, sizeof *tcp, "an endpoint", &tcp, err);
    if (status != RT_OK)
        return status;
    tcp->base.transport = &transport;
    tcp->made =
        rt_silence_terms(settings->silence_seconds, settings->silence_least, settings->heartbeat_seconds);
    tcp->silence = tcp->made;
    tcp->shortest_bound = tcp->silence.most;
    tcp->max_links = settings->max_links ? settings->max_links : 256;
    tcp->insecure = settings->insecure;
    tcp->own_user = settings->own_user;
    tcp->shape.bandwidth = settings->bandwidth;
    tcp->shape.latency = settings->latency;
    tcp->cma = rt_tcp_is_shaped(tcp) ? RT_LENDS_NOTHING : settings->cma;
    tcp->listener = tcp->new_listener = tcp->wake[0] = tcp->wake[1] = -1;
    tcp->next_beat = rt_clock_wall();
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&tcp->mutex, NULL);
    pthread_cond_init(&tcp->changed, &monotonic);
    pthread_cond_init(&tcp->resumed, NULL);
    pthread_condattr_destroy(&monotonic);
    status = tcp_start(tcp, settings, err);
    if (status != RT_OK) {
        tcp_release(tcp);
        return status;
    }
    *endpoint = &tcp->base;
    return RT_OK;
}
