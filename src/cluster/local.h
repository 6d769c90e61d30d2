/*
 * Nodes on this machine, as processes of the ringtmp command. Master and node share a pair of sockets, the
 * lifeline: the node says on it where it listens, and when the master is gone, however it ended, the node
 * reads the end of it and ends too.
 */
#ifndef RT_CLUSTER_LOCAL_H
#define RT_CLUSTER_LOCAL_H

#include "base/status.h"
#include "cluster/emulated_link.h"
#include "metrics/pace.h"
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct rt_local_settings {
    const char *program; /* NULL: "ringtmp" on the PATH */
    const char *name;    /* of the node */
    size_t threads;
    uint64_t memory;            /* bytes; 0: no limit */
    const struct rt_pace *pace; /* NULL: it is not emulated */
    struct rt_emulated_link link;
    const char *key_file, *certificate, *private_key, *authority; /* NULL: none */
    const char *cache; /* where it keeps converted data; NULL: the user's cache directory */
};

struct rt_local {
    pid_t pid;     /* 0: not started, or ended */
    int lifeline;  /* our end; -1: closed */
    int status;    /* of waitpid, when it ended on its own */
    bool given_up; /* it may end: the run goes on without it */
    char name[40], address[80];
};

rt_status rt_local_start(const struct rt_local_settings *settings, struct rt_local *local,
                         struct rt_error *err);

/* Waits, until the given time of rt_clock_wall, for the node to say where it listens. stop may be NULL. */
rt_status rt_local_wait(struct rt_local *local, double until, const atomic_int *stop, struct rt_error *err);

/* Whether a node that has said where it listens has ended; looks for so many seconds. how: "ended with status
 * 1". */
enum { RT_HOW_ROOM = 80 };
bool rt_local_ended(struct rt_local *local, double seconds, char how[RT_HOW_ROOM]);
/* RT_FAILED, with how it ended, when one of them has that is not given up. stop may be NULL. */
rt_status rt_local_check(struct rt_local *locals, size_t count, const atomic_int *stop, struct rt_error *err);

/* Ends those nodes: lets go of their lifelines, and kills those that are left after two seconds. */
void rt_local_end(struct rt_local *locals, size_t count);

/* ---- the node's side ---- */

/* Says on the lifeline where the node listens (sentence NULL) or why it does not. A master that is gone is no
 * failure: it may have been stopped, and the watcher of the lifeline reads the end of it. SIGPIPE is ignored.
 */
rt_status rt_lifeline_report(int lifeline, const char *address, const char *sentence, struct rt_error *err);

#endif
