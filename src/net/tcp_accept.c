/*
 * Listening. An accepted connection is half open until it has said which link it belongs to; two connections
 * that name the same link form it. The number of half-open connections and their time are limited. When there
 * are too many, the oldest is closed: peers that connect and stay silent cannot keep others out.
 */
#define _GNU_SOURCE /* accept4 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESOLVE_SECONDS 10.0
#define PAUSE_SECONDS   0.1 /* when the system has no room for another connection */
#define CROWD_SECONDS   1.0 /* between two messages about connections refused for the same reason */

static rt_status tcp_fail_listen(const char *address, int error, struct rt_error *err) {
    if (error == EADDRINUSE)
        return rt_fail(err, RT_BAD_INPUT, "cannot listen on %s: address already in use", address);
    if (error == EADDRNOTAVAIL)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not an address of this machine", address);
    return rt_fail(err, RT_BAD_INPUT, "cannot listen on %s: %s", address, strerror(error));
}

static rt_status tcp_open_listener(struct rt_tcp *tcp, const char *address, const struct addrinfo *where,
                                   int *listener, struct rt_error *err) {
    if (!tcp->tls && !tcp->insecure && !rt_address_is_loopback(where->ai_addr))
        return rt_fail(err, RT_BAD_INPUT,
                       "%s: others could connect to this address, and there is no key: make one with "
                       "'ringtmp keygen FILE' and give it to every device with --key FILE, or allow anyone "
                       "to connect to a node with --insecure",
                       address);
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, where->ai_protocol), on = 1;
    if (fd < 0)
        return tcp_fail_listen(address, errno, err);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait */
    if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, RT_HALF_OPEN) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0) {
        int error = errno;
        close(fd);
        return tcp_fail_listen(address, error, err);
    }
    rt_address_print((struct sockaddr *)&bound, bytes, tcp->base.address, sizeof tcp->base.address);
    *listener = fd;
    return RT_OK;
}

rt_status rt_tcp_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    struct rt_resolve *resolve = NULL;
    const struct addrinfo *addresses = NULL;
    char host[RT_HOST_ROOM];
    unsigned port;
    int listener = -1;
    if (endpoint->address[0])
        return rt_fail(err, RT_BAD_INPUT, "%s: already listening at %s", address, endpoint->address);
    rt_status status = rt_address_parse(address, host, &port, err);
    if (status == RT_OK)
        status = rt_resolve_start(host, port, true, -1, &resolve, err);
    if (status != RT_OK)
        return status;
    (void)rt_resolve_done(resolve, rt_clock_wall() + RESOLVE_SECONDS);
    status = rt_resolve_result(resolve, &addresses, err);
    if (status == RT_OK) {
        do
            status = tcp_open_listener(tcp, address, addresses, &listener, err);
        while (status != RT_OK && (addresses = addresses->ai_next));
    }
    rt_resolve_release(resolve);
    if (status != RT_OK)
        return status;
    pthread_mutex_lock(&tcp->mutex);
    tcp->new_listener = listener;
    rt_tcp_order(tcp);
    pthread_mutex_unlock(&tcp->mutex);
    return RT_OK;
}

static void tcp_unlist_half_open(struct rt_connection *connection) {
    struct rt_tcp *tcp = connection->tcp;
    struct rt_connection **at = &tcp->half_open;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    tcp->half_open_count--;
}

/* reason: becomes the whole message. */
static void tcp_drop_half_open(struct rt_connection *connection, struct rt_error *reason) {
    rt_fail_prefix(reason, reason->status, "%s", connection->peer);
    tcp_unlist_half_open(connection);
    rt_connection_end(connection);
}

static void tcp_refuse(struct rt_connection *connection, const struct rt_error *reason) {
    struct rt_error full = *reason;
    tcp_drop_half_open(connection, &full);
    rt_tcp_tell_refused(connection->tcp, &full);
}

/* ---- connections that stay silent, of which there may be very many ---- */

/* Reports them to the owner in one message. Returns when to call again; INFINITY: all are reported. */
static double tcp_report_crowd(struct rt_tcp *tcp, struct rt_tcp_crowd *crowd, double now) {
    if (crowd->untold == 0)
        return INFINITY;
    if (now < crowd->again)
        return crowd->again;
    const size_t used = strlen(crowd->last.text), others = crowd->untold - 1;
    if (others > 0)
        snprintf(crowd->last.text + used, sizeof crowd->last.text - used, "; the same goes for %zu other%s",
                 others, others > 1 ? "s" : "");
    rt_tcp_tell_refused(tcp, &crowd->last);
    crowd->untold = 0;
    crowd->again = now + CROWD_SECONDS;
    return INFINITY;
}

static void tcp_refuse_crowd(struct rt_connection *connection, struct rt_tcp_crowd *crowd, double now,
                             const struct rt_error *reason) {
    crowd->last = *reason;
    tcp_drop_half_open(connection, &crowd->last);
    crowd->untold++;
    (void)tcp_report_crowd(connection->tcp, crowd, now);
}

/* With a key, connections that have not proved that they know it are dropped first. */
static struct rt_connection *tcp_find_oldest(const struct rt_tcp *tcp) {
    struct rt_connection *oldest = tcp->half_open;
    while (tcp->tls && oldest && oldest->state == RT_CONNECTION_GREETED)
        oldest = oldest->next;
    return oldest ? oldest : tcp->half_open;
}

void rt_tcp_accept(struct rt_tcp *tcp, double now) {
    for (int i = 0; i < RT_HALF_OPEN; i++) {
        struct sockaddr_storage from;
        socklen_t bytes = sizeof from;
        struct rt_connection *connection, **end = &tcp->half_open;
        struct rt_error err;
        int fd = accept4(tcp->listener, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                tcp->listen_again = now + PAUSE_SECONDS;
            return;
        }
        if (rt_connection_create(tcp, fd, false, RT_LANE_CONTROL, &connection, &err) != RT_OK)
            return;
        rt_address_print((struct sockaddr *)&from, bytes, connection->peer, sizeof connection->peer);
        connection->deadline = now + tcp->silence.most;
        while (*end)
            end = &(*end)->next;
        *end = connection;
        connection->next = NULL;
        if (++tcp->half_open_count > RT_HALF_OPEN) {
            rt_fail(&err, RT_FAILED, "had not identified itself when too many others connected");
            tcp_refuse_crowd(tcp_find_oldest(tcp), &tcp->pushed_out, now, &err);
        }
    }
}

/* The owner takes no links while it is busy, and silent peers could use up all connections. */
bool rt_tcp_make_room(struct rt_tcp *tcp) {
    struct rt_tcp_link *oldest = NULL;
    if (tcp->link_count < tcp->max_links)
        return true;
    pthread_mutex_lock(&tcp->mutex);
    for (struct rt_tcp_link *link = tcp->links; link; link = link->next) /* the newest is first */
        if (link->tell_open && link->open_kind == RT_EVENT_ACCEPTED && !link->pushed_out)
            oldest = link;
    if (oldest) {
        oldest->pushed_out = true;
        rt_tcp_untell(oldest);
    }
    pthread_mutex_unlock(&tcp->mutex);
    return oldest;
}

static struct rt_connection *tcp_find_partner(const struct rt_connection *connection, bool same_lane) {
    for (struct rt_connection *other = connection->tcp->half_open; other; other = other->next)
        if (other != connection && other->state == RT_CONNECTION_GREETED &&
            (other->lane == connection->lane) == same_lane &&
            memcmp(other->token, connection->token, RT_TOKEN_BYTES) == 0)
            return other;
    return NULL;
}

/* Without a key, with only the process's own user allowed to connect. A connection whose user the system does
 * not tell is refused. */
static rt_status tcp_check_user(const struct rt_connection *connection, struct rt_error *err) {
    const struct rt_tcp *tcp = connection->tcp;
    struct rt_owner owner;
    if (!tcp->own_user || tcp->tls || !rt_owner_find(connection->stream.fd, &owner) ||
        owner.user == geteuid())
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "belongs to another user of this machine");
}

static void tcp_join_lanes(struct rt_connection *a, struct rt_connection *b) {
    struct rt_tcp *tcp = a->tcp;
    struct rt_connection *control = a->lane == RT_LANE_CONTROL ? a : b;
    struct rt_tcp_link *link;
    struct rt_error err;
    rt_status status = tcp_check_user(a, &err);
    if (status == RT_OK)
        status = tcp_check_user(b, &err);
    if (status == RT_OK)
        status = rt_tcp_link_create(tcp, control->peer, &link, &err);
    if (status != RT_OK) {
        tcp_refuse(a, &err);
        tcp_refuse(b, &err);
        return;
    }
    tcp_unlist_half_open(a);
    tcp_unlist_half_open(b);
    a->link = b->link = link;
    link->lanes[a->lane] = a;
    link->lanes[b->lane] = b;
    link->next = tcp->links;
    tcp->links = link;
    tcp->link_count++;
    rt_tcp_link_up(link, RT_EVENT_ACCEPTED);
}

void rt_tcp_accept_serve(struct rt_connection *connection) {
    struct rt_error err;
    enum rt_stream_result result =
        connection->state == RT_CONNECTION_GREETED ? RT_STREAM_ENDED : rt_connection_greet(connection, &err);
    if (result == RT_STREAM_ENDED) { /* the peer is gone: it gets no refusal */
        tcp_unlist_half_open(connection);
        rt_connection_end(connection);
    } else if (result == RT_STREAM_FAILED) {
        tcp_refuse(connection, &err);
    } else if (result == RT_STREAM_OK) {
        struct rt_connection *partner = tcp_find_partner(connection, false);
        if (tcp_find_partner(connection, true)) {
            rt_fail(&err, RT_BAD_INPUT, "made the same connection of a link twice");
            tcp_refuse(connection, &err);
        } else if (partner) {
            tcp_join_lanes(connection, partner);
        }
    }
}

double rt_tcp_accept_check(struct rt_tcp *tcp, double now) {
    double look = INFINITY;
    for (struct rt_connection *connection = tcp->half_open, *next; connection; connection = next) {
        struct rt_error err;
        next = connection->next;
        if (now < connection->deadline) {
            look = fmin(look, connection->deadline);
        } else if (connection->state == RT_CONNECTION_GREETED) {
            rt_fail(&err, RT_BAD_INPUT, "made only one of the two connections of a link");
            tcp_refuse(connection, &err);
        } else {
            rt_fail(&err, RT_BAD_INPUT, "connected but did not identify itself for %.3g seconds",
                    tcp->silence.most);
            tcp_refuse_crowd(connection, &tcp->late, now, &err);
        }
    }
    look = fmin(look, tcp_report_crowd(tcp, &tcp->pushed_out, now));
    return fmin(look, tcp_report_crowd(tcp, &tcp->late, now));
}
