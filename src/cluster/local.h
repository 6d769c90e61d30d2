/*
 * Nodes on this machine, as processes of the ringtmp command. Master and node share a pair of sockets, the
 * lifeline: the node says on it where it listens, and when the master is gone, however it ended, the node
 * reads the end of it and ends too.
 */
#ifndef RT_CLUSTER_LOCAL_H
#define RT_CLUSTER_LOCAL_H

#include "base/status.h"
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct rt_local_settings {
    const char *program; /* NULL: "ringtmp" on the PATH */
    const char *name;    /* of the node */
    size_t threads;
    uint64_t memory;                                              /* bytes; 0: no limit */
    double slowdown;                                              /* 0 or 1: none */
    const char *key_file, *certificate, *private_key, *authority; /* NULL: none */
};

struct rt_local {
    pid_t pid;    /* 0: not started, or ended */
    int lifeline; /* our end; -1: closed */
    char name[40], address[80];
};

rt_status rt_local_start(const struct rt_local_settings *settings, struct rt_local *local,
                         struct rt_error *err);

/* Waits, until the given time of rt_clock_wall, for the node to say where it listens. stop may be NULL. */
rt_status rt_local_wait(struct rt_local *local, double until, const atomic_int *stop, struct rt_error *err);

/* Ends those nodes: lets go of their lifelines, and kills who is still there after two seconds. */
void rt_local_end(struct rt_local *locals, size_t count);

/* ---- the node's side ---- */

/* Says on the lifeline where the node listens (sentence NULL) or why it does not. That the master is gone is
 * no failure: he may have been stopped, and whoever watches the lifeline reads the end of it. SIGPIPE is
 * ignored. */
rt_status rt_lifeline_report(int lifeline, const char *address, const char *sentence, struct rt_error *err);

#endif
