/* The transport over TCP: connecting, addresses, and who may listen where. */
/* labels: threads */
#include "support/port.h"
#include "tcp_rig.h"
#include <time.h>

TEST(connecting_waits_for_the_listener) {
    struct rt_endpoint *a = make_endpoint((struct rt_tcp_settings){0});
    struct rt_endpoint *b = make_endpoint((struct rt_tcp_settings){0});
    struct held_port port;
    struct rt_error err;
    struct rt_link *link;
    port_hold(&port);
    CHECK_OK(rt_endpoint_connect(a, port.address, rt_clock_wall() + PATIENCE, &link, &err));
    char head[] = "posted early";
    struct rt_send send = make_send(RT_CHANNEL_FIRST, head, NULL, 0);
    rt_link_send(link, &send);
    CHECK(is_quiet(a, 0.1));
    CHECK_OK(rt_endpoint_listen(b, port.address, &err));
    REQUIRE(expect(a, RT_EVENT_CONNECTED) && expect(b, RT_EVENT_ACCEPTED));
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, NULL, 0);
    rt_link_receive(event.link, &receive);
    REQUIRE(expect(b, RT_EVENT_RECEIVED) && expect(a, RT_EVENT_SENT));
    rt_endpoint_destroy(a);
    rt_endpoint_destroy(b);
    port_let_go(&port);
}

/* One that listens all the time if it is there: nothing listens, so it is not there. */
TEST(a_call_that_is_refused_is_over_early) {
    struct rt_endpoint *a = make_endpoint((struct rt_tcp_settings){0});
    struct rt_endpoint *b = make_endpoint((struct rt_tcp_settings){0});
    struct held_port port;
    struct rt_error err;
    struct rt_link *link;
    port_hold(&port);
    const double before = rt_clock_wall();
    CHECK_OK(rt_endpoint_call(a, port.address, before + 0.1, before + PATIENCE, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    const double passed = rt_clock_wall() - before;
    CHECK_MSG(passed >= 0.1 && passed < PATIENCE / 2, "it took %g s", passed);
    CHECK(strcmp(event.error.text, "connection refused: nothing is listening there") == 0);
    rt_link_close(link);
    /* and until then it is tried again */
    CHECK_OK(rt_endpoint_call(a, port.address, rt_clock_wall() + PATIENCE / 2, rt_clock_wall() + PATIENCE,
                              &link, &err));
    CHECK(is_quiet(a, 0.1));
    CHECK_OK(rt_endpoint_listen(b, port.address, &err));
    REQUIRE(expect(a, RT_EVENT_CONNECTED) && expect(b, RT_EVENT_ACCEPTED));
    rt_endpoint_destroy(a);
    rt_endpoint_destroy(b);
    port_let_go(&port);
}

TEST(what_cannot_be_reached_is_named) {
    struct rt_endpoint *a = make_endpoint((struct rt_tcp_settings){0});
    struct rt_endpoint *b = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    struct rt_link *link;
    struct held_port port;
    char text[200];
    port_hold(&port);
    CHECK_OK(rt_endpoint_listen(b, port.address, &err));
    CHECK(rt_endpoint_listen(a, b->address, &err) == RT_BAD_INPUT);
    snprintf(text, sizeof text, "cannot listen on %s: address already in use", b->address);
    CHECK_MSG(strcmp(err.text, text) == 0, "%s", err.text);
    CHECK(rt_endpoint_listen(b, "127.0.0.1:0", &err) == RT_BAD_INPUT);

    rt_endpoint_destroy(b);
    double before = rt_clock_wall();
    CHECK_OK(rt_endpoint_connect(a, port.address, before + 0.2, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    CHECK(event.link == link &&
          strcmp(event.error.text, "connection refused: nothing is listening there") == 0);
    CHECK(rt_clock_wall() - before >= 0.19);
    rt_link_close(link);

    CHECK_OK(rt_endpoint_connect(a, "no-such-host.invalid:7117", rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(a, RT_EVENT_CLOSED));
    CHECK(says("no-such-host.invalid does not resolve: "));
    rt_link_close(link);
    CHECK(rt_endpoint_listen(a, "no-such-host.invalid:7117", &err) != RT_OK);
    CHECK(strstr(err.text, "no-such-host.invalid does not resolve: "));
    rt_endpoint_destroy(a);
    port_let_go(&port);
}

TEST(what_is_no_address_is_refused) {
    static const char *const wrong[] = {
        "",       "host",  "host:",   ":7117", "host:port", "host:65536",     "host:-1", "host:7117x",
        "::1:80", "[::1]", "[::1:80", "[]:80", "host: 1",   "host:000007117", "a:b:7",   "[::1]80"};
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    struct rt_link *link;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_MSG(rt_endpoint_connect(endpoint, wrong[i], 0, &link, &err) == RT_BAD_INPUT, "%s", wrong[i]);
        CHECK_MSG(rt_endpoint_listen(endpoint, wrong[i], &err) == RT_BAD_INPUT, "%s", wrong[i]);
    }
    CHECK(rt_endpoint_connect(endpoint, "127.0.0.1:0", 0, &link, &err) == RT_BAD_INPUT);
    char longest[400];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 390, ":1", 3);
    CHECK(rt_endpoint_connect(endpoint, longest, 0, &link, &err) == RT_BAD_INPUT);
    rt_endpoint_destroy(endpoint);
}

TEST(listening_beyond_loopback_needs_a_key) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    CHECK(rt_endpoint_listen(endpoint, "0.0.0.0:0", &err) == RT_BAD_INPUT);
    CHECK_MSG(strstr(err.text, "keygen") && strstr(err.text, "--insecure"), "%s", err.text);
    rt_endpoint_destroy(endpoint);
    endpoint = make_endpoint((struct rt_tcp_settings){.insecure = true});
    CHECK_OK(rt_endpoint_listen(endpoint, "0.0.0.0:0", &err));
    rt_endpoint_destroy(endpoint);
}

TEST(names_and_ipv6_addresses_work) {
    static const char *const addresses[] = {"localhost:0", "[::1]:0"};
    for (int i = 0; i < 2; i++) {
        struct pair pair = {.a = make_endpoint((struct rt_tcp_settings){0}),
                            .b = make_endpoint((struct rt_tcp_settings){0})};
        struct rt_error err;
        if (rt_endpoint_listen(pair.b, addresses[i], &err) == RT_OK)
            CHECK(join_pair(&pair) && strcmp(pair.ab->peer, pair.b->address) == 0);
        else
            CHECK_MSG(i == 1, "%s", err.text); /* not every machine has IPv6 */
        destroy_pair(&pair);
    }
}

TEST(no_more_links_than_allowed) {
    struct pair pair;
    struct rt_error err;
    struct rt_link *link;
    REQUIRE(make_pair((struct rt_tcp_settings){.max_links = 1}, &pair));
    CHECK_OK(rt_endpoint_connect(pair.a, pair.b->address, rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(pair.a, RT_EVENT_CLOSED));
    CHECK(event.link == link && says("has reached its maximum number of links"));
    REQUIRE(expect(pair.b, RT_EVENT_REFUSED));
    CHECK(says("was refused: there are"));
    rt_link_close(link);
    rt_link_close(pair.ab); /* which makes room */
    REQUIRE(expect(pair.b, RT_EVENT_CLOSED));
    rt_link_close(pair.ba);
    REQUIRE(join_pair(&pair));
    destroy_pair(&pair);
}

TEST_MAIN()
