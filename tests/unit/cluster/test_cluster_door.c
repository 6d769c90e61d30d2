/* Nodes that connect to the master, over the network in memory; and strangers that do. */
#include "cluster/view.h"
#include "support/clusters.h"

#include <math.h>

/* ---- the nodes ---- */

static void serve(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    const struct rt_role role = cluster_role(place);
    place->settings.join = "mem:0";
    rt_status status = rt_node_serve(&place->settings, endpoint, &role, &place->stop, &err);
    CHECK_MSG(status == RT_OK || strstr(err.text, "has ended"), "%s", err.text);
}

static void join(struct cluster_place *place, struct rt_endpoint *endpoint) {
    serve(place, endpoint);
}

static void join_and_listen(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    serve(place, endpoint);
}

static void join_late(struct cluster_place *place, struct rt_endpoint *endpoint) {
    rt_endpoint_sleep(endpoint, 20);
    serve(place, endpoint);
}

/* ---- the master ---- */

static rt_status open_door(const struct cluster_place *place, struct rt_endpoint *endpoint, size_t nodes,
                           size_t dialled, struct rt_cluster **cluster, struct rt_error *err) {
    static const char *const address[] = {"mem:1"};
    struct rt_cluster_settings settings = {.addresses = address,
                                           .address_count = dialled,
                                           .exact = true,
                                           .token = place->world->token,
                                           .listen = "mem:0",
                                           .wait_nodes = nodes};
    memcpy(settings.answer, place->world->answer, sizeof settings.answer);
    return rt_cluster_open(&settings, endpoint, NULL, cluster, err);
}

static size_t find(struct rt_cluster *cluster, const char *name) {
    size_t i = 0;
    while (i < rt_cluster_count(cluster) && strcmp(rt_cluster_member(cluster, i)->name, name) != 0)
        i++;
    CHECK_MSG(i < rt_cluster_count(cluster), "%s is not there", name);
    return i;
}

static rt_status form(struct rt_cluster *cluster, uint32_t number, const size_t *member, size_t nodes,
                      struct rt_view **view, struct rt_error *err) {
    RT_TRY(rt_view_create(number, member, nodes, view, err));
    RT_TRY(rt_view_add_ring(*view, 0, nodes, err));
    return rt_view_join(*view, cluster, 1000, err);
}

/* number: that comes back. */
static void work(struct rt_cluster *cluster, struct rt_view *view, int number) {
    struct rt_error err;
    struct rt_assigned_node part[CLUSTER_PLACES] = {{0, 1, 2}};
    struct rt_assign all = {.nodes = view->nodes, .node = part};
    CHECK_OK(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &all.job, &err));
    CHECK_OK(rt_view_assign(view, cluster, &all, &err));
    rt_tree_destroy(all.job);
    CHECK_OK(rt_cluster_go(cluster, &err));
    struct rt_link *next = rt_view_take_link(view, 1, RT_LABEL_NEXT),
                   *previous = rt_view_take_link(view, view->nodes - 1, RT_LABEL_PREVIOUS);
    CHECK(cluster_round(next, previous) == number);
    rt_link_close(next);
    rt_link_close(previous);
}

/* ---- a ring of nodes that join ---- */

static void two_runs(struct cluster_place *place, struct rt_endpoint *endpoint) {
    for (unsigned run = 1; run <= 2; run++) {
        struct rt_error err;
        struct rt_cluster *cluster;
        struct rt_view *view;
        CHECK_OK(open_door(place, endpoint, 3, 0, &cluster, &err));
        const size_t a = find(cluster, "pi1"), b = find(cluster, "pi2"), c = find(cluster, "pi3");
        CHECK(rt_cluster_member(cluster, a)->hidden && rt_cluster_member(cluster, c)->hidden);
        CHECK(!rt_cluster_member(cluster, b)->hidden);
        CHECK(!rt_cluster_can_link(cluster, a, c) && rt_cluster_can_link(cluster, a, b));
        CHECK(rt_cluster_can_link(cluster, SIZE_MAX, a));
        CHECK(form(cluster, 1, (size_t[]){b, a, c}, 4, &view, &err) == RT_BAD_INPUT);
        CHECK_MSG(strstr(err.text, "pi1 and pi3 cannot be connected to"), "%s", err.text);
        rt_view_destroy(view);
        CHECK_OK(form(cluster, 1, (size_t[]){a, b, c}, 4, &view, &err));
        for (size_t k = 0; k < view->link_count; k++)
            CHECK(view->edges[k].bandwidth > 0);
        work(cluster, view, 3);
        rt_view_destroy(view);
        rt_cluster_close(cluster);
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
        for (size_t i = 1; i <= 3; i++)
            CHECK(place->world->place[i].runs == run && place->world->place[i].ends == run);
    }
}

TEST(nodes_that_join_make_a_ring) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[0].program = two_runs;
    world.place[1].program = world.place[3].program = join;
    world.place[2].program = join_and_listen;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* ---- strangers ---- */

/* Says hello to the master, and closes the link after a second. What it is refused with; "": it is not. */
static void say_hello(struct rt_endpoint *endpoint, const struct rt_hello *hello, uint32_t run,
                      char text[RT_MAX_TEXT]) {
    struct rt_error err;
    struct rt_link *link;
    struct rt_event event;
    struct rt_talk talk;
    const double until = rt_endpoint_now(endpoint) + 1;
    CHECK_OK(rt_endpoint_connect(endpoint, "mem:0", until, &link, &err));
    CHECK_OK(rt_talk_open(link, &talk, &err));
    talk.run = run;
    if (hello) {
        const size_t bytes = rt_hello_encode(hello, rt_talk_body(&talk), RT_MAX_CONTROL);
        rt_talk_send(&talk, &(struct rt_message){.type = RT_MESSAGE_HELLO}, bytes);
    }
    while (!talk.ready && !talk.dead && rt_endpoint_wait(endpoint, until, &event))
        rt_talk_event(&talk, &event);
    text[0] = 0;
    if (talk.ready && talk.message.type == RT_MESSAGE_ERROR &&
        rt_talk_expect(&talk, RT_MESSAGE_WELCOME, "master", &err) != RT_OK)
        snprintf(text, RT_MAX_TEXT, "%.300s", err.text);
    rt_talk_close(&talk);
}

/* Offers that nobody stands behind: they take no seat for long. */
static void offer_nothing(struct cluster_place *place, struct rt_endpoint *endpoint) {
    char text[RT_MAX_TEXT];
    (void)place;
    rt_endpoint_sleep(endpoint, 4);
    for (uint8_t i = 0; i < 25; i++) {
        const struct rt_hello hello = {.role = RT_ROLE_OFFER, .view = 1, .version = "0.1.0", .token = {i}};
        say_hello(endpoint, &hello, 0, text);
        CHECK_MSG(text[0] == 0, "%s", text);
    }
}

/* ---- one that comes later, and is lost ---- */

static size_t wait_for_one(struct rt_cluster *cluster, struct rt_endpoint *endpoint) {
    const double until = rt_endpoint_now(endpoint) + 40;
    while (rt_endpoint_now(endpoint) < until) {
        struct rt_event event;
        if (rt_endpoint_wait(endpoint, rt_endpoint_now(endpoint) + 0.1, &event))
            rt_cluster_stray(cluster, &event);
        const size_t member = rt_cluster_call_gone(cluster);
        if (member != SIZE_MAX)
            return member;
    }
    return SIZE_MAX;
}

static void take_in(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(open_door(place, endpoint, 0, 1, &cluster, &err));
    CHECK_OK(form(cluster, 1, (size_t[]){0}, 2, &view, &err));
    work(cluster, view, 1);
    rt_view_destroy(view);
    const size_t came = wait_for_one(cluster, endpoint);
    CHECK(came == find(cluster, "pi2") && rt_cluster_member(cluster, came)->fresh);
    for (uint32_t number = 5; number < 7; number++) {
        rt_cluster_member(cluster, came)->fresh = false;
        const struct rt_reopen_settings again = {.view = number, .link_timeout = 1, .timeout = 10};
        CHECK_OK(rt_cluster_reopen(cluster, &again, &err));
        CHECK_MSG(!rt_cluster_member(cluster, came)->gone, "%s", rt_cluster_member(cluster, came)->lost.text);
        CHECK(!rt_cluster_member(cluster, 0)->gone);
        CHECK_OK(form(cluster, number, (size_t[]){came, 0}, 3, &view, &err));
        work(cluster, view, 2);
        rt_view_destroy(view);
    }
    rt_memnet_cut(place->world->net, 0, 2);
    const double start = rt_endpoint_now(endpoint);
    const struct rt_reopen_settings last = {.view = 9, .link_timeout = 1, .timeout = 10};
    CHECK_OK(rt_cluster_reopen(cluster, &last, &err));
    CHECK(rt_cluster_member(cluster, came)->gone && !rt_cluster_member(cluster, 0)->gone);
    CHECK_MSG(rt_endpoint_now(endpoint) - start < 3.5, "after %g s", rt_endpoint_now(endpoint) - start);
    rt_cluster_close(cluster);
}

TEST(one_that_comes_later) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[0].program = take_in;
    world.place[1].keep = world.place[2].keep = 60;
    world.place[3].program = offer_nothing;
    world.place[2].program = join_late;
    cluster_run(&world, 200);
    cluster_deinit(&world);
}

/* ---- one that computes other bits ---- */

static void refuse_other_bits(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(open_door(place, endpoint, 0, 1, &cluster, &err));
    CHECK_OK(form(cluster, 1, (size_t[]){0}, 2, &view, &err));
    work(cluster, view, 1);
    rt_view_destroy(view);
    CHECK(wait_for_one(cluster, endpoint) == SIZE_MAX);
    CHECK(rt_cluster_member(cluster, find(cluster, "pi2"))->gone);
    CHECK(place->world->place[2].runs == 0);
    rt_cluster_close(cluster);
}

TEST(one_that_computes_other_bits) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = refuse_other_bits;
    world.place[2].program = join;
    world.place[2].settings.answer[3] ^= 1;
    cluster_run(&world, 200);
    cluster_deinit(&world);
}

static void be_strange(struct cluster_place *place, struct rt_endpoint *endpoint) {
    char text[RT_MAX_TEXT];
    struct rt_hello hello = {.role = RT_ROLE_MASTER, .view = 1, .version = "0.1.0"};
    (void)place;
    rt_endpoint_sleep(endpoint, 1);
    say_hello(endpoint, &hello, 7, text);
    CHECK_MSG(strstr(text, "this is the master of a run"), "%s", text);
    hello = (struct rt_hello){.role = RT_ROLE_NODE, .from = 1, .label = 2, .view = 1, .version = "0.1.0"};
    say_hello(endpoint, &hello, 7, text);
    CHECK_MSG(strstr(text, "the master does not expect this link"), "%s", text);
    for (size_t i = 0; i < 40; i++)
        say_hello(endpoint, NULL, 0, text);
}

static void stand_strangers(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(open_door(place, endpoint, 1, 0, &cluster, &err));
    const size_t came = find(cluster, "pi1");
    CHECK_OK(form(cluster, 1, &came, 2, &view, &err));
    work(cluster, view, 1);
    rt_view_destroy(view);
    rt_cluster_close(cluster);
}

TEST(strangers) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = stand_strangers;
    world.place[1].program = join_late;
    world.place[2].program = be_strange;
    cluster_run(&world, 200);
    cluster_deinit(&world);
}

TEST_MAIN()
