/* Making an executor: its memory is all taken before the first load. */
#include "exchange/collective/executor_inside.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* ---- loads ---- */

static rt_status executor_check_op(const struct rt_executor *executor, const struct rt_load *load,
                                   const struct rt_collective_op *op, struct rt_error *err) {
    char text[RT_NAME_ROOM];
    if (op->kind > RT_OP_APPLY || op->buffer >= RT_MAX_BUFFERS || op->from >= RT_MAX_BUFFERS ||
        op->count == 0 || op->first > load->settings.count || op->count > load->settings.count - op->first)
        return rt_fail(err, RT_FAILED, "an operation of %zu floats from %zu on does not fit a span of %zu",
                       op->count, op->first, load->settings.count);
    if (!load->buffers[op->kind == RT_OP_APPLY ? RT_BUFFER_GRADIENT : op->buffer] ||
        ((op->kind == RT_OP_MERGE || op->kind == RT_OP_COPY) && !load->buffers[op->from]) ||
        (op->kind == RT_OP_APPLY && !executor->apply))
        return rt_fail(err, RT_FAILED, "an operation needs a buffer that is not there");
    if (rt_op_has_peer(op) && (op->peer >= executor->comm.count || !executor->comm.links[op->peer]))
        return rt_fail(err, RT_FAILED, "there is no link with %s, which the exchange needs",
                       rt_communicator_name(&executor->comm, op->peer, text));
    return RT_OK;
}

static rt_status executor_prepare_load(struct rt_executor *executor, struct rt_load *load,
                                       struct rt_error *err) {
    const struct rt_load_settings *settings = &load->settings;
    const size_t pieces = settings->more_pieces, row = rt_round_up(settings->count, RT_ALIGN_FLOATS);
    const size_t spares = settings->collective.spares > pieces ? settings->collective.spares - pieces : 0;
    rt_status status = RT_OK;
    load->buffers[RT_BUFFER_GRADIENT] = settings->gradient;
    load->buffers[RT_BUFFER_PARAMS] = settings->params;
    if (spares > 0) {
        status = rt_floats_reserve(spares * row, "the terms of a sum", &load->spare, err);
        if (status != RT_OK)
            return status;
        executor->bytes += rt_floats_bytes(spares * row);
        for (size_t i = 0; i < spares; i++)
            load->buffers[RT_BUFFER_SPARE + pieces + i] = load->spare + i * row;
    }
    for (size_t i = 0; i < pieces; i++)
        load->buffers[RT_BUFFER_SPARE + i] = settings->pieces[i] + settings->offset;
    for (size_t i = 0; i < settings->collective.count && status == RT_OK; i++)
        status = executor_check_op(executor, load, &settings->collective.list[i], err);
    if (status == RT_OK)
        status =
            rt_alloc(settings->collective.count, sizeof *load->lane_of, "the exchange", &load->lane_of, err);
    if (status == RT_OK)
        status = rt_load_cut(load, executor->segment, &executor->bytes, err);
    executor->bytes +=
        settings->collective.count * (sizeof *load->lane_of + sizeof *settings->collective.list);
    return status;
}

static void executor_release_load(struct rt_load *load) {
    rt_collective_deinit(&load->settings.collective);
    free(load->spare);
    free(load->cells);
    free(load->zones);
    free(load->zone_ops);
    free(load->lane_of);
}

/* ---- lanes ---- */

static size_t executor_lane_key(const struct rt_collective_op *op) {
    return op->peer * 4u + (op->buffer == RT_BUFFER_PARAMS ? 2u : 0u) + (op->kind == RT_OP_SEND ? 0u : 1u);
}

/* Numbers the lanes that there are, in number[key], and counts their stops; returns how many stops. */
static size_t executor_number_lanes(struct rt_executor *executor, uint32_t *number) {
    size_t stops = 0;
    for (size_t l = 0; l < executor->load_count; l++)
        for (size_t i = 0; i < executor->loads[l].settings.collective.count; i++) {
            const struct rt_collective_op *op = &executor->loads[l].settings.collective.list[i];
            if (!rt_op_has_peer(op))
                continue;
            uint32_t *lane = &number[executor_lane_key(op)];
            if (*lane == 0)
                *lane = (uint32_t)++executor->lane_count;
            executor->loads[l].lane_of[i] = *lane - 1;
            stops++;
        }
    return stops;
}

/* Notes the operation as a stop of its lane; before there is room for stops it is only counted. */
static void executor_add_stop(struct rt_executor *executor, size_t l, size_t i) {
    const struct rt_load *load = &executor->loads[l];
    const struct rt_collective_op *op = &load->settings.collective.list[i];
    struct rt_lane *lane = &executor->lanes[load->lane_of[i]];
    if (lane->stops)
        lane->stops[lane->stop_count] =
            (struct rt_stop){(uint32_t)l, (uint32_t)i, rt_load_find_cell(load, op->first)};
    lane->stop_count++;
    lane->peer = op->peer;
    lane->incoming = op->kind != RT_OP_SEND;
    lane->channel = op->buffer == RT_BUFFER_PARAMS ? RT_CHANNEL_FIRST : RT_CHANNEL_SECOND;
    lane->link = executor->comm.links[op->peer];
    lane->ahead |= rt_op_is_ahead(op);
    const size_t largest = op->count < load->segment ? op->count : load->segment;
    lane->largest = largest > lane->largest ? largest : lane->largest;
}

static void executor_add_stops(struct rt_executor *executor) {
    for (size_t l = 0; l < executor->load_count; l++)
        for (size_t i = 0; i < executor->loads[l].settings.collective.count; i++)
            if (rt_op_has_peer(&executor->loads[l].settings.collective.list[i]))
                executor_add_stop(executor, l, i);
}

static rt_status executor_make_lanes(struct rt_executor *executor, struct rt_error *err) {
    uint32_t *number;
    rt_status status = rt_alloc(executor->comm.count * 4u, sizeof *number, "the exchange", &number, err);
    if (status != RT_OK)
        return status;
    const size_t stops = executor_number_lanes(executor, number);
    free(number);
    status = rt_alloc(executor->lane_count, sizeof *executor->lanes, "the exchange", &executor->lanes, err);
    if (status == RT_OK)
        status = rt_alloc(stops, sizeof *executor->stops, "the exchange", &executor->stops, err);
    if (status != RT_OK)
        return status;
    executor_add_stops(executor);
    struct rt_stop *next = executor->stops;
    for (size_t i = 0; i < executor->lane_count; i++) {
        executor->lanes[i].stops = next;
        next += executor->lanes[i].stop_count;
        executor->lanes[i].stop_count = 0;
    }
    executor_add_stops(executor);
    for (size_t i = 0; i < executor->lane_count; i++) {
        struct rt_lane *lane = &executor->lanes[i];
        const struct rt_stop *stop = &lane->stops[0];
        lane->at = executor->loads[stop->load].settings.collective.list[stop->op].first;
        lane->cell = stop->cell;
    }
    executor->bytes += executor->lane_count * sizeof *executor->lanes + stops * sizeof *executor->stops;
    return RT_OK;
}

static rt_status executor_make_slots(struct rt_executor *executor, struct rt_error *err) {
    size_t floats = 0;
    for (size_t i = 0; i < executor->lane_count; i++)
        if (executor->lanes[i].ahead)
            floats += RT_LANE_FRAMES * rt_round_up(executor->lanes[i].largest, RT_ALIGN_FLOATS);
    executor->slot_count = executor->lane_count * RT_LANE_FRAMES;
    rt_status status =
        rt_alloc(executor->slot_count, sizeof *executor->slots, "the exchange", &executor->slots, err);
    if (status == RT_OK)
        status = rt_floats_reserve(floats, "the exchange", &executor->scratch, err);
    if (status != RT_OK)
        return status;
    float *scratch = executor->scratch;
    for (size_t i = 0; i < executor->slot_count; i++) {
        struct rt_lane *lane = &executor->lanes[i / RT_LANE_FRAMES];
        struct rt_slot *slot = &executor->slots[i];
        slot->lane = lane;
        if (i % RT_LANE_FRAMES == 0)
            lane->slots = slot;
        if (lane->ahead) {
            slot->scratch = scratch;
            scratch += rt_round_up(lane->largest, RT_ALIGN_FLOATS);
        }
    }
    executor->bytes += executor->slot_count * sizeof *executor->slots + rt_floats_bytes(floats);
    return RT_OK;
}

/* ---- the whole ---- */

static rt_status executor_prepare(struct rt_executor *executor, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < executor->load_count && status == RT_OK; i++)
        status = executor_prepare_load(executor, &executor->loads[i], err);
    if (status == RT_OK)
        status = executor_make_lanes(executor, err);
    if (status == RT_OK)
        status = executor_make_slots(executor, err);
    return status;
}

rt_status rt_executor_create(const struct rt_executor_settings *settings, struct rt_executor **out,
                             struct rt_error *err) {
    struct rt_executor *executor = NULL;
    struct rt_load *loads = NULL;
    rt_status status = rt_alloc(1, sizeof *executor, "the exchange", &executor, err);
    if (status == RT_OK)
        status = rt_alloc(settings->load_count, sizeof *loads, "the exchange", &loads, err);
    if (status != RT_OK) {
        for (size_t i = 0; i < settings->load_count; i++) {
            struct rt_collective collective = settings->loads[i].collective;
            rt_collective_deinit(&collective);
        }
        free(executor);
        return status;
    }
    const size_t segment = settings->segment_floats ? settings->segment_floats : RT_SEGMENT_FLOATS;
    *executor = (struct rt_executor){.comm = *settings->comm,
                                     .segment = segment < RT_MAX_SEGMENT ? segment : RT_MAX_SEGMENT,
                                     .loads = loads,
                                     .load_count = settings->load_count,
                                     .apply = settings->apply,
                                     .user = settings->user,
                                     .bytes = sizeof *executor + settings->load_count * sizeof *loads};
    for (size_t i = 0; i < settings->load_count; i++)
        loads[i].settings = settings->loads[i];
    status = executor_prepare(executor, err);
    if (status != RT_OK) {
        rt_executor_destroy(executor);
        return status;
    }
    for (size_t i = 0; i < executor->lane_count; i++)
        rt_executor_queue(executor, &executor->lanes[i]);
    rt_executor_run(executor);
    *out = executor;
    return RT_OK;
}

void rt_executor_destroy(struct rt_executor *executor) {
    if (!executor)
        return;
    for (size_t i = 0; i < executor->load_count; i++)
        executor_release_load(&executor->loads[i]);
    free(executor->loads);
    free(executor->lanes);
    free(executor->stops);
    free(executor->slots);
    free(executor->scratch);
    free(executor);
}

size_t rt_executor_bytes(const struct rt_executor *executor) {
    return executor->bytes;
}
