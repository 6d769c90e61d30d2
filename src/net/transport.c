/* The calls of transport.h: each goes to the transport behind the endpoint. */
#include "net/transport.h"

#include <string.h>

void rt_endpoint_destroy(struct rt_endpoint *endpoint) {
    if (endpoint)
        endpoint->transport->destroy(endpoint);
}

rt_status rt_endpoint_listen(struct rt_endpoint *endpoint, const char *address, struct rt_error *err) {
    return endpoint->transport->listen(endpoint, address, err);
}

rt_status rt_endpoint_connect(struct rt_endpoint *endpoint, const char *address, double until,
                              struct rt_link **link, struct rt_error *err) {
    return endpoint->transport->connect(endpoint, address, until, link, err);
}

void rt_link_close(struct rt_link *link) {
    if (link)
        link->endpoint->transport->close(link);
}

const char *rt_link_reason(const struct rt_link *link, const struct rt_error *why) {
    const size_t length = link ? strlen(link->peer) : 0;
    const bool named = length > 0 && strncmp(why->text, link->peer, length) == 0 &&
                       strncmp(why->text + length, ": ", 2) == 0;
    return why->text + (named ? length + 2 : 0);
}

void rt_link_send(struct rt_link *link, struct rt_send *send) {
    link->endpoint->transport->send(link, send);
}

void rt_link_receive(struct rt_link *link, struct rt_receive *receive) {
    link->endpoint->transport->receive(link, receive);
}

bool rt_endpoint_wait(struct rt_endpoint *endpoint, double until, struct rt_event *event) {
    return endpoint->transport->wait(endpoint, until, event);
}

void rt_endpoint_wake(struct rt_endpoint *endpoint) {
    endpoint->transport->wake(endpoint);
}

void rt_endpoint_attend(struct rt_endpoint *endpoint, bool attends) {
    if (endpoint->transport->attend)
        endpoint->transport->attend(endpoint, attends);
}

double rt_endpoint_now(struct rt_endpoint *endpoint) {
    return endpoint->transport->now(endpoint);
}

void rt_endpoint_sleep(struct rt_endpoint *endpoint, double until) {
    endpoint->transport->sleep(endpoint, until);
}
