/*
 * What a node of a ring keeps of the model's state, so that the run survives the loss of a node: images of
 * its own layers, and replicas of those of the node before it, each of one version (updates applied).
 *
 * At a snapshot (SNAPSHOT, clockwise, in order with the micro-batches) every node takes an image of its
 * layers; they all are of the same version. ring/replication.h then sends the image to the next node. Two
 * generations are kept: the newest one whose replicas are known to be complete, and the one that is under
 * way. A newer snapshot takes the place of the latter, complete or not.
 *
 *     node 1      own layers [a, b) at 40 and 50
 *     node 2      own layers [b, c) at 40 and 50, those of node 1 at 40 and, in part, at 50
 *     ...
 *     master      its own at 40 and 50, those of the last node at 40 and, in part, at 50
 *
 * When a node is lost, all others still have version 40: its layers are at the next node. Images outlive the
 * stage and the view that they were made in: they belong to the session. A node says what it holds (struct
 * rt_holding) when the master calls it for the next view, after it has checked every image against its
 * checksum.
 */
#ifndef RT_RING_REPLICAS_H
#define RT_RING_REPLICAS_H

#include "control/state_transfer.h"
#include "learn/stage.h"
#include "learn/state_map.h"

struct rt_replicas_settings {
    const struct rt_job *job;
    const struct rt_kernels *kernels;
    struct rt_stage *stage[2]; /* of this node; the second NULL: it has one. Borrowed until detach */
    /* The layers of the node before: their replica is kept here. count 0: none is. */
    size_t previous_first, previous_count;
    bool on_disk; /* what is kept besides the images of the stages lies in a file */
};

struct rt_replicas;

/* before: of the view before, taken over, also on failure. Of its images those of `version` stay, with which
 * this view begins, and those of the version that was complete; they go when the replicas of a newer snapshot
 * are complete. NULL: there is none. */
rt_status rt_replicas_create(const struct rt_replicas_settings *settings, uint64_t version,
                             struct rt_replicas *before, struct rt_replicas **replicas, struct rt_error *err);
void rt_replicas_destroy(struct rt_replicas *replicas); /* NULL is fine */
/* The stages go away; their images stay. */
void rt_replicas_detach(struct rt_replicas *replicas);

/* Bytes that are kept besides the images of the stages, in a view. */
rt_status rt_replicas_bytes(const struct rt_replicas_settings *settings, double *bytes, struct rt_error *err);
/* Whether they are on the disk: `part`: bytes of the rest of the node's part; offered: what the device
 * offers, 0: no limit. */
bool rt_replicas_on_disk(enum rt_replica_place place, double part, double bytes, uint64_t offered);

const struct rt_state_map *rt_replicas_map(const struct rt_replicas *replicas);

/* Takes images of the stages. complete: the newest version whose replicas are complete, which stays; 0: none.
 * RT_DIVERGED: see rt_stage_snapshot. */
rt_status rt_replicas_snapshot(struct rt_replicas *replicas, uint64_t complete, struct rt_error *err);
/* The version of the newest image; RT_VERSION_NOW: none was taken in this view. */
uint64_t rt_replicas_newest(const struct rt_replicas *replicas);

/* The replica of the node before, as it comes in, in order: where the next floats belong, counted over all
 * its tensors. A range that is not the next one of the newest version is dropped. */
void rt_replicas_store(struct rt_replicas *replicas, const struct rt_state_range *range, const float *from);
/* The floats of a tensor of the own layers (of the first stage), or of those of the node before; *first: the
 * first of them in the whole model. */
size_t rt_replicas_own_floats(const struct rt_replicas *replicas, size_t tensor, size_t *first);
size_t rt_replicas_previous_floats(const struct rt_replicas *replicas, size_t tensor, size_t *first);
/* Whether all of it is here, of the newest version. */
bool rt_replicas_is_stored(const struct rt_replicas *replicas);

/* Whether all floats of a range are here, in whatever images; if so, copies them. into NULL: only asks.
 * replicas may be NULL. */
bool rt_replicas_read(const struct rt_replicas *replicas, const struct rt_state_range *range, float *into);
/* Writes the layers of that version that are held here into a stage. */
void rt_replicas_adopt(const struct rt_replicas *replicas, uint64_t version, struct rt_stage *stage);
/* Whether a layer of that version is held here. */
bool rt_replicas_hold(const struct rt_replicas *replicas, uint64_t version, size_t layer);

/* What is held, and matches its checksum; returns how many. An image that does not match is dropped, and so
 * is what there is no room for; *damaged is the number of the former. replicas may be NULL. */
size_t rt_replicas_holdings(struct rt_replicas *replicas, struct rt_holding holdings[RT_MAX_HOLDINGS],
                            size_t *damaged);

/* What is said then. */
#define RT_REPLICAS_DAMAGED                                                                                  \
    "a copy of the model's state in the memory of this device does not match its checksum: it is not used"

#endif
