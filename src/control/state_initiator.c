/* The side of a state transfer that gives the orders; see state_transfer.h. */
#include "control/state_transfer.h"

#include <stdlib.h>

/* Floats that one FETCH asks for at most: its head has 32 bits for their number. */
enum { STATE_FETCH_FLOATS = 1 << 30 };

rt_status rt_state_initiator_init(struct rt_state_initiator *initiator, uint32_t run, uint16_t rank,
                                  unsigned channel, bool finite, struct rt_error *err) {
    *initiator = (struct rt_state_initiator){.channel = channel, .run = run, .rank = rank, .finite = finite};
    return rt_state_frames_init(initiator->in, initiator->out, channel, &initiator->memory, err);
}

void rt_state_initiator_deinit(struct rt_state_initiator *initiator) {
    free(initiator->memory);
    *initiator = (struct rt_state_initiator){0};
}

void rt_state_initiator_order(struct rt_state_initiator *initiator, const struct rt_state_order *order) {
    initiator->order = *order;
    initiator->asked = initiator->moved = 0;
    initiator->status = RT_OK;
    initiator->busy = order->kind == RT_STATE_DECLARE || order->count > 0;
}

void rt_state_initiator_begin(struct rt_state_initiator *initiator, const struct rt_state_order *order) {
    rt_state_initiator_order(initiator, order);
    rt_state_initiator_go_on(initiator);
}

void rt_state_initiator_cancel(struct rt_state_initiator *initiator) {
    initiator->busy = false;
    initiator->failed = true;
}

rt_status rt_state_initiator_result(const struct rt_state_initiator *initiator, struct rt_error *err) {
    return initiator->status == RT_OK ? RT_OK : rt_fail(err, initiator->status, "%s", initiator->error.text);
}

static bool state_initiator_is_sending(const struct rt_state_initiator *initiator) {
    bool sending = false;
    for (size_t i = 0; i < RT_STATE_WINDOW; i++)
        sending |= initiator->out[i].sending;
    return sending;
}

static struct rt_message state_initiator_head(const struct rt_state_initiator *initiator, uint16_t type) {
    return (struct rt_message){
        .type = type, .source = initiator->rank, .target = initiator->order.node, .run = initiator->run};
}

static size_t state_initiator_piece(size_t left) {
    return left < RT_STATE_PIECE ? left : RT_STATE_PIECE;
}

/* Receives for the pieces that will come, as far as there are buffers. */
static void state_initiator_post(struct rt_state_initiator *initiator, size_t answers) {
    for (; initiator->posted < RT_STATE_WINDOW && initiator->posted < answers; initiator->posted++)
        rt_state_frame_post(&initiator->in[(initiator->received + initiator->posted) % RT_STATE_WINDOW],
                            initiator->order.in);
}

static void state_initiator_fetch(struct rt_state_initiator *initiator) {
    const struct rt_state_order *order = &initiator->order;
    struct rt_state_frame *out = rt_state_frame_free(initiator->out);
    if (initiator->moved == initiator->asked && initiator->asked < order->count && out) {
        const size_t left = order->count - initiator->asked,
                     count = left < STATE_FETCH_FLOATS ? left : STATE_FETCH_FLOATS;
        struct rt_message message = state_initiator_head(initiator, RT_MESSAGE_FETCH);
        message.state_version = order->version;
        message.tensor_index = (uint32_t)order->tensor;
        message.first = order->first + initiator->asked;
        message.floats = (uint32_t)count;
        initiator->asked += count;
        rt_state_frame_send(out, order->out, &message, 0);
    }
    const size_t expected = initiator->asked - initiator->moved;
    state_initiator_post(initiator, (expected + RT_STATE_PIECE - 1) / RT_STATE_PIECE);
}

static void state_initiator_store(struct rt_state_initiator *initiator) {
    const struct rt_state_order *order = &initiator->order;
    struct rt_state_frame *out;
    while (initiator->status == RT_OK && initiator->moved < order->count &&
           (out = rt_state_frame_free(initiator->out))) {
        const size_t count = state_initiator_piece(order->count - initiator->moved);
        struct rt_message message = state_initiator_head(initiator, RT_MESSAGE_PART);
        message.state_version = order->version;
        message.tensor_index = (uint32_t)order->tensor;
        message.first = order->first + initiator->moved;
        message.tensors = 1;
        message.tensor[0] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
        initiator->status = order->give(order->user, order->tensor, count, out->floats, &initiator->error);
        if (initiator->status == RT_OK)
            rt_state_frame_send(out, order->out, &message, count);
        initiator->moved += count;
    }
}

/* asked: LOAD has been sent; moved: it is back. */
static void state_initiator_declare(struct rt_state_initiator *initiator) {
    struct rt_state_frame *out = rt_state_frame_free(initiator->out);
    if (initiator->asked == 0 && out) {
        struct rt_message message = state_initiator_head(initiator, RT_MESSAGE_LOAD);
        message.update = initiator->order.version;
        message.stored = initiator->order.count;
        initiator->asked = 1;
        rt_state_frame_send(out, initiator->order.out, &message, 0);
    }
    state_initiator_post(initiator, initiator->asked - initiator->moved);
}

void rt_state_initiator_go_on(struct rt_state_initiator *initiator) {
    const struct rt_state_order *order = &initiator->order;
    if (!initiator->busy)
        return;
    if (order->kind == RT_STATE_FETCH)
        state_initiator_fetch(initiator);
    else if (order->kind == RT_STATE_STORE)
        state_initiator_store(initiator);
    else
        state_initiator_declare(initiator);
    const size_t all = order->kind == RT_STATE_DECLARE ? 1 : order->count;
    const bool given_up = order->kind == RT_STATE_STORE && initiator->status != RT_OK;
    initiator->busy = (initiator->moved < all && !given_up) || state_initiator_is_sending(initiator);
}

/* What the holder answered. */
static rt_status state_initiator_check(const struct rt_state_initiator *initiator,
                                       const struct rt_state_frame *frame, struct rt_error *err) {
    const struct rt_state_order *order = &initiator->order;
    const struct rt_message *message = &frame->message;
    const uint16_t expected = order->kind == RT_STATE_FETCH ? RT_MESSAGE_PART : RT_MESSAGE_LOAD;
    if (!initiator->busy || message->type != expected || message->source != order->node ||
        message->target != initiator->rank)
        return rt_fail(err, RT_BAD_INPUT, "unexpected %s message of node %u in a state transfer",
                       rt_message_name(message->type), message->source);
    if (expected == RT_MESSAGE_LOAD)
        return message->update == order->version
                   ? RT_OK
                   : rt_fail(err, RT_BAD_INPUT, "it took note of update %llu instead of %llu",
                             (unsigned long long)message->update, (unsigned long long)order->version);
    if (message->state_version != order->version)
        return rt_fail(err, RT_BAD_INPUT, "it sent its state of update %llu instead of %llu",
                       (unsigned long long)message->state_version, (unsigned long long)order->version);
    if (message->tensor_index != order->tensor || message->first != order->first + initiator->moved ||
        rt_state_frame_floats(frame) != state_initiator_piece(initiator->asked - initiator->moved))
        return rt_fail(err, RT_BAD_INPUT, "it sent another range of its state than the one asked for");
    return RT_OK;
}

static void state_initiator_take(struct rt_state_initiator *initiator, const struct rt_state_frame *frame) {
    const struct rt_state_order *order = &initiator->order;
    const size_t count = rt_state_frame_floats(frame);
    if (order->kind == RT_STATE_FETCH && initiator->status == RT_OK)
        initiator->status = order->take(order->user, order->tensor, count, frame->floats, &initiator->error);
    initiator->moved += order->kind == RT_STATE_FETCH ? count : 1;
}

bool rt_state_initiator_event(struct rt_state_initiator *initiator, const struct rt_event *event,
                              rt_status *status, struct rt_error *err) {
    struct rt_state_frame *out = rt_state_frame_of(initiator->out, event);
    struct rt_state_frame *in = rt_state_frame_of(initiator->in, event);
    if (!out && !in)
        return false;
    *status = RT_OK;
    if (out) {
        out->sending = false;
    } else if (initiator->failed) {
        return true;
    } else {
        initiator->posted--;
        initiator->received++;
        *status = rt_state_frame_decode(in, initiator->run, initiator->finite, err);
        if (*status == RT_OK)
            *status = state_initiator_check(initiator, in, err);
        if (*status == RT_OK)
            state_initiator_take(initiator, in);
        initiator->failed = *status != RT_OK;
    }
    if (*status == RT_OK)
        rt_state_initiator_go_on(initiator);
    return true;
}
