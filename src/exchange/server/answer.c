/*
 * Answers requests for parameters. They are sent from an image, a copy of the range, so that updates continue
 * while a worker on a slow link still receives. Workers that get the same version share an image. The image
 * that a worker was last given is also the base of its next gradient.
 */
#include "exchange/server/server_inside.h"

#include <string.h>

/* The image of the current version, created if there is none. There are as many images as can be in use, and
 * a worker that asks has released its own, so one is always free. The first free one is taken, so that
 * unneeded memory is never touched. */
static struct rt_server_image *server_take_image(struct rt_server *server) {
    struct rt_server_image *image = NULL;
    for (size_t i = 0; i < server->image_count; i++) {
        struct rt_server_image *other = &server->images[i];
        if (other->valid && other->version == server->view.version) {
            other->users++;
            return other;
        }
        if (!image && other->users == 0)
            image = other;
    }
    image->valid = true;
    image->version = server->view.version;
    image->users = 1;
    const enum rt_state before = rt_communicator_enter(server->settings.comm, RT_STATE_ENCODE);
    memcpy(image->floats, rt_server_params(server), server->settings.count * sizeof(float));
    rt_communicator_enter(server->settings.comm, before);
    return image;
}

static void server_send_params(struct rt_server *server, struct rt_server_client *client) {
    for (size_t i = 0; i < server->portion_count; i++) {
        const struct rt_portion *portion = &server->portions[i];
        struct rt_send *send = &client->sends[i];
        struct rt_message message = {
            .type = RT_MESSAGE_PARAM,
            .flags = i + 1 == server->portion_count ? RT_FLAG_LAST : 0,
            .source = server->settings.comm->rank,
            .run = server->settings.comm->run,
            .version = server->view.version,
        };
        rt_portion_describe(portion, &message);
        *send = (struct rt_send){.channel = RT_CHANNEL_FIRST, .head_bytes = RT_MESSAGE_HEAD};
        rt_message_encode(&message, send->head);
        send->body[0] = (struct rt_piece){client->image->floats + (portion->first - server->settings.first),
                                          portion->count * sizeof(float)};
        client->sending++;
        rt_link_send(client->link, send);
    }
}

void rt_server_answer(struct rt_server *server, size_t worker) {
    struct rt_server_client *client = &server->clients[worker];
    struct rt_worker_state *state = &server->states[worker];
    if (client->image)
        client->image->users--;
    client->image = NULL;
    if (client->link || server->rules->keeps_versions || server->shaped)
        client->image = server_take_image(server);
    state->version = server->view.version;
    state->reading = false;
    state->given = !state->resting;
    client->read_counted = false;
    if (client->link)
        server_send_params(server, client);
    else if (server->here.answer)
        server->here.answer(server->here.self, server->view.version, rt_server_params(server));
}
