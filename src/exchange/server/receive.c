/*
 * What workers send to a server: for each portion of its range one message, the last portion first; either
 * all are gradients (PUSH) or all are mere requests (PULL). So every message has its place, a gradient is
 * received where it is needed, and nobody can make the server take more memory than it has.
 */
#include "exchange/server/server_inside.h"

void rt_server_post(struct rt_server *server, struct rt_server_client *client) {
    const size_t count = server->portion_count;
    client->came = 0;
    for (size_t i = 0; client->link && i < count; i++) {
        const struct rt_portion *portion = &server->portions[count - 1 - i];
        struct rt_receive *receive = &client->receives[i];
        *receive = (struct rt_receive){
            .channel = RT_CHANNEL_SECOND,
            .body = client->gradient + (portion->first - server->settings.first),
            .body_room = portion->count * sizeof(float),
        };
        rt_link_receive(client->link, receive);
    }
}

void rt_server_release(struct rt_server *server, size_t worker) {
    struct rt_server_client *client = &server->clients[worker];
    client->push_counted = false;
    if (client->base)
        client->base->users--;
    client->base = NULL;
    if (client->link)
        rt_server_post(server, client);
    else if (server->here.room)
        server->here.room(server->here.self);
}

/* ---- what is complete ---------------------------------------------------------------------------------- */

static void server_take_push(struct rt_server *server, size_t worker, uint64_t batch, uint32_t rows) {
    struct rt_server_client *client = &server->clients[worker];
    struct rt_worker_state *state = &server->states[worker];
    client->push = (struct rt_push){
        .worker = worker,
        .batch = batch,
        .base = state->version,
        .clock = state->clock,
        .arrival = ++server->arrivals,
        .rows = rows,
        .gradient = client->gradient,
    };
    client->pushes++;
    client->base = server->shaped ? client->image : NULL;
    if (client->base)
        client->base->users++;
    state->waiting = true;
    state->given = false;
    server->changed = true;
}

/* Somebody comes back: it is not behind those who went on meanwhile, nor ahead of the round that is not
 * complete, which now waits for it as well. */
static void server_return_to_work(struct rt_server *server, struct rt_worker_state *state) {
    uint64_t slowest = UINT64_MAX, fastest = 0;
    for (size_t i = 0; i < server->view.workers; i++) {
        const struct rt_worker_state *other = &server->states[i];
        const uint64_t clock = other->clock - (other->gathered ? 1 : 0);
        if (!other->resting && clock < slowest)
            slowest = clock;
        if (clock > fastest)
            fastest = clock;
    }
    const uint64_t level = slowest == UINT64_MAX ? fastest : slowest;
    state->clock = state->clock > level ? state->clock : level;
    state->resting = false;
}

/* Who has not begun when the first rests had nothing to do at all. */
static void server_rest(struct rt_server *server, struct rt_worker_state *state) {
    state->resting = true;
    state->given = false;
    for (size_t i = 0; i < server->view.workers; i++)
        if (!server->states[i].begun)
            server->states[i].resting = true;
}

static void server_take_pull(struct rt_server *server, size_t worker, bool rests, uint64_t batch) {
    struct rt_worker_state *state = &server->states[worker];
    state->batch = batch;
    if (rests)
        server_rest(server, state);
    else if (state->resting)
        server_return_to_work(server, state);
    state->begun = true;
    state->reading = true;
    server->changed = true;
}

/* ---- what comes over a link ---------------------------------------------------------------------------- */

/* The most examples that a gradient can be made of. */
static uint64_t server_most_rows(const struct rt_server *server) {
    const struct rt_server_settings *settings = &server->settings;
    const uint64_t workers = server->view.workers, several = (uint64_t)settings->options->push_every;
    uint64_t rows = settings->batch_rows > settings->last_rows ? settings->batch_rows : settings->last_rows;
    if (rows == 0)
        return UINT32_MAX; /* not known */
    if (!server->rules->asynchronous)
        rows = (rows + workers - 1) / workers;
    if (settings->options->push_every <= 1)
        return rows;
    return rows > UINT32_MAX / several ? UINT32_MAX : rows * several;
}

/* The last batch that there will be. */
static uint64_t server_last_batch(const struct rt_server *server) {
    const struct rt_learning *learning = &server->settings.learning;
    if (learning->updates == 0 || learning->per_epoch == 0)
        return UINT64_MAX; /* not known */
    const uint64_t epochs =
        learning->updates / learning->per_epoch + (learning->updates % learning->per_epoch > 0);
    return server->view.per_epoch > UINT64_MAX / epochs ? UINT64_MAX : epochs * server->view.per_epoch;
}

static rt_status server_check_push(const struct rt_server *server, size_t worker,
                                   const struct rt_message *message, struct rt_error *err) {
    const struct rt_server_client *client = &server->clients[worker];
    const struct rt_worker_state *state = &server->states[worker];
    const struct rt_portion *portion = &server->portions[server->portion_count - 1 - client->came];
    if (!state->begun || state->reading || state->resting)
        return rt_fail(err, RT_BAD_INPUT, "pushed a gradient before it was given parameters");
    if (message->span != portion->span)
        return rt_fail(err, RT_BAD_INPUT, "sent the gradient of span %u instead of span %zu", message->span,
                       portion->span);
    if (!rt_portion_fits(portion, message))
        return rt_fail(err, RT_BAD_INPUT, "sent a gradient of span %zu that does not have %zu floats",
                       portion->span, portion->count);
    if (message->version != state->version)
        return rt_fail(
            err, RT_BAD_INPUT,
            "pushed a gradient made with version %llu of the parameters; it was given version %llu",
            (unsigned long long)message->version, (unsigned long long)state->version);
    if (message->batch == 0 || message->batch > server_last_batch(server))
        return rt_fail(err, RT_BAD_INPUT, "pushed a gradient for unknown batch %llu",
                       (unsigned long long)message->batch);
    if (message->batch < client->push.batch)
        return rt_fail(err, RT_BAD_INPUT, "pushed the gradient of batch %llu after that of batch %llu",
                       (unsigned long long)message->batch, (unsigned long long)client->push.batch);
    if (message->rows > (message->flags & RT_FLAG_LAST ? server_most_rows(server) : 0))
        return rt_fail(err, RT_BAD_INPUT, "claims %u examples; the maximum is %llu", message->rows,
                       (unsigned long long)(message->flags & RT_FLAG_LAST ? server_most_rows(server) : 0));
    return RT_OK;
}

static rt_status server_check_pull(const struct rt_server *server, size_t worker,
                                   const struct rt_message *message, struct rt_error *err) {
    const struct rt_server_client *client = &server->clients[worker];
    if (server->states[worker].reading)
        return rt_fail(err, RT_BAD_INPUT, "asked for parameters again before it got the last ones");
    if (message->batch > server_last_batch(server))
        return rt_fail(err, RT_BAD_INPUT, "asked for parameters for unknown batch %llu",
                       (unsigned long long)message->batch);
    if (message->clock != client->pushes)
        return rt_fail(err, RT_BAD_INPUT, "claims to have pushed %llu gradients; %llu have come",
                       (unsigned long long)message->clock, (unsigned long long)client->pushes);
    return RT_OK;
}

static rt_status server_check(const struct rt_server *server, size_t worker, const struct rt_message *message,
                              struct rt_error *err) {
    const struct rt_server_client *client = &server->clients[worker];
    const bool last = client->came + 1 == server->portion_count;
    if (message->run != server->settings.comm->run || message->source != client->rank)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message of another run or node",
                       rt_message_name(message->type));
    if (message->type != RT_MESSAGE_PUSH && message->type != RT_MESSAGE_PULL)
        return rt_fail(err, RT_BAD_INPUT, "sent a %s message where a gradient was expected",
                       rt_message_name(message->type));
    if (((message->flags & RT_FLAG_LAST) != 0) != last || (!last && message->flags & RT_FLAG_ASK))
        return rt_fail(err, RT_BAD_INPUT, "sent message %zu of the %zu of a %s, %smarked as the last",
                       client->came + 1, server->portion_count, rt_message_name(message->type),
                       last ? "not " : "");
    const struct rt_message *opened = &client->opened;
    if (client->came > 0 && (message->type != opened->type || message->batch != opened->batch ||
                             message->version != opened->version ||
                             (message->flags & RT_FLAG_REST) != (opened->flags & RT_FLAG_REST)))
        return rt_fail(err, RT_BAD_INPUT, "sent messages of one %s that do not belong together",
                       rt_message_name(opened->type));
    return message->type == RT_MESSAGE_PUSH ? server_check_push(server, worker, message, err)
                                            : server_check_pull(server, worker, message, err);
}

static rt_status server_take(struct rt_server *server, size_t worker, const struct rt_receive *receive,
                             struct rt_error *err) {
    struct rt_server_client *client = &server->clients[worker];
    struct rt_message message;
    rt_status status =
        rt_message_decode(receive->head, receive->head_bytes, receive->body_bytes, &message, err);
    if (status == RT_OK)
        status = server_check(server, worker, &message, err);
    if (status != RT_OK) {
        char name[32];
        return rt_fail_prefix(err, status, "%s",
                              rt_communicator_name(server->settings.comm, client->rank, name));
    }
    if (client->came == 0)
        client->opened = message;
    if (++client->came < server->portion_count)
        return RT_OK;
    client->came = 0;
    if (message.type == RT_MESSAGE_PULL) {
        server_take_pull(server, worker, message.flags & RT_FLAG_REST, message.batch);
        rt_server_post(server, client);
        return RT_OK;
    }
    server_take_push(server, worker, message.batch, message.rows);
    if (message.flags & RT_FLAG_ASK)
        server_take_pull(server, worker, false, 0);
    return RT_OK;
}

bool rt_server_receive(struct rt_server *server, const struct rt_event *event, rt_status *status,
                       struct rt_error *err) {
    const struct rt_receive *receive = event->receive;
    const uintptr_t at = (uintptr_t)receive, from = (uintptr_t)server->receives;
    const size_t index = (size_t)((at - from) / sizeof *receive);
    if (at < from || index >= server->view.workers * server->portion_count)
        return false;
    *status = server_take(server, index / server->portion_count, receive, err);
    return true;
}

/* ---- the worker in this process ------------------------------------------------------------------------ */

void rt_server_attach(struct rt_server *server, const struct rt_server_local *local) {
    server->here = *local;
}

bool rt_server_has_room(const struct rt_server *server) {
    const struct rt_worker_state *state = &server->states[server->local];
    return !state->waiting && !state->gathered;
}

float *rt_server_room(struct rt_server *server) {
    return server->clients[server->local].gradient;
}

void rt_server_push(struct rt_server *server, uint64_t batch, uint32_t rows) {
    server_take_push(server, server->local, batch, rows);
}

void rt_server_pull(struct rt_server *server, bool rests, uint64_t batch) {
    server_take_pull(server, server->local, rests, batch);
}
