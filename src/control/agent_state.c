/*
 * Numbers that the master asks for or sets, the other side of crew_numbers.c. Frames are taken in order, and
 * only while nothing is under way, except examples. What comes is checked before it is copied to where it
 * belongs.
 */
#include "control/agent_inside.h"

#include "base/memory.h"
#include <string.h>

static void post(struct rt_agent *agent) {
    struct rt_agent_transfer *transfer = &agent->transfer;
    for (; transfer->posted < transfer->taken + RT_TRANSFER_WINDOW_IN; transfer->posted++) {
        struct rt_piece_buffer *buffer = &transfer->in[transfer->posted % RT_TRANSFER_WINDOW_IN];
        buffer->receive = (struct rt_receive){.channel = RT_CHANNEL_BULK,
                                              .body = buffer->floats,
                                              .body_room = RT_TRANSFER_PIECE * sizeof(float),
                                              .user = buffer};
        rt_link_receive(agent->link, &buffer->receive);
    }
}

rt_status rt_agent_transfer_init(struct rt_agent *agent, struct rt_error *err) {
    struct rt_agent_transfer *transfer = &agent->transfer;
    rt_status status = rt_floats_reserve(2 * RT_TRANSFER_WINDOW_IN * RT_TRANSFER_PIECE,
                                         "parameters and examples on their way", &transfer->memory, err);
    if (status != RT_OK)
        return status;
    for (size_t i = 0; i < RT_TRANSFER_WINDOW_IN; i++) {
        transfer->in[i].floats = transfer->memory + i * RT_TRANSFER_PIECE;
        transfer->out[i].floats = transfer->memory + (RT_TRANSFER_WINDOW_IN + i) * RT_TRANSFER_PIECE;
    }
    post(agent);
    return RT_OK;
}

/* The floats that a message speaks of: count of them from message->update on. */
static rt_status find(const struct rt_agent *agent, const struct rt_message *message, size_t count,
                      float **floats, struct rt_error *err) {
    const struct rt_agent_settings *settings = &agent->settings;
    const size_t total = settings->param_count;
    float *word = NULL;
    if (message->micro < settings->words && settings->word)
        word = settings->word(settings->user, (size_t)message->micro);
    if (!word)
        return rt_fail(err, RT_BAD_INPUT, "a %s message is of word %llu, which there is not",
                       rt_message_name(message->type), (unsigned long long)message->micro);
    if (count == 0 || count > RT_TRANSFER_PIECE || message->update > total || count > total - message->update)
        return rt_fail(err, RT_BAD_INPUT, "a %s message is of %zu floats from %llu on, and there are %zu",
                       rt_message_name(message->type), count, (unsigned long long)message->update, total);
    *floats = word + message->update;
    return RT_OK;
}

static rt_status check(const struct rt_agent *agent, const struct rt_message *message, struct rt_error *err) {
    float *floats;
    if (message->run != agent->settings.comm->run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message->type));
    if (message->type == RT_MESSAGE_LOAD)
        return RT_OK;
    if (message->type == RT_MESSAGE_COLLECT)
        return find(agent, message, message->epoch, &floats, err);
    const bool examples = message->type == RT_MESSAGE_EXAMPLES && agent->settings.examples;
    if (message->type != RT_MESSAGE_PART && !examples)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the numbers",
                       rt_message_name(message->type));
    if (message->tensors != 1 || message->tensor[0].dtype != RT_DTYPE_F32 || message->tensor[0].rank != 1)
        return rt_fail(err, RT_BAD_INPUT, "a %s message has the wrong shape", rt_message_name(message->type));
    if (examples)
        return RT_OK;
    return find(agent, message, message->tensor[0].dims[0], &floats, err);
}

static struct rt_piece_buffer *free_buffer(struct rt_agent *agent) {
    for (size_t i = 0; i < RT_TRANSFER_WINDOW_IN; i++)
        if (!agent->transfer.out[i].sending)
            return &agent->transfer.out[i];
    return NULL;
}

static void send(struct rt_agent *agent, struct rt_piece_buffer *buffer, struct rt_message message,
                 size_t count) {
    message.source = agent->settings.comm->rank;
    message.run = agent->settings.comm->run;
    buffer->send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                                    .head_bytes = RT_MESSAGE_HEAD,
                                    .body = {{buffer->floats, count * sizeof(float)}},
                                    .user = buffer};
    rt_message_encode(&message, buffer->send.head);
    buffer->sending = true;
    rt_link_send(agent->link, &buffer->send);
}

/* A piece that was asked for. false: no buffer is free. */
static bool give(struct rt_agent *agent, const struct rt_message *asked, const float *floats) {
    struct rt_piece_buffer *buffer = free_buffer(agent);
    if (!buffer)
        return false;
    const size_t count = asked->epoch;
    memcpy(buffer->floats, floats, count * sizeof *floats);
    const struct rt_message message = {
        .type = RT_MESSAGE_PART,
        .micro = asked->micro,
        .update = asked->update,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    send(agent, buffer, message, count);
    return true;
}

/* A LOAD is first told to the owner, by the thread that works, and answered then. */
static bool answer_load(struct rt_agent *agent, const struct rt_message *message) {
    struct rt_agent_transfer *transfer = &agent->transfer;
    struct rt_piece_buffer *buffer = free_buffer(agent);
    if (transfer->load == RT_NO_LOAD)
        transfer->load = RT_LOAD_DUE;
    if (transfer->load != RT_LOAD_TOLD || !buffer)
        return false;
    transfer->load = RT_NO_LOAD;
    send(agent, buffer, (struct rt_message){.type = RT_MESSAGE_LOAD, .update = message->update}, 0);
    return true;
}

/* false: not yet, or something failed. */
static bool take_frame(struct rt_agent *agent, const struct rt_piece_buffer *buffer, rt_status *status,
                       struct rt_error *err) {
    const struct rt_message *message = &buffer->message;
    const bool asks = message->type == RT_MESSAGE_COLLECT;
    float *floats;
    if (message->type == RT_MESSAGE_LOAD)
        return answer_load(agent, message);
    const size_t count = asks ? message->epoch : message->tensor[0].dims[0];
    if (message->type == RT_MESSAGE_EXAMPLES) {
        *status = agent->settings.examples(agent->settings.user, message->micro, message->update,
                                           buffer->floats, count, err);
        return *status == RT_OK;
    }
    *status = find(agent, message, count, &floats, err);
    if (*status != RT_OK)
        return false;
    if (asks)
        return give(agent, message, floats);
    memcpy(floats, buffer->floats, count * sizeof *floats);
    return true;
}

rt_status rt_agent_transfer_go_on(struct rt_agent *agent, struct rt_error *err) {
    struct rt_agent_transfer *transfer = &agent->transfer;
    rt_status status = RT_OK;
    while (transfer->taken < transfer->arrived) {
        const struct rt_piece_buffer *next = &transfer->in[transfer->taken % RT_TRANSFER_WINDOW_IN];
        if (!agent->at_rest && next->message.type != RT_MESSAGE_EXAMPLES)
            break;
        if (!take_frame(agent, next, &status, err))
            break;
        transfer->taken++;
    }
    if (!agent->talk->closed)
        post(agent);
    return status;
}

uint64_t rt_agent_transfer_update(const struct rt_agent *agent) {
    return agent->transfer.in[agent->transfer.taken % RT_TRANSFER_WINDOW_IN].message.update;
}

rt_status rt_agent_transfer_event(struct rt_agent *agent, const struct rt_event *event,
                                  struct rt_error *err) {
    if (event->kind == RT_EVENT_SENT) {
        struct rt_piece_buffer *buffer = event->send->user;
        buffer->sending = false;
        return rt_agent_transfer_go_on(agent, err);
    }
    struct rt_piece_buffer *buffer = event->receive->user;
    const struct rt_receive *receive = event->receive;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &buffer->message, err);
    if (status == RT_OK)
        status = check(agent, &buffer->message, err);
    if (status != RT_OK)
        return status;
    agent->transfer.arrived++;
    return rt_agent_transfer_go_on(agent, err);
}
