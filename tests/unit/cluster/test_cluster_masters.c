/* Masters that break the rules, and nodes that end, while a cluster is formed: over the network in memory. */
#include "cluster/cluster_inside.h"
#include "support/clusters.h"
#include "support/joins.h"

static struct rt_edge edges[CLUSTER_PLACES];

static void run_world(size_t places,
                      void (*master)(struct cluster_place *place, struct rt_endpoint *endpoint),
                      struct cluster_world *world) {
    cluster_init(world, places, 0);
    world->place[0].program = master;
    cluster_run(world, 100);
}

static rt_status ask_join(struct rt_cluster *cluster, const struct rt_join *join, struct rt_error *err) {
    uint8_t body[RT_MAX_TEXT + 64];
    size_t bytes = rt_join_encode(join, body, sizeof body);
    return rt_cluster_ask(cluster, 0, RT_MESSAGE_JOIN, body, bytes, RT_MESSAGE_JOINED, err);
}

/* Node 1 of a ring of `count`. */
static rt_status ask_settle(struct rt_cluster *cluster, uint16_t count, struct rt_error *err) {
    uint8_t body[64];
    struct rt_settle_link links[2] = {{0, RT_LABEL_PREVIOUS}, {(uint16_t)(2 % count), RT_LABEL_NEXT}};
    size_t bytes = rt_settle_encode(&(struct rt_settle){1, count, 1, 2, links}, body, sizeof body);
    rt_status status = rt_cluster_ask(cluster, 0, RT_MESSAGE_SETTLE, body, bytes, RT_MESSAGE_SETTLED, err);
    if (status == RT_OK)
        rt_talk_next(&rt_cluster_member(cluster, 0)->talk);
    return status;
}

/* What a node was to do is settled by go: an assignment that fails behind it must not be worked on. */
static void change_after_go(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    CHECK_OK(ask_settle(cluster, 2, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_request(cluster, 0, RT_MESSAGE_GO, NULL, 0, &err));
    place->world->place[1].refuses_assign = "it is too much";
    CHECK(cluster_assign(cluster, &err) != RT_OK);
    CHECK_MSG(strstr(err.text, "sent 'assign' after 'go'"), "%s", err.text);
    CHECK(join_ring(cluster, (size_t[]){0}, 1, 0, &next, &previous, edges, &err) != RT_OK);
    rt_cluster_close(cluster);
}

TEST(a_master_that_changes_its_mind_after_go) {
    static struct cluster_world world;
    run_world(2, change_after_go, &world);
    CHECK(world.place[1].runs == 0 && world.place[1].ends == 1);
    cluster_deinit(&world);
}

/* A node that its own user ends is lost to the master, whose user has interrupted nothing. */
static void ask_who_ends(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    atomic_store(&place->world->place[1].stop, 1);
    rt_endpoint_wake(rt_memnet_endpoint(place->world->net, 1));
    rt_status status = rt_cluster_answer(cluster, 0, RT_MESSAGE_READY, &err);
    CHECK_MSG(status == RT_FAILED && strstr(err.text, "pi1 was told to end"), "%d: %s", status, err.text);
    rt_cluster_close(cluster);
}

TEST(a_node_that_is_told_to_end) {
    static struct cluster_world world;
    run_world(2, ask_who_ends, &world);
    CHECK(world.place[1].ends == 1);
    cluster_deinit(&world);
}

/* Takes links and says nothing. */
static void listen_only(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_event event;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    while (!atomic_load(&place->stop) && rt_endpoint_wait(endpoint, 90, &event)) {
    }
}

/* One request at a time: whoever asks for link after link gets no more than one under way. */
static void join_again_and_again(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_join join = {.peer = 2, .label = RT_LABEL_NEXT, .milliseconds = 5000, .address = "mem:2"};
    uint8_t body[100];
    size_t bytes = rt_join_encode(&join, body, sizeof body);
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    CHECK_OK(ask_settle(cluster, 3, &err));
    CHECK_OK(rt_cluster_request(cluster, 0, RT_MESSAGE_JOIN, body, bytes, &err));
    CHECK(ask_join(cluster, &join, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 is still connecting"), "%s", err.text);
    CHECK(ask_settle(cluster, 2, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 is still connecting"), "%s", err.text);
    rt_talk_next(&rt_cluster_member(cluster, 0)->talk);
    CHECK(rt_cluster_answer(cluster, 0, RT_MESSAGE_JOINED, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 (mem:1): cannot reach node 2: mem:2: does not answer"), "%s", err.text);
    CHECK_OK(ask_settle(cluster, 2, &err));
    rt_cluster_close(cluster);
}

TEST(a_master_that_asks_for_link_after_link) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = join_again_and_again;
    world.place[2].program = listen_only;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* A master that was quiet for too long is told so, also when it notices only later. */
static void come_back_late(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    for (double late = 61; late < 70; late += 5) {
        CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
        const double until = rt_endpoint_now(endpoint) + late;
        while (rt_endpoint_now(endpoint) < until) /* it does other things, but hears what comes */
            CHECK_OK(rt_cluster_pump(cluster, until, &err));
        CHECK(ask_settle(cluster, 2, &err) == RT_FAILED);
        CHECK_MSG(strcmp(err.text, "pi1 (mem:1): mem:0 has been silent for 60 s") == 0, "%s", err.text);
        rt_cluster_close(cluster);
    }
}

TEST(a_master_that_comes_back_late) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = come_back_late;
    cluster_run(&world, 200);
    cluster_deinit(&world);
}

/* What others can see of a node that works for nobody: while it measures it takes no events, but the network
 * knows that its master is gone. */
static struct rt_node_work seen;

static void leave_in_the_middle(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_tree *job;
    uint8_t body[200];
    CHECK(!rt_node_is_orphaned(&seen));
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    CHECK(atomic_load(&seen.works) && atomic_load(&seen.links) == 1);
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &job, &err));
    const struct rt_profile profile = {.rows = 1, .job = job};
    CHECK_OK(rt_cluster_request(cluster, 0, RT_MESSAGE_PROFILE, body,
                                rt_profile_encode(&profile, body, sizeof body), &err));
    rt_tree_destroy(job);
    rt_endpoint_sleep(endpoint, 2);
    CHECK(!rt_node_is_orphaned(&seen));
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, 5);
    CHECK(rt_node_is_orphaned(&seen));
    rt_endpoint_sleep(endpoint, 25);
    CHECK(!atomic_load(&seen.works) && !rt_node_is_orphaned(&seen));
}

TEST(it_can_be_seen_that_a_node_works_for_nobody) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = leave_in_the_middle;
    world.place[1].profile_seconds = 20;
    world.place[1].settings.work = &seen;
    cluster_run(&world, 100);
    CHECK(cluster_told(&world.place[1], "ended before this node had to work"));
    cluster_deinit(&world);
}

/* In a ring it is the links of the work that count, from its beginning on. */
static void leave_at_work(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_link *next, *previous;
    struct rt_error err;
    struct rt_cluster *cluster;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0}, 1, 0, &next, &previous, edges, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 1);
    CHECK(atomic_load(&seen.works) && atomic_load(&seen.links) == 2);
    CHECK(cluster_round(next, previous) == 1);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 5);
    CHECK(!atomic_load(&seen.works) && atomic_load(&seen.links) == 0);
}

TEST(the_links_of_the_work_are_counted) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = leave_at_work;
    world.place[1].settings.work = &seen;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

TEST_MAIN()
