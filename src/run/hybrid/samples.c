/* Rows of batches from the master to the heads of other rings. */
#include "run/hybrid/samples.h"

#include "base/memory.h"
#include <stdlib.h>

static rt_status check_size(const struct rt_sample_layout *parting, struct rt_error *err) {
    const size_t floats = rt_sample_layout_floats(parting);
    if (floats <= RT_MAX_TENSOR_BYTES / sizeof(float))
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT,
                   "data.send: a ring's part of a batch is more than can be sent at a time");
}

/* ---- the master's end ---------------------------------------------------------------------------------- */

/* What is on its way to one head. */
struct address {
    uint64_t next;   /* the update whose rows are sent next; 0: none was yet */
    uint64_t packed; /* send buffers: number n is in send[n % RT_TICKETS_AHEAD] */
    struct rt_send send[RT_TICKETS_AHEAD];
    bool sending[RT_TICKETS_AHEAD];
};

struct rt_ring_sample_sender {
    struct rt_sample_sender *sender;
    struct rt_sample_layout parting;
    struct rt_ring_sample_sender_settings settings;
    uint64_t last;             /* the last update whose rows may be sent */
    struct address *addresses; /* [rings]; the first is not used */
};

rt_status rt_ring_sample_sender_create(const struct rt_ring_sample_sender_settings *settings,
                                       struct rt_ring_sample_sender **sample_sender, struct rt_error *err) {
    const struct rt_sample_sender_settings sender =
        rt_sample_sender_of(settings->config, settings->parts, settings->rings);
    struct rt_ring_sample_sender *made;
    rt_status status = check_size(&sender.parting, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *made, "examples on their way", &made, err);
    if (status != RT_OK)
        return status;
    made->parting = sender.parting;
    made->settings = *settings;
    status = rt_sample_sender_create(&sender, &made->sender, err);
    if (status == RT_OK)
        status = rt_alloc(settings->rings, sizeof *made->addresses, "examples on their way", &made->addresses,
                          err);
    if (status != RT_OK)
        rt_ring_sample_sender_destroy(made);
    else
        *sample_sender = made;
    return status;
}

void rt_ring_sample_sender_destroy(struct rt_ring_sample_sender *sample_sender) {
    if (!sample_sender)
        return;
    rt_sample_sender_destroy(sample_sender->sender);
    free(sample_sender->addresses);
    free(sample_sender);
}

double rt_ring_sample_sender_bytes(const struct rt_ring_sample_sender *sample_sender) {
    const struct rt_sample_layout *parting = &sample_sender->parting;
    return (double)parting->examples / (double)parting->parts * (double)rt_sample_layout_row_floats(parting) *
           sizeof(float);
}

void rt_ring_sample_sender_give(struct rt_ring_sample_sender *sample_sender, uint16_t ring, uint64_t batch) {
    const struct rt_ring_sample_sender_settings *settings = &sample_sender->settings;
    struct address *address = &sample_sender->addresses[ring];
    const float *floats = NULL;
    const size_t place = address->packed % RT_TICKETS_AHEAD;
    const size_t count = rt_sample_sender_pack(sample_sender->sender, ring, batch,
                                               settings->parts > 1 ? ring : 0, settings->parts, &floats);
    if (count == 0)
        return;
    const struct rt_message message = {
        .type = RT_MESSAGE_EXAMPLES,
        .run = settings->run,
        .micro = batch,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    struct rt_send *send = &address->send[place];
    *send = (struct rt_send){.channel = rt_hybrid_channel(settings->with_servers),
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{floats, count * sizeof *floats}}};
    rt_message_encode(&message, send->head);
    address->sending[place] = true;
    address->packed++;
    rt_link_send(settings->links[ring], send);
}

/* Sends what may be sent to a ring's head, as far as there is room. */
static void send_more(struct rt_ring_sample_sender *sample_sender, uint16_t ring) {
    struct address *address = &sample_sender->addresses[ring];
    while (address->next <= sample_sender->last && !address->sending[address->packed % RT_TICKETS_AHEAD])
        rt_ring_sample_sender_give(sample_sender, ring,
                                   rt_hybrid_batch(&sample_sender->settings.numbering, address->next++));
}

void rt_ring_sample_sender_begin(struct rt_ring_sample_sender *sample_sender, uint64_t update) {
    sample_sender->last = update < sample_sender->settings.config->settings.updates ? update + 1 : update;
    for (uint16_t ring = 1; ring < sample_sender->settings.rings; ring++) {
        if (sample_sender->addresses[ring].next == 0)
            sample_sender->addresses[ring].next = update;
        send_more(sample_sender, ring);
    }
}

bool rt_ring_sample_sender_event(struct rt_ring_sample_sender *sample_sender, const struct rt_event *event) {
    if (event->kind != RT_EVENT_SENT)
        return false;
    for (uint16_t ring = 1; ring < sample_sender->settings.rings; ring++)
        for (size_t i = 0; i < RT_TICKETS_AHEAD; i++)
            if (event->send == &sample_sender->addresses[ring].send[i]) {
                sample_sender->addresses[ring].sending[i] = false;
                if (sample_sender->addresses[ring].next > 0)
                    send_more(sample_sender, ring);
                return true;
            }
    return false;
}

/* ---- a head's end -------------------------------------------------------------------------------------- */

/* The rows of a batch are used while those of the next come. */
enum { PLACES = 2 };

struct rt_ring_sample_receiver {
    struct rt_sample_layout parting;
    size_t part;
    uint32_t run;
    struct rt_link *link;
    unsigned channel;
    size_t floats;    /* of a place */
    float *memory;    /* [PLACES][floats] */
    int32_t *classes; /* of the rows that are in use */
    struct rt_receive receive[PLACES];
    uint64_t batch[PLACES];
    uint64_t posted, arrived, used; /* send buffers, ever rising; send buffer n is in place n % PLACES; used:
                                       up to and with the one in use */
};

rt_status rt_ring_sample_receiver_create(const struct rt_sample_layout *parting, size_t part,
                                         struct rt_ring_sample_receiver **sample_receiver,
                                         struct rt_error *err) {
    struct rt_ring_sample_receiver *made;
    rt_status status = check_size(parting, err);
    if (status == RT_OK)
        status = rt_alloc(1, sizeof *made, "examples that are sent", &made, err);
    if (status != RT_OK)
        return status;
    made->parting = *parting;
    made->part = part;
    made->floats = rt_sample_layout_floats(parting);
    status = rt_floats_create(made->floats * PLACES, "examples that are sent", &made->memory, err);
    if (status == RT_OK)
        status = rt_alloc(parting->batch / parting->parts + 1, sizeof *made->classes,
                          "examples that are sent", &made->classes, err);
    if (status != RT_OK)
        rt_ring_sample_receiver_destroy(made);
    else
        *sample_receiver = made;
    return status;
}

void rt_ring_sample_receiver_destroy(struct rt_ring_sample_receiver *sample_receiver) {
    if (!sample_receiver)
        return;
    free(sample_receiver->memory);
    free(sample_receiver->classes);
    free(sample_receiver);
}

static void post(struct rt_ring_sample_receiver *sample_receiver) {
    for (; sample_receiver->posted < (sample_receiver->used ? sample_receiver->used - 1 : 0) + PLACES;
         sample_receiver->posted++) {
        const size_t place = sample_receiver->posted % PLACES;
        struct rt_receive *receive = &sample_receiver->receive[place];
        *receive = (struct rt_receive){.channel = sample_receiver->channel,
                                       .body = sample_receiver->memory + place * sample_receiver->floats,
                                       .body_room = sample_receiver->floats * sizeof(float)};
        rt_link_receive(sample_receiver->link, receive);
    }
}

void rt_ring_sample_receiver_open(struct rt_ring_sample_receiver *sample_receiver, uint32_t run,
                                  struct rt_link *link, unsigned channel) {
    sample_receiver->run = run;
    sample_receiver->channel = channel;
    sample_receiver->link = link;
    post(sample_receiver);
}

static size_t rows_of(const struct rt_ring_sample_receiver *sample_receiver, uint64_t batch, size_t *first) {
    return rt_sample_layout_rows(&sample_receiver->parting, batch, sample_receiver->part, first);
}

static rt_status take(struct rt_ring_sample_receiver *sample_receiver, const struct rt_receive *receive,
                      struct rt_error *err) {
    struct rt_message message;
    size_t first;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != sample_receiver->run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    if (message.type != RT_MESSAGE_EXAMPLES || message.micro == 0 || message.update != 0)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the examples",
                       rt_message_name(message.type));
    const size_t floats = rows_of(sample_receiver, message.micro, &first) *
                          rt_sample_layout_row_floats(&sample_receiver->parting);
    if (floats == 0 || message.tensors != 1 || message.tensor[0].dtype != RT_DTYPE_F32 ||
        message.tensor[0].rank != 1 || message.tensor[0].dims[0] != floats)
        return rt_fail(err, RT_BAD_INPUT, "examples of batch %llu are not the %zu floats that they should be",
                       (unsigned long long)message.micro, floats);
    sample_receiver->batch[sample_receiver->arrived++ % PLACES] = message.micro;
    return RT_OK;
}

bool rt_ring_sample_receiver_event(struct rt_ring_sample_receiver *sample_receiver,
                                   const struct rt_event *event, rt_status *status, struct rt_error *err) {
    for (size_t i = 0; event->kind == RT_EVENT_RECEIVED && i < PLACES; i++)
        if (event->receive == &sample_receiver->receive[i]) {
            *status = take(sample_receiver, event->receive, err);
            return true;
        }
    return false;
}

bool rt_ring_sample_receiver_has(const struct rt_ring_sample_receiver *sample_receiver, uint64_t batch) {
    size_t first;
    return sample_receiver->arrived > sample_receiver->used || rows_of(sample_receiver, batch, &first) == 0;
}

static rt_status take_rows(void *self, uint64_t batch, struct rt_received_rows *rows, struct rt_error *err) {
    struct rt_ring_sample_receiver *sample_receiver = self;
    *rows = (struct rt_received_rows){0};
    const size_t count = rows_of(sample_receiver, batch, &rows->first);
    if (count == 0)
        return RT_OK;
    const size_t place = sample_receiver->used++ % PLACES;
    post(sample_receiver); /* what was in use before is not any more */
    if (sample_receiver->batch[place] != batch)
        return rt_fail(err, RT_FAILED, "the master sent examples of batch %llu for a ticket of batch %llu",
                       (unsigned long long)sample_receiver->batch[place], (unsigned long long)batch);
    rows->x = sample_receiver->memory + place * sample_receiver->floats;
    return rt_sample_targets(&sample_receiver->parting, rows->x, count, sample_receiver->classes,
                             &rows->targets, err);
}

struct rt_pipeline_rows rt_ring_sample_receiver_rows(struct rt_ring_sample_receiver *sample_receiver) {
    return (struct rt_pipeline_rows){
        .self = sample_receiver, .examples = sample_receiver->parting.examples, .take = take_rows};
}
