/*
 * TLS 1.3 with OpenSSL; see tls.h. OpenSSL reads and writes through a BIO of ours that goes to the stream, so
 * that the flags of every system call, and the counting of bytes, are the stream's.
 */
#include "net/tls.h"

#include "base/memory.h"
#include "net/frame.h"
#include "net/tcp.h"
#include "net/tls_context.h"
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECORD = 16384,        /* the most that one TLS record carries */
    BYTES_A_KEY = 16 << 20 /* then another takes its place: far below what is safe, and cheap */
};

struct rt_tls_session {
    struct rt_tls_peer peer;
    struct rt_tls *tls;
    struct rt_stream *stream;
    SSL *ssl;
    bool initiator, done;
    bool heard; /* something has been read: the other side has accepted us */
    bool ended; /* the stream has */
    bool plain; /* the first byte was that of a preamble in the clear */
    struct rt_error why;
    uint64_t under_key;     /* bytes written since the key was new */
    uint8_t gather[RECORD]; /* small parts go into one record */
};

/* ---- the BIO ---- */

static int tls_bio_pass(BIO *bio, enum rt_stream_result result, int retry) {
    struct rt_tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (result == RT_STREAM_BLOCKED)
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else if (result != RT_STREAM_OK)
        session->ended = true;
    return result == RT_STREAM_OK;
}

static int tls_bio_write(BIO *bio, const char *data, size_t bytes, size_t *taken) {
    struct rt_tls_session *session = BIO_get_data(bio);
    struct iovec part = {(void *)data, bytes};
    *taken = 0;
    return tls_bio_pass(bio, rt_stream_send(session->stream, &part, 1, taken, &session->why),
                        BIO_FLAGS_WRITE);
}

static int tls_bio_read(BIO *bio, char *data, size_t bytes, size_t *got) {
    struct rt_tls_session *session = BIO_get_data(bio);
    struct iovec part = {data, bytes};
    bool first = session->stream->received == 0;
    *got = 0;
    enum rt_stream_result result = rt_stream_receive(session->stream, &part, 1, got, &session->why);
    if (first && result == RT_STREAM_OK)
        session->plain = data[0] == RT_PREAMBLE_FIRST;
    return tls_bio_pass(bio, result, BIO_FLAGS_READ);
}

static long tls_bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    struct rt_tls_session *session = BIO_get_data(bio);
    return command == BIO_CTRL_FLUSH ? 1 : command == BIO_CTRL_EOF ? session->ended : 0;
}

BIO_METHOD *rt_tls_bio_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "stream");
    if (method && BIO_meth_set_write_ex(method, tls_bio_write) &&
        BIO_meth_set_read_ex(method, tls_bio_read) && BIO_meth_set_ctrl(method, tls_bio_control))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- sessions ---- */

rt_status rt_tls_open(struct rt_tls *tls, struct rt_stream *stream, bool initiator, unsigned lane,
                      struct rt_tls_session **out, struct rt_error *err) {
    struct rt_tls_session *session;
    rt_status status = rt_alloc(1, sizeof *session, "an encrypted connection", &session, err);
    if (status != RT_OK)
        return status;
    session->tls = tls;
    session->stream = stream;
    session->initiator = initiator;
    session->peer.tls = tls;
    BIO *bio = BIO_new(tls->method);
    session->ssl = bio ? SSL_new(tls->context) : NULL;
    if (!session->ssl || (initiator && !rt_tls_make_identity(tls, lane, session->peer.identity))) {
        BIO_free(bio);
        rt_tls_close(session);
        return rt_fail(err, RT_FAILED, "cannot set up encryption: %s", rt_tls_reason());
    }
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_app_data(session->ssl, &session->peer);
    if (initiator)
        SSL_set_connect_state(session->ssl);
    else
        SSL_set_accept_state(session->ssl);
    *out = session;
    return RT_OK;
}

void rt_tls_close(struct rt_tls_session *session) {
    if (!session)
        return;
    if (session->done && !session->ended) {
        ERR_clear_error();
        (void)SSL_shutdown(session->ssl); /* one way; the peer need not answer */
    }
    SSL_free(session->ssl);
    OPENSSL_cleanse(session, sizeof *session);
    free(session);
}

/* ---- what OpenSSL says ---- */

/* OpenSSL reports what it saw; the user needs to know what is wrong. */
static void tls_explain_handshake(struct rt_tls_session *session, struct rt_error *err) {
    int reason = ERR_GET_REASON(ERR_peek_error());
    long verdict = SSL_get_verify_result(session->ssl);
    const char *both = "one side uses a cluster key and the other certificates";
    if (session->plain) {
        rt_fail(err, RT_BAD_INPUT, RT_ONE_SIDE_HAS_A_KEY);
    } else if (session->peer.is_self) {
        rt_fail(err, RT_BAD_INPUT, "is this program itself");
    } else if (session->tls->has_key) {
        if (reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
            reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR || reason == SSL_R_DIGEST_CHECK_FAILED)
            rt_fail(err, RT_BAD_INPUT, "cluster keys differ");
        else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED || reason == SSL_R_NO_SHARED_CIPHER ||
                 reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)
            rt_fail(err, RT_BAD_INPUT, "%s", both);
        else
            rt_fail(err, RT_BAD_INPUT, "no encrypted connection: %s", rt_tls_reason());
    } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK) {
        rt_fail(err, RT_BAD_INPUT, "its certificate is not accepted: %s",
                X509_verify_cert_error_string(verdict));
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        rt_fail(err, RT_BAD_INPUT, "showed no certificate");
    } else if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE) {
        rt_fail(err, RT_BAD_INPUT, "%s", both);
    } else if (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
               reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED) {
        rt_fail(err, RT_BAD_INPUT, "did not accept our certificate: %s", rt_tls_reason());
    } else {
        rt_fail(err, RT_BAD_INPUT, "no encrypted connection: %s", rt_tls_reason());
    }
}

static enum rt_stream_result tls_result(struct rt_tls_session *session, int returned, struct rt_error *err) {
    switch (SSL_get_error(session->ssl, returned)) {
    case SSL_ERROR_WANT_READ:
        return RT_STREAM_BLOCKED;
    case SSL_ERROR_WANT_WRITE:
        session->stream->wants_write = true;
        return RT_STREAM_BLOCKED;
    case SSL_ERROR_ZERO_RETURN:
        rt_fail(err, RT_IO, "closed the connection");
        return RT_STREAM_ENDED;
    default:
        break;
    }
    if (session->ended) {
        *err = session->why;
        return RT_STREAM_ENDED;
    }
    if (!session->heard)
        tls_explain_handshake(session, err);
    else
        rt_fail(err, RT_BAD_INPUT, "broke the encryption: %s", rt_tls_reason());
    return RT_STREAM_FAILED;
}

enum rt_stream_result rt_tls_handshake(struct rt_tls_session *session, struct rt_error *err) {
    ERR_clear_error();
    session->stream->wants_write = false;
    int returned = SSL_do_handshake(session->ssl);
    if (returned != 1)
        return tls_result(session, returned, err);
    if (session->tls->has_key &&
        !SSL_session_reused(session->ssl)) { /* a PSK counts as a session used again */
        rt_fail(err, RT_BAD_INPUT, "cluster keys differ");
        return RT_STREAM_FAILED;
    }
    session->done = true;
    return RT_STREAM_OK;
}

bool rt_tls_lane_is(const struct rt_tls_session *session, unsigned lane) {
    return !session->tls->has_key || session->peer.identity[RT_IDENTITY_BYTES - 1] == lane;
}

/* ---- bytes ---- */

enum rt_stream_result rt_tls_write(struct rt_tls_session *session, const struct iovec *parts, int count,
                                   size_t *taken, struct rt_error *err) {
    const uint8_t *data = parts[0].iov_base;
    size_t bytes = parts[0].iov_len;
    if (bytes < RECORD) {
        bytes = 0;
        for (int i = 0; i < count && bytes < RECORD; i++) {
            size_t n = parts[i].iov_len < RECORD - bytes ? parts[i].iov_len : RECORD - bytes;
            memcpy(session->gather + bytes, parts[i].iov_base, n);
            bytes += n;
        }
        data = session->gather;
    }
    ERR_clear_error();
    int returned = SSL_write_ex(session->ssl, data, bytes, taken);
    if (returned != 1)
        return tls_result(session, returned, err);
    session->under_key += *taken;
    if (session->under_key >= BYTES_A_KEY) {
        session->under_key = 0;
        if (SSL_key_update(session->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
            return tls_result(session, 0, err);
    }
    return RT_STREAM_OK;
}

enum rt_stream_result rt_tls_read(struct rt_tls_session *session, const struct iovec *parts, int count,
                                  size_t *got, struct rt_error *err) {
    *got = 0;
    for (int i = 0; i < count; i++)
        for (size_t done = 0; done < parts[i].iov_len;) {
            size_t n = 0;
            ERR_clear_error();
            int returned =
                SSL_read_ex(session->ssl, (uint8_t *)parts[i].iov_base + done, parts[i].iov_len - done, &n);
            if (returned != 1) /* what went wrong is still there when it is asked for the next time */
                return *got > 0 ? RT_STREAM_OK : tls_result(session, returned, err);
            session->heard = true;
            done += n;
            *got += n;
        }
    return RT_STREAM_OK;
}
