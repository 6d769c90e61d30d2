/* Views: which links a ring and a mesh have, forming one after another, and telling all nodes their parts. */
#include "cluster/view.h"
#include "support/clusters.h"

static void check_links(const struct rt_view *view, const struct rt_wanted_link *wanted, size_t count) {
    CHECK_MSG(view->link_count == count, "%zu links", view->link_count);
    for (size_t k = 0; k < count && k < view->link_count; k++)
        CHECK_MSG(view->wanted[k].from == wanted[k].from && view->wanted[k].to == wanted[k].to &&
                      view->wanted[k].label == wanted[k].label,
                  "link %zu is from %u to %u", k, view->wanted[k].from, view->wanted[k].to);
}

static bool is_odd(const void *user, uint16_t a, uint16_t b) {
    (void)user;
    return (a + b) % 2 == 1;
}

TEST(links_of_rings_and_meshes) {
    static const struct rt_wanted_link rings[] = {
        {0, 1, RT_LABEL_NEXT}, {1, 2, RT_LABEL_NEXT},     {0, 2, RT_LABEL_PREVIOUS},
        {3, 4, RT_LABEL_NEXT}, {3, 4, RT_LABEL_PREVIOUS}, {0, 3, RT_LABEL_MESH},
    };
    static const struct rt_wanted_link mesh[] = {
        {0, 1, RT_LABEL_MESH}, {0, 2, RT_LABEL_MESH}, {0, 3, RT_LABEL_MESH}, {0, 4, RT_LABEL_MESH},
        {1, 2, RT_LABEL_MESH}, {2, 3, RT_LABEL_MESH}, {3, 4, RT_LABEL_MESH}, {1, 4, RT_LABEL_MESH},
    };
    struct rt_error err;
    struct rt_view *view;
    CHECK_OK(rt_view_create(1, NULL, 6, &view, &err));
    CHECK(view->number == 1 && view->nodes == 6 && view->member[0] == 0 && view->member[4] == 4);
    CHECK_OK(rt_view_add_ring(view, 0, 3, &err));
    CHECK_OK(rt_view_add_ring(view, 3, 2, &err));
    CHECK_OK(rt_view_add_ring(view, 5, 1, &err)); /* one alone has no links */
    CHECK_OK(rt_view_add_link(view, 0, 3, RT_LABEL_MESH, &err));
    check_links(view, rings, sizeof rings / sizeof *rings);
    rt_view_destroy(view);

    CHECK_OK(rt_view_create(2, (size_t[]){7, 5, 3, 1}, 5, &view, &err));
    CHECK(view->member[0] == 7 && view->member[3] == 1);
    CHECK_OK(rt_view_add_mesh(view, is_odd, NULL, &err));
    check_links(view, mesh, sizeof mesh / sizeof *mesh);
    rt_view_destroy(view);

    CHECK_OK(rt_view_create(1, NULL, 5, &view, &err));
    CHECK_OK(rt_view_add_mesh(view, NULL, NULL, &err));
    check_links(view, mesh, 4);
    rt_view_destroy(view);
    CHECK(rt_view_create(1, NULL, RT_MAX_NODES + 1, &view, &err) == RT_BAD_INPUT);
    rt_view_destroy(NULL);
}

/* What every node is told; job: a map of so many keys. */
static rt_status tell(const struct rt_view *view, struct rt_cluster *cluster, size_t keys,
                      struct rt_error *err) {
    struct rt_assigned_node parts[CLUSTER_PLACES] = {{0, 1, 2}};
    struct rt_assign plan = {.nodes = view->nodes, .node = parts};
    RT_TRY(rt_tree_create(RT_TREE_MAP, NULL, "test", 0, &plan.job, err));
    static char text[60001];
    char key[32];
    memset(text, 'x', sizeof text - 1);
    rt_status status = RT_OK;
    for (size_t i = 0; i < keys && status == RT_OK; i++) {
        struct rt_tree *value;
        snprintf(key, sizeof key, "key%zu", i);
        status = rt_tree_create(RT_TREE_SCALAR, text, "test", 0, &value, err);
        if (status == RT_OK)
            status = rt_tree_add(plan.job, key, value, err);
    }
    if (status == RT_OK)
        status = rt_view_assign(view, cluster, &plan, err);
    rt_tree_destroy(plan.job);
    return status;
}

static void form_twice(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 4, &cluster, &err));
    CHECK_OK(rt_view_create(1, NULL, 5, &view, &err));
    CHECK_OK(rt_view_add_mesh(view, is_odd, NULL, &err));
    CHECK_OK(rt_view_join(view, cluster, 1000, &err));
    CHECK(view->edges[0].bandwidth > 0 && view->edges[view->link_count - 1].bandwidth > 0);
    CHECK_OK(tell(view, cluster, 0, &err));
    rt_view_destroy(view); /* with its links: nobody has taken them */

    /* Fewer, in another order and another shape; what they were told before does not count. */
    CHECK_OK(rt_view_create(2, (size_t[]){3, 0, 2}, 4, &view, &err));
    CHECK_OK(rt_view_add_ring(view, 0, 4, &err));
    CHECK_OK(rt_view_join(view, cluster, 0, &err));
    CHECK(view->edges[0].bandwidth == 0);
    const struct rt_node_names names = rt_view_names(view);
    char text[RT_NAME_ROOM];
    CHECK(names.count == 4 && strcmp(rt_node_name(&names, 1, text), "pi4") == 0);
    struct rt_link *next = rt_view_take_link(view, 1, RT_LABEL_NEXT),
                   *previous = rt_view_take_link(view, 3, RT_LABEL_PREVIOUS);
    CHECK(next && previous && !rt_view_take_link(view, 1, RT_LABEL_NEXT));
    CHECK(!rt_view_take_link(view, 2, RT_LABEL_NEXT) && !rt_view_take_link(view, 1, RT_LABEL_MESH));
    CHECK(tell(view, cluster, 300, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "too long to be sent"), "%s", err.text);
    CHECK_OK(tell(view, cluster, 0, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(next, previous) == 3);
    rt_link_close(next);
    rt_link_close(previous);
    rt_view_destroy(view);
    rt_cluster_close(cluster);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 3);
    const struct cluster_place *node = place->world->place;
    CHECK(node[4].seen_index == 1 && node[1].seen_index == 2 && node[3].seen_index == 3);
    for (size_t i = 1; i < 5; i++) /* those of the last view, in its order */
        CHECK_MSG(strcmp(node[i].seen_names, i == 2 ? "" : "the master, pi4, pi1, pi3") == 0, "%zu: %s", i,
                  node[i].seen_names);
    CHECK(node[4].runs == 1 && node[2].runs == 0);
}

TEST(a_view_after_another) {
    static struct cluster_world world;
    cluster_init(&world, 5, 0.01);
    world.place[0].program = form_twice;
    cluster_run(&world, 200);
    cluster_deinit(&world);
}

static void ask_the_unwilling(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 3, &cluster, &err));
    CHECK_OK(rt_view_create(1, NULL, 4, &view, &err));
    CHECK_OK(rt_view_add_ring(view, 0, 4, &err));
    CHECK_OK(rt_view_join(view, cluster, 0, &err));
    CHECK(tell(view, cluster, 0, &err) == RT_NO_MEMORY);
    CHECK_MSG(strstr(err.text, "pi2") && strstr(err.text, "too much for me"), "%s", err.text);
    rt_view_destroy(view);
    rt_cluster_close(cluster);
}

TEST(a_node_that_refuses_its_part_is_named) {
    static struct cluster_world world;
    cluster_init(&world, 4, 0);
    world.place[2].refuses_assign = "3 GiB are too much for me";
    world.place[0].program = ask_the_unwilling;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

TEST_MAIN()
