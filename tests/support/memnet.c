#include "support/memnet.h"

#include "support/test.h"
#include <math.h>

bool memnet_expect(struct rt_endpoint *endpoint, enum rt_event_kind kind, struct rt_event *event) {
    if (!rt_endpoint_wait(endpoint, INFINITY, event)) {
        rt_test_fail(__FILE__, __LINE__, "no event where one of kind %d was expected", (int)kind);
        return false;
    }
    CHECK_MSG(event->kind == kind, "event of kind %d, not %d: %s", (int)event->kind, (int)kind,
              event->error.text);
    return event->kind == kind;
}

struct rt_link *memnet_join(struct rt_endpoint *endpoint, const char *address) {
    struct rt_error err;
    struct rt_link *link = NULL;
    struct rt_event event;
    if (rt_endpoint_connect(endpoint, address, INFINITY, &link, &err) != RT_OK) {
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
        return NULL;
    }
    return memnet_expect(endpoint, RT_EVENT_CONNECTED, &event) ? event.link : NULL;
}

struct rt_link *memnet_admit(struct rt_endpoint *endpoint) {
    struct rt_error err;
    struct rt_event event;
    if (rt_endpoint_listen(endpoint, "mem:*", &err) != RT_OK)
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return memnet_expect(endpoint, RT_EVENT_ACCEPTED, &event) ? event.link : NULL;
}

void memnet_run(const struct rt_memnet_settings *settings, size_t n, rt_memnet_program program, void *user) {
    struct rt_error err;
    struct rt_memnet *net;
    CHECK_OK(rt_memnet_create(settings, n, &net, &err));
    CHECK_OK(rt_memnet_run(net, program, user, 1e9, &err));
    rt_memnet_destroy(net);
}
