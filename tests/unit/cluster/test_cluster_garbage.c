/* Whoever speaks to a node may say anything, in any order, on several links at a time: it must neither fall
 * nor hang, and serve the next master as if nothing had been. Deterministic: by seeds, over the network in
 * memory. */
#include "support/clusters.h"
#include "support/joins.h"

enum { LINKS = 4, WORDS = 120, ROOM = 600 };

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* ---- things to say: mostly what could be said, with a few numbers that could not ---- */

static uint16_t some_node(void) {
    return (uint16_t)(draw(30) ? draw(3) : draw(2000));
}

static uint16_t some_label(void) {
    return (uint16_t)(draw(20) ? 1 + draw(3) : draw(5));
}

static uint32_t view; /* that is spoken of */

static uint32_t some_view(void) {
    return draw(20) ? view : draw(6);
}

static size_t some_hello(uint8_t *body, bool master) {
    view += master && draw(4) == 0;
    struct rt_hello hello = {.role = master || draw(2) ? RT_ROLE_MASTER : RT_ROLE_NODE,
                             .label = master ? 0 : some_label(),
                             .view = some_view(),
                             .version = "1"};
    if (hello.role == RT_ROLE_NODE)
        hello.from = some_node();
    return rt_hello_encode(&hello, body, ROOM);
}

static size_t some_settle(uint8_t *body) {
    static const struct rt_settle_link links[][2] = {{{0, RT_LABEL_MESH}, {2, RT_LABEL_MESH}},
                                                     {{0, RT_LABEL_PREVIOUS}, {2, RT_LABEL_NEXT}},
                                                     {{2, RT_LABEL_PREVIOUS}, {0, RT_LABEL_MESH}},
                                                     {{0, RT_LABEL_PREVIOUS}, {0, RT_LABEL_NEXT}}};
    struct rt_settle_link want[2] = {links[draw(4)][0], links[draw(4)][1]};
    struct rt_settle settle = {.index = (uint16_t)(draw(10) ? 1 : some_node()),
                               .count = (uint16_t)(draw(10) ? 3 : some_node()),
                               .view = some_view(),
                               .links = 1 + draw(2),
                               .link = want};
    if (!draw(10))
        want[0] = (struct rt_settle_link){some_node(), some_label()};
    return rt_settle_encode(&settle, body, ROOM);
}

static size_t some_join(uint8_t *body) {
    static const char *const addresses[] = {"mem:1", "mem:2", "mem:3", "mem:0", "", "nowhere"};
    struct rt_join join = {.peer = some_node(),
                           .label = some_label(),
                           .probe_bytes = draw(3) ? 0 : draw(100000),
                           .milliseconds = draw(3000)};
    snprintf(join.address, sizeof join.address, "%s", addresses[draw(6)]);
    return rt_join_encode(&join, body, ROOM);
}

static size_t some_assign(uint8_t *body) {
    struct rt_error err;
    struct rt_assigned_node nodes[3] = {{0, 1, 2}, {1, 1, 2}, {2, 1, 2}};
    struct rt_assign assign = {.index = (uint16_t)draw(3), .view = some_view(), .nodes = 3, .node = nodes};
    if (rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &assign.job, &err) != RT_OK)
        return 0;
    size_t bytes = rt_assign_encode(&assign, body, ROOM);
    rt_tree_destroy(assign.job);
    return bytes;
}

static size_t some_body(uint16_t type, bool master, uint8_t *body) {
    switch (type) {
    case RT_MESSAGE_HELLO:
        return some_hello(body, master);
    case RT_MESSAGE_SETTLE:
        return some_settle(body);
    case RT_MESSAGE_JOIN:
        return some_join(body);
    case RT_MESSAGE_ASSIGN:
        return some_assign(body);
    case RT_MESSAGE_JOINED:
        return rt_joined_encode(&(struct rt_joined){.peer = some_node(), .label = some_label()}, body, ROOM);
    case RT_MESSAGE_ERROR:
        return rt_error_encode(&(struct rt_error_message){RT_FAILED, some_node(), "no"}, body, ROOM);
    default:
        return 0;
    }
}

/* ---- saying them ---- */

struct voice {
    struct rt_talk talk;
    struct rt_send send;
    struct rt_receive receive;
    uint8_t bytes[ROOM];
    bool sending;
};

/* What a master would say, what somebody who joins would, and the rest. */
static uint16_t some_type(bool master) {
    static const uint16_t masters[] = {RT_MESSAGE_SETTLE, RT_MESSAGE_SETTLE, RT_MESSAGE_JOIN,
                                       RT_MESSAGE_JOIN,   RT_MESSAGE_JOIN,   RT_MESSAGE_JOIN,
                                       RT_MESSAGE_ASSIGN, RT_MESSAGE_ASSIGN, RT_MESSAGE_GO};
    static const uint16_t joining[] = {RT_MESSAGE_JOIN, RT_MESSAGE_JOIN, RT_MESSAGE_JOINED,
                                       RT_MESSAGE_JOINED};
    static const uint16_t others[] = {RT_MESSAGE_HELLO, RT_MESSAGE_ERROR,  RT_MESSAGE_STOP,
                                      RT_MESSAGE_GO,    RT_MESSAGE_TICKET, RT_MESSAGE_SETTLED,
                                      RT_MESSAGE_PART,  RT_MESSAGE_SETTLE, 999};
    if (!draw(40))
        return others[draw(sizeof others / sizeof *others)];
    return master ? masters[draw(sizeof masters / sizeof *masters)]
                  : joining[draw(sizeof joining / sizeof *joining)];
}

static void speak(struct voice *voice, uint32_t run, bool master, bool first) {
    uint8_t *body = rt_talk_body(&voice->talk);
    if (!body || voice->talk.closed)
        return;
    const uint16_t type = first ? RT_MESSAGE_HELLO : some_type(master);
    size_t bytes = some_body(type, master, body);
    if (bytes && !draw(25)) /* damaged, or cut */
        body[draw((uint32_t)bytes)] ^= (uint8_t)(1 + draw(255));
    else if (bytes && !draw(40))
        bytes = draw((uint32_t)bytes);
    voice->talk.run = draw(60) ? run : run + 1;
    rt_talk_send(&voice->talk, &(struct rt_message){.type = type, .source = draw(8) ? 0 : some_node()},
                 bytes);
    voice->talk.run = 0;
    if (!voice->sending && !draw(30)) { /* a frame where a measurement would have one */
        voice->send = (struct rt_send){
            .channel = 1 + draw(3), .head_bytes = draw(97), .body = {{voice->bytes, draw(ROOM)}}};
        voice->sending = true;
        rt_link_send(voice->talk.link, &voice->send);
    }
}

static void listen(struct voice *voices, struct rt_endpoint *endpoint, double seconds) {
    struct rt_event event;
    const double until = rt_endpoint_now(endpoint) + seconds;
    while (rt_endpoint_wait(endpoint, until, &event))
        for (size_t i = 0; i < LINKS; i++) {
            if (event.link != voices[i].talk.link || !event.link)
                continue;
            if (event.kind == RT_EVENT_SENT && event.send == &voices[i].send)
                voices[i].sending = false;
            else
                rt_talk_event(&voices[i].talk, &event);
            if (voices[i].talk.ready)
                rt_talk_next(&voices[i].talk);
            break;
        }
}

static uint64_t seed;
static uint32_t run; /* that is spoken of */

static void say_anything(struct rt_endpoint *endpoint) {
    static struct voice voices[LINKS];
    struct rt_error err;
    memset(voices, 0, sizeof voices);
    for (unsigned word = 0; word < WORDS; word++) {
        const size_t which = draw(2) ? 0 : draw(LINKS);
        struct voice *voice = &voices[which];
        const bool fresh = !voice->talk.link || voice->talk.closed || !draw(40);
        if (fresh) {
            struct rt_link *link;
            rt_talk_close(&voice->talk);
            voice->sending = false;
            CHECK_OK(rt_endpoint_connect(endpoint, which == 0 || draw(5) ? "mem:1" : "mem:2",
                                         rt_endpoint_now(endpoint) + 5, &link, &err));
            CHECK_OK(rt_talk_open(link, &voice->talk, &err));
        }
        speak(voice, run, which == 0, fresh && draw(20));
        if (draw(2))
            listen(voices, endpoint, draw(4) ? 0.01 : 0.5);
    }
    listen(voices, endpoint, 1);
    for (size_t i = 0; i < LINKS; i++)
        rt_talk_close(&voices[i].talk);
}

static bool everybody(const void *user, uint16_t a, uint16_t b) {
    (void)user;
    return a < b;
}

/* A view that fails at once: who knows its run can say more to the nodes, which wait for their master. */
static void work_in_a_view(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *links[3];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    CHECK_OK(join_mesh(cluster, (size_t[]){0, 1}, 2, everybody, NULL, 0, links, NULL, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    cluster_close_links(links, 3);
    run = rt_cluster_run(cluster);
    rt_cluster_close(cluster);
}

static void say_anything_and_work(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *links[3];
    int sums[3];
    state = seed;
    view = 1;
    run = 77;
    if (place->world->place[1].keep > 0)
        work_in_a_view(place, endpoint);
    say_anything(endpoint);
    /* a node that was made to work without a master in it finds that out */
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 100);
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    CHECK_OK(join_mesh(cluster, (size_t[]){0, 1}, 2, everybody, NULL, 0, links, NULL, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    cluster_sums(links, 3, sums);
    CHECK(sums[1] == 2 && sums[2] == 1);
    cluster_close_links(links, 3);
    rt_cluster_close(cluster);
}

TEST(anything_may_be_said) {
    unsigned worked = 0, went_on = 0;
    for (seed = 1; seed <= 150; seed++) {
        static struct cluster_world world;
        cluster_init(&world, 3, seed % 3 ? 0 : 0.01);
        world.place[0].program = say_anything_and_work;
        for (size_t i = 1; i < 3; i++)
            world.place[i].keep = seed % 2 ? 0 : 20;
        cluster_run(&world, 400);
        worked += world.place[1].runs > 1;
        went_on += cluster_told(&world.place[1], "goes on with view");
        cluster_deinit(&world);
    }
    CHECK_MSG(worked > 0, "nothing that was said ever led to work");
    CHECK_MSG(went_on > 0, "nothing that was said ever led to another view");
}

TEST_MAIN()
