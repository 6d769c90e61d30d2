/*
 * Bodies that the receiver reads from the sender's memory, between endpoints that agree on it. The rules of
 * any transport are tested with cross-memory attach too, in contract/test_transport.c.
 */
/* labels: threads */
#include "cma_rig.h"

TEST(a_large_body_is_lent_and_a_small_one_sent) {
    struct pair pair;
    need_lending();
    REQUIRE(make_pair(cma, &pair));
    REQUIRE(comes_to_lend(&pair));
    CHECK(pair.ab->counts.bytes_sent[RT_CHANNEL_FIRST] >= LARGE); /* counted as what it is */
    CHECK(carry(&pair, SMALL) >= SMALL);
    struct pair back = {.a = pair.b, .b = pair.a, .ab = pair.ba, .ba = pair.ab};
    CHECK(carry(&back, LARGE) < SMALL);
    destroy_pair(&pair);
}

TEST(it_works_under_encryption) {
    static const uint8_t key[RT_KEY_BYTES] = {5};
    struct pair pair;
    need_lending();
    REQUIRE(make_pair((struct rt_tcp_settings){.cma = RT_LENDS_TO_ITSELF, .key = key}, &pair));
    CHECK(comes_to_lend(&pair));
    destroy_pair(&pair);
}

/* A few large frames there and back give an agreement every opportunity. */
static void check_never_lends(struct pair *pair) {
    struct pair back = {.a = pair->b, .b = pair->a, .ab = pair->ba, .ba = pair->ab};
    for (int i = 0; i < 10; i++)
        CHECK(carry(pair, LARGE) >= LARGE && carry(&back, LARGE) >= LARGE);
}

TEST(a_process_does_not_read_itself_on_a_peers_word) {
    struct pair pair;
    REQUIRE(make_pair((struct rt_tcp_settings){.cma = RT_LENDS_TO_PROCESSES}, &pair));
    check_never_lends(&pair);
    destroy_pair(&pair);
}

TEST(who_lends_nothing_is_sent_everything) {
    struct rt_error err;
    struct pair pair = {.a = make_endpoint(cma),
                        .b = make_endpoint((struct rt_tcp_settings){.cma = RT_LENDS_NOTHING})};
    REQUIRE(pair.a && pair.b && rt_endpoint_listen(pair.b, "127.0.0.1:0", &err) == RT_OK);
    REQUIRE(join_pair(&pair));
    check_never_lends(&pair);
    destroy_pair(&pair);
}

TEST(another_address_is_another_machine) {
    struct rt_error err;
    struct pair pair = {.a = make_endpoint(cma), .b = make_endpoint(cma)};
    REQUIRE(pair.a && pair.b && rt_endpoint_listen(pair.b, "127.0.0.2:0", &err) == RT_OK);
    REQUIRE(join_pair(&pair));
    check_never_lends(&pair);
    destroy_pair(&pair);
}

/* The child's part: takes one frame after the other, until it is killed or the link ends. */
static void serve(int say_address) {
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_error err;
    static uint8_t body[LARGE];
    struct rt_receive receive = make_receive(RT_CHANNEL_FIRST, body, sizeof body);
    if (!endpoint || rt_endpoint_listen(endpoint, "127.0.0.1:0", &err) != RT_OK ||
        write(say_address, endpoint->address, sizeof endpoint->address) < 0)
        _exit(1);
    while (rt_endpoint_wait(endpoint, rt_clock_wall() + PATIENCE, &event) && event.kind != RT_EVENT_CLOSED)
        if (event.kind == RT_EVENT_ACCEPTED || event.kind == RT_EVENT_RECEIVED) {
            uint8_t expected[sizeof body];
            fill_bytes(expected, sizeof expected, 1);
            if (event.kind == RT_EVENT_RECEIVED && memcmp(body, expected, sizeof body) != 0)
                _exit(2);
            rt_link_receive(event.link, &receive);
        }
    _exit(event.kind == RT_EVENT_CLOSED ? 0 : 3);
}

/* As between the nodes of one machine. Where a system does not let processes read each other, bodies are
 * sent: nothing to be tested here. */
TEST(another_process_borrows) {
    int ends[2], status;
    char address[80] = "";
    struct rt_error err;
    need_lending_to_a_child();
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0)
        serve(ends[1]);
    close(ends[1]); /* so that a child that ends is noticed */
    REQUIRE(child > 0 && read(ends[0], address, sizeof address) > 0);
    struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
    struct rt_link *link;
    uint8_t *body = malloc(LARGE);
    struct rt_send send = make_send(RT_CHANNEL_FIRST, "", body, LARGE);
    fill_bytes(body, LARGE, 1);
    CHECK_OK(rt_endpoint_connect(endpoint, address, rt_clock_wall() + PATIENCE, &link, &err));
    REQUIRE(expect(endpoint, RT_EVENT_CONNECTED));
    uint64_t collective = LARGE;
    for (int i = 0; i < 100 && collective >= LARGE; i++) {
        const uint64_t before = link->counts.wire_sent;
        rt_link_send(link, &send);
        REQUIRE(expect(endpoint, RT_EVENT_SENT));
        collective = link->counts.wire_sent - before;
    }
    rt_link_close(link);
    rt_endpoint_destroy(endpoint);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(body);
    close(ends[0]);
    CHECK(collective < SMALL);
}

TEST_MAIN()
