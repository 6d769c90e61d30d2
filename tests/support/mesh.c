#include "support/mesh.h"

#include "net/tcp.h"
#include "support/test.h"
#include <math.h>
#include <pthread.h>

static const double patience = 60; /* seconds; nothing takes that long unless it hangs */

struct mesh {
    size_t n;
    mesh_program program;
    void *user;
    struct rt_endpoint *endpoints[MESH_MOST];
};

bool mesh_take(struct rt_party *party, struct rt_event *event) {
    if (!rt_endpoint_wait(party->endpoint, rt_endpoint_now(party->endpoint) + patience, event)) {
        rt_test_fail(__FILE__, __LINE__, "no event at party %u within %g s", party->rank, patience);
        return false;
    }
    if (event->kind == RT_EVENT_CLOSED || event->kind == RT_EVENT_REFUSED) {
        rt_test_fail(__FILE__, __LINE__, "at party %u: %s", party->rank, event->error.text);
        return false;
    }
    return true;
}

/* Calls those before it, and says who it is; takes the calls of those behind it, and hears who they are. */
static bool join(struct mesh *mesh, struct rt_party *party) {
    struct rt_send sends[MESH_MOST];
    struct rt_receive receives[MESH_MOST];
    struct rt_error err;
    size_t said = 0, heard = 0, accepted = 0;
    for (size_t i = 0; i < party->rank; i++) {
        if (rt_endpoint_connect(party->endpoint, mesh->endpoints[i]->address,
                                rt_endpoint_now(party->endpoint) + patience, &party->links[i], &err) != RT_OK)
            return false;
        sends[i] =
            (struct rt_send){.channel = RT_CHANNEL_CONTROL, .head_bytes = 1, .head = {(uint8_t)party->rank}};
        rt_link_send(party->links[i], &sends[i]);
    }
    while (said < party->rank || heard + party->rank + 1 < party->count) {
        struct rt_event event;
        if (!mesh_take(party, &event))
            return false;
        said += event.kind == RT_EVENT_SENT;
        if (event.kind == RT_EVENT_ACCEPTED) {
            receives[accepted] = (struct rt_receive){.channel = RT_CHANNEL_CONTROL};
            rt_link_receive(event.link, &receives[accepted++]);
        } else if (event.kind == RT_EVENT_RECEIVED) {
            party->links[event.receive->head[0]] = event.link;
            heard++;
        }
    }
    return true;
}

static void attend(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct mesh *mesh = user;
    struct rt_link *links[MESH_MOST] = {NULL};
    struct rt_party party = {.endpoint = endpoint,
                             .run = MESH_RUN,
                             .rank = (uint16_t)i,
                             .count = (uint16_t)mesh->n,
                             .links = links};
    if (join(mesh, &party))
        mesh->program(mesh->user, &party);
    else
        rt_test_fail(__FILE__, __LINE__, "party %zu cannot join", i);
}

void mesh_in_memory(const struct rt_memnet_settings *settings, size_t n, mesh_program program, void *user) {
    static const struct rt_memnet_settings ordinary = {
        .seed = 1, .latency = 1e-4, .bandwidth = 1e9, .random_delay = 1e-3};
    struct mesh mesh = {n, program, user, {NULL}};
    struct rt_memnet *net;
    struct rt_error err;
    CHECK_OK(rt_memnet_create(settings ? settings : &ordinary, n, &net, &err));
    for (size_t i = 0; i < n; i++) {
        mesh.endpoints[i] = rt_memnet_endpoint(net, i);
        CHECK_OK(rt_endpoint_listen(mesh.endpoints[i], "mem:*", &err));
    }
    CHECK_OK(rt_memnet_run(net, attend, &mesh, 1e9, &err));
    rt_memnet_destroy(net);
}

struct attendant {
    struct mesh *mesh;
    size_t i;
    pthread_t thread;
};

static void *attend_over_tcp(void *argument) {
    struct attendant *attendant = argument;
    struct rt_endpoint *endpoint = attendant->mesh->endpoints[attendant->i];
    rt_endpoint_attend(endpoint, attendant->i % 2 == 0); /* some leave the bytes to the network thread */
    attend(attendant->mesh, attendant->i, endpoint);
    rt_endpoint_attend(endpoint, false);
    return NULL;
}

void mesh_over_tcp(size_t n, mesh_program program, void *user) {
    struct mesh mesh = {n, program, user, {NULL}};
    struct attendant attendants[MESH_MOST];
    struct rt_error err;
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(rt_tcp_create(&(struct rt_tcp_settings){.key = NULL}, &mesh.endpoints[i], &err));
        CHECK_OK(rt_endpoint_listen(mesh.endpoints[i], "127.0.0.1:0", &err));
    }
    for (size_t i = 0; i < n; i++) {
        attendants[i] = (struct attendant){.mesh = &mesh, .i = i};
        if (pthread_create(&attendants[i].thread, NULL, attend_over_tcp, &attendants[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(attendants[i].thread, NULL);
    for (size_t i = 0; i < n; i++)
        rt_endpoint_destroy(mesh.endpoints[i]);
}
