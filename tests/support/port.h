/*
 * A port of the loopback where no program listens. It is held: the system gives it to no other program, such
 * as another test that listens at any free port. Otherwise a connection to an address that was free a moment
 * ago could reach a stranger, and the stranger's test would fail.
 */
#ifndef RT_TEST_PORT_H
#define RT_TEST_PORT_H

struct held_port {
    int fd;
    char address[80]; /* "127.0.0.1:40123"; an endpoint may still listen there, when it is told to */
};

void port_hold(struct held_port *port); /* or the end of the test */
void port_let_go(struct held_port *port);

#endif
