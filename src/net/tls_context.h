/* The TLS state of an endpoint: its key or certificates, and how a connection's own key is derived. For tls.c
 * and tls_context.c only. */
#ifndef RT_NET_TLS_CONTEXT_H
#define RT_NET_TLS_CONTEXT_H

#include "net/tcp.h"
#include <openssl/ssl.h>

/* The identity of a connection: random bytes, the initiator's endpoint, which connection of its link. */
enum {
    RT_IDENTITY_RANDOM = 16,
    RT_ENDPOINT_ID = 16,
    RT_IDENTITY_BYTES = RT_IDENTITY_RANDOM + RT_ENDPOINT_ID + 1
};

struct rt_tls {
    SSL_CTX *context;
    BIO_METHOD *method;
    bool has_key;
    uint8_t key[RT_KEY_BYTES];
    uint8_t id[RT_ENDPOINT_ID];
};

/* The data of a connection for OpenSSL's callbacks. */
struct rt_tls_peer {
    const struct rt_tls *tls;
    uint8_t identity[RT_IDENTITY_BYTES];
    bool is_self; /* the identity carries our own id */
};

bool rt_tls_make_identity(const struct rt_tls *tls, unsigned lane, uint8_t identity[RT_IDENTITY_BYTES]);
BIO_METHOD *rt_tls_bio_method(void);

/* OpenSSL's first error, in its own words. */
const char *rt_tls_reason(void);

#endif
