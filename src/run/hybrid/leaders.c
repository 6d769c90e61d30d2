/* The master's talks with the heads of the other rings; see talk.h. */
#include "run/hybrid/talk.h"

#include "base/memory.h"
#include "control/coordinator.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the master has with one ring. */
struct connection {
    struct rt_talk talk;
    uint16_t number; /* of the head */
    /* Tickets, ever rising: ticket n, counted from 0, is in tickets[n % RT_LEADER_TICKETS_AHEAD], its result
     * in results[n % RT_TICKET_RESULTS]. */
    uint64_t given, told, done, taken;
    uint64_t tickets[RT_LEADER_TICKETS_AHEAD];
    struct rt_done *results;
    bool resting; /* it has said so after its last ticket */
    /* To be said, as soon as the talk has room. */
    bool begin, ask, stop;
    bool asked, stopped; /* said, and not answered */
    bool goodbye;
    bool has_rows;
    struct rt_metrics_row *rows; /* [places] */
};

struct rt_leaders {
    struct rt_endpoint *endpoint;
    uint16_t rings, places;
    struct rt_link **links;         /* borrowed */
    struct connection *connections; /* [rings]; the first is not used */
    bool rest;                      /* the master waits for their rest too */
};

rt_status rt_leaders_create(struct rt_endpoint *endpoint, uint32_t run, uint16_t rings, uint16_t places,
                            struct rt_link **links, struct rt_leaders **leaders, struct rt_error *err) {
    struct rt_leaders *made;
    rt_status status = rt_alloc(1, sizeof *made, "the talks with other rings", &made, err);
    if (status != RT_OK)
        return status;
    made->endpoint = endpoint;
    made->rings = rings;
    made->places = places;
    made->links = links;
    status =
        rt_alloc(rings, sizeof *made->connections, "the talks with other rings", &made->connections, err);
    for (uint16_t i = 1; i < rings && status == RT_OK; i++) {
        struct connection *connection = &made->connections[i];
        connection->number = (uint16_t)(i * places);
        connection->resting = true;
        status =
            rt_alloc(places, sizeof *connection->rows, "the metrics of other rings", &connection->rows, err);
        if (status == RT_OK)
            status = rt_alloc(RT_TICKET_RESULTS, sizeof *connection->results, "the results of other rings",
                              &connection->results, err);
        if (status == RT_OK)
            status = rt_talk_open(links[i], &connection->talk, err);
        connection->talk.run = run;
    }
    if (status != RT_OK)
        rt_leaders_destroy(made);
    else
        *leaders = made;
    return status;
}

void rt_leaders_destroy(struct rt_leaders *leaders) {
    if (!leaders)
        return;
    for (uint16_t i = 1; i < leaders->rings && leaders->connections; i++) {
        struct connection *connection = &leaders->connections[i];
        if (connection->talk.link)
            leaders->links[i] = NULL;
        rt_talk_close(&connection->talk);
        free(connection->rows);
        free(connection->results);
    }
    free(leaders->connections);
    free(leaders);
}

/* ---- what goes out ---- */

static void send_all(struct connection *connection) {
    struct rt_talk *talk = &connection->talk;
    while (
        !talk->closed &&
        (connection->begin || connection->told < connection->given || connection->ask || connection->stop) &&
        rt_talk_body(talk)) {
        struct rt_message message = {0};
        if (connection->begin) {
            message = (struct rt_message){.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST};
            connection->begin = false;
        } else if (connection->told < connection->given) {
            message = (struct rt_message){
                .type = RT_MESSAGE_TICKET,
                .micro = connection->tickets[connection->told++ % RT_LEADER_TICKETS_AHEAD]};
        } else if (connection->ask) {
            message.type = RT_MESSAGE_METRICS;
            connection->ask = false;
        } else {
            message.type = RT_MESSAGE_STOP;
            connection->stop = false;
        }
        rt_talk_send(talk, &message, 0);
    }
}

bool rt_leaders_give(struct rt_leaders *leaders, uint16_t ring, uint64_t batch) {
    struct connection *connection = &leaders->connections[ring];
    if (connection->given - connection->done == RT_LEADER_TICKETS_AHEAD ||
        connection->given - connection->taken == RT_TICKET_RESULTS)
        return false;
    connection->tickets[connection->given++ % RT_LEADER_TICKETS_AHEAD] = batch;
    connection->resting = false;
    send_all(connection);
    return true;
}

void rt_leaders_begin(struct rt_leaders *leaders) {
    for (uint16_t i = 1; i < leaders->rings; i++) {
        leaders->connections[i].begin = true;
        send_all(&leaders->connections[i]);
    }
}

void rt_leaders_ask(struct rt_leaders *leaders) {
    for (uint16_t i = 1; i < leaders->rings; i++) {
        struct connection *connection = &leaders->connections[i];
        if (connection->asked)
            continue;
        connection->ask = connection->asked = true;
        connection->has_rows = false;
        send_all(connection);
    }
}

void rt_leaders_stop(struct rt_leaders *leaders) {
    for (uint16_t i = 1; i < leaders->rings; i++) {
        leaders->connections[i].stop = leaders->connections[i].stopped = true;
        send_all(&leaders->connections[i]);
    }
}

/* ---- what comes in ---- */

static rt_status take_done(struct connection *connection, const struct rt_message *message,
                           struct rt_error *err) {
    if (connection->done == connection->told ||
        message->micro != connection->tickets[connection->done % RT_LEADER_TICKETS_AHEAD] ||
        message->update > message->rows || !isfinite(message->value))
        return rt_fail(err, RT_BAD_INPUT, "its result of batch %llu makes no sense",
                       (unsigned long long)message->micro);
    connection->results[connection->done++ % RT_TICKET_RESULTS] = (struct rt_done){
        .batch = message->micro, .rows = message->rows, .correct = message->update, .loss = message->value};
    return RT_OK;
}

/* A ticket may have been on its way when it was said. */
static rt_status take_rest(struct connection *connection, const struct rt_message *message,
                           struct rt_error *err) {
    if (!(message->flags & RT_FLAG_REST))
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    connection->resting =
        connection->done == connection->given &&
        message->micro ==
            (connection->done ? connection->tickets[(connection->done - 1) % RT_LEADER_TICKETS_AHEAD] : 0);
    return RT_OK;
}

static rt_status take_metrics(struct connection *connection, size_t places, struct rt_error *err) {
    struct rt_metrics metrics = {.room = places, .rows = connection->rows};
    if (!connection->asked)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message was not expected");
    RT_TRY(rt_metrics_decode(connection->talk.body, connection->talk.body_bytes, &metrics, err));
    bool fits = metrics.count == places;
    for (size_t i = 0; fits && i < places; i++)
        fits = metrics.rows[i].node == connection->number + i;
    connection->asked = false;
    connection->has_rows = true;
    return fits ? RT_OK : rt_fail(err, RT_BAD_INPUT, "its metrics are not those of its ring");
}

/* The end of the run, in the node's own words. */
static rt_status take_error(const struct rt_leaders *leaders, const struct connection *connection,
                            uint16_t *lost, bool *over, struct rt_error *err) {
    struct rt_error_message error;
    rt_status status = rt_error_decode(connection->talk.body, connection->talk.body_bytes, &error, err);
    if (status != RT_OK)
        return status;
    *over = true;
    *lost = 0;
    if (error.status == RT_DIVERGED)
        return rt_fail(err, RT_DIVERGED, "%s", error.text);
    /* A node that ends is lost to the others as well, or it says who is. */
    *lost = error.node > 0 && error.node < leaders->rings * leaders->places ? error.node : connection->number;
    return rt_fail(err, RT_FAILED, "%s", error.text);
}

static rt_status take_message(const struct rt_leaders *leaders, struct connection *connection, uint16_t *lost,
                              bool *over, struct rt_error *err) {
    const struct rt_message *message = &connection->talk.message;
    switch (message->type) {
    case RT_MESSAGE_ERROR:
        return take_error(leaders, connection, lost, over, err);
    case RT_MESSAGE_DONE:
        return take_done(connection, message, err);
    case RT_MESSAGE_PULL:
        return take_rest(connection, message, err);
    case RT_MESSAGE_METRICS:
        return take_metrics(connection, leaders->places, err);
    case RT_MESSAGE_STOP:
        connection->goodbye = true;
        return connection->stopped ? RT_OK : rt_fail(err, RT_BAD_INPUT, "it stopped without being asked to");
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

static rt_status take_messages(const struct rt_leaders *leaders, struct connection *connection,
                               uint16_t *lost, struct rt_error *err) {
    struct rt_talk *talk = &connection->talk;
    while (talk->ready) {
        bool over = false;
        const rt_status status = take_message(leaders, connection, lost, &over, err);
        if (status != RT_OK) {
            if (over)
                return status;
            *lost = connection->number;
            return rt_fail_prefix(err, RT_FAILED, "node %u (%s)", connection->number, talk->link->peer);
        }
        rt_talk_next(talk);
    }
    if (!talk->dead || connection->goodbye)
        return RT_OK;
    *lost = connection->number;
    return rt_fail(err, RT_FAILED, "node %u: %s", connection->number, talk->error.text);
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    const struct rt_leaders *leaders = self;
    for (uint16_t i = 1; i < leaders->rings; i++) {
        struct connection *connection = &leaders->connections[i];
        if (!rt_talk_event(&connection->talk, event))
            continue;
        *status = take_messages(leaders, connection, lost, err);
        send_all(connection);
        return true;
    }
    return false;
}

/* ---- what is asked ---- */

size_t rt_leaders_held(const struct rt_leaders *leaders, uint16_t ring) {
    return (size_t)(leaders->connections[ring].given - leaders->connections[ring].done);
}

size_t rt_leaders_waiting(const struct rt_leaders *leaders, uint16_t ring) {
    return (size_t)(leaders->connections[ring].done - leaders->connections[ring].taken);
}

bool rt_leaders_take(struct rt_leaders *leaders, uint16_t ring, struct rt_done *done) {
    struct connection *connection = &leaders->connections[ring];
    if (connection->taken == connection->done)
        return false;
    *done = connection->results[connection->taken++ % RT_TICKET_RESULTS];
    return true;
}

bool rt_leaders_rest(const struct rt_leaders *leaders) {
    for (uint16_t i = 1; i < leaders->rings; i++)
        if (!leaders->connections[i].resting)
            return false;
    return true;
}

bool rt_leaders_metrics(const struct rt_leaders *leaders, struct rt_metrics_row *rows) {
    for (uint16_t i = 1; i < leaders->rings; i++)
        if (!leaders->connections[i].has_rows)
            return false;
    for (uint16_t i = 1; i < leaders->rings; i++)
        memcpy(rows + leaders->connections[i].number, leaders->connections[i].rows,
               leaders->places * sizeof *rows);
    return true;
}

void rt_leaders_expect_rest(struct rt_leaders *leaders, bool rest) {
    leaders->rest = rest;
}

static bool waits_for(const void *self, uint16_t ring) {
    const struct rt_leaders *leaders = self;
    const struct connection *connection = &leaders->connections[ring];
    return ring > 0 && (connection->done < connection->given || connection->asked ||
                        (leaders->rest && !connection->resting));
}

/* All have answered, or hung up. */
static bool are_gone(void *self) {
    const struct rt_leaders *leaders = self;
    for (uint16_t i = 1; i < leaders->rings; i++)
        if (!leaders->connections[i].goodbye && !leaders->connections[i].talk.closed)
            return false;
    return true;
}

struct rt_group_talk rt_leaders_talk(struct rt_leaders *leaders) {
    return (struct rt_group_talk){
        .self = leaders, .event = take_event, .waits_for = waits_for, .may_leave = are_gone};
}

static bool are_closed(const struct rt_leaders *leaders) {
    for (uint16_t i = 1; i < leaders->rings; i++)
        if (!leaders->connections[i].talk.closed)
            return false;
    return true;
}

void rt_leaders_fail(struct rt_leaders *leaders, rt_status status, const char *sentence, double seconds) {
    const double until = rt_endpoint_now(leaders->endpoint) + seconds;
    struct rt_event event;
    for (uint16_t i = 1; i < leaders->rings; i++)
        if (!leaders->connections[i].talk.closed)
            rt_talk_refuse(&leaders->connections[i].talk, status, 0, sentence);
    while (!are_closed(leaders) && rt_endpoint_wait(leaders->endpoint, until, &event))
        for (uint16_t i = 1; i < leaders->rings; i++)
            if (rt_talk_event(&leaders->connections[i].talk, &event) && leaders->connections[i].talk.ready)
                rt_talk_next(&leaders->connections[i].talk); /* too late */
}
