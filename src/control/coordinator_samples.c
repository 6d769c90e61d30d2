/*
 * Sends examples to nodes without data of their own: EXAMPLES messages on the bulk channel, at most
 * RT_STATE_PIECE floats each. They follow the order of the tickets. Nothing is copied.
 */
#include "control/coordinator_inside.h"

bool rt_coordinator_has_sample_room(const struct rt_coordinator *coordinator, uint16_t rank) {
    const struct rt_sample_queue *samples = &coordinator->connections[rank].samples;
    uint64_t oldest = samples->sent; /* of the batches whose floats are still needed */
    for (size_t i = 0; i < RT_STATE_WINDOW; i++)
        if (samples->sending[i] && samples->part_of[i] < oldest)
            oldest = samples->part_of[i];
    return samples->queued - oldest < RT_TICKETS_AHEAD;
}

void rt_coordinator_send_samples(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch,
                                 const float *floats, size_t count) {
    struct rt_sample_queue *samples = &coordinator->connections[rank].samples;
    if (count == 0 || !rt_coordinator_has_sample_room(coordinator, rank))
        return;
    const size_t place = samples->queued++ % RT_TICKETS_AHEAD;
    samples->batches[place].batch = batch;
    samples->batches[place].floats = floats;
    samples->batches[place].count = count;
}

static void samples_send_piece(const struct rt_coordinator *coordinator,
                               struct rt_worker_connection *connection, size_t place) {
    struct rt_sample_queue *samples = &connection->samples;
    const size_t batch = samples->sent % RT_TICKETS_AHEAD, at = samples->at;
    const size_t left = samples->batches[batch].count - at;
    const size_t count = left < RT_STATE_PIECE ? left : RT_STATE_PIECE;
    const struct rt_message message = {
        .type = RT_MESSAGE_EXAMPLES,
        .run = coordinator->comm->run,
        .batch = samples->batches[batch].batch,
        .first = at,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    struct rt_send *send = &samples->send[place];
    *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{samples->batches[batch].floats + at, count * sizeof(float)}},
                             .user = &samples->sending[place]};
    rt_message_encode(&message, send->head);
    samples->sending[place] = true;
    samples->part_of[place] = samples->sent;
    rt_link_send(connection->route.out->link, send);
    samples->at = count == left ? 0 : at + count;
    samples->sent += count == left;
}

void rt_sample_queue_go_on(const struct rt_coordinator *coordinator,
                           struct rt_worker_connection *connection) {
    struct rt_sample_queue *samples = &connection->samples;
    for (size_t i = 0; i < RT_STATE_WINDOW && !connection->route.out->closed; i++)
        if (!samples->sending[i] && samples->sent < samples->queued)
            samples_send_piece(coordinator, connection, i);
}

bool rt_sample_queue_event(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                           const struct rt_event *event) {
    struct rt_sample_queue *samples = &connection->samples;
    for (size_t i = 0; event->kind == RT_EVENT_SENT && i < RT_STATE_WINDOW; i++)
        if (event->send == &samples->send[i]) {
            samples->sending[i] = false;
            rt_sample_queue_go_on(coordinator, connection);
            return true;
        }
    return false;
}
