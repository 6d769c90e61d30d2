/*
 * Bytes into and out of one socket, encrypted or not; never blocks, never raises a signal.
 */
#ifndef RT_NET_TCP_STREAM_H
#define RT_NET_TCP_STREAM_H

#include "base/status.h"
#include <sys/uio.h>

struct rt_tls_session;

enum rt_stream_result {
    RT_STREAM_OK,
    RT_STREAM_BLOCKED, /* poll tells when to go on */
    RT_STREAM_ENDED,   /* the other side closed, or the connection broke */
    RT_STREAM_FAILED,  /* the other side broke the rules */
};

struct rt_stream {
    int fd;
    struct rt_tls_session *session; /* NULL: not encrypted */
    bool wants_write;               /* BLOCKED, though reading, until it can be written to */
    bool local;                     /* both ends are on this machine */
    uint64_t sent, received;        /* bytes on the wire */
};

/* The socket itself. ENDED comes with a message. */
enum rt_stream_result rt_stream_send(struct rt_stream *stream, const struct iovec *parts, int count,
                                     size_t *taken, struct rt_error *err);
enum rt_stream_result rt_stream_receive(struct rt_stream *stream, const struct iovec *parts, int count,
                                        size_t *got, struct rt_error *err);

/* The same through TLS, if there is a session. */
enum rt_stream_result rt_stream_write(struct rt_stream *stream, const struct iovec *parts, int count,
                                      size_t *taken, struct rt_error *err);
enum rt_stream_result rt_stream_read(struct rt_stream *stream, const struct iovec *parts, int count,
                                     size_t *got, struct rt_error *err);

/* Sets: non-blocking, close on exec, no delay of small messages, few unsent bytes, detection of a lost
 * peer. */
rt_status rt_stream_prepare(int fd, double silence, struct rt_error *err);
/* To be called once it is connected. */
void rt_stream_connected(struct rt_stream *stream);

#endif
