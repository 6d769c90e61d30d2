/*
 * Numbers between the master and a node, on the bulk channel, in pieces of at most RT_CREW_PIECE floats.
 *
 * To have them the master sends COLLECT for each piece: of word `micro`, `epoch` floats from `update` on. The
 * node answers with a PART: of the same word, from the same float on. They are received where they belong.
 *
 * To set them the master sends PARTs, and behind the last one LOAD, which says after how many updates they
 * are the numbers; the node sends the LOAD back.
 */
#include "exchange/crew_inside.h"

static void send_head(const struct rt_crew *crew, struct rt_desk *desk, struct rt_message message,
                      const float *floats, size_t count) {
    struct rt_order *order = &desk->order;
    const size_t place = order->begun % RT_CREW_WINDOW;
    struct rt_send *send = &order->send[place];
    message.run = crew->party->run;
    *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{floats, count * sizeof *floats}},
                             .user = &order->sending[place]};
    rt_message_encode(&message, send->head);
    order->sending[place] = true;
    rt_link_send(desk->link, send);
}

static void post(struct rt_desk *desk, float *into, size_t count) {
    struct rt_receive *receive = &desk->order.receive[desk->order.begun % RT_CREW_WINDOW];
    *receive =
        (struct rt_receive){.channel = RT_CHANNEL_BULK, .body = into, .body_room = count * sizeof *into};
    rt_link_receive(desk->link, receive);
}

/* Piece n of the order: how many floats it has, and where it begins. */
static size_t piece(const struct rt_order *order, size_t n, size_t *at) {
    *at = n * RT_CREW_PIECE;
    const size_t left = *at < order->count ? order->count - *at : 0;
    return left < RT_CREW_PIECE ? left : RT_CREW_PIECE;
}

static size_t pieces(const struct rt_order *order) {
    return order->kind == RT_ORDER_UPDATE ? 1 : (order->count + RT_CREW_PIECE - 1) / RT_CREW_PIECE;
}

static void begin_piece(const struct rt_crew *crew, struct rt_desk *desk) {
    struct rt_order *order = &desk->order;
    size_t at;
    const size_t count = piece(order, order->begun, &at);
    struct rt_message message = {.micro = order->word, .update = order->first + at};
    if (order->kind == RT_ORDER_ASK) {
        message.type = RT_MESSAGE_COLLECT;
        message.epoch = (uint32_t)count;
        post(desk, order->into + at, count);
        send_head(crew, desk, message, NULL, 0);
    } else if (order->kind == RT_ORDER_TELL) {
        message.type = RT_MESSAGE_PART;
        message.tensors = 1;
        message.tensor[0] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
        send_head(crew, desk, message, order->from + at, count);
    } else {
        message = (struct rt_message){.type = RT_MESSAGE_LOAD, .update = order->update};
        post(desk, NULL, 0);
        send_head(crew, desk, message, NULL, 0);
    }
    order->begun++;
}

void rt_order_go_on(const struct rt_crew *crew, struct rt_desk *desk) {
    struct rt_order *order = &desk->order;
    if (order->kind == RT_ORDER_NONE || desk->talk->closed)
        return;
    while (order->begun < pieces(order) && order->begun < order->ended + RT_CREW_WINDOW &&
           !order->sending[order->begun % RT_CREW_WINDOW])
        begin_piece(crew, desk);
    bool sending = false;
    for (size_t i = 0; i < RT_CREW_WINDOW; i++)
        sending |= order->sending[i];
    if (order->ended == pieces(order) && !sending)
        order->kind = RT_ORDER_NONE;
}

/* What a node answered. */
static rt_status check(const struct rt_crew *crew, const struct rt_desk *desk,
                       const struct rt_receive *receive, struct rt_error *err) {
    const struct rt_order *order = &desk->order;
    struct rt_message message;
    size_t at;
    const size_t count = piece(order, order->ended, &at);
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != crew->party->run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    const uint16_t wanted = order->kind == RT_ORDER_ASK ? RT_MESSAGE_PART : RT_MESSAGE_LOAD;
    if (order->ended == order->begun || message.type != wanted || message.source != desk->rank)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the numbers",
                       rt_message_name(message.type));
    if (wanted == RT_MESSAGE_LOAD)
        return RT_OK;
    if (message.micro != order->word || message.update != order->first + at || message.tensors != 1 ||
        message.tensor[0].dtype != RT_DTYPE_F32 || message.tensor[0].rank != 1 ||
        message.tensor[0].dims[0] != count)
        return rt_fail(err, RT_BAD_INPUT, "it sent other numbers than those it was asked for");
    return RT_OK;
}

rt_status rt_order_event(struct rt_crew *crew, struct rt_desk *desk, const struct rt_event *event,
                         struct rt_error *err) {
    struct rt_order *order = &desk->order;
    if (event->kind == RT_EVENT_SENT) {
        bool *sending = event->send->user;
        *sending = false;
        order->ended += order->kind == RT_ORDER_TELL;
    } else {
        rt_status status = check(crew, desk, event->receive, err);
        if (status != RT_OK)
            return status;
        order->ended++;
    }
    rt_order_go_on(crew, desk);
    return RT_OK;
}
