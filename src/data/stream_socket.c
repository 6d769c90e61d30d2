/*
 * Streams over TCP: a connection made to a sender, or one accepted from it. The bytes are the records and
 * nothing else, unencrypted, so that any program can send them; so access is restricted to loopback by
 * default.
 */
#define _GNU_SOURCE /* accept4 */
#include "data/stream_inlet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECT_MILLISECONDS = 10000, HOST_ROOM = 256 };

/* Splits "HOST:PORT" or "[::1]:PORT"; false when the address has neither form. */
static bool stream_socket_cut_address(const char *address, char host[HOST_ROOM], char port[8]) {
    const char *colon = strrchr(address, ':'), *start = address, *end = colon;
    if (!colon)
        return false;
    if (*address == '[' && colon[-1] == ']') {
        start++;
        end--;
    }
    size_t length = end > start ? (size_t)(end - start) : 0, digits = strspn(colon + 1, "0123456789");
    bool many_colons = start == address && memchr(start, ':', length);
    if (length == 0 || length >= HOST_ROOM || many_colons || digits == 0 || digits > 5 || colon[1 + digits] ||
        strtoul(colon + 1, NULL, 10) > 65535)
        return false;
    memcpy(host, start, length);
    host[length] = 0;
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

static rt_status stream_socket_resolve(const struct rt_tree *where, const char *address, bool to_listen,
                                       struct addrinfo **found, struct rt_error *err) {
    char host[HOST_ROOM], port[8];
    if (!stream_socket_cut_address(address, host, port))
        return rt_tree_fail(where, err,
                            "'%.200s' is not an address; write HOST:PORT, with a port up to 65535", address);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0)};
    int result = getaddrinfo(host, port, &hints, found);
    if (result != 0)
        return rt_tree_fail(where, err, "%s does not resolve: %s", host,
                            result == EAI_SYSTEM ? strerror(errno) : gai_strerror(result));
    return RT_OK;
}

static int stream_socket_open_socket(const struct addrinfo *at) {
    return socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
}

/* 0, or the error of the connection. */
static int stream_socket_await_connection(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int result, error = 0;
    socklen_t bytes = sizeof error;
    do
        result = poll(&ready, 1, CONNECT_MILLISECONDS);
    while (result < 0 && errno == EINTR);
    if (result == 0)
        return ETIMEDOUT;
    if (result < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        return errno;
    return error;
}

/* Detects, after some hours by default, a sender that vanished without closing the connection. */
static void stream_socket_keep_alive(int fd) {
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

rt_status rt_inlet_connect(struct rt_inlet *inlet, const struct rt_tree *where, const char *address,
                           struct rt_error *err) {
    struct addrinfo *found;
    rt_status status = stream_socket_resolve(where, address, false, &found, err);
    if (status != RT_OK)
        return status;
    int error = 0;
    for (const struct addrinfo *at = found; at && inlet->fd < 0; at = at->ai_next) {
        int fd = stream_socket_open_socket(at);
        error = fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) != 0 ? errno : 0;
        if (error == EINPROGRESS)
            error = stream_socket_await_connection(fd);
        if (error == 0)
            inlet->fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    if (inlet->fd < 0)
        return rt_tree_fail(where, err, "%s: cannot connect: %s", address, strerror(error));
    stream_socket_keep_alive(inlet->fd);
    return RT_OK;
}

static bool stream_socket_is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

static rt_status stream_socket_listen_at(struct rt_inlet *inlet, const struct rt_tree *where,
                                         const char *address, const struct addrinfo *at,
                                         struct rt_error *err) {
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char host[INET6_ADDRSTRLEN + 20], port[8];
    int fd = stream_socket_open_socket(at), on = 1;
    if (fd < 0)
        return rt_tree_fail(where, err, "cannot listen on %s: %s", address, strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait */
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        int error = errno;
        close(fd);
        return error == EADDRINUSE
                   ? rt_tree_fail(where, err, "cannot listen on %s: address already in use", address)
                   : rt_tree_fail(where, err, "cannot listen on %s: %s", address, strerror(error));
    }
    snprintf(inlet->address, sizeof inlet->address, at->ai_family == AF_INET6 ? "[%.50s]:%s" : "%.50s:%s",
             host, port);
    inlet->listener = fd;
    return RT_OK;
}

rt_status rt_inlet_listen(struct rt_inlet *inlet, const struct rt_tree *where, const char *address,
                          bool insecure, struct rt_error *err) {
    struct addrinfo *found;
    rt_status status = stream_socket_resolve(where, address, true, &found, err);
    if (status != RT_OK)
        return status;
    if (!insecure && !stream_socket_is_loopback(found->ai_addr))
        status = rt_tree_fail(where, err,
                              "%s: anyone who can reach this address could send examples; set `insecure: "
                              "true` in the stream to allow that",
                              address);
    else
        status = stream_socket_listen_at(inlet, where, address, found, err);
    freeaddrinfo(found);
    return status;
}

rt_status rt_inlet_accept(struct rt_inlet *inlet, struct rt_error *err) {
    int fd = accept4(inlet->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return RT_OK; /* the sender has gone already: the next may come */
    if (fd < 0)
        return rt_fail(err, RT_IO, "%s: cannot accept a sender: %s", inlet->name, strerror(errno));
    stream_socket_keep_alive(fd);
    inlet->fd = fd;
    close(inlet->listener);
    inlet->listener = -1;
    return RT_OK;
}
