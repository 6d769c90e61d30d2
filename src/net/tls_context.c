/* Keys and certificates; see tls.h and tls_context.h. */
#include "net/tls_context.h"

#include "base/memory.h"
#include "net/tls.h"
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

enum { READ_AHEAD = 64 << 10 }; /* a few records for one system call */

/* OpenSSL requires sessions, and a PSK is one, to carry the name of their purpose. */
static const unsigned char name[] = "ringtmp";

const char *rt_tls_reason(void) {
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    return reason ? reason : "no reason was given";
}

/* ---- the key of a connection ---- */

bool rt_tls_make_identity(const struct rt_tls *tls, unsigned lane, uint8_t identity[RT_IDENTITY_BYTES]) {
    if (getrandom(identity, RT_IDENTITY_RANDOM, 0) != RT_IDENTITY_RANDOM)
        return false;
    memcpy(identity + RT_IDENTITY_RANDOM, tls->id, RT_ENDPOINT_ID);
    identity[RT_IDENTITY_BYTES - 1] = (uint8_t)lane;
    return true;
}

/* HKDF-SHA256 of the cluster key, bound to its purpose and the identity. */
static bool tls_derive_key(const struct rt_tls *tls, const uint8_t identity[RT_IDENTITY_BYTES],
                           uint8_t out[RT_KEY_BYTES]) {
    static const char purpose[] = "ringtmp link 1";
    char digest[] = "SHA256";
    uint8_t info[sizeof purpose + RT_IDENTITY_BYTES];
    memcpy(info, purpose, sizeof purpose);
    memcpy(info + sizeof purpose, identity, RT_IDENTITY_BYTES);
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)tls->key, RT_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    bool done = context && EVP_KDF_derive(context, out, RT_KEY_BYTES, parameters) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return done;
}

static SSL_SESSION *tls_make_psk(SSL *ssl, const struct rt_tls_peer *peer) {
    static const uint8_t aes_128_gcm_sha256[] = {0x13,
                                                 0x01}; /* names the hash; the cipher is agreed on later */
    uint8_t key[RT_KEY_BYTES];
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();
    bool done = cipher && session && tls_derive_key(peer->tls, peer->identity, key) &&
                SSL_SESSION_set1_master_key(session, key, sizeof key) &&
                SSL_SESSION_set_cipher(session, cipher) &&
                SSL_SESSION_set1_id_context(session, name, sizeof name) &&
                SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    OPENSSL_cleanse(key, sizeof key);
    if (done)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* For the initiator. */
static int tls_use_psk(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *bytes,
                       SSL_SESSION **session) {
    struct rt_tls_peer *peer = SSL_get_app_data(ssl);
    *session = NULL;
    if (digest && !EVP_MD_is_a(digest, "SHA256"))
        return 0;
    *session = tls_make_psk(ssl, peer);
    *identity = peer->identity;
    *bytes = RT_IDENTITY_BYTES;
    return *session != NULL;
}

/* For the responder. */
static int tls_find_psk(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **session) {
    struct rt_tls_peer *peer = SSL_get_app_data(ssl);
    *session = NULL;
    if (bytes != RT_IDENTITY_BYTES)
        return 0;
    memcpy(peer->identity, identity, RT_IDENTITY_BYTES);
    peer->is_self = memcmp(identity + RT_IDENTITY_RANDOM, peer->tls->id, RT_ENDPOINT_ID) == 0;
    if (peer->is_self)
        return 0;
    *session = tls_make_psk(ssl, peer);
    return *session != NULL;
}

/* ---- the context ---- */

static bool tls_cpu_has_aes(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") != 0;
#elif defined(__aarch64__) && defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    return false;
#endif
}

/* Without this, OpenSSL would ask on the terminal for the password of a private key. */
static int tls_no_password(char *text, int room, int writing, void *user) {
    (void)text, (void)room, (void)writing, (void)user;
    return -1;
}

static rt_status tls_load_certificates(SSL_CTX *context, const struct rt_tcp_settings *settings,
                                       struct rt_error *err) {
    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(context, tls_no_password);
    if (SSL_CTX_use_certificate_chain_file(context, settings->certificate) != 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not a certificate: %s", settings->certificate,
                       rt_tls_reason());
    if (SSL_CTX_use_PrivateKey_file(context, settings->private_key, SSL_FILETYPE_PEM) != 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not an unencrypted private key for %s: %s",
                       settings->private_key, settings->certificate, rt_tls_reason());
    if (SSL_CTX_load_verify_file(context, settings->authority) != 1)
        return rt_fail(err, RT_BAD_INPUT, "%s: is not a certificate: %s", settings->authority,
                       rt_tls_reason());
    return RT_OK;
}

static rt_status tls_set_up(struct rt_tls *tls, const struct rt_tcp_settings *settings,
                            struct rt_error *err) {
    const char *suites = tls_cpu_has_aes() ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                           : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
    /* A program may end while a network thread is running: OpenSSL must not clean up at exit. */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_method());
    tls->method = rt_tls_bio_method();
    if (!tls->context || !tls->method || !SSL_CTX_set_min_proto_version(tls->context, TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(tls->context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(tls->context, suites) || !SSL_CTX_set_num_tickets(tls->context, 0) ||
        !SSL_CTX_set_session_id_context(tls->context, name, sizeof name) ||
        getrandom(tls->id, sizeof tls->id, 0) != sizeof tls->id)
        return rt_fail(err, RT_FAILED, "cannot set up encryption: %s", rt_tls_reason());
    /* With these two, ChaCha is used when either side has no AES instructions. */
    SSL_CTX_set_options(tls->context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                          SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(tls->context, 1);
    SSL_CTX_set_default_read_buffer_len(tls->context, READ_AHEAD);
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (!settings->key)
        return tls_load_certificates(tls->context, settings, err);
    tls->has_key = true;
    memcpy(tls->key, settings->key, RT_KEY_BYTES);
    SSL_CTX_set_psk_use_session_callback(tls->context, tls_use_psk);
    SSL_CTX_set_psk_find_session_callback(tls->context, tls_find_psk);
    return RT_OK;
}

rt_status rt_tls_create(const struct rt_tcp_settings *settings, struct rt_tls **out, struct rt_error *err) {
    int files = !!settings->certificate + !!settings->private_key + !!settings->authority;
    if (files && settings->key)
        return rt_fail(err, RT_BAD_INPUT, "give a cluster key or certificates, not both");
    if (files && files < 3)
        return rt_fail(err, RT_BAD_INPUT,
                       "certificates need all three: certificate, private_key and authority");
    if (!files && !settings->key) {
        *out = NULL;
        return RT_OK;
    }
    struct rt_tls *tls;
    rt_status status = rt_alloc(1, sizeof *tls, "encryption", &tls, err);
    if (status == RT_OK && (status = tls_set_up(tls, settings, err)) != RT_OK)
        rt_tls_destroy(tls);
    else if (status == RT_OK)
        *out = tls;
    return status;
}

void rt_tls_destroy(struct rt_tls *tls) {
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    OPENSSL_cleanse(tls, sizeof *tls);
    free(tls);
}
