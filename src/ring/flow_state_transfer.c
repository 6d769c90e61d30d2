/*
 * Parameters, buffers and optimizer state on their way round the ring, word by word (see learn/stage.h), on
 * the bulk channel: activations and gradients go before them.
 *
 * Gathering: the master sends COLLECT for a word. A node passes on every PART that came before the COLLECT,
 * then sends its own floats of that word out of its image, in parts, then the COLLECT. So the master gets
 * the word in layer order and the COLLECT behind it. A COLLECT that overtook its SNAPSHOT waits for it.
 *
 * Loading: the master sends the floats of a word in layer order, as PARTs of which it is the source, and LOAD
 * behind them. A node keeps as many floats as it has in that word and passes the rest on, then LOAD. When the
 * LOAD is back at the master, everybody has its numbers. Only while no micro-batch is in hand.
 *
 * A few buffers of fixed size do for all of it: a part is received into one and passed on out of it, and the
 * receive is posted again when it has left.
 */
#include "ring/flow.h"

#include "base/memory.h"
#include "learn/gradient.h"

static void post(struct rt_flow *flow) {
    struct rt_bulk *bulk = &flow->bulk;
    for (; bulk->posted < bulk->taken + RT_BULK_BUFFERS; bulk->posted++) {
        struct rt_bulk_buffer *buffer = &bulk->in[bulk->posted % RT_BULK_BUFFERS];
        if (buffer->sending)
            return;
        buffer->receive = (struct rt_receive){.channel = RT_CHANNEL_BULK,
                                              .body = buffer->floats,
                                              .body_room = RT_BULK_FLOATS * sizeof(float),
                                              .user = buffer};
        rt_link_receive(flow->previous.talk.link, &buffer->receive);
    }
}

rt_status rt_bulk_init(struct rt_flow *flow, struct rt_error *err) {
    struct rt_bulk *bulk = &flow->bulk;
    rt_status status = rt_floats_reserve(2 * RT_BULK_BUFFERS * RT_BULK_FLOATS, "parameters on their way",
                                         &bulk->memory, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < RT_BULK_BUFFERS; i++) {
        bulk->in[i].floats = bulk->memory + i * RT_BULK_FLOATS;
        bulk->own[i].floats = bulk->memory + (RT_BULK_BUFFERS + i) * RT_BULK_FLOATS;
    }
    post(flow);
    return RT_OK;
}

bool rt_bulk_idle(const struct rt_flow *flow) {
    const struct rt_bulk *bulk = &flow->bulk;
    bool sending = false;
    for (size_t i = 0; i < RT_BULK_BUFFERS; i++)
        sending |= bulk->in[i].sending || bulk->own[i].sending;
    return !sending && !bulk->giving && bulk->arrived == bulk->taken;
}

rt_status rt_bulk_arrived(struct rt_flow *flow, struct rt_bulk_buffer *buffer, struct rt_error *err) {
    const struct rt_receive *receive = &buffer->receive;
    struct rt_message *message = &buffer->message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, message, err);
    if (status != RT_OK)
        return status;
    if (message->run != flow->settings.run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message->type));
    if (message->type != RT_MESSAGE_PART && message->type != RT_MESSAGE_COLLECT &&
        message->type != RT_MESSAGE_LOAD)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the parameters",
                       rt_message_name(message->type));
    if (message->micro >= rt_stage_state_count(flow->segments[0].stage))
        return rt_fail(err, RT_BAD_INPUT, "a %s message is of word %llu, which there is not",
                       rt_message_name(message->type), (unsigned long long)message->micro);
    if (message->type == RT_MESSAGE_PART &&
        (message->tensors != 1 || message->tensor[0].dtype != RT_DTYPE_F32 || message->tensor[0].rank != 1))
        return rt_fail(err, RT_BAD_INPUT, "a part message has the wrong shape");
    /* Nobody sends such a number, and nobody passes one on: whoever we have it from is at fault. */
    if (message->type == RT_MESSAGE_PART && !rt_block_is_finite(buffer->floats, message->tensor[0].dims[0]))
        return rt_fail(err, RT_BAD_INPUT, "it sent a number that is not finite in word %llu at update %llu",
                       (unsigned long long)message->micro, (unsigned long long)message->update);
    flow->bulk.arrived++;
    return RT_OK;
}

struct rt_bulk_buffer *rt_bulk_own(struct rt_flow *flow) {
    for (size_t i = 0; i < RT_BULK_BUFFERS; i++)
        if (!flow->bulk.own[i].sending)
            return &flow->bulk.own[i];
    return NULL;
}

void rt_bulk_send(struct rt_flow *flow, struct rt_bulk_buffer *buffer, uint16_t type, size_t word,
                  uint64_t update, size_t count, bool last) {
    struct rt_message message = {.type = type,
                                 .flags = last && type == RT_MESSAGE_PART ? RT_FLAG_LAST : 0,
                                 .source = flow->settings.index,
                                 .micro = word,
                                 .update = update};
    if (type == RT_MESSAGE_PART) {
        message.tensors = 1;
        message.tensor[0] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
    }
    rt_hop_send(flow, &flow->next, RT_CHANNEL_BULK, &message, buffer->floats, count * sizeof(float), NULL, 0,
                &buffer->send, &buffer->sending);
}

/* ---- what a worker does with it ------------------------------------------------------------------------ */

/* Passes a frame on, but for the first `skip` floats of it. */
static void pass_on(struct rt_flow *flow, struct rt_bulk_buffer *buffer, size_t skip) {
    struct rt_message message = buffer->message;
    size_t count = 0;
    if (message.type == RT_MESSAGE_PART) {
        count = message.tensor[0].dims[0] - skip;
        message.tensor[0].dims[0] = (uint32_t)count;
    }
    rt_hop_send(flow, &flow->next, RT_CHANNEL_BULK, &message, buffer->floats + skip, count * sizeof(float),
                NULL, 0, &buffer->send, &buffer->sending);
}

/* One part of our own, or the COLLECT behind the last. */
static void give(struct rt_flow *flow, bool *worked) {
    struct rt_bulk *bulk = &flow->bulk;
    const struct rt_stage *stage = flow->segments[0].stage;
    struct rt_bulk_buffer *own = rt_bulk_own(flow);
    if (!own)
        return;
    const size_t left = rt_stage_state_floats(stage, bulk->word) - bulk->at;
    const size_t count = left < RT_BULK_FLOATS ? left : RT_BULK_FLOATS;
    *worked = true;
    if (count == 0) {
        rt_bulk_send(flow, own, RT_MESSAGE_COLLECT, bulk->word, stage->image_update, 0, false);
        bulk->giving = false;
        return;
    }
    rt_stage_state_read(stage, bulk->word, bulk->at, count, own->floats);
    rt_bulk_send(flow, own, RT_MESSAGE_PART, bulk->word, stage->image_update, count, count == left);
    bulk->at += count;
}

/* Whether nothing is in hand that needs the parameters as they are. */
static bool is_at_rest(const struct rt_segment *segment) {
    return segment->oldest == segment->arrived && !segment->complete;
}

/* A load begins with word 0, also when there has been one before. */
static void begin_load(struct rt_bulk *bulk, const struct rt_message *message) {
    if (message->micro == 0 && bulk->loaded == 0)
        bulk->loading = 0;
}

static rt_status keep(struct rt_flow *flow, struct rt_bulk_buffer *buffer, struct rt_error *err) {
    struct rt_bulk *bulk = &flow->bulk;
    struct rt_stage *stage = flow->segments[0].stage;
    const struct rt_message *message = &buffer->message;
    begin_load(bulk, message);
    if (message->micro != bulk->loading)
        return rt_fail(err, RT_BAD_INPUT, "a part of word %llu was not expected",
                       (unsigned long long)message->micro);
    const size_t has = message->tensor[0].dims[0];
    const size_t wants = rt_stage_state_floats(stage, bulk->loading) - bulk->loaded;
    const size_t count = has < wants ? has : wants;
    rt_stage_state_write(stage, bulk->loading, bulk->loaded, count, buffer->floats);
    bulk->loaded += count;
    if (count < has)
        pass_on(flow, buffer, count);
    return RT_OK;
}

static rt_status end_load(struct rt_flow *flow, struct rt_bulk_buffer *buffer, struct rt_error *err) {
    struct rt_bulk *bulk = &flow->bulk;
    struct rt_segment *segment = &flow->segments[0];
    begin_load(bulk, &buffer->message);
    if (buffer->message.micro != bulk->loading ||
        bulk->loaded != rt_stage_state_floats(segment->stage, bulk->loading))
        return rt_fail(err, RT_BAD_INPUT, "word %llu ended after %zu floats",
                       (unsigned long long)buffer->message.micro, bulk->loaded);
    segment->stage->update = segment->next.update = buffer->message.update;
    segment->stage->image_taken = false; /* it is of other parameters */
    bulk->loading++;
    bulk->loaded = 0;
    pass_on(flow, buffer, 0);
    return RT_OK;
}

static rt_status take(struct rt_flow *flow, struct rt_bulk_buffer *buffer, bool *waits,
                      struct rt_error *err) {
    const struct rt_message *message = &buffer->message;
    const struct rt_stage *stage = flow->segments[0].stage;
    const struct rt_flow_ends *ends = &flow->settings.ends;
    if (flow->settings.index == 0)
        return ends->bulk(ends->self, message, buffer->floats,
                          message->type == RT_MESSAGE_PART ? message->tensor[0].dims[0] : 0, err);
    const bool loads = message->type == RT_MESSAGE_LOAD || message->source == 0;
    if (loads && message->type != RT_MESSAGE_COLLECT) {
        /* What passed before may still be on its way out. */
        *waits = !is_at_rest(&flow->segments[0]);
        if (*waits)
            return RT_OK;
        return message->type == RT_MESSAGE_LOAD ? end_load(flow, buffer, err) : keep(flow, buffer, err);
    }
    if (message->type == RT_MESSAGE_PART) {
        pass_on(flow, buffer, 0);
        return RT_OK;
    }
    if (stage->image_taken && stage->image_update > message->update)
        return rt_fail(err, RT_BAD_INPUT, "it asks for the parameters of update %llu, which are gone",
                       (unsigned long long)message->update);
    *waits = !stage->image_taken || stage->image_update != message->update;
    if (!*waits) {
        flow->bulk.giving = true;
        flow->bulk.word = (size_t)message->micro;
        flow->bulk.at = 0;
    }
    return RT_OK;
}

rt_status rt_bulk_work(struct rt_flow *flow, bool *worked, struct rt_error *err) {
    struct rt_bulk *bulk = &flow->bulk;
    post(flow);
    if (bulk->giving) {
        give(flow, worked);
        return RT_OK;
    }
    if (bulk->arrived == bulk->taken)
        return RT_OK;
    struct rt_bulk_buffer *buffer = &bulk->in[bulk->taken % RT_BULK_BUFFERS];
    bool waits = false;
    rt_status status = take(flow, buffer, &waits, err);
    char who[32];
    if (status != RT_OK && flow->settings.index > 0)
        return rt_fail_prefix(err, rt_flow_lose(flow, &flow->previous), "%s (%s)",
                              rt_neighbour_name(&flow->previous, who), flow->previous.talk.link->peer);
    if (status == RT_OK && !waits) {
        bulk->taken++;
        *worked = true;
        post(flow);
    }
    return status;
}
