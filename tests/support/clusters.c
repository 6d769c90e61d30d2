#include "support/clusters.h"

#include <math.h>

/* ---- the role of the nodes ----
 * In a ring a number comes from the previous node, and goes on with one added. In a mesh every node sends its
 * index to all others that it has a link with, and the sum of the indices received to the master.
 */

static rt_status role_profile(struct rt_session *session, const struct rt_profile *profile,
                              struct rt_profiled *profiled, struct rt_error *err) {
    struct cluster_place *place = session->user;
    struct rt_layer_times *layers = calloc(2, sizeof *layers);
    if (!layers)
        return rt_fail(err, RT_NO_MEMORY, "no memory");
    if (place->profile_seconds > 0)
        rt_endpoint_sleep(session->endpoint, rt_endpoint_now(session->endpoint) + place->profile_seconds);
    layers[0].forward = profile->rows;
    layers[1].forward = (double)place->index;
    *profiled = (struct rt_profiled){.count = 2, .layers = layers};
    return RT_OK;
}

static rt_status role_assign(struct rt_session *session, const struct rt_assign *assign, uint64_t *memory,
                             struct rt_error *err) {
    struct cluster_place *place = session->user;
    if (place->refuses_assign)
        return rt_fail(err, RT_NO_MEMORY, "%s", place->refuses_assign);
    *memory = 1000 + assign->index;
    return RT_OK;
}

/* Waits for the one receive that is posted. */
static bool wait_number(struct rt_link *link, struct rt_receive *receive, struct rt_session *session) {
    struct rt_event event;
    struct rt_endpoint *endpoint = link->endpoint;
    double until = rt_endpoint_now(endpoint) + 30;
    while (rt_endpoint_wait(endpoint, until, &event)) {
        if (event.kind == RT_EVENT_RECEIVED && event.receive == receive)
            return true;
        if (event.kind == RT_EVENT_CLOSED && event.link == link)
            return false;
        if (session)
            rt_node_stray(session, &event);
    }
    return false;
}

static bool wait_sent(struct rt_link *link, const struct rt_send *send, struct rt_session *session) {
    struct rt_event event;
    struct rt_endpoint *endpoint = link->endpoint;
    double until = rt_endpoint_now(endpoint) + 30;
    while (rt_endpoint_wait(endpoint, until, &event)) {
        if (event.kind == RT_EVENT_SENT && event.send == send)
            return true;
        if (event.kind == RT_EVENT_CLOSED && event.link == link)
            return false;
        rt_node_stray(session, &event);
    }
    return false;
}

/* What is posted on the links until they are closed. */
struct posted {
    uint8_t number, own, sum, told[CLUSTER_PLACES];
    struct rt_receive receive, receives[CLUSTER_PLACES];
    struct rt_send send, sends[CLUSTER_PLACES];
};

static bool work_in_ring(struct rt_session *session, struct posted *posted) {
    const struct cluster_place *place = session->user;
    posted->receive =
        (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = &posted->number, .body_room = 1};
    posted->send = (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{&posted->number, 1}}};
    bool came = place->starts;
    if (!came) {
        rt_link_receive(session->previous, &posted->receive);
        came = wait_number(session->previous, &posted->receive, session);
    }
    posted->number++;
    if (came) {
        rt_link_send(session->next, &posted->send);
        came = wait_sent(session->next, &posted->send, session);
    }
    if (place->starts) {
        rt_link_receive(session->previous, &posted->receive);
        came = came && wait_number(session->previous, &posted->receive, session);
    }
    return came;
}

static bool work_in_mesh(struct rt_session *session, struct posted *posted) {
    struct rt_receive *receives = posted->receives;
    struct rt_send *sends = posted->sends;
    struct rt_event event;
    size_t owed = 0;
    posted->own = (uint8_t)session->index;
    for (size_t i = 0; i < session->count; i++) {
        receives[i] =
            (struct rt_receive){.channel = RT_CHANNEL_FIRST, .body = &posted->told[i], .body_room = 1};
        sends[i] = (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{&posted->own, 1}}};
        if (i == 0 || !session->links[i])
            continue;
        rt_link_receive(session->links[i], &receives[i]);
        rt_link_send(session->links[i], &sends[i]);
        owed += 2;
    }
    while (owed && rt_endpoint_wait(session->endpoint, rt_endpoint_now(session->endpoint) + 30, &event))
        if (event.kind == RT_EVENT_RECEIVED || event.kind == RT_EVENT_SENT)
            owed--;
        else if (event.kind == RT_EVENT_CLOSED)
            return false;
        else
            rt_node_stray(session, &event);
    for (size_t i = 1; i < session->count; i++)
        posted->sum = (uint8_t)(posted->sum + posted->told[i]);
    sends[0].body[0].data = &posted->sum;
    rt_link_receive(session->links[0], &receives[0]);
    rt_link_send(session->links[0], &sends[0]);
    return !owed && wait_sent(session->links[0], &sends[0], session) &&
           wait_number(session->links[0], &receives[0], session);
}

static rt_status role_run(struct rt_session *session, struct rt_error *err) {
    struct cluster_place *place = session->user;
    place->runs++;
    place->seen_index = session->index;
    place->seen_count = session->count;
    place->seen_names[0] = 0;
    for (size_t i = 0, used = 0; i < session->count && used < sizeof place->seen_names; i++) {
        char text[RT_NAME_ROOM];
        used += (size_t)snprintf(place->seen_names + used, sizeof place->seen_names - used, "%s%s",
                                 i ? ", " : "", rt_node_name(&session->names, i, text));
    }
    struct posted posted = {.number = 0};
    bool came = !session->next || work_in_ring(session, &posted);
    if (came && session->links && session->count <= CLUSTER_PLACES)
        came = work_in_mesh(session, &posted);
    /* the next must have it before the link closes */
    if (session->next)
        rt_endpoint_sleep(session->endpoint, rt_endpoint_now(session->endpoint) + 1);
    session->keep = place->keep;
    rt_link_close(session->next);
    rt_link_close(session->previous);
    session->next = session->previous = NULL;
    if (session->links)
        cluster_close_links(session->links, session->count);
    return came ? RT_OK : rt_fail(err, RT_FAILED, "no number came");
}

static void role_end(struct rt_session *session) {
    struct cluster_place *place = session->user;
    place->ends++;
}

struct rt_role cluster_role(struct cluster_place *place) {
    return (struct rt_role){
        .profile = role_profile, .assign = role_assign, .run = role_run, .end = role_end, .user = place};
}

/* ---- the world ---- */

static void tell(void *user, const char *sentence) {
    struct cluster_place *place = user;
    size_t used = strlen(place->log);
    snprintf(place->log + used, sizeof place->log - used, "%s\n", sentence);
}

bool cluster_told(const struct cluster_place *place, const char *text) {
    return strstr(place->log, text) != NULL;
}

static void run_node(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    const struct rt_role role = cluster_role(place);
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    rt_status status = rt_node_serve(&place->settings, endpoint, &role, &place->stop, &err);
    /* a node that was killed has no network any more */
    CHECK_MSG(status == RT_OK || strstr(err.text, "has ended"), "%s", err.text);
}

static void program(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct cluster_world *world = user;
    struct cluster_place *place = &world->place[i];
    if (place->program)
        place->program(place, endpoint);
    else
        run_node(place, endpoint);
    if (i > 0)
        return;
    for (size_t j = 1; j < world->places; j++) {
        atomic_store(&world->place[j].stop, 1);
        rt_endpoint_wake(rt_memnet_endpoint(world->net, j));
    }
}

void cluster_init(struct cluster_world *world, size_t places, double random_delay) {
    const struct rt_memnet_settings settings = {
        .seed = 5, .latency = 0.001, .bandwidth = 1e6, .random_delay = random_delay};
    cluster_init_on(world, places, &settings);
}

void cluster_init_on(struct cluster_world *world, size_t places, const struct rt_memnet_settings *settings) {
    struct rt_error err;
    memset(world, 0, sizeof *world);
    world->places = places;
    memset(world->answer, 7, sizeof world->answer);
    CHECK_OK(rt_memnet_create(settings, places, &world->net, &err));
    for (size_t i = 0; i < places; i++) {
        struct cluster_place *place = &world->place[i];
        place->index = i;
        place->world = world;
        snprintf(place->name, sizeof place->name, "pi%zu", i);
        place->settings = (struct rt_node_settings){.name = place->name,
                                                    .kernels = "exact/test",
                                                    .cores = 4,
                                                    .threads = 2,
                                                    .memory = 1 << 20,
                                                    .tell = tell,
                                                    .user = place};
        memcpy(place->settings.answer, world->answer, sizeof world->answer);
    }
}

void cluster_run(struct cluster_world *world, double limit) {
    struct rt_error err;
    CHECK_OK(rt_memnet_run(world->net, program, world, limit, &err));
}

void cluster_deinit(struct cluster_world *world) {
    rt_memnet_destroy(world->net);
}

rt_status cluster_open(struct cluster_world *world, struct rt_endpoint *endpoint, size_t first, size_t count,
                       struct rt_cluster **cluster, struct rt_error *err) {
    char text[CLUSTER_PLACES][16];
    const char *addresses[CLUSTER_PLACES];
    for (size_t i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "mem:%zu", first + i);
        addresses[i] = text[i];
    }
    struct rt_cluster_settings settings = {
        .addresses = addresses, .address_count = count, .exact = true, .token = world->token};
    memcpy(settings.answer, world->answer, sizeof settings.answer);
    return rt_cluster_open(&settings, endpoint, NULL, cluster, err);
}

rt_status cluster_assign_one(struct rt_cluster *cluster, size_t member, struct rt_error *err) {
    struct rt_tree *job;
    struct rt_assigned_node share[CLUSTER_PLACES] = {{0, 1, 2}};
    struct rt_talk *talk = &rt_cluster_member(cluster, member)->talk;
    struct rt_ready ready;
    uint8_t body[900];
    rt_status status = rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &job, err);
    if (status != RT_OK)
        return status;
    char names[CLUSTER_PLACES][RT_NODE_NAME + 1] = {"master"};
    for (size_t i = 0; i < rt_cluster_count(cluster); i++)
        snprintf(names[i + 1], sizeof names[0], "%.80s", rt_cluster_member(cluster, i)->name);
    struct rt_assign assign = {.index = (uint16_t)(member + 1),
                               .view = rt_cluster_view(cluster),
                               .nodes = rt_cluster_count(cluster) + 1,
                               .node = share,
                               .name = names,
                               .job = job};
    size_t bytes = rt_assign_encode(&assign, body, sizeof body);
    rt_tree_destroy(job);
    status = rt_cluster_ask(cluster, member, RT_MESSAGE_ASSIGN, body, bytes, RT_MESSAGE_READY, err);
    if (status == RT_OK)
        status = rt_ready_decode(talk->body, talk->body_bytes, &ready, err);
    CHECK(status != RT_OK || ready.memory == 1001 + member);
    return status;
}

rt_status cluster_assign(struct rt_cluster *cluster, struct rt_error *err) {
    rt_status status = RT_OK;
    for (size_t i = 0; i < rt_cluster_count(cluster) && status == RT_OK; i++)
        status = cluster_assign_one(cluster, i, err);
    return status;
}

int cluster_round(struct rt_link *next, struct rt_link *previous) {
    uint8_t number = 0, back = 0;
    struct rt_receive receive = {.channel = RT_CHANNEL_FIRST, .body = &back, .body_room = 1};
    struct rt_send send = {.channel = RT_CHANNEL_FIRST, .body = {{&number, 1}}};
    rt_link_receive(previous, &receive);
    rt_link_send(next, &send);
    return wait_number(previous, &receive, NULL) ? back : -1;
}

void cluster_sums(struct rt_link **links, size_t count, int *sums) {
    for (size_t i = 1; i < count; i++) {
        uint8_t sum = 0;
        struct rt_receive receive = {.channel = RT_CHANNEL_FIRST, .body = &sum, .body_room = 1};
        rt_link_receive(links[i], &receive);
        sums[i] = wait_number(links[i], &receive, NULL) ? sum : -1;
    }
    static uint8_t done; /* no wait until it is sent */
    static struct rt_send sends[CLUSTER_PLACES];
    for (size_t i = 1; i < count; i++) {
        sends[i] = (struct rt_send){.channel = RT_CHANNEL_FIRST, .body = {{&done, 1}}};
        rt_link_send(links[i], &sends[i]);
    }
    struct rt_endpoint *endpoint = links[1]->endpoint;
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 0.5);
}

void cluster_close_links(struct rt_link **links, size_t count) {
    for (size_t i = 0; i < count; i++) {
        rt_link_close(links[i]);
        links[i] = NULL;
    }
}
