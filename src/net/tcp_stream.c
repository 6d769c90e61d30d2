/* One socket; see tcp_stream.h. */
#include "net/tcp_stream.h"

#include "net/tls.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

/* Little enough that a high-priority frame soon follows the bytes given to the system before it, and enough
 * that the system never runs dry between two rounds of the network thread. */
enum { UNSENT_BYTES = 128 << 10 };

static enum rt_stream_result stream_ended(struct rt_error *err) {
    rt_fail(err, RT_IO, "the connection broke: %s", strerror(errno));
    return RT_STREAM_ENDED;
}

enum rt_stream_result rt_stream_send(struct rt_stream *stream, const struct iovec *parts, int count,
                                     size_t *taken, struct rt_error *err) {
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? RT_STREAM_BLOCKED
                                                                           : stream_ended(err);
    *taken = (size_t)n;
    stream->sent += (uint64_t)n;
    return RT_STREAM_OK;
}

enum rt_stream_result rt_stream_receive(struct rt_stream *stream, const struct iovec *parts, int count,
                                        size_t *got, struct rt_error *err) {
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = recvmsg(stream->fd, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? RT_STREAM_BLOCKED : stream_ended(err);
    if (n == 0) {
        rt_fail(err, RT_IO, "closed the connection");
        return RT_STREAM_ENDED;
    }
    *got = (size_t)n;
    stream->received += (uint64_t)n;
    return RT_STREAM_OK;
}

enum rt_stream_result rt_stream_write(struct rt_stream *stream, const struct iovec *parts, int count,
                                      size_t *taken, struct rt_error *err) {
    return stream->session ? rt_tls_write(stream->session, parts, count, taken, err)
                           : rt_stream_send(stream, parts, count, taken, err);
}

enum rt_stream_result rt_stream_read(struct rt_stream *stream, const struct iovec *parts, int count,
                                     size_t *got, struct rt_error *err) {
    stream->wants_write = false;
    return stream->session ? rt_tls_read(stream->session, parts, count, got, err)
                           : rt_stream_receive(stream, parts, count, got, err);
}

static void stream_set_option(int fd, int level, int name, int value) {
    /* Each is optional: without it the connection works, only slower, or a failure shows later. */
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

rt_status rt_stream_prepare(int fd, double silence, struct rt_error *err) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return rt_fail(err, RT_IO, "cannot set up a connection: %s", strerror(errno));
    stream_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    stream_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_NOTSENT_LOWAT)
    stream_set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES);
#endif
    /* Not TCP_USER_TIMEOUT: it would also end the connection with a peer that reads nothing for a while,
     * though both sides may have been stopped. Heartbeats tell whether a peer is alive. */
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
    int seconds = silence > 2 ? (int)silence : 2;
    stream_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    stream_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds / 2);
    stream_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
#else
    (void)silence;
#endif
    return RT_OK;
}

/* The address without its port; 4 bytes, 16, or none. */
static size_t stream_get_address(const struct sockaddr_storage *name, const uint8_t **bytes) {
    if (name->ss_family == AF_INET) {
        *bytes = (const uint8_t *)&((const struct sockaddr_in *)name)->sin_addr;
        return 4;
    }
    if (name->ss_family != AF_INET6)
        return 0;
    *bytes = (const uint8_t *)&((const struct sockaddr_in6 *)name)->sin6_addr;
    return 16;
}

static bool stream_is_local(int fd) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    const uint8_t *here = NULL, *there = NULL;
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0)
        return false;
    const size_t count = stream_get_address(&own, &here);
    return count > 0 && stream_get_address(&peer, &there) == count && memcmp(here, there, count) == 0;
}

void rt_stream_connected(struct rt_stream *stream) {
    stream->local = stream_is_local(stream->fd);
#if defined(TCP_CONGESTION)
    /* Within one machine there is no congestion, and a congestion control that paces its sends (bbr) halves
     * the speed. This one does not, and every system has it. */
    static const char plain[] = "reno";
    if (stream->local)
        (void)setsockopt(stream->fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
#endif
}
