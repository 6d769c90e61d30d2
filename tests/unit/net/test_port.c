/* A port that is held (support/port.h): no program listens there, and no other can take it. */
#include "support/port.h"

#include "support/test.h"
#include "tcp_rig.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static int call(const struct held_port *port, bool listens) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(strrchr(port->address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = (listens ? bind : connect)(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    close(fd);
    return error;
}

TEST(a_port_is_held_until_it_is_let_go) {
    struct held_port port;
    struct rt_error err;
    port_hold(&port);
    for (int round = 0; round < 2; round++) { /* also after a listener there */
        struct rt_endpoint *endpoint = make_endpoint((struct rt_tcp_settings){0});
        CHECK(call(&port, false) == ECONNREFUSED);
        CHECK(call(&port, true) == EADDRINUSE);
        CHECK_OK(rt_endpoint_listen(endpoint, port.address, &err));
        CHECK(strcmp(endpoint->address, port.address) == 0);
        rt_endpoint_destroy(endpoint);
    }
    port_let_go(&port);
    CHECK(call(&port, true) == 0);
}

TEST_MAIN()
