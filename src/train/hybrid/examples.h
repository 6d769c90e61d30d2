/*
 * data.send with rings side by side: the master sends the heads of the other rings their rows of each batch,
 * one EXAMPLES a batch, on a channel that their exchange leaves free in that direction. A head whose part of
 * a batch has no rows gets none. The rows of the next batch travel while a ring learns from this one. What a
 * row looks like: train/exchange/sent.h.
 */
#ifndef RT_TRAIN_HYBRID_EXAMPLES_H
#define RT_TRAIN_HYBRID_EXAMPLES_H

#include "train/exchange/sent.h"
#include "train/hybrid/feed.h"
#include "train/ring/supply.h"

/* ---- the master's end ---- */

struct rt_mailing;

/* Sums leave the first channel free; a server sends parameters on it, and gradients come on the second. */
static inline unsigned rt_hybrid_channel(bool served) {
    return served ? RT_CHANNEL_SECOND : RT_CHANNEL_FIRST;
}

struct rt_mailing_settings {
    const struct rt_lesson *lesson; /* network, set, scaling, target, settings */
    uint32_t run;
    uint16_t rings;
    size_t parts;                 /* of a batch: as many as rings, or 1 */
    struct rt_link *const *links; /* [rings], with the heads; borrowed */
    bool served;
    struct rt_hybrid_numbering numbering;
};

rt_status rt_mailing_create(const struct rt_mailing_settings *settings, struct rt_mailing **mailing,
                            struct rt_error *err);
void rt_mailing_destroy(struct rt_mailing *mailing); /* when the links are closed; NULL is fine */
/* The rings begin with an update: they follow one another, and rows of the next one go along. */
void rt_mailing_begin(struct rt_mailing *mailing, uint64_t update);
/* A ring was given a batch, of which it holds RT_HEAD_AHEAD at most. */
void rt_mailing_give(struct rt_mailing *mailing, uint16_t ring, uint64_t batch);
bool rt_mailing_event(struct rt_mailing *mailing, const struct rt_event *event); /* whether it was of this */
/* Bytes that go to each head in an epoch, about. */
double rt_mailing_bytes(const struct rt_mailing *mailing);

/* ---- a head's end ---- */

struct rt_mailbox;

rt_status rt_mailbox_create(const struct rt_parting *parting, size_t part, struct rt_mailbox **mailbox,
                            struct rt_error *err);
void rt_mailbox_destroy(struct rt_mailbox *mailbox); /* when the link is closed; NULL is fine */
void rt_mailbox_open(struct rt_mailbox *mailbox, uint32_t run, struct rt_link *link,
                     unsigned channel); /* link: borrowed */
/* Whether the event was of this; if so it has been taken in. */
bool rt_mailbox_event(struct rt_mailbox *mailbox, const struct rt_event *event, rt_status *status,
                      struct rt_error *err);
/* Whether the rows of the batch are here. */
bool rt_mailbox_has(const struct rt_mailbox *mailbox, uint64_t batch);
/* The rows, which must be here: as a supply takes them. */
struct rt_supply_rows rt_mailbox_rows(struct rt_mailbox *mailbox);

#endif
