/* A carrier's memory, which is all taken before the first load, and its calls. */
#include "exchange/carrier_parts.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* ---- loads ---- */

static bool has_peer(const struct rt_move *move) {
    return move->kind == RT_MOVE_SEND || move->kind == RT_MOVE_TAKE || move->kind == RT_MOVE_ADD;
}

static rt_status check_move(const struct rt_carrier *carrier, const struct rt_load *load,
                            const struct rt_move *move, struct rt_error *err) {
    char text[32];
    if (move->kind > RT_MOVE_APPLY || move->buffer >= RT_MAX_BUFFERS || move->from >= RT_MAX_BUFFERS ||
        move->count == 0 || move->first > load->settings.count ||
        move->count > load->settings.count - move->first)
        return rt_fail(err, RT_FAILED, "a move of %zu floats from %zu on does not fit a span of %zu",
                       move->count, move->first, load->settings.count);
    if (!load->buffers[move->kind == RT_MOVE_APPLY ? RT_BUFFER_GRADIENT : move->buffer] ||
        (move->kind == RT_MOVE_MERGE && !load->buffers[move->from]) ||
        (move->kind == RT_MOVE_APPLY && !carrier->apply))
        return rt_fail(err, RT_FAILED, "a move needs a buffer that there is not");
    if (has_peer(move) && (move->peer >= carrier->party.count || !carrier->party.links[move->peer]))
        return rt_fail(err, RT_FAILED, "there is no link with %s, which the exchange needs",
                       rt_party_name(move->peer, text));
    return RT_OK;
}

static rt_status prepare_load(struct rt_carrier *carrier, struct rt_load *load, struct rt_error *err) {
    const struct rt_load_settings *settings = &load->settings;
    const size_t spares = settings->moves.spares, row = rt_round_up(settings->count, RT_ALIGN_FLOATS);
    rt_status status = RT_OK;
    load->buffers[RT_BUFFER_GRADIENT] = settings->gradient;
    load->buffers[RT_BUFFER_PARAMS] = settings->params;
    if (spares > 0) {
        status = rt_floats_reserve(spares * row, "the terms of a sum", &load->spare, err);
        if (status != RT_OK)
            return status;
        carrier->bytes += rt_floats_bytes(spares * row);
        for (size_t i = 0; i < spares; i++)
            load->buffers[RT_BUFFER_SPARE + i] = load->spare + i * row;
    }
    for (size_t i = 0; i < settings->moves.count && status == RT_OK; i++)
        status = check_move(carrier, load, &settings->moves.list[i], err);
    if (status == RT_OK)
        status = rt_alloc(settings->moves.count, sizeof *load->lane_of, "the exchange", &load->lane_of, err);
    if (status == RT_OK)
        status = rt_load_cut(load, carrier->segment, &carrier->bytes, err);
    carrier->bytes += settings->moves.count * (sizeof *load->lane_of + sizeof *settings->moves.list);
    return status;
}

static void release_load(struct rt_load *load) {
    rt_moves_deinit(&load->settings.moves);
    free(load->spare);
    free(load->cells);
    free(load->zones);
    free(load->zone_moves);
    free(load->lane_of);
}

/* ---- lanes ---- */

static size_t lane_key(const struct rt_move *move) {
    return move->peer * 4u + (move->buffer == RT_BUFFER_PARAMS ? 2u : 0u) +
           (move->kind == RT_MOVE_SEND ? 0u : 1u);
}

/* Numbers the lanes that there are, in number[key], and counts their stops; returns how many stops. */
static size_t number_lanes(struct rt_carrier *carrier, uint32_t *number) {
    size_t stops = 0;
    for (size_t l = 0; l < carrier->load_count; l++)
        for (size_t i = 0; i < carrier->loads[l].settings.moves.count; i++) {
            const struct rt_move *move = &carrier->loads[l].settings.moves.list[i];
            if (!has_peer(move))
                continue;
            uint32_t *lane = &number[lane_key(move)];
            if (*lane == 0)
                *lane = (uint32_t)++carrier->lane_count;
            carrier->loads[l].lane_of[i] = *lane - 1;
            stops++;
        }
    return stops;
}

/* Notes the move as a stop of its lane; before there is room for stops it is only counted. */
static void add_stop(struct rt_carrier *carrier, size_t l, size_t i) {
    const struct rt_load *load = &carrier->loads[l];
    const struct rt_move *move = &load->settings.moves.list[i];
    struct rt_lane *lane = &carrier->lanes[load->lane_of[i]];
    if (lane->stops)
        lane->stops[lane->stop_count] =
            (struct rt_stop){(uint32_t)l, (uint32_t)i, rt_load_find_cell(load, move->first)};
    lane->stop_count++;
    lane->peer = move->peer;
    lane->incoming = move->kind != RT_MOVE_SEND;
    lane->channel = move->buffer == RT_BUFFER_PARAMS ? RT_CHANNEL_FIRST : RT_CHANNEL_SECOND;
    lane->link = carrier->party.links[move->peer];
    lane->ahead |= rt_move_is_ahead(move);
    const size_t largest = move->count < load->segment ? move->count : load->segment;
    lane->largest = largest > lane->largest ? largest : lane->largest;
}

static void add_stops(struct rt_carrier *carrier) {
    for (size_t l = 0; l < carrier->load_count; l++)
        for (size_t i = 0; i < carrier->loads[l].settings.moves.count; i++)
            if (has_peer(&carrier->loads[l].settings.moves.list[i]))
                add_stop(carrier, l, i);
}

static rt_status make_lanes(struct rt_carrier *carrier, struct rt_error *err) {
    uint32_t *number;
    rt_status status = rt_alloc(carrier->party.count * 4u, sizeof *number, "the exchange", &number, err);
    if (status != RT_OK)
        return status;
    const size_t stops = number_lanes(carrier, number);
    free(number);
    status = rt_alloc(carrier->lane_count, sizeof *carrier->lanes, "the exchange", &carrier->lanes, err);
    if (status == RT_OK)
        status = rt_alloc(stops, sizeof *carrier->stops, "the exchange", &carrier->stops, err);
    if (status != RT_OK)
        return status;
    add_stops(carrier);
    struct rt_stop *next = carrier->stops;
    for (size_t i = 0; i < carrier->lane_count; i++) {
        carrier->lanes[i].stops = next;
        next += carrier->lanes[i].stop_count;
        carrier->lanes[i].stop_count = 0;
    }
    add_stops(carrier);
    for (size_t i = 0; i < carrier->lane_count; i++) {
        struct rt_lane *lane = &carrier->lanes[i];
        const struct rt_stop *stop = &lane->stops[0];
        lane->at = carrier->loads[stop->load].settings.moves.list[stop->move].first;
        lane->cell = stop->cell;
    }
    carrier->bytes += carrier->lane_count * sizeof *carrier->lanes + stops * sizeof *carrier->stops;
    return RT_OK;
}

static rt_status make_slots(struct rt_carrier *carrier, struct rt_error *err) {
    size_t floats = 0;
    for (size_t i = 0; i < carrier->lane_count; i++)
        if (carrier->lanes[i].ahead)
            floats += RT_LANE_FRAMES * rt_round_up(carrier->lanes[i].largest, RT_ALIGN_FLOATS);
    carrier->slot_count = carrier->lane_count * RT_LANE_FRAMES;
    rt_status status =
        rt_alloc(carrier->slot_count, sizeof *carrier->slots, "the exchange", &carrier->slots, err);
    if (status == RT_OK)
        status = rt_floats_reserve(floats, "the exchange", &carrier->scratch, err);
    if (status != RT_OK)
        return status;
    float *scratch = carrier->scratch;
    for (size_t i = 0; i < carrier->slot_count; i++) {
        struct rt_lane *lane = &carrier->lanes[i / RT_LANE_FRAMES];
        struct rt_slot *slot = &carrier->slots[i];
        slot->lane = lane;
        if (i % RT_LANE_FRAMES == 0)
            lane->slots = slot;
        if (lane->ahead) {
            slot->scratch = scratch;
            scratch += rt_round_up(lane->largest, RT_ALIGN_FLOATS);
        }
    }
    carrier->bytes += carrier->slot_count * sizeof *carrier->slots + rt_floats_bytes(floats);
    return RT_OK;
}

/* ---- the whole ---- */

static rt_status prepare(struct rt_carrier *carrier, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < carrier->load_count && status == RT_OK; i++)
        status = prepare_load(carrier, &carrier->loads[i], err);
    if (status == RT_OK)
        status = make_lanes(carrier, err);
    if (status == RT_OK)
        status = make_slots(carrier, err);
    return status;
}

rt_status rt_carrier_create(const struct rt_carrier_settings *settings, struct rt_carrier **out,
                            struct rt_error *err) {
    struct rt_carrier *carrier = NULL;
    struct rt_load *loads = NULL;
    rt_status status = rt_alloc(1, sizeof *carrier, "the exchange", &carrier, err);
    if (status == RT_OK)
        status = rt_alloc(settings->load_count, sizeof *loads, "the exchange", &loads, err);
    if (status != RT_OK) {
        for (size_t i = 0; i < settings->load_count; i++) {
            struct rt_moves moves = settings->loads[i].moves;
            rt_moves_deinit(&moves);
        }
        free(carrier);
        return status;
    }
    const size_t segment = settings->segment_floats ? settings->segment_floats : RT_SEGMENT_FLOATS;
    *carrier = (struct rt_carrier){.party = *settings->party,
                                   .segment = segment < RT_MAX_SEGMENT ? segment : RT_MAX_SEGMENT,
                                   .loads = loads,
                                   .load_count = settings->load_count,
                                   .apply = settings->apply,
                                   .user = settings->user,
                                   .bytes = sizeof *carrier + settings->load_count * sizeof *loads};
    for (size_t i = 0; i < settings->load_count; i++)
        loads[i].settings = settings->loads[i];
    status = prepare(carrier, err);
    if (status != RT_OK) {
        rt_carrier_destroy(carrier);
        return status;
    }
    for (size_t i = 0; i < carrier->lane_count; i++)
        rt_carrier_queue(carrier, &carrier->lanes[i]);
    rt_carrier_run(carrier);
    *out = carrier;
    return RT_OK;
}

void rt_carrier_destroy(struct rt_carrier *carrier) {
    if (!carrier)
        return;
    for (size_t i = 0; i < carrier->load_count; i++)
        release_load(&carrier->loads[i]);
    free(carrier->loads);
    free(carrier->lanes);
    free(carrier->stops);
    free(carrier->slots);
    free(carrier->scratch);
    free(carrier);
}

void rt_carrier_start(struct rt_carrier *carrier) {
    carrier->started++;
    rt_carrier_activate(carrier);
    rt_carrier_run(carrier);
}

uint64_t rt_carrier_done(const struct rt_carrier *carrier) {
    return carrier->done;
}

uint64_t rt_carrier_started(const struct rt_carrier *carrier) {
    return carrier->started;
}

/* A slot begins with what was posted of it. */
static struct rt_slot *find_slot(const struct rt_carrier *carrier, const void *posted) {
    const uintptr_t at = (uintptr_t)posted, begin = (uintptr_t)carrier->slots;
    if (at < begin || at - begin >= carrier->slot_count * sizeof *carrier->slots)
        return NULL;
    return &carrier->slots[(at - begin) / sizeof *carrier->slots];
}

bool rt_carrier_event(struct rt_carrier *carrier, const struct rt_event *event, rt_status *status,
                      struct rt_error *err) {
    const void *posted = event->kind == RT_EVENT_SENT       ? (const void *)event->send
                         : event->kind == RT_EVENT_RECEIVED ? (const void *)event->receive
                                                            : NULL;
    struct rt_slot *slot = posted ? find_slot(carrier, posted) : NULL;
    if (!slot)
        return false;
    *status = RT_OK;
    if (event->kind == RT_EVENT_SENT)
        rt_carrier_sent(carrier, slot);
    else
        *status = rt_carrier_arrived(carrier, slot, err);
    if (*status == RT_OK)
        rt_carrier_run(carrier);
    return true;
}

uint16_t rt_carrier_waits_for(const struct rt_carrier *carrier) {
    if (carrier->done == carrier->started)
        return UINT16_MAX;
    const struct rt_slot *sending = NULL, *coming = NULL;
    for (size_t i = 0; i < carrier->slot_count; i++) {
        const struct rt_slot *slot = &carrier->slots[i];
        if (slot->state != RT_SLOT_POSTED || slot->number != carrier->done)
            continue;
        if (!slot->lane->incoming)
            sending = slot;
        else if (!coming || slot->move < coming->move)
            coming = slot;
    }
    if (coming) /* the first of the list: what comes later may be made of it */
        return coming->lane->peer;
    return sending ? sending->lane->peer : UINT16_MAX; /* who has no room for it yet */
}

size_t rt_carrier_bytes(const struct rt_carrier *carrier) {
    return carrier->bytes;
}
