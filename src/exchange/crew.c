/*
 * The master's talks with the nodes; see crew.h. What the owner asks for is written down here and sent when
 * the part has its turn, by the thread that has the endpoint: a talk has room for a few messages at a time.
 */
#include "exchange/crew_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_crew_create(const struct rt_party *party, struct rt_crew **crew, struct rt_error *err) {
    struct rt_crew *made;
    rt_status status = rt_alloc(1, sizeof *made, "the master's talks", &made, err);
    if (status != RT_OK)
        return status;
    made->party = party;
    made->lost = UINT16_MAX;
    status = rt_alloc(party->count, sizeof *made->desks, "the master's talks", &made->desks, err);
    for (uint16_t rank = 1; rank < party->count && status == RT_OK; rank++) {
        struct rt_link *link = party->links[rank];
        if (!link || !link->user)
            status = rt_fail(err, RT_FAILED, "the master has no talk with node %u", rank);
        else
            made->desks[rank] = (struct rt_desk){.rank = rank, .link = link, .talk = link->user};
    }
    if (status != RT_OK) {
        rt_crew_destroy(made);
        return status;
    }
    *crew = made;
    return RT_OK;
}

void rt_crew_destroy(struct rt_crew *crew) {
    if (!crew)
        return;
    free(crew->desks);
    free(crew);
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

bool rt_desk_owes(const struct rt_desk *desk) {
    return desk->done < desk->given || desk->asked || desk->order.kind != RT_ORDER_NONE;
}

/* To be called when a node owes something it did not owe before, or has just been heard of. */
static void stamp(struct rt_crew *crew, struct rt_desk *desk) {
    desk->debt = ++crew->debts;
}

static bool has_something(const struct rt_desk *desk) {
    return desk->tell || desk->sent < desk->given || desk->ask || desk->stop;
}

static void send_one(struct rt_crew *crew, struct rt_desk *desk, uint8_t *body) {
    struct rt_message message = {.source = 0};
    size_t bytes = 0;
    if (desk->tell) {
        desk->tell = false;
        rt_talk_refuse(desk->talk, crew->status, 0, crew->sentence);
        return;
    }
    if (desk->sent < desk->given) {
        message.type = RT_MESSAGE_TICKET;
        message.micro = desk->batch[desk->sent++ % RT_CREW_AHEAD];
    } else if (desk->ask) {
        desk->ask = false;
        message.type = RT_MESSAGE_METRICS;
        bytes = rt_metrics_encode(&(struct rt_metrics){0}, body, RT_MAX_CONTROL);
    } else {
        desk->stop = false;
        desk->stopped = true;
        message.type = RT_MESSAGE_STOP;
    }
    rt_talk_send(desk->talk, &message, bytes);
}

void rt_desk_send(struct rt_crew *crew, struct rt_desk *desk) {
    uint8_t *body;
    while (!desk->talk->closed && has_something(desk) && (body = rt_talk_body(desk->talk)))
        send_one(crew, desk, body);
}

/* ---- what comes in ------------------------------------------------------------------------------------- */

static rt_status take_done(struct rt_desk *desk, const struct rt_message *message, struct rt_error *err) {
    if (desk->done == desk->sent || message->micro != desk->batch[desk->done % RT_CREW_AHEAD])
        return rt_fail(err, RT_BAD_INPUT, "it is done with batch %llu, which it was not given",
                       (unsigned long long)message->micro);
    if (message->update > message->rows)
        return rt_fail(err, RT_BAD_INPUT, "it has %llu right ones of %u examples",
                       (unsigned long long)message->update, message->rows);
    if (!isfinite(message->value))
        return rt_fail(err, RT_BAD_INPUT, "its loss of batch %llu is no number",
                       (unsigned long long)message->micro);
    desk->results[desk->done++ % RT_CREW_RESULTS] = (struct rt_done){
        .batch = message->micro, .rows = message->rows, .correct = message->update, .loss = message->value};
    return RT_OK;
}

static rt_status take_metrics(struct rt_desk *desk, struct rt_error *err) {
    struct rt_metrics metrics;
    if (!desk->asked)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message was not expected");
    rt_status status = rt_metrics_decode(desk->talk->body, desk->talk->body_bytes, &metrics, err);
    if (status != RT_OK)
        return status;
    if (metrics.count != 1 || metrics.rows[0].node != desk->rank)
        status = rt_fail(err, RT_BAD_INPUT, "a metrics message is not of one row, its own");
    else
        desk->row = metrics.rows[0];
    rt_metrics_deinit(&metrics);
    memcpy(desk->tally, desk->next_tally, sizeof desk->tally);
    desk->asked = false;
    desk->told = true;
    return status;
}

static rt_status take_tally(struct rt_desk *desk, const struct rt_message *message, struct rt_error *err) {
    if (!desk->asked || message->micro >= RT_TALLIES)
        return rt_fail(err, RT_BAD_INPUT, "a tally of number %llu was not expected",
                       (unsigned long long)message->micro);
    desk->next_tally[message->micro] = message->update;
    return RT_OK;
}

/* The end of the run, in the node's own words. */
static rt_status take_error(struct rt_crew *crew, const struct rt_desk *desk, bool *over,
                            struct rt_error *err) {
    struct rt_error_message error;
    rt_status status = rt_error_decode(desk->talk->body, desk->talk->body_bytes, &error, err);
    if (status != RT_OK)
        return status;
    *over = true;
    crew->lost = UINT16_MAX;
    if (error.status == RT_DIVERGED)
        return rt_fail(err, RT_DIVERGED, "%s", error.text);
    /* A node that ends is lost to the others as well, or it says who is: perhaps we ourselves. */
    const bool other = error.node < crew->party->count && (error.node > 0 || error.status == RT_IO);
    crew->lost = other ? error.node : desk->rank;
    return rt_fail(err, RT_FAILED, "%s", error.text);
}

static rt_status take_message(struct rt_crew *crew, struct rt_desk *desk, bool *over, struct rt_error *err) {
    const struct rt_message *message = &desk->talk->message;
    if (message->type == RT_MESSAGE_ERROR) /* whose source is the node that it is about */
        return take_error(crew, desk, over, err);
    if (message->source != desk->rank)
        return rt_fail(err, RT_BAD_INPUT, "it speaks as node %u", message->source);
    if (message->type == RT_MESSAGE_DONE)
        return take_done(desk, message, err);
    if (message->type == RT_MESSAGE_METRICS)
        return take_metrics(desk, err);
    if (message->type == RT_MESSAGE_TALLY)
        return take_tally(desk, message, err);
    if (message->type != RT_MESSAGE_STOP || !desk->stopped || desk->goodbye)
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    desk->goodbye = true;
    return RT_OK;
}

static rt_status blame(struct rt_crew *crew, const struct rt_desk *desk, struct rt_error *err) {
    char name[32];
    crew->lost = desk->rank;
    return rt_fail_prefix(err, RT_FAILED, "%s (%s)", rt_party_name(desk->rank, name), desk->link->peer);
}

static rt_status take_messages(struct rt_crew *crew, struct rt_desk *desk, struct rt_error *err) {
    while (desk->talk->ready) {
        bool over = false;
        const rt_status status = take_message(crew, desk, &over, err);
        if (status != RT_OK)
            return over ? status : blame(crew, desk, err);
        stamp(crew, desk);
        rt_talk_next(desk->talk);
    }
    if (!desk->talk->dead || desk->talk->closed)
        return RT_OK;
    char name[32];
    crew->lost = desk->rank;
    return rt_fail(err, RT_FAILED, "%s: %s", rt_party_name(desk->rank, name), desk->talk->error.text);
}

static struct rt_desk *desk_of(const struct rt_crew *crew, const struct rt_link *link) {
    const uint16_t rank = rt_party_rank(crew->party, link);
    return rank != UINT16_MAX && rank > 0 ? &crew->desks[rank] : NULL;
}

/* Whether the event can be ours: data have other channels. */
static unsigned channel_of(const struct rt_event *event) {
    if (event->kind == RT_EVENT_SENT)
        return event->send->channel;
    if (event->kind == RT_EVENT_RECEIVED)
        return event->receive->channel;
    return RT_CHANNEL_CONTROL;
}

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_crew *crew = self;
    const unsigned channel = channel_of(event);
    if (channel != RT_CHANNEL_CONTROL && channel != RT_CHANNEL_BULK)
        return false;
    struct rt_desk *desk = desk_of(crew, event->link);
    if (!desk)
        return false;
    if (channel == RT_CHANNEL_BULK && rt_shipment_event(crew, desk, event)) {
        stamp(crew, desk);
        return true;
    }
    if (channel == RT_CHANNEL_BULK) {
        *status = rt_order_event(crew, desk, event, err);
        if (*status != RT_OK)
            *status = blame(crew, desk, err);
        stamp(crew, desk);
        return true;
    }
    if (!rt_talk_event(desk->talk, event))
        return false;
    *status = take_messages(crew, desk, err);
    rt_desk_send(crew, desk);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_crew *crew = self;
    rt_status status = RT_OK;
    for (uint16_t rank = 1; rank < crew->party->count; rank++) {
        struct rt_desk *desk = &crew->desks[rank];
        if (status == RT_OK && desk->talk->ready)
            status = take_messages(crew, desk, err);
        rt_desk_send(crew, desk);
        rt_order_go_on(crew, desk);
        rt_shipment_go_on(crew, desk);
    }
    return status;
}

/* Of those who owe something the one who has for the longest time. */
static uint16_t waits_for(const void *self) {
    const struct rt_crew *crew = self;
    uint16_t found = UINT16_MAX;
    for (uint16_t rank = 1; rank < crew->party->count; rank++) {
        const struct rt_desk *desk = &crew->desks[rank];
        if (rt_desk_owes(desk) && (found == UINT16_MAX || desk->debt < crew->desks[found].debt))
            found = rank;
    }
    return found;
}

static uint16_t lost(const void *self) {
    const struct rt_crew *crew = self;
    return crew->lost;
}

struct rt_engine_part rt_crew_part(struct rt_crew *crew) {
    return (struct rt_engine_part){.self = crew,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .waits_for = waits_for,
                                   .lost = lost,
                                   .outlives = true};
}

/* ---- what the owner asks for --------------------------------------------------------------------------- */

bool rt_crew_give(struct rt_crew *crew, uint16_t rank, uint64_t batch) {
    struct rt_desk *desk = &crew->desks[rank];
    if (desk->given - desk->done >= RT_CREW_AHEAD || desk->given - desk->taken >= RT_CREW_RESULTS)
        return false;
    if (!rt_desk_owes(desk))
        stamp(crew, desk);
    desk->batch[desk->given++ % RT_CREW_AHEAD] = batch;
    return true;
}

size_t rt_crew_held(const struct rt_crew *crew, uint16_t rank) {
    const struct rt_desk *desk = &crew->desks[rank];
    return (size_t)(desk->given - desk->done);
}

size_t rt_crew_waiting(const struct rt_crew *crew, uint16_t rank) {
    const struct rt_desk *desk = &crew->desks[rank];
    return (size_t)(desk->done - desk->taken);
}

bool rt_crew_take(struct rt_crew *crew, uint16_t rank, struct rt_done *done) {
    struct rt_desk *desk = &crew->desks[rank];
    if (desk->taken == desk->done)
        return false;
    *done = desk->results[desk->taken++ % RT_CREW_RESULTS];
    return true;
}

void rt_crew_ask_metrics(struct rt_crew *crew) {
    for (uint16_t rank = 1; rank < crew->party->count; rank++) {
        struct rt_desk *desk = &crew->desks[rank];
        if (desk->asked) /* the answer is on its way */
            continue;
        if (!rt_desk_owes(desk))
            stamp(crew, desk);
        desk->ask = desk->asked = true;
        desk->told = false;
        memset(desk->next_tally, 0, sizeof desk->next_tally);
    }
}

bool rt_crew_metrics(struct rt_crew *crew, struct rt_metrics_row *rows) {
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        if (!crew->desks[rank].told)
            return false;
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        rows[rank] = crew->desks[rank].row;
    return true;
}

const uint64_t *rt_crew_tally(const struct rt_crew *crew, uint16_t rank) {
    return crew->desks[rank].tally;
}

static struct rt_order *new_order(struct rt_crew *crew, uint16_t rank, enum rt_order_kind kind) {
    struct rt_desk *desk = &crew->desks[rank];
    if (!rt_desk_owes(desk))
        stamp(crew, desk);
    desk->order.kind = kind;
    desk->order.begun = desk->order.ended = 0;
    return &desk->order;
}

void rt_crew_ask_numbers(struct rt_crew *crew, uint16_t rank, size_t word, size_t first, size_t count,
                         float *into) {
    if (count == 0)
        return;
    struct rt_order *order = new_order(crew, rank, RT_ORDER_ASK);
    order->word = word;
    order->first = first;
    order->count = count;
    order->into = into;
}

void rt_crew_tell_numbers(struct rt_crew *crew, uint16_t rank, size_t word, size_t first, size_t count,
                          const float *from) {
    if (count == 0)
        return;
    struct rt_order *order = new_order(crew, rank, RT_ORDER_TELL);
    order->word = word;
    order->first = first;
    order->count = count;
    order->from = from;
}

bool rt_crew_idle(const struct rt_crew *crew, uint16_t rank) {
    return crew->desks[rank].order.kind == RT_ORDER_NONE;
}

void rt_crew_set_update(struct rt_crew *crew, uint16_t rank, uint64_t update) {
    new_order(crew, rank, RT_ORDER_UPDATE)->update = update;
}

void rt_crew_stop(struct rt_crew *crew) {
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        crew->desks[rank].stop = !crew->desks[rank].stopped;
}

bool rt_crew_gone(const struct rt_crew *crew) {
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        if (!crew->desks[rank].goodbye && !crew->desks[rank].talk->closed)
            return false;
    return true;
}

void rt_crew_fail(struct rt_crew *crew, rt_status status, const char *sentence) {
    crew->status = status;
    rt_copy_sentence(crew->sentence, sizeof crew->sentence, sentence);
    for (uint16_t rank = 1; rank < crew->party->count; rank++)
        crew->desks[rank].tell = true;
}
