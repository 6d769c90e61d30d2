/* A cluster over TCP whose nodes are threads of this program: they join in a mesh and work in it. */
#include "net/tcp.h"
#include "support/clusters.h"
#include "support/joins.h"

#include <pthread.h>

enum { NODES = 5 };

struct served {
    struct cluster_place place;
    struct rt_endpoint *endpoint;
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
    const struct rt_role role = cluster_role(&served->place);
    struct rt_error err = {0};
    rt_status status =
        rt_node_serve(&served->place.settings, served->endpoint, &role, &served->place.stop, &err);
    if (status != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return NULL;
}

static void start(struct served *served, size_t i) {
    struct rt_error err;
    *served = (struct served){.endpoint = make_endpoint()};
    snprintf(served->place.name, sizeof served->place.name, "pi%zu", i);
    served->place.settings = (struct rt_node_settings){.name = served->place.name, .threads = 1};
    REQUIRE(served->endpoint);
    CHECK_OK(rt_endpoint_listen(served->endpoint, "127.0.0.1:0", &err));
    REQUIRE(pthread_create(&served->thread, NULL, serve, served) == 0);
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
        start(&served[i], i);
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
        atomic_store(&served[i].place.stop, 1);
        rt_endpoint_wake(served[i].endpoint);
        pthread_join(served[i].thread, NULL);
        CHECK(served[i].place.runs == 2 && served[i].place.ends >= 2);
        rt_endpoint_destroy(served[i].endpoint);
    }
    rt_endpoint_destroy(endpoint);
}

TEST_MAIN()
