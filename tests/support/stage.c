#include "support/stage.h"

#include "net/memory.h"
#include "support/test.h"
#include <math.h>

static void play_in_memory(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct stage *stage = user;
    if (i < STAGE_ENDPOINTS)
        stage->program(stage, i, endpoint);
}

static void run_in_memory(struct stage *stage) {
    struct rt_error err;
    struct rt_memnet *net;
    const struct rt_memnet_settings settings = {
        .seed = 1, .latency = 1e-4, .bandwidth = 1e9, .random_delay = 1e-4};
    CHECK_OK(rt_memnet_create(&settings, STAGE_ENDPOINTS + 1, &net, &err)); /* the last never listens */
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++) {
        stage->endpoints[i] = rt_memnet_endpoint(net, i);
        CHECK_OK(rt_endpoint_listen(stage->endpoints[i], "mem:*", &err));
    }
    snprintf(stage->nowhere, sizeof stage->nowhere, "mem:%d", STAGE_ENDPOINTS);
    stage->exact = true;
    CHECK_OK(rt_memnet_run(net, play_in_memory, stage, INFINITY, &err));
    rt_memnet_destroy(net);
}

static const struct {
    const char *name;
    void (*run)(struct stage *stage);
} transports[] = {
    {"memory", run_in_memory},
};

void stage_over_each(stage_program program) {
    for (size_t k = 0; k < sizeof transports / sizeof *transports; k++) {
        struct stage stage = {.transport = transports[k].name, .program = program};
        int before = rt_test_failures;
        transports[k].run(&stage);
        if (rt_test_failures != before)
            fprintf(stderr, "  that was over %s\n", transports[k].name);
    }
}

static const double patience = 30; /* seconds; nothing takes that long unless it hangs */

bool seat_take(struct seat *seat) {
    struct rt_event *event = &seat->event;
    if (!rt_endpoint_wait(seat->endpoint, rt_endpoint_now(seat->endpoint) + patience, event)) {
        rt_test_fail(__FILE__, __LINE__, "no event within %g s", patience);
        return false;
    }
    switch (event->kind) {
    case RT_EVENT_ACCEPTED:
        seat->accepted++;
        break;
    case RT_EVENT_CONNECTED:
        seat->connected++;
        break;
    case RT_EVENT_SENT:
        seat->sent[event->send->channel]++;
        break;
    case RT_EVENT_RECEIVED:
        if (!seat->received[event->receive->channel]++)
            seat->first_arrival[event->receive->channel] = seat->arrivals;
        seat->arrivals++;
        break;
    case RT_EVENT_CLOSED:
        seat->closed++;
        CHECK_MSG(strstr(event->error.text, event->link->peer), "\"%s\" does not name %s", event->error.text,
                  event->link->peer);
        break;
    case RT_EVENT_WOKEN:
        seat->woken++;
        break;
    case RT_EVENT_REFUSED:
        rt_test_fail(__FILE__, __LINE__, "refused: %s", event->error.text);
        break;
    }
    return true;
}

bool seat_reach(struct seat *seat, const unsigned *count, unsigned enough) {
    while (*count < enough)
        if (!seat_take(seat))
            return false;
    return true;
}

bool seat_hears_nothing(struct seat *seat, double seconds) {
    return !rt_endpoint_wait(seat->endpoint, rt_endpoint_now(seat->endpoint) + seconds, &seat->event);
}

struct rt_link *seat_call(struct seat *seat, const char *address) {
    struct rt_error err;
    struct rt_link *link = NULL;
    if (rt_endpoint_connect(seat->endpoint, address, rt_endpoint_now(seat->endpoint) + patience, &link, &err))
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return link;
}

struct rt_link *seat_open(struct seat *seat, struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    *seat = (struct seat){.stage = stage, .endpoint = endpoint};
    struct rt_link *link = i == 0 ? seat_call(seat, stage->endpoints[1]->address) : NULL;
    if (!seat_reach(seat, i == 0 ? &seat->connected : &seat->accepted, 1))
        return NULL;
    return i == 0 ? link : seat->event.link;
}

bool seat_signal(struct seat *seat, struct rt_link *link) {
    struct rt_send send = {.channel = RT_CHANNEL_CONTROL};
    unsigned enough = seat->sent[RT_CHANNEL_CONTROL] + 1;
    rt_link_send(link, &send);
    return seat_reach(seat, &seat->sent[RT_CHANNEL_CONTROL], enough);
}

bool seat_await(struct seat *seat, struct rt_link *link) {
    struct rt_receive receive = {.channel = RT_CHANNEL_CONTROL};
    unsigned enough = seat->received[RT_CHANNEL_CONTROL] + 1;
    rt_link_receive(link, &receive);
    return seat_reach(seat, &seat->received[RT_CHANNEL_CONTROL], enough);
}
