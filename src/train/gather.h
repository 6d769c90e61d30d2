/*
 * Who takes part in a run, as its run file says: local processes are started, running nodes are connected to.
 * What they are then joined to, a ring or an exchange, is decided by others.
 */
#ifndef RT_TRAIN_GATHER_H
#define RT_TRAIN_GATHER_H

#include "cluster/cluster.h"
#include "formats/runfile.h"
#include "train/network.h"

struct rt_gathering {
    struct rt_endpoint *endpoint; /* NULL: one device alone, without a stream */
    struct rt_cluster *cluster;   /* NULL: one device alone */
    uint32_t run;
    double slowdown; /* of the master, emulated */
    size_t devices;  /* the master first; device i > 0 is member i - 1 of the cluster */
    char (*name)[RT_MAX_TEXT + 1];
};

struct rt_gather_settings {
    const struct rt_spec *spec;
    const struct rt_network *network; /* for its kernels */
    bool exact;                       /* a node whose kernels differ is refused */
    const char *program;              /* the ringtmp command, for local nodes; NULL: on the PATH */
    const atomic_int *stop;           /* may be NULL */
    /* Told at once of nodes that do not answer; may be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
};

/* deinit also on failure. */
rt_status rt_gather(const struct rt_gather_settings *settings, struct rt_gathering *gathering,
                    struct rt_error *err);
void rt_gathering_deinit(struct rt_gathering *gathering); /* a zeroed one is fine */

/* A device as its user knows it: the name given with --name, and the address. */
enum { RT_TITLE_ROOM = 200 };
const char *rt_gathering_title(const struct rt_gathering *gathering, size_t device,
                               char title[RT_TITLE_ROOM]);

/* Tells a member its part of the work, and waits until it has taken the memory for it. */
rt_status rt_gathering_assign(struct rt_gathering *gathering, const struct rt_assign *part, size_t member,
                              struct rt_error *err);
/* The same for all members at a time: member i gets index i + 1. */
rt_status rt_gathering_assign_all(struct rt_gathering *gathering, const struct rt_assign *part,
                                  struct rt_error *err);

/* The threads of each of the run's local processes: what train.threads says, else their share of the cores.
 */
size_t rt_gather_threads(const struct rt_spec *spec);

#endif
