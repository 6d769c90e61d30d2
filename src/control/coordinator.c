/*
 * The master's talks with the nodes; see coordinator.h. What the owner asks for is written down here and sent
 * when the part has its turn, by the thread that has the endpoint: a talk has room for a few messages at a
 * time.
 */
#include "control/coordinator_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_coordinator_create(const struct rt_communicator *comm, struct rt_coordinator **coordinator,
                                struct rt_error *err) {
    struct rt_coordinator *made;
    rt_status status = rt_alloc(1, sizeof *made, "the master's talks", &made, err);
    if (status != RT_OK)
        return status;
    made->comm = comm;
    made->lost = UINT16_MAX;
    status = rt_alloc(comm->count, sizeof *made->connections, "the master's talks", &made->connections, err);
    for (uint16_t rank = 1; rank < comm->count && status == RT_OK; rank++) {
        struct rt_link *link = comm->links[rank];
        if (!link || !link->user)
            status = rt_fail(err, RT_FAILED, "the master has no talk with node %u", rank);
        else
            made->connections[rank] =
                (struct rt_worker_connection){.rank = rank, .link = link, .talk = link->user};
    }
    if (status != RT_OK) {
        rt_coordinator_destroy(made);
        return status;
    }
    *coordinator = made;
    return RT_OK;
}

void rt_coordinator_destroy(struct rt_coordinator *coordinator) {
    if (!coordinator)
        return;
    free(coordinator->connections);
    free(coordinator);
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

bool rt_worker_connection_owes(const struct rt_worker_connection *connection) {
    return connection->done < connection->given || connection->asked ||
           connection->transfer.kind != RT_TRANSFER_NONE;
}

/* To be called when a node owes something it did not owe before, or has just been heard of. */
static void stamp(struct rt_coordinator *coordinator, struct rt_worker_connection *connection) {
    connection->debt = ++coordinator->debts;
}

static bool has_something(const struct rt_worker_connection *connection) {
    return connection->tell || connection->sent < connection->given || connection->ask || connection->stop;
}

static void send_one(struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                     uint8_t *body) {
    struct rt_message message = {.source = 0};
    size_t bytes = 0;
    if (connection->tell) {
        connection->tell = false;
        rt_talk_refuse(connection->talk, coordinator->status, 0, coordinator->sentence);
        return;
    }
    if (connection->sent < connection->given) {
        message.type = RT_MESSAGE_TICKET;
        message.micro = connection->batch[connection->sent++ % RT_TICKETS_AHEAD];
    } else if (connection->ask) {
        connection->ask = false;
        message.type = RT_MESSAGE_METRICS;
        bytes = rt_metrics_encode(&(struct rt_metrics){0}, body, RT_MAX_CONTROL);
    } else {
        connection->stop = false;
        connection->stopped = true;
        message.type = RT_MESSAGE_STOP;
    }
    rt_talk_send(connection->talk, &message, bytes);
}

void rt_worker_connection_send(struct rt_coordinator *coordinator, struct rt_worker_connection *connection) {
    uint8_t *body;
    while (!connection->talk->closed && has_something(connection) && (body = rt_talk_body(connection->talk)))
        send_one(coordinator, connection, body);
}

/* ---- what comes in ------------------------------------------------------------------------------------- */

static rt_status take_done(struct rt_worker_connection *connection, const struct rt_message *message,
                           struct rt_error *err) {
    if (connection->done == connection->sent ||
        message->micro != connection->batch[connection->done % RT_TICKETS_AHEAD])
        return rt_fail(err, RT_BAD_INPUT, "it is done with batch %llu, which it was not given",
                       (unsigned long long)message->micro);
    if (message->update > message->rows)
        return rt_fail(err, RT_BAD_INPUT, "it has %llu right ones of %u examples",
                       (unsigned long long)message->update, message->rows);
    if (!isfinite(message->value))
        return rt_fail(err, RT_BAD_INPUT, "its loss of batch %llu is no number",
                       (unsigned long long)message->micro);
    connection->results[connection->done++ % RT_TICKET_RESULTS] = (struct rt_done){
        .batch = message->micro, .rows = message->rows, .correct = message->update, .loss = message->value};
    return RT_OK;
}

static rt_status take_metrics(struct rt_worker_connection *connection, struct rt_error *err) {
    struct rt_metrics_row row;
    struct rt_metrics metrics = {.room = 1, .rows = &row};
    if (!connection->asked)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message was not expected");
    RT_TRY(rt_metrics_decode(connection->talk->body, connection->talk->body_bytes, &metrics, err));
    if (metrics.count != 1 || row.node != connection->rank)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message must have one row, that of its sender");
    connection->row = row;
    memcpy(connection->tally, connection->next_tally, sizeof connection->tally);
    connection->asked = false;
    connection->told = true;
    return RT_OK;
}

static rt_status take_tally(struct rt_worker_connection *connection, const struct rt_message *message,
                            struct rt_error *err) {
    if (!connection->asked || message->micro >= RT_TALLIES)
        return rt_fail(err, RT_BAD_INPUT, "a tally of number %llu was not expected",
                       (unsigned long long)message->micro);
    connection->next_tally[message->micro] = message->update;
    return RT_OK;
}

/* The end of the run, in the node's own words. */
static rt_status take_error(struct rt_coordinator *coordinator, const struct rt_worker_connection *connection,
                            bool *over, struct rt_error *err) {
    struct rt_error_message error;
    rt_status status = rt_error_decode(connection->talk->body, connection->talk->body_bytes, &error, err);
    if (status != RT_OK)
        return status;
    *over = true;
    coordinator->lost = UINT16_MAX;
    if (error.status == RT_DIVERGED)
        return rt_fail(err, RT_DIVERGED, "%s", error.text);
    /* A node that ends is lost to the others as well, or it says who is: perhaps we ourselves. */
    const bool other = error.node < coordinator->comm->count && (error.node > 0 || error.status == RT_IO);
    coordinator->lost = other ? error.node : connection->rank;
    return rt_fail(err, RT_FAILED, "%s", error.text);
}

static rt_status take_message(struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                              bool *over, struct rt_error *err) {
    const struct rt_message *message = &connection->talk->message;
    if (message->type == RT_MESSAGE_ERROR) /* whose source is the node that it is about */
        return take_error(coordinator, connection, over, err);
    if (message->source != connection->rank)
        return rt_fail(err, RT_BAD_INPUT, "it speaks as node %u", message->source);
    if (message->type == RT_MESSAGE_DONE)
        return take_done(connection, message, err);
    if (message->type == RT_MESSAGE_METRICS)
        return take_metrics(connection, err);
    if (message->type == RT_MESSAGE_TALLY)
        return take_tally(connection, message, err);
    if (message->type != RT_MESSAGE_STOP || !connection->stopped || connection->goodbye)
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    connection->goodbye = true;
    return RT_OK;
}

static rt_status blame(struct rt_coordinator *coordinator, const struct rt_worker_connection *connection,
                       struct rt_error *err) {
    char name[32];
    coordinator->lost = connection->rank;
    return rt_fail_prefix(err, RT_FAILED, "%s (%s)", rt_communicator_name(connection->rank, name),
                          connection->link->peer);
}

static rt_status take_messages(struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                               struct rt_error *err) {
    while (connection->talk->ready) {
        bool over = false;
        const rt_status status = take_message(coordinator, connection, &over, err);
        if (status != RT_OK)
            return over ? status : blame(coordinator, connection, err);
        stamp(coordinator, connection);
        rt_talk_next(connection->talk);
    }
    if (!connection->talk->dead || connection->talk->closed)
        return RT_OK;
    char name[32];
    coordinator->lost = connection->rank;
    return rt_fail(err, RT_FAILED, "%s: %s", rt_communicator_name(connection->rank, name),
                   connection->talk->error.text);
}

static struct rt_worker_connection *connection_of(const struct rt_coordinator *coordinator,
                                                  const struct rt_link *link) {
    const uint16_t rank = rt_communicator_rank(coordinator->comm, link);
    return rank != UINT16_MAX && rank > 0 ? &coordinator->connections[rank] : NULL;
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
    struct rt_coordinator *coordinator = self;
    const unsigned channel = channel_of(event);
    if (channel != RT_CHANNEL_CONTROL && channel != RT_CHANNEL_BULK)
        return false;
    struct rt_worker_connection *connection = connection_of(coordinator, event->link);
    if (!connection)
        return false;
    if (channel == RT_CHANNEL_BULK && rt_sample_queue_event(coordinator, connection, event)) {
        stamp(coordinator, connection);
        return true;
    }
    if (channel == RT_CHANNEL_BULK) {
        *status = rt_state_transfer_event(coordinator, connection, event, err);
        if (*status != RT_OK)
            *status = blame(coordinator, connection, err);
        stamp(coordinator, connection);
        return true;
    }
    if (!rt_talk_event(connection->talk, event))
        return false;
    *status = take_messages(coordinator, connection, err);
    rt_worker_connection_send(coordinator, connection);
    return true;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_coordinator *coordinator = self;
    rt_status status = RT_OK;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        struct rt_worker_connection *connection = &coordinator->connections[rank];
        if (status == RT_OK && connection->talk->ready)
            status = take_messages(coordinator, connection, err);
        rt_worker_connection_send(coordinator, connection);
        rt_state_transfer_go_on(coordinator, connection);
        rt_sample_queue_go_on(coordinator, connection);
    }
    return status;
}

/* Of those who owe something the one who has for the longest time. */
static uint16_t waits_for(const void *self) {
    const struct rt_coordinator *coordinator = self;
    uint16_t found = UINT16_MAX;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        const struct rt_worker_connection *connection = &coordinator->connections[rank];
        if (rt_worker_connection_owes(connection) &&
            (found == UINT16_MAX || connection->debt < coordinator->connections[found].debt))
            found = rank;
    }
    return found;
}

static uint16_t lost(const void *self) {
    const struct rt_coordinator *coordinator = self;
    return coordinator->lost;
}

struct rt_engine_part rt_coordinator_part(struct rt_coordinator *coordinator) {
    return (struct rt_engine_part){.self = coordinator,
                                   .event = take_event,
                                   .turn = take_turn,
                                   .waits_for = waits_for,
                                   .lost = lost,
                                   .outlives = true};
}

/* ---- what the owner asks for --------------------------------------------------------------------------- */

bool rt_coordinator_give(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    if (connection->given - connection->done >= RT_TICKETS_AHEAD ||
        connection->given - connection->taken >= RT_TICKET_RESULTS)
        return false;
    if (!rt_worker_connection_owes(connection))
        stamp(coordinator, connection);
    connection->batch[connection->given++ % RT_TICKETS_AHEAD] = batch;
    return true;
}

size_t rt_coordinator_held(const struct rt_coordinator *coordinator, uint16_t rank) {
    const struct rt_worker_connection *connection = &coordinator->connections[rank];
    return (size_t)(connection->given - connection->done);
}

size_t rt_coordinator_waiting(const struct rt_coordinator *coordinator, uint16_t rank) {
    const struct rt_worker_connection *connection = &coordinator->connections[rank];
    return (size_t)(connection->done - connection->taken);
}

bool rt_coordinator_take(struct rt_coordinator *coordinator, uint16_t rank, struct rt_done *done) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    if (connection->taken == connection->done)
        return false;
    *done = connection->results[connection->taken++ % RT_TICKET_RESULTS];
    return true;
}

void rt_coordinator_ask_metrics(struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        struct rt_worker_connection *connection = &coordinator->connections[rank];
        if (connection->asked) /* the answer is on its way */
            continue;
        if (!rt_worker_connection_owes(connection))
            stamp(coordinator, connection);
        connection->ask = connection->asked = true;
        connection->told = false;
        memset(connection->next_tally, 0, sizeof connection->next_tally);
    }
}

bool rt_coordinator_metrics(struct rt_coordinator *coordinator, struct rt_metrics_row *rows) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (!coordinator->connections[rank].told)
            return false;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        rows[rank] = coordinator->connections[rank].row;
    return true;
}

const uint64_t *rt_coordinator_tally(const struct rt_coordinator *coordinator, uint16_t rank) {
    return coordinator->connections[rank].tally;
}

static struct rt_state_transfer *new_order(struct rt_coordinator *coordinator, uint16_t rank,
                                           enum rt_transfer_kind kind) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    if (!rt_worker_connection_owes(connection))
        stamp(coordinator, connection);
    connection->transfer.kind = kind;
    connection->transfer.begun = connection->transfer.ended = 0;
    return &connection->transfer;
}

void rt_coordinator_fetch_state(struct rt_coordinator *coordinator, uint16_t rank, size_t word, size_t first,
                                size_t count, float *into) {
    if (count == 0)
        return;
    struct rt_state_transfer *transfer = new_order(coordinator, rank, RT_TRANSFER_FETCH);
    transfer->word = word;
    transfer->first = first;
    transfer->count = count;
    transfer->into = into;
}

void rt_coordinator_send_state(struct rt_coordinator *coordinator, uint16_t rank, size_t word, size_t first,
                               size_t count, const float *from) {
    if (count == 0)
        return;
    struct rt_state_transfer *transfer = new_order(coordinator, rank, RT_TRANSFER_SEND);
    transfer->word = word;
    transfer->first = first;
    transfer->count = count;
    transfer->from = from;
}

bool rt_coordinator_idle(const struct rt_coordinator *coordinator, uint16_t rank) {
    return coordinator->connections[rank].transfer.kind == RT_TRANSFER_NONE;
}

void rt_coordinator_set_update(struct rt_coordinator *coordinator, uint16_t rank, uint64_t update) {
    new_order(coordinator, rank, RT_TRANSFER_VERSION)->update = update;
}

void rt_coordinator_stop(struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        coordinator->connections[rank].stop = !coordinator->connections[rank].stopped;
}

bool rt_coordinator_gone(const struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (!coordinator->connections[rank].goodbye && !coordinator->connections[rank].talk->closed)
            return false;
    return true;
}

void rt_coordinator_fail(struct rt_coordinator *coordinator, rt_status status, const char *sentence) {
    coordinator->status = status;
    rt_copy_sentence(coordinator->sentence, sizeof coordinator->sentence, sentence);
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        coordinator->connections[rank].tell = true;
}
