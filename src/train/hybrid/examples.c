/* Rows of batches from the master to the heads of other rings. */
#include "train/hybrid/examples.h"

#include "base/memory.h"
#include <stdlib.h>

static rt_status check_size(const struct rt_parting *parting, struct rt_error *err) {
    const size_t floats = rt_parting_floats(parting);
    if (floats <= RT_MAX_TENSOR_BYTES / sizeof(float))
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "data.send: a ring's part of a batch is more than can be sent at a time");
}

/* ---- the master's end ---------------------------------------------------------------------------------- */

/* What is on its way to one head. */
struct address {
    uint64_t next;   /* the update whose rows are sent next; 0: none was yet */
    uint64_t packed; /* parcels: number n is in send[n % RT_CREW_AHEAD] */
    struct rt_send send[RT_CREW_AHEAD];
    bool sending[RT_CREW_AHEAD];
};

struct rt_mailing {
    struct rt_sender *sender;
    struct rt_parting parting;
    struct rt_mailing_settings settings;
    uint64_t last;             /* the last update whose rows may be sent */
    struct address *addresses; /* [rings]; the first is not used */
};

rt_status rt_mailing_create(const struct rt_mailing_settings *settings, struct rt_mailing **mailing,
                            struct rt_error *err) {
    const struct rt_sender_settings sender = rt_sender_of(settings->lesson, settings->parts, settings->rings);
    struct rt_mailing *made;
    rt_status status = check_size(&sender.parting, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *made, "examples on their way", &made, err);
    if (status != RT_OK)
        return status;
    made->parting = sender.parting;
    made->settings = *settings;
    status = rt_sender_create(&sender, &made->sender, err);
    if (status == RT_OK)
        status = rt_alloc(settings->rings, sizeof *made->addresses, "examples on their way", &made->addresses,
                          err);
    if (status != RT_OK)
        rt_mailing_destroy(made);
    else
        *mailing = made;
    return status;
}

void rt_mailing_destroy(struct rt_mailing *mailing) {
    if (!mailing)
        return;
    rt_sender_destroy(mailing->sender);
    free(mailing->addresses);
    free(mailing);
}

double rt_mailing_bytes(const struct rt_mailing *mailing) {
    const struct rt_parting *parting = &mailing->parting;
    return (double)parting->examples / (double)parting->parts * (double)rt_parting_row_floats(parting) *
           sizeof(float);
}

void rt_mailing_give(struct rt_mailing *mailing, uint16_t ring, uint64_t batch) {
    const struct rt_mailing_settings *settings = &mailing->settings;
    struct address *address = &mailing->addresses[ring];
    const float *floats = NULL;
    const size_t place = address->packed % RT_CREW_AHEAD;
    const size_t count = rt_sender_pack(mailing->sender, ring, batch, settings->parts > 1 ? ring : 0,
                                        settings->parts, &floats);
    if (count == 0)
        return;
    const struct rt_message message = {
        .type = RT_MESSAGE_EXAMPLES,
        .run = settings->run,
        .micro = batch,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    struct rt_send *send = &address->send[place];
    *send = (struct rt_send){.channel = rt_hybrid_channel(settings->served),
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{floats, count * sizeof *floats}}};
    rt_message_encode(&message, send->head);
    address->sending[place] = true;
    address->packed++;
    rt_link_send(settings->links[ring], send);
}

/* Sends what may be sent to a ring's head, as far as there is room. */
static void send_more(struct rt_mailing *mailing, uint16_t ring) {
    struct address *address = &mailing->addresses[ring];
    while (address->next <= mailing->last && !address->sending[address->packed % RT_CREW_AHEAD])
        rt_mailing_give(mailing, ring, rt_hybrid_batch(&mailing->settings.numbering, address->next++));
}

void rt_mailing_begin(struct rt_mailing *mailing, uint64_t update) {
    mailing->last = update < mailing->settings.lesson->settings.updates ? update + 1 : update;
    for (uint16_t ring = 1; ring < mailing->settings.rings; ring++) {
        if (mailing->addresses[ring].next == 0)
            mailing->addresses[ring].next = update;
        send_more(mailing, ring);
    }
}

bool rt_mailing_event(struct rt_mailing *mailing, const struct rt_event *event) {
    if (event->kind != RT_EVENT_SENT)
        return false;
    for (uint16_t ring = 1; ring < mailing->settings.rings; ring++)
        for (size_t i = 0; i < RT_CREW_AHEAD; i++)
            if (event->send == &mailing->addresses[ring].send[i]) {
                mailing->addresses[ring].sending[i] = false;
                if (mailing->addresses[ring].next > 0)
                    send_more(mailing, ring);
                return true;
            }
    return false;
}

/* ---- a head's end -------------------------------------------------------------------------------------- */

/* The rows of a batch are used while those of the next come. */
enum { PLACES = 2 };

struct rt_mailbox {
    struct rt_parting parting;
    size_t part;
    uint32_t run;
    struct rt_link *link;
    unsigned channel;
    size_t floats;    /* of a place */
    float *memory;    /* [PLACES][floats] */
    int32_t *classes; /* of the rows that are in use */
    struct rt_receive receive[PLACES];
    uint64_t batch[PLACES];
    uint64_t posted, arrived, used; /* parcels, ever rising; parcel n is in place n % PLACES; used: up to and
                                       with the one in use */
};

rt_status rt_mailbox_create(const struct rt_parting *parting, size_t part, struct rt_mailbox **mailbox,
                            struct rt_error *err) {
    struct rt_mailbox *made;
    rt_status status = check_size(parting, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *made, "examples that are sent", &made, err);
    if (status != RT_OK)
        return status;
    made->parting = *parting;
    made->part = part;
    made->floats = rt_parting_floats(parting);
    status = rt_floats_create(made->floats * PLACES, "examples that are sent", &made->memory, err);
    if (status == RT_OK)
        status = rt_alloc(parting->batch / parting->parts + 1, sizeof *made->classes,
                          "examples that are sent", &made->classes, err);
    if (status != RT_OK)
        rt_mailbox_destroy(made);
    else
        *mailbox = made;
    return status;
}

void rt_mailbox_destroy(struct rt_mailbox *mailbox) {
    if (!mailbox)
        return;
    free(mailbox->memory);
    free(mailbox->classes);
    free(mailbox);
}

static void post(struct rt_mailbox *mailbox) {
    for (; mailbox->posted < (mailbox->used ? mailbox->used - 1 : 0) + PLACES; mailbox->posted++) {
        const size_t place = mailbox->posted % PLACES;
        struct rt_receive *receive = &mailbox->receive[place];
        *receive = (struct rt_receive){.channel = mailbox->channel,
                                       .body = mailbox->memory + place * mailbox->floats,
                                       .body_room = mailbox->floats * sizeof(float)};
        rt_link_receive(mailbox->link, receive);
    }
}

void rt_mailbox_open(struct rt_mailbox *mailbox, uint32_t run, struct rt_link *link, unsigned channel) {
    mailbox->run = run;
    mailbox->channel = channel;
    mailbox->link = link;
    post(mailbox);
}

static size_t rows_of(const struct rt_mailbox *mailbox, uint64_t batch, size_t *first) {
    return rt_parting_rows(&mailbox->parting, batch, mailbox->part, first);
}

static rt_status take(struct rt_mailbox *mailbox, const struct rt_receive *receive, struct rt_error *err) {
    struct rt_message message;
    size_t first;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != mailbox->run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    if (message.type != RT_MESSAGE_EXAMPLES || message.micro == 0 || message.update != 0)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the examples",
                       rt_message_name(message.type));
    const size_t floats = rows_of(mailbox, message.micro, &first) * rt_parting_row_floats(&mailbox->parting);
    if (floats == 0 || message.tensors != 1 || message.tensor[0].dtype != RT_DTYPE_F32 ||
        message.tensor[0].rank != 1 || message.tensor[0].dims[0] != floats)
        return rt_fail(err, RT_BAD_INPUT, "examples of batch %llu are not the %zu floats that they should be",
                       (unsigned long long)message.micro, floats);
    mailbox->batch[mailbox->arrived++ % PLACES] = message.micro;
    return RT_OK;
}

bool rt_mailbox_event(struct rt_mailbox *mailbox, const struct rt_event *event, rt_status *status,
                      struct rt_error *err) {
    for (size_t i = 0; event->kind == RT_EVENT_RECEIVED && i < PLACES; i++)
        if (event->receive == &mailbox->receive[i]) {
            *status = take(mailbox, event->receive, err);
            return true;
        }
    return false;
}

bool rt_mailbox_has(const struct rt_mailbox *mailbox, uint64_t batch) {
    size_t first;
    return mailbox->arrived > mailbox->used || rows_of(mailbox, batch, &first) == 0;
}

static rt_status take_rows(void *self, uint64_t batch, struct rt_sent_rows *rows, struct rt_error *err) {
    struct rt_mailbox *mailbox = self;
    *rows = (struct rt_sent_rows){0};
    const size_t count = rows_of(mailbox, batch, &rows->first);
    if (count == 0)
        return RT_OK;
    const size_t place = mailbox->used++ % PLACES;
    post(mailbox); /* what was in use before is not any more */
    if (mailbox->batch[place] != batch)
        return rt_fail(err, RT_FAILED, "the master sent examples of batch %llu for a ticket of batch %llu",
                       (unsigned long long)mailbox->batch[place], (unsigned long long)batch);
    rows->x = mailbox->memory + place * mailbox->floats;
    return rt_sent_targets(&mailbox->parting, rows->x, count, mailbox->classes, &rows->targets, err);
}

struct rt_supply_rows rt_mailbox_rows(struct rt_mailbox *mailbox) {
    return (struct rt_supply_rows){.self = mailbox, .examples = mailbox->parting.examples, .take = take_rows};
}
