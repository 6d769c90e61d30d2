/* What a server is made of; see server.h. */
#include "exchange/server/server_inside.h"

#include "base/memory.h"
#include <stdlib.h>

/* Memory that it may come to use: for each worker the range twice, its gradient and the parameters on their
 * way to it. They are sent from an image, which workers of the same version share: so no worker ever sees
 * parameters of two versions, and an update never waits for a slow link. */
static rt_status server_take_memory(struct rt_server *server, struct rt_error *err) {
    const size_t workers = server->settings.roles->workers, count = server->settings.count;
    const size_t messages = workers * server->portion_count;
    const bool compensates = server->settings.options->compensate > 0;
    const char *what = "a server's workers";
    if (count > 0 && workers > SIZE_MAX / sizeof(float) / 4 / count)
        return rt_fail(err, RT_NO_MEMORY, "the gradients of %zu workers, %zu floats each, are too many",
                       workers, count);
    server->image_count = compensates && server->rules->complete ? 2 * workers : workers;
    RT_TRY(rt_alloc(workers, sizeof *server->clients, what, &server->clients, err));
    RT_TRY(rt_alloc(workers, sizeof *server->states, what, &server->states, err));
    RT_TRY(rt_alloc(messages, sizeof *server->receives, what, &server->receives, err));
    RT_TRY(rt_alloc(messages, sizeof *server->sends, what, &server->sends, err));
    RT_TRY(rt_alloc(server->image_count, sizeof *server->images, what, &server->images, err));
    RT_TRY(rt_alloc(server->image_count, sizeof *server->distances, what, &server->distances, err));
    RT_TRY(rt_alloc(server->image_count, sizeof *server->marks, what, &server->marks, err));
    RT_TRY(rt_alloc(workers, sizeof *server->round, what, &server->round, err));
    RT_TRY(rt_alloc(workers, sizeof *server->sums, what, &server->sums, err));
    if (server->rules->memory_bytes)
        RT_TRY(rt_alloc(1, server->rules->memory_bytes, what, &server->view.memory, err));
    RT_TRY(rt_floats_reserve(workers * count, "the workers' gradients", &server->gradients, err));
    RT_TRY(rt_floats_reserve(server->image_count * count, "the workers' parameters", &server->image_floats,
                             err));
    return compensates ? rt_floats_reserve(count, "a compensated gradient", &server->shaped, err) : RT_OK;
}

static rt_status server_meet_workers(struct rt_server *server, struct rt_error *err) {
    const struct rt_server_settings *settings = &server->settings;
    const struct rt_roles *roles = settings->roles;
    server->local = roles->workers;
    for (size_t i = 0; i < server->image_count; i++)
        server->images[i].floats = server->image_floats + i * settings->count;
    for (size_t i = 0; i < roles->workers; i++) {
        struct rt_server_client *client = &server->clients[i];
        client->rank = roles->worker[i];
        client->gradient = server->gradients + i * settings->count;
        client->receives = server->receives + i * server->portion_count;
        client->sends = server->sends + i * server->portion_count;
        if (client->rank == settings->comm->rank) {
            server->local = i;
            continue;
        }
        client->link = client->rank < settings->comm->count ? settings->comm->links[client->rank] : NULL;
        char name[RT_NAME_ROOM];
        if (!client->link)
            return rt_fail(err, RT_FAILED, "there is no link to the worker on %s",
                           rt_communicator_name(settings->comm, client->rank, name));
    }
    return RT_OK;
}

static rt_status server_init(struct rt_server *server, const struct rt_server_settings *settings,
                             struct rt_error *err) {
    server->settings = *settings;
    server->rules = settings->rules;
    server->view.options = settings->options;
    server->view.workers = settings->roles->workers;
    server->view.per_epoch = settings->numbered ? settings->numbered : settings->updater.per_epoch;
    server->view.server = server;
    RT_TRY(rt_portions_create(settings->spans, settings->span_count, settings->first, settings->count,
                              &server->portions, &server->portion_count, err));
    RT_TRY(server_take_memory(server, err));
    server->view.state = server->states;
    return server_meet_workers(server, err);
}

rt_status rt_server_create(const struct rt_server_settings *settings, struct rt_server **server,
                           struct rt_error *err) {
    struct rt_server *made;
    if (settings->first > settings->param_count || settings->count > settings->param_count - settings->first)
        return rt_fail(err, RT_BAD_INPUT, "a server's range lies outside of the parameters");
    if (settings->updater.clip_norm > 0 && settings->count != settings->param_count)
        return rt_fail(err, RT_BAD_INPUT,
                       "train.clip_norm: a server of %zu of the %zu parameters cannot know the norm of the "
                       "whole gradient",
                       settings->count, settings->param_count);
    RT_TRY(rt_alloc(1, sizeof *made, "a server", &made, err));
    RT_FINISH_CREATE(server_init(made, settings, err), made, rt_server_destroy, server);
}

void rt_server_destroy(struct rt_server *server) {
    if (!server)
        return;
    free(server->portions);
    free(server->clients);
    free(server->states);
    free(server->receives);
    free(server->sends);
    free(server->images);
    free(server->distances);
    free(server->marks);
    free((void *)server->round);
    free(server->sums);
    free(server->view.memory);
    free(server->gradients);
    free(server->image_floats);
    free(server->shaped);
    free(server);
}
