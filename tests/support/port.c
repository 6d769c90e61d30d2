#include "support/port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* SO_REUSEADDR lets programs that name the port share it, as long as only one of them listens. A program that
 * asks for any free port, or connects, gets another one. */
void port_hold(struct held_port *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;
    port->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (port->fd < 0 || setsockopt(port->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(port->fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(port->fd, (struct sockaddr *)&address, &bytes) != 0) {
        perror("no port can be held");
        exit(1);
    }
    snprintf(port->address, sizeof port->address, "127.0.0.1:%u", ntohs(address.sin_port));
}

void port_let_go(struct held_port *port) {
    close(port->fd);
    port->fd = -1;
}
