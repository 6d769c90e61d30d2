/*
 * The numbers that the nodes of a group start from: ring 0's. Piece by piece, stage by stage and word by word
 * (see ring/stage.h), each piece to all others at a time, on the bulk channel; LOAD behind the last says
 * which version they are. Both sides know what comes next, so a piece need not say where it belongs.
 */
#include "train/hybrid/group_inside.h"

#include "base/memory.h"
#include "ring/gradient.h"
#include <stdlib.h>

enum { PIECE_FLOATS = 1 << 16 };

/* Floats of the piece at hand; 0: all have been. Moves on to the next word or stage where one has ended. */
static size_t piece(struct rt_group *group) {
    while (group->numbers.stage < group->stage_count) {
        const struct rt_stage *stage = group->stages[group->numbers.stage].stage;
        const size_t left = rt_stage_word_floats(stage, group->numbers.word) - group->numbers.at;
        if (left > 0)
            return left < PIECE_FLOATS ? left : PIECE_FLOATS;
        group->numbers.at = 0;
        if (++group->numbers.word == rt_stage_word_count(stage)) {
            group->numbers.word = 0;
            group->numbers.stage++;
        }
    }
    return 0;
}

static void post(struct rt_group *group) {
    group->numbers.receive = (struct rt_receive){
        .channel = RT_CHANNEL_BULK, .body = group->numbers.floats, .body_room = PIECE_FLOATS * sizeof(float)};
    rt_link_receive(group->party.links[0], &group->numbers.receive);
}

rt_status rt_group_numbers_init(struct rt_group *group, struct rt_error *err) {
    rt_status status =
        rt_floats_create(PIECE_FLOATS, "the numbers of another ring", &group->numbers.floats, err);
    if (status == RT_OK)
        status = rt_alloc(group->party.count, sizeof *group->numbers.sends, "the numbers of another ring",
                          &group->numbers.sends, err);
    if (status == RT_OK)
        status = rt_alloc(group->party.count, sizeof *group->numbers.sending, "the numbers of another ring",
                          &group->numbers.sending, err);
    if (status == RT_OK && group->party.rank > 0)
        post(group);
    return status;
}

void rt_group_numbers_deinit(struct rt_group *group) {
    free(group->numbers.floats);
    free(group->numbers.sends);
    free(group->numbers.sending);
}

/* ---- giving -------------------------------------------------------------------------------------------- */

static void send_all(struct rt_group *group, const struct rt_message *message, size_t count) {
    for (uint16_t ring = 1; ring < group->party.count; ring++) {
        struct rt_send *send = &group->numbers.sends[ring];
        *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                                 .head_bytes = RT_MESSAGE_HEAD,
                                 .body = {{group->numbers.floats, count * sizeof(float)}}};
        rt_message_encode(message, send->head);
        rt_link_send(group->party.links[ring], send);
        group->numbers.sending[ring] = true;
    }
}

static void give(struct rt_group *group) {
    const size_t count = piece(group);
    struct rt_message message = {.type = count ? RT_MESSAGE_PART : RT_MESSAGE_LOAD,
                                 .run = group->party.run,
                                 .micro = group->numbers.word,
                                 .update = group->stages[0].stage->update};
    if (count == 0) {
        group->numbers.state = RT_NUMBERS_SAME;
        send_all(group, &message, 0);
        return;
    }
    message.tensors = 1;
    message.tensor[0] =
        (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
    rt_stage_word_read(group->stages[group->numbers.stage].stage, group->numbers.word, group->numbers.at,
                       count, group->numbers.floats);
    group->numbers.at += count;
    send_all(group, &message, count);
}

/* The version of a stage moves only when the ring asks: a head that has no ticket yet would take it for an
 * update that is done. */
static void adopt(struct rt_group *group) {
    for (size_t i = 0; i < group->stage_count; i++)
        group->stages[i].stage->update = group->numbers.update;
    group->numbers.state = RT_NUMBERS_SAME;
}

bool rt_group_numbers_go_on(struct rt_group *group) {
    if (group->numbers.state == RT_NUMBERS_IDLE)
        group->numbers.state = group->party.rank == 0 ? RT_NUMBERS_GIVING : RT_NUMBERS_WAITING;
    if (group->numbers.state == RT_NUMBERS_GIVING && rt_group_numbers_wait_for(group) == UINT16_MAX)
        give(group);
    if (group->numbers.state == RT_NUMBERS_HERE)
        adopt(group);
    return group->numbers.state == RT_NUMBERS_SAME;
}

uint16_t rt_group_numbers_wait_for(const struct rt_group *group) {
    if (group->numbers.state == RT_NUMBERS_WAITING)
        return 0;
    for (uint16_t ring = 1; group->numbers.state == RT_NUMBERS_GIVING && ring < group->party.count; ring++)
        if (group->numbers.sending[ring])
            return ring; /* who has no room for it yet */
    return UINT16_MAX;
}

/* ---- taking -------------------------------------------------------------------------------------------- */

static rt_status take(struct rt_group *group, struct rt_error *err) {
    const struct rt_receive *receive = &group->numbers.receive;
    const size_t count = piece(group);
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != group->party.run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    const bool fits = count ? message.type == RT_MESSAGE_PART && message.micro == group->numbers.word &&
                                  message.tensors == 1 && message.tensor[0].dtype == RT_DTYPE_F32 &&
                                  message.tensor[0].rank == 1 && message.tensor[0].dims[0] == count
                            : message.type == RT_MESSAGE_LOAD;
    if (!fits)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came where %zu floats of word %zu were expected",
                       rt_message_name(message.type), count, group->numbers.word);
    if (count == 0) {
        group->numbers.update = message.update;
        group->numbers.state = RT_NUMBERS_HERE;
        return RT_OK;
    }
    if (!rt_block_is_finite(group->numbers.floats, count))
        return rt_fail(err, RT_BAD_INPUT, "it sent a number that is not finite in word %zu",
                       group->numbers.word);
    rt_stage_word_write(group->stages[group->numbers.stage].stage, group->numbers.word, group->numbers.at,
                        count, group->numbers.floats);
    group->numbers.at += count;
    post(group);
    return RT_OK;
}

/* Whose send it was; 0: it is not one of these. */
static uint16_t ring_of(const struct rt_group *group, const struct rt_send *send) {
    uint16_t ring = (uint16_t)(group->party.count - 1);
    while (ring > 0 && send != &group->numbers.sends[ring])
        ring--;
    return ring;
}

bool rt_group_numbers_event(struct rt_group *group, const struct rt_event *event, rt_status *status,
                            struct rt_error *err) {
    if (event->kind == RT_EVENT_RECEIVED && event->receive == &group->numbers.receive) {
        *status = take(group, err);
        return true;
    }
    const uint16_t ring = event->kind == RT_EVENT_SENT ? ring_of(group, event->send) : 0;
    if (ring == 0)
        return false;
    group->numbers.sending[ring] = false;
    return true;
}
