/* The side of a state transfer that holds the state; see state_transfer.h. */
#include "control/state_transfer.h"

#include <stdlib.h>

/* A frame that is passed on is received into again only when it has left. */
static void state_holder_post(struct rt_state_holder *holder) {
    for (; holder->posted < holder->taken + RT_STATE_WINDOW; holder->posted++) {
        struct rt_state_frame *frame = &holder->in[holder->posted % RT_STATE_WINDOW];
        if (frame->sending)
            return;
        rt_state_frame_post(frame, holder->settings.in);
    }
}

rt_status rt_state_holder_init(struct rt_state_holder *holder,
                               const struct rt_state_holder_settings *settings, struct rt_error *err) {
    *holder = (struct rt_state_holder){.settings = *settings};
    RT_TRY(rt_state_frames_init(holder->in, holder->out, settings->channel, &holder->memory, err));
    state_holder_post(holder);
    return RT_OK;
}

void rt_state_holder_deinit(struct rt_state_holder *holder) {
    free(holder->memory);
    *holder = (struct rt_state_holder){0};
}

/* ---- what comes in ---- */

static bool state_holder_is_for_us(const struct rt_state_holder *holder, const struct rt_state_frame *frame) {
    return frame->message.type == RT_MESSAGE_EXAMPLES || frame->message.target == holder->settings.rank;
}

static struct rt_state_range state_holder_range(const struct rt_message *message, size_t count) {
    return (struct rt_state_range){.version = message->state_version,
                                   .tensor = message->tensor_index,
                                   .first = (size_t)message->first,
                                   .count = count};
}

/* Of a FETCH or PART: that the floats it speaks of are here, or may be written here. */
static rt_status state_holder_check_range(const struct rt_state_holder *holder,
                                          const struct rt_message *message, uint64_t count,
                                          struct rt_error *err) {
    const struct rt_state_store *store = &holder->settings.store;
    const char *name = rt_message_name(message->type);
    size_t begin = 0;
    if (message->tensor_index >= store->tensors)
        return rt_fail(err, RT_BAD_INPUT, "a %s message names state tensor %u; there are %zu", name,
                       message->tensor_index, store->tensors);
    const size_t total = store->floats(store->self, message->tensor_index, &begin);
    if (count > 0 && message->first >= begin && message->first - begin <= total &&
        count <= total - (message->first - begin))
        return RT_OK;
    /* It may keep those of others as well. */
    const struct rt_state_range range = state_holder_range(message, (size_t)count);
    if (count > 0 && message->first <= SIZE_MAX - count && message->type == RT_MESSAGE_FETCH &&
        store->has(store->self, &range) == RT_STATE_HERE)
        return RT_OK;
    return rt_fail(err, RT_BAD_INPUT, "a %s message names %llu floats from %llu on; the node has %zu%s", name,
                   (unsigned long long)count, (unsigned long long)message->first, total,
                   begin ? " others" : "");
}

static rt_status state_holder_check(const struct rt_state_holder *holder, const struct rt_state_frame *frame,
                                    struct rt_error *err) {
    const struct rt_state_holder_settings *settings = &holder->settings;
    const struct rt_message *message = &frame->message;
    const char *name = rt_message_name(message->type);
    if (message->type == RT_MESSAGE_EXAMPLES && !settings->examples)
        return rt_fail(err, RT_BAD_INPUT, "unexpected examples: this node has data of its own");
    if (!state_holder_is_for_us(holder, frame))
        return settings->in != settings->out
                   ? RT_OK
                   : rt_fail(err, RT_BAD_INPUT, "a %s message for node %u came to node %u", name,
                             message->target, settings->rank);
    if (message->type == RT_MESSAGE_EXAMPLES)
        return RT_OK;
    if (settings->store.tensors == 0 || (message->type == RT_MESSAGE_FETCH && !settings->store.has))
        return rt_fail(err, RT_BAD_INPUT, "unexpected %s message: this node's state is not to be had", name);
    if (message->type == RT_MESSAGE_FETCH)
        return state_holder_check_range(holder, message, message->floats, err);
    if (message->type == RT_MESSAGE_PART)
        return state_holder_check_range(holder, message, rt_state_frame_floats(frame), err);
    return RT_OK;
}

bool rt_state_holder_event(struct rt_state_holder *holder, const struct rt_event *event, rt_status *status,
                           struct rt_error *err) {
    struct rt_state_frame *frame = rt_state_frame_of(holder->in, event);
    if (!frame)
        frame = rt_state_frame_of(holder->out, event);
    if (!frame)
        return false;
    *status = RT_OK;
    if (event->kind == RT_EVENT_SENT) {
        frame->sending = false;
        return true;
    }
    if (holder->failed)
        return true;
    *status = rt_state_frame_decode(frame, holder->settings.run, holder->settings.finite, err);
    if (*status == RT_OK)
        *status = state_holder_check(holder, frame, err);
    /* Frames are identified by their order: after a refused frame, no later one can be attributed. */
    holder->failed = *status != RT_OK;
    holder->arrived += !holder->failed;
    return true;
}

/* ---- what is done with it ---- */

/* The next piece of what was asked for; whether it was the last. */
static bool state_holder_give(struct rt_state_holder *holder, const struct rt_message *asked,
                              struct rt_state_frame *out) {
    const struct rt_state_store *store = &holder->settings.store;
    const size_t left = asked->floats - holder->given, count = left < RT_STATE_PIECE ? left : RT_STATE_PIECE;
    const struct rt_message part = {
        .type = RT_MESSAGE_PART,
        .source = holder->settings.rank,
        .target = asked->source,
        .run = holder->settings.run,
        .state_version = asked->state_version,
        .tensor_index = asked->tensor_index,
        .first = asked->first + holder->given,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    const struct rt_state_range range = state_holder_range(&part, count);
    store->read(store->self, &range, out->floats);
    rt_state_frame_send(out, holder->settings.out, &part, count);
    holder->given = count < left ? holder->given + count : 0;
    return count == left;
}

static bool state_holder_answer_load(struct rt_state_holder *holder, const struct rt_message *message,
                                     struct rt_state_frame *out, rt_status *status, struct rt_error *err) {
    const struct rt_state_store *store = &holder->settings.store;
    if (message->stored != holder->written)
        *status = rt_fail(err, RT_BAD_INPUT, "%llu floats were stored, where the load message speaks of %llu",
                          (unsigned long long)holder->written, (unsigned long long)message->stored);
    if (*status != RT_OK || !store->loaded(store->self, message->update))
        return false;
    holder->written = 0;
    const struct rt_message answer = {.type = RT_MESSAGE_LOAD,
                                      .source = holder->settings.rank,
                                      .target = message->source,
                                      .run = holder->settings.run,
                                      .update = message->update};
    rt_state_frame_send(out, holder->settings.out, &answer, 0);
    return true;
}

static bool state_holder_can_take(const struct rt_state_holder *holder, const struct rt_state_frame *frame) {
    const struct rt_state_store *store = &holder->settings.store;
    if (!state_holder_is_for_us(holder, frame) || frame->message.type == RT_MESSAGE_EXAMPLES)
        return true;
    const struct rt_message *message = &frame->message;
    if (message->type == RT_MESSAGE_FETCH) { /* one that is gone is refused when its turn comes */
        const struct rt_state_range range = state_holder_range(message, message->floats);
        return store->has(store->self, &range) != RT_STATE_NOT_YET;
    }
    struct rt_state_range range = state_holder_range(message, rt_state_frame_floats(frame));
    if (message->type == RT_MESSAGE_LOAD)
        range = (struct rt_state_range){.version = message->update};
    return store->can_write(store->self, &range);
}

bool rt_state_holder_is_waiting(const struct rt_state_holder *holder) {
    return holder->taken < holder->arrived &&
           !state_holder_can_take(holder, &holder->in[holder->taken % RT_STATE_WINDOW]);
}

bool rt_state_holder_is_idle(const struct rt_state_holder *holder) {
    bool sending = false;
    for (size_t i = 0; i < RT_STATE_WINDOW; i++)
        sending |= holder->in[i].sending || holder->out[i].sending;
    return !sending && holder->arrived == holder->taken;
}

/* Takes the oldest frame, or a part of it. *done: nothing is left of it. Whether anything was done. */
static bool state_holder_take(struct rt_state_holder *holder, struct rt_state_frame *frame, bool *done,
                              rt_status *status, struct rt_error *err) {
    const struct rt_state_holder_settings *settings = &holder->settings;
    const struct rt_state_store *store = &settings->store;
    const struct rt_message *message = &frame->message;
    struct rt_state_frame *out = rt_state_frame_free(holder->out);
    struct rt_state_range range;
    *done = true;
    if (!state_holder_can_take(holder, frame))
        return false;
    if (!state_holder_is_for_us(holder, frame)) {
        rt_state_frame_send(frame, settings->out, message, rt_state_frame_floats(frame));
        return true;
    }
    switch (message->type) {
    case RT_MESSAGE_EXAMPLES:
        *status = settings->examples(settings->user, message->batch, message->first, frame->floats,
                                     rt_state_frame_floats(frame), err);
        return true;
    case RT_MESSAGE_PART:
        range = state_holder_range(message, rt_state_frame_floats(frame));
        store->write(store->self, &range, frame->floats);
        holder->written += rt_state_frame_floats(frame);
        return true;
    case RT_MESSAGE_FETCH:
        range = state_holder_range(message, message->floats);
        if (store->has(store->self, &range) == RT_STATE_GONE) {
            *status =
                rt_fail(err, RT_BAD_INPUT, "a fetch message asks for the state of update %llu, which is gone",
                        (unsigned long long)message->state_version);
            return false;
        }
        *done = out && state_holder_give(holder, message, out);
        return out;
    default:
        *done = out && state_holder_answer_load(holder, message, out, status, err);
        return *done;
    }
}

rt_status rt_state_holder_go_on(struct rt_state_holder *holder, bool *worked, struct rt_error *err) {
    rt_status status = RT_OK;
    bool did = true;
    if (holder->failed)
        return RT_OK;
    while (status == RT_OK && did && holder->taken < holder->arrived) {
        bool done;
        did = state_holder_take(holder, &holder->in[holder->taken % RT_STATE_WINDOW], &done, &status, err);
        holder->taken += did && done;
        *worked |= did;
    }
    holder->failed = status != RT_OK;
    state_holder_post(holder);
    return status;
}
