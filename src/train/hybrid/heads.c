/* The master's talks with the heads of the other rings; see talk.h. */
#include "train/hybrid/talk.h"

#include "base/memory.h"
#include "exchange/crew.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the master has with one ring. */
struct desk {
    struct rt_talk talk;
    uint16_t number; /* of the head */
    /* Tickets, ever rising: ticket n, counted from 0, is in tickets[n % RT_HEAD_AHEAD], its result in
     * results[n % RT_CREW_RESULTS]. */
    uint64_t given, told, done, taken;
    uint64_t tickets[RT_HEAD_AHEAD];
    struct rt_done *results;
    bool resting; /* it has said so after its last ticket */
    /* To be said, as soon as the talk has room. */
    bool begin, ask, stop;
    bool asked, stopped; /* said, and not answered */
    bool goodbye;
    bool has_rows;
    struct rt_metrics_row *rows; /* [places] */
};

struct rt_heads {
    struct rt_endpoint *endpoint;
    uint16_t rings, places;
    struct rt_link **links; /* borrowed */
    struct desk *desks;     /* [rings]; the first is not used */
    bool rest;              /* the master waits for their rest too */
};

rt_status rt_heads_create(struct rt_endpoint *endpoint, uint32_t run, uint16_t rings, uint16_t places,
                          struct rt_link **links, struct rt_heads **heads, struct rt_error *err) {
    struct rt_heads *made;
    rt_status status = rt_alloc(1, sizeof *made, "the talks with other rings", &made, err);
    if (status != RT_OK)
        return status;
    made->endpoint = endpoint;
    made->rings = rings;
    made->places = places;
    made->links = links;
    status = rt_alloc(rings, sizeof *made->desks, "the talks with other rings", &made->desks, err);
    for (uint16_t i = 1; i < rings && status == RT_OK; i++) {
        struct desk *desk = &made->desks[i];
        desk->number = (uint16_t)(i * places);
        desk->resting = true;
        status = rt_alloc(places, sizeof *desk->rows, "the metrics of other rings", &desk->rows, err);
        if (status == RT_OK)
            status = rt_alloc(RT_CREW_RESULTS, sizeof *desk->results, "the results of other rings",
                              &desk->results, err);
        if (status == RT_OK)
            status = rt_talk_open(links[i], &desk->talk, err);
        desk->talk.run = run;
    }
    if (status != RT_OK)
        rt_heads_destroy(made);
    else
        *heads = made;
    return status;
}

void rt_heads_destroy(struct rt_heads *heads) {
    if (!heads)
        return;
    for (uint16_t i = 1; i < heads->rings && heads->desks; i++) {
        struct desk *desk = &heads->desks[i];
        if (desk->talk.link)
            heads->links[i] = NULL;
        rt_talk_close(&desk->talk);
        free(desk->rows);
        free(desk->results);
    }
    free(heads->desks);
    free(heads);
}

/* ---- what goes out ---- */

static void send_all(struct desk *desk) {
    struct rt_talk *talk = &desk->talk;
    while (!talk->closed && (desk->begin || desk->told < desk->given || desk->ask || desk->stop) &&
           rt_talk_body(talk)) {
        struct rt_message message = {0};
        if (desk->begin) {
            message = (struct rt_message){.type = RT_MESSAGE_PULL, .flags = RT_FLAG_REST};
            desk->begin = false;
        } else if (desk->told < desk->given) {
            message = (struct rt_message){.type = RT_MESSAGE_TICKET,
                                          .micro = desk->tickets[desk->told++ % RT_HEAD_AHEAD]};
        } else if (desk->ask) {
            message.type = RT_MESSAGE_METRICS;
            desk->ask = false;
        } else {
            message.type = RT_MESSAGE_STOP;
            desk->stop = false;
        }
        rt_talk_send(talk, &message, 0);
    }
}

bool rt_heads_give(struct rt_heads *heads, uint16_t ring, uint64_t batch) {
    struct desk *desk = &heads->desks[ring];
    if (desk->given - desk->done == RT_HEAD_AHEAD || desk->given - desk->taken == RT_CREW_RESULTS)
        return false;
    desk->tickets[desk->given++ % RT_HEAD_AHEAD] = batch;
    desk->resting = false;
    send_all(desk);
    return true;
}

void rt_heads_begin(struct rt_heads *heads) {
    for (uint16_t i = 1; i < heads->rings; i++) {
        heads->desks[i].begin = true;
        send_all(&heads->desks[i]);
    }
}

void rt_heads_ask(struct rt_heads *heads) {
    for (uint16_t i = 1; i < heads->rings; i++) {
        struct desk *desk = &heads->desks[i];
        if (desk->asked)
            continue;
        desk->ask = desk->asked = true;
        desk->has_rows = false;
        send_all(desk);
    }
}

void rt_heads_stop(struct rt_heads *heads) {
    for (uint16_t i = 1; i < heads->rings; i++) {
        heads->desks[i].stop = heads->desks[i].stopped = true;
        send_all(&heads->desks[i]);
    }
}

/* ---- what comes in ---- */

static rt_status take_done(struct desk *desk, const struct rt_message *message, struct rt_error *err) {
    if (desk->done == desk->told || message->micro != desk->tickets[desk->done % RT_HEAD_AHEAD] ||
        message->update > message->rows || !isfinite(message->value))
        return rt_fail(err, RT_BAD_INPUT, "its result of batch %llu makes no sense",
                       (unsigned long long)message->micro);
    desk->results[desk->done++ % RT_CREW_RESULTS] = (struct rt_done){
        .batch = message->micro, .rows = message->rows, .correct = message->update, .loss = message->value};
    return RT_OK;
}

/* A ticket may have been on its way when it was said. */
static rt_status take_rest(struct desk *desk, const struct rt_message *message, struct rt_error *err) {
    if (!(message->flags & RT_FLAG_REST))
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    desk->resting = desk->done == desk->given &&
                    message->micro == (desk->done ? desk->tickets[(desk->done - 1) % RT_HEAD_AHEAD] : 0);
    return RT_OK;
}

static rt_status take_metrics(struct desk *desk, size_t places, struct rt_error *err) {
    struct rt_metrics metrics;
    if (!desk->asked)
        return rt_fail(err, RT_BAD_INPUT, "a metrics message was not expected");
    rt_status status = rt_metrics_decode(desk->talk.body, desk->talk.body_bytes, &metrics, err);
    if (status != RT_OK)
        return status;
    bool fits = metrics.count == places;
    for (size_t i = 0; fits && i < places; i++)
        fits = metrics.rows[i].node == desk->number + i;
    if (fits)
        memcpy(desk->rows, metrics.rows, places * sizeof *desk->rows);
    rt_metrics_deinit(&metrics);
    desk->asked = false;
    desk->has_rows = true;
    return fits ? RT_OK : rt_fail(err, RT_BAD_INPUT, "its metrics are not those of its ring");
}

/* The end of the run, in the node's own words. */
static rt_status take_error(const struct rt_heads *heads, const struct desk *desk, uint16_t *lost, bool *over,
                            struct rt_error *err) {
    struct rt_error_message error;
    rt_status status = rt_error_decode(desk->talk.body, desk->talk.body_bytes, &error, err);
    if (status != RT_OK)
        return status;
    *over = true;
    *lost = 0;
    if (error.status == RT_DIVERGED)
        return rt_fail(err, RT_DIVERGED, "%s", error.text);
    /* A node that ends is lost to the others as well, or it says who is. */
    *lost = error.node > 0 && error.node < heads->rings * heads->places ? error.node : desk->number;
    return rt_fail(err, RT_FAILED, "%s", error.text);
}

static rt_status take_message(const struct rt_heads *heads, struct desk *desk, uint16_t *lost, bool *over,
                              struct rt_error *err) {
    const struct rt_message *message = &desk->talk.message;
    switch (message->type) {
    case RT_MESSAGE_ERROR:
        return take_error(heads, desk, lost, over, err);
    case RT_MESSAGE_DONE:
        return take_done(desk, message, err);
    case RT_MESSAGE_PULL:
        return take_rest(desk, message, err);
    case RT_MESSAGE_METRICS:
        return take_metrics(desk, heads->places, err);
    case RT_MESSAGE_STOP:
        desk->goodbye = true;
        return desk->stopped ? RT_OK : rt_fail(err, RT_BAD_INPUT, "it stopped without being asked to");
    default:
        return rt_fail(err, RT_BAD_INPUT, "a %s message was not expected", rt_message_name(message->type));
    }
}

static rt_status take_messages(const struct rt_heads *heads, struct desk *desk, uint16_t *lost,
                               struct rt_error *err) {
    struct rt_talk *talk = &desk->talk;
    while (talk->ready) {
        bool over = false;
        const rt_status status = take_message(heads, desk, lost, &over, err);
        if (status != RT_OK) {
            if (over)
                return status;
            *lost = desk->number;
            return rt_fail_prefix(err, RT_FAILED, "node %u (%s)", desk->number, talk->link->peer);
        }
        rt_talk_next(talk);
    }
    if (!talk->dead || desk->goodbye)
        return RT_OK;
    *lost = desk->number;
    return rt_fail(err, RT_FAILED, "node %u: %s", desk->number, rt_link_reason(talk->link, &talk->error));
}

static bool take_event(void *self, const struct rt_event *event, uint16_t *lost, rt_status *status,
                       struct rt_error *err) {
    const struct rt_heads *heads = self;
    for (uint16_t i = 1; i < heads->rings; i++) {
        struct desk *desk = &heads->desks[i];
        if (!rt_talk_event(&desk->talk, event))
            continue;
        *status = take_messages(heads, desk, lost, err);
        send_all(desk);
        return true;
    }
    return false;
}

/* ---- what is asked ---- */

size_t rt_heads_held(const struct rt_heads *heads, uint16_t ring) {
    return (size_t)(heads->desks[ring].given - heads->desks[ring].done);
}

size_t rt_heads_waiting(const struct rt_heads *heads, uint16_t ring) {
    return (size_t)(heads->desks[ring].done - heads->desks[ring].taken);
}

bool rt_heads_take(struct rt_heads *heads, uint16_t ring, struct rt_done *done) {
    struct desk *desk = &heads->desks[ring];
    if (desk->taken == desk->done)
        return false;
    *done = desk->results[desk->taken++ % RT_CREW_RESULTS];
    return true;
}

bool rt_heads_rest(const struct rt_heads *heads) {
    for (uint16_t i = 1; i < heads->rings; i++)
        if (!heads->desks[i].resting)
            return false;
    return true;
}

bool rt_heads_metrics(const struct rt_heads *heads, struct rt_metrics_row *rows) {
    for (uint16_t i = 1; i < heads->rings; i++)
        if (!heads->desks[i].has_rows)
            return false;
    for (uint16_t i = 1; i < heads->rings; i++)
        memcpy(rows + heads->desks[i].number, heads->desks[i].rows, heads->places * sizeof *rows);
    return true;
}

void rt_heads_expect_rest(struct rt_heads *heads, bool rest) {
    heads->rest = rest;
}

static bool waits_for(const void *self, uint16_t ring) {
    const struct rt_heads *heads = self;
    const struct desk *desk = &heads->desks[ring];
    return ring > 0 && (desk->done < desk->given || desk->asked || (heads->rest && !desk->resting));
}

/* All have answered, or hung up. */
static bool are_gone(void *self) {
    const struct rt_heads *heads = self;
    for (uint16_t i = 1; i < heads->rings; i++)
        if (!heads->desks[i].goodbye && !heads->desks[i].talk.closed)
            return false;
    return true;
}

struct rt_group_talk rt_heads_talk(struct rt_heads *heads) {
    return (struct rt_group_talk){
        .self = heads, .event = take_event, .waits_for = waits_for, .may_leave = are_gone};
}

static bool are_closed(const struct rt_heads *heads) {
    for (uint16_t i = 1; i < heads->rings; i++)
        if (!heads->desks[i].talk.closed)
            return false;
    return true;
}

void rt_heads_fail(struct rt_heads *heads, rt_status status, const char *sentence, double seconds) {
    const double until = rt_endpoint_now(heads->endpoint) + seconds;
    struct rt_event event;
    for (uint16_t i = 1; i < heads->rings; i++)
        if (!heads->desks[i].talk.closed)
            rt_talk_refuse(&heads->desks[i].talk, status, 0, sentence);
    while (!are_closed(heads) && rt_endpoint_wait(heads->endpoint, until, &event))
        for (uint16_t i = 1; i < heads->rings; i++)
            if (rt_talk_event(&heads->desks[i].talk, &event) && heads->desks[i].talk.ready)
                rt_talk_next(&heads->desks[i].talk); /* too late */
}
