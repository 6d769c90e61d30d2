/*
 * Many who call a node and say nothing: they keep no master out and fill no log. The master runs in place 0,
 * the node in place 1, the crowd comes from place 2.
 */
#include "support/clusters.h"
#include "support/joins.h"
#include <string.h>

enum { CROWD = 200 };

struct crowd {
    struct rt_link *links[CROWD];
    size_t count;
};

/* As many links as asked for, one after another within the given time. */
static void call(struct crowd *crowd, struct rt_endpoint *endpoint, size_t count, double seconds) {
    const double start = rt_endpoint_now(endpoint);
    struct rt_error err;
    for (size_t i = 0; i < count; i++) {
        rt_endpoint_sleep(endpoint, start + seconds * (double)i / (double)count);
        CHECK_OK(rt_endpoint_connect(endpoint, "mem:1", rt_endpoint_now(endpoint) + 1,
                                     &crowd->links[crowd->count++], &err));
    }
}

static void leave(struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++)
        rt_link_close(crowd->links[i]);
    crowd->count = 0;
}

/* Eight a second for ten seconds, each silent for as long as it may be. */
static void be_a_crowd(struct cluster_place *place, struct rt_endpoint *endpoint) {
    static struct crowd crowd;
    (void)place;
    call(&crowd, endpoint, 80, 10);
    rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 10);
    leave(&crowd);
}

static void train_in_a_crowd(struct cluster_place *place, struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_cluster *cluster;
    for (int i = 0; i < 5; i++) {
        rt_endpoint_sleep(endpoint, 5 + i);
        CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
        rt_cluster_close(cluster);
    }
    rt_endpoint_sleep(endpoint, 30);
}

TEST(a_crowd_keeps_no_master_out) {
    static struct cluster_world world;
    cluster_init(&world, 3, 0);
    world.place[0].program = train_in_a_crowd;
    world.place[2].program = be_a_crowd;
    cluster_run(&world, 100);
    CHECK(cluster_told(&world.place[1], "was turned away: it has not identified itself, and 32 others wait"));
    cluster_deinit(&world);
}

/* A master that works, or whose link is being made, is never the one who goes: silence is counted from the
 * last word. */
static void join_in_a_crowd(struct cluster_place *place, struct rt_endpoint *endpoint) {
    static struct crowd crowd;
    struct rt_edge edges[2];
    struct rt_link *next, *previous;
    struct rt_error err;
    struct rt_cluster *cluster;
    CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
    call(&crowd, endpoint, 100, 1);
    CHECK_OK(join_ring(cluster, (size_t[]){0}, 1, 0, &next, &previous, edges, &err));
    CHECK_OK(cluster_assign(cluster, &err));
    CHECK_OK(rt_cluster_go(cluster, &err));
    CHECK(cluster_round(next, previous) == 1);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    leave(&crowd);
}

TEST(a_run_goes_on_in_a_crowd) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = join_in_a_crowd;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

/* A node that puts the first callers off, as one does whose places are taken faster than they can speak. */
static unsigned put_off;

static void be_busy(struct cluster_place *place, struct rt_endpoint *endpoint) {
    const struct rt_role role = cluster_role(place);
    struct rt_talk talks[64] = {{0}};
    struct rt_event event;
    struct rt_error err;
    unsigned calls = 0;
    CHECK_OK(rt_endpoint_listen(endpoint, "mem:*", &err));
    while (calls < put_off && rt_endpoint_wait(endpoint, 30, &event)) {
        for (unsigned i = 0; i < calls; i++)
            (void)rt_talk_event(&talks[i], &event);
        if (event.kind != RT_EVENT_ACCEPTED)
            continue;
        CHECK_OK(rt_talk_open(event.link, &talks[calls], &err));
        rt_talk_put_off(&talks[calls++], 0, "pi1 is busy: 32 others are connected to it");
    }
    if (!atomic_load(&place->stop))
        CHECK_OK(rt_node_serve(&place->settings, endpoint, &role, &place->stop, &err));
    for (unsigned i = 0; i < calls; i++)
        rt_talk_close(&talks[i]);
}

static double patient_for;

static void try_a_busy_node(struct cluster_place *place, struct rt_endpoint *endpoint) {
    const char *address = "mem:1";
    struct rt_cluster_settings settings = {
        .addresses = &address, .address_count = 1, .exact = true, .timeout = patient_for};
    struct rt_cluster *cluster;
    struct rt_error err;
    memcpy(settings.answer, place->world->answer, sizeof settings.answer);
    const double start = rt_endpoint_now(endpoint);
    const rt_status status = rt_cluster_open(&settings, endpoint, NULL, &cluster, &err);
    if (put_off < 10) {
        CHECK_OK(status);
        rt_cluster_close(cluster);
        return;
    }
    CHECK(status == RT_FAILED);
    CHECK_MSG(strcmp(err.text, "mem:1: pi1 is busy: 32 others are connected to it") == 0, "%s", err.text);
    const double took = rt_endpoint_now(endpoint) - start;
    CHECK_MSG(took > patient_for - 1 && took < patient_for + 1, "after %g s", took);
}

static void check_busy(unsigned calls, double timeout) {
    static struct cluster_world world;
    put_off = calls;
    patient_for = timeout;
    cluster_init(&world, 2, 0);
    world.place[0].program = try_a_busy_node;
    world.place[1].program = be_busy;
    cluster_run(&world, 100);
    cluster_deinit(&world);
}

TEST(a_master_calls_a_busy_node_again) {
    check_busy(4, 10);
}

TEST(a_master_whose_patience_ends_is_told_that_the_node_is_busy) {
    check_busy(60, 3);
}

/* ---- the log ---- */

static size_t lines_of(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* Callers who say nothing, and ones who begin a run and leave, thousands of each. */
static void be_many(struct cluster_place *place, struct rt_endpoint *endpoint) {
    static struct crowd crowd;
    struct rt_error err;
    struct rt_cluster *cluster;
    for (int i = 0; i < 10; i++) {
        call(&crowd, endpoint, CROWD, 2);
        leave(&crowd);
    }
    for (int i = 0; i < 300; i++) {
        CHECK_OK(cluster_open(place->world, endpoint, 1, 1, &cluster, &err));
        rt_cluster_close(cluster);
    }
}

TEST(nobody_fills_a_nodes_log) {
    static struct cluster_world world;
    cluster_init(&world, 2, 0);
    world.place[0].program = be_many;
    cluster_run(&world, 200);
    const struct cluster_place *node = &world.place[1];
    CHECK_MSG(lines_of(node->log) < 250, "%zu lines:\n%s", lines_of(node->log), node->log);
    CHECK(cluster_told(node, "lines about callers were left out"));
    CHECK(cluster_told(node, "lines about runs were left out"));
    /* what is said of the ones is not left out because of the others */
    CHECK(cluster_told(node, "a run of mem:0 begins"));
    cluster_deinit(&world);
}

TEST_MAIN()
