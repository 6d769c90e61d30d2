/* Which process is at the other end of a connection within this machine. */
#ifndef RT_NET_TCP_OWNER_H
#define RT_NET_TCP_OWNER_H

#include <stdbool.h>
#include <stdint.h>

struct rt_owner {
    unsigned long user, socket; /* the system's numbers for them */
};

/* For the other end of a connected socket; false: it is not on this machine, or the system does not tell. */
bool rt_owner_find(int fd, struct rt_owner *owner);
/* Whether this process has that socket open; false also if we may not look. */
bool rt_owner_is(const struct rt_owner *owner, uint32_t process);

#endif
