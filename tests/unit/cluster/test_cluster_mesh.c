/* Meshes, and rings beside one another, over the network in memory: with everybody well, and with all that
 * can go wrong while they are formed. */
#include "cluster/cluster_inside.h"
#include "support/clusters.h"
#include "support/joins.h"

#include <math.h>

enum { P = CLUSTER_PLACES };

static const size_t in_order[P] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static bool everybody(const void *user, uint16_t a, uint16_t b) {
    (void)user;
    CHECK(a >= 1 && a < b);
    return true;
}

/* Some pairs, by a number. */
static bool some(const void *user, uint16_t a, uint16_t b) {
    const uint64_t seed = *(const uint64_t *)user;
    return (seed >> ((a * 7 + b * 3) % 61)) & 1;
}

static struct rt_edge edges[P * P];

static void run_world(size_t places, double random_delay,
                      void (*master)(struct cluster_place *place, struct rt_endpoint *endpoint),
                      struct cluster_world *world) {
    cluster_init(world, places, random_delay);
    world->place[0].program = master;
    cluster_run(world, 300);
}

/* ---- all is well ---- */

static struct {
    bool (*needs)(const void *user, uint16_t a, uint16_t b);
    uint64_t seed;
    uint32_t probe_bytes;
} wish;

static bool wished(uint16_t a, uint16_t b) {
    return wish.needs && wish.needs(&wish.seed, a < b ? a : b, a < b ? b : a);
}

static void check_sums(struct rt_link **links, size_t count) {
    int sums[P] = {0};
    cluster_sums(links, count, sums);
    for (uint16_t a = 1; a < count; a++) {
        int sum = 0;
        for (uint16_t b = 1; b < count; b++)
            sum += a != b && wished(a, b) ? b : 0;
        CHECK_MSG(sums[a] == sum, "node %u of %zu: %d instead of %d", a, count, sums[a], sum);
    }
}

static void check_edges(size_t count) {
    for (uint16_t a = 0; a < count; a++)
        for (uint16_t b = 0; b < count; b++) {
            const struct rt_edge *edge = &edges[a * count + b];
            const bool is_link = a != b && (a == 0 || b == 0 || wished(a, b));
            CHECK_MSG((edge->latency > 0) == (is_link && wish.probe_bytes), "%u and %u: %g s", a, b,
                      edge->latency);
            CHECK(edge->bandwidth == edges[b * count + a].bandwidth);
        }
}

static void whole_run(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    const size_t count = place->world->places;
    for (unsigned run = 1; run <= 2; run++) {
        struct rt_link *links[P];
        memset(edges, 0xff, sizeof edges);
        CHECK_OK(cluster_open(place->world, endpoint, 1, count - 1, &cluster, &err));
        CHECK_OK(join_mesh(cluster, in_order, count - 1, wish.needs, &wish.seed, wish.probe_bytes, links,
                           edges, &err));
        CHECK(!links[0]);
        check_edges(count);
        CHECK_OK(cluster_assign(cluster, &err));
        CHECK_OK(rt_cluster_go(cluster, &err));
        check_sums(links, count);
        cluster_close_links(links, count);
        rt_cluster_close(cluster);
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
        for (size_t i = 1; i < count; i++) {
            const struct cluster_place *node = &place->world->place[i];
            CHECK(node->runs == run && node->ends == run);
            CHECK(node->seen_index == i && node->seen_count == count);
            CHECK_MSG(cluster_told(node, "the run of mem:0 has ended") && !cluster_told(node, ": "), "%s",
                      node->log);
        }
    }
}

static void check_mesh(size_t places, double random_delay) {
    static struct cluster_world world;
    run_world(places, random_delay, whole_run, &world);
    cluster_deinit(&world);
}

TEST(meshes_of_two_to_nine) {
    wish.needs = everybody;
    for (wish.probe_bytes = 0; wish.probe_bytes <= 10000; wish.probe_bytes += 10000)
        for (size_t places = 2; places <= 9; places++)
            check_mesh(places, 0);
}

TEST(meshes_with_some_links_and_random_delays) {
    wish.needs = some;
    wish.seed = 0x9e3779b97f4a7c15u;
    wish.probe_bytes = 0;
    for (size_t places = 2; places <= 9; places++, wish.seed = wish.seed * 0xda942042e4dd58b5u + 1)
        check_mesh(places, 0.05);
}

TEST(a_star) {
    wish.needs = NULL;
    wish.probe_bytes = 1000;
    check_mesh(7, 0.01);
}

/* ---- again, in another order, with one left out; and after a ring ---- */

static void form_again(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *links[P], *next, *previous;
    const size_t order[3] = {3, 0, 2};
    CHECK_OK(cluster_open(place->world, endpoint, 1, 4, &cluster, &err));
    CHECK_OK(join_ring(cluster, in_order, 4, 0, &next, &previous, edges, &err));
    rt_link_close(next);
    rt_link_close(previous);
    CHECK_OK(join_mesh(cluster, in_order, 4, everybody, NULL, 0, links, NULL, &err));
    cluster_close_links(links, 5);
    CHECK(join_mesh(cluster, in_order, 0, everybody, NULL, 0, links, NULL, &err) == RT_BAD_INPUT);
    CHECK(join_mesh(cluster, (size_t[]){1, 1}, 2, everybody, NULL, 0, links, NULL, &err) == RT_BAD_INPUT);
    CHECK(join_mesh(cluster, (size_t[]){1, 4}, 2, everybody, NULL, 0, links, NULL, &err) == RT_BAD_INPUT);
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(join_mesh(cluster, order, 3, everybody, NULL, 0, links, NULL, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    wish.needs = everybody;
    check_sums(links, 4);
    cluster_close_links(links, 4);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
    const struct cluster_place *node = place->world->place;
    CHECK(node[4].seen_index == 1 && node[1].seen_index == 2 && node[3].seen_index == 3);
    CHECK(node[2].runs == 0 && node[2].ends == 1 && node[1].runs == 1 && node[1].seen_count == 4);
}

TEST(another_order) {
    static struct cluster_world world;
    run_world(5, 0.01, form_again, &world);
    cluster_deinit(&world);
}

/* ---- two rings side by side, equal places joined, and everybody with the master ---- */

static void two_rings(struct cluster_place *place, struct rt_endpoint *endpoint) {
    static const struct rt_wanted_link wanted[] = {
        {0, 1, RT_LABEL_NEXT}, {1, 2, RT_LABEL_NEXT}, {0, 2, RT_LABEL_PREVIOUS}, {3, 4, RT_LABEL_NEXT},
        {4, 5, RT_LABEL_NEXT}, {5, 3, RT_LABEL_NEXT}, {0, 1, RT_LABEL_MESH},     {0, 2, RT_LABEL_MESH},
        {0, 3, RT_LABEL_MESH}, {0, 4, RT_LABEL_MESH}, {0, 5, RT_LABEL_MESH},     {1, 4, RT_LABEL_MESH},
        {2, 5, RT_LABEL_MESH}};
    enum { WANTED = sizeof wanted / sizeof *wanted };
    struct rt_link *links[WANTED], *mesh[6] = {0};
    struct rt_error err;
    struct rt_cluster *cluster;
    int sums[6];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 5, &cluster, &err));
    CHECK_OK(rt_cluster_join(cluster, 1, in_order, 5, wanted, WANTED, 1000, links, edges, &err));
    for (size_t k = 0; k < WANTED; k++) {
        CHECK((links[k] != NULL) == (wanted[k].from == 0) && edges[k].latency > 0);
        if (wanted[k].from == 0 && wanted[k].label == RT_LABEL_MESH)
            mesh[wanted[k].to] = links[k];
    }
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(links[0], links[2]) == 2);
    cluster_sums(mesh, 6, sums);
    CHECK(sums[1] == 4 && sums[2] == 5 && sums[3] == 0 && sums[4] == 1 && sums[5] == 2);
    cluster_close_links(links, WANTED);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
    for (size_t i = 1; i < 6; i++)
        CHECK_MSG(cluster_told(&place->world->place[i], "has ended"), "%s", place->world->place[i].log);
}

TEST(rings_side_by_side) {
    static struct cluster_world world;
    cluster_init(&world, 6, 0.005);
    world.place[0].program = two_rings;
    world.place[3].starts = true;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* ---- what goes wrong ---- */

/* Two nodes cannot reach one another; without that link they can do without. */
static void cut_between_nodes(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 4, &cluster, &err));
    rt_memnet_cut(place->world->net, 2, 4);
    const double start = rt_endpoint_now(endpoint);
    CHECK(join_mesh(cluster, in_order, 4, everybody, NULL, 0, links, NULL, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "pi2 (mem:2): cannot reach pi4: mem:4: did not answer in time") == 0, "%s",
              err.text);
    CHECK(rt_endpoint_now(endpoint) - start < 6);
    wish.needs = some;
    wish.seed = 0;
    CHECK_OK(join_mesh(cluster, in_order, 4, some, &wish.seed, 0, links, NULL, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    check_sums(links, 5);
    cluster_close_links(links, 5);
    rt_cluster_close(cluster);
}

TEST(nodes_that_cannot_reach_one_another) {
    static struct cluster_world world;
    run_world(5, 0, cut_between_nodes, &world);
    cluster_deinit(&world);
}

/* A short timeout is the nodes' too: the one at fault is named, not the one that tries. */
static void be_impatient(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    const char *addresses[] = {"mem:1", "mem:2"};
    struct rt_cluster_settings settings = {.addresses = addresses, .address_count = 2, .timeout = 1.5};
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    rt_memnet_cut(place->world->net, 1, 2);
    const double start = rt_endpoint_now(endpoint);
    CHECK(join_mesh(cluster, in_order, 2, everybody, NULL, 0, links, NULL, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 (mem:1): cannot reach pi2: mem:2: did not answer in time"), "%s",
              err.text);
    CHECK(rt_endpoint_now(endpoint) - start < 1.5);
    rt_cluster_close(cluster);
}

TEST(a_short_patience) {
    static struct cluster_world world;
    run_world(3, 0, be_impatient, &world);
    cluster_deinit(&world);
}

/* A node dies while the others connect to it, or just before they begin to work. */
static double dies_after;

static void mortal(struct cluster_place *place, struct rt_endpoint *endpoint) {
    (void)endpoint;
    rt_endpoint_sleep(endpoint, dies_after);
    rt_memnet_kill(place->world->net, 2);
}

static void lose_one(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster = NULL;
    struct rt_link *links[P] = {0};
    const double start = rt_endpoint_now(endpoint);
    rt_status status = cluster_open(place->world, endpoint, 1, 4, &cluster, &err);
    if (status == RT_OK)
        status = join_mesh(cluster, in_order, 4, everybody, NULL, 5000, links, NULL, &err);
    if (status == RT_OK)
        status = cluster_assign(cluster, &err);
    if (status == RT_OK)
        status = rt_cluster_go(cluster, &err);
    CHECK_MSG(status == RT_OK || strstr(err.text, "mem:2") || strstr(err.text, "pi2"), "after %g s: %s",
              dies_after, err.text);
    CHECK_MSG(rt_endpoint_now(endpoint) - start < 20, "after %g s", rt_endpoint_now(endpoint) - start);
    cluster_close_links(links, 5);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 40);
    /* the others are free again, whatever happened to them */
    const char *addresses[] = {"mem:1", "mem:3", "mem:4"};
    struct rt_cluster_settings settings = {.addresses = addresses, .address_count = 3};
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    rt_cluster_close(cluster);
    CHECK(place->world->place[1].ends == 1 || status != RT_OK);
}

TEST(a_node_dies_at_any_time) {
    for (dies_after = 0.001; dies_after < 0.6; dies_after *= 1.3) {
        static struct cluster_world world;
        cluster_init(&world, 6, 0);
        world.place[0].program = lose_one;
        world.place[5].program = mortal;
        cluster_run(&world, 300);
        cluster_deinit(&world);
    }
}

/* A link between two nodes is lost when all are there: a node says so when it is to begin. */
static void lose_a_link(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 3, &cluster, &err));
    CHECK_OK(join_mesh(cluster, in_order, 3, everybody, NULL, 0, links, NULL, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    rt_memnet_cut(place->world->net, 1, 3);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 6);
    CHECK(rt_cluster_go(cluster, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 (mem:1): pi3: ") || strstr(err.text, "pi3 (mem:3): pi1: "), "%s",
              err.text);
    cluster_close_links(links, 4);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 40);
    for (size_t i = 1; i < 4; i++)
        CHECK_MSG(place->world->place[i].ends == 1, "%s", place->world->place[i].log);
}

TEST(a_link_is_lost_before_the_work_begins) {
    static struct cluster_world world;
    run_world(4, 0, lose_a_link, &world);
    cluster_deinit(&world);
}

/* ---- hostile ones ---- */

static rt_status ask(struct rt_cluster *cluster, uint16_t type, const uint8_t *body, size_t bytes,
                     uint16_t answer, struct rt_error *err) {
    rt_status status = rt_cluster_ask(cluster, 0, type, body, bytes, answer, err);
    if (status == RT_OK)
        rt_talk_next(&rt_cluster_member(cluster, 0)->talk);
    return status;
}

static rt_status ask_join(struct rt_cluster *cluster, uint16_t peer, uint16_t label, const char *address,
                          struct rt_error *err) {
    uint8_t body[200];
    struct rt_join join = {.peer = peer, .label = label, .milliseconds = 1000};
    snprintf(join.address, sizeof join.address, "%s", address);
    return ask(cluster, RT_MESSAGE_JOIN, body, rt_join_encode(&join, body, sizeof body), RT_MESSAGE_JOINED,
               err);
}

static void refused(rt_status status, const struct rt_error *err, const char *words) {
    CHECK_MSG(status != RT_OK && strstr(err->text, words), "%d: %s", status, err->text);
}

/* Orders that make no sense are refused one by one, and the node goes on. */
static void order_nonsense(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    uint8_t body[200];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "mem:2", &err), &err, "asked for an unknown link");
    const uint8_t garbage[6] = {1, 0, 4, 0, 255, 255};
    refused(ask(cluster, RT_MESSAGE_SETTLE, garbage, 6, RT_MESSAGE_SETTLED, &err), &err, "the settle");
    refused(ask(cluster, RT_MESSAGE_GO, NULL, 0, RT_MESSAGE_READY, &err), &err,
            "told to start without a job");
    struct rt_settle_link want[] = {{0, RT_LABEL_MESH}, {2, RT_LABEL_MESH}};
    const size_t bytes = rt_settle_encode(&(struct rt_settle){1, 3, 1, 2, want}, body, sizeof body);
    CHECK_OK(ask(cluster, RT_MESSAGE_SETTLE, body, bytes, RT_MESSAGE_SETTLED, &err));
    refused(ask_join(cluster, 2, RT_LABEL_NEXT, "mem:2", &err), &err, "asked for an unknown link");
    refused(ask_join(cluster, 0, RT_LABEL_MESH, "mem:2", &err), &err, "asked for an unknown link");
    refused(ask_join(cluster, 1, RT_LABEL_MESH, "mem:1", &err), &err, "asked for an unknown link");
    refused(ask_join(cluster, 900, RT_LABEL_MESH, "mem:2", &err), &err, "asked for an unknown link");
    refused(ask_join(cluster, 2, 7, "mem:2", &err), &err, "asked for an unknown link");
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "", &err), &err, "");
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "nowhere", &err), &err, "nowhere");
    /* the other has no place yet: it refuses the link; a node that is asked for itself does too */
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "mem:2", &err), &err,
            "pi2 does not expect a link of that run");
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "mem:1", &err), &err,
            "pi1, node 1 of 3, does not expect a link from node 1");
    CHECK_OK(join_mesh(cluster, in_order, 2, everybody, NULL, 0, links, NULL, &err));
    refused(ask_join(cluster, 2, RT_LABEL_MESH, "mem:2", &err), &err,
            "asked for an unknown link"); /* it is there */
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    wish.needs = everybody;
    check_sums(links, 3);
    cluster_close_links(links, 3);
    rt_cluster_close(cluster);
}

TEST(orders_that_make_no_sense) {
    static struct cluster_world world;
    run_world(3, 0, order_nonsense, &world);
    cluster_deinit(&world);
}

/* Somebody who knows the run tries to take others' places; and one who does not. */
static uint32_t run_of_master;

static void say_hello(struct rt_endpoint *endpoint, const struct rt_hello *hello, uint32_t run,
                      const char *words) {
    struct rt_error err;
    struct rt_event event;
    struct rt_link *link;
    struct rt_talk talk = {0};
    const double until = rt_endpoint_now(endpoint) + 2;
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", until, &link, &err));
    CHECK_OK(rt_talk_open(link, &talk, &err));
    talk.run = run;
    rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_HELLO},
                 rt_hello_encode(hello, rt_talk_body(&talk), RT_MAX_CONTROL));
    talk.run = 0;
    while (!talk.ready && !talk.dead && rt_endpoint_wait(endpoint, until, &event))
        rt_talk_event(&talk, &event);
    CHECK(talk.ready);
    rt_status status = rt_talk_expect(&talk, RT_MESSAGE_WELCOME, "it", &err);
    if (words)
        refused(status, &err, words);
    else
        CHECK_OK(status);
    if (!words) /* in the middle of it: garbage, and gone */
        rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_STOP}, 0);
    rt_talk_close(&talk);
}

static void intrude(struct cluster_place *place, struct rt_endpoint *endpoint) {
    (void)place;
    rt_endpoint_sleep(endpoint, 1);
    const uint32_t run = run_of_master;
    struct rt_hello hello = {
        .role = RT_ROLE_NODE, .from = 2, .label = RT_LABEL_MESH, .view = 1, .version = "1"};
    say_hello(endpoint, &hello, run + 1, "pi1 does not expect a link of that run");
    say_hello(endpoint, &hello, run,
              "pi1, node 1 of 3, does not expect a link from node 2"); /* it is there */
    hello.from = 900;
    say_hello(endpoint, &hello, run, "does not expect a link from node 900");
    hello.from = 1;
    say_hello(endpoint, &hello, run, "does not expect a link from node 1");
    hello.from = 0; /* a node that calls itself the master */
    say_hello(endpoint, &hello, run, "does not expect a link from node 0");
    for (hello.from = 0; hello.from < 4; hello.from++)
        for (hello.label = 1; hello.label < 9; hello.label++)
            say_hello(endpoint, &hello, run, "does not expect a link from node");
    hello = (struct rt_hello){.role = RT_ROLE_MASTER, .label = RT_LABEL_MESH, .view = 1, .version = "1"};
    say_hello(endpoint, &hello, run, "does not expect a link from node 0");
    hello.label = 0;
    say_hello(endpoint, &hello, run, "pi1 already takes part in this run");
    hello.token[0] = 1;
    say_hello(endpoint, &hello, run + 1, "pi1 is busy with a run of mem:0");
}

static void be_intruded(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    run_of_master = rt_cluster_run(cluster);
    CHECK_OK(join_mesh(cluster, in_order, 2, everybody, NULL, 0, links, NULL, &err));
    rt_endpoint_sleep(endpoint, 5);
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    wish.needs = everybody;
    check_sums(links, 3);
    cluster_close_links(links, 3);
    rt_cluster_close(cluster);
}

TEST(intruders) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[0].program = be_intruded;
    world.place[3].program = intrude;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* One who takes a place that is still free, talks garbage and goes: the link is made by the right one then.
 */
static void take_a_free_place(struct cluster_place *place, struct rt_endpoint *endpoint) {
    (void)place;
    rt_endpoint_sleep(endpoint, 1);
    struct rt_hello hello = {.role = RT_ROLE_NODE, .label = RT_LABEL_MESH, .view = 1, .version = "1"};
    say_hello(endpoint, &hello, run_of_master, "does not expect a link from node 0"); /* it is no master */
    hello.role = RT_ROLE_MASTER;
    say_hello(endpoint, &hello, run_of_master, NULL);
}

static void lose_a_place_for_a_while(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    uint8_t body[100];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    run_of_master = rt_cluster_run(cluster);
    struct rt_settle_link want = {0, RT_LABEL_MESH};
    const size_t bytes = rt_settle_encode(&(struct rt_settle){1, 2, 1, 1, &want}, body, sizeof body);
    CHECK_OK(ask(cluster, RT_MESSAGE_SETTLE, body, bytes, RT_MESSAGE_SETTLED, &err));
    rt_endpoint_sleep(endpoint, 5);
    CHECK_OK(join_mesh(cluster, in_order, 1, NULL, NULL, 0, links, NULL, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    wish.needs = NULL;
    check_sums(links, 2);
    cluster_close_links(links, 2);
    rt_cluster_close(cluster);
}

TEST(a_place_taken_by_somebody_else) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = lose_a_place_for_a_while;
    world.place[2].program = take_a_free_place;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* An address of the master's machine means another one to nodes elsewhere. */
static void order_with_loopback(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *links[P];
    CHECK_OK(cluster_open(place->world, endpoint, 1, 3, &cluster, &err));
    snprintf(rt_cluster_member(cluster, 2)->address, 100, "127.0.0.1:7117");
    refused(join_mesh(cluster, in_order, 3, everybody, NULL, 0, links, NULL, &err), &err,
            "cannot reach pi3, which is 127.0.0.1:7117 on this machine only");
    rt_cluster_close(cluster);
}

TEST(an_address_of_this_machine_only) {
    static struct cluster_world world;
    run_world(4, 0, order_with_loopback, &world);
    cluster_deinit(&world);
}

/* ---- over slow links ---- */

static struct rt_edge slow_edges[3];

static void form_slowly(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0, 1}, 2, 256 << 10, &next, &previous, slow_edges, &err));
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
}

TEST(links_that_are_too_slow_for_large_probes_are_measured) {
    static const double latency[] = {0.25, 0.001, 0.25}, bandwidth[] = {1e9, 1250, 1e4};
    for (size_t i = 0; i < sizeof latency / sizeof *latency; i++) {
        static struct cluster_world world;
        cluster_init_on(&world, 3,
                        &(struct rt_memnet_settings){.latency = latency[i], .bandwidth = bandwidth[i]});
        world.place[0].program = form_slowly;
        cluster_run(&world, 100);
        for (size_t k = 0; k < 3; k++) {
            CHECK_MSG(slow_edges[k].latency < 2 * latency[i] + 0.1, "latency %g", slow_edges[k].latency);
            CHECK_MSG(bandwidth[i] > 1e6 || fabs(slow_edges[k].bandwidth / bandwidth[i] - 1) < 0.5,
                      "bandwidth %g", slow_edges[k].bandwidth);
        }
        cluster_deinit(&world);
    }
}

TEST_MAIN()
