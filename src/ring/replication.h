/*
 * Replication: a node of a ring copies its image to the next node, and keeps that of the node before
 * (ring/replicas.h). It is a state transfer like any other (control/state_transfer.h), between neighbours, on
 * a channel that lets everything else go first, and at a limited rate.
 *
 * The end of a replica is a LOAD, which the next node answers when it has all of it, and when its own replica
 * has been answered for as well. The master sends a LOAD without floats. So its answer, which reaches the
 * master last, means that every replica of that version is complete:
 *
 *     master --LOAD--> 1 --parts, LOAD--> 2 --parts, LOAD--> master
 *     master <-answer- 1 <----answer----- 2 <----answer----- master
 *
 * The master's own layers are not replicated: when the master is lost, the run is resumed from its
 * checkpoint.
 */
#ifndef RT_RING_REPLICATION_H
#define RT_RING_REPLICATION_H

#include "ring/replicas.h"

struct rt_replication_settings {
    struct rt_replicas *replicas;    /* borrowed */
    struct rt_link *next, *previous; /* borrowed */
    uint32_t run;
    uint16_t index, nodes; /* in the ring; 0: the master */
    double rate;           /* bytes per second; 0: no limit */
};

struct rt_replication {
    struct rt_replication_settings settings;
    struct rt_state_initiator out; /* to the next node */
    struct rt_state_holder in;     /* from the one before */
    bool open;
    uint64_t version;  /* that is being replicated; RT_VERSION_NOW: none */
    size_t tensor, at; /* of our layers: what is sent next */
    uint64_t sent;     /* floats since the last LOAD */
    bool declared;     /* its LOAD has been sent, or is being sent */
    uint64_t complete; /* the version that was answered for last; 0: none */
    double due;        /* when the next piece may be sent */
};

rt_status rt_replication_init(struct rt_replication *replication,
                              const struct rt_replication_settings *settings, struct rt_error *err);
/* When the links are closed; a zeroed one is fine. */
void rt_replication_deinit(struct rt_replication *replication);

/* The newest image is to be replicated from now on. */
void rt_replication_start(struct rt_replication *replication);

/* Whether the event was of a replica; if so it has been taken in. A failure is the fault of the node at the
 * other end of its link. */
bool rt_replication_event(struct rt_replication *replication, const struct rt_event *event, rt_status *status,
                          struct rt_error *err);
/* Does what can be done now. A failure is the fault of the node before. *wake becomes smaller if there is
 * something to do at a time though no event has come. */
rt_status rt_replication_turn(struct rt_replication *replication, double now, double *wake,
                              struct rt_error *err);

#endif
