#include "support/stage.h"

#include "base/rng.h"
#include "net/tcp.h"
#include "sim/network.h"
#include "support/port.h"
#include "support/test.h"
#include <math.h>
#include <pthread.h>

static void play_in_memory(void *user, size_t i, struct rt_endpoint *endpoint) {
    struct stage *stage = user;
    if (i < STAGE_ENDPOINTS)
        stage->program(stage, i, endpoint);
}

static void run_in_memory(struct stage *stage) {
    struct rt_error err;
    struct rt_memnet *net;
    const struct rt_memnet_settings settings = {.seed = 1,
                                                .latency = 1e-4,
                                                .bandwidth = 1e9,
                                                .random_delay = 1e-4,
                                                .heartbeat_seconds = stage->heartbeat,
                                                .silence_seconds = stage->silence,
                                                .silence_least = stage->least};
    CHECK_OK(rt_memnet_create(&settings, STAGE_ENDPOINTS + 1, &net, &err)); /* the last never listens */
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++) {
        stage->endpoints[i] = rt_memnet_endpoint(net, i);
        CHECK_OK(rt_endpoint_listen(stage->endpoints[i], "mem:*", &err));
    }
    snprintf(stage->nowhere, sizeof stage->nowhere, "mem:%d", STAGE_ENDPOINTS);
    stage->exact = true;
    stage->net = net;
    CHECK_OK(rt_memnet_run(net, play_in_memory, stage, INFINITY, &err));
    rt_memnet_destroy(net);
}

struct player {
    struct stage *stage;
    size_t i;
    pthread_t thread;
};

static void *play(void *argument) {
    struct player *player = argument;
    struct rt_endpoint *endpoint = player->stage->endpoints[player->i];
    rt_endpoint_attend(endpoint, player->stage->attended);
    player->stage->program(player->stage, player->i, endpoint);
    rt_endpoint_attend(endpoint, false);
    return NULL;
}

/* Where the endpoints listen. They call from 127.0.0.1: from another address of this machine to them it is as
 * from another machine, and bodies have a checksum. */
static const char near[] = "127.0.0.1:0", far[] = "127.0.0.2:0";

static void run_over_tcp(struct stage *stage, const char *at, const struct rt_tcp_settings *given) {
    struct rt_error err;
    struct rt_tcp_settings settings = *given;
    settings.heartbeat_seconds = stage->heartbeat;
    settings.silence_seconds = stage->silence;
    settings.silence_least = stage->least;
    struct player players[STAGE_ENDPOINTS];
    struct held_port nowhere;
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++) {
        CHECK_OK(rt_tcp_create(&settings, &stage->endpoints[i], &err));
        CHECK_OK(rt_endpoint_listen(stage->endpoints[i], at, &err));
    }
    port_hold(&nowhere);
    snprintf(stage->nowhere, sizeof stage->nowhere, "%s", nowhere.address);
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++) {
        players[i] = (struct player){.stage = stage, .i = i};
        if (pthread_create(&players[i].thread, NULL, play, &players[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++)
        pthread_join(players[i].thread, NULL);
    for (size_t i = 0; i < STAGE_ENDPOINTS; i++)
        rt_endpoint_destroy(stage->endpoints[i]);
    port_let_go(&nowhere);
}

static void run_over_plain_tcp(struct stage *stage) {
    run_over_tcp(stage, near, &(struct rt_tcp_settings){.key = NULL});
}

static void run_over_far_tcp(struct stage *stage) {
    run_over_tcp(stage, far, &(struct rt_tcp_settings){.key = NULL});
}

/* The thread of each program moves the bytes itself. */
static void run_over_attended_tcp(struct stage *stage) {
    stage->attended = true;
    run_over_tcp(stage, far, &(struct rt_tcp_settings){.key = NULL});
}

static void run_over_encrypted_tcp(struct stage *stage) {
    static const uint8_t key[RT_KEY_BYTES] = {1, 2, 3};
    run_over_tcp(stage, near, &(struct rt_tcp_settings){.key = key});
}

static void run_over_lending_tcp(struct stage *stage) {
    stage->lends = true;
    run_over_tcp(stage, near, &(struct rt_tcp_settings){.cma = RT_LENDS_TO_ITSELF});
}

static void run_over_attended_lending_tcp(struct stage *stage) {
    stage->attended = true;
    run_over_lending_tcp(stage);
}

static void run_over_slow_tcp(struct stage *stage) {
    run_over_tcp(stage, near, &(struct rt_tcp_settings){.bandwidth = 50e6, .latency = 0.002});
}

static void run_over_attended_slow_tcp(struct stage *stage) {
    stage->attended = true;
    run_over_slow_tcp(stage);
}

static const struct {
    const char *name;
    void (*run)(struct stage *stage);
} transports[] = {
    {"memory", run_in_memory},
    {"TCP", run_over_plain_tcp},
    {"TCP, from another address", run_over_far_tcp},
    {"TCP, from another address, attended", run_over_attended_tcp},
    {"TCP with a cluster key", run_over_encrypted_tcp},
    {"TCP, large bodies lent", run_over_lending_tcp},
    {"TCP, large bodies lent, attended", run_over_attended_lending_tcp},
    {"TCP, a slower network emulated", run_over_slow_tcp},
    {"TCP, a slower network emulated, attended", run_over_attended_slow_tcp},
};

/* Frame n is cut from this row of random bytes, 64 n from its beginning. */
enum { ROW = STAGE_LARGEST + 64 * STAGE_FRAMES };
static uint8_t *row;

void *stage_room(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        exit(1);
    return memory;
}

void stage_write(unsigned frame, size_t from, size_t count, uint8_t *bytes) {
    memcpy(bytes, row + 64 * (size_t)frame + from, count);
}

bool stage_match(unsigned frame, const void *bytes, size_t count) {
    return count == 0 || memcmp(bytes, row + 64 * (size_t)frame, count) == 0;
}

void stage_stop(struct stage *stage, size_t i, double seconds) {
    struct rt_endpoint *endpoint = stage->endpoints[i];
    const double until = rt_endpoint_now(endpoint) + seconds;
    if (stage->net)
        rt_memnet_pause(stage->net, i, seconds);
    else
        rt_endpoint_attend(endpoint, true); /* and does not */
    rt_endpoint_sleep(endpoint, until);
    rt_endpoint_attend(endpoint, stage->attended);
}

void stage_over_each(stage_program program) {
    stage_over_each_with(program, 0, 0, 0);
}

void stage_over_each_with(stage_program program, double heartbeat, double silence, double least) {
    row = stage_room(ROW);
    for (uint32_t i = 0; i < ROW / 16; i++) {
        uint32_t words[4];
        rt_rng_block(1, RT_PURPOSE_SHUFFLE, 0, i, 0, words);
        memcpy(row + 16 * (size_t)i, words, sizeof words);
    }
    for (size_t k = 0; k < sizeof transports / sizeof *transports; k++) {
        struct stage stage = {.transport = transports[k].name,
                              .program = program,
                              .heartbeat = heartbeat,
                              .silence = silence,
                              .least = least};
        int before = rt_test_failures;
        transports[k].run(&stage);
        if (rt_test_failures != before)
            fprintf(stderr, "  that was over %s\n", transports[k].name);
    }
    free(row);
}

static const double timeout = 30; /* seconds; nothing takes that long unless it hangs */

bool seat_take(struct inflight *inflight) {
    struct rt_event *event = &inflight->event;
    if (!rt_endpoint_wait(inflight->endpoint, rt_endpoint_now(inflight->endpoint) + timeout, event)) {
        rt_test_fail(__FILE__, __LINE__, "no event within %g s", timeout);
        return false;
    }
    switch (event->kind) {
    case RT_EVENT_ACCEPTED:
        inflight->accepted++;
        break;
    case RT_EVENT_CONNECTED:
        inflight->connected++;
        break;
    case RT_EVENT_SENT:
        inflight->sent[event->send->channel]++;
        break;
    case RT_EVENT_RECEIVED:
        if (!inflight->received[event->receive->channel]++)
            inflight->first_arrival[event->receive->channel] = inflight->arrivals;
        inflight->arrivals++;
        break;
    case RT_EVENT_CLOSED:
        inflight->closed++;
        CHECK_MSG(event->error.text[0] && !strstr(event->error.text, event->link->peer),
                  "\"%s\" names %s, which is for the owner of the link to do", event->error.text,
                  event->link->peer);
        break;
    case RT_EVENT_WOKEN:
        inflight->woken++;
        break;
    case RT_EVENT_REFUSED:
        rt_test_fail(__FILE__, __LINE__, "refused: %s", event->error.text);
        break;
    }
    return true;
}

bool seat_reach(struct inflight *inflight, const unsigned *count, unsigned enough) {
    while (*count < enough)
        if (!seat_take(inflight))
            return false;
    return true;
}

bool seat_hears_nothing(struct inflight *inflight, double seconds) {
    return !rt_endpoint_wait(inflight->endpoint, rt_endpoint_now(inflight->endpoint) + seconds,
                             &inflight->event);
}

struct rt_link *seat_call(struct inflight *inflight, const char *address) {
    struct rt_error err;
    struct rt_link *link = NULL;
    if (rt_endpoint_connect(inflight->endpoint, address, rt_endpoint_now(inflight->endpoint) + timeout, &link,
                            &err))
        rt_test_fail(__FILE__, __LINE__, "%s", err.text);
    return link;
}

struct rt_link *seat_open(struct inflight *inflight, struct stage *stage, size_t i,
                          struct rt_endpoint *endpoint) {
    *inflight = (struct inflight){.stage = stage, .endpoint = endpoint};
    struct rt_link *link = i == 0 ? seat_call(inflight, stage->endpoints[1]->address) : NULL;
    if (!seat_reach(inflight, i == 0 ? &inflight->connected : &inflight->accepted, 1))
        return NULL;
    return i == 0 ? link : inflight->event.link;
}

bool seat_signal(struct inflight *inflight, struct rt_link *link) {
    struct rt_send send = {.channel = RT_CHANNEL_CONTROL};
    unsigned enough = inflight->sent[RT_CHANNEL_CONTROL] + 1;
    rt_link_send(link, &send);
    return seat_reach(inflight, &inflight->sent[RT_CHANNEL_CONTROL], enough);
}

bool seat_await(struct inflight *inflight, struct rt_link *link) {
    struct rt_receive receive = {.channel = RT_CHANNEL_CONTROL};
    unsigned enough = inflight->received[RT_CHANNEL_CONTROL] + 1;
    rt_link_receive(link, &receive);
    return seat_reach(inflight, &inflight->received[RT_CHANNEL_CONTROL], enough);
}
