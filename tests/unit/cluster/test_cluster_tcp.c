/* A cluster over TCP whose nodes are threads of this program: they join in a mesh and work in it, and go on
 * when one is lost and comes back. */
#include "net/tcp.h"
#include "support/clusters.h"
#include "support/joins.h"
#include "support/views.h"

#include <pthread.h>

enum { NODES = 5 };

struct served {
    struct cluster_place place;
    struct rt_endpoint *endpoint;
    struct rt_role role;
    pthread_t thread;
};

static struct rt_endpoint *make_endpoint(void) {
    struct rt_endpoint *endpoint = NULL;
    struct rt_error err = {0};
    if (rt_tcp_create(&(struct rt_tcp_settings){0}, &endpoint, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return endpoint;
}

static void *serve(void *user) {
    struct served *served = user;
    struct rt_error err = {0};
    rt_status status =
        rt_node_serve(&served->place.settings, served->endpoint, &served->role, &served->place.stop, &err);
    if (status != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return NULL;
}

static void start(struct served *served, size_t i, struct rt_role (*role)(struct cluster_place *place),
                  const char *address) {
    struct rt_error err;
    *served = (struct served){.endpoint = make_endpoint(), .place = {.index = i + 1}};
    served->role = role(&served->place);
    snprintf(served->place.name, sizeof served->place.name, "pi%zu", i);
    served->place.settings = (struct rt_node_settings){.name = served->place.name, .threads = 1};
    REQUIRE(served->endpoint);
    CHECK_OK(rt_endpoint_listen(served->endpoint, address, &err));
    REQUIRE(pthread_create(&served->thread, NULL, serve, served) == 0);
}

static void end(struct served *served) {
    atomic_store(&served->place.stop, 1);
    rt_endpoint_wake(served->endpoint);
    pthread_join(served->thread, NULL);
    rt_endpoint_destroy(served->endpoint);
}

static bool neighbours(const void *user, uint16_t a, uint16_t b) {
    (void)user;
    return b == a + 1;
}

TEST(nodes_work_in_a_mesh) {
    static struct served served[NODES];
    const char *addresses[NODES];
    const size_t order[NODES] = {4, 3, 2, 1, 0};
    struct rt_error err;
    struct rt_endpoint *endpoint = make_endpoint();
    REQUIRE(endpoint);
    for (size_t i = 0; i < NODES; i++) {
        start(&served[i], i, cluster_role, "127.0.0.1:0");
        addresses[i] = served[i].endpoint->address;
    }
    struct rt_cluster_settings settings = {.addresses = addresses, .address_count = NODES, .exact = true};
    for (unsigned run = 1; run <= 2; run++) {
        struct rt_cluster *cluster;
        struct rt_link *links[NODES + 1];
        int sums[NODES + 1];
        /* the nodes may still be about to end the run before */
        const double until = rt_endpoint_now(endpoint) + 20;
        rt_status status = rt_cluster_open(&settings, endpoint, NULL, &cluster, &err);
        while (status != RT_OK && rt_endpoint_now(endpoint) < until) {
            rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 0.05);
            status = rt_cluster_open(&settings, endpoint, NULL, &cluster, &err);
        }
        CHECK_OK(status);
        CHECK_OK(join_mesh(cluster, order, NODES, neighbours, NULL, run == 1 ? 4096 : 0, links, NULL, &err));
        CHECK_OK(cluster_assign(cluster, &err));
        CHECK_OK(rt_cluster_go(cluster, &err));
        cluster_sums(links, NODES + 1, sums);
        for (int i = 1; i <= NODES; i++)
            CHECK_MSG(sums[i] == (i > 1 ? i - 1 : 0) + (i < NODES ? i + 1 : 0), "node %d: %d", i, sums[i]);
        cluster_close_links(links, NODES + 1);
        rt_cluster_close(cluster);
    }
    for (size_t i = 0; i < NODES; i++) {
        end(&served[i]);
        CHECK(served[i].place.runs == 2 && served[i].place.ends >= 2);
    }
    rt_endpoint_destroy(endpoint);
}

/* The node that is started again listens where the one before did. */
TEST(a_node_is_lost_and_comes_back) {
    static struct served served[NODES];
    const char *addresses[NODES];
    const size_t left[NODES] = {0, 2, 3, 4, 1};
    char address[80];
    struct rt_error err;
    struct view_master master = {.endpoint = make_endpoint()};
    REQUIRE(master.endpoint);
    for (size_t i = 0; i < NODES; i++) {
        view_nodes[i + 1] = (struct view_node){.keep = 30};
        start(&served[i], i, view_role, "127.0.0.1:0");
        addresses[i] = served[i].endpoint->address;
    }
    snprintf(address, sizeof address, "%s", addresses[1]);
    struct rt_cluster_settings settings = {.addresses = addresses, .address_count = NODES, .exact = true};
    CHECK_OK(rt_cluster_open(&settings, master.endpoint, NULL, &master.cluster, &err));
    CHECK_OK(view_form(&master, 1, 0, (size_t[]){0, 1, 2, 3, 4}, NODES, &err));
    CHECK(view_round(&master, 0) == NODES);

    end(&served[1]);
    CHECK(view_round(&master, 0) == -1);
    view_leave(&master);
    const double start_time = rt_endpoint_now(master.endpoint);
    struct rt_reopen_settings again = {.view = 2, .link_timeout = 0.5};
    CHECK_OK(rt_cluster_reopen(master.cluster, &again, &err));
    CHECK_OK(view_form(&master, 2, 5, left, NODES - 1, &err));
    CHECK(view_round(&master, 0) == NODES - 1);
    CHECK_MSG(rt_endpoint_now(master.endpoint) - start_time < 5, "after %g s",
              rt_endpoint_now(master.endpoint) - start_time);
    for (size_t i = 0; i < NODES; i++)
        CHECK(view_member(&master, i)->gone == (i == 1));

    start(&served[1], 1, view_role, address);
    again = (struct rt_reopen_settings){.view = 3};
    CHECK_OK(rt_cluster_reopen(master.cluster, &again, &err)); /* they work, and are recalled */
    for (size_t i = 0; i < NODES; i++)
        CHECK_MSG(view_member(&master, i)->welcome.view == (i == 1 ? 0 : 2), "%zu: %u", i,
                  view_member(&master, i)->welcome.view);
    CHECK_OK(view_form(&master, 3, 9, left, NODES, &err));
    CHECK(view_round(&master, 0) == NODES && view_round(&master, VIEW_STOP) == VIEW_STOP);
    view_leave(&master);
    rt_cluster_close(master.cluster);
    for (size_t i = 0; i < NODES; i++) {
        end(&served[i]);
        CHECK_MSG(view_nodes[i + 1].held.views == (i == 1 ? 1 : 3) && view_nodes[i + 1].held.version == 9,
                  "node %zu: %u views", i + 1, view_nodes[i + 1].held.views);
        CHECK(served[i].place.ends == 1);
    }
    rt_endpoint_destroy(master.endpoint);
}

TEST_MAIN()
