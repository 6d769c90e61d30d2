/* Short words for programs on the network in memory. */
#ifndef RT_TEST_MEMNET_H
#define RT_TEST_MEMNET_H

#include "sim/network.h"

/* Runs a net of n endpoints to its end, which must be a good one. */
void memnet_run(const struct rt_memnet_settings *settings, size_t n, rt_memnet_program program, void *user);

/* Waits; the next event must be of this kind, else the test fails. */
bool memnet_expect(struct rt_endpoint *endpoint, enum rt_event_kind kind, struct rt_event *event);

/* Connects, or listens and lets one in. NULL: the test has failed. */
struct rt_link *memnet_join(struct rt_endpoint *endpoint, const char *address);
struct rt_link *memnet_admit(struct rt_endpoint *endpoint);

#endif
