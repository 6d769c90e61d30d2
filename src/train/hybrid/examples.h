/*
 * data.send with rings side by side: the master sends the heads of the other rings their rows of each batch,
 * one EXAMPLES a batch, on the channel that an exchange without parameters leaves free (RT_CHANNEL_FIRST). A
 * head whose part of a batch has no rows gets none. The rows of the next batch travel while a ring learns
 * from this one. What a row looks like: train/exchange/sent.h.
 */
#ifndef RT_TRAIN_HYBRID_EXAMPLES_H
#define RT_TRAIN_HYBRID_EXAMPLES_H

#include "train/exchange/sent.h"
#include "train/ring/supply.h"

/* ---- the master's end ---- */

struct rt_mailing;

/* Of the lesson: network, set, scaling, target, settings. links: [rings], with the heads; borrowed. */
rt_status rt_mailing_create(const struct rt_lesson *lesson, uint32_t run, uint16_t rings,
                            struct rt_link *const *links, struct rt_mailing **mailing, struct rt_error *err);
void rt_mailing_destroy(struct rt_mailing *mailing); /* when the links are closed; NULL is fine */
/* The rings begin with a batch: batches follow one another. */
void rt_mailing_begin(struct rt_mailing *mailing, uint64_t batch);
bool rt_mailing_event(struct rt_mailing *mailing, const struct rt_event *event); /* whether it was of this */
/* Bytes that go to each head in an epoch, about. */
double rt_mailing_bytes(const struct rt_mailing *mailing);

/* ---- a head's end ---- */

struct rt_mailbox;

rt_status rt_mailbox_create(const struct rt_parting *parting, size_t part, struct rt_mailbox **mailbox,
                            struct rt_error *err);
void rt_mailbox_destroy(struct rt_mailbox *mailbox); /* when the link is closed; NULL is fine */
void rt_mailbox_open(struct rt_mailbox *mailbox, uint32_t run, struct rt_link *link); /* link: borrowed */
/* Whether the event was of this; if so it has been taken in. */
bool rt_mailbox_event(struct rt_mailbox *mailbox, const struct rt_event *event, rt_status *status,
                      struct rt_error *err);
/* Whether the rows of the batch are here. */
bool rt_mailbox_has(const struct rt_mailbox *mailbox, uint64_t batch);
/* The rows, which must be here: as a supply takes them. */
struct rt_supply_rows rt_mailbox_rows(struct rt_mailbox *mailbox);

#endif
