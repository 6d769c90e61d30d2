/*
 * Validates what a worker sends to a server, and when. Its messages come in groups of as many as the server's
 * range has portions, the last portion first; either all are gradients (PUSH) or all are requests (PULL).
 */
#include "exchange/server/server_inside.h"

/* The largest number of examples in one gradient. */
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

/* The last batch of the run. */
static uint64_t server_last_batch(const struct rt_server *server) {
    const struct rt_updater *updater = &server->settings.updater;
    if (updater->updates == 0 || updater->per_epoch == 0)
        return UINT64_MAX; /* not known */
    const uint64_t epochs =
        updater->updates / updater->per_epoch + (updater->updates % updater->per_epoch > 0);
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

rt_status rt_server_check(const struct rt_server *server, size_t worker, const struct rt_message *message,
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
