/* Messages from the nodes, validated before use; see coordinator.h. */
#include "control/coordinator_inside.h"

#include <math.h>
#include <string.h>

static rt_status connection_take_done(struct rt_worker_connection *connection,
                                      const struct rt_message *message, struct rt_error *err) {
    if (connection->done == connection->sent ||
        message->batch != connection->batch[connection->done % RT_TICKETS_AHEAD])
        return rt_fail(err, RT_BAD_INPUT, "it is done with batch %llu, which it was not given",
                       (unsigned long long)message->batch);
    if (message->correct > message->rows)
        return rt_fail(err, RT_BAD_INPUT, "it reported %llu correct predictions of %u examples",
                       (unsigned long long)message->correct, message->rows);
    if (!isfinite(message->loss))
        return rt_fail(err, RT_BAD_INPUT, "it reported a non-finite loss for batch %llu",
                       (unsigned long long)message->batch);
    connection->results[connection->done++ % RT_TICKET_RESULTS] = (struct rt_done){
        .batch = message->batch, .rows = message->rows, .correct = message->correct, .loss = message->loss};
    return RT_OK;
}

/* A ticket may have been on its way when it was said. */
static rt_status connection_take_rest(struct rt_worker_connection *connection,
                                      const struct rt_message *message, struct rt_error *err) {
    if (!(message->flags & RT_FLAG_REST))
        return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
    const uint64_t last = connection->done ? connection->batch[(connection->done - 1) % RT_TICKETS_AHEAD] : 0;
    connection->resting = connection->done == connection->given && message->batch == last;
    return RT_OK;
}

static rt_status connection_take_metrics(const struct rt_coordinator *coordinator,
                                         struct rt_worker_connection *connection, struct rt_error *err) {
    const size_t count = coordinator->settings.rows;
    struct rt_metrics metrics = {.room = count, .rows = coordinator->decoded};
    if (!connection->asked)
        return rt_fail(err, RT_BAD_INPUT, "unexpected metrics message");
    const struct rt_talk *in = connection->route.in;
    RT_TRY(rt_metrics_decode(in->body, in->body_bytes, &metrics, err));
    bool fits = metrics.count == count;
    for (size_t i = 0; fits && i < count; i++)
        fits = metrics.rows[i].node == connection->first_row + i;
    if (!fits)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message must have %zu row%s, of its sender", count,
                       count == 1 ? "" : "s");
    memcpy(connection->rows, metrics.rows, count * sizeof *connection->rows);
    memcpy(connection->tally, connection->next_tally, sizeof connection->tally);
    connection->asked = false;
    connection->told = true;
    return RT_OK;
}

static rt_status connection_take_tally(struct rt_worker_connection *connection,
                                       const struct rt_message *message, struct rt_error *err) {
    if (!connection->asked || message->counter >= RT_TALLIES)
        return rt_fail(err, RT_BAD_INPUT, "unexpected tally of counter %llu",
                       (unsigned long long)message->counter);
    connection->next_tally[message->counter] = message->count;
    return RT_OK;
}

/* A node reports the end of the run: takes the reason, and the node that it is about. */
static rt_status connection_take_error(struct rt_coordinator *coordinator,
                                       const struct rt_worker_connection *connection,
                                       const struct rt_talk *talk, bool *over, struct rt_error *err) {
    const struct rt_coordinator_settings *settings = &coordinator->settings;
    const size_t nodes = settings->nodes ? settings->nodes : settings->comm->count * settings->rows;
    struct rt_error_message error;
    RT_TRY(rt_error_decode(talk->body, talk->body_bytes, &error, err));
    *over = true;
    coordinator->lost = UINT16_MAX;
    if (error.status == RT_DIVERGED)
        return rt_fail(err, RT_DIVERGED, "%s", error.text);
    /* The sender ends, so it is lost too, unless it names another lost node, which may be the master. In a
     * ring no node reports the master: one that has lost it reports itself. */
    const bool master = error.status == RT_IO && !rt_route_is_ring(&connection->route);
    const bool other = error.node < nodes && (error.node > 0 || master);
    const uint16_t from = talk == connection->route.in ? connection->route.from : connection->route.to;
    coordinator->lost = other ? error.node : from;
    return rt_fail(err, RT_FAILED, "%s", error.text);
}

static rt_status connection_take_message(struct rt_coordinator *coordinator,
                                         struct rt_worker_connection *connection, const struct rt_talk *talk,
                                         bool *over, struct rt_error *err) {
    const struct rt_coordinator_settings *settings = &coordinator->settings;
    const struct rt_message *message = &talk->message;
    char name[RT_NAME_ROOM];
    if (message->type == RT_MESSAGE_ERROR) /* whose source is the node that it is about */
        return connection_take_error(coordinator, connection, talk, over, err);
    if (talk != connection->route.in)
        return rt_fail(err, RT_BAD_INPUT, "a %s message came from the wrong side",
                       rt_message_name(message->type));
    if (message->source != connection->route.from)
        return rt_fail(err, RT_BAD_INPUT, "it claims to be %s",
                       rt_node_name(&settings->comm->names, message->source, name));
    switch (message->type) {
    case RT_MESSAGE_DONE:
        return connection_take_done(connection, message, err);
    case RT_MESSAGE_PULL:
        return connection_take_rest(connection, message, err);
    case RT_MESSAGE_METRICS:
        return connection_take_metrics(coordinator, connection, err);
    case RT_MESSAGE_TALLY:
        return connection_take_tally(connection, message, err);
    case RT_MESSAGE_STOP:
        if (connection->stopped && !connection->goodbye) {
            connection->goodbye = true;
            return RT_OK;
        }
        break;
    default:
        if (settings->message)
            return settings->message(settings->user, message, err);
        break;
    }
    return rt_fail(err, RT_BAD_INPUT, "unexpected %s message", rt_message_name(message->type));
}

rt_status rt_worker_connection_blame(struct rt_coordinator *coordinator,
                                     const struct rt_worker_connection *connection, struct rt_error *err) {
    return rt_route_blame(&connection->route, connection->route.in, &coordinator->lost, err);
}

static rt_status connection_receive_from(struct rt_coordinator *coordinator,
                                         struct rt_worker_connection *connection, struct rt_talk *talk,
                                         struct rt_error *err) {
    while (talk->ready) {
        bool over = false;
        const rt_status status = connection_take_message(coordinator, connection, talk, &over, err);
        if (status != RT_OK)
            return over ? status : rt_route_blame(&connection->route, talk, &coordinator->lost, err);
        rt_worker_connection_stamp(coordinator, connection);
        rt_talk_next(talk);
    }
    return RT_OK;
}

rt_status rt_worker_connection_receive(struct rt_coordinator *coordinator,
                                       struct rt_worker_connection *connection, struct rt_error *err) {
    const struct rt_route *route = &connection->route;
    RT_TRY(connection_receive_from(coordinator, connection, route->in, err));
    /* In a ring the owner, which knows whether the run is at its end, looks after its links. */
    if (rt_route_is_ring(route))
        return connection_receive_from(coordinator, connection, route->out, err);
    if (!route->in->dead || route->in->closed)
        return RT_OK;
    *err = route->in->error;
    return rt_route_blame(route, route->in, &coordinator->lost, err);
}
