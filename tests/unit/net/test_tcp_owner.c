/* The process at the other end of a connection: found for both families, and for an IPv4 address in IPv6. */
#include "net/tcp_owner.h"
#include "support/test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct ends {
    int listener, near, far; /* near connected; far was accepted */
};

static void close_ends(struct ends *ends) {
    close(ends->listener);
    close(ends->near);
    close(ends->far);
}

static struct sockaddr_storage loopback(int family, uint16_t port) {
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    if (family == AF_INET) {
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ((struct sockaddr_in *)&address)->sin_port = port;
    } else {
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
        ((struct sockaddr_in6 *)&address)->sin6_port = port;
    }
    return address;
}

/* A connection of one family to a listener of perhaps another one; false: there is no such family here. */
static bool join(int listening, int connecting, struct ends *ends) {
    struct sockaddr_storage address = loopback(listening, 0);
    socklen_t bytes = sizeof address;
    int off = 0;
    ends->listener = socket(listening, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends->near = socket(connecting, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening != connecting) {
        setsockopt(ends->listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_any;
    }
    if (bind(ends->listener, (struct sockaddr *)&address, bytes) != 0 || listen(ends->listener, 1) != 0 ||
        getsockname(ends->listener, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    const uint16_t port = listening == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                               : ((struct sockaddr_in6 *)&address)->sin6_port;
    const struct sockaddr_storage to = loopback(connecting, port);
    if (connect(ends->near, (const struct sockaddr *)&to,
                connecting == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) != 0)
        return false;
    ends->far = accept(ends->listener, NULL, NULL);
    return ends->far >= 0;
}

static void check_owner(int fd, int other) {
    struct rt_owner owner;
    struct stat info;
    REQUIRE(rt_owner_find(fd, &owner));
    CHECK(owner.user == geteuid());
    CHECK(fstat(other, &info) == 0 && owner.socket == info.st_ino);
    CHECK(rt_owner_is(&owner, (uint32_t)getpid()));
    CHECK(!rt_owner_is(&owner, (uint32_t)getppid()));
}

static void check_pair(int listening, int connecting) {
    struct ends ends;
    if (!join(listening, connecting, &ends))
        SKIP("this machine has no such connections");
    check_owner(ends.near, ends.far);
    check_owner(ends.far, ends.near);
    close_ends(&ends);
}

TEST(over_ipv4) {
    check_pair(AF_INET, AF_INET);
}

TEST(over_ipv6) {
    check_pair(AF_INET6, AF_INET6);
}

/* A node that listens on all addresses sees those of the older family as addresses of the newer one. */
TEST(over_ipv4_at_a_listener_of_ipv6) {
    check_pair(AF_INET6, AF_INET);
}

/* The listener that is still there is not taken for the other end. */
TEST(an_end_that_is_closed_is_nobodys) {
    struct ends ends;
    struct rt_owner owner;
    REQUIRE(join(AF_INET, AF_INET, &ends));
    close(ends.far);
    CHECK(!rt_owner_find(ends.near, &owner));
    close(ends.near);
    close(ends.listener);
}

TEST(a_socket_that_is_not_connected_has_no_other_end) {
    struct rt_owner owner;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(!rt_owner_find(fd, &owner));
    CHECK(!rt_owner_find(-1, &owner));
    close(fd);
}

TEST_MAIN()
