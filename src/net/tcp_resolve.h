/*
 * From "HOST:PORT" to addresses. Resolving a name can take long, so it runs on a thread of its own, which may
 * outlive the request.
 */
#ifndef RT_NET_TCP_RESOLVE_H
#define RT_NET_TCP_RESOLVE_H

#include "base/status.h"
#include <netdb.h>

enum { RT_HOST_ROOM = 256 };

/* "HOST:PORT", "[::1]:PORT". */
rt_status rt_address_parse(const char *address, char host[RT_HOST_ROOM], unsigned *port,
                           struct rt_error *err);
/* "10.0.0.2:7117" or "[::1]:7117". */
void rt_address_print(const struct sockaddr *address, socklen_t bytes, char *text, size_t room);
bool rt_address_is_loopback(const struct sockaddr *address);

struct rt_resolve;

/* wake_fd: gets a byte when the answer is there; -1: not used. Numeric addresses are resolved at once. */
rt_status rt_resolve_start(const char *host, unsigned port, bool to_listen, int wake_fd,
                           struct rt_resolve **resolve, struct rt_error *err);
/* Whether there is an answer; waits for it until the given time (0: not at all). */
bool rt_resolve_done(struct rt_resolve *resolve, double until);
/* The answer: addresses (which live as long as resolve), or "HOST does not resolve: ...". */
rt_status rt_resolve_result(struct rt_resolve *resolve, const struct addrinfo **addresses,
                            struct rt_error *err);
void rt_resolve_release(struct rt_resolve *resolve); /* NULL is fine */

#endif
