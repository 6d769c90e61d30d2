/*
 * Connecting. A host may have several addresses, and its node may not listen yet: the addresses are tried in
 * turn, with growing pauses, until one works or the time is over. The message is then about the last attempt.
 * The answer of a peer that did respond is final, for instance that the keys differ.
 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_PAUSE     0.02
#define LONGEST_PAUSE   0.5
#define CONNECT_SECONDS 3.0 /* for one attempt: a host that is not there answers nothing at all */

rt_status rt_tcp_connect(struct rt_endpoint *endpoint, const char *address, double refused, double until,
                         struct rt_link **out, struct rt_error *err) {
    struct rt_tcp *tcp = (struct rt_tcp *)endpoint;
    struct rt_tcp_link *link;
    char host[RT_HOST_ROOM];
    unsigned port;
    rt_status status = rt_address_parse(address, host, &port, err);
    if (status == RT_OK && port == 0)
        status =
            rt_fail(err, RT_BAD_INPUT,
                    "%s: port 0 cannot be connected to; give the port that the node listens on", address);
    if (status == RT_OK)
        status = rt_tcp_link_create(tcp, address, &link, err);
    if (status != RT_OK)
        return status;
    link->state = RT_LINK_RESOLVING;
    link->until = until;
    link->refused = refused;
    link->refuses = true;
    status = rt_resolve_start(host, port, false, tcp->wake[1], &link->resolve, err);
    if (status != RT_OK) {
        free(link);
        return status;
    }
    pthread_mutex_lock(&tcp->mutex);
    link->next = tcp->new_links;
    tcp->new_links = link;
    rt_tcp_order(tcp);
    pthread_mutex_unlock(&tcp->mutex);
    *out = &link->base;
    return RT_OK;
}

static void tcp_connect_unreachable(struct rt_tcp_link *link, int error) {
    link->refuses &= error == ECONNREFUSED;
    if (error == ECONNREFUSED)
        rt_fail(&link->last, RT_IO, "connection refused: nothing is listening there");
    else if (error == ETIMEDOUT)
        rt_fail(&link->last, RT_IO, "does not answer");
    else
        rt_fail(&link->last, RT_IO, "cannot be reached: %s", strerror(error));
}

static void tcp_connect_broken(struct rt_tcp_link *link, const struct rt_error *why) {
    link->refuses = false;
    rt_fail(&link->last, RT_IO, "%s before the link was made", why->text);
}

/* link->last has the reason. */
static void tcp_connect_retry(struct rt_tcp_link *link) {
    const struct addrinfo *first;
    const double now = rt_clock_wall();
    rt_tcp_link_drop_lanes(link);
    link->state = RT_LINK_PAUSING;
    link->address = link->address->ai_next;
    link->retry_at = now;
    if (!link->address && link->refuses && now >= link->refused) {
        rt_tcp_link_fail(link, &link->last);
    } else if (!link->address) {
        link->refuses = true;
        (void)rt_resolve_result(link->resolve, &first, NULL);
        link->address = first;
        link->retry_at += link->pause;
        link->pause = 2 * link->pause < LONGEST_PAUSE ? 2 * link->pause : LONGEST_PAUSE;
    }
}

static void tcp_connect_begin_lane(struct rt_tcp_link *link, enum rt_lane lane, const uint8_t *token) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    const struct addrinfo *address = link->address;
    struct rt_connection *connection;
    link->state = RT_LINK_TRYING;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (fd < 0) {
        tcp_connect_unreachable(link, errno);
        tcp_connect_retry(link);
        return;
    }
    struct rt_error err;
    if (rt_connection_create(tcp, fd, true, lane, &connection, &err) != RT_OK) {
        rt_tcp_link_fail(link, &err);
        return;
    }
    connection->link = link;
    connection->deadline = rt_clock_wall() + CONNECT_SECONDS;
    link->lanes[lane] = connection;
    memcpy(connection->token, token, RT_TOKEN_BYTES);
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS && errno != EINTR) {
        tcp_connect_unreachable(link, errno);
        tcp_connect_retry(link);
    }
}

static void tcp_connect_begin_attempt(struct rt_tcp_link *link) {
    uint8_t token[RT_TOKEN_BYTES];
    if (getrandom(token, sizeof token, 0) != sizeof token) {
        struct rt_error err;
        rt_fail(&err, RT_IO, "cannot get random numbers: %s", strerror(errno));
        rt_tcp_link_fail(link, &err);
        return;
    }
    tcp_connect_begin_lane(link, RT_LANE_CONTROL, token);
}

static void tcp_connect_give_up(struct rt_tcp_link *link) {
    if (link->last.text[0] == 0)
        tcp_connect_unreachable(link, ETIMEDOUT);
    rt_tcp_link_fail(link, &link->last);
}

static void tcp_connect_check_resolved(struct rt_tcp_link *link, double now) {
    struct rt_error err;
    if (!rt_resolve_done(link->resolve, 0) && now < link->until)
        return;
    if (rt_resolve_result(link->resolve, &link->address, &err) != RT_OK) {
        rt_tcp_link_fail(link, &err);
        return;
    }
    link->state = RT_LINK_PAUSING;
    link->retry_at = now;
    link->pause = FIRST_PAUSE;
}

/* An attempt that hangs. If the connection was made and the peer stays silent, the failure is final. */
static void tcp_connect_check_late(struct rt_tcp_link *link, double now) {
    struct rt_tcp *tcp = (struct rt_tcp *)link->base.endpoint;
    for (int i = 0; i < RT_LANES; i++) {
        struct rt_connection *connection = link->lanes[i];
        if (!connection || connection->state == RT_CONNECTION_GREETED || now < connection->deadline)
            continue;
        if (connection->state == RT_CONNECTION_CONNECTING) {
            tcp_connect_unreachable(link, ETIMEDOUT);
            tcp_connect_retry(link);
        } else {
            struct rt_error err;
            rt_fail(&err, RT_IO, "took the connection but said nothing for %.3g seconds", tcp->silence.most);
            rt_tcp_link_fail(link, &err);
        }
        return;
    }
}

double rt_tcp_connect_step(struct rt_tcp_link *link, double now) {
    if (link->state == RT_LINK_RESOLVING)
        tcp_connect_check_resolved(link, now);
    if (link->state == RT_LINK_TRYING)
        tcp_connect_check_late(link, now);
    if ((link->state == RT_LINK_PAUSING || link->state == RT_LINK_TRYING) && now >= link->until)
        tcp_connect_give_up(link);
    if (link->state == RT_LINK_PAUSING && now >= link->retry_at)
        tcp_connect_begin_attempt(link);
    double next = link->until;
    if (link->state == RT_LINK_PAUSING)
        next = fmin(next, link->retry_at);
    for (int i = 0; i < RT_LANES && link->state == RT_LINK_TRYING; i++)
        if (link->lanes[i] && link->lanes[i]->state != RT_CONNECTION_GREETED)
            next = fmin(next, link->lanes[i]->deadline);
    return next;
}

void rt_tcp_connect_serve(struct rt_connection *connection) {
    struct rt_tcp_link *link = connection->link;
    struct rt_error err;
    enum rt_connection_state before = connection->state;
    if (before == RT_CONNECTION_GREETED) { /* it can only have ended */
        link->refuses = false;
        rt_fail(&link->last, RT_IO, "closed the connection before the link was made");
        tcp_connect_retry(link);
        return;
    }
    enum rt_stream_result result = rt_connection_greet(connection, &err);
    if (before == RT_CONNECTION_CONNECTING && connection->state != before)
        connection->deadline = rt_clock_wall() + connection->tcp->silence.most;
    if (result == RT_STREAM_FAILED) {
        rt_tcp_link_fail(link, &err);
    } else if (result == RT_STREAM_ENDED) {
        if (connection->state == RT_CONNECTION_CONNECTING)
            tcp_connect_unreachable(link, connection->connect_error);
        else
            tcp_connect_broken(link, &err);
        tcp_connect_retry(link);
    } else if (result == RT_STREAM_OK && connection->lane == RT_LANE_CONTROL) {
        tcp_connect_begin_lane(link, RT_LANE_DATA, connection->token);
    } else if (result == RT_STREAM_OK) {
        rt_tcp_link_up(link, RT_EVENT_CONNECTED);
    }
}
