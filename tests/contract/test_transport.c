/*
 * The rules of net/transport.h, held against every transport. A test is a program for each of two endpoints,
 * which talk only through the transport; it runs over each transport that tests/support/stage.c knows.
 */
/* labels: threads */
#include "net/transport.h"

#include "base/clock.h"
#include "base/rng.h"
#include "support/stage.h"
#include "support/test.h"
#include <pthread.h>

/* ---- frames ---- */

/* Sizes of the pieces and the head of each frame. */
static const struct shape {
    size_t first, second, head;
} shapes[] = {{0, 0, 0},     {1, 0, RT_HEAD_ROOM}, {65537, 0, 1},    {STAGE_LARGEST, 0, 16},
              {65536, 1, 3}, {0, 100, 7},          {3, 1 << 20, 95}, {0, 0, 96}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void shapes_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    static const unsigned channels[] = {RT_CHANNEL_CONTROL, RT_CHANNEL_FIRST, RT_CHANNEL_BULK};
    struct inflight inflight = {.stage = stage, .endpoint = endpoint};
    struct rt_link *link;
    uint64_t bytes = 0;
    if (i == 0) {
        struct rt_send sends[3][SHAPES];
        uint8_t *bodies[SHAPES][RT_PIECES];
        REQUIRE(
            link = seat_call(&inflight, stage->endpoints[1]->address)); /* and posts before it is connected */
        for (unsigned k = 0; k < SHAPES; k++) {
            size_t first = shapes[k].first, second = shapes[k].second;
            stage_write(k, 0, first, bodies[k][0] = stage_room(first));
            stage_write(k, first, second, bodies[k][1] = stage_room(second));
            bytes += shapes[k].head + first + second;
            for (unsigned c = 0; c < 3; c++) {
                sends[c][k] = (struct rt_send){.channel = channels[c],
                                               .head_bytes = shapes[k].head,
                                               .body = {{bodies[k][0], first}, {bodies[k][1], second}},
                                               .user = &bodies[k]};
                stage_write(k + 50, 0, shapes[k].head, sends[c][k].head);
                rt_link_send(link, &sends[c][k]);
            }
        }
        for (unsigned n = 0; n < 3 * SHAPES;) {
            REQUIRE(seat_take(&inflight));
            if (inflight.event.kind != RT_EVENT_SENT)
                continue;
            const struct rt_send *send = inflight.event.send;
            CHECK(send->user == &bodies[inflight.sent[send->channel] - 1] && inflight.event.link == link);
            n++;
        }
        REQUIRE(seat_await(&inflight, link));
        CHECK(inflight.connected == 1);
        for (unsigned k = 0; k < SHAPES; k++) {
            free(bodies[k][0]);
            free(bodies[k][1]);
        }
    } else {
        struct rt_receive receives[3][SHAPES];
        uint8_t *bodies[3][SHAPES];
        REQUIRE(seat_reach(&inflight, &inflight.accepted, 1));
        link = inflight.event.link;
        for (unsigned k = 0; k < SHAPES; k++)
            for (unsigned c = 0; c < 3; c++) {
                size_t size = shapes[k].first + shapes[k].second;
                bytes += c == 0 ? shapes[k].head + size : 0;
                bodies[c][k] = stage_room(size);
                receives[c][k] =
                    (struct rt_receive){.channel = channels[c], .body = bodies[c][k], .body_room = size};
                rt_link_receive(link, &receives[c][k]);
            }
        while (inflight.arrivals < 3 * SHAPES) {
            REQUIRE(seat_take(&inflight));
            const struct rt_receive *got = inflight.event.receive;
            unsigned k = inflight.received[got->channel] - 1;
            CHECK(got == &receives[got->channel == 0 ? 0 : got->channel == RT_CHANNEL_FIRST ? 1 : 2][k]);
            CHECK(got->head_bytes == shapes[k].head && stage_match(k + 50, got->head, shapes[k].head));
            CHECK(got->body_bytes == got->body_room && stage_match(k, got->body, got->body_bytes));
        }
        REQUIRE(seat_signal(&inflight, link));
        for (unsigned k = 0; k < SHAPES; k++)
            for (unsigned c = 0; c < 3; c++)
                free(bodies[c][k]);
    }
    const uint64_t *counted = i == 0 ? link->counts.bytes_sent : link->counts.bytes_received;
    const uint64_t *frames = i == 0 ? link->counts.frames_sent : link->counts.frames_received;
    for (unsigned c = 0; c < 3; c++)
        CHECK(counted[channels[c]] == bytes && frames[channels[c]] == SHAPES);
    CHECK(counted[RT_CHANNEL_SECOND] == 0);
    CHECK(stage->lends || (i == 0 ? link->counts.wire_sent : link->counts.wire_received) >= 3 * bytes);
}

TEST(frames_arrive_whole_and_in_order) {
    stage_over_each(shapes_program);
}

/* Frames without a receive wait, and hold up nobody else. */
static void stalled_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    enum { STALLED = 5, OTHERS = 500 };
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    uint8_t body[1000];
    REQUIRE(link);
    if (i == 0) {
        struct rt_send stalled[STALLED], send = {.channel = RT_CHANNEL_BULK, .body = {{body, sizeof body}}};
        stage_write(1, 0, sizeof body, body);
        for (unsigned k = 0; k < STALLED; k++) {
            stalled[k] = (struct rt_send){
                .channel = RT_CHANNEL_FIRST, .head_bytes = 1, .head = {(uint8_t)k}, .body = {{body, k}}};
            rt_link_send(link, &stalled[k]);
        }
        for (unsigned k = 0; k < OTHERS; k++) {
            rt_link_send(link, &send);
            REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_BULK], k + 1));
        }
        CHECK(inflight.sent[RT_CHANNEL_FIRST] == 0); /* none had a receive */
        REQUIRE(seat_signal(&inflight, link));
        REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_FIRST], STALLED));
        REQUIRE(seat_await(&inflight, link));
    } else {
        struct rt_receive receive = {.channel = RT_CHANNEL_BULK, .body = body, .body_room = sizeof body};
        for (unsigned k = 0; k < OTHERS; k++) {
            rt_link_receive(link, &receive);
            REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_BULK], k + 1));
            CHECK(receive.body_bytes == sizeof body && stage_match(1, body, sizeof body));
        }
        REQUIRE(seat_await(&inflight, link));
        CHECK(inflight.received[RT_CHANNEL_FIRST] == 0);
        receive.channel = RT_CHANNEL_FIRST;
        for (unsigned k = 0; k < STALLED; k++) {
            rt_link_receive(link, &receive);
            REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_FIRST], k + 1));
            CHECK(receive.head[0] == k && receive.body_bytes == k && stage_match(1, body, k));
        }
        REQUIRE(seat_signal(&inflight, link));
    }
}

TEST(a_stalled_channel_holds_up_only_itself) {
    stage_over_each(stalled_program);
}

/* Many large frames wait to leave when a small one of a lower channel joins them: it does not arrive last.
 * Over a real network they could all leave in an unlucky moment before it is posted, but not each time. */
static void overtaking_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    enum { LARGE = 32, BYTES = 1 << 20, ATTEMPTS = 3 };
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    uint8_t *body = stage_room(LARGE * BYTES);
    bool overtook = false;
    REQUIRE(link);
    memset(body, 0, LARGE * BYTES);
    for (unsigned attempt = 1; attempt <= ATTEMPTS && !overtook; attempt++) {
        struct rt_send sends[LARGE + 1];
        struct rt_receive receives[LARGE + 1];
        inflight.arrivals = inflight.received[RT_CHANNEL_FIRST] = 0;
        for (unsigned k = 0; k <= LARGE; k++) {
            unsigned channel = k < LARGE ? RT_CHANNEL_BULK : RT_CHANNEL_FIRST;
            size_t bytes = k < LARGE ? BYTES : 0;
            uint8_t *part = body + (k < LARGE ? k * (size_t)BYTES : 0);
            sends[k] = (struct rt_send){.channel = channel, .head_bytes = 4, .body = {{part, bytes}}};
            receives[k] = (struct rt_receive){.channel = channel, .body = part, .body_room = bytes};
            if (i == 1)
                rt_link_receive(link, &receives[k]);
        }
        if (i == 1) {
            REQUIRE(seat_signal(&inflight, link));
            REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_BULK], attempt * LARGE));
            REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_FIRST], 1));
            overtook = inflight.first_arrival[RT_CHANNEL_FIRST] < (stage->exact ? 2 : LARGE);
            struct rt_send verdict = {.channel = RT_CHANNEL_CONTROL, .head_bytes = 1, .head = {overtook}};
            rt_link_send(link, &verdict);
            REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_CONTROL], 2 * attempt));
        } else {
            REQUIRE(seat_await(&inflight, link));
            for (unsigned k = 0; k <= LARGE; k++)
                rt_link_send(link, &sends[k]);
            REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_BULK], attempt * LARGE));
            REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_FIRST], attempt));
            struct rt_receive verdict = {.channel = RT_CHANNEL_CONTROL};
            rt_link_receive(link, &verdict);
            REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_CONTROL], 2 * attempt));
            overtook = verdict.head[0];
        }
    }
    CHECK(overtook);
    free(body);
}

TEST(lower_channels_go_first) {
    stage_over_each(overtaking_program);
}

/* ---- links ---- */

/* Several links between the same two, made from both ends; each carries its own frames, and the end of one is
 * nothing to the others. */
static void many_links_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    enum { EACH = 4, LINKS = 2 * EACH, FRAMES = 20 };
    struct inflight inflight = {.stage = stage, .endpoint = endpoint};
    struct rt_link *links[LINKS]; /* those made here, then those made there */
    struct rt_receive receives[LINKS];
    struct rt_send sends[LINKS];
    unsigned got[LINKS] = {0}, last[LINKS] = {0}, total = 0;
    int origin[LINKS]; /* which of the maker's links it is, as its first frame says */
    for (unsigned k = 0; k < EACH; k++)
        REQUIRE(links[k] = seat_call(&inflight, stage->endpoints[!i]->address));
    while (inflight.accepted < EACH || inflight.connected < EACH) {
        REQUIRE(seat_take(&inflight));
        if (inflight.event.kind == RT_EVENT_ACCEPTED)
            links[EACH + inflight.accepted - 1] = inflight.event.link;
    }
    for (unsigned k = 0; k < LINKS; k++) {
        links[k]->user = &links[k];
        CHECK(links[k]->endpoint == endpoint && links[k]->peer[0]);
        origin[k] = -1;
        receives[k] = (struct rt_receive){.channel = RT_CHANNEL_SECOND, .user = &origin[k]};
        sends[k] = (struct rt_send){.channel = RT_CHANNEL_SECOND, .head_bytes = 2, .head = {(uint8_t)k, 0}};
        rt_link_receive(links[k], &receives[k]);
        rt_link_send(links[k], &sends[k]);
    }
    while (total < 2 * LINKS * FRAMES) {
        REQUIRE(seat_take(&inflight));
        size_t k = (size_t)((struct rt_link **)inflight.event.link->user - links);
        REQUIRE(k < LINKS && links[k] == inflight.event.link);
        total++;
        if (inflight.event.kind == RT_EVENT_SENT) {
            CHECK(inflight.event.send == &sends[k]);
            sends[k].head[1] = (uint8_t)++last[k];
            if (last[k] < FRAMES)
                rt_link_send(links[k], &sends[k]);
            continue;
        }
        REQUIRE(inflight.event.kind == RT_EVENT_RECEIVED && inflight.event.receive == &receives[k]);
        if (origin[k] < 0)
            origin[k] = receives[k].head[0];
        CHECK(origin[k] == receives[k].head[0] && receives[k].head[1] == got[k]);
        if (++got[k] < FRAMES)
            rt_link_receive(links[k], &receives[k]);
    }
    for (unsigned k = 0; k < LINKS; k++)
        for (unsigned j = 0; j < k; j++)
            CHECK(origin[j] != origin[k]);
    /* Endpoint 0 closes its first link; the second still works. */
    if (i == 0) {
        REQUIRE(seat_await(&inflight, links[1]));
        rt_link_close(links[0]);
        REQUIRE(seat_signal(&inflight, links[1]));
        REQUIRE(seat_await(&inflight, links[1]));
    } else {
        struct rt_link *other = NULL;
        for (unsigned k = 0; k < LINKS; k++)
            if (origin[k] == 1)
                other = links[k];
        REQUIRE(other && seat_signal(&inflight, other));
        REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
        size_t k = (size_t)((struct rt_link **)inflight.event.link->user - links);
        CHECK(origin[k] == 0);
        rt_link_close(inflight.event.link);
        REQUIRE(seat_await(&inflight, other));
        REQUIRE(seat_signal(&inflight, other));
    }
}

TEST(many_links_between_the_same_two) {
    stage_over_each(many_links_program);
}

/* One closes in the middle of everything: with frames that may not leave, that are leaving, that are half
 * received, and with events not taken. Its memory is its own again at once, and it hears nothing more. */
static void closing_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    enum { BYTES = 8 << 20 };
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    struct rt_send *sends = stage_room(3 * sizeof *sends);
    struct rt_receive *receives = stage_room(2 * sizeof *receives);
    uint8_t *body = stage_room(BYTES), *target = stage_room(BYTES);
    REQUIRE(link);
    memset(body, 0, BYTES);
    sends[0] = (struct rt_send){.channel = RT_CHANNEL_SECOND, .body = {{body, BYTES}}};
    sends[1] = (struct rt_send){.channel = RT_CHANNEL_BULK, .body = {{body, BYTES}}}; /* no receive for it */
    sends[2] = (struct rt_send){.channel = RT_CHANNEL_FIRST};
    receives[0] = (struct rt_receive){.channel = RT_CHANNEL_SECOND, .body = target, .body_room = BYTES};
    receives[1] = (struct rt_receive){.channel = RT_CHANNEL_FIRST};
    for (unsigned k = 0; k < 2; k++)
        rt_link_receive(link, &receives[k]);
    for (unsigned k = 3; k-- > 0;)
        rt_link_send(link, &sends[k]);
    if (i == 0) {
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 2e-3);
        rt_link_close(link);
    } else {
        REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
        CHECK(inflight.event.link == link && inflight.event.error.status != RT_OK);
        rt_link_send(link, &sends[1]); /* on a dead link: ignored */
        rt_link_receive(link, &receives[1]);
    }
    memset(sends, 0xff, 3 * sizeof *sends);
    memset(receives, 0xff, 2 * sizeof *receives);
    free(sends);
    free(receives);
    free(body);
    free(target);
    CHECK(seat_hears_nothing(&inflight, 0.1));
    if (i == 1)
        rt_link_close(link);
    CHECK(seat_hears_nothing(&inflight, 0.05));
}

TEST(no_event_after_close) {
    stage_over_each(closing_program);
}

/* Frames that were said to be sent arrive, although the link is closed then: the last words of a peer. */
static void last_words_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    enum { FRAMES = 5, BYTES = 300000 };
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    uint8_t *body = stage_room(FRAMES * BYTES);
    struct rt_send sends[FRAMES];
    struct rt_receive receives[FRAMES];
    REQUIRE(link);
    for (unsigned k = 0; k < FRAMES; k++) {
        uint8_t *part = body + k * (size_t)BYTES;
        unsigned channel = k == 0 ? RT_CHANNEL_CONTROL : RT_CHANNEL_FIRST;
        sends[k] = (struct rt_send){.channel = channel, .body = {{part, BYTES}}};
        receives[k] = (struct rt_receive){.channel = channel, .body = part, .body_room = BYTES};
        if (i == 1) {
            rt_link_receive(link, &receives[k]);
            continue;
        }
        stage_write(k, 0, BYTES, part);
        rt_link_send(link, &sends[k]);
    }
    if (i == 0) {
        REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_CONTROL], 1));
        REQUIRE(seat_reach(&inflight, &inflight.sent[RT_CHANNEL_FIRST], FRAMES - 1));
        rt_link_close(link);
        CHECK(seat_hears_nothing(&inflight, 0.05));
    } else {
        REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
        CHECK_MSG(inflight.arrivals == FRAMES, "%u of %d frames arrived", inflight.arrivals, FRAMES);
        for (unsigned k = 0; k < FRAMES; k++)
            CHECK(stage_match(k, receives[k].body, BYTES));
    }
    free(body);
}

TEST(what_was_sent_arrives_before_the_end) {
    stage_over_each(last_words_program);
}

/* A frame too large for its room closes the link, on both sides, and nothing else. */
static void too_large_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint), *second;
    uint8_t body[100] = {0};
    struct rt_send send = {.channel = RT_CHANNEL_FIRST, .body = {{body, 51}, {body, 50}}};
    struct rt_receive receive = {.channel = RT_CHANNEL_FIRST, .body = body, .body_room = 100};
    REQUIRE(link);
    if (i == 0) {
        second = seat_call(&inflight, stage->endpoints[1]->address);
        REQUIRE(second && seat_reach(&inflight, &inflight.connected, 2));
        rt_link_send(link, &send);
    } else {
        REQUIRE(seat_reach(&inflight, &inflight.accepted, 2));
        second = inflight.event.link;
        rt_link_receive(link, &receive);
    }
    REQUIRE(seat_reach(&inflight, &inflight.closed, 1));
    CHECK(inflight.event.link == link && inflight.received[RT_CHANNEL_FIRST] == 0);
    rt_link_close(link);
    if (i == 0) {
        send.body[0].bytes = 50;
        rt_link_send(second, &send);
        REQUIRE(seat_await(&inflight, second));
    } else {
        rt_link_receive(second, &receive);
        REQUIRE(seat_reach(&inflight, &inflight.received[RT_CHANNEL_FIRST], 1));
        CHECK(receive.body_bytes == 100);
        REQUIRE(seat_signal(&inflight, second));
    }
}

TEST(a_frame_too_large_closes_its_link) {
    stage_over_each(too_large_program);
}

static void nowhere_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight = {.stage = stage, .endpoint = endpoint};
    struct rt_error err = {.text = ""};
    struct rt_link *link = NULL;
    struct rt_send send = {.channel = RT_CHANNEL_FIRST};
    struct rt_receive receive = {.channel = RT_CHANNEL_FIRST};
    if (i != 0)
        return;
    double until = rt_endpoint_now(endpoint) + 0.5;
    CHECK_OK(rt_endpoint_connect(endpoint, stage->nowhere, until, &link, &err));
    rt_link_send(link, &send);
    rt_link_receive(link, &receive);
    REQUIRE(seat_take(&inflight));
    CHECK(inflight.event.kind == RT_EVENT_CLOSED && inflight.event.link == link);
    CHECK(rt_endpoint_now(endpoint) <= until + (stage->exact ? 0 : 2));
    rt_link_close(link);
    CHECK(seat_hears_nothing(&inflight, 0.02));
    CHECK(rt_endpoint_connect(endpoint, "not an address", until, &link, &err) != RT_OK && err.text[0]);
    CHECK_OK(rt_endpoint_connect(endpoint, stage->nowhere, until + 10, &link, &err));
    rt_link_close(link); /* before it could fail */
    CHECK(seat_hears_nothing(&inflight, 0.02));
}

TEST(connecting_to_nobody_fails_in_time) {
    stage_over_each(nowhere_program);
}

/* ---- waiting ---- */

static void *wake_from_outside(void *endpoint) {
    rt_endpoint_wake(endpoint);
    return NULL;
}

static void wake_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight = {.stage = stage, .endpoint = endpoint};
    if (i == 1) {
        rt_endpoint_sleep(endpoint, rt_endpoint_now(endpoint) + 0.05);
        rt_endpoint_wake(stage->endpoints[0]); /* which waits */
        return;
    }
    REQUIRE(seat_take(&inflight));
    CHECK(inflight.woken == 1 && inflight.event.link == NULL);
    CHECK(seat_hears_nothing(&inflight, 0.02));
    /* Before the wait: the next one returns. Twice before it: still once. */
    for (int k = 0; k < 2; k++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, wake_from_outside, endpoint) == 0);
        pthread_join(thread, NULL);
    }
    REQUIRE(rt_endpoint_wait(endpoint, 0, &inflight.event));
    CHECK(inflight.event.kind == RT_EVENT_WOKEN);
    CHECK(seat_hears_nothing(&inflight, 0.02));
}

TEST(anybody_may_wake_an_endpoint) {
    stage_over_each(wake_program);
}

/* Two that are linked and have nothing to say sleep, for as long as they were told to. */
static void idle_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct inflight inflight;
    struct rt_link *link = seat_open(&inflight, stage, i, endpoint);
    REQUIRE(link);
    double start = rt_endpoint_now(endpoint), busy = rt_clock_process();
    CHECK(seat_hears_nothing(&inflight, 0.3));
    double seconds = rt_endpoint_now(endpoint) - start;
    CHECK_MSG(seconds > 0.2999 && seconds < 2, "waited for %g s", seconds);
    start += seconds;
    rt_endpoint_sleep(endpoint, start + 0.1);
    seconds = rt_endpoint_now(endpoint) - start;
    CHECK_MSG(seconds > 0.0999 && seconds < 2, "slept for %g s", seconds);
    CHECK_MSG(rt_clock_process() - busy < 0.1, "%g s of the processor for waiting",
              rt_clock_process() - busy);
    start = rt_endpoint_now(endpoint);
    CHECK(seat_hears_nothing(&inflight, -1)); /* in the past: does not sleep */
    rt_endpoint_sleep(endpoint, start - 1);
    CHECK(rt_endpoint_now(endpoint) - start < 0.2);
    if (i == 0)
        REQUIRE(seat_signal(&inflight, link));
    else
        REQUIRE(seat_await(&inflight, link));
}

TEST(waiting_sleeps) {
    stage_over_each(idle_program);
}

/* ---- everything together ---- */

enum { SOAK_FRAMES = 500, SOAK_SLOTS = 3, SOAK_ROOM = 150000 };

static size_t soak_size(unsigned channel, unsigned frame, size_t from) {
    uint32_t words[4];
    rt_rng_block(7, RT_PURPOSE_SHUFFLE, (uint32_t)from, frame, channel, words);
    return words[0] % 16 == 0 ? words[1] % SOAK_ROOM : words[1] % 3000;
}

struct soak {
    struct inflight inflight;
    size_t i;
    struct rt_link *link;
    struct rt_send sends[RT_CHANNELS][SOAK_SLOTS];
    struct rt_receive receives[RT_CHANNELS][SOAK_SLOTS], *held[RT_CHANNELS];
    unsigned begun[RT_CHANNELS];
};

static void soak_send(struct soak *soak, struct rt_send *send) {
    unsigned frame = soak->begun[send->channel]++;
    size_t size = soak_size(send->channel, frame, soak->i), cut = frame % 3 ? size : size / 2;
    uint8_t *body = send->user;
    stage_write(frame, 0, size, body);
    send->head_bytes = 4 + frame % 90;
    stage_write(frame, 0, send->head_bytes, send->head);
    send->body[0] = (struct rt_piece){body, cut};
    send->body[1] = (struct rt_piece){body + cut, size - cut};
    rt_link_send(soak->link, send);
}

static void soak_got(struct soak *soak, struct rt_receive *receive) {
    unsigned c = receive->channel, frame = soak->inflight.received[c] - 1;
    CHECK_MSG(receive->body_bytes == soak_size(c, frame, !soak->i) && receive->head_bytes == 4 + frame % 90 &&
                  stage_match(frame, receive->head, receive->head_bytes) &&
                  stage_match(frame, receive->body, receive->body_bytes),
              "frame %u of channel %u is not what was sent", frame, c);
    /* Now and then a receive is posted again only after the next one. */
    if (soak->held[c])
        rt_link_receive(soak->link, soak->held[c]);
    soak->held[c] = frame % 5 == 0 ? receive : NULL;
    if (!soak->held[c])
        rt_link_receive(soak->link, receive);
}

static bool soak_complete(const struct inflight *inflight) {
    bool complete = true;
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        complete &= inflight->sent[c] >= SOAK_FRAMES && inflight->received[c] >= SOAK_FRAMES;
    return complete;
}

static void soak_program(struct stage *stage, size_t i, struct rt_endpoint *endpoint) {
    struct soak *soak = stage_room(sizeof *soak);
    *soak = (struct soak){.i = i};
    REQUIRE(soak->link = seat_open(&soak->inflight, stage, i, endpoint));
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        for (unsigned k = 0; k < SOAK_SLOTS; k++) {
            soak->receives[c][k] =
                (struct rt_receive){.channel = c, .body = stage_room(SOAK_ROOM), .body_room = SOAK_ROOM};
            rt_link_receive(soak->link, &soak->receives[c][k]);
            soak->sends[c][k] = (struct rt_send){.channel = c, .user = stage_room(SOAK_ROOM)};
            soak_send(soak, &soak->sends[c][k]);
        }
    while (!soak_complete(&soak->inflight)) {
        REQUIRE(seat_take(&soak->inflight));
        const struct rt_event *event = &soak->inflight.event;
        REQUIRE(event->kind == RT_EVENT_SENT || event->kind == RT_EVENT_RECEIVED);
        if (event->kind == RT_EVENT_RECEIVED)
            soak_got(soak, event->receive);
        else if (soak->begun[event->send->channel] < SOAK_FRAMES)
            soak_send(soak, event->send);
    }
    /* One more from 1, when it has everything; then 0 may close. */
    unsigned *last =
        i == 0 ? &soak->inflight.received[RT_CHANNEL_CONTROL] : &soak->inflight.sent[RT_CHANNEL_CONTROL];
    if (i == 1)
        soak_send(soak, &soak->sends[RT_CHANNEL_CONTROL][0]);
    REQUIRE(seat_reach(&soak->inflight, last, SOAK_FRAMES + 1));
    if (i == 0)
        rt_link_close(soak->link);
    else
        REQUIRE(seat_reach(&soak->inflight, &soak->inflight.closed, 1));
    for (unsigned c = 0; c < RT_CHANNELS; c++)
        for (unsigned k = 0; k < SOAK_SLOTS; k++) {
            free(soak->sends[c][k].user);
            free(soak->receives[c][k].body);
        }
    free(soak);
}

TEST(thousands_of_frames_both_ways) {
    stage_over_each(soak_program);
}

TEST_MAIN()
