/* Names to addresses; see tcp_resolve.h. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include "net/tcp_resolve.h"

#include "base/clock.h"
#include "base/memory.h"
#include "net/tcp_parts.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

rt_status rt_address_parse(const char *address, char host[RT_HOST_ROOM], unsigned *port,
                           struct rt_error *err) {
    const char *start = address, *end, *colon = strrchr(address, ':');
    if (*address == '[') {
        start = address + 1;
        end = strchr(address, ']');
        if (!end || colon != end + 1)
            colon = NULL;
    } else {
        end = colon;
    }
    if (!colon || end == start || (*address != '[' && memchr(start, ':', (size_t)(end - start))))
        return rt_fail(err, RT_BAD_INPUT, "%.200s: is not an address; write HOST:PORT", address);
    size_t length = (size_t)(end - start);
    if (length >= RT_HOST_ROOM)
        return rt_fail(err, RT_BAD_INPUT, "%.60s...: the host name is too long", address);
    unsigned long number = 0;
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits > 0 && digits < 6 && colon[1 + digits] == 0)
        number = strtoul(colon + 1, NULL, 10);
    else
        number = 65536;
    if (number > 65535)
        return rt_fail(err, RT_BAD_INPUT, "%.200s: the port must be a number from 0 to 65535", address);
    memcpy(host, start, length);
    host[length] = 0;
    *port = (unsigned)number;
    return RT_OK;
}

void rt_address_print(const struct sockaddr *address, socklen_t bytes, char *text, size_t room) {
    char host[INET6_ADDRSTRLEN + 20], port[8];
    if (getnameinfo(address, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) !=
        0)
        snprintf(text, room, "an unknown address");
    else
        snprintf(text, room, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

bool rt_address_is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

struct rt_resolve {
    char host[RT_HOST_ROOM], port[8];
    bool to_listen;
    int wake_fd; /* a duplicate, so that it stays open however long this takes; -1: none */

    pthread_mutex_t mutex;
    pthread_cond_t answered;
    int users; /* the owner of the request, and the thread */
    bool done;
    int status, error; /* of getaddrinfo; errno, where it says so */
    struct addrinfo *addresses;
};

static void resolve_look_up(struct rt_resolve *resolve, int flags) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | flags | (resolve->to_listen ? AI_PASSIVE : 0)};
    struct addrinfo *addresses = NULL;
    int status = getaddrinfo(resolve->host, resolve->port, &hints, &addresses), error = errno;
    pthread_mutex_lock(&resolve->mutex);
    resolve->status = status;
    resolve->error = error;
    resolve->addresses = addresses;
    resolve->done = status == 0 || !(flags & AI_NUMERICHOST);
    pthread_cond_signal(&resolve->answered);
    pthread_mutex_unlock(&resolve->mutex);
}

static void *resolve_main(void *argument) {
    struct rt_resolve *resolve = argument;
    resolve_look_up(resolve, 0);
    if (resolve->wake_fd >= 0) {
        ssize_t written = write(resolve->wake_fd, "", 1); /* a pipe that is full wakes as well */
        (void)written;
    }
    rt_resolve_release(resolve);
    return NULL;
}

rt_status rt_resolve_start(const char *host, unsigned port, bool to_listen, int wake_fd,
                           struct rt_resolve **out, struct rt_error *err) {
    struct rt_resolve *resolve;
    rt_status status = rt_alloc(1, sizeof *resolve, "looking up a name", &resolve, err);
    if (status != RT_OK)
        return status;
    snprintf(resolve->host, sizeof resolve->host, "%s", host);
    snprintf(resolve->port, sizeof resolve->port, "%u", port & 0xffff);
    resolve->to_listen = to_listen;
    resolve->wake_fd = -1;
    resolve->users = 1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&resolve->mutex, NULL);
    pthread_cond_init(&resolve->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);

    resolve_look_up(resolve, AI_NUMERICHOST); /* needs no network */
    if (!resolve->done) {
        pthread_t thread;
        resolve->wake_fd = wake_fd < 0 ? -1 : fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
        resolve->users = 2;
        int failed = wake_fd >= 0 && resolve->wake_fd < 0
                         ? errno
                         : rt_tcp_start_thread(&thread, true, resolve_main, resolve);
        if (failed) {
            resolve->users = 1;
            rt_resolve_release(resolve);
            return rt_fail(err, RT_IO, "%s cannot be looked up: %s", host, strerror(failed));
        }
    }
    *out = resolve;
    return RT_OK;
}

bool rt_resolve_done(struct rt_resolve *resolve, double until) {
    struct timespec end = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    pthread_mutex_lock(&resolve->mutex);
    int timed_out = until <= 0;
    while (!resolve->done && !timed_out)
        timed_out = pthread_cond_timedwait(&resolve->answered, &resolve->mutex, &end);
    bool done = resolve->done;
    pthread_mutex_unlock(&resolve->mutex);
    return done;
}

rt_status rt_resolve_result(struct rt_resolve *resolve, const struct addrinfo **addresses,
                            struct rt_error *err) {
    pthread_mutex_lock(&resolve->mutex);
    int status = resolve->status, error = resolve->error;
    bool done = resolve->done;
    *addresses = resolve->addresses;
    pthread_mutex_unlock(&resolve->mutex);
    if (!done)
        return rt_fail(err, RT_IO, "%s does not resolve: no answer", resolve->host);
    if (status != 0)
        return rt_fail(err, RT_BAD_INPUT, "%s does not resolve: %s", resolve->host,
                       status == EAI_SYSTEM ? strerror(error) : gai_strerror(status));
    return RT_OK;
}

void rt_resolve_release(struct rt_resolve *resolve) {
    if (!resolve)
        return;
    pthread_mutex_lock(&resolve->mutex);
    bool last = --resolve->users == 0;
    pthread_mutex_unlock(&resolve->mutex);
    if (!last)
        return;
    if (resolve->addresses)
        freeaddrinfo(resolve->addresses);
    if (resolve->wake_fd >= 0)
        close(resolve->wake_fd);
    pthread_cond_destroy(&resolve->answered);
    pthread_mutex_destroy(&resolve->mutex);
    free(resolve);
}
