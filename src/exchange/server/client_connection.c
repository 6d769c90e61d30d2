/*
 * A worker's talk with one server. What goes there comes in groups of as many messages as the server's range
 * has portions, all gradients or all requests, so that the server always knows what comes next; the next
 * group begins when the one before has been sent.
 */
#include "exchange/server/client_inside.h"

#include <string.h>

void rt_server_connection_expect(struct rt_server_connection *connection) {
    connection->asking = connection->count > 0;
    connection->came = 0;
    for (size_t i = 0; i < connection->count; i++)
        connection->client->missing[connection->portions[i].span]++;
}

static void connection_post_receives(struct rt_server_connection *connection) {
    for (size_t i = 0; i < connection->count; i++) {
        connection->receives[i] = (struct rt_receive){
            .channel = RT_CHANNEL_FIRST,
            .body = connection->client->settings.replica->params + connection->portions[i].first,
            .body_room = connection->portions[i].count * sizeof(float),
        };
        rt_link_receive(connection->link, &connection->receives[i]);
    }
}

/* ---- going --------------------------------------------------------------------------------------------- */

/* The portion whose turn it is, counted from the last one down. */
static bool connection_may_go(const struct rt_server_connection *connection, size_t portion) {
    const struct rt_ps_client *client = connection->client;
    if (connection->request != RT_REQUEST_PUSH)
        return true;
    return connection->kept[portion] && (client->complete || (portion > 0 && client->settings.options->wfbp));
}

/* The batch that parameters are asked for, where that is told. */
static uint64_t connection_reads_for(const struct rt_server_connection *connection) {
    const struct rt_ps_client *client = connection->client;
    return client->settings.lazy && connection->request == RT_REQUEST_PULL ? client->ticket : 0;
}

static void connection_send_message(struct rt_server_connection *connection, size_t portion) {
    const struct rt_ps_client *client = connection->client;
    const bool push = connection->request == RT_REQUEST_PUSH, last = portion == 0;
    struct rt_send *send = &connection->sends[portion];
    struct rt_message message = {
        .type = push ? RT_MESSAGE_PUSH : RT_MESSAGE_PULL,
        .flags = (uint16_t)((last ? RT_FLAG_LAST : 0) | (push && last && client->asks ? RT_FLAG_ASK : 0) |
                            (connection->request == RT_REQUEST_REST ? RT_FLAG_REST : 0)),
        .source = client->settings.comm->rank,
        .run = client->settings.comm->run,
        .batch = push ? client->batch : connection_reads_for(connection),
        .rows = push && last ? client->rows : 0,
    };
    *send = (struct rt_send){.channel = RT_CHANNEL_SECOND, .head_bytes = RT_MESSAGE_HEAD};
    if (!push)
        message.clock = connection->pushes;
    if (push) {
        message.version = connection->version;
        send->user = &connection->kept[portion]; /* to be let go of when it has been sent */
        rt_portion_describe(&connection->portions[portion], &message);
        send->body[0] = (struct rt_piece){rt_ps_client_source(client) + connection->portions[portion].first,
                                          connection->portions[portion].count * sizeof(float)};
    }
    rt_message_encode(&message, send->head);
    connection->sending++;
    rt_link_send(connection->link, send);
}

/* The same without a link. */
static void connection_hand_over(struct rt_server_connection *connection, size_t portion) {
    const struct rt_ps_client *client = connection->client;
    struct rt_server *server = client->settings.local;
    const struct rt_portion *what = &connection->portions[portion];
    const bool push = connection->request == RT_REQUEST_PUSH;
    if (push) {
        memcpy(rt_server_room(server) + (what->first - connection->first),
               rt_ps_client_source(client) + what->first, what->count * sizeof(float));
        connection->kept[portion] = false;
    }
    if (portion > 0)
        return;
    if (push)
        rt_server_push(server, client->batch, client->rows);
    if (!push || client->asks)
        rt_server_pull(server, connection->request == RT_REQUEST_REST, connection_reads_for(connection));
}

static bool connection_may_begin(const struct rt_server_connection *connection) {
    return connection->link ? connection->sending == 0
                            : rt_server_has_room(connection->client->settings.local);
}

void rt_server_connection_go(struct rt_server_connection *connection) {
    if (connection->count == 0) { /* a server that owns nothing */
        connection->next = RT_REQUEST_NONE;
        return;
    }
    if (connection->request == RT_REQUEST_NONE && connection->next != RT_REQUEST_NONE &&
        connection_may_begin(connection)) {
        connection->request = connection->next;
        connection->next = RT_REQUEST_NONE;
        connection->left = connection->count;
    }
    while (connection->request != RT_REQUEST_NONE && connection_may_go(connection, connection->left - 1)) {
        const size_t portion = --connection->left;
        const bool push = connection->request == RT_REQUEST_PUSH;
        if (portion == 0 && connection->link && (!push || connection->client->asks))
            connection_post_receives(connection);
        if (connection->link)
            connection_send_message(connection, portion);
        else
            connection_hand_over(connection, portion);
        if (portion > 0)
            continue;
        connection->pushes += push;
        connection->request = RT_REQUEST_NONE;
    }
}

/* ---- coming -------------------------------------------------------------------------------------------- */

static void connection_note_spread(struct rt_ps_client *client) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        if (connection->asking)
            return;
        if (connection->count == 0)
            continue;
        least = connection->version < least ? connection->version : least;
        most = connection->version > most ? connection->version : most;
    }
    if (least <= most && most - least > client->spread)
        client->spread = most - least;
}

static void connection_take_portion(struct rt_server_connection *connection) {
    connection->client->missing[connection->portions[connection->came].span]--;
    if (++connection->came < connection->count)
        return;
    connection->asking = false;
    connection->version = connection->coming;
    connection_note_spread(connection->client);
}

static rt_status connection_take_params(struct rt_server_connection *connection,
                                        const struct rt_receive *receive, struct rt_error *err) {
    const struct rt_communicator *comm = connection->client->settings.comm;
    const struct rt_portion *portion = &connection->portions[connection->came];
    struct rt_message message;
    RT_TRY(rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err));
    if (message.run != comm->run || message.source != connection->rank)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message of another run or node",
                       rt_message_name(message.type));
    if (message.type != RT_MESSAGE_PARAM)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message where parameters were expected",
                       rt_message_name(message.type));
    if (!rt_portion_fits(portion, &message))
        return rt_fail(err, RT_BAD_INPUT,
                       "sent parameters of span %u where %zu parameters of span %zu were expected",
                       message.span, portion->count, portion->span);
    const bool last = connection->came + 1 == connection->count;
    if (((message.flags & RT_FLAG_LAST) != 0) != last)
        return rt_fail(err, RT_BAD_INPUT, "sent parameters of span %zu, %smarked as the last", portion->span,
                       last ? "not " : "");
    if (connection->came > 0 ? message.version != connection->coming : message.version < connection->version)
        return rt_fail(err, RT_BAD_INPUT, "sent parameters of version %llu where version %llu%s was expected",
                       (unsigned long long)message.version,
                       (unsigned long long)(connection->came > 0 ? connection->coming : connection->version),
                       connection->came > 0 ? "" : " or later");
    connection->coming = message.version;
    connection_take_portion(connection);
    return RT_OK;
}

bool rt_server_connection_event(struct rt_server_connection *connection, const struct rt_event *event,
                                rt_status *status, struct rt_error *err) {
    size_t which;
    if (event->kind == RT_EVENT_RECEIVED &&
        rt_operation_is_among(event->receive, connection->receives, sizeof *event->receive, connection->count,
                              &which)) {
        *status = connection_take_params(connection, event->receive, err);
        return true;
    }
    if (event->kind == RT_EVENT_SENT &&
        rt_operation_is_among(event->send, connection->sends, sizeof *event->send, connection->count,
                              &which)) {
        if (event->send->user)
            connection->kept[which] = false;
        connection->sending--;
        rt_server_connection_go(connection);
        return true;
    }
    return false;
}

/* ---- in the same process ------------------------------------------------------------------------------- */

static void connection_room(void *self) {
    rt_server_connection_go(self);
}

static void connection_answer(void *self, uint64_t version, const float *params) {
    struct rt_server_connection *connection = self;
    connection->coming = version;
    for (size_t i = 0; i < connection->count; i++) {
        const struct rt_portion *portion = &connection->portions[i];
        memcpy(connection->client->settings.replica->params + portion->first,
               params + (portion->first - connection->first), portion->count * sizeof(float));
        connection_take_portion(connection);
    }
}

struct rt_server_local rt_server_connection_local(struct rt_server_connection *connection) {
    return (struct rt_server_local){.self = connection, .room = connection_room, .answer = connection_answer};
}
