/*
 * Examples that go to nodes which have no data of their own, on the bulk channel, in pieces of at most
 * RT_CREW_PIECE floats: EXAMPLES of batch `micro`, from float `update` on. They follow one another in the
 * order of the tickets; nothing is copied.
 */
#include "exchange/crew_inside.h"

void rt_crew_send_examples(struct rt_crew *crew, uint16_t rank, uint64_t batch, const float *floats,
                           size_t count) {
    struct rt_shipment *shipment = &crew->desks[rank].shipment;
    if (count == 0)
        return;
    const size_t place = shipment->packed++ % RT_CREW_AHEAD;
    shipment->crates[place].batch = batch;
    shipment->crates[place].floats = floats;
    shipment->crates[place].count = count;
}

static void send_piece(const struct rt_crew *crew, struct rt_desk *desk, size_t place) {
    struct rt_shipment *shipment = &desk->shipment;
    const size_t crate = shipment->shipped % RT_CREW_AHEAD, at = shipment->at;
    const size_t left = shipment->crates[crate].count - at;
    const size_t count = left < RT_CREW_PIECE ? left : RT_CREW_PIECE;
    const struct rt_message message = {
        .type = RT_MESSAGE_EXAMPLES,
        .run = crew->party->run,
        .micro = shipment->crates[crate].batch,
        .update = at,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)count}}}};
    struct rt_send *send = &shipment->send[place];
    *send = (struct rt_send){.channel = RT_CHANNEL_BULK,
                             .head_bytes = RT_MESSAGE_HEAD,
                             .body = {{shipment->crates[crate].floats + at, count * sizeof(float)}},
                             .user = &shipment->sending[place]};
    rt_message_encode(&message, send->head);
    shipment->sending[place] = true;
    rt_link_send(desk->link, send);
    shipment->at = count == left ? 0 : at + count;
    shipment->shipped += count == left;
}

void rt_shipment_go_on(const struct rt_crew *crew, struct rt_desk *desk) {
    struct rt_shipment *shipment = &desk->shipment;
    for (size_t i = 0; i < RT_CREW_WINDOW && !desk->talk->closed; i++)
        if (!shipment->sending[i] && shipment->shipped < shipment->packed)
            send_piece(crew, desk, i);
}

bool rt_shipment_event(const struct rt_crew *crew, struct rt_desk *desk, const struct rt_event *event) {
    struct rt_shipment *shipment = &desk->shipment;
    for (size_t i = 0; event->kind == RT_EVENT_SENT && i < RT_CREW_WINDOW; i++)
        if (event->send == &shipment->send[i]) {
            shipment->sending[i] = false;
            rt_shipment_go_on(crew, desk);
            return true;
        }
    return false;
}
