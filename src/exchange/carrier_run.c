/*
 * What a carrier does when something happens. A cell goes on through its moves as far as it can: what needs a
 * peer stops it, and the lane concerned is put into a queue to be looked at. A lane posts its frames strictly
 * in their order, each when all its cells have come to it.
 *
 * Why this never comes to a stand: order all frames of all nodes by load, then by their round in the
 * algorithm, then by segment. What a frame waits for, on its lane and in its cells, comes before it in this
 * order; so the first frame that is not done can always go on. What is received ahead of its turn holds a
 * place only as long as something before it is not done.
 *
 * Why a frame may be received in place while the cell's own frames are still being sent: it is posted when
 * its turn has come, and whoever sends it has made it of what we sent, or of something later. So the bytes of
 * what we sent have left their place when it arrives.
 */
#include "exchange/carrier_parts.h"

#include "base/clones.h"
#include <string.h>

RT_CLONES static void add(size_t n, const float *restrict x, float *restrict y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void rt_carrier_queue(struct rt_carrier *carrier, struct rt_lane *lane) {
    if (lane->queued)
        return;
    lane->queued = true;
    lane->next_queued = NULL;
    if (carrier->first_queued)
        carrier->last_queued->next_queued = lane;
    else
        carrier->first_queued = lane;
    carrier->last_queued = lane;
}

/* ---- cells ---- */

static const struct rt_move *next_move(const struct rt_load *load, const struct rt_cell *cell,
                                       uint32_t *index) {
    const struct rt_zone *zone = &load->zones[cell->zone];
    if (cell->next == zone->count)
        return NULL;
    *index = zone->moves[cell->next];
    return &load->settings.moves.list[*index];
}

static struct rt_slot *find_arrived(const struct rt_carrier *carrier, const struct rt_load *load,
                                    uint32_t move, const struct rt_cell *cell) {
    struct rt_lane *lane = &carrier->lanes[load->lane_of[move]];
    for (size_t i = 0; i < RT_LANE_FRAMES; i++) {
        struct rt_slot *slot = &lane->slots[i];
        if (slot->state == RT_SLOT_ARRIVED && slot->number == load->number && slot->move == move &&
            cell->first - slot->first < slot->count)
            return slot;
    }
    return NULL;
}

/* Adds, or puts into its place, what has come for the cell; false: it has not come. */
static bool take_in(struct rt_carrier *carrier, struct rt_load *load, const struct rt_move *move,
                    uint32_t index, struct rt_cell *cell) {
    struct rt_slot *slot = find_arrived(carrier, load, index, cell);
    if (!slot)
        return false;
    const enum rt_state before = rt_party_enter(&carrier->party, RT_STATE_REDUCE);
    const float *from = slot->scratch + (cell->first - slot->first);
    float *to = load->buffers[move->buffer] + cell->first;
    if (move->kind == RT_MOVE_ADD)
        add(cell->count, from, to);
    else
        memcpy(to, from, cell->count * sizeof *to);
    rt_party_enter(&carrier->party, before);
    if (--slot->waiting == 0) {
        slot->state = RT_SLOT_FREE;
        rt_carrier_queue(carrier, slot->lane);
    }
    return true;
}

static void work(struct rt_carrier *carrier, struct rt_load *load, const struct rt_move *move,
                 const struct rt_cell *cell) {
    const bool merges = move->kind == RT_MOVE_MERGE;
    const enum rt_state before = rt_party_enter(&carrier->party, merges ? RT_STATE_REDUCE : RT_STATE_UPDATE);
    if (merges)
        add(cell->count, load->buffers[move->from] + cell->first, load->buffers[move->buffer] + cell->first);
    else
        carrier->apply(carrier->user, load->settings.offset + cell->first, cell->count,
                       load->buffers[RT_BUFFER_GRADIENT] + cell->first);
    rt_party_enter(&carrier->party, before);
}

/* Goes on with a cell as far as it can. */
static void step(struct rt_carrier *carrier, struct rt_load *load, struct rt_cell *cell) {
    const struct rt_move *move;
    uint32_t index;
    for (; (move = next_move(load, cell, &index)); cell->next++) {
        /* What is being sent must not change. */
        if (cell->sending > 0 && (move->kind == RT_MOVE_ADD || move->kind == RT_MOVE_MERGE))
            return;
        if (rt_move_is_ahead(move)) {
            if (!take_in(carrier, load, move, index, cell))
                return;
        } else if (move->kind == RT_MOVE_SEND || move->kind == RT_MOVE_TAKE) {
            rt_carrier_queue(carrier, &carrier->lanes[load->lane_of[index]]);
            return;
        } else {
            work(carrier, load, move, cell);
        }
    }
    if (cell->sending == 0)
        load->left--;
}

/* ---- lanes ---- */

/* Whether all cells of a frame have come to its move; counts them. */
static bool is_turn(const struct rt_load *load, uint64_t number, uint32_t move, uint32_t first, size_t end,
                    uint32_t *cells) {
    if (!load->active || load->number != number)
        return false;
    uint32_t i = first, index;
    for (; i < load->cell_count && load->cells[i].first < end; i++)
        if (!next_move(load, &load->cells[i], &index) || index != move)
            return false;
    *cells = i - first;
    return true;
}

static uint32_t count_cells(const struct rt_load *load, uint32_t first, size_t end) {
    uint32_t i = first;
    while (i < load->cell_count && load->cells[i].first < end)
        i++;
    return i - first;
}

static struct rt_slot *find_free(const struct rt_lane *lane) {
    for (size_t i = 0; i < RT_LANE_FRAMES; i++)
        if (lane->slots[i].state == RT_SLOT_FREE)
            return &lane->slots[i];
    return NULL;
}

static void post_send(struct rt_carrier *carrier, struct rt_load *load, struct rt_slot *slot,
                      const struct rt_move *move) {
    struct rt_send *send = &slot->post.send;
    const struct rt_message message = {
        .type = RT_MESSAGE_CHUNK,
        .source = carrier->party.rank,
        .run = carrier->party.run,
        .micro = slot->number,
        .update = slot->first,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)slot->count}}}};
    send->channel = slot->lane->channel;
    send->head_bytes = RT_MESSAGE_HEAD;
    rt_message_encode(&message, send->head);
    send->body[0] = (struct rt_piece){load->buffers[move->buffer] + slot->first, slot->count * sizeof(float)};
    send->body[1] = (struct rt_piece){NULL, 0};
    for (uint32_t i = 0; i < slot->cells; i++) {
        load->cells[slot->cell + i].sending++;
        load->cells[slot->cell + i].next++;
    }
    rt_link_send(slot->lane->link, send);
    for (uint32_t i = 0; i < slot->cells; i++)
        step(carrier, load, &load->cells[slot->cell + i]);
}

static void post_receive(struct rt_load *load, struct rt_slot *slot, const struct rt_move *move) {
    struct rt_receive *receive = &slot->post.receive;
    receive->channel = slot->lane->channel;
    receive->body = rt_move_is_ahead(move) ? slot->scratch : load->buffers[move->buffer] + slot->first;
    receive->body_room = slot->count * sizeof(float);
    rt_link_receive(slot->lane->link, receive);
}

static void go_on(struct rt_lane *lane, const struct rt_carrier *carrier, size_t end, uint32_t cells) {
    const struct rt_stop *stop = &lane->stops[lane->stop];
    const struct rt_move *move = &carrier->loads[stop->load].settings.moves.list[stop->move];
    lane->at = end;
    lane->cell += cells;
    if (end < move->first + move->count)
        return;
    lane->stop++;
    if (lane->stop == lane->stop_count) {
        lane->stop = 0;
        lane->round++;
    }
    stop = &lane->stops[lane->stop];
    lane->at = carrier->loads[stop->load].settings.moves.list[stop->move].first;
    lane->cell = stop->cell;
}

/* Posts the next frame of a lane, if its turn has come and there is a place for it. */
static bool post_next(struct rt_carrier *carrier, struct rt_lane *lane) {
    const struct rt_stop *stop = &lane->stops[lane->stop];
    struct rt_load *load = &carrier->loads[stop->load];
    const struct rt_move *move = &load->settings.moves.list[stop->move];
    const size_t end = rt_frame_end(move, lane->at, load->segment);
    const uint64_t number = lane->round * carrier->load_count + stop->load;
    struct rt_slot *slot = find_free(lane);
    uint32_t cells;
    if (!slot)
        return false;
    if (lane->incoming && rt_move_is_ahead(move))
        cells = count_cells(load, lane->cell, end);
    else if (!is_turn(load, number, stop->move, lane->cell, end, &cells))
        return false;
    slot->state = RT_SLOT_POSTED;
    slot->number = number;
    slot->load = stop->load;
    slot->move = stop->move;
    slot->cell = lane->cell;
    slot->cells = slot->waiting = cells;
    slot->first = lane->at;
    slot->count = end - lane->at;
    go_on(lane, carrier, end, cells);
    if (lane->incoming)
        post_receive(load, slot, move);
    else
        post_send(carrier, load, slot, move);
    return true;
}

/* ---- loads ---- */

void rt_carrier_activate(struct rt_carrier *carrier) {
    const uint64_t count = carrier->load_count;
    while (carrier->activated < carrier->started && carrier->activated < carrier->done + count) {
        struct rt_load *load = &carrier->loads[carrier->activated % count];
        load->number = carrier->activated++;
        load->active = true;
        load->left = load->cell_count;
        for (size_t i = 0; i < load->cell_count; i++)
            load->cells[i].next = load->cells[i].sending = 0;
        for (size_t i = 0; i < load->cell_count; i++)
            step(carrier, load, &load->cells[i]);
    }
}

/* Loads end in their order. */
static bool finish_loads(struct rt_carrier *carrier) {
    const uint64_t before = carrier->done;
    while (carrier->done < carrier->activated) {
        struct rt_load *load = &carrier->loads[carrier->done % carrier->load_count];
        if (load->left > 0)
            break;
        load->active = false;
        carrier->done++;
    }
    return carrier->done != before;
}

void rt_carrier_run(struct rt_carrier *carrier) {
    do {
        struct rt_lane *lane;
        while ((lane = carrier->first_queued)) {
            carrier->first_queued = lane->next_queued;
            lane->queued = false;
            while (post_next(carrier, lane)) {
            }
        }
        rt_carrier_activate(carrier);
    } while (finish_loads(carrier) || carrier->first_queued);
}

/* ---- events ---- */

void rt_carrier_sent(struct rt_carrier *carrier, struct rt_slot *slot) {
    struct rt_load *load = &carrier->loads[slot->load];
    slot->state = RT_SLOT_FREE;
    rt_carrier_queue(carrier, slot->lane);
    for (uint32_t i = 0; i < slot->cells; i++) {
        struct rt_cell *cell = &load->cells[slot->cell + i];
        cell->sending--;
        step(carrier, load, cell);
    }
}

static rt_status check_frame(const struct rt_carrier *carrier, const struct rt_slot *slot,
                             struct rt_error *err) {
    const struct rt_receive *receive = &slot->post.receive;
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    const char *name = rt_message_name(message.type);
    const struct rt_message_tensor *tensor = &message.tensor[0];
    if (message.run != carrier->party.run)
        return rt_fail(err, RT_BAD_INPUT, "it sent a message (%s) of another run", name);
    if (message.type != RT_MESSAGE_CHUNK)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came among the chunks", name);
    if (message.source != slot->lane->peer)
        return rt_fail(err, RT_BAD_INPUT, "a %s message says that it is from node %u", name, message.source);
    if (message.micro != slot->number || message.update != slot->first)
        return rt_fail(err, RT_BAD_INPUT,
                       "a %s message is of load %llu from %llu on where %llu from %zu on was expected", name,
                       (unsigned long long)message.micro, (unsigned long long)message.update,
                       (unsigned long long)slot->number, slot->first);
    if (message.tensors != 1 || tensor->dtype != RT_DTYPE_F32 || tensor->rank != 1 ||
        tensor->dims[0] != slot->count)
        return rt_fail(err, RT_BAD_INPUT, "a %s message has the wrong shape (%zu floats were expected)", name,
                       slot->count);
    return RT_OK;
}

rt_status rt_carrier_arrived(struct rt_carrier *carrier, struct rt_slot *slot, struct rt_error *err) {
    rt_status status = check_frame(carrier, slot, err);
    if (status != RT_OK) {
        char text[32];
        return rt_fail_prefix(err, status, "%s", rt_party_name(slot->lane->peer, text));
    }
    struct rt_load *load = &carrier->loads[slot->load];
    const bool ahead = rt_move_is_ahead(&load->settings.moves.list[slot->move]);
    slot->state = ahead ? RT_SLOT_ARRIVED : RT_SLOT_FREE;
    const bool started = load->active && load->number == slot->number;
    const uint32_t cell = slot->cell, cells = slot->cells; /* stepping may give the slot away */
    if (!ahead)
        rt_carrier_queue(carrier, slot->lane);
    for (uint32_t i = 0; i < cells && started; i++) {
        if (!ahead)
            load->cells[cell + i].next++;
        step(carrier, load, &load->cells[cell + i]);
    }
    return RT_OK;
}
