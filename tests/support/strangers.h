/*
 * Strangers: programs that connect to an endpoint over TCP without being expected. In memory there are none.
 */
#ifndef RT_TEST_STRANGERS_H
#define RT_TEST_STRANGERS_H

#include "net/transport.h"

struct strangers {
    struct rt_endpoint *endpoint;
    struct rt_send claim;
};

/* Three of them call: one closes its link at once, one claims on the control channel to be number 0 and
 * stays, one speaks another language. The endpoint has something to hear of each when this returns, or soon
 * after. It must not be attended by the thread that calls this. */
bool strangers_call(struct strangers *strangers, const struct rt_endpoint *called);
void strangers_leave(struct strangers *strangers);

#endif
