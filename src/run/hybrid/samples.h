/*
 * data.send with rings side by side: the master sends the heads of the other rings their rows of each batch,
 * one EXAMPLES a batch, on a channel that their exchange leaves free in that direction. A head whose part of
 * a batch has no rows gets none. The rows of the next batch travel while a ring learns from this one. What a
 * row looks like: run/exchange/samples.h.
 */
#ifndef RT_RUN_HYBRID_SAMPLES_H
#define RT_RUN_HYBRID_SAMPLES_H

#include "run/exchange/samples.h"
#include "run/hybrid/part_pipeline.h"
#include "run/ring/input_pipeline.h"

/* ---- the master's end ---- */

struct rt_ring_sample_sender;

/* Sums leave the first channel free; a server sends parameters on it, and gradients come on the second. */
static inline unsigned rt_hybrid_channel(bool with_servers) {
    return with_servers ? RT_CHANNEL_SECOND : RT_CHANNEL_FIRST;
}

struct rt_ring_sample_sender_settings {
    const struct rt_training_config *config; /* network, set, scaling, target, settings */
    uint32_t run;
    uint16_t rings;
    size_t parts;                 /* of a batch: as many as rings, or 1 */
    struct rt_link *const *links; /* [rings], with the heads; borrowed */
    bool with_servers;
    struct rt_hybrid_numbering numbering;
};

rt_status rt_ring_sample_sender_create(const struct rt_ring_sample_sender_settings *settings,
                                       struct rt_ring_sample_sender **sample_sender, struct rt_error *err);
void rt_ring_sample_sender_destroy(
    struct rt_ring_sample_sender *sample_sender); /* when the links are closed; NULL is fine */
/* The rings begin with an update: they follow one another, and rows of the next one go along. */
void rt_ring_sample_sender_begin(struct rt_ring_sample_sender *sample_sender, uint64_t update);
/* A ring was given a batch, of which it holds RT_LEADER_TICKETS_AHEAD at most. */
void rt_ring_sample_sender_give(struct rt_ring_sample_sender *sample_sender, uint16_t ring, uint64_t batch);
bool rt_ring_sample_sender_event(struct rt_ring_sample_sender *sample_sender,
                                 const struct rt_event *event); /* whether it was of this */
/* Bytes that go to each head in an epoch, about. */
double rt_ring_sample_sender_bytes(const struct rt_ring_sample_sender *sample_sender);

/* ---- a head's end ---- */

struct rt_ring_sample_receiver;

rt_status rt_ring_sample_receiver_create(const struct rt_sample_layout *parting, size_t part,
                                         struct rt_ring_sample_receiver **sample_receiver,
                                         struct rt_error *err);
void rt_ring_sample_receiver_destroy(
    struct rt_ring_sample_receiver *sample_receiver); /* when the link is closed; NULL is fine */
void rt_ring_sample_receiver_open(struct rt_ring_sample_receiver *sample_receiver, uint32_t run,
                                  struct rt_link *link, unsigned channel); /* link: borrowed */
/* Whether the event was of this; if so it has been taken in. */
bool rt_ring_sample_receiver_event(struct rt_ring_sample_receiver *sample_receiver,
                                   const struct rt_event *event, rt_status *status, struct rt_error *err);
/* Whether the rows of the batch are here. */
bool rt_ring_sample_receiver_has(const struct rt_ring_sample_receiver *sample_receiver, uint64_t batch);
/* The rows, which must be here: as a supply takes them. */
struct rt_pipeline_rows rt_ring_sample_receiver_rows(struct rt_ring_sample_receiver *sample_receiver);

#endif
