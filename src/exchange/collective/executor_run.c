/*
 * How an executor progresses on an event. A cell advances through its operations as far as it can. An
 * operation that needs a peer stops it, and the lane of that operation is queued. A lane posts its frames
 * strictly in their order, each when all its cells have come to it.
 *
 * Why this never deadlocks: order all frames of all nodes by load, then by their round in the algorithm, then
 * by segment. What a frame waits for, on its lane and in its cells, comes before it in this order; so the
 * first frame that is not done can always go on. A frame received ahead of its turn occupies a buffer only
 * until the frames before it are done.
 *
 * Why a frame may be received in place while the cell's own frames are still being sent: it is posted when
 * its turn has come, and the peer computes it from what we sent, or from later data. So our bytes have been
 * sent when it arrives.
 */
#include "exchange/collective/executor_inside.h"

#include "base/clones.h"
#include <string.h>

RT_CLONES static void add(size_t n, const float *restrict x, float *restrict y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void rt_executor_queue(struct rt_executor *executor, struct rt_lane *lane) {
    if (lane->queued)
        return;
    lane->queued = true;
    lane->next_queued = NULL;
    if (executor->first_queued)
        executor->last_queued->next_queued = lane;
    else
        executor->first_queued = lane;
    executor->last_queued = lane;
}

/* ---- cells ---- */

static const struct rt_collective_op *executor_next_op(const struct rt_load *load, const struct rt_cell *cell,
                                                       uint32_t *index) {
    const struct rt_zone *zone = &load->zones[cell->zone];
    if (cell->next == zone->count)
        return NULL;
    *index = zone->ops[cell->next];
    return &load->settings.collective.list[*index];
}

static struct rt_slot *executor_find_arrived(const struct rt_executor *executor, const struct rt_load *load,
                                             uint32_t op, const struct rt_cell *cell) {
    struct rt_lane *lane = &executor->lanes[load->lane_of[op]];
    for (size_t i = 0; i < RT_LANE_FRAMES; i++) {
        struct rt_slot *slot = &lane->slots[i];
        if (slot->state == RT_SLOT_ARRIVED && slot->number == load->number && slot->op == op &&
            cell->first - slot->first < slot->count)
            return slot;
    }
    return NULL;
}

/* Adds, or puts into its place, what has come for the cell; false: it has not come. */
static bool executor_take_in(struct rt_executor *executor, struct rt_load *load,
                             const struct rt_collective_op *op, uint32_t index, struct rt_cell *cell) {
    struct rt_slot *slot = executor_find_arrived(executor, load, index, cell);
    if (!slot)
        return false;
    const enum rt_state before = rt_communicator_enter(&executor->comm, RT_STATE_REDUCE);
    const float *from = slot->scratch + (cell->first - slot->first);
    float *to = load->buffers[op->buffer] + cell->first;
    if (op->kind == RT_OP_ADD)
        add(cell->count, from, to);
    else
        memcpy(to, from, cell->count * sizeof *to);
    rt_communicator_enter(&executor->comm, before);
    if (--slot->waiting == 0) {
        slot->state = RT_SLOT_FREE;
        rt_executor_queue(executor, slot->lane);
    }
    return true;
}

static void executor_do_op(struct rt_executor *executor, struct rt_load *load,
                           const struct rt_collective_op *op, const struct rt_cell *cell) {
    const enum rt_state before =
        rt_communicator_enter(&executor->comm, op->kind == RT_OP_APPLY ? RT_STATE_UPDATE : RT_STATE_REDUCE);
    float *to = load->buffers[op->buffer] + cell->first;
    const float *from = load->buffers[op->from] + cell->first;
    if (op->kind == RT_OP_MERGE)
        add(cell->count, from, to);
    else if (op->kind == RT_OP_COPY)
        memcpy(to, from, cell->count * sizeof *to);
    else
        executor->apply(executor->user, load->settings.offset + cell->first, cell->count,
                        load->buffers[RT_BUFFER_GRADIENT] + cell->first);
    rt_communicator_enter(&executor->comm, before);
}

/* Goes on with a cell as far as it can. */
static void executor_step_cell(struct rt_executor *executor, struct rt_load *load, struct rt_cell *cell) {
    const struct rt_collective_op *op;
    uint32_t index;
    for (; (op = executor_next_op(load, cell, &index)); cell->next++) {
        /* What is being sent must not change. */
        if (cell->sending > 0 && (op->kind == RT_OP_ADD || op->kind == RT_OP_MERGE || op->kind == RT_OP_COPY))
            return;
        if (rt_op_is_ahead(op)) {
            if (!executor_take_in(executor, load, op, index, cell))
                return;
        } else if (op->kind == RT_OP_SEND || op->kind == RT_OP_TAKE) {
            rt_executor_queue(executor, &executor->lanes[load->lane_of[index]]);
            return;
        } else {
            executor_do_op(executor, load, op, cell);
        }
    }
    if (cell->sending == 0)
        load->left--;
}

/* ---- lanes ---- */

/* Whether all cells of a frame have come to its operation; counts them. */
static bool executor_is_turn(const struct rt_load *load, uint64_t number, uint32_t op, uint32_t first,
                             size_t end, uint32_t *cells) {
    if (!load->active || load->number != number)
        return false;
    uint32_t i = first, index;
    for (; i < load->cell_count && load->cells[i].first < end; i++)
        if (!executor_next_op(load, &load->cells[i], &index) || index != op)
            return false;
    *cells = i - first;
    return true;
}

static uint32_t executor_count_cells(const struct rt_load *load, uint32_t first, size_t end) {
    uint32_t i = first;
    while (i < load->cell_count && load->cells[i].first < end)
        i++;
    return i - first;
}

static struct rt_slot *executor_find_free(const struct rt_lane *lane) {
    for (size_t i = 0; i < RT_LANE_FRAMES; i++)
        if (lane->slots[i].state == RT_SLOT_FREE)
            return &lane->slots[i];
    return NULL;
}

static void executor_post_send(struct rt_executor *executor, struct rt_load *load, struct rt_slot *slot,
                               const struct rt_collective_op *op) {
    struct rt_send *send = &slot->post.send;
    const struct rt_message message = {
        .type = RT_MESSAGE_CHUNK,
        .source = executor->comm.rank,
        .run = executor->comm.run,
        .load = slot->number,
        .first = slot->first,
        .tensors = 1,
        .tensor = {{.dtype = RT_DTYPE_F32, .rank = 1, .dims = {(uint32_t)slot->count}}}};
    send->channel = slot->lane->channel;
    send->head_bytes = RT_MESSAGE_HEAD;
    rt_message_encode(&message, send->head);
    send->body[0] = (struct rt_piece){load->buffers[op->buffer] + slot->first, slot->count * sizeof(float)};
    send->body[1] = (struct rt_piece){NULL, 0};
    for (uint32_t i = 0; i < slot->cells; i++) {
        load->cells[slot->cell + i].sending++;
        load->cells[slot->cell + i].next++;
    }
    rt_link_send(slot->lane->link, send);
    for (uint32_t i = 0; i < slot->cells; i++)
        executor_step_cell(executor, load, &load->cells[slot->cell + i]);
}

static void executor_post_receive(struct rt_load *load, struct rt_slot *slot,
                                  const struct rt_collective_op *op) {
    struct rt_receive *receive = &slot->post.receive;
    receive->channel = slot->lane->channel;
    receive->body = rt_op_is_ahead(op) ? slot->scratch : load->buffers[op->buffer] + slot->first;
    receive->body_room = slot->count * sizeof(float);
    rt_link_receive(slot->lane->link, receive);
}

static void executor_go_on(struct rt_lane *lane, const struct rt_executor *executor, size_t end,
                           uint32_t cells) {
    const struct rt_stop *stop = &lane->stops[lane->stop];
    const struct rt_collective_op *op = &executor->loads[stop->load].settings.collective.list[stop->op];
    lane->at = end;
    lane->cell += cells;
    if (end < op->first + op->count)
        return;
    lane->stop++;
    if (lane->stop == lane->stop_count) {
        lane->stop = 0;
        lane->round++;
    }
    stop = &lane->stops[lane->stop];
    lane->at = executor->loads[stop->load].settings.collective.list[stop->op].first;
    lane->cell = stop->cell;
}

/* Posts the next frame of a lane, if its turn has come and there is a place for it. */
static bool executor_post_next(struct rt_executor *executor, struct rt_lane *lane) {
    const struct rt_stop *stop = &lane->stops[lane->stop];
    struct rt_load *load = &executor->loads[stop->load];
    const struct rt_collective_op *op = &load->settings.collective.list[stop->op];
    const size_t end = rt_frame_end(op, lane->at, load->segment);
    const uint64_t number = lane->round * executor->load_count + stop->load;
    struct rt_slot *slot = executor_find_free(lane);
    uint32_t cells;
    if (!slot)
        return false;
    if (lane->incoming && rt_op_is_ahead(op))
        cells = executor_count_cells(load, lane->cell, end);
    else if (!executor_is_turn(load, number, stop->op, lane->cell, end, &cells))
        return false;
    slot->state = RT_SLOT_POSTED;
    slot->number = number;
    slot->load = stop->load;
    slot->op = stop->op;
    slot->cell = lane->cell;
    slot->cells = slot->waiting = cells;
    slot->first = lane->at;
    slot->count = end - lane->at;
    executor_go_on(lane, executor, end, cells);
    if (lane->incoming)
        executor_post_receive(load, slot, op);
    else
        executor_post_send(executor, load, slot, op);
    return true;
}

/* ---- loads ---- */

static void executor_activate(struct rt_executor *executor) {
    const uint64_t count = executor->load_count;
    while (executor->activated < executor->started && executor->activated < executor->done + count) {
        struct rt_load *load = &executor->loads[executor->activated % count];
        load->number = executor->activated++;
        load->active = true;
        load->left = load->cell_count;
        for (size_t i = 0; i < load->cell_count; i++)
            load->cells[i].next = load->cells[i].sending = 0;
        for (size_t i = 0; i < load->cell_count; i++)
            executor_step_cell(executor, load, &load->cells[i]);
    }
}

/* Loads end in their order. */
static bool executor_finish_loads(struct rt_executor *executor) {
    const uint64_t before = executor->done;
    while (executor->done < executor->activated) {
        struct rt_load *load = &executor->loads[executor->done % executor->load_count];
        if (load->left > 0)
            break;
        load->active = false;
        executor->done++;
    }
    return executor->done != before;
}

void rt_executor_run(struct rt_executor *executor) {
    do {
        struct rt_lane *lane;
        while ((lane = executor->first_queued)) {
            executor->first_queued = lane->next_queued;
            lane->queued = false;
            while (executor_post_next(executor, lane)) {
            }
        }
        executor_activate(executor);
    } while (executor_finish_loads(executor) || executor->first_queued);
}

/* ---- events ---- */

static void executor_take_sent(struct rt_executor *executor, struct rt_slot *slot) {
    struct rt_load *load = &executor->loads[slot->load];
    slot->state = RT_SLOT_FREE;
    rt_executor_queue(executor, slot->lane);
    for (uint32_t i = 0; i < slot->cells; i++) {
        struct rt_cell *cell = &load->cells[slot->cell + i];
        cell->sending--;
        executor_step_cell(executor, load, cell);
    }
}

static rt_status executor_check_frame(const struct rt_executor *executor, const struct rt_slot *slot,
                                      struct rt_error *err) {
    const struct rt_receive *receive = &slot->post.receive;
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status != RT_OK)
        return status;
    const struct rt_message_tensor *tensor = &message.tensor[0];
    if (message.run != executor->comm.run)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message of another run", rt_message_name(message.type));
    if (message.type != RT_MESSAGE_CHUNK)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message among the chunks",
                       rt_message_name(message.type));
    if (message.source != slot->lane->peer)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message that claims to be from rank %u",
                       rt_message_name(message.type), message.source);
    if (message.load != slot->number || message.first != slot->first)
        return rt_fail(err, RT_BAD_INPUT,
                       "sent a %s message of load %llu from %llu on where load %llu from %zu on was expected",
                       rt_message_name(message.type), (unsigned long long)message.load,
                       (unsigned long long)message.first, (unsigned long long)slot->number, slot->first);
    if (message.tensors != 1 || tensor->dtype != RT_DTYPE_F32 || tensor->rank != 1 ||
        tensor->dims[0] != slot->count)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message of the wrong shape (%zu floats were expected)",
                       rt_message_name(message.type), slot->count);
    return RT_OK;
}

static rt_status executor_take_arrived(struct rt_executor *executor, struct rt_slot *slot,
                                       struct rt_error *err) {
    RT_TRY(executor_check_frame(executor, slot, err));
    struct rt_load *load = &executor->loads[slot->load];
    const bool ahead = rt_op_is_ahead(&load->settings.collective.list[slot->op]);
    slot->state = ahead ? RT_SLOT_ARRIVED : RT_SLOT_FREE;
    const bool started = load->active && load->number == slot->number;
    const uint32_t cell = slot->cell, cells = slot->cells; /* stepping may give the slot away */
    if (!ahead)
        rt_executor_queue(executor, slot->lane);
    for (uint32_t i = 0; i < cells && started; i++) {
        if (!ahead)
            load->cells[cell + i].next++;
        executor_step_cell(executor, load, &load->cells[cell + i]);
    }
    return RT_OK;
}

/* A slot begins with what was posted of it. */
static struct rt_slot *executor_find_slot(const struct rt_executor *executor, const void *posted) {
    const uintptr_t at = (uintptr_t)posted, begin = (uintptr_t)executor->slots;
    if (at < begin || at - begin >= executor->slot_count * sizeof *executor->slots)
        return NULL;
    return &executor->slots[(at - begin) / sizeof *executor->slots];
}

bool rt_executor_event(struct rt_executor *executor, const struct rt_event *event, rt_status *status,
                       struct rt_error *err) {
    const void *posted = event->kind == RT_EVENT_SENT       ? (const void *)event->send
                         : event->kind == RT_EVENT_RECEIVED ? (const void *)event->receive
                                                            : NULL;
    struct rt_slot *slot = posted ? executor_find_slot(executor, posted) : NULL;
    if (!slot)
        return false;
    *status = RT_OK;
    if (event->kind == RT_EVENT_SENT)
        executor_take_sent(executor, slot);
    else
        *status = executor_take_arrived(executor, slot, err);
    if (*status == RT_OK)
        rt_executor_run(executor);
    return true;
}

uint16_t rt_executor_waits_for(const struct rt_executor *executor) {
    if (executor->done == executor->started)
        return UINT16_MAX;
    const struct rt_slot *sending = NULL, *coming = NULL;
    for (size_t i = 0; i < executor->slot_count; i++) {
        const struct rt_slot *slot = &executor->slots[i];
        if (slot->state != RT_SLOT_POSTED || slot->number != executor->done)
            continue;
        if (!slot->lane->incoming)
            sending = slot;
        else if (!coming || slot->op < coming->op)
            coming = slot;
    }
    if (coming) /* the first of the list: what comes later may be made of it */
        return coming->lane->peer;
    return sending ? sending->lane->peer : UINT16_MAX; /* the peer has posted no receive yet */
}

/* ---- what its owner calls ---- */

void rt_executor_start(struct rt_executor *executor) {
    executor->started++;
    executor_activate(executor);
    rt_executor_run(executor);
}

uint64_t rt_executor_done(const struct rt_executor *executor) {
    return executor->done;
}

uint64_t rt_executor_started(const struct rt_executor *executor) {
    return executor->started;
}
