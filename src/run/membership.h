/*
 * The members of a run, from its run file: starts local processes and connects to running nodes. Other parts
 * decide what they are joined to, a ring or an exchange.
 */
#ifndef RT_RUN_MEMBERSHIP_H
#define RT_RUN_MEMBERSHIP_H

#include "cluster/view.h"
#include "formats/runfile.h"
#include "learn/network.h"

struct rt_membership {
    struct rt_endpoint *endpoint; /* NULL: one device alone, without a stream */
    struct rt_cluster *cluster;   /* NULL: one device alone */
    struct rt_view *view;         /* that the run is in; NULL: none has been formed */
    uint32_t run;
    struct rt_pace pace;              /* of the master */
    size_t devices;                   /* the master first; device i > 0 is member i - 1 of the cluster: those
                                         of cluster.node in their order, then local processes */
    char (*name)[RT_MAX_TEXT + 1];    /* [devices] its name for all nodes; the names differ */
    char (*address)[RT_MAX_TEXT + 1]; /* [devices] "": of the master and of local processes */
};

struct rt_membership_settings {
    const struct rt_spec *spec;
    const struct rt_network *network; /* for its kernels */
    bool exact;                       /* a node whose kernels differ is refused */
    const char *program;              /* the ringtmp command, for local nodes; NULL: on the PATH */
    const atomic_int *stop;           /* may be NULL */
    /* Told at once of nodes that do not answer; may be NULL. */
    void (*waits)(void *user, const char *sentence);
    void *waits_user;
};

/* Checks the keys of the run file about devices and members, also for a run on one device, which does not use
 * them. */
rt_status rt_membership_check(const struct rt_spec *spec, struct rt_error *err);

/* deinit also on failure. */
rt_status rt_membership_form(const struct rt_membership_settings *settings, struct rt_membership *membership,
                             struct rt_error *err);
void rt_membership_deinit(struct rt_membership *membership); /* a zeroed one is fine */

/* A device with its address, where that says more than its name: "pi1 (10.0.0.2:7117)". */
enum { RT_TITLE_ROOM = 200 };
const char *rt_membership_title(const struct rt_membership *membership, size_t device,
                                char title[RT_TITLE_ROOM]);
/* Where devices are that have a name of their own, as "pi1 is 10.0.0.2:7117, pi2 is 10.0.0.3:7117."; nothing
 * where there are none. */
void rt_membership_print_addresses(const struct rt_membership *membership, FILE *out);
/* What the nodes of the run's view are called, by number; borrowed from it. */
struct rt_node_names rt_membership_names(const struct rt_membership *membership);
/* Says that a device is lost, before the reason in err, which does not name it, and notes it in *lost, which
 * may be NULL. If this machine itself did not run for a while, or the nodes say so (device 0), no other
 * device is lost. Returns RT_LOST. */
rt_status rt_membership_lost(const struct rt_membership *membership, size_t device, size_t *lost,
                             struct rt_error *err);

/* The members of a view, and their links. */
struct rt_view_settings {
    const size_t *devices; /* [nodes] the master first; NULL: all, in their order */
    size_t nodes;
    /* Adds the links. */
    rt_status (*shape)(void *user, struct rt_view *view, struct rt_error *err);
    void *user;
    uint32_t probe_bytes; /* that links are measured with; 0: they are not */
};

/* Forms a view, and takes it for that of the run; the one before is given up, with the links that were not
 * taken. A failure names devices. */
rt_status rt_membership_form_view(struct rt_membership *membership, const struct rt_view_settings *settings,
                                  struct rt_error *err);

/* The threads of each of the run's local processes: what train.threads says, else their share of the cores.
 */
size_t rt_membership_threads(const struct rt_spec *spec);

#endif
