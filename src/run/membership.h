/*
 * The members of a run, from its run file: starts local processes and connects to running nodes. Other parts
 * decide what they are joined to, a ring or an exchange.
 */
#ifndef RT_RUN_MEMBERSHIP_H
#define RT_RUN_MEMBERSHIP_H

#include "cluster/view.h"
#include "formats/runfile.h"
#include "job/job.h"
#include "learn/network.h"
#include "wire/tree.h"

struct rt_membership {
    struct rt_endpoint *endpoint; /* NULL: one device alone, without a stream */
    struct rt_cluster *cluster;   /* NULL: one device alone */
    struct rt_view *view;         /* that the run is in; NULL: none has been formed */
    uint32_t run;
    struct rt_pace pace;              /* of the master */
    size_t devices;                   /* the master first; device i > 0 is member i - 1 of the cluster: those
                                         of cluster.node in their order, then local processes, then
                                         seats for those that join, of which the first are there at the
                                         beginning */
    char (*name)[RT_MAX_TEXT + 1];    /* [devices] its name for all nodes; the names differ */
    char (*address)[RT_MAX_TEXT + 1]; /* [devices] "": of the master and of local processes */
};

struct rt_membership_settings {
    const struct rt_spec *spec;
    const struct rt_network *network; /* for its kernels */
    bool exact;                       /* a node whose kernels differ is refused */
    const char *program;              /* the ringtmp command, for local nodes; NULL: on the PATH */
    const uint8_t *token;             /* see struct rt_training_config */
    struct rt_endpoint *endpoint;     /* that the membership takes over; NULL: it makes one */
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
void rt_membership_name(struct rt_membership *membership, size_t device); /* of one that has joined */
void rt_membership_deinit(struct rt_membership *membership);              /* a zeroed one is fine */

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
 * device is lost, and *lost is RT_LOST_MASTER. Returns RT_LOST. */
#define RT_LOST_MASTER SIZE_MAX
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

/* Whether two devices can have a link. */
bool rt_membership_can_link(const struct rt_membership *membership, size_t a, size_t b);
/* Changes the order of devices, the master first, such that in a ring of the first of them all can be linked
 * with their neighbours: those that nobody can connect to lie between others. Returns how many these are; the
 * rest has no place there. */
size_t rt_membership_set_apart(const struct rt_membership *membership, size_t *order, size_t count);

/* Forms a view, and takes it for that of the run; the one before is given up, with the links that were not
 * taken. A failure names devices. */
rt_status rt_membership_form_view(struct rt_membership *membership, const struct rt_view_settings *settings,
                                  struct rt_error *err);

/* Forms another view in the middle of a run, when the one before is over and the master has closed its links:
 * the members are called again, but for those that are gone, and `form` makes a view of those that answer
 * (rt_cluster_member). It is called again, with what it left, after it has failed through another device,
 * which may then be left out. gone: [devices]; afterwards those that are not there. recovered: how many of
 * them were not known to be gone, and which. */
struct rt_reform {
    rt_status (*form)(void *user, struct rt_error *err);
    void *user;
    struct rt_recovered *recovered;
};
rt_status rt_membership_reform(struct rt_membership *membership, bool *gone, const struct rt_reform *reform,
                               struct rt_error *err);

/* Between two attempts: waits until a device that is gone answers, which is not gone any more then, at most
 * until that time. RT_INTERRUPTED: see stop, which may be NULL. */
bool rt_membership_can_return(const struct rt_membership *membership, const bool *gone);
rt_status rt_membership_await(struct rt_membership *membership, bool *gone, double until,
                              const atomic_int *stop, struct rt_error *err);

/* What a run says that begins without devices which were lost while its first view was formed. */
struct rt_start {
    bool *gone; /* [devices] set; NULL: such a loss ends the run */
    void (*warn)(void *user, const char *sentence);
    void *user;
};

/* Forming the first view has failed, with this status and for the reason in err: where a device was lost, the
 * members are called again, and form(user) makes a view of those that answer. Else returns the status. */
rt_status rt_membership_start_without(struct rt_membership *membership, const struct rt_start *start,
                                      rt_status (*form)(void *user, struct rt_error *err), void *user,
                                      rt_status status, struct rt_error *err);

/* Measures each layer on each device. Local processes are this same machine: they are as fast as the master,
 * less what is emulated. A device that is not there, and may come back, is taken for one like the master. */
struct rt_measured {
    const struct rt_job *job;
    size_t layers;            /* of its model */
    struct rt_device *device; /* the master's */
    uint64_t memory;          /* bytes that the master may take; 0: no limit */
};
/* Asks one device how fast it computes the layers of a job, and takes what it has answered: times[layers]. */
rt_status rt_membership_request_profile(struct rt_membership *membership, const struct rt_job *job,
                                        size_t member, size_t rows, struct rt_error *err);
rt_status rt_membership_take_profile(struct rt_membership *membership, size_t member,
                                     struct rt_layer_times *times, size_t layers, struct rt_error *err);
/* All of them. times: [devices][layers], for `rows` rows. */
rt_status rt_membership_measure(struct rt_membership *membership, const struct rt_measured *measured,
                                size_t rows, struct rt_layer_times *const *times, struct rt_error *err);

/* Devices that the run can have, those that may yet join included. */
size_t rt_membership_most(const struct rt_spec *spec);

/* The threads of each of the run's local processes: what train.threads says, else their share of the cores.
 */
size_t rt_membership_threads(const struct rt_spec *spec);

#endif
