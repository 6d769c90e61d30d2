/* Clusters of real processes on this machine, over TCP: local nodes start, join in a ring or a mesh and end
 * with their master, however it ends; keys must agree. $RINGTMP is the command. */
#include "base/clock.h"
#include "cluster/cluster_inside.h"
#include "net/tcp.h"
#include "support/joins.h"
#include "support/test.h"
#include "tensor/answer.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 3 };

static struct rt_cluster_settings three_nodes(void) {
    struct rt_error err;
    struct rt_cluster_settings settings = {
        .local_nodes = NODES, .local_threads = 1, .program = getenv("RINGTMP"), .exact = true};
    if (!settings.program)
        SKIP("RINGTMP is not set to the command");
    if (rt_kernels_answer(rt_kernels_exact("auto"), settings.answer, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return settings;
}

static struct rt_endpoint *make_endpoint(const uint8_t *key) {
    struct rt_error err = {0};
    struct rt_endpoint *endpoint = NULL;
    if (rt_tcp_create(&(struct rt_tcp_settings){.key = key}, &endpoint, &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return endpoint;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Whether the process goes within some seconds; a zombie of somebody else's counts as gone. */
static bool goes(pid_t pid, double seconds) {
    for (double until = rt_clock_wall() + seconds; rt_clock_wall() < until; pause_ms(10)) {
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
        FILE *file = fopen(path, "r");
        if (!file)
            return kill(pid, 0) != 0 && errno == ESRCH;
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 'X';
        fclose(file);
        if (state == 'Z' || state == 'X')
            return true;
    }
    return false;
}

/* Local nodes read the data files that the master's user has named: as he names them. */
static bool works_here(pid_t pid) {
    char link[64], theirs[4096], ours[4096];
    snprintf(link, sizeof link, "/proc/%ld/cwd", (long)pid);
    ssize_t bytes = readlink(link, theirs, sizeof theirs - 1);
    if (bytes < 0 || !getcwd(ours, sizeof ours))
        return false;
    theirs[bytes] = 0;
    return strcmp(theirs, ours) == 0;
}

TEST(local_nodes_join_in_a_ring) {
    struct rt_error err = {0};
    struct rt_cluster_settings settings = three_nodes();
    const struct rt_pace pace[NODES] = {{.first = 1}, {.first = 2}, {.first = 3}};
    settings.pace = pace;
    settings.local_memory = 123456789;
    struct rt_endpoint *endpoint = make_endpoint(NULL);
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    struct rt_edge edges[NODES + 1];
    pid_t pids[NODES];
    double start = rt_clock_wall();
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    for (size_t i = 0; i < NODES; i++) {
        const struct rt_member *member = rt_cluster_member(cluster, i);
        CHECK(member->local && member->welcome.threads == 1 && member->pace.first == pace[i].first);
        CHECK(member->welcome.memory == 123456789);
        CHECK(strncmp(member->welcome.name, "local ", 6) == 0);
        pids[i] = cluster->locals[i].pid;
        CHECK(works_here(pids[i]));
        CHECK(kill(pids[i], SIGINT) == 0 && kill(pids[i], SIGTERM) == 0); /* these are for the master */
    }
    CHECK_OK(join_ring(cluster, (size_t[]){0, 1, 2}, 3, 65536, &next, &previous, edges, &err));
    for (size_t i = 0; i <= NODES; i++)
        CHECK_MSG(edges[i].latency > 0 && edges[i].latency < 0.1 && edges[i].bandwidth > 1e6, "%g s, %g B/s",
                  edges[i].latency, edges[i].bandwidth);
    rt_link_close(next);
    rt_link_close(previous);
    CHECK_OK(join_ring(cluster, (size_t[]){2, 0}, 2, 0, &next, &previous, edges, &err));
    /* the ring's role has been given no layers */
    CHECK(rt_cluster_go(cluster, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "without a job or without links"), "%s", err.text);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    for (size_t i = 0; i < NODES; i++)
        CHECK(kill(pids[i], 0) != 0 && errno == ESRCH); /* ended and reaped */
    rt_endpoint_destroy(endpoint);
    CHECK_MSG(rt_clock_wall() - start < 20, "%g s", rt_clock_wall() - start);
}

static bool not_with_the_last(const void *user, uint16_t a, uint16_t b) {
    (void)user;
    (void)a;
    return b < NODES;
}

TEST(local_nodes_join_in_a_mesh) {
    struct rt_error err = {0};
    struct rt_cluster_settings settings = three_nodes();
    struct rt_endpoint *endpoint = make_endpoint(NULL);
    struct rt_cluster *cluster;
    struct rt_link *links[NODES + 1];
    struct rt_edge edges[(NODES + 1) * (NODES + 1)];
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    for (int again = 0; again < 2; again++) {
        CHECK_OK(join_mesh(cluster, (size_t[]){1, 0, 2}, NODES, not_with_the_last, NULL, again ? 0 : 65536,
                           links, edges, &err));
        for (size_t a = 0; a <= NODES; a++)
            for (size_t b = 0; b <= NODES; b++) {
                const struct rt_edge *edge = &edges[a * (NODES + 1) + b];
                const bool is_measured = !again && a != b && (!a || !b || (a < NODES && b < NODES));
                CHECK_MSG((edge->latency > 0 && edge->latency < 0.1 && edge->bandwidth > 1e6) == is_measured,
                          "%zu and %zu: %g s, %g B/s", a, b, edge->latency, edge->bandwidth);
            }
        CHECK(!links[0] && links[1] && links[2] && links[3]);
        for (size_t i = 1; i <= NODES && !again; i++)
            rt_link_close(links[i]);
    }
    /* nobody has been given work */
    CHECK(rt_cluster_go(cluster, &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "without a job or without links"), "%s", err.text);
    for (size_t i = 1; i <= NODES; i++)
        rt_link_close(links[i]);
    rt_cluster_close(cluster);
    rt_endpoint_destroy(endpoint);
}

/* In the middle of a run: the one that has ended is not waited for, and the run can do without it. */
TEST(a_cluster_is_reopened_without_a_local_node) {
    struct rt_error err = {0};
    struct rt_cluster_settings settings = three_nodes();
    struct rt_endpoint *endpoint = make_endpoint(NULL);
    struct rt_cluster *cluster;
    struct rt_view *view;
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    for (uint32_t number = 2; number <= 3; number++) {
        const double start = rt_clock_wall();
        CHECK(kill(cluster->locals[number - 1].pid, SIGKILL) == 0);
        CHECK_OK(rt_cluster_reopen(cluster, &(struct rt_reopen_settings){.view = number}, &err));
        CHECK_MSG(rt_clock_wall() - start < 2, "%g s", rt_clock_wall() - start);
        for (size_t i = 0; i < NODES; i++)
            CHECK(rt_cluster_member(cluster, i)->gone == (i >= 1 && i < number));
        const struct rt_member *lost = rt_cluster_member(cluster, number - 1);
        CHECK_MSG(strstr(lost->lost.text, "was ended by signal 9"), "%s", lost->lost.text);
        pause_ms(150); /* it is looked again whether one has ended */
        const size_t left[] = {0, 2};
        CHECK_OK(rt_view_create(number, left, number == 2 ? 3 : 2, &view, &err));
        CHECK_OK(rt_view_add_ring(view, 0, view->nodes, &err));
        CHECK_OK(rt_view_join(view, cluster, 4096, &err));
        rt_view_destroy(view);
    }
    rt_cluster_close(cluster);
    rt_endpoint_destroy(endpoint);
}

TEST(nodes_end_with_a_master_that_is_killed) {
    struct rt_cluster_settings settings = three_nodes();
    int report[2];
    pid_t pids[NODES] = {0};
    REQUIRE(pipe(report) == 0);
    pid_t master = fork();
    if (master == 0) {
        struct rt_error err;
        struct rt_cluster *cluster;
        if (rt_cluster_open(&settings, make_endpoint(NULL), NULL, &cluster, &err) != RT_OK) {
            fprintf(stderr, "%s\n", err.text);
            _exit(1);
        }
        for (size_t i = 0; i < NODES; i++)
            (void)!write(report[1], &cluster->locals[i].pid, sizeof(pid_t));
        for (;;)
            pause();
    }
    close(report[1]);
    for (size_t i = 0; i < NODES; i++)
        REQUIRE(read(report[0], &pids[i], sizeof(pid_t)) == sizeof(pid_t));
    for (size_t i = 0; i < NODES; i++)
        CHECK(kill(pids[i], 0) == 0);
    kill(master, SIGKILL);
    waitpid(master, NULL, 0);
    for (size_t i = 0; i < NODES; i++)
        CHECK_MSG(goes(pids[i], 5), "node %zu is still there", i);
    close(report[0]);
}

/* A local node that was killed is missed, with a sentence. */
TEST(a_local_node_is_killed) {
    struct rt_error err = {0};
    struct rt_cluster_settings settings = three_nodes();
    struct rt_endpoint *endpoint = make_endpoint(NULL);
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    struct rt_edge edges[NODES + 1];
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    kill(cluster->locals[1].pid, SIGKILL);
    double start = rt_clock_wall();
    CHECK(join_ring(cluster, (size_t[]){0, 1, 2}, 3, 0, &next, &previous, edges, &err) == RT_FAILED);
    CHECK_MSG(strstr(err.text, "the local node local 2 was ended by signal 9 (Killed)"), "%s", err.text);
    CHECK_MSG(rt_clock_wall() - start < 4, "%g s", rt_clock_wall() - start);
    rt_cluster_close(cluster);
    rt_endpoint_destroy(endpoint);
}

static void expect_no_cluster(const struct rt_cluster_settings *settings, const uint8_t *key,
                              const char *sentence, double within) {
    struct rt_error err = {0};
    struct rt_endpoint *endpoint = make_endpoint(key);
    struct rt_cluster *cluster;
    double start = rt_clock_wall();
    CHECK(rt_cluster_open(settings, endpoint, NULL, &cluster, &err) != RT_OK);
    CHECK_MSG(strstr(err.text, sentence), "said: %s", err.text);
    CHECK_MSG(rt_clock_wall() - start < within, "after %g s", rt_clock_wall() - start);
    rt_endpoint_destroy(endpoint);
}

static const char *write_script(const char *commands) {
    static char path[40];
    snprintf(path, sizeof path, "/tmp/rt-script-XXXXXX");
    int file = mkstemp(path);
    CHECK(file >= 0 && dprintf(file, "#!/bin/sh\n%s\n", commands) > 0);
    CHECK(fchmod(file, 0700) == 0 && close(file) == 0);
    return path;
}

TEST(programs_that_are_no_nodes) {
    struct rt_cluster_settings settings = three_nodes();
    settings.program = "/nowhere/ringtmp";
    expect_no_cluster(&settings, NULL, "cannot start a local node with '/nowhere/ringtmp': No such file", 5);
    settings.program = "true";
    expect_no_cluster(&settings, NULL, "the local node local 1 ended with status 0 before it reported", 5);
    /* one that never says where it listens, nor ends by itself */
    settings.local_nodes = 1;
    settings.timeout = 0.3;
    settings.program = write_script("exec sleep 60");
    expect_no_cluster(&settings, NULL, "the local node local 1 has not started in time", 6);
    unlink(settings.program);
    /* those that end when they have said so: nobody is waited for who is gone */
    settings.timeout = 60;
    settings.program = write_script("echo =127.0.0.1:1 >&3; exit 3");
    expect_no_cluster(&settings, NULL, "the local node local 1 ended with status 3 while the cluster", 15);
    unlink(settings.program);
    settings.program = write_script("echo =127.0.0.1:1 >&3; sleep 0.3; kill -SEGV $$");
    expect_no_cluster(&settings, NULL, "the local node local 1 was ended by signal 11", 15);
    unlink(settings.program);
    settings = three_nodes();
    settings.key_file = "/nowhere/key";
    expect_no_cluster(&settings, NULL, "the local node local 1 cannot start: /nowhere/key", 5);
}

TEST(addresses_without_nodes) {
    struct rt_cluster_settings settings = three_nodes();
    const char *address = "127.0.0.1:1";
    settings.local_nodes = 0;
    settings.addresses = &address;
    settings.address_count = 1;
    settings.timeout = 1;
    expect_no_cluster(&settings, NULL, "127.0.0.1:1", 3);
    address = "nobody.invalid:7117";
    expect_no_cluster(&settings, NULL, "nobody.invalid", 12); /* a resolver may take its time */
    address = "127.0.0.1:port";
    expect_no_cluster(&settings, NULL, "127.0.0.1:port", 1);
}

TEST(keys) {
    struct rt_error err = {0};
    struct rt_cluster_settings settings = three_nodes();
    char directory[] = "/tmp/rt-keys-XXXXXX", paths[2][64];
    uint8_t key[2][RT_KEY_BYTES];
    REQUIRE(mkdtemp(directory));
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/key%d", directory, i);
        CHECK_OK(rt_key_write(paths[i], &err));
        CHECK_OK(rt_key_read(paths[i], key[i], &err));
    }
    settings.key_file = paths[0];
    settings.local_nodes = 2;
    struct rt_endpoint *endpoint = make_endpoint(key[0]);
    struct rt_cluster *cluster;
    struct rt_link *next, *previous;
    struct rt_edge edges[3];
    CHECK_OK(rt_cluster_open(&settings, endpoint, NULL, &cluster, &err));
    CHECK_OK(join_ring(cluster, (size_t[]){0, 1}, 2, 65536, &next, &previous, edges, &err));
    CHECK(edges[1].bandwidth > 1e6);
    rt_link_close(next);
    rt_link_close(previous);
    rt_cluster_close(cluster);
    rt_endpoint_destroy(endpoint);

    expect_no_cluster(&settings, key[1], "cluster keys differ", 12);
    expect_no_cluster(&settings, NULL, "key", 12);
    settings.key_file = NULL;
    expect_no_cluster(&settings, key[0], "key", 12);
    for (int i = 0; i < 2; i++)
        unlink(paths[i]);
    rmdir(directory);
}

TEST_MAIN()
