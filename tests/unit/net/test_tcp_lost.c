/* The transport over TCP with peers that are killed or stopped: when that is noticed, and when it is
 * forgiven. */
/* labels: threads */
#include "tcp_rig.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A process that connects to the address it is told. It is made before there are threads: a program with some
 * cannot fork one that makes more. */
struct child {
    pid_t id;
    int pipe[2];
};

static bool start_child(struct rt_tcp_settings settings, struct child *child) {
    if (pipe(child->pipe) != 0 || (child->id = fork()) < 0)
        return false;
    if (child->id > 0)
        return true;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a check that fails leaves it stopped */
    char address[80];
    struct rt_link *link;
    ssize_t got = read(child->pipe[0], address, sizeof address);
    struct rt_endpoint *endpoint = make_endpoint(settings);
    if (got != sizeof address || !endpoint ||
        rt_endpoint_connect(endpoint, address, rt_clock_wall() + PATIENCE, &link, NULL) != RT_OK)
        _exit(1);
    while (rt_endpoint_wait(endpoint, rt_clock_wall() + 60, &event)) {
    }
    _exit(0);
}

static bool tell_child(struct child *child, const struct rt_endpoint *listener) {
    return write(child->pipe[1], listener->address, sizeof listener->address) == sizeof listener->address;
}

TEST(a_killed_peer_is_noticed_at_once) {
    struct child child;
    REQUIRE(start_child((struct rt_tcp_settings){0}, &child));
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    CHECK_OK(rt_endpoint_listen(endpoint, "127.0.0.1:0", &err));
    REQUIRE(tell_child(&child, endpoint));
    REQUIRE(expect(endpoint, RT_EVENT_ACCEPTED));
    struct rt_link *link = event.link;
    kill(child.id, SIGKILL);
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(rt_clock_wall() - before < 1.5);
    CHECK(event.link == link && event.error.text[0]);
    waitpid(child.id, NULL, 0);
    rt_endpoint_destroy(endpoint);
}

/* later: the bound is set when the endpoint is there already. */
static void check_stopped_peer(bool later, double seconds, double least, double from, double until,
                               const char *says_so) {
    const struct rt_tcp_settings hasty = {.heartbeat_seconds = 0.05};
    struct rt_tcp_settings settings = hasty;
    settings.silence_seconds = seconds;
    settings.silence_least = least;
    struct child child;
    REQUIRE(start_child(settings, &child));
    struct rt_endpoint *endpoint = make_endpoint(later ? hasty : settings);
    struct rt_error err;
    if (later)
        rt_endpoint_set_silence(endpoint, seconds, least);
    CHECK_OK(rt_endpoint_listen(endpoint, "127.0.0.1:0", &err));
    REQUIRE(tell_child(&child, endpoint));
    REQUIRE(expect(endpoint, RT_EVENT_ACCEPTED));
    CHECK(is_quiet(endpoint, 1)); /* heartbeats keep it */
    kill(child.id, SIGSTOP);
    double before = rt_clock_wall();
    REQUIRE(expect(endpoint, RT_EVENT_CLOSED));
    CHECK(rt_clock_wall() - before > from && rt_clock_wall() - before < until);
    CHECK(says(says_so));
    kill(child.id, SIGKILL);
    waitpid(child.id, NULL, 0);
    rt_endpoint_destroy(endpoint);
}

TEST(a_stopped_peer_is_noticed_by_its_silence) {
    check_stopped_peer(false, 0.5, 0, 0.3, 5, "has been silent for 0.5 seconds");
    check_stopped_peer(true, 0.75, 0, 0.5, 5, "has been silent for 0.75 seconds");
}

/* Measured round trips make the bound shorter than the setting. */
TEST(a_stopped_peer_is_noticed_sooner_where_the_bound_adapts) {
    check_stopped_peer(false, 10, 0.2, 0.1, 9, "has been silent for ");
    check_stopped_peer(true, 10, 0.2, 0.1, 9, "has been silent for ");
}

static void pass_time(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* As with Ctrl-Z and fg: a body is on its way and the sockets are full when neither network thread runs any
 * more, for longer than the silence after which a peer is given up. */
TEST(two_who_were_both_stopped_go_on) {
    enum { BYTES = 32 << 20 };
    const double silence = 1;
    struct pair pair;
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    REQUIRE(out && in);
    fill_bytes(out, BYTES, 7);
    REQUIRE(make_pair((struct rt_tcp_settings){.silence_seconds = silence, .cma = RT_LENDS_NOTHING}, &pair));
    struct rt_receive receive = make_receive(RT_CHANNEL_SECOND, in, BYTES);
    struct rt_send send = make_send(RT_CHANNEL_SECOND, "large", out, BYTES);
    rt_link_receive(pair.ba, &receive);
    pass_time(0.1); /* a has heard that it may send */
    rt_endpoint_attend(pair.b, true);
    rt_link_send(pair.ab, &send);
    pass_time(0.1);
    rt_endpoint_attend(pair.a, true);
    pass_time(3 * silence);
    rt_endpoint_attend(pair.b, false);
    rt_endpoint_attend(pair.a, false);
    CHECK(expect(pair.b, RT_EVENT_RECEIVED));
    CHECK(expect(pair.a, RT_EVENT_SENT));
    CHECK(receive.body_bytes == BYTES && memcmp(out, in, BYTES) == 0);
    destroy_pair(&pair);
    free(out), free(in);
}

TEST_MAIN()
