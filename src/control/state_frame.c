/* Frames of a state transfer: a head with a piece of a state tensor; see state_transfer.h. */
#include "base/memory.h"
#include "control/state_transfer.h"
#include <math.h>

rt_status rt_state_frames_init(struct rt_state_frame in[RT_STATE_WINDOW],
                               struct rt_state_frame out[RT_STATE_WINDOW], unsigned channel, float **memory,
                               struct rt_error *err) {
    RT_TRY(rt_floats_reserve(2 * RT_STATE_WINDOW * (size_t)RT_STATE_PIECE, "state in transfer", memory, err));
    for (size_t i = 0; i < RT_STATE_WINDOW; i++) {
        in[i].channel = out[i].channel = channel ? channel : RT_CHANNEL_BULK;
        in[i].floats = *memory + i * RT_STATE_PIECE;
        out[i].floats = *memory + (RT_STATE_WINDOW + i) * RT_STATE_PIECE;
    }
    return RT_OK;
}

void rt_state_frame_post(struct rt_state_frame *frame, struct rt_link *link) {
    frame->receive = (struct rt_receive){
        .channel = frame->channel, .body = frame->floats, .body_room = RT_STATE_PIECE * sizeof(float)};
    rt_link_receive(link, &frame->receive);
}

void rt_state_frame_send(struct rt_state_frame *frame, struct rt_link *link, const struct rt_message *message,
                         size_t count) {
    frame->send = (struct rt_send){.channel = frame->channel,
                                   .head_bytes = RT_MESSAGE_HEAD,
                                   .body = {{frame->floats, count * sizeof(float)}}};
    rt_message_encode(message, frame->send.head);
    frame->sending = true;
    rt_link_send(link, &frame->send);
}

static bool state_frame_is_finite(const struct rt_state_frame *frame) {
    const size_t count = rt_state_frame_floats(frame);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(frame->floats[i]))
            return false;
    return true;
}

rt_status rt_state_frame_decode(struct rt_state_frame *frame, uint32_t run, bool finite,
                                struct rt_error *err) {
    const struct rt_receive *receive = &frame->receive;
    struct rt_message *message = &frame->message;
    RT_TRY(rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, message, err));
    const char *name = rt_message_name(message->type);
    if (message->run != run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run", name);
    const bool floats = message->type == RT_MESSAGE_PART || message->type == RT_MESSAGE_EXAMPLES;
    if (!floats && message->type != RT_MESSAGE_FETCH && message->type != RT_MESSAGE_LOAD)
        return rt_fail(err, RT_BAD_INPUT, "unexpected %s message in a state transfer", name);
    if (floats &&
        (message->tensors != 1 || message->tensor[0].dtype != RT_DTYPE_F32 || message->tensor[0].rank != 1))
        return rt_fail(err, RT_BAD_INPUT, "a %s message has the wrong shape", name);
    if (finite && message->type == RT_MESSAGE_PART && !state_frame_is_finite(frame))
        return rt_fail(err, RT_BAD_INPUT, "it sent a non-finite value in state tensor %u",
                       message->tensor_index);
    return RT_OK;
}

struct rt_state_frame *rt_state_frame_free(struct rt_state_frame frames[RT_STATE_WINDOW]) {
    for (size_t i = 0; i < RT_STATE_WINDOW; i++)
        if (!frames[i].sending)
            return &frames[i];
    return NULL;
}

struct rt_state_frame *rt_state_frame_of(struct rt_state_frame frames[RT_STATE_WINDOW],
                                         const struct rt_event *event) {
    for (size_t i = 0; i < RT_STATE_WINDOW; i++)
        if ((event->kind == RT_EVENT_SENT && event->send == &frames[i].send) ||
            (event->kind == RT_EVENT_RECEIVED && event->receive == &frames[i].receive))
            return &frames[i];
    return NULL;
}

size_t rt_state_frame_floats(const struct rt_state_frame *frame) {
    return frame->message.tensors ? frame->message.tensor[0].dims[0] : 0;
}
