/*
 * The numbers that the nodes of a group start from: ring 0's. Piece by piece, stage by stage and word by word
 * (see learn/stage.h), each piece to all others at a time, on the bulk channel; LOAD behind the last says
 * which version they are. Both sides know what comes next, so a piece need not say where it belongs.
 */
#include "run/hybrid/group_inside.h"

#include "base/memory.h"
#include "learn/gradient.h"
#include <stdlib.h>

enum { PIECE_FLOATS = 1 << 16 };

/* Floats of the piece at hand; 0: all have been. Moves on to the next word or stage where one has ended. */
static size_t piece(struct rt_group *group) {
    while (group->initial.stage < group->stage_count) {
        const struct rt_stage *stage = group->stages[group->initial.stage].stage;
        const size_t left = rt_stage_state_floats(stage, group->initial.word) - group->initial.at;
        if (left > 0)
            return left < PIECE_FLOATS ? left : PIECE_FLOATS;
        group->initial.at = 0;
        if (++group->initial.word == rt_stage_state_count(stage)) {
            group->initial.word = 0;
            group->initial.stage++;
        }
    }
    return 0;
}

static void post(struct rt_group *group) {
    group->initial.receive = (struct rt_receive){
        .channel = RT_CHANNEL_BULK, .body = group->initial.floats, .body_room = PIECE_FLOATS * sizeof(float)};
    rt_link_receive(group->comm.links[0], &group->initial.receive);
}

rt_status rt_group_initial_init(struct rt_group *group, struct rt_error *err) {
    rt_status status =
        rt_floats_create(PIECE_FLOATS, "the numbers of another ring", &group->initial.floats, err);
    if (status == RT_OK)
        status = rt_alloc(group->comm.count, sizeof *group->initial.sends, "the numbers of another ring",
                          &group->initial.sends, err);
    if (status == RT_OK)
        status = rt_alloc(group->comm.count, sizeof *group->initial.sending, "the numbers of another ring",
                          &group->initial.sending, err);
    if (status == RT_OK && group->comm.rank > 0)
        post(group);
    return status;
}

void rt_group_initial_deinit(struct rt_group *group) {
    free(group->initial.floats);
    free(group->initial.sends);
    free(group->initial.sending);
}

/* ---- giving -------------------------------------------------------------------------------------------- */

static void send_all(struct rt_group *group, const struct rt_message *message, size_t count) {
    for (uint16_t ring = 1; ring < group->comm.count; ring++) {
        struct rt_send *send = &group->initial.sends[ring];
        *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                                 .head_bytes = RT_MESSAGE_HEAD,
                                 .body = {{group->initial.floats, count * sizeof(float)}}};
        rt_message_encode(message, send->head);
        rt_link_send(group->comm.links[ring], send);
        group->initial.sending[ring] = true;
    }
}

static void give(struct rt_group *group) {
    const size_t count = piece(group);
    struct rt_message message = {.type = count ? RT_MESSAGE_PART : RT_MESSAGE_LOAD,
                                 .run = group->comm.run,
                                 .micro = group->initial.word,
                                 .update = group->stages[0].stage->update};
    if (count == 0) {
        group->initial.state = RT_INITIAL_SAME;
        send_all(group, &message, 0);
        return;
    }
    message.tensors = 1;
    message.tensor[0] =
        (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
    rt_stage_state_read(group->stages[group->initial.stage].stage, group->initial.word, group->initial.at,
                        count, group->initial.floats);
    group->initial.at += count;
    send_all(group, &message, count);
}

/* The version of a stage moves only when the ring asks: a head that has no ticket yet would take it for an
 * update that is done. */
static void adopt(struct rt_group *group) {
    for (size_t i = 0; i < group->stage_count; i++)
        group->stages[i].stage->update = group->initial.update;
    group->initial.state = RT_INITIAL_SAME;
}

bool rt_group_initial_go_on(struct rt_group *group) {
    if (group->initial.state == RT_INITIAL_IDLE)
        group->initial.state = group->comm.rank == 0 ? RT_INITIAL_GIVING : RT_INITIAL_WAITING;
    if (group->initial.state == RT_INITIAL_GIVING && rt_group_initial_wait_for(group) == UINT16_MAX)
        give(group);
    if (group->initial.state == RT_INITIAL_HERE)
        adopt(group);
    return group->initial.state == RT_INITIAL_SAME;
}

uint16_t rt_group_initial_wait_for(const struct rt_group *group) {
    if (group->initial.state == RT_INITIAL_WAITING)
        return 0;
    for (uint16_t ring = 1; group->initial.state == RT_INITIAL_GIVING && ring < group->comm.count; ring++)
        if (group->initial.sending[ring])
            return ring; /* who has no room for it yet */
    return UINT16_MAX;
}

/* ---- taking -------------------------------------------------------------------------------------------- */

static rt_status take(struct rt_group *group, struct rt_error *err) {
    const struct rt_receive *receive = &group->initial.receive;
    const size_t count = piece(group);
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != group->comm.run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    const bool fits = count ? message.type == RT_MESSAGE_PART && message.micro == group->initial.word &&
                                  message.tensors == 1 && message.tensor[0].dtype == RT_DTYPE_F32 &&
                                  message.tensor[0].rank == 1 && message.tensor[0].dims[0] == count
                            : message.type == RT_MESSAGE_LOAD;
    if (!fits)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came where %zu floats of word %zu were expected",
                       rt_message_name(message.type), count, group->initial.word);
    if (count == 0) {
        group->initial.update = message.update;
        group->initial.state = RT_INITIAL_HERE;
        return RT_OK;
    }
    if (!rt_block_is_finite(group->initial.floats, count))
        return rt_fail(err, RT_BAD_INPUT, "it sent a number that is not finite in word %zu",
                       group->initial.word);
    rt_stage_state_write(group->stages[group->initial.stage].stage, group->initial.word, group->initial.at,
                         count, group->initial.floats);
    group->initial.at += count;
    post(group);
    return RT_OK;
}

/* Whose send it was; 0: it is not one of these. */
static uint16_t ring_of(const struct rt_group *group, const struct rt_send *send) {
    uint16_t ring = (uint16_t)(group->comm.count - 1);
    while (ring > 0 && send != &group->initial.sends[ring])
        ring--;
    return ring;
}

bool rt_group_initial_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err) {
    if (event->kind == RT_EVENT_RECEIVED && event->receive == &group->initial.receive) {
        *status = take(group, err);
        return true;
    }
    const uint16_t ring = event->kind == RT_EVENT_SENT ? ring_of(group, event->send) : 0;
    if (ring == 0)
        return false;
    group->initial.sending[ring] = false;
    return true;
}
