/*
 * The transport over TCP, encrypted when there is a key. One thread per endpoint moves the bytes; it sleeps
 * in poll(). A link is two connections: one for the control channel and the heartbeats, one for the rest, so
 * that a large tensor never delays a sign of life.
 */
#ifndef RT_NET_TCP_H
#define RT_NET_TCP_H

#include "net/transport.h"

enum { RT_KEY_BYTES = 32 };

/* Which peers may read a large body from this process's memory instead of receiving it; see tcp_cma.c. */
enum rt_cma {
    RT_LENDS_TO_PROCESSES, /* other processes on this machine, where the system lets them */
    RT_LENDS_TO_ITSELF,    /* endpoints of the same process too: there is none but in tests */
    RT_LENDS_NOTHING,
};

struct rt_tcp_settings {
    const uint8_t *key;       /* RT_KEY_BYTES, the cluster key: TLS 1.3 with a key of its own for each
                                 connection; NULL: none */
    const char *certificate;  /* PEM files, together, instead of a key: TLS 1.3 with a certificate on each */
    const char *private_key;  /* side; its private key; */
    const char *authority;    /* the certificate that signed both, whatever name they carry; NULL: none */
    bool insecure;            /* may listen beyond loopback without key and certificate */
    bool own_user;            /* without a key: of this machine's users only the process's own may connect, as
                                 far as the system tells their users */
    double heartbeat_seconds; /* 0: 0.25 */
    double silence_seconds;   /* a peer not heard of for so long is gone; 0: 5 */
    double silence_least;     /* the bound adapts to measured round trips (silence.h), down to this; 0: it
                                 does not */
    size_t max_links;         /* 0: 256; further connections are refused */
    enum rt_cma cma;
    /* Emulates a slower network (tcp_shape.c): bytes per second in each direction, 0: unlimited; and seconds
     * of delay for everything received. */
    double bandwidth, latency;
};

rt_status rt_tcp_create(const struct rt_tcp_settings *settings, struct rt_endpoint **endpoint,
                        struct rt_error *err);

/* A cluster key: random bytes in a file that only its owner can read, as 64 hexadecimal digits. keygen never
 * overwrites a file. */
rt_status rt_key_write(const char *path, struct rt_error *err);
rt_status rt_key_read(const char *path, uint8_t key[RT_KEY_BYTES], struct rt_error *err);

#endif
