/*
 * One connection: from its socket through TLS handshake and preambles to its end. It never ends abruptly: if
 * a socket is closed while unread bytes lie in it, the system sends a reset, which may destroy our last bytes
 * before the peer has read them. So we shut our side down and wait a moment for the peer to close.
 */
#include "net/tcp_parts.h"

#include "base/clock.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_SECONDS 1.0

rt_status rt_connection_create(struct rt_tcp *tcp, int fd, bool initiator, enum rt_lane lane,
                               struct rt_connection **out, struct rt_error *err) {
    struct rt_connection *connection = NULL;
    rt_status status = rt_stream_prepare(fd, tcp->silence.most, err);
    if (status == RT_OK)
        status = rt_tcp_reserve(tcp, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *connection, "a connection", &connection, err);
    if (status != RT_OK) {
        close(fd);
        return status;
    }
    connection->tcp = tcp;
    connection->stream.fd = fd;
    connection->initiator = initiator;
    connection->lane = lane;
    connection->state = initiator  ? RT_CONNECTION_CONNECTING
                        : tcp->tls ? RT_CONNECTION_SECURING
                                   : RT_CONNECTION_GREETING;
    tcp->connection_count++;
    *out = connection;
    return RT_OK;
}

/* ---- greeting ---- */

/* A process that repeatedly connects to a port where no program listens may be given that very port for its
 * own end; the system then connects the socket to itself. */
static bool connection_is_to_itself(int fd) {
    struct sockaddr_storage own, peer;
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    memset(&own, 0, sizeof own);
    memset(&peer, 0, sizeof peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 && own_bytes == peer_bytes &&
           memcmp(&own, &peer, own_bytes) == 0;
}

static enum rt_stream_result connection_finish_connecting(struct rt_connection *connection,
                                                          struct rt_error *err) {
    int error = 0;
    socklen_t bytes = sizeof error;
    struct pollfd look = {.fd = connection->stream.fd, .events = POLLOUT};
    if (poll(&look, 1, 0) == 0)
        return RT_STREAM_BLOCKED;
    if (getsockopt(connection->stream.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0 && connection_is_to_itself(connection->stream.fd)) {
        struct linger at_once = {.l_onoff = 1}; /* so that the port is free again */
        (void)setsockopt(connection->stream.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        error = ECONNREFUSED;
    }
    if (error) {
        connection->connect_error = error;
        rt_fail(err, RT_IO, "%s", strerror(error));
        return RT_STREAM_ENDED;
    }
    connection->state = connection->tcp->tls ? RT_CONNECTION_SECURING : RT_CONNECTION_GREETING;
    return RT_STREAM_OK;
}

static enum rt_stream_result connection_start_tls(struct rt_connection *connection, struct rt_error *err) {
    struct rt_stream *stream = &connection->stream;
    if (!connection->initiator && stream->received == 0) { /* TLS, or a preamble in the clear? */
        uint8_t first;
        ssize_t n = recv(stream->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n == 1 && first == RT_PREAMBLE_FIRST) {
            rt_fail(err, RT_BAD_INPUT, RT_ONE_SIDE_HAS_A_KEY);
            rt_connection_refuse(connection, RT_REFUSED_ENCRYPTION);
            return RT_STREAM_FAILED;
        }
        if (n == 0)
            rt_fail(err, RT_IO, "closed the connection");
        if (n != 1)
            return n < 0 && (errno == EAGAIN || errno == EINTR) ? RT_STREAM_BLOCKED : RT_STREAM_ENDED;
    }
    if (!stream->session && rt_tls_open(connection->tcp->tls, stream, connection->initiator, connection->lane,
                                        &stream->session, err) != RT_OK)
        return RT_STREAM_FAILED;
    enum rt_stream_result result = rt_tls_handshake(stream->session, err);
    if (result == RT_STREAM_OK)
        connection->state = RT_CONNECTION_GREETING;
    return result;
}

static void connection_write_preamble(struct rt_connection *connection, enum rt_preamble_kind kind,
                                      enum rt_refusal refusal) {
    struct rt_preamble preamble = {.version = RT_LINK_VERSION, .kind = kind, .refusal = refusal};
    uint8_t bytes[RT_PREAMBLE_BYTES];
    memcpy(preamble.token, connection->token, RT_TOKEN_BYTES);
    rt_preamble_encode(&preamble, bytes);
    rt_tcp_output_begin_own(&connection->out, bytes, sizeof bytes);
    connection->greeted_out = true;
}

static enum rt_preamble_kind connection_preamble_kind(enum rt_lane lane) {
    return lane == RT_LANE_CONTROL ? RT_PREAMBLE_CONTROL : RT_PREAMBLE_DATA;
}

static enum rt_stream_result connection_fail_version(unsigned version, struct rt_error *err) {
    rt_fail(err, RT_BAD_INPUT,
            "uses version %u of the link protocol, this program version %d: run the same RingTMP on both",
            version, RT_LINK_VERSION);
    return RT_STREAM_FAILED;
}

/* Checks the responder's answer, as the initiator. */
static enum rt_stream_result connection_check_answer(struct rt_connection *connection,
                                                     const struct rt_preamble *preamble,
                                                     struct rt_error *err) {
    if (preamble->version != RT_LINK_VERSION)
        return connection_fail_version(preamble->version, err);
    if (preamble->kind == RT_PREAMBLE_REFUSED) {
        static const char *const reasons[RT_REFUSALS] = {
            [RT_REFUSED_NOTHING] = "refused the link",
            [RT_REFUSED_ENCRYPTION] = RT_ONE_SIDE_HAS_A_KEY,
            [RT_REFUSED_VERSION] = "uses another version of the link protocol: run the same RingTMP on both",
            [RT_REFUSED_BUSY] = "has reached its maximum number of links",
        };
        rt_fail(err, RT_BAD_INPUT, "%s", reasons[preamble->refusal]);
        return RT_STREAM_FAILED;
    }
    if (preamble->kind != connection_preamble_kind(connection->lane) ||
        memcmp(preamble->token, connection->token, RT_TOKEN_BYTES) != 0) {
        rt_fail(err, RT_BAD_INPUT, "answered with the greeting of another connection");
        return RT_STREAM_FAILED;
    }
    return RT_STREAM_OK;
}

/* Checks the initiator's preamble, as the responder. */
static enum rt_stream_result connection_check_request(struct rt_connection *connection,
                                                      const struct rt_preamble *preamble,
                                                      struct rt_error *err) {
    struct rt_tcp *tcp = connection->tcp;
    if (preamble->version != RT_LINK_VERSION) {
        rt_connection_refuse(connection, RT_REFUSED_VERSION);
        return connection_fail_version(preamble->version, err);
    }
    enum rt_lane lane = preamble->kind == RT_PREAMBLE_CONTROL ? RT_LANE_CONTROL : RT_LANE_DATA;
    if (preamble->kind == RT_PREAMBLE_REFUSED ||
        (connection->stream.session && !rt_tls_lane_is(connection->stream.session, lane))) {
        rt_fail(err, RT_BAD_INPUT, "sent a damaged greeting");
        return RT_STREAM_FAILED;
    }
    if (lane == RT_LANE_CONTROL && !rt_tcp_make_room(tcp)) {
        rt_connection_refuse(connection, RT_REFUSED_BUSY);
        rt_fail(err, RT_FAILED, "was refused: there are %zu links already, the maximum", tcp->link_count);
        return RT_STREAM_FAILED;
    }
    connection->lane = lane;
    memcpy(connection->token, preamble->token, RT_TOKEN_BYTES);
    connection_write_preamble(connection, preamble->kind, RT_REFUSED_NOTHING);
    return RT_STREAM_OK;
}

/* Whether these first bytes, however few, can be the start of a preamble: if its first word is wrong the rest
 * is not awaited. */
static bool connection_may_be_preamble(const uint8_t *bytes, size_t count) {
    enum { WORD = 4 };
    uint8_t ours[RT_PREAMBLE_BYTES];
    rt_preamble_encode(&(struct rt_preamble){.version = RT_LINK_VERSION}, ours);
    return memcmp(bytes, ours, count < WORD ? count : WORD) == 0;
}

static enum rt_stream_result connection_read_preamble(struct rt_connection *connection,
                                                      struct rt_error *err) {
    struct rt_tcp_input *in = &connection->in;
    while (in->to < RT_PREAMBLE_BYTES && connection_may_be_preamble(in->ahead, in->to)) {
        struct iovec room = {in->ahead + in->to, RT_PREAMBLE_BYTES - in->to};
        size_t got = 0;
        enum rt_stream_result result = rt_stream_read(&connection->stream, &room, 1, &got, err);
        if (result != RT_STREAM_OK)
            return result;
        in->to += got;
        /* 22: a TLS record with the start of a handshake, 21: with an alert */
        if (!connection->stream.session && (in->ahead[0] == 22 || in->ahead[0] == 21)) {
            rt_fail(err, RT_BAD_INPUT, RT_ONE_SIDE_HAS_A_KEY);
            if (!connection->initiator)
                rt_connection_refuse(connection, RT_REFUSED_ENCRYPTION);
            return RT_STREAM_FAILED;
        }
    }
    struct rt_preamble preamble;
    in->to = 0;
    if (rt_preamble_decode(in->ahead, &preamble, err) != RT_OK)
        return RT_STREAM_FAILED;
    return connection->initiator ? connection_check_answer(connection, &preamble, err)
                                 : connection_check_request(connection, &preamble, err);
}

static enum rt_stream_result connection_flush(struct rt_connection *connection, struct rt_error *err) {
    size_t budget = RT_BUDGET;
    return connection->out.total ? rt_tcp_output_write(connection, &budget, err) : RT_STREAM_OK;
}

static enum rt_stream_result connection_exchange_preambles(struct rt_connection *connection,
                                                           struct rt_error *err) {
    enum rt_stream_result result = RT_STREAM_OK;
    if (connection->initiator && !connection->greeted_out)
        connection_write_preamble(connection, connection_preamble_kind(connection->lane), RT_REFUSED_NOTHING);
    if (connection->initiator)
        result = connection_flush(connection, err);
    if (result == RT_STREAM_OK && (connection->initiator || !connection->greeted_out))
        result = connection_read_preamble(connection, err);
    if (result == RT_STREAM_OK && !connection->initiator)
        result = connection_flush(connection, err);
    if (result == RT_STREAM_OK)
        connection->state = RT_CONNECTION_GREETED;
    return result;
}

enum rt_stream_result rt_connection_greet(struct rt_connection *connection, struct rt_error *err) {
    enum rt_stream_result result = RT_STREAM_OK;
    if (connection->state == RT_CONNECTION_CONNECTING)
        result = connection_finish_connecting(connection, err);
    if (result == RT_STREAM_OK && connection->state == RT_CONNECTION_SECURING)
        result = connection_start_tls(connection, err);
    if (result == RT_STREAM_OK && connection->state == RT_CONNECTION_GREETING)
        result = connection_exchange_preambles(connection, err);
    return result;
}

void rt_connection_refuse(struct rt_connection *connection, enum rt_refusal refusal) {
    struct rt_error ignored;
    connection_write_preamble(connection, RT_PREAMBLE_REFUSED, refusal);
    (void)connection_flush(connection,
                           &ignored); /* it fits into an empty socket; otherwise the peer gets no reason */
}

/* ---- the end ---- */

void rt_connection_kill(struct rt_connection *connection) {
    rt_tls_close(connection->stream.session);
    connection->stream.session = NULL;
    close(connection->stream.fd);
    connection->stream.fd = -1;
    connection->state = RT_CONNECTION_DEAD;
    connection->link = NULL;
    connection->next = connection->tcp->dead;
    connection->tcp->dead = connection;
}

void rt_connection_end(struct rt_connection *connection) {
    struct rt_tcp *tcp = connection->tcp;
    /* The owner does not know of it, or a flood of them would use up the system's sockets. */
    if (connection->state == RT_CONNECTION_CONNECTING || tcp->lingering_count >= RT_LINGERING) {
        rt_connection_kill(connection);
        return;
    }
    rt_tls_close(connection->stream.session);
    connection->stream.session = NULL;
    shutdown(connection->stream.fd, SHUT_WR);
    connection->state = RT_CONNECTION_LINGERING;
    connection->link = NULL;
    connection->deadline = rt_clock_wall() + LINGER_SECONDS;
    connection->next = tcp->lingering;
    tcp->lingering = connection;
    tcp->lingering_count++;
}

void rt_connection_linger(struct rt_connection *connection, double now) {
    struct rt_tcp *tcp = connection->tcp;
    char ignored[4096];
    ssize_t n = 1;
    for (int i = 0; i < 64 && n > 0; i++)
        n = recv(connection->stream.fd, ignored, sizeof ignored, MSG_DONTWAIT);
    if (now < connection->deadline && (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))))
        return;
    struct rt_connection **at = &tcp->lingering;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    tcp->lingering_count--;
    rt_connection_kill(connection);
}

void rt_connection_bury(struct rt_tcp *tcp) {
    while (tcp->dead) {
        struct rt_connection *connection = tcp->dead;
        tcp->dead = connection->next;
        tcp->connection_count--;
        free(connection);
    }
}
