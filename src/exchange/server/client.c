/* A worker's steps in an exchange by servers; see served.h. */
#include "exchange/server/client_inside.h"

#include "base/clones.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making it ----------------------------------------------------------------------------------------- */

static rt_status find_range(const struct rt_ps_client_settings *settings, uint16_t server,
                            struct rt_span *range, struct rt_error *err) {
    const struct rt_replica *replica = settings->replica;
    struct rt_span *owned;
    rt_status status = rt_alloc(RT_MAX_OWNED, sizeof *owned, "the servers' ranges", &owned, err);
    if (status != RT_OK)
        return status;
    const size_t count = rt_exchange_owned(settings->strategy, settings->options, settings->roles, server,
                                           replica->spans, replica->span_count, replica->param_count, owned);
    *range = count > 0 ? owned[0] : (struct rt_span){0};
    free(owned);
    return count > 1 ? rt_fail(err, RT_FAILED, "server %u has more than one range", server) : RT_OK;
}

static rt_status open_shop(struct rt_ps_client *client, uint16_t rank, struct rt_error *err) {
    const struct rt_ps_client_settings *settings = &client->settings;
    const struct rt_replica *replica = settings->replica;
    struct rt_server_connection *connection = &client->connections[rank];
    struct rt_span range;
    char name[32];
    *connection = (struct rt_server_connection){.client = client, .rank = rank};
    rt_status status = find_range(settings, rank, &range, err);
    if (status == RT_OK)
        status = rt_portions_create(replica->spans, replica->span_count, range.first, range.count,
                                    &connection->portions, &connection->count, err);
    if (status == RT_OK)
        status =
            rt_alloc(connection->count, sizeof *connection->sends, "what is pushed", &connection->sends, err);
    if (status == RT_OK)
        status = rt_alloc(connection->count, sizeof *connection->receives, "what is fetched",
                          &connection->receives, err);
    if (status == RT_OK)
        status =
            rt_alloc(connection->count, sizeof *connection->kept, "what is pushed", &connection->kept, err);
    if (status != RT_OK)
        return status;
    connection->first = range.first;
    const struct rt_communicator *comm = settings->comm;
    const bool here = rank == comm->rank;
    connection->link = !here && rank < comm->count ? comm->links[rank] : NULL;
    if (here ? !settings->local : !connection->link)
        return rt_fail(err, RT_FAILED, "there is no link to the server on %s",
                       rt_communicator_name(comm, rank, name));
    if (here) {
        const struct rt_server_local local = rt_server_connection_local(connection);
        rt_server_attach(settings->local, &local);
    }
    return RT_OK;
}

rt_status rt_ps_client_create(const struct rt_ps_client_settings *settings, struct rt_ps_client **client,
                              struct rt_error *err) {
    struct rt_ps_client *made;
    rt_status status = rt_alloc(1, sizeof *made, "the exchange", &made, err);
    if (status != RT_OK)
        return status;
    made->settings = *settings;
    status =
        rt_alloc(settings->roles->servers, sizeof *made->connections, "the servers", &made->connections, err);
    if (status == RT_OK)
        status =
            rt_alloc(settings->replica->span_count, sizeof *made->missing, "the spans", &made->missing, err);
    if (status == RT_OK && settings->options->push_every > 1)
        status = rt_floats_create(settings->replica->param_count, "the sum of gradients", &made->sum, err);
    for (uint16_t rank = 0; status == RT_OK && rank < settings->roles->servers; rank++) {
        made->connection_count++;
        status = open_shop(made, rank, err);
    }
    if (status != RT_OK) {
        rt_ps_client_destroy(made);
        return status;
    }
    *client = made;
    return RT_OK;
}

void rt_ps_client_destroy(struct rt_ps_client *client) {
    if (!client)
        return;
    for (size_t i = 0; i < client->connection_count; i++) {
        free(client->connections[i].portions);
        free(client->connections[i].sends);
        free(client->connections[i].receives);
        free(client->connections[i].kept);
    }
    free(client->connections);
    free(client->missing);
    free(client->sum);
    free(client);
}

/* ---- its part in an engine ----------------------------------------------------------------------------- */

static bool take_event(void *self, const struct rt_event *event, rt_status *status, struct rt_error *err) {
    struct rt_ps_client *client = self;
    for (size_t i = 0; i < client->connection_count; i++)
        if (client->connections[i].link == event->link && event->link &&
            rt_server_connection_event(&client->connections[i], event, status, err))
            return true;
    return false;
}

static rt_status take_turn(void *self, struct rt_error *err) {
    struct rt_ps_client *client = self;
    (void)err;
    for (size_t i = 0; i < client->connection_count; i++)
        rt_server_connection_go(&client->connections[i]);
    return RT_OK;
}

static uint16_t waits_for(const void *self) {
    const struct rt_ps_client *client = self;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        if (connection->link && (connection->asking || connection->sending > 0))
            return connection->rank;
    }
    return UINT16_MAX;
}

struct rt_engine_part rt_ps_client_part(struct rt_ps_client *client) {
    return (struct rt_engine_part){
        .self = client, .event = take_event, .turn = take_turn, .waits_for = waits_for};
}

void rt_ps_client_attach(struct rt_ps_client *client, struct rt_engine *engine) {
    client->engine = engine;
}

static void enter(const struct rt_ps_client *client) {
    if (client->engine)
        rt_engine_enter(client->engine);
}

/* Without an engine there is nobody else to send what can be sent now. */
static void leave(struct rt_ps_client *client) {
    struct rt_error none;
    if (client->engine)
        rt_engine_leave(client->engine);
    else
        take_turn(client, &none);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

bool rt_ps_client_has(const struct rt_ps_client *client, size_t span) {
    if (client->missing[span] > 0)
        return false;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        for (size_t p = 0; p < connection->count; p++)
            if (connection->portions[p].span == span && connection->kept[p])
                return false;
    }
    return true;
}

static bool has_span(void *self) {
    const struct rt_ps_client *client = self;
    return rt_ps_client_has(client, client->span);
}

static bool is_quiet(void *self) {
    const struct rt_ps_client *client = self;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        if (connection->request != RT_REQUEST_NONE || connection->next != RT_REQUEST_NONE ||
            connection->sending > 0 || connection->asking)
            return false;
    }
    return true;
}

static enum rt_state enter_state(const struct rt_ps_client *client, enum rt_state state) {
    struct rt_states *states = client->settings.learning.states;
    if (!states)
        return state;
    const enum rt_state before = states->now;
    rt_states_enter(states, state);
    return before;
}

/* Before a gradient goes: an emulated device has made the sum by then. */
static void catch_up(const struct rt_ps_client *client) {
    if (client->settings.learning.states)
        rt_states_catch_up(client->settings.learning.states);
}

static rt_status wait_until(struct rt_ps_client *client, bool (*test)(void *self), struct rt_error *err) {
    return rt_engine_wait_as(client->engine, client->settings.learning.states, RT_STATE_WAIT_BARRIER, test,
                             client, err);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static size_t every(int64_t option) {
    return option > 1 ? (size_t)option : 1;
}

static bool is_pushed(const struct rt_ps_client *client) {
    return (client->step + 1) % every(client->settings.options->push_every) == 0;
}

static bool is_fetched_after(const struct rt_ps_client *client) {
    return (client->step + 1) % every(client->settings.options->fetch_every) == 0;
}

/* Inside the engine: what is to be said to all servers next. */
static void send_errand(struct rt_ps_client *client, enum rt_server_request request) {
    for (size_t i = 0; i < client->connection_count; i++)
        client->connections[i].next = request;
}

static void expect_params(struct rt_ps_client *client) {
    for (size_t i = 0; i < client->connection_count; i++)
        rt_server_connection_expect(&client->connections[i]);
}

/* Inside the engine: the span's gradient may go. SIZE_MAX: all of them. */
static void keep(struct rt_ps_client *client, size_t span) {
    for (size_t i = 0; i < client->connection_count; i++) {
        struct rt_server_connection *connection = &client->connections[i];
        for (size_t p = 0; p < connection->count; p++)
            if (span == SIZE_MAX || connection->portions[p].span == span)
                connection->kept[p] = true;
    }
}

RT_CLONES static void add(size_t n, float *restrict sum, const float *restrict term) {
    for (size_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void add_span(struct rt_ps_client *client, const struct rt_span *span) {
    const float *gradient = client->settings.replica->gradient + span->first;
    const enum rt_state before = enter_state(client, RT_STATE_REDUCE);
    if (client->summed == 0)
        memcpy(client->sum + span->first, gradient, span->count * sizeof(float));
    else
        add(span->count, client->sum + span->first, gradient);
    enter_state(client, before);
}

/* A plain step of the worker's own, until it next has the servers' parameters: w -= rate * gradient. */
static void step_span(struct rt_ps_client *client, const struct rt_span *span) {
    const struct rt_learning *learning = &client->settings.learning;
    const struct rt_replica *replica = client->settings.replica;
    const double factor =
        rt_schedule_factor(learning->schedule, client->ticket, learning->updates, learning->per_epoch);
    const struct rt_optim_step step = {
        .lr = (float)(learning->optim->lr * factor),
        .weight_decay = (float)learning->optim->weight_decay,
        .grad_scale = 1,
        .update = client->ticket,
    };
    const enum rt_state before = enter_state(client, RT_STATE_UPDATE);
    rt_optim_type_find("sgd")->apply(learning->optim, &step, span->count, replica->params + span->first,
                                     replica->gradient + span->first, NULL);
    enter_state(client, before);
}

void rt_ps_client_begin(struct rt_ps_client *client, uint64_t batch) {
    client->ticket = batch;
    client->wants = !client->begun || client->settings.lazy;
    if (!client->begun) {
        client->begun = true;
        client->resting = false;
        client->step = 0;
    }
    rt_ps_client_asks(client);
}

bool rt_ps_client_asks(struct rt_ps_client *client) {
    enter(client);
    if (client->wants && is_quiet(client)) {
        client->wants = false;
        send_errand(client, RT_REQUEST_PULL);
        expect_params(client);
    }
    leave(client);
    return !client->wants;
}

static rt_status begin(void *self, const struct rt_ticket *ticket, struct rt_error *err) {
    struct rt_ps_client *client = self;
    rt_ps_client_begin(client, ticket->batch);
    return rt_engine_status(client->engine, err);
}

static void need(void *self, size_t span) {
    struct rt_ps_client *client = self;
    struct rt_error err;
    client->span = span;
    wait_until(client, has_span, &err);
}

/* Everything that was pushed before has left, or need would not have returned: a new gradient begins. */
static void open_push(struct rt_ps_client *client) {
    client->batch = client->ticket;
    client->complete = false;
    send_errand(client, RT_REQUEST_PUSH);
}

void rt_ps_client_ready(struct rt_ps_client *client, size_t span) {
    const struct rt_replica *replica = client->settings.replica;
    if (client->sum)
        add_span(client, &replica->spans[span]);
    if (!is_fetched_after(client))
        step_span(client, &replica->spans[span]);
    if (!is_pushed(client) || !client->settings.options->wfbp)
        return;
    catch_up(client);
    enter(client);
    if (span + 1 == replica->span_count)
        open_push(client);
    keep(client, span);
    leave(client);
}

static void ready(void *self, size_t span) {
    rt_ps_client_ready(self, span);
}

void rt_ps_client_end(struct rt_ps_client *client, size_t rows) {
    const bool pushed = is_pushed(client), asks = is_fetched_after(client) && !client->settings.lazy;
    client->due += (uint32_t)rows;
    catch_up(client);
    enter(client);
    if (pushed && !client->settings.options->wfbp) {
        open_push(client);
        keep(client, SIZE_MAX);
    }
    if (pushed) {
        client->complete = true;
        client->rows = client->due;
        client->asks = asks;
    } else if (asks) {
        send_errand(client, RT_REQUEST_PULL);
    }
    if (asks)
        expect_params(client);
    leave(client);
    client->summed = pushed ? 0 : client->summed + 1;
    client->due = pushed ? 0 : client->due;
    client->step++;
}

static rt_status end(void *self, const struct rt_done *done, struct rt_error *err) {
    struct rt_ps_client *client = self;
    rt_ps_client_end(client, (size_t)done->rows);
    return rt_engine_status(client->engine, err);
}

/* What has been added up and not pushed goes too; then the worker rests, and has the newest parameters. */
bool rt_ps_client_rest(struct rt_ps_client *client, bool anew) {
    enter(client);
    client->resting = client->resting && !anew;
    const bool quiet = is_quiet(client), rests = quiet && client->resting;
    if (quiet && client->summed > 0) {
        open_push(client);
        keep(client, SIZE_MAX);
        client->complete = true;
        client->asks = false;
        client->rows = client->due;
        client->summed = client->due = 0;
    } else if (quiet && !rests) {
        send_errand(client, RT_REQUEST_REST);
        expect_params(client);
        client->begun = false;
        client->resting = true;
    }
    leave(client);
    return rests;
}

static rt_status settle(void *self, struct rt_error *err) {
    struct rt_ps_client *client = self;
    rt_status status = rt_engine_status(client->engine, err);
    while (status == RT_OK && !rt_ps_client_rest(client, false))
        status = wait_until(client, is_quiet, err);
    return status;
}

static void destroy(void *self) {
    rt_ps_client_destroy(self);
}

struct rt_exchange rt_ps_client_face(struct rt_ps_client *client) {
    return (struct rt_exchange){.self = client,
                                .begin = begin,
                                .need = need,
                                .ready = ready,
                                .end = end,
                                .settle = settle,
                                .destroy = destroy};
}

uint64_t rt_ps_client_spread(const struct rt_ps_client *client) {
    return client->spread;
}
