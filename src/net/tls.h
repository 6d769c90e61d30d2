/*
 * TLS 1.3 for the TCP transport. Two ways of authentication:
 *
 *  - a cluster key: the initiator of a connection makes an identity (random bytes, its endpoint's random id,
 *    the connection's number in the link), and both sides derive the connection's own key from cluster key
 *    and identity, used as an external PSK with (EC)DHE. No certificates are loaded, so there is no fallback
 *    to them. An endpoint refuses an identity with its own id: its own bytes were sent back to it;
 *  - certificates: each side proves that its own was signed by the authority that both trust.
 *
 * No tickets, no early data.
 */
#ifndef RT_NET_TLS_H
#define RT_NET_TLS_H

#include "net/tcp_stream.h"

/* For the case that only one side uses encryption. */
#define RT_ONE_SIDE_HAS_A_KEY                                                                                \
    "one side uses encryption (a cluster key or certificates) and the other does not"

struct rt_tls;         /* what an endpoint knows */
struct rt_tls_session; /* one connection */
struct rt_tcp_settings;

/* tls is NULL on success when the settings ask for no encryption. */
rt_status rt_tls_create(const struct rt_tcp_settings *settings, struct rt_tls **tls, struct rt_error *err);
void rt_tls_destroy(struct rt_tls *tls);

/* stream outlives the session, whose bytes go through it. lane: which connection of the link this is; the
 * initiator tells the responder. */
rt_status rt_tls_open(struct rt_tls *tls, struct rt_stream *stream, bool initiator, unsigned lane,
                      struct rt_tls_session **session, struct rt_error *err);
/* Sends the closing alert, if that does not block, and frees the session. */
void rt_tls_close(struct rt_tls_session *session);

enum rt_stream_result rt_tls_handshake(struct rt_tls_session *session, struct rt_error *err);
/* After the handshake: whether the initiator meant this connection to be the given lane. Always true with
 * certificates. */
bool rt_tls_lane_is(const struct rt_tls_session *session, unsigned lane);

enum rt_stream_result rt_tls_write(struct rt_tls_session *session, const struct iovec *parts, int count,
                                   size_t *taken, struct rt_error *err);
enum rt_stream_result rt_tls_read(struct rt_tls_session *session, const struct iovec *parts, int count,
                                  size_t *got, struct rt_error *err);

#endif
