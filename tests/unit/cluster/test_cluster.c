/* Forming a cluster, over the network in memory: with everybody well, and with all that can go wrong. */
#include "support/clusters.h"
#include "support/joins.h"

#include <math.h>

/* ---- all is well ---- */

static struct rt_edge edges[CLUSTER_PLACES];

static void ask_all(struct rt_cluster *cluster) {
    struct rt_error err;
    uint8_t body[200];
    struct rt_tree *job;
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &job, &err));
    size_t count = rt_cluster_count(cluster);
    for (size_t i = 0; i < count; i++) {
        struct rt_talk *talk = &rt_cluster_member(cluster, i)->talk;
        struct rt_profile profile = {.rows = 3, .job = job};
        struct rt_profiled profiled;
        size_t bytes = rt_profile_encode(&profile, body, sizeof body);
        CHECK_OK(rt_cluster_ask(cluster, i, RT_MESSAGE_PROFILE, body, bytes, RT_MESSAGE_PROFILED, &err));
        CHECK_OK(rt_profiled_decode(talk->body, talk->body_bytes, &profiled, &err));
        CHECK(profiled.count == 2 && profiled.layers[0].forward == 3);
        rt_profiled_deinit(&profiled);
    }
    rt_tree_destroy(job);
}

static void whole_run(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    size_t nodes = place->world->places - 1, order[CLUSTER_PLACES];
    for (size_t i = 0; i < nodes; i++)
        order[i] = i;
    for (unsigned run = 1; run <= 2; run++) {
        CHECK_OK(cluster_open(place->world, endpoint, 1, nodes, &cluster, &err));
        CHECK(rt_cluster_count(cluster) == nodes && rt_cluster_run(cluster) != 0);
        for (size_t i = 0; i < nodes; i++) {
            const struct rt_member *member = rt_cluster_member(cluster, i);
            CHECK(strcmp(member->welcome.name, place->world->place[i + 1].name) == 0);
            CHECK(member->welcome.threads == 2 && member->welcome.memory == 1 << 20 && !member->local);
        }
        ask_all(cluster);
        CHECK_OK(join_ring(cluster, order, nodes, 100000, &next, &previous, edges, &err));
        CHECK_OK(cluster_assign(cluster, &err));
        CHECK_OK(rt_cluster_go(cluster, &err));
        CHECK(rt_cluster_ask(cluster, 0, RT_MESSAGE_GO, NULL, 0, RT_MESSAGE_GO, &err) == RT_FAILED);
        int number = cluster_round(next, previous);
        CHECK_MSG(number == (int)nodes, "the number came back as %d", number);
        rt_link_close(next);
        rt_link_close(previous);
        rt_cluster_close(cluster);
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
        for (size_t i = 1; i <= nodes; i++) {
            const struct cluster_place *node = &place->world->place[i];
            CHECK(node->runs == run && node->ends == run);
            CHECK(node->seen_index == i && node->seen_count == nodes + 1);
            CHECK(cluster_told(node, "a run of mem:0 begins") &&
                  cluster_told(node, "the run of mem:0 has ended"));
        }
    }
}

static void check_whole_run(size_t nodes, double random_delay) {
    static struct cluster_world world;
    cluster_init(&world, nodes + 1, random_delay);
    world.place[0].program = whole_run;
    cluster_run(&world, 100);
    for (size_t i = 0; i <= nodes && random_delay <= 0; i++) {
        CHECK_MSG(fabs(edges[i].latency - 0.001) < 0.0005, "latency %g of edge %zu", edges[i].latency, i);
        CHECK_MSG(fabs(edges[i].bandwidth - 1e6) < 5e4, "bandwidth %g of edge %zu", edges[i].bandwidth, i);
    }
    cluster_deinit(&world);
}

TEST(rings_of_one_to_five_nodes) {
    for (size_t nodes = 1; nodes <= 5; nodes++)
        check_whole_run(nodes, 0);
}

TEST(with_random_delays) {
    for (size_t nodes = 1; nodes <= 4; nodes++)
        check_whole_run(nodes, 0.02);
}

/* ---- in another order, with one left out ---- */

static void form_again(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 4, &cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0, 1, 2, 3}, 4, 0, &next, &previous, edges, &err));
    CHECK(edges[0].latency == 0 && edges[4].bandwidth == 0);
    rt_link_close(next);
    rt_link_close(previous);
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){3, 0, 2}, 3, 0, &next, &previous, edges, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(next, previous) == 3);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
    const struct cluster_place *node = place->world->place;
    CHECK(node[4].seen_index == 1 && node[1].seen_index == 2 && node[3].seen_index == 3);
    CHECK(node[2].runs == 0 && node[2].ends == 1 && node[1].runs == 1 && node[1].seen_count == 4);
    CHECK(rt_cluster_open(&(struct rt_cluster_settings){0}, endpoint, NULL, &cluster, &err) == RT_OK);
    CHECK(join_ring(cluster, NULL, 0, 0, &next, &previous, edges, &err) == RT_BAD_INPUT);
    rt_cluster_close(cluster);
}

TEST(another_order) {
    static struct cluster_world world;
    cluster_init(&world, 5, 0.01);
    world.place[0].program = form_again;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* ---- failures when a cluster is opened: the master tries once and expects a sentence ---- */

static const char *expected_sentence;
static double expected_within;

static void expect_failure(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    double start = rt_endpoint_now(endpoint);
    rt_status status = cluster_open(place->world, endpoint, 1, place->world->places - 1, &cluster, &err);
    CHECK(status != RT_OK);
    CHECK_MSG(strstr(err.text, expected_sentence), "said: %s", err.text);
    CHECK_MSG(rt_endpoint_now(endpoint) - start <= expected_within, "after %g s",
              rt_endpoint_now(endpoint) - start);
}

static void check_failure(struct cluster_world *world, const char *sentence, double within) {
    expected_sentence = sentence;
    expected_within = within;
    world->place[0].program = expect_failure;
    cluster_run(world, 100);
    for (size_t i = 1; i < world->places; i++) /* a node that was in it is free again */
        if (!world->place[i].program)
            CHECK_MSG(!world->place[i].log[0] || world->place[i].ends == 1, "%s", world->place[i].log);
    cluster_deinit(world);
}

TEST(a_node_with_another_answer) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[2].settings.answer[5] ^= 1;
    check_failure(&world, "pi2 (mem:2) (ringtmp " RT_VERSION ", kernels exact/test) computes other bits", 1);
}

static void do_nothing(struct cluster_place *place, struct rt_endpoint *endpoint) {
    (void)place;
    (void)endpoint;
}

TEST(nobody_listens) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[2].program = do_nothing;
    check_failure(&world, "mem:2: nothing is listening there", 11);
}

static void listen_only(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_event event;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    while (!atomic_load(&place->stop) && rt_endpoint_wait(endpoint, INFINITY, &event)) {
        /* and say nothing */
    }
}

TEST(a_node_that_says_nothing) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[2].program = listen_only;
    check_failure(&world, "mem:2 has not answered for 10 s", 11);
}

static void open_twice_named(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    const char *addresses[] = {"mem:1", "mem:1"};
    struct rt_cluster_settings settings = {.addresses = addresses, .address_count = 2};
    (void)place;
    CHECK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "pi1 already takes part in this run: it was named twice"), "%s", err.text);
    addresses[1] = "";
    CHECK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err) == RT_BAD_INPUT);
    addresses[1] = "mem:99";
    CHECK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err) == RT_BAD_INPUT);
    atomic_int stop = 1;
    settings.address_count = 1;
    CHECK(rt_cluster_open(&settings, endpoint, &stop, &cluster, &err) == RT_INTERRUPTED);
}

/* A node on another machine cannot use an address that means the master's machine to the master only. */
static void order_with_loopback(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    snprintf(rt_cluster_member(cluster, 1)->address, 100, "127.0.0.1:7117");
    CHECK(join_ring(cluster, (size_t[]){0, 1}, 2, 0, &next, &previous, edges, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "pi1 (mem:1) cannot reach pi2, which is 127.0.0.1:7117 on this machine only"),
              "%s", err.text);
    rt_cluster_close(cluster);
}

TEST(an_address_of_this_machine_only) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = order_with_loopback;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

TEST(addresses_that_are_wrong) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = open_twice_named;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

TEST(a_node_listens_where_masters_look) {
    static const struct {
        const char *given, *address;
    } cases[] = {{"127.0.0.1", "127.0.0.1:7117"},
                 {"127.0.0.1:80", "127.0.0.1:80"},
                 {"pi1", "pi1:7117"},
                 {"pi1:0", "pi1:0"},
                 {"::1", "[::1]:7117"},
                 {"[::1]", "[::1]:7117"},
                 {"[::1]:80", "[::1]:80"}};
    static const char *const wrong[] = {"", "7117", "0"};
    char address[RT_MAX_TEXT + 1];
    struct rt_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(rt_cluster_address(cases[i].given, address, &err));
        CHECK_MSG(strcmp(address, cases[i].address) == 0, "%s: %s", cases[i].given, address);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(rt_cluster_address(wrong[i], address, &err) == RT_BAD_INPUT);
        CHECK_MSG(strstr(err.text, "HOST or HOST:PORT"), "%s", err.text);
    }
}

/* ---- failures later ---- */

/* A node by hand: welcomes its master, and dies when it is asked to join. */
static void die_at_join(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_event event;
    struct rt_talk talk = {0};
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    while (!atomic_load(&place->stop) && rt_endpoint_wait(endpoint, INFINITY, &event)) {
        if (event.kind == RT_EVENT_ACCEPTED)
            CHECK_OK(rt_talk_open(event.link, &talk, &err));
        else
            rt_talk_event(&talk, &event);
        if (!talk.ready)
            continue;
        if (talk.message.type == RT_MESSAGE_JOIN) {
            rt_memnet_kill(place->world->net, place->index);
            break;
        }
        if (talk.message.type == RT_MESSAGE_SETTLE) {
            rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_SETTLED}, 0);
            rt_talk_next(&talk);
            continue;
        }
        struct rt_welcome welcome = {.cores = 1, .name = "mortal", .version = "1"};
        memcpy(welcome.answer, place->world->answer, sizeof welcome.answer);
        talk.run = talk.message.run;
        size_t bytes = rt_welcome_encode(&welcome, rt_talk_body(&talk), RT_MAX_CONTROL);
        rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_WELCOME}, bytes);
        rt_talk_next(&talk);
    }
    rt_talk_close(&talk);
}

static void lose_one_at_join(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 3, &cluster, &err));
    CHECK(join_ring(cluster, (size_t[]){0, 1, 2}, 3, 0, &next, &previous, edges, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "mortal (mem:2): is gone"), "%s", err.text);
    /* the others go on without it */
    CHECK_OK(cluster_assign_one(cluster, 0, &err));
    CHECK_OK(cluster_assign_one(cluster, 2, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0, 2}, 2, 0, &next, &previous, edges, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(next, previous) == 2);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
}

TEST(a_node_dies_between_join_and_joined) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[2].program = die_at_join;
    world.place[0].program = lose_one_at_join;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* Node 1 cannot reach node 2, which the master can. */
static void cut_between_nodes(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 2, &cluster, &err));
    rt_memnet_cut(place->world->net, 1, 2);
    CHECK(join_ring(cluster, (size_t[]){0, 1}, 2, 0, &next, &previous, edges, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "pi1 (mem:1): cannot reach pi2: mem:2: did not answer in time"), "%s",
              err.text);
    CHECK_OK(join_ring(cluster, (size_t[]){1}, 1, 0, &next, &previous, edges, &err));
    /* a link of the ring is lost before the work begins */
    rt_memnet_kill(place->world->net, 2);
    CHECK(rt_cluster_go(cluster, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "mem:2: is gone"), "%s", err.text);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 1);
}

TEST(nodes_that_cannot_reach_one_another) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = cut_between_nodes;
    cluster_run(&world, 100);
    CHECK_MSG(
        cluster_told(&world.place[1],
                     "the run of mem:0 ended before this node had to work: the master: closed the link"),
        "%s", world.place[1].log);
    cluster_deinit(&world);
}

static void ask_the_unwilling(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_tree *job;
    struct rt_link *next, *previous;
    uint8_t body[200];
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &job, &err));
    CHECK_OK(cluster_open(place->world, endpoint, 1, 3, &cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0, 1, 2}, 3, 0, &next, &previous, edges, &err));
    rt_link_close(next);
    rt_link_close(previous);
    CHECK(cluster_assign_one(cluster, 0, &err) == RT_NO_MEMORY);
    CHECK_MSG(strcmp(err.text, "pi1 (mem:1): 3 GiB are too much for me") == 0, "%s", err.text);
    /* one that takes its time, and one that takes too much of it */
    struct rt_profile profile = {.rows = 3, .job = job};
    size_t bytes = rt_profile_encode(&profile, body, sizeof body);
    CHECK_OK(rt_cluster_ask(cluster, 1, RT_MESSAGE_PROFILE, body, bytes, RT_MESSAGE_PROFILED, &err));
    CHECK(rt_cluster_ask(cluster, 2, RT_MESSAGE_PROFILE, body, bytes, RT_MESSAGE_PROFILED, &err) ==
          RT_FAILED);
    CHECK_MSG(strcmp(err.text, "pi3 (mem:3) has not answered for 10 s") == 0, "%s", err.text);
    rt_tree_destroy(job);
    rt_cluster_close(cluster);
}

TEST(a_node_that_refuses_and_slow_ones) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[1].refuses_assign = "3 GiB are too much for me";
    world.place[2].profile_seconds = 9;
    world.place[3].profile_seconds = 20;
    world.place[0].program = ask_the_unwilling;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* ---- two masters ---- */

static void second_master(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    rt_endpoint_sleep(endpoint, 0.5);
    place->world->token[0] = 1; /* the first has been opened by then */
    CHECK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "mem:1: pi1 is busy with a run of mem:0") == 0, "%s", err.text);
    rt_endpoint_sleep(endpoint, 1.5); /* while it works */
    CHECK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err) == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "mem:1: pi1 is busy with a run of mem:0") == 0, "%s", err.text);
    rt_endpoint_sleep(endpoint, 6); /* when it is free */
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_cluster_close(cluster);
}

static void first_master(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_endpoint_sleep(endpoint, 1);
    CHECK_OK(join_ring(cluster, (size_t[]){0}, 1, 0, &next, &previous, edges, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    rt_endpoint_sleep(endpoint, 2);
    CHECK(cluster_round(next, previous) == 1);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, 10);
}

TEST(two_masters_at_once) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = first_master;
    world.place[2].program = second_master;
    cluster_run(&world, 100);
    CHECK(cluster_told(&world.place[1], "mem:2 was refused: pi1 is busy with a run of mem:0"));
    CHECK(cluster_told(&world.place[1], "a run of mem:2 begins"));
    cluster_deinit(&world);
}

/* ---- masters that vanish or fall quiet ---- */

static void wait_for_the_node(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    (void)place;
    rt_endpoint_sleep(endpoint, 80);
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_cluster_close(cluster);
}

static void open_and_vanish(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_memnet_kill(place->world->net, place->index);
    rt_cluster_close(cluster);
}

TEST(a_master_vanishes) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = wait_for_the_node;
    world.place[2].program = open_and_vanish;
    cluster_run(&world, 200);
    CHECK(cluster_told(&world.place[1],
                       "the run of mem:2 ended before this node had to work: the master: is gone"));
    CHECK(world.place[1].ends == 2);
    cluster_deinit(&world);
}

static void open_and_be_quiet(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err = {0};
    struct rt_cluster *cluster;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_endpoint_sleep(endpoint, 70);
    CHECK(rt_cluster_ask(cluster, 0, RT_MESSAGE_GO, NULL, 0, RT_MESSAGE_READY, &err) == RT_FAILED);
    rt_cluster_close(cluster);
}

TEST(a_master_falls_quiet) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = wait_for_the_node;
    world.place[2].program = open_and_be_quiet;
    cluster_run(&world, 200);
    CHECK(
        cluster_told(&world.place[1],
                     "the run of mem:2 ended before this node had to work: mem:2 has been silent for 60 s"));
    CHECK(world.place[1].ends == 2);
    cluster_deinit(&world);
}

/* ---- strangers ---- */

/* Says something to node 1 and returns the sentence it is given for it; "" when the link closes without. */
static void say(struct rt_endpoint *endpoint, const struct rt_message *message, const struct rt_hello *hello,
                char sentence[RT_MAX_TEXT + 1]) {
    struct rt_error err;
    struct rt_event event;
    struct rt_link *link;
    struct rt_talk talk = {0};
    struct rt_error_message answer;
    sentence[0] = 0;
    double until = rt_endpoint_now(endpoint) + 20;
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", until, &link, &err));
    CHECK_OK(rt_talk_open(link, &talk, &err));
    talk.run = message->run;
    if (message->type)
        rt_talk_send(&talk, message, hello ? rt_hello_encode(hello, rt_talk_body(&talk), RT_MAX_CONTROL) : 0);
    talk.run = 0;
    while (!talk.ready && !talk.dead && rt_endpoint_wait(endpoint, until, &event))
        rt_talk_event(&talk, &event);
    if (talk.ready && talk.message.type == RT_MESSAGE_ERROR) {
        CHECK_OK(rt_error_decode(talk.body, talk.body_bytes, &answer, &err));
        memcpy(sentence, answer.text, sizeof answer.text);
    }
    rt_talk_close(&talk);
}

static void be_strange(struct cluster_place *place, struct rt_endpoint *endpoint) {
    char text[RT_MAX_TEXT + 1];
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_hello hello = {
        .role = RT_ROLE_NODE, .from = 1, .label = RT_LABEL_NEXT, .view = 1, .version = "1"};
    double start = rt_endpoint_now(endpoint);
    say(endpoint, &(struct rt_message){0}, NULL, text);
    CHECK(!text[0] && rt_endpoint_now(endpoint) - start < 6);
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = 77}, &hello, text);
    CHECK_MSG(strcmp(text, "pi1 does not expect a link of that run") == 0, "%s", text);
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_GO, .run = 77}, NULL, text);
    CHECK_MSG(strcmp(text, "its first message was 'go' instead of 'hello'") == 0, "%s", text);
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = 77}, NULL, text);
    CHECK_MSG(strstr(text, "hello"), "%s", text);
    say(endpoint, &(struct rt_message){.type = 9999}, NULL, text);
    CHECK_MSG(strstr(text, "type 9999"), "%s", text);
    hello = (struct rt_hello){.role = RT_ROLE_MASTER, .view = 1, .version = "1"};
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = 0}, &hello, text);
    CHECK_MSG(strstr(text, "number other than 0"), "%s", text);

    /* in the middle of a run: another place, another run */
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    struct rt_link *next, *previous;
    uint32_t run = rt_cluster_run(cluster);
    CHECK_OK(join_ring(cluster, (size_t[]){0}, 1, 0, &next, &previous, edges, &err));
    hello =
        (struct rt_hello){.role = RT_ROLE_NODE, .from = 5, .label = RT_LABEL_NEXT, .view = 1, .version = "1"};
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = run}, &hello, text);
    CHECK_MSG(strcmp(text, "pi1, node 1 of 2, does not expect a link from node 5") == 0, "%s", text);
    hello = (struct rt_hello){.role = RT_ROLE_MASTER, .label = RT_LABEL_NEXT, .view = 1, .version = "1"};
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = run}, &hello, text);
    CHECK_MSG(strstr(text, "does not expect a link from node 0"), "%s", text);
    say(endpoint, &(struct rt_message){.type = RT_MESSAGE_HELLO, .run = run + 1}, &hello, text);
    CHECK_MSG(strcmp(text, "pi1 does not expect a link of that run") == 0, "%s", text);
    CHECK(rt_cluster_go(cluster, &err) == RT_BAD_INPUT);
    CHECK_MSG(strcmp(err.text, "pi1 (mem:1): pi1 was told to start without a job or without links") == 0,
              "%s", err.text);
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(next, previous) == 1);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);

    /* a master that speaks of another run in the middle, and one that says what no master says */
    for (int bad = 0; bad < 2; bad++) {
        CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
        struct rt_talk *talk = &rt_cluster_member(cluster, 0)->talk;
        if (!bad)
            talk->run++;
        CHECK(rt_cluster_ask(cluster, 0, bad ? RT_MESSAGE_STOP : RT_MESSAGE_GO, NULL, 0, RT_MESSAGE_READY,
                             &err) != RT_OK);
        rt_cluster_close(cluster);
    }
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    rt_cluster_close(cluster);
}

TEST(strangers) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = be_strange;
    cluster_run(&world, 100);
    const struct cluster_place *node = &world.place[1];
    CHECK(cluster_told(node, "mem:0 was dropped: it was silent for 5 s"));
    CHECK(cluster_told(node, "the run of mem:0 ended before this node had to work: the master: sent a "
                             "message (go) of another run"));
    CHECK(cluster_told(node, "the run of mem:0 ended before this node had to work: mem:0: sent 'stop' "
                             "where 'go' was expected"));
    cluster_deinit(&world);
}

TEST_MAIN()
