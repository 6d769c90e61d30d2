/*
 * The master's conversations with the nodes; see coordinator.h. Requests of the owner are queued here. The
 * thread that has the endpoint sends them when the part has its turn, because a talk has room for only a few
 * messages.
 */
#include "control/coordinator_inside.h"

#include "base/memory.h"
#include "base/sentence.h"
#include <stdlib.h>
#include <string.h>

static rt_status coordinator_find_route(const struct rt_coordinator_settings *settings, uint16_t rank,
                                        struct rt_route *route, struct rt_error *err) {
    const uint16_t node = rt_communicator_node(settings->comm, rank);
    *route = settings->ring;
    if (route->in)
        return RT_OK;
    struct rt_link *link = settings->comm->links[rank];
    char name[RT_NAME_ROOM];
    if (!link || !link->user)
        return rt_fail(err, RT_FAILED, "the master has no conversation with %s",
                       rt_communicator_name(settings->comm, rank, name));
    *route = (struct rt_route){.in = link->user, .out = link->user, .from = node, .to = node};
    return RT_OK;
}

static rt_status coordinator_init(struct rt_coordinator *coordinator,
                                  const struct rt_coordinator_settings *settings, struct rt_error *err) {
    const struct rt_communicator *comm = settings->comm;
    coordinator->settings = *settings;
    coordinator->settings.ahead = settings->ahead ? settings->ahead : RT_TICKETS_AHEAD;
    coordinator->settings.rows = settings->rows ? settings->rows : 1;
    coordinator->comm = comm;
    coordinator->lost = UINT16_MAX;
    const size_t rows = coordinator->settings.rows;
    RT_TRY(rt_alloc(comm->count, sizeof *coordinator->connections, "the conversations with the nodes",
                    &coordinator->connections, err));
    RT_TRY(rt_alloc(comm->count * rows, sizeof *coordinator->rows, "the metrics of the nodes",
                    &coordinator->rows, err));
    RT_TRY(
        rt_alloc(rows, sizeof *coordinator->decoded, "the metrics of the nodes", &coordinator->decoded, err));
    for (uint16_t rank = 1; rank < comm->count; rank++) {
        struct rt_worker_connection *connection = &coordinator->connections[rank];
        *connection = (struct rt_worker_connection){.rank = rank,
                                                    .resting = true,
                                                    .rows = coordinator->rows + rank * rows,
                                                    .first_row = settings->ring.in ? 1 : rank * rows};
        RT_TRY(coordinator_find_route(settings, rank, &connection->route, err));
    }
    return rt_state_initiator_init(&coordinator->initiator, comm->run, comm->rank, 0, settings->finite, err);
}

rt_status rt_coordinator_create(const struct rt_coordinator_settings *settings,
                                struct rt_coordinator **coordinator, struct rt_error *err) {
    struct rt_coordinator *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the coordinator", &made, err));
    RT_FINISH_CREATE(coordinator_init(made, settings, err), made, rt_coordinator_destroy, coordinator);
}

void rt_coordinator_destroy(struct rt_coordinator *coordinator) {
    if (!coordinator)
        return;
    rt_state_initiator_deinit(&coordinator->initiator);
    free(coordinator->connections);
    free(coordinator->rows);
    free(coordinator->decoded);
    free(coordinator);
}

/* ---- what goes out ------------------------------------------------------------------------------------- */

bool rt_coordinator_is_owed(const struct rt_coordinator *coordinator, uint16_t rank) {
    const struct rt_worker_connection *connection = &coordinator->connections[rank];
    const struct rt_state_initiator *initiator = &coordinator->initiator;
    return rank > 0 && (connection->done < connection->given || connection->asked ||
                        (coordinator->expects_rest && !connection->resting) ||
                        (initiator->busy && coordinator->ordered == rank));
}

void rt_worker_connection_stamp(struct rt_coordinator *coordinator, struct rt_worker_connection *connection) {
    connection->debt = ++coordinator->debts;
}

/* The node will owe one more answer. */
static void coordinator_begin_debt(struct rt_coordinator *coordinator,
                                   struct rt_worker_connection *connection) {
    if (!rt_coordinator_is_owed(coordinator, connection->rank))
        rt_worker_connection_stamp(coordinator, connection);
}

static bool connection_has_to_say(const struct rt_worker_connection *connection) {
    return connection->tell || connection->begin || connection->sent < connection->given || connection->ask ||
           connection->stop;
}

static void connection_say(const struct rt_coordinator *coordinator, struct rt_worker_connection *connection,
                           uint8_t *body) {
    struct rt_message message = {.source = 0};
    size_t bytes = 0;
    if (connection->tell) {
        connection->tell = false;
        if (coordinator->goes_on)
            rt_route_end_view(&connection->route, coordinator->sentence);
        else
            rt_route_refuse(&connection->route, coordinator->status, 0, coordinator->sentence);
        return;
    }
    if (connection->begin) {
        connection->begin = false;
        message.type = RT_MESSAGE_PULL;
        message.flags = RT_FLAG_REST;
    } else if (connection->sent < connection->given) {
        message.type = RT_MESSAGE_TICKET;
        message.batch = connection->batch[connection->sent++ % RT_TICKETS_AHEAD];
    } else if (connection->ask) {
        connection->ask = false;
        message.type = RT_MESSAGE_METRICS;
        bytes = rt_metrics_encode(&(struct rt_metrics){0}, body, RT_MAX_CONTROL);
    } else {
        connection->stop = false;
        connection->stopped = true;
        message.type = RT_MESSAGE_STOP;
    }
    rt_talk_send(connection->route.out, &message, bytes);
}

static void connection_send(const struct rt_coordinator *coordinator,
                            struct rt_worker_connection *connection) {
    struct rt_talk *out = connection->route.out;
    uint8_t *body;
    while (!out->closed && connection_has_to_say(connection) && (body = rt_talk_body(out)))
        connection_say(coordinator, connection, body);
}

/* ---- as a part of an engine ---------------------------------------------------------------------------- */

static struct rt_worker_connection *coordinator_connection(const struct rt_coordinator *coordinator,
                                                           const struct rt_event *event) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (rt_route_has(&coordinator->connections[rank].route, event))
            return &coordinator->connections[rank];
    return NULL;
}

static bool coordinator_take_event(void *self, const struct rt_event *event, rt_status *status,
                                   struct rt_error *err) {
    struct rt_coordinator *coordinator = self;
    struct rt_worker_connection *connection = coordinator_connection(coordinator, event);
    if (!connection)
        return false;
    const bool transfer = rt_state_initiator_event(&coordinator->initiator, event, status, err);
    if (transfer && *status != RT_OK)
        *status = rt_worker_connection_blame(coordinator, connection, err);
    if (transfer || rt_sample_queue_event(coordinator, connection, event)) {
        rt_worker_connection_stamp(coordinator, connection);
        return true;
    }
    if (!rt_route_event(&connection->route, event))
        return false;
    *status = rt_worker_connection_receive(coordinator, connection, err);
    connection_send(coordinator, connection);
    return true;
}

static rt_status coordinator_take_turn(void *self, struct rt_error *err) {
    struct rt_coordinator *coordinator = self;
    rt_status status = RT_OK;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        struct rt_worker_connection *connection = &coordinator->connections[rank];
        if (status == RT_OK)
            status = rt_worker_connection_receive(coordinator, connection, err);
        connection_send(coordinator, connection);
        rt_sample_queue_go_on(coordinator, connection);
    }
    const struct rt_state_initiator *initiator = &coordinator->initiator;
    if (initiator->busy && !coordinator->connections[coordinator->ordered].route.out->closed)
        rt_state_initiator_go_on(&coordinator->initiator);
    return status;
}

/* The rank that has owed something for the longest time. */
static uint16_t coordinator_waits_for(const void *self) {
    const struct rt_coordinator *coordinator = self;
    uint16_t found = UINT16_MAX;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (rt_coordinator_is_owed(coordinator, rank) &&
            (found == UINT16_MAX ||
             coordinator->connections[rank].debt < coordinator->connections[found].debt))
            found = rank;
    return found;
}

uint16_t rt_coordinator_lost(const struct rt_coordinator *coordinator) {
    return coordinator->lost;
}

static uint16_t coordinator_lost(const void *self) {
    return rt_coordinator_lost(self);
}

struct rt_engine_part rt_coordinator_part(struct rt_coordinator *coordinator) {
    return (struct rt_engine_part){.self = coordinator,
                                   .event = coordinator_take_event,
                                   .turn = coordinator_take_turn,
                                   .waits_for = coordinator_waits_for,
                                   .lost = coordinator_lost,
                                   .outlives = true};
}

/* ---- what the owner asks for --------------------------------------------------------------------------- */

bool rt_coordinator_give(struct rt_coordinator *coordinator, uint16_t rank, uint64_t batch) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    if (connection->given - connection->done >= coordinator->settings.ahead ||
        connection->given - connection->taken >= RT_TICKET_RESULTS)
        return false;
    coordinator_begin_debt(coordinator, connection);
    connection->batch[connection->given++ % RT_TICKETS_AHEAD] = batch;
    connection->resting = false;
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

void rt_coordinator_begin(struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        coordinator->connections[rank].begin = true;
}

bool rt_coordinator_all_rest(const struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (!coordinator->connections[rank].resting)
            return false;
    return true;
}

void rt_coordinator_expect_rest(struct rt_coordinator *coordinator, bool expect) {
    coordinator->expects_rest = expect;
}

void rt_coordinator_ask_metrics(struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        struct rt_worker_connection *connection = &coordinator->connections[rank];
        if (connection->asked) /* the answer is on its way */
            continue;
        coordinator_begin_debt(coordinator, connection);
        connection->ask = connection->asked = true;
        connection->told = false;
        memset(connection->next_tally, 0, sizeof connection->next_tally);
    }
}

bool rt_coordinator_metrics(const struct rt_coordinator *coordinator, struct rt_metrics_row *rows) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (!coordinator->connections[rank].told)
            return false;
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++) {
        const struct rt_worker_connection *connection = &coordinator->connections[rank];
        memcpy(rows + connection->first_row, connection->rows, coordinator->settings.rows * sizeof *rows);
    }
    return true;
}

const uint64_t *rt_coordinator_tally(const struct rt_coordinator *coordinator, uint16_t rank) {
    return coordinator->connections[rank].tally;
}

/* ---- model state ---- */

static rt_status coordinator_take_state(void *user, size_t tensor, size_t count, const float *floats,
                                        struct rt_error *err) {
    struct rt_coordinator *coordinator = user;
    (void)tensor, (void)err;
    memcpy(coordinator->into, floats, count * sizeof *floats);
    coordinator->into += count;
    return RT_OK;
}

static rt_status coordinator_give_state(void *user, size_t tensor, size_t count, float *floats,
                                        struct rt_error *err) {
    struct rt_coordinator *coordinator = user;
    (void)tensor, (void)err;
    memcpy(floats, coordinator->from, count * sizeof *floats);
    coordinator->from += count;
    return RT_OK;
}

/* It begins when the part has its turn. */
void rt_coordinator_order(struct rt_coordinator *coordinator, uint16_t rank, struct rt_state_order order) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    coordinator_begin_debt(coordinator, connection);
    coordinator->ordered = rank;
    order.in = connection->route.in->link;
    order.out = connection->route.out->link;
    rt_state_initiator_order(&coordinator->initiator, &order);
}

rt_status rt_coordinator_order_result(const struct rt_coordinator *coordinator, struct rt_error *err) {
    return rt_state_initiator_result(&coordinator->initiator, err);
}

void rt_coordinator_fetch_state(struct rt_coordinator *coordinator, uint16_t rank, size_t tensor,
                                size_t first, size_t count, float *into) {
    coordinator->into = into;
    rt_coordinator_order(coordinator, rank,
                         (struct rt_state_order){.kind = RT_STATE_FETCH,
                                                 .node = rank,
                                                 .tensor = tensor,
                                                 .first = first,
                                                 .count = count,
                                                 .version = RT_VERSION_NOW,
                                                 .take = coordinator_take_state,
                                                 .user = coordinator});
}

void rt_coordinator_send_state(struct rt_coordinator *coordinator, uint16_t rank, size_t tensor, size_t first,
                               size_t count, const float *from) {
    coordinator->from = from;
    coordinator->connections[rank].stored += count;
    rt_coordinator_order(coordinator, rank,
                         (struct rt_state_order){.kind = RT_STATE_STORE,
                                                 .node = rank,
                                                 .tensor = tensor,
                                                 .first = first,
                                                 .count = count,
                                                 .version = RT_VERSION_NOW,
                                                 .give = coordinator_give_state,
                                                 .user = coordinator});
}

void rt_coordinator_set_update(struct rt_coordinator *coordinator, uint16_t rank, uint64_t update) {
    struct rt_worker_connection *connection = &coordinator->connections[rank];
    rt_coordinator_order(
        coordinator, rank,
        (struct rt_state_order){
            .kind = RT_STATE_DECLARE, .node = rank, .count = connection->stored, .version = update});
    connection->stored = 0;
}

void rt_coordinator_cancel(struct rt_coordinator *coordinator) {
    rt_state_initiator_cancel(&coordinator->initiator);
}

bool rt_coordinator_idle(const struct rt_coordinator *coordinator) {
    return !coordinator->initiator.busy;
}

/* ---- the end ---- */

void rt_coordinator_stop(struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        coordinator->connections[rank].stop = !coordinator->connections[rank].stopped;
}

bool rt_coordinator_gone(const struct rt_coordinator *coordinator) {
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        if (!coordinator->connections[rank].goodbye &&
            !rt_route_is_closed(&coordinator->connections[rank].route))
            return false;
    return true;
}

bool rt_coordinator_has_left(const struct rt_coordinator *coordinator, uint16_t rank) {
    return coordinator->connections[rank].goodbye;
}

void rt_coordinator_end_view(struct rt_coordinator *coordinator, const char *sentence) {
    coordinator->goes_on = true;
    rt_coordinator_fail(coordinator, RT_FAILED, sentence);
}

void rt_coordinator_fail(struct rt_coordinator *coordinator, rt_status status, const char *sentence) {
    rt_coordinator_cancel(coordinator);
    coordinator->status = status;
    rt_copy_sentence(coordinator->sentence, sizeof coordinator->sentence, sentence);
    for (uint16_t rank = 1; rank < coordinator->comm->count; rank++)
        coordinator->connections[rank].tell = true;
}
