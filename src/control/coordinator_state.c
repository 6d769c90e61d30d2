/*
 * Numbers between the master and a node, on the bulk channel, in pieces of at most RT_TRANSFER_PIECE floats.
 *
 * To have them the master sends COLLECT for each piece: of word `micro`, `epoch` floats from `update` on. The
 * node answers with a PART: of the same word, from the same float on. They are received where they belong.
 *
 * To set them the master sends PARTs, and behind the last one LOAD, which says after how many updates they
 * are the numbers; the node sends the LOAD back.
 */
#include "control/coordinator_inside.h"

static void send_head(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                      struct rt_message message, const float *floats, size_t count) {
    struct rt_state_transfer *transfer = &connection->transfer;
    const size_t place = transfer->begun % RT_TRANSFER_WINDOW;
    struct rt_send *send = &transfer->send[place];
    message.run = coordinator->comm->run;
    *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{floats, count * sizeof *floats}},
                             .user = &transfer->sending[place]};
    rt_message_encode(&message, send->head);
    transfer->sending[place] = true;
    rt_link_send(connection->link, send);
}

static void post(struct rt_worker_connection *connection, float *into, size_t count) {
    struct rt_receive *receive =
        &connection->transfer.receive[connection->transfer.begun % RT_TRANSFER_WINDOW];
    *receive =
        (struct rt_receive){.channel = RT_CHANNEL_BULK, .body = into, .body_room = count * sizeof *into};
    rt_link_receive(connection->link, receive);
}

/* Piece n of the order: how many floats it has, and where it begins. */
static size_t piece(const struct rt_state_transfer *transfer, size_t n, size_t *at) {
    *at = n * RT_TRANSFER_PIECE;
    const size_t left = *at < transfer->count ? transfer->count - *at : 0;
    return left < RT_TRANSFER_PIECE ? left : RT_TRANSFER_PIECE;
}

static size_t pieces(const struct rt_state_transfer *transfer) {
    return transfer->kind == RT_TRANSFER_VERSION
               ? 1
               : (transfer->count + RT_TRANSFER_PIECE - 1) / RT_TRANSFER_PIECE;
}

static void begin_piece(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection) {
    struct rt_state_transfer *transfer = &connection->transfer;
    size_t at;
    const size_t count = piece(transfer, transfer->begun, &at);
    struct rt_message message = {.micro = transfer->word, .update = transfer->first + at};
    if (transfer->kind == RT_TRANSFER_FETCH) {
        message.type = RT_MESSAGE_COLLECT;
        message.epoch = (uint32_t)count;
        post(connection, transfer->into + at, count);
        send_head(coordinator, connection, message, NULL, 0);
    } else if (transfer->kind == RT_TRANSFER_SEND) {
        message.type = RT_MESSAGE_PART;
        message.tensors = 1;
        message.tensor[0] =
            (struct rt_message_tensor){.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}};
        send_head(coordinator, connection, message, transfer->from + at, count);
    } else {
        message = (struct rt_message){.type = RT_MESSAGE_LOAD, .update = transfer->update};
        post(connection, NULL, 0);
        send_head(coordinator, connection, message, NULL, 0);
    }
    transfer->begun++;
}

void rt_state_transfer_go_on(const struct rt_coordinator *coordinator,
                             struct rt_worker_connection *connection) {
    struct rt_state_transfer *transfer = &connection->transfer;
    if (transfer->kind == RT_TRANSFER_NONE || connection->talk->closed)
        return;
    while (transfer->begun < pieces(transfer) && transfer->begun < transfer->ended + RT_TRANSFER_WINDOW &&
           !transfer->sending[transfer->begun % RT_TRANSFER_WINDOW])
        begin_piece(coordinator, connection);
    bool sending = false;
    for (size_t i = 0; i < RT_TRANSFER_WINDOW; i++)
        sending |= transfer->sending[i];
    if (transfer->ended == pieces(transfer) && !sending)
        transfer->kind = RT_TRANSFER_NONE;
}

/* What a node answered. */
static rt_status check(const struct rt_coordinator *coordinator,
                       const struct rt_worker_connection *connection, const struct rt_receive *receive,
                       struct rt_error *err) {
    const struct rt_state_transfer *transfer = &connection->transfer;
    struct rt_message message;
    size_t at;
    const size_t count = piece(transfer, transfer->ended, &at);
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    if (message.run != coordinator->comm->run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run",
                       rt_message_name(message.type));
    const uint16_t wanted = transfer->kind == RT_TRANSFER_FETCH ? RT_MESSAGE_PART : RT_MESSAGE_LOAD;
    if (transfer->ended == transfer->begun || message.type != wanted || message.source != connection->rank)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the numbers",
                       rt_message_name(message.type));
    if (wanted == RT_MESSAGE_LOAD)
        return RT_OK;
    if (message.micro != transfer->word || message.update != transfer->first + at || message.tensors != 1 ||
        message.tensor[0].dtype != RT_DTYPE_F32 || message.tensor[0].rank != 1 ||
        message.tensor[0].dims[0] != count)
        return rt_fail(err, RT_BAD_INPUT, "it sent other numbers than those it was asked for");
    return RT_OK;
}

rt_status rt_state_transfer_event(struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                                  const struct rt_event *event, struct rt_error *err) {
    struct rt_state_transfer *transfer = &connection->transfer;
    if (event->kind == RT_EVENT_SENT) {
        bool *sending = event->send->user;
        *sending = false;
        transfer->ended += transfer->kind == RT_TRANSFER_SEND;
    } else {
        rt_status status = check(coordinator, connection, event->receive, err);
        if (status != RT_OK)
            return status;
        transfer->ended++;
    }
    rt_state_transfer_go_on(coordinator, connection);
    return RT_OK;
}
