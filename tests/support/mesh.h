/*
 * A mesh for tests of several members: n of them, each with a link to every other, each with a program on
 * a thread of its own; in memory under virtual time, or over TCP. The links stay open until all programs
 * have ended, unless a test has failed: then a communicator that has left is not waited for.
 *
 * Over TCP any program on the machine can connect to a communicator, such as another test that connects to
 * a port which was in use by that test a moment ago. Strangers are refused and do no harm.
 */
#ifndef RT_TEST_MESH_H
#define RT_TEST_MESH_H

#include "control/communicator.h"
#include "sim/network.h"

enum { MESH_MOST = 16, MESH_RUN = 7117 };

/* Threads talk only through the transport. */
typedef void (*mesh_program)(void *user, struct rt_communicator *comm);

/* settings NULL: some latency and a random delay for each frame. */
void mesh_in_memory(const struct rt_memnet_settings *settings, size_t n, mesh_program program, void *user);
void mesh_over_tcp(size_t n, mesh_program program, void *user);
/* The same, and strangers call every communicator before and after it has joined: they close their links,
 * claim to be a communicator, or are none of us at all. */
void mesh_among_strangers(size_t n, mesh_program program, void *user);

/* The next event within a test's timeout; an unexpected event, such as a link that closes, fails the test.
 * Strangers cause no events. */
bool mesh_take(struct rt_communicator *comm, struct rt_event *event);

#endif
