/* Making a link between two nodes, and measuring it; see dial.h. */
#include "cluster/dial.h"

#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end that dials ---- */

static void dial_fail(struct rt_dial *dial, const struct rt_error *why) {
    dial->stage = RT_DIAL_FAILED;
    dial->error = *why;
}

/* The conversation has ended: who, and why. */
static void dial_fail_talk(struct rt_dial *dial) {
    struct rt_error err = dial->talk.error;
    rt_fail_prefix(&err, err.status, "%s", dial->talk.link->peer);
    dial_fail(dial, &err);
}

static void dial_say_join(struct rt_dial *dial, uint32_t probe_bytes) {
    uint8_t *body = rt_talk_body(&dial->talk);
    size_t bytes = 0;
    struct rt_join join = {
        .peer = dial->settings.to, .label = dial->settings.hello.label, .probe_bytes = probe_bytes};
    const struct rt_message message = {.type = RT_MESSAGE_JOIN, .source = dial->settings.hello.from};
    if (body)
        bytes = rt_join_encode(&join, body, RT_MAX_CONTROL);
    rt_talk_next(&dial->talk);
    dial->sent = rt_endpoint_now(dial->endpoint);
    rt_talk_send(&dial->talk, &message, bytes);
}

static void dial_say_joined(struct rt_talk *talk, uint16_t own, const struct rt_joined *joined) {
    uint8_t *body = rt_talk_body(talk);
    size_t bytes = body ? rt_joined_encode(joined, body, RT_MAX_CONTROL) : 0;
    rt_talk_send(talk, &(struct rt_message){.type = RT_MESSAGE_JOINED, .source = own}, bytes);
}

/* The message that came last is not left: so nothing is posted when this one has gone. */
static void dial_say_last(struct rt_dial *dial) {
    struct rt_joined joined = {.peer = dial->settings.to,
                               .label = dial->settings.hello.label,
                               .latency = dial->latency,
                               .bandwidth = dial->bandwidth};
    dial_say_joined(&dial->talk, dial->settings.hello.from, &joined);
    dial->stage = RT_DIAL_LAST;
}

static void dial_send_frame(struct rt_dial *dial) {
    rt_talk_next(&dial->talk);
    dial->frame = (struct rt_send){.channel = RT_CHANNEL_BULK,
                                   .head_bytes = RT_MESSAGE_HEAD,
                                   .body = {{dial->memory, dial->frame_bytes}}};
    struct rt_message head = {
        .type = RT_MESSAGE_JOIN, .source = dial->settings.hello.from, .run = dial->settings.run};
    rt_message_encode(&head, dial->frame.head);
    dial->sent = rt_endpoint_now(dial->endpoint);
    dial->framing = true;
    rt_link_send(dial->talk.link, &dial->frame);
}

/* Seconds after which a link is slow enough to be known by the pings so far, and that a frame may take. */
static const double ping_seconds = 0.4, probe_seconds = 0.25;

/* The shortest time counts: what else happened on the machines only adds to it. A frame costs a round trip
 * and its bytes; where a noisy measurement leaves nothing for the bytes, a quarter of the time is theirs. */
static void dial_measure(struct rt_dial *dial) {
    const double bytes_take = fmax(dial->best - dial->round_trip, dial->best / 4);
    dial->latency = dial->round_trip / 2;
    dial->bandwidth = bytes_take > 0 ? dial->frame_bytes / bytes_take : 0;
}

/* Larger frames tell more. */
static void dial_enlarge(struct rt_dial *dial) {
    const double most = dial->settings.probe_bytes;
    const double suits = dial->bandwidth > 0 ? fmin(most, dial->bandwidth * probe_seconds) : most;
    if (suits < dial->frame_bytes + 1.0)
        return;
    dial->frame_bytes = (uint32_t)suits;
    dial->best = INFINITY;
}

static void dial_begin_stage(struct rt_dial *dial, enum rt_dial_stage stage, unsigned count) {
    dial->stage = stage;
    dial->left = count;
    dial->best = INFINITY;
}

/* An answer came: the next step. */
static void dial_move_on(struct rt_dial *dial) {
    const double now = rt_endpoint_now(dial->endpoint);
    if (dial->stage == RT_DIAL_PING || dial->stage == RT_DIAL_PROBE) {
        dial->best = fmin(dial->best, now - dial->sent);
        dial->left--;
    }
    switch (dial->stage) {
    case RT_DIAL_HELLO:
        if (!dial->settings.probe_bytes) {
            dial_say_last(dial);
            break;
        }
        dial_begin_stage(dial, RT_DIAL_PING, RT_DIAL_PINGS);
        dial->began = now;
        dial_say_join(dial, 0);
        break;
    case RT_DIAL_PING:
        if (dial->left && now < dial->began + ping_seconds) {
            dial_say_join(dial, 0);
            break;
        }
        dial->round_trip = dial->best;
        dial->stage = RT_DIAL_ANNOUNCE;
        dial_say_join(dial, dial->settings.probe_bytes);
        break;
    case RT_DIAL_ANNOUNCE:
        dial_begin_stage(dial, RT_DIAL_PROBE, RT_DIAL_PROBES);
        dial->frame_bytes = dial->settings.probe_bytes < RT_DIAL_FIRST_PROBE ? dial->settings.probe_bytes
                                                                             : RT_DIAL_FIRST_PROBE;
        dial_send_frame(dial);
        break;
    case RT_DIAL_PROBE:
        dial_measure(dial);
        if (!dial->left) {
            dial_say_last(dial);
            break;
        }
        dial_enlarge(dial);
        if (!dial->framing) /* The answer to a frame can be here before its own SENT. */
            dial_send_frame(dial);
        break;
    default:
        break;
    }
}

static void dial_take_message(struct rt_dial *dial) {
    struct rt_error err;
    uint16_t type = dial->stage == RT_DIAL_HELLO ? RT_MESSAGE_WELCOME : RT_MESSAGE_JOINED;
    rt_status status = rt_talk_expect(&dial->talk, type, dial->talk.link->peer, &err);
    if (status == RT_OK && dial->stage == RT_DIAL_HELLO) {
        status = rt_welcome_decode(dial->talk.body, dial->talk.body_bytes, &dial->welcome, &err);
        if (status != RT_OK)
            rt_fail_prefix(&err, status, "%s", dial->talk.link->peer);
    }
    if (status == RT_OK)
        dial_move_on(dial);
    else
        dial_fail(dial, &err);
}

/* A link that cannot be made is given up by the network a moment before we do, so that the reason is known.
 */
static const double moment = 0.25;

rt_status rt_dial_start(struct rt_endpoint *endpoint, const struct rt_dial_settings *settings,
                        struct rt_dial *dial, struct rt_error *err) {
    struct rt_link *link = NULL;
    uint32_t probe = settings->probe_bytes < RT_DIAL_MAX_PROBE ? settings->probe_bytes : RT_DIAL_MAX_PROBE;
    *dial = (struct rt_dial){.settings = *settings, .endpoint = endpoint};
    dial->settings.probe_bytes = probe;
    dial->until = settings->until + moment;
    rt_status status = rt_alloc(probe, 1, "the measurement of a link", &dial->memory, err);
    if (status == RT_OK)
        status = rt_endpoint_connect(endpoint, settings->address, settings->until, &link, err);
    if (status == RT_OK)
        status = rt_talk_open(link, &dial->talk, err);
    if (status != RT_OK) {
        rt_link_close(link);
        free(dial->memory);
        *dial = (struct rt_dial){0};
        return status;
    }
    dial->settings.address = NULL;
    dial->talk.run = settings->run;
    dial->stage = RT_DIAL_HELLO;
    size_t bytes = rt_hello_encode(&settings->hello, rt_talk_body(&dial->talk), RT_MAX_CONTROL);
    rt_talk_send(&dial->talk, &(struct rt_message){.type = RT_MESSAGE_HELLO, .source = settings->hello.from},
                 bytes);
    return RT_OK;
}

static bool dial_is_busy(const struct rt_dial *dial) {
    return dial->stage >= RT_DIAL_HELLO && dial->stage <= RT_DIAL_LAST;
}

bool rt_dial_event(struct rt_dial *dial, const struct rt_event *event) {
    if (dial->stage == RT_DIAL_IDLE || event->link != dial->talk.link)
        return false;
    bool waits = dial->talk.ready && dial->stage == RT_DIAL_PROBE; /* for the frame before to be given back */
    bool came = dial->talk.ready;
    if (event->kind == RT_EVENT_SENT && event->send == &dial->frame)
        dial->framing = false;
    else if (!rt_talk_event(&dial->talk, event))
        return false;
    if (!dial_is_busy(dial)) {
        /* what comes of a link that is made, or has failed: */
        if (dial->talk.dead)
            dial_fail_talk(dial);
        return true;
    }
    if (dial->talk.ready && !came)
        dial_take_message(dial);
    else if (waits && !dial->framing)
        dial_send_frame(dial);
    if (dial->stage == RT_DIAL_LAST && !dial->framing && rt_talk_idle(&dial->talk))
        dial->stage = RT_DIAL_DONE;
    if (dial->talk.dead && dial->stage != RT_DIAL_FAILED)
        dial_fail_talk(dial);
    return true;
}

void rt_dial_check(struct rt_dial *dial) {
    struct rt_error err;
    if (!dial_is_busy(dial) || rt_endpoint_now(dial->endpoint) < dial->until)
        return;
    rt_fail(&err, RT_FAILED, "%s: does not answer", dial->talk.link->peer);
    dial_fail(dial, &err);
}

struct rt_link *rt_dial_take(struct rt_dial *dial) {
    struct rt_link *link = rt_talk_release(&dial->talk);
    free(dial->memory);
    *dial = (struct rt_dial){0};
    return link;
}

void rt_dial_cancel(struct rt_dial *dial) {
    rt_talk_close(&dial->talk);
    free(dial->memory);
    *dial = (struct rt_dial){0};
}

/* ---- the end that accepted ---- */

static void dial_post(struct rt_echo *echo, struct rt_talk *talk) {
    echo->receive = (struct rt_receive){
        .channel = RT_CHANNEL_BULK, .body = echo->memory, .body_room = echo->bytes, .user = talk};
    rt_link_receive(talk->link, &echo->receive);
}

rt_status rt_echo_message(struct rt_echo *echo, struct rt_talk *talk, uint16_t own, struct rt_error *err) {
    const char *who = talk->link->peer;
    const uint16_t peer = talk->message.source;
    struct rt_join join;
    if (talk->message.type == RT_MESSAGE_JOINED) {
        if (echo->left)
            return rt_fail(err, RT_BAD_INPUT, "%s ended the measurement of a link too early", who);
        echo->done = true;
        return RT_OK;
    }
    rt_status status = rt_talk_expect(talk, RT_MESSAGE_JOIN, who, err);
    if (status == RT_OK) {
        status = rt_join_decode(talk->body, talk->body_bytes, &join, err);
        if (status != RT_OK)
            rt_fail_prefix(err, status, "%s", who);
    }
    if (status == RT_OK && join.probe_bytes && (echo->memory || join.probe_bytes > RT_DIAL_MAX_PROBE))
        status = rt_fail(err, RT_BAD_INPUT,
                         "%s asked for too many measurements of a link, or for too large a one", who);
    if (status == RT_OK && join.probe_bytes)
        status = rt_alloc(join.probe_bytes, 1, "the measurement of a link", &echo->memory, err);
    if (status != RT_OK)
        return status;
    rt_talk_next(talk);
    if (join.probe_bytes) {
        echo->bytes = join.probe_bytes;
        echo->left = RT_DIAL_PROBES;
        dial_post(echo, talk);
    }
    dial_say_joined(talk, own, &(struct rt_joined){.peer = peer, .label = join.label});
    return RT_OK;
}

bool rt_echo_event(struct rt_echo *echo, struct rt_talk *talk, uint16_t own, const struct rt_event *event) {
    if (event->kind != RT_EVENT_RECEIVED || event->receive != &echo->receive)
        return false;
    if (--echo->left)
        dial_post(echo, talk);
    dial_say_joined(talk, own, &(struct rt_joined){.peer = 0});
    return true;
}

void rt_echo_deinit(struct rt_echo *echo) {
    free(echo->memory);
    *echo = (struct rt_echo){0};
}
