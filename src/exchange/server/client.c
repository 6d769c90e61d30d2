/* A worker's steps in an exchange by servers; see client.h. */
#include "exchange/server/client_inside.h"

#include "base/clones.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------------------- */

static rt_status ps_client_take_memory(struct rt_server_connection *connection, struct rt_span range,
                                       const struct rt_replica *replica, struct rt_error *err) {
    connection->first = range.first;
    RT_TRY(rt_portions_create(replica->spans, replica->span_count, range.first, range.count,
                              &connection->portions, &connection->count, err));
    const size_t count = connection->count;
    RT_TRY(rt_alloc(count, sizeof *connection->sends, "what is pushed", &connection->sends, err));
    RT_TRY(rt_alloc(count, sizeof *connection->receives, "what is fetched", &connection->receives, err));
    return rt_alloc(count, sizeof *connection->kept, "what is pushed", &connection->kept, err);
}

static rt_status ps_client_connect(struct rt_ps_client *client, uint16_t rank, struct rt_error *err) {
    const struct rt_ps_client_settings *settings = &client->settings;
    const struct rt_communicator *comm = settings->comm;
    struct rt_server_connection *connection = &client->connections[rank];
    const bool here = rank == comm->rank;
    struct rt_span range;
    char name[RT_NAME_ROOM];
    *connection = (struct rt_server_connection){.client = client, .rank = rank};
    RT_TRY(rt_server_range(settings->strategy, settings->options, settings->roles, rank, settings->replica,
                           &range, err));
    RT_TRY(ps_client_take_memory(connection, range, settings->replica, err));
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

static rt_status ps_client_init(struct rt_ps_client *client, const struct rt_ps_client_settings *settings,
                                struct rt_error *err) {
    const struct rt_replica *replica = settings->replica;
    client->settings = *settings;
    RT_TRY(rt_alloc(settings->roles->servers, sizeof *client->connections, "the servers",
                    &client->connections, err));
    RT_TRY(rt_alloc(replica->span_count, sizeof *client->missing, "the spans", &client->missing, err));
    if (settings->options->push_every > 1)
        RT_TRY(rt_floats_create(replica->param_count, "the sum of gradients", &client->sum, err));
    for (uint16_t rank = 0; rank < settings->roles->servers; rank++) {
        client->connection_count++;
        RT_TRY(ps_client_connect(client, rank, err));
    }
    return RT_OK;
}

rt_status rt_ps_client_create(const struct rt_ps_client_settings *settings, struct rt_ps_client **client,
                              struct rt_error *err) {
    struct rt_ps_client *made;
    RT_TRY(rt_alloc(1, sizeof *made, "the exchange", &made, err));
    RT_FINISH_CREATE(ps_client_init(made, settings, err), made, rt_ps_client_destroy, client);
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

/* ---- requests ------------------------------------------------------------------------------------------ */

static bool ps_client_is_quiet(const struct rt_ps_client *client) {
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        if (connection->request != RT_REQUEST_NONE || connection->next != RT_REQUEST_NONE ||
            connection->sending > 0 || connection->asking)
            return false;
    }
    return true;
}

/* What is to be said to all servers next. */
static void ps_client_request(struct rt_ps_client *client, enum rt_server_request request) {
    for (size_t i = 0; i < client->connection_count; i++)
        client->connections[i].next = request;
}

static void ps_client_expect_params(struct rt_ps_client *client) {
    for (size_t i = 0; i < client->connection_count; i++)
        rt_server_connection_expect(&client->connections[i]);
}

/* The span's gradient may go. SIZE_MAX: all of them. */
static void ps_client_keep(struct rt_ps_client *client, size_t span) {
    for (size_t i = 0; i < client->connection_count; i++) {
        struct rt_server_connection *connection = &client->connections[i];
        for (size_t p = 0; p < connection->count; p++)
            if (span == SIZE_MAX || connection->portions[p].span == span)
                connection->kept[p] = true;
    }
}

/* Everything that was pushed before has left, or has() would be false: a new gradient begins. */
static void ps_client_open_push(struct rt_ps_client *client) {
    client->batch = client->ticket;
    client->complete = false;
    ps_client_request(client, RT_REQUEST_PUSH);
}

/* All of the gradient is there: that of `due` rows. */
static void ps_client_complete_push(struct rt_ps_client *client, bool asks) {
    client->complete = true;
    client->asks = asks;
    client->rows = client->due;
    client->due = 0;
}

/* ---- events -------------------------------------------------------------------------------------------- */

/* What waits for quiet: asking for parameters, and on the way to rest pushing what has been added up and not
 * been pushed, then saying that the worker rests, and taking the newest parameters. */
static void ps_client_go_on(struct rt_ps_client *client) {
    const bool quiet = ps_client_is_quiet(client);
    if (quiet && client->wants) {
        client->wants = false;
        ps_client_request(client, RT_REQUEST_PULL);
        ps_client_expect_params(client);
    } else if (quiet && client->settles && client->summed > 0) {
        ps_client_open_push(client);
        ps_client_keep(client, SIZE_MAX);
        ps_client_complete_push(client, false);
        client->summed = 0;
    } else if (quiet && client->settles && !client->resting) {
        ps_client_request(client, RT_REQUEST_REST);
        ps_client_expect_params(client);
        client->begun = false;
        client->resting = true;
    }
    for (size_t i = 0; i < client->connection_count; i++)
        rt_server_connection_go(&client->connections[i]);
}

static bool ps_client_event(void *self, const struct rt_event *event, rt_status *status,
                            struct rt_error *err) {
    struct rt_ps_client *client = self;
    for (size_t i = 0; i < client->connection_count; i++)
        if (client->connections[i].link == event->link && event->link &&
            rt_server_connection_event(&client->connections[i], event, status, err)) {
            if (*status == RT_OK)
                ps_client_go_on(client);
            return true;
        }
    return false;
}

static rt_status ps_client_turn(void *self, struct rt_error *err) {
    (void)err;
    ps_client_go_on(self);
    return RT_OK;
}

/* The server in this process may just have answered. Then it did some work, and will look again itself at
 * what is done here. */
static bool ps_client_look_again(void *self, rt_status *status, struct rt_error *err) {
    (void)status, (void)err;
    ps_client_go_on(self);
    return false;
}

static uint16_t ps_client_waits_for(const void *self) {
    const struct rt_ps_client *client = self;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        if (connection->link && (connection->asking || connection->sending > 0))
            return connection->rank;
    }
    return UINT16_MAX;
}

/* ---- a worker's steps, inside the engine --------------------------------------------------------------- */

static size_t ps_client_every(int64_t option) {
    return option > 1 ? (size_t)option : 1;
}

static bool ps_client_pushes(const struct rt_ps_client *client) {
    return (client->step + 1) % ps_client_every(client->settings.options->push_every) == 0;
}

static bool ps_client_fetches(const struct rt_ps_client *client) {
    return (client->step + 1) % ps_client_every(client->settings.options->fetch_every) == 0;
}

static void ps_client_begin(void *self, const struct rt_ticket *ticket) {
    struct rt_ps_client *client = self;
    client->ticket = ticket->batch;
    client->wants = !client->begun || client->settings.lazy;
    client->settles = false;
    if (client->begun)
        return;
    client->begun = true;
    client->resting = false;
    client->step = 0;
}

static bool ps_client_has(const void *self, size_t span) {
    const struct rt_ps_client *client = self;
    if (client->wants || client->missing[span] > 0)
        return false;
    for (size_t i = 0; i < client->connection_count; i++) {
        const struct rt_server_connection *connection = &client->connections[i];
        for (size_t p = 0; p < connection->count; p++)
            if (connection->portions[p].span == span && connection->kept[p])
                return false;
    }
    return true;
}

/* Spans become ready from the last down. */
static void ps_client_ready(void *self, size_t span) {
    struct rt_ps_client *client = self;
    if (span + 1 == client->settings.replica->span_count)
        ps_client_open_push(client);
    ps_client_keep(client, span);
}

static void ps_client_end(void *self, const struct rt_done *done) {
    struct rt_ps_client *client = self;
    const bool pushes = ps_client_pushes(client), asks = ps_client_fetches(client) && !client->settings.lazy;
    client->due += (uint32_t)done->rows;
    if (pushes && !client->settings.options->wfbp) {
        ps_client_open_push(client);
        ps_client_keep(client, SIZE_MAX);
    }
    if (pushes)
        ps_client_complete_push(client, asks);
    else if (asks)
        ps_client_request(client, RT_REQUEST_PULL);
    if (asks)
        ps_client_expect_params(client);
    client->summed = pushes ? 0 : client->summed + 1;
    client->step++;
}

static void ps_client_rest(void *self, bool anew) {
    struct rt_ps_client *client = self;
    client->settles = true;
    client->resting = client->resting && !anew;
}

static bool ps_client_rests(const void *self) {
    const struct rt_ps_client *client = self;
    return client->settles && client->resting && ps_client_is_quiet(client);
}

/* ---- by the thread that computes ----------------------------------------------------------------------- */

RT_CLONES static void ps_client_add(size_t n, float *restrict sum, const float *restrict term) {
    for (size_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void ps_client_add_span(struct rt_ps_client *client, const struct rt_span *span) {
    const float *gradient = client->settings.replica->gradient + span->first;
    const enum rt_state before = rt_states_swap(client->settings.clock, RT_STATE_REDUCE);
    if (client->summed == 0)
        memcpy(client->sum + span->first, gradient, span->count * sizeof(float));
    else
        ps_client_add(span->count, client->sum + span->first, gradient);
    rt_states_swap(client->settings.clock, before);
}

/* A plain step of the worker's own, until it next has the servers' parameters: w -= rate * gradient. */
static void ps_client_step_span(struct rt_ps_client *client, const struct rt_span *span) {
    const struct rt_updater *updater = &client->settings.updater;
    const struct rt_replica *replica = client->settings.replica;
    const double factor =
        rt_schedule_factor(updater->schedule, client->ticket, updater->updates, updater->per_epoch);
    const struct rt_optim_step step = {
        .lr = (float)(updater->optim->lr * factor),
        .weight_decay = (float)updater->optim->weight_decay,
        .grad_scale = 1,
        .update = client->ticket,
    };
    const enum rt_state before = rt_states_swap(client->settings.clock, RT_STATE_UPDATE);
    rt_optim_type_find("sgd")->apply(updater->optim, &step, span->count, replica->params + span->first,
                                     replica->gradient + span->first, NULL);
    rt_states_swap(client->settings.clock, before);
}

/* Before a gradient goes, an emulated device has made the sum; the first span is the last to become ready. */
static bool ps_client_give(void *self, size_t span) {
    struct rt_ps_client *client = self;
    const struct rt_replica *replica = client->settings.replica;
    const bool goes = ps_client_pushes(client) && client->settings.options->wfbp;
    if (client->sum)
        ps_client_add_span(client, &replica->spans[span]);
    if (!ps_client_fetches(client))
        ps_client_step_span(client, &replica->spans[span]);
    if ((goes || span == 0) && client->settings.clock)
        rt_states_catch_up(client->settings.clock);
    return goes;
}

/* ---- what its owner sees ------------------------------------------------------------------------------- */

struct rt_exchange rt_ps_client_exchange(struct rt_ps_client *client) {
    return (struct rt_exchange){.self = client,
                                .part = {.self = client,
                                         .event = ps_client_event,
                                         .turn = ps_client_turn,
                                         .work = client->settings.local ? ps_client_look_again : NULL,
                                         .waits_for = ps_client_waits_for},
                                .begin = ps_client_begin,
                                .has = ps_client_has,
                                .ready = ps_client_ready,
                                .end = ps_client_end,
                                .rest = ps_client_rest,
                                .rests = ps_client_rests,
                                .give = ps_client_give};
}

uint64_t rt_ps_client_spread(const struct rt_ps_client *client) {
    return client->spread;
}
